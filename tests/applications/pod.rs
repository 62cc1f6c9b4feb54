//! A pod: a volume, a publish directory, an application that is restarted when it exits, and
//! podnudge with an example file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::kubelet::{Kubelet, Payload};
use crate::support::program::{command, podnudge};
use crate::support::wait::{is_within, pause, wait_until};

/// How long an application that has ended stays down.
const RESTART_DELAY: Duration = Duration::from_millis(100);

/// An application, and its configurations for the tests.
#[derive(Debug)]
pub(super) struct Subject {
    /// The example file that checks and publishes.
    pub(super) example: &'static str,
    /// The command, with `{dir}` for the folder that it reads.
    pub(super) command: &'static [&'static str],
    /// The content of a version; the second argument is one of `faults`, or empty.
    pub(super) content: fn(usize, &str) -> Payload,
    /// How the checker's command begins.
    pub(super) checker: &'static str,
    /// Lines that break a version. The application's own checker detects all of them.
    pub(super) faults: &'static [&'static str],
    /// The address and path for requests, and the part of the response that shows a version.
    pub(super) address: &'static str,
    pub(super) path: &'static str,
    pub(super) answer: fn(usize) -> String,
    /// The text in the application's log after it has loaded a broken configuration.
    pub(super) complaint: &'static str,
}

impl Subject {
    pub(super) fn serves(&self, version: usize) -> bool {
        let wanted = (self.answer)(version);
        super::load::get(self.address, self.path).is_ok_and(|answer| answer.contains(&wanted))
    }

    pub(super) fn wait_for(&self, version: usize) {
        wait_until(&format!("version {version} is served"), || self.serves(version));
    }
}

/// The example file with the paths of this pod, and without long delays.
#[derive(Debug)]
pub(super) struct Example(toml::Table);

impl Example {
    fn table(&mut self, name: &str) -> &mut toml::Table {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        let table = rule.entry(name).or_insert_with(|| toml::Table::new().into());
        table.as_table_mut().unwrap()
    }

    /// Removes this part of the rule.
    pub(super) fn without(mut self, part: &str) -> Self {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        assert!(rule.remove(part).is_some(), "the example has no {part}");
        self
    }

    /// Sets how long the target must survive a signal, if the example sends one.
    pub(super) fn alive_for(self, time: &str) -> Self {
        let is_signalled = self.0["rule"][0].get("signal").is_some();
        if is_signalled { self.with("verify", "alive-for", time) } else { self }
    }

    pub(super) fn with(mut self, table: &str, key: &str, value: &str) -> Self {
        self.table(table).insert(key.to_owned(), value.into());
        self
    }
}

/// The folders of a pod.
#[derive(Debug)]
pub(super) struct Pod {
    subject: &'static Subject,
    folder: tempfile::TempDir,
    kubelet: Kubelet,
    /// A visible process while the application is down, so that the process namespace counts as
    /// shared. In a real pod that is `/pause`.
    pause: Child,
}

