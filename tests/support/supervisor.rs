//! An application that is started anew when it ends, as a kubelet does it, and at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::program::command;
use super::wait::wait_until;

/// An application, and who starts it anew when it ends. Both end with their test.
#[derive(Debug)]
pub(crate) struct Supervisor {
    running: Arc<Mutex<Option<Child>>>,
    starts: PathBuf,
}

impl Supervisor {
    /// The script is found by this folder's name as the last of its arguments.
    pub(crate) fn start(folder: &Path, script: &str) -> Self {
        let starts = folder.join("starts");
        let script = format!("echo $$ >> '{}'; {script}", starts.display());
        let begin = {
            let marker = folder.to_str().unwrap().to_owned();
            move || {
                let mut command = command("sh");
                command.args(["-c", &script, &marker]).stdout(Stdio::null());
                command.spawn().unwrap()
            }
        };
        let running = Arc::new(Mutex::new(Some(begin())));
        let kept = Arc::clone(&running);
        thread::spawn(move || {
            loop {
                let has_ended = match kept.lock().unwrap().as_mut() {
                    Some(child) => child.try_wait().unwrap().is_some(),
                    None => return,
                };
                if has_ended {
                    *kept.lock().unwrap() = Some(begin());
                }
                thread::yield_now();
            }
        });
        let supervisor = Self { running, starts };
        wait_until("the application has started", || supervisor.starts() == 1);
        supervisor
    }

    /// How often it was started.
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
