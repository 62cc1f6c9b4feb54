//! An application that is restarted when it exits, as by a kubelet, but without a delay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

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
            loop {
                let has_ended = match kept.lock().unwrap().as_mut() {
                    Some(child) => child.try_wait().unwrap().is_some(),
                    None => return,
                };
                if has_ended && !waits.load(Ordering::Relaxed) {
                    *kept.lock().unwrap() = Some(begin());
                }
                thread::yield_now();
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

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.lock().unwrap().take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
