//! Two podnudges in a pod with a shared process namespace, which watch the same volume: neither takes the
//! other, or a program that the other runs, for the application.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{
    Agent, Behaviour, ROLLED_OUT, Scene, Target, command, in_namespace, payload, podnudge,
    wait_until, write_script,
};

/// A mounted volume, and a process whose mount namespace lacks it.
fn start() -> (Scene, Target) {
    let scene = Scene::on_tmpfs("volume", &payload(&[("a.conf", "1")]));
    let volume = &scene.kubelet.volume;
    let bystander = Target::start_without(scene.folder.path(), "bystander", volume);
    (scene, bystander)
}

/// Starts podnudge from a file with this name.
fn nudge(scene: &Scene, name: &str, arguments: &[&str]) -> Agent {
    let file = scene.path(name);
    symlink(podnudge().get_program(), &file).unwrap();
    let mut command = command(file);
    command.args(["--log", "json", "--listen", "off"]);
    scene.nudge_by(command, arguments)
}

/// Whether a process with this name runs in the namespace.
fn runs(name: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut names = processes.filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
    names.any(|comm| comm.trim_end() == name)
}

#[test]
fn another_podnudge_with_the_volume_is_not_the_application() {
    in_namespace!();
    let (mut scene, _bystander) = start();
    let by_signal = ["--signal", "HUP", "--alive-for", "50ms"];
    let first = nudge(&scene, "reloader", &by_signal);
    let second = nudge(&scene, "podnudge", &by_signal);
    // Without an action of its own: a preset is looked for.
    let third = nudge(&scene, "nudger", &[]);
    scene.change("2");
    for agent in [&first, &second, &third] {
        agent.wait_for("waiting-for-target", 1);
        let reason = agent.last("waiting-for-target", "reason");
        assert!(reason.contains("no process of another container mounts"), "{reason}");
        assert_eq!(agent.count("sent|target-ambiguous|refused|applied"), 0, "{}", agent.log());
    }
}

#[test]
fn a_podnudge_beside_the_application_does_not_make_the_target_ambiguous() {
    in_namespace!();
    let (mut scene, _bystander) = start();
    let application = scene.target("app", Behaviour::Handles);
    let program = scene.path("programme");
    symlink("/bin/sleep", &program).unwrap();
    let exec = format!("{} 1000", program.display());
    let first = nudge(&scene, "reloader", &["--exec", &exec]);
    scene.change("2");
    wait_until("the other podnudge runs its program", || runs("programme"));
    let second = nudge(&scene, "nudger", &["--signal", "HUP", "--alive-for", "50ms"]);
    for (n, content) in ["3", "4"].iter().enumerate() {
        scene.change(content);
        second.wait_for(ROLLED_OUT, n + 1);
    }
    assert_eq!(second.count("target-ambiguous|refused|waiting-for-target"), 0);
    assert_eq!((application.signals(), first.count("refused")), (2, 0));
}

#[test]
fn a_pidfile_never_names_what_another_podnudge_has_started() {
    in_namespace!();
    let (mut scene, _bystander) = start();
    let program = scene.path("programme");
    let script = format!(
        "#!/bin/sh\ncd {}\ntrap 'echo >>hups' HUP\necho $$ >app.pid\nwhile :; do sleep 0.05; done\n",
        scene.folder.path().display()
    );
    write_script(&program, &script);
    let _first = nudge(&scene, "reloader", &["--exec", program.to_str().unwrap()]);
    scene.change("2");
    wait_until("the other podnudge runs its program", || !scene.text("app.pid").is_empty());
    let by_pidfile = ["--signal", "HUP", "--alive-for", "50ms", "--pidfile", "FOLDER/app.pid"];
    let second = nudge(&scene, "nudger", &by_pidfile);
    scene.change("3");
    second.wait_for("waiting-for-target|sent", 1);
    let reason = second.last("waiting-for-target", "reason");
    assert!(reason.starts_with("no process has the pid "), "{reason}");
    assert_eq!((scene.text("hups").as_str(), second.count("sent")), ("", 0), "{}", second.log());
}