impl Pod {
    /// A pod whose volume holds version 0.
    pub(super) fn new(subject: &'static Subject) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Workers that run as another user read it, too.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["config", "run"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let kubelet = Kubelet::new(folder.path().join("source"));
        let pause = command("sleep").arg("infinity").spawn().unwrap();
        let mut pod = Self { subject, folder, kubelet, pause };
        pod.write(0, "");
        pod
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the published content has passed its trial.
    pub(super) fn wait_until_good(&self) {
        wait_until("the published content is the last good content", || {
            let record = fs::read_to_string(self.path("config/..podnudge.json"));
            record.is_ok_and(|record| record.contains("\"is-open\":false"))
        });
    }

    /// Commits a version to the volume.
    pub(super) fn write(&mut self, version: usize, fault: &str) {
        let run = self.path("run").display().to_string();
        let mut payload = (self.subject.content)(version, fault);
        for content in payload.values_mut() {
            *content = String::from_utf8(content.clone()).unwrap().replace("{run}", &run).into();
        }
        self.kubelet.write(&payload);
    }

    pub(super) fn example(&self) -> Example {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(self.subject.example);
        let mut text = fs::read_to_string(file).unwrap();
        for (path, here) in [("/source", "source"), ("/config", "config"), ("/tmp", "run")] {
            let quoted = format!("\"{path}\"");
            assert!(text.contains(&quoted), "the example does not use {path}");
            text = text.replace(&quoted, &format!("\"{}\"", self.path(here).display()));
        }
        Example(text.parse().unwrap())
    }

    fn file(&self, example: &Example) -> String {
        let file = self.path("podnudge.toml");
        fs::write(&file, example.0.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Runs `podnudge once`, as the init container does.
    pub(super) fn once(&self, example: &Example) {
        let mut command = podnudge();
        command.args(["once", "--config", &self.file(example)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts podnudge without long delays, and waits until version 0 is applied. Also returns how
    /// often podnudge applied it: once if the application started too soon to tell what it has
    /// read.
    pub(super) fn agent(&self, example: &Example) -> (Agent, usize) {
        let file = self.file(example);
        let quick = ["--jitter", "0s", "--settle", "20ms", "--min-interval", "0s"];
        let agent =
            Agent::start(self.folder.path(), &[&["--config", &file], quick.as_slice()].concat());
        wait_until("version 0 is known to run", || {
            agent.count("baseline") + agent.count(ROLLED_OUT) > 0
        });
        let applied = agent.count(ROLLED_OUT);
        (agent, applied)
    }

    /// Starts the application with this folder of the pod, and waits until it serves version 0.
    pub(super) fn start(&self, folder: &str) -> Container {
        let dir = self.path(folder).display().to_string();
        let run = self.path("run").display().to_string();
        let fill = |argument: &&str| argument.replace("{dir}", &dir).replace("{run}", &run);
        let command = self.subject.command.iter().map(fill).collect();
        let container = Container::start(command, self.path("application.log"));
        self.subject.wait_for(0);
        container
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        drop(self.pause.kill());
        drop(self.pause.wait());
    }
}

/// An application in its own pid namespace, as in a container: it ends as a whole, and is restarted
/// soon, whereas the kubelet waits for 10 s and longer.
#[derive(Debug)]
pub(super) struct Container {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
    log: PathBuf,
}

#[derive(Debug)]
struct Shared {
    child: Mutex<Child>,
    ends: AtomicUsize,
    is_over: AtomicBool,
}

impl Container {
    pub(super) fn start(command: Vec<String>, log: PathBuf) -> Self {
        let child = Mutex::new(run(&command, &log));
        let (ends, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { child, ends, is_over });
        let (keeps, log_file) = (Arc::clone(&shared), log.clone());
        let supervisor = thread::spawn(move || {
            let is_over = || keeps.is_over.load(Ordering::SeqCst);
            while !is_over() {
                let has_ended = keeps.child.lock().unwrap().try_wait().unwrap().is_some();
                if has_ended {
                    keeps.ends.fetch_add(1, Ordering::SeqCst);
                    if !is_within(RESTART_DELAY, is_over) {
                        *keeps.child.lock().unwrap() = run(&command, &log_file);
                    }
                }
                pause();
            }
        });
        Self { shared, supervisor: Some(supervisor), log }
    }

    /// How often the application has ended.
    pub(super) fn ends(&self) -> usize {
        self.shared.ends.load(Ordering::SeqCst)
    }

    /// Its output, over all its starts.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The pid of the main process; 0 while there is none.
    pub(super) fn pid(&self) -> i32 {
        let parent = self.shared.child.lock().unwrap().id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        children.unwrap_or_default().trim().parse().unwrap_or_default()
    }

    /// Kills the main process, as a crash would; its children end with it.
    pub(super) fn kill(&self) {
        let ends = self.ends();
        let pid = self.pid();
        assert!(pid > 1, "there is nothing to kill");
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        wait_until("the application has ended", || self.ends() > ends);
    }
}

/// The child is `unshare`: if either it or the application ends, so does the other.
fn run(application: &[String], log: &Path) -> Child {
    let output = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    command("unshare")
        .args(["--pid", "--fork", "--kill-child"])
        .args(application)
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .expect("unshare is installed (package util-linux)")
}

impl Drop for Container {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(supervisor) = self.supervisor.take() {
            drop(supervisor.join());
        }
        if let Ok(mut child) = self.shared.child.lock() {
            drop(child.kill());
            drop(child.wait());
        }
        if thread::panicking() {
            println!("the log of the application:\n{}", self.log());
        }
    }
}
