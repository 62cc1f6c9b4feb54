//! `[rule.expand]` with the real podnudge: the application reads a file that podnudge writes before each action.

use std::cell::Cell;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{ROLLED_OUT, Scene, in_namespace, payload, wait_until};

const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
const EXPAND: &str =
    "expand = { file = \"FOLDER/volume/app.conf\", to = \"FOLDER/expanded/app.conf\" }\n";

fn scene() -> Scene {
    let scene = Scene::with(&[("app.conf", "one")]);
    fs::create_dir(scene.path("expanded")).unwrap();
    scene
}

fn written(scene: &Scene) -> String {
    fs::read_to_string(scene.path("expanded/app.conf")).unwrap_or_default()
}

/// A start of the application before the drain is no reason to leave out what precedes its restart.
#[test]
fn the_file_is_written_although_the_application_has_restarted_before_the_drain() {
    in_namespace!();
    let mut scene = scene();
    let application = scene.supervised(RUNS);
    let rest = "target = { cmdline = \"^(ba)?sh -c .* FOLDER$\" }\nverify = { alive-for = \"200ms\" }\n\
                hold = { pause-file = \"FOLDER/pause\" }\nrestart = {}\ndrain = { wait = \"300ms\" }\n\
                [agent]\nwork-dir = \"FOLDER\"";
    let agent = scene.rule(&format!("{EXPAND}{rest}"));
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((written(&scene).as_str(), application.starts()), ("one", 2));
    fs::write(scene.path("pause"), "").unwrap();
    scene.change("two");
    agent.wait_for("held", 1);
    let pids = scene.text("starts");
    let pid = pids.lines().last().unwrap().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    wait_until("the application has restarted", || application.starts() == 3);
    fs::remove_file(scene.path("pause")).unwrap();
    agent.wait_for(ROLLED_OUT, 2);
    assert_eq!((written(&scene).as_str(), application.starts()), ("two", 4), "{}", agent.log());
}

/// It may be in a volume that is lost while the state directory is not, such as one in memory.
#[test]
fn a_file_that_was_lost_is_written_at_the_next_start() {
    in_namespace!();
    let mut scene = scene();
    let application = scene.application();
    let url = application.url();
    let never = Cell::new(false);
    let settings = || {
        let on_start = if never.get() { "on-start = \"never\"\n" } else { "" };
        let agent = "[agent]\nstate-dir = \"FOLDER/state\"";
        format!("{EXPAND}{on_start}http = {{ url = \"{url}\" }}\n{agent}")
    };
    let mut reloads = 0;
    let mut run = |scene: &Scene, reloads_again: bool| {
        reloads += usize::from(reloads_again);
        let agent = scene.rule(&settings());
        wait_until("the application runs the content", || {
            application.reloads().len() == reloads
                && agent.get("/status").contains("\"in_sync\": \"yes\"")
        });
        assert_eq!(agent.stop().code(), Some(0));
        written(scene)
    };
    assert_eq!(run(&scene, true), "one");
    // What podnudge remembers is enough while the file is there.
    assert_eq!(run(&scene, false), "one");
    fs::remove_file(scene.path("expanded/app.conf")).unwrap();
    assert_eq!(run(&scene, true), "one");
    fs::remove_file(scene.path("expanded/app.conf")).unwrap();
    never.set(true);
    assert_eq!(run(&scene, true), "one");
    scene.kubelet.write(&payload(&[("app.conf", "two")]));
    assert_eq!(run(&scene, true), "two");
}
