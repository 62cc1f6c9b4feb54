//! A pod: a volume, a publish directory, an application that is started again when it ends, and
//! podnudge by an example file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, Payload};
use crate::support::program::{command, podnudge};
use crate::support::wait::{pause, wait_until};

/// An application, and what is played on it.
#[derive(Debug)]
pub(super) struct Subject {
    /// The example file that checks and publishes.
    pub(super) example: &'static str,
    /// The command, where it reads from `{dir}`.
    pub(super) command: &'static [&'static str],
    /// The content of a version; the second is one of `faults`, or nothing.
    pub(super) content: fn(usize, &str) -> Payload,
    /// How the checker's command begins.
    pub(super) checker: &'static str,
    /// What makes a version broken. The application's own checker sees all of them.
    pub(super) faults: &'static [&'static str],
    /// Where the clients ask, and which answer shows that a version is served.
    pub(super) address: &'static str,
    pub(super) path: &'static str,
    pub(super) answer: fn(usize) -> String,
    /// What the application's log holds if it has met a broken configuration.
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

/// The example file at the places of this pod, and without waits that would make the test long.
#[derive(Debug)]
pub(super) struct Example(toml::Table);

impl Example {
    fn table(&mut self, name: &str) -> &mut toml::Table {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        let table = rule.entry(name).or_insert_with(|| toml::Table::new().into());
        table.as_table_mut().unwrap()
    }

    /// Without this part of the rule.
    pub(super) fn without(mut self, part: &str) -> Self {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        assert!(rule.remove(part).is_some(), "the example has no {part}");
        self
    }

    /// How long the target must go on after a signal, where there is one.
    pub(super) fn alive_for(self, time: &str) -> Self {
        let is_signalled = self.0["rule"][0].get("signal").is_some();
        if is_signalled { self.with("verify", "alive-for", time) } else { self }
    }

    pub(super) fn with(mut self, table: &str, key: &str, value: &str) -> Self {
        self.table(table).insert(key.to_owned(), value.into());
        self
    }
}

/// Where everything is.
#[derive(Debug)]
pub(super) struct Pod {
    subject: &'static Subject,
    folder: tempfile::TempDir,
    kubelet: Kubelet,
    /// Something to see while the application is down, so that the process namespace counts as
    /// shared. In a pod that is `/pause`.
    pause: Child,
}

impl Pod {
    /// A pod whose volume holds version 0.
    pub(super) fn new(subject: &'static Subject) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Workers that run as another user read here, too.
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

    /// What the init container does.
    pub(super) fn once(&self, example: &Example) {
        let mut command = podnudge();
        command.args(["once", "--config", &self.file(example)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// podnudge, without waits that would make the test long. It has told the application of
    /// version 0 already, if that started so soon that it cannot know; it says how often.
    pub(super) fn agent(&self, example: &Example) -> (Agent, usize) {
        let file = self.file(example);
        let quick = ["--jitter", "0s", "--settle", "20ms", "--min-interval", "0s"];
        let agent =
            Agent::start(self.folder.path(), &[&["--config", &file], quick.as_slice()].concat());
        wait_until("version 0 is known to run", || {
            agent.count("baseline") + agent.count("applied") > 0
        });
        let applied = agent.count("applied");
        (agent, applied)
    }

    /// The application, reading from this folder of the pod, and waits until it serves version 0.
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

/// An application in a pid namespace of its own, as in a container: it ends as a whole, and is
/// started again at once, as the kubelet does it after a while.
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
    fn start(command: Vec<String>, log: PathBuf) -> Self {
        let child = Mutex::new(run(&command, &log));
        let (ends, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { child, ends, is_over });
        let (keeps, log_file) = (Arc::clone(&shared), log.clone());
        let supervisor = thread::spawn(move || {
            while !keeps.is_over.load(Ordering::SeqCst) {
                let mut child = keeps.child.lock().unwrap();
                if child.try_wait().unwrap().is_some() {
                    keeps.ends.fetch_add(1, Ordering::SeqCst);
                    *child = run(&command, &log_file);
                }
                drop(child);
                pause();
            }
        });
        Self { shared, supervisor: Some(supervisor), log }
    }

    /// How often the application has ended.
    pub(super) fn ends(&self) -> usize {
        self.shared.ends.load(Ordering::SeqCst)
    }

    /// What it said, over all its starts.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The main process; 0 while there is none.
    pub(super) fn pid(&self) -> i32 {
        let parent = self.shared.child.lock().unwrap().id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        children.unwrap_or_default().trim().parse().unwrap_or_default()
    }

    /// Kills the main process by its pid, as a crash would end it; all below it end with it.
    pub(super) fn kill(&self) {
        let ends = self.ends();
        let pid = self.pid();
        assert!(pid > 1, "there is nothing to kill");
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        wait_until("the application has ended", || self.ends() > ends);
    }
}

/// The child is `unshare`, which passes its own end on to the application, and the other way round.
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
