//! The real podnudge binary, observed by its log.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::http::try_to_ask;
use super::program::podnudge;
use super::wait::{LIMIT, is_within, wait_until};

/// The log events of a rollout that succeeded, with or without evidence that the application runs the
/// content.
pub(crate) const ROLLED_OUT: &str = "applied|delivered|unread";

/// The log events of the first look at the volumes of a rule.
pub(crate) const SCANNED: &str = "baseline|fresh|scheduled|volume-missing|rejected|rolled-back";

/// A running podnudge. Killed at the end of its test if it still runs.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
    read: Mutex<Read>,
}

/// What was read of a log: tests look at it again and again.
#[derive(Debug, Default)]
struct Read {
    bytes: usize,
    events: Vec<Value>,
}

impl Read {
    /// The last line may be incomplete: it is read again.
    fn add(&mut self, rest: &[u8]) {
        for line in rest.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"))
        {
            self.bytes += line.len();
            self.events.extend(serde_json::from_slice::<Value>(line));
        }
    }

    fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = &Value> {
        self.events.iter().filter(move |line| name.split('|').any(|name| line["event"] == name))
    }
}

impl Agent {
    /// Starts podnudge with a JSON log and without an admin listener, and waits until it has
    /// scanned its volumes.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = podnudge();
        command.args(["--log", "json", "--listen", "off"]).args(arguments);
        Self::spawn_until(SCANNED, folder, command)
    }

    /// Starts podnudge by this command, and waits until its log has one of these events, which are separated by `|`.
    pub(crate) fn spawn_until(first: &str, folder: &Path, command: Command) -> Self {
        let mut agent = Self::spawn(folder, command);
        wait_until(first, || {
            assert!(!agent.has_ended(), "podnudge ended: {}", agent.log());
            agent.count(first) > 0
        });
        agent
    }

    pub(crate) fn spawn(folder: &Path, mut command: Command) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = folder.join(format!("podnudge.{number}.log"));
        let output = File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(output).spawn().unwrap();
        Self { child, log, read: Mutex::default() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// What the log says now.
    fn read(&self) -> MutexGuard<'_, Read> {
        let mut read = self.read.lock().unwrap();
        if let Ok(mut log) = File::open(&self.log) {
            let mut rest = Vec::new();
            log.seek(SeekFrom::Start(read.bytes as u64)).unwrap();
            log.read_to_end(&mut rest).unwrap();
            read.add(&rest);
        }
        read
    }

    /// The log lines with this event name, or with one of several names that are separated by `|`.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        self.read().named(name).cloned().collect()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.read().named(name).count()
    }

    /// A field of the last log line with this event name.
    pub(crate) fn last(&self, name: &str, field: &str) -> String {
        let value =
            self.read().named(name).next_back().map(|line| line[field].clone()).unwrap_or_default();
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    /// The processes of the last log line with this event name, as people read them: `41 (nginx)`, with remarks.
    pub(crate) fn target(&self, name: &str) -> String {
        match self.last(name, "targets") {
            all if all != "null" => all,
            _ => format!("{} ({})", self.last(name, "pid"), self.last(name, "target")),
        }
    }

    /// Waits until there are `wanted` log lines with this event name.
    pub(crate) fn wait_for(&self, name: &str, wanted: usize) {
        wait_until(&format!("{wanted} `{name}` in the log"), || self.count(name) >= wanted);
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Writes the log to disk, so that its pages do not count as memory of podnudge's control group.
    pub(crate) fn log_leaves_memory(&self) {
        let log = File::open(&self.log).unwrap();
        log.sync_all().unwrap();
        rustix::fs::fadvise(&log, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// The status of podnudge now.
    pub(crate) fn status(&self) -> Value {
        let before = self.count("status");
        self.signal(Signal::SIGUSR1);
        self.wait_for("status", before + 1);
        serde_json::from_str(&self.last("status", "status")).unwrap()
    }

    /// The address of its port.
    pub(crate) fn address(&self) -> String {
        self.wait_for("started", 1);
        self.last("started", "listen")
    }

    /// The body of what its port answers at this path. A machine that stands still for some seconds makes podnudge
    /// close a connection on which nothing came, or say that its loop does not answer: then it is asked again.
    pub(crate) fn get(&self, path: &str) -> String {
        let address = self.address();
        let mut answer = Ok(String::new());
        let is_answer = |answer: &io::Result<String>| {
            answer.as_ref().is_ok_and(|text| {
                text.contains("\r\n\r\n") && !text.contains("event loop not responding")
            })
        };
        let is_answered = is_within(LIMIT, || {
            answer = try_to_ask(&address, "GET", path);
            is_answer(&answer)
        });
        assert!(is_answered, "{path}: {answer:?}, and in its log: {}", self.log());
        answer.unwrap().split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The status of its only rule, as the admin port shows it.
    pub(crate) fn rule(&self) -> Value {
        serde_json::from_str::<Value>(&self.get("/status")).unwrap()["rules"][0].take()
    }

    /// Stops it with SIGTERM, as a kubelet does, and returns its exit status.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap()
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        wait_until("podnudge ends", || self.has_ended());
        self.child.wait().unwrap().code()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the log of podnudge:\n{}", self.log());
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
