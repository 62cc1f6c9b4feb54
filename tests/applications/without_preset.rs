//! uWSGI and privoxy, which no preset knows: content that ends them only after a while, a restart, a shell that starts
//! them, and no action at all.

use std::fs;
use std::time::Duration;

use super::load::get;
use super::plain::{Application, MOUNTED};
use super::pod::Container;
use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::kubelet::{Kubelet, Payload, payload};
use crate::support::pod::in_network;
use crate::support::program::command;
use crate::support::wait::{is_within, wait_until, wait_until_commit_is_past};

const DIR: &str = "/etc/app";
const UWSGI: &str = "127.0.0.1:8080";
const PRIVOXY: &str = "127.0.0.1:8118";

/// It starts its interpreter, loads the application for 4 s, and ends.
const ENDS_LATE: &str = "import time; time.sleep(4); raise SystemExit(1)\n";

/// A pod whose container mounts the volume, and is started again when it ends.
struct Scene {
    application: Container,
    kubelet: Kubelet,
    #[expect(dead_code, reason = "a visible process while the container is down, as `/pause` is")]
    pause: Application,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start(keys: &Payload, program: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let mut kubelet = Kubelet::new(at.join("content"));
        kubelet.write(keys);
        wait_until_commit_is_past(&kubelet.volume);
        let pause = Application::start("sleep", &["infinity"], &at.join("pause.log"));
        let volume = kubelet.volume.display().to_string();
        let words = [&MOUNTED, &[&volume, DIR][..], program].concat();
        let words = words.into_iter().map(str::to_owned).collect();
        let application = Container::start(words, at.join("application.log"));
        Self { application, kubelet, pause, folder }
    }

    /// uWSGI with version 1, started by a shell that does something before.
    fn uwsgi(before: &str) -> Self {
        let line = format!("{before}exec uwsgi {DIR}/uwsgi.ini");
        Self::start(&application("1"), &["sh", "-c", &line])
    }

    /// privoxy with version 1.
    fn privoxy() -> Self {
        let scene = Self::start(&proxy("1", ""), &["privoxy", "--no-daemon", "/etc/app/config"]);
        wait_until("privoxy serves", || shows("1"));
        scene
    }

    /// Starts podnudge, and waits until it knows the content.
    fn nudge(&self, options: &[&str]) -> Agent {
        let mut line = command(MOUNTED[0]);
        line.args(&MOUNTED[1..]).arg(&self.kubelet.volume).arg(DIR);
        line.args([env!("CARGO_BIN_EXE_podnudge"), "--log", "json", "--listen", "127.0.0.1:0"]);
        line.args(["--settle", "20ms", "--min-interval", "0s", "--watch", DIR]).args(options);
        let agent = Agent::spawn(self.folder.path(), line);
        agent.wait_for("baseline", 1);
        agent
    }

    /// Edits the volume, and waits until podnudge has seen it. privoxy compares times in seconds.
    fn edit(&mut self, agent: &Agent, keys: &Payload) {
        let link = fs::symlink_metadata(self.kubelet.volume.join("..data")).unwrap();
        let age = || link.modified().unwrap().elapsed().unwrap_or_default();
        wait_until("another second", || age() > Duration::from_secs(1));
        let before = agent.rule()["digest_on_disk"].clone();
        self.kubelet.write(keys);
        wait_until("podnudge has seen the edit", || agent.rule()["digest_on_disk"] != before);
    }
}

/// An application that shows its version.
fn application(version: &str) -> Payload {
    uwsgi(&format!(
        "def application(environ, start):\n    start('200 OK', [])\n    return [b'version {version}.']\n"
    ))
}

/// uWSGI with this application in Python.
fn uwsgi(python: &str) -> Payload {
    let ini = format!(
        "[uwsgi]\nplugins = python3\nhttp-socket = {UWSGI}\nmaster = true\nprocesses = 1\nneed-app = true\n\
         die-on-term = true\nwsgi-file = {DIR}/app.py\n"
    );
    payload(&[("uwsgi.ini", &ini), ("app.py", python)])
}

fn serves(version: &str) -> bool {
    get(UWSGI, "/").is_ok_and(|answer| answer.ends_with(&format!("version {version}.")))
}

/// It shows its configuration on a page of its own.
fn proxy(version: &str, fault: &str) -> Payload {
    let config = format!(
        "listen-address {PRIVOXY}\nconfdir /etc/privoxy\nforward /version-{version}. .\n{fault}\n"
    );
    payload(&[("config", &config)])
}

fn shows(version: &str) -> bool {
    let page = get(PRIVOXY, "http://config.privoxy.org/show-status");
    page.is_ok_and(|page| page.contains(&format!("/version-{version}.")))
}

