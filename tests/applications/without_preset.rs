//! uWSGI and privoxy, which no preset knows: content that ends them only after a while, a restart, a shell that starts
//! them, and no action at all.

use std::fs;
use std::time::Duration;

use super::load::get;
use crate::support::{
    Agent, Container, Payload, ROLLED_OUT, Scene, in_network, is_within, payload, wait_until,
};

const DIR: &str = "/etc/app";
const UWSGI: &str = "127.0.0.1:8080";
const PRIVOXY: &str = "127.0.0.1:8118";

/// It starts its interpreter, loads the application for 4 s, and ends.
const ENDS_LATE: &str = "import time; time.sleep(4); raise SystemExit(1)\n";

/// The options of podnudge, and its action.
const HUP: [&str; 4] = ["--min-interval", "0s", "--signal", "HUP"];

/// A container that mounts the volume, and is started again when it ends.
fn start(keys: &Payload, program: &[&str]) -> (Scene, Container) {
    let mut scene = Scene::of(keys).mounted_at(DIR);
    let application = scene.container(program, "application.log");
    (scene, application)
}

/// uWSGI with version 1, started by a shell that does something before.
fn start_uwsgi(before: &str) -> (Scene, Container) {
    let line = format!("{before}exec uwsgi {DIR}/uwsgi.ini");
    start(&application("1"), &["sh", "-c", &line])
}

/// privoxy with version 1.
fn start_privoxy() -> (Scene, Container) {
    let started = start(&proxy("1", ""), &["privoxy", "--no-daemon", "/etc/app/config"]);
    wait_until("privoxy serves", || shows("1"));
    started
}

/// Edits the volume, and waits until podnudge has seen it. privoxy compares times in seconds.
fn edit(scene: &mut Scene, agent: &Agent, keys: &Payload) {
    let link = fs::symlink_metadata(scene.kubelet.volume.join("..data")).unwrap();
    let age = || link.modified().unwrap().elapsed().unwrap_or_default();
    wait_until("another second", || age() > Duration::from_secs(1));
    let before = agent.rule()["digest_on_disk"].clone();
    scene.kubelet.write(keys);
    wait_until("podnudge has seen the edit", || agent.rule()["digest_on_disk"] != before);
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
    in_network!();
    let (mut scene, container) = start_uwsgi("");
    wait_until("uWSGI serves", || serves("1"));
    let agent = scene.nudge(&HUP);
    edit(&mut scene, &agent, &application("2"));
    wait_until("the edit is served", || serves("2"));
    agent.wait_for("delivered", 1);
    edit(&mut scene, &agent, &uwsgi(ENDS_LATE));
    never_in_sync_until(&agent, "it keeps ending", || agent.count("keeps-ending") == 1);
    let status = agent.rule();
    assert_eq!((&status["in_sync"], &status["state"]), (&"no".into(), &"failed".into()));
    assert!(container.ends() >= 3);
    edit(&mut scene, &agent, &application("3"));
    wait_until("the fix is served and known", || serves("3") && agent.rule()["in_sync"] != "no");
}

/// It reads its configuration at the next request, and ends by it and at each start, after some milliseconds: no process
/// is seen again. The core reports that as `keeps-ending` after minutes.
#[test]
fn a_privoxy_that_ends_at_the_next_request_is_missed() {
    in_network!();
    let (mut scene, _container) = start_privoxy();
    // A look may meet one of the processes, so there have to be several.
    let agent = scene.nudge(&[&HUP[..], &["--resync", "2s"]].concat());
    edit(&mut scene, &agent, &proxy("2", ""));
    wait_until("the edit is served", || shows("2"));
    agent.wait_for("delivered", 1);
    edit(&mut scene, &agent, &proxy("3", "actionsfile none.action"));
    agent.wait_for(ROLLED_OUT, 2);
    assert_eq!(agent.rule()["in_sync"], "unknown");
    never_in_sync_until(&agent, "it is missed", || {
        shows("3");
        agent.count("preflight") == 1
    });
    assert_eq!(agent.last("preflight", "problem"), "target-not-found");
    let reason = agent.last("preflight", "reason");
    assert!(reason.ends_with("exited and has not come back"), "{reason}");
    edit(&mut scene, &agent, &proxy("4", ""));
    wait_until("the fix is served and known", || shows("4") && agent.rule()["in_sync"] != "no");
}

/// The first process after the restart lives for some seconds, as each one after it.
#[test]
fn a_uwsgi_that_ends_late_after_its_restart_is_never_in_sync() {
    in_network!();
    let (mut scene, _container) = start_uwsgi("");
    wait_until("uWSGI serves", || serves("1"));
    let agent = scene.nudge(&["--min-interval", "0s", "--restart"]);
    edit(&mut scene, &agent, &uwsgi(ENDS_LATE));
    never_in_sync_until(&agent, "it keeps ending", || agent.count("keeps-ending") == 1);
    assert_eq!(agent.rule()["in_sync"], "no");
    edit(&mut scene, &agent, &application("2"));
    wait_until("the fix is served and known", || serves("2") && agent.rule()["in_sync"] == "yes");
    assert_eq!(agent.rule()["evidence"], "read-at-start");
}

/// The entrypoint prepares something for some seconds: meanwhile podnudge cannot know what it will start.
#[test]
fn below_a_young_shell_podnudge_waits_for_uwsgi() {
    in_network!();
    let (mut scene, _container) = start_uwsgi("sleep 4; ");
    let agent = scene.nudge(&HUP);
    edit(&mut scene, &agent, &application("2"));
    agent.wait_for("waiting-for-target", 1);
    wait_until("uWSGI serves the edit", || serves("2"));
    agent.wait_for("delivered", 1);
    assert!(agent.target("sent").ends_with(" (uwsgi)"), "{}", agent.log());
}

/// It reads its file by itself, and nobody has said how it reloads.
#[test]
fn a_privoxy_without_an_action_is_unknown() {
    in_network!();
    let (mut scene, container) = start_privoxy();
    let agent = scene.nudge(&[]);
    for version in ["2", "3"] {
        edit(&mut scene, &agent, &proxy(version, ""));
        wait_until("the edit is served", || shows(version));
        let says_more = || agent.rule()["in_sync"] != "unknown";
        assert!(!is_within(Duration::from_secs(3), says_more), "{}", agent.log());
    }
    assert_eq!((agent.count("sent"), container.ends()), (0, 0));
}
