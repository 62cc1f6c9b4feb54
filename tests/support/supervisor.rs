//! An application that is restarted when it exits, as by a kubelet, but without a delay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::program::command;
use super::wait::wait_until;

/// An application and a thread that restarts it. Both end with their test.
#[derive(Debug)]
pub(crate) struct Supervisor {
    running: Arc<Mutex<Option<Child>>>,
    is_held: Arc<AtomicBool>,
    starts: PathBuf,
}

impl Supervisor {
    /// Runs a shell script as the application, which first reads the volumes in this folder. Its last argument is
    /// the folder, by which podnudge finds it.
    pub(crate) fn start(folder: &Path, script: &str) -> Self {
        let starts = folder.join("starts");
        let reads = "cat \"$0\"/*/..data/* >/dev/null 2>&1";
        let script = format!("echo $$ >> '{}'; {reads}; {script}", starts.display());
        let begin = {
            let marker = folder.to_str().unwrap().to_owned();
            move || {
                let mut command = command("sh");
                command.args(["-c", &script, &marker]).stdout(Stdio::null());
                command.spawn().unwrap()
            }
        };
        let running = Arc::new(Mutex::new(Some(begin())));
        let is_held = Arc::new(AtomicBool::new(false));
        let (kept, waits) = (Arc::clone(&running), Arc::clone(&is_held));
        thread::spawn(move || {
            while has_ended(&kept) {
                wait_until("it may be restarted", || !waits.load(Ordering::Relaxed));
                let mut running = kept.lock().unwrap();
                if running.is_some() {
                    *running = Some(begin());
                }
            }
        });
        let supervisor = Self { running, is_held, starts };
        wait_until("the application has started", || supervisor.starts() == 1);
        supervisor
    }

    /// Whether it waits before it restarts the application, as a kubelet does in its back-off.
    pub(crate) fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// How often the application was started.
    pub(crate) fn starts(&self) -> usize {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }
}

/// Waits until the application has ended, and returns whether it is wanted any more.
fn has_ended(running: &Mutex<Option<Child>>) -> bool {
    let Some(pid) = running.lock().unwrap().as_ref().map(Child::id) else { return false };
    let pid = Pid::from_raw(pid.cast_signed());
    // It is not reaped here, so that its pid stays its own. At the end of the test there may be no such child any more.
    match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
        Ok(_) | Err(Errno::ECHILD) => {}
        Err(error) => panic!("cannot wait for the application: {error}"),
    }
    match running.lock().unwrap().as_mut() {
        Some(child) => {
            child.wait().unwrap();
            true
        }
        None => false,
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.lock().unwrap().take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