/// Waits until podnudge says so, and not once meanwhile that the content is in sync.
fn never_in_sync_until(agent: &Agent, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_until(what, || {
        assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
        is_so()
    });
}

/// It survives the signal for longer than podnudge looks, and then ends at each start.
#[test]
fn a_uwsgi_that_ends_late_after_its_signal_keeps_ending() {
    in_network(|| {
        let mut scene = Scene::uwsgi("");
        wait_until("uWSGI serves", || serves("1"));
        let agent = scene.nudge(&["--signal", "HUP", "--on-start", "never"]);
        scene.edit(&agent, &application("2"));
        wait_until("the edit is served", || serves("2"));
        agent.wait_for("delivered", 1);
        scene.edit(&agent, &uwsgi(ENDS_LATE));
        never_in_sync_until(&agent, "it keeps ending", || agent.count("keeps-ending") == 1);
        let status = agent.rule();
        assert_eq!((&status["in_sync"], &status["state"]), (&"no".into(), &"failed".into()));
        assert!(scene.application.ends() >= 3);
        scene.edit(&agent, &application("3"));
        wait_until("the fix is served and known", || {
            serves("3") && agent.rule()["in_sync"] != "no"
        });
    });
}

/// It reads its configuration at the next request, and ends by it and at each start, after some milliseconds: no process
/// is seen again. The core reports that as `keeps-ending` after minutes.
#[test]
fn a_privoxy_that_ends_at_the_next_request_is_missed() {
    in_network(|| {
        let mut scene = Scene::privoxy();
        let agent = scene.nudge(&["--signal", "HUP", "--on-start", "never"]);
        scene.edit(&agent, &proxy("2", ""));
        wait_until("the edit is served", || shows("2"));
        agent.wait_for("delivered", 1);
        scene.edit(&agent, &proxy("3", "actionsfile none.action"));
        agent.wait_for(ROLLED_OUT, 2);
        assert_eq!(agent.rule()["in_sync"], "unknown");
        never_in_sync_until(&agent, "it is missed", || {
            shows("3");
            agent.count("preflight") == 1
        });
        assert_eq!(agent.last("preflight", "problem"), "target-not-found");
        let reason = agent.last("preflight", "reason");
        assert!(reason.ends_with("exited and has not come back"), "{reason}");
        scene.edit(&agent, &proxy("4", ""));
        wait_until("the fix is served and known", || shows("4") && agent.rule()["in_sync"] != "no");
    });
}

/// The first process after the restart lives for some seconds, as each one after it.
#[test]
fn a_uwsgi_that_ends_late_after_its_restart_is_never_in_sync() {
    in_network(|| {
        let mut scene = Scene::uwsgi("");
        wait_until("uWSGI serves", || serves("1"));
        let agent = scene.nudge(&["--restart", "--on-start", "never"]);
        scene.edit(&agent, &uwsgi(ENDS_LATE));
        never_in_sync_until(&agent, "it keeps ending", || agent.count("keeps-ending") == 1);
        assert_eq!(agent.rule()["in_sync"], "no");
        scene.edit(&agent, &application("2"));
        wait_until("the fix is served and known", || {
            serves("2") && agent.rule()["in_sync"] == "yes"
        });
        assert_eq!(agent.rule()["evidence"], "read-at-start");
    });
}

/// The entrypoint prepares something for some seconds: meanwhile podnudge cannot know what it will start.
#[test]
fn below_a_young_shell_podnudge_waits_for_uwsgi() {
    in_network(|| {
        let mut scene = Scene::uwsgi("sleep 4; ");
        let agent = scene.nudge(&["--signal", "HUP", "--on-start", "never"]);
        scene.edit(&agent, &application("2"));
        agent.wait_for("waiting-for-target", 1);
        wait_until("uWSGI serves the edit", || serves("2"));
        agent.wait_for("delivered", 1);
        assert!(agent.last("sent", "target").ends_with(" (uwsgi)"), "{}", agent.log());
    });
}

/// It reads its file by itself, and nobody has said how it reloads.
#[test]
fn a_privoxy_without_an_action_is_unknown() {
    in_network(|| {
        let mut scene = Scene::privoxy();
        let agent = scene.nudge(&["--on-start", "never"]);
        for version in ["2", "3"] {
            scene.edit(&agent, &proxy(version, ""));
            wait_until("the edit is served", || shows(version));
            let says_more = || agent.rule()["in_sync"] != "unknown";
            assert!(!is_within(Duration::from_secs(3), says_more), "{}", agent.log());
        }
        assert_eq!((agent.count("sent"), scene.application.ends()), (0, 0));
    });
}
