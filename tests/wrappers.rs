//! Applications below an init, a shell or another wrapper that does not handle the signal: podnudge
//! signals the one topmost process that does, and no other.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::support::{
    Agent, Behaviour, OTHER_USER, ROLLED_OUT, Scene, Target, command, in_namespace, is_within,
    podnudge, wait_until, wait_until_old, write_script,
};

fn nudge(scene: &Scene, arguments: &[&str]) -> Agent {
    nudge_by(scene, "HUP", arguments)
}

fn nudge_by(scene: &Scene, signal: &str, arguments: &[&str]) -> Agent {
    scene.nudge(&[&["--signal", signal, "--alive-for", "100ms"], arguments].concat())
}

/// Changes the volume, and asserts that podnudge refuses to act, for this reason.
fn assert_refused(scene: &mut Scene, agent: &Agent, parts: &[&str]) {
    let before = agent.count("refused");
    scene.renew();
    agent.wait_for("refused", before + 1);
    let reason = agent.last("refused", "reason") + "; " + &agent.last("refused", "hint");
    for part in parts {
        assert!(reason.contains(part), "`{part}` is not in: {reason}");
    }
    assert_eq!(agent.count("sent"), 0, "{}", agent.log());
}

const DASH: &[&str] = &["dash", "-c", "\"$0\" \"$@\"; echo done"];
const BASH: &[&str] = &["bash", "-c", "\"$0\" \"$@\"; echo done"];

const TRAPPING: &str = "trap : EXIT; \"$0\" \"$@\"; echo done";
const THREE: &str = "dash -c '\"$0\" \"$@\"; echo done' \"$0\" \"$@\"; echo done";

fn age(pid: i32) -> Duration {
    let process = fs::metadata(format!("/proc/{pid}")).unwrap();
    process.modified().unwrap().elapsed().unwrap_or_default()
}

#[test]
fn the_application_gets_the_signal_through_any_wrappers() {
    in_namespace!();
    let mut scene = Scene::new();
    let table: &[(&str, &[&str], &str)] = &[
        ("by-tini", &["tini", "--"], "tini"),
        ("by-dumb-init", &["dumb-init", "--"], "dumb-init"),
        ("by-dash", DASH, "dash"),
        ("by-bash", BASH, "bash"),
        ("by-trapping", &["bash", "-c", TRAPPING], "bash"),
        ("by-deaf", &["bash", "-c", "trap '' HUP; \"$0\" \"$@\"; echo done"], "bash"),
        ("by-two", &["dash", "-c", "tini -- \"$0\" \"$@\"; echo done"], "dash"),
        ("by-three", &["tini", "--", "bash", "-c", THREE], "tini"),
        ("by-env", &["tini", "--", "env"], "tini"),
    ];
    let targets: Vec<Target> = table
        .iter()
        .map(|(name, wrapper, _)| scene.target_by(wrapper, name, Behaviour::MasterWithWorker))
        .collect();
    wait_until_old(|| targets.iter().map(Target::pid).collect());
    for ((name, _, root), mut target) in table.iter().zip(targets) {
        assert_eq!(
            fs::read_to_string(format!("/proc/{}/comm", target.pid())).unwrap().trim(),
            *root
        );
        let agent = nudge(&scene, &["--cmdline", name]);
        for n in 1..=2 {
            scene.renew();
            agent.wait_for("delivered", n);
        }
        let log = agent.log();
        assert_eq!((target.signals(), target.signals_to_worker()), (2, 0), "{name}: {log}");
        assert!(target.is_running(), "{name}");
        let sent = agent.target("sent");
        assert!(sent.ends_with(&format!(" ({name})")), "{sent}");
        assert_ne!(sent, format!("{} ({name})", target.pid()));
        assert_eq!(agent.count("preflight") + agent.count("refused"), 0, "{name}: {log}");
        // Its arguments match, too.
        drop(agent);
        let mut doctor = podnudge();
        doctor.args(["doctor", "--cmdline", name, "--signal", "HUP", "--watch"]);
        let output = doctor.arg(&scene.kubelet.volume).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        let wanted = format!("{sent} below {} ({root}): ", target.pid());
        assert!(found.contains(&wanted), "`{wanted}` is not in: {found}");
    }
}

/// Two applications, or an application and a helper, may handle the signal; or none.
#[test]
fn without_exactly_one_application_that_handles_the_signal_nothing_is_sent() {
    in_namespace!();
    let mut scene = Scene::new();
    let both = "\"$0\" \"$@\" & \"$0\" \"$@\"; echo done";
    // The fork of a shell has its own handler, but is no application of its own.
    let fork = "(trap 'echo \"hup master\" >>\"$PODNUDGE_TEST_REPORT\"' HUP; while :; do sleep 0.1; done) &
            \"$0\" \"$@\"; echo done";
    let several = "and several processes below it do: ";
    let ends = "it would end";
    let init = "is an init, which passes SIGHUP on to its child";
    let table: &[(&str, Behaviour, &[&str], &str)] = &[
        ("two-by-dash", Behaviour::Handles, &["dash", "-c", both], several),
        ("two-by-tini", Behaviour::Handles, &["tini", "--", "dash", "-c", both], several),
        ("two-by-dumb", Behaviour::Handles, &["dumb-init", "dash", "-c", both], several),
        ("none-by-dash", Behaviour::Default, DASH, ends),
        ("none-by-tini", Behaviour::Default, &["tini", "--"], init),
        ("none-by-dumb-init", Behaviour::Default, &["dumb-init", "--"], init),
        ("none-by-trapping", Behaviour::Default, &["bash", "-c", TRAPPING], "a trap for EXIT"),
        ("fork-by-bash", Behaviour::Default, &["bash", "-c", fork], ends),
        ("fork-by-dash", Behaviour::Handles, &["dash", "-c", fork], ends),
    ];
    let start = |(name, does, wrapper, _): &(&str, Behaviour, &[&str], &str)| {
        scene.target_by(wrapper, name, *does)
    };
    let targets: Vec<Target> = table.iter().map(start).collect();
    wait_until_old(|| targets.iter().map(Target::pid).collect());
    for ((name, _, _, reason), mut target) in table.iter().zip(targets) {
        let agent = nudge(&scene, &["--cmdline", name]);
        assert_refused(&mut scene, &agent, &[reason]);
        let problem = if *reason == several { "target-ambiguous" } else { "signal-not-handled" };
        assert_eq!(agent.last("preflight", "problem"), problem);
        if *reason == several {
            let named =
                agent.last("refused", "reason").matches(&format!(" ({name}, uid 0)")).count();
            assert_eq!(named, 2);
        }
        assert!(target.is_running() && target.signals() == 0, "{name}");
    }
}

/// podnudge as root with the capability KILL alone, as in the shipped manifests: it may not read the executable and the
/// system calls of a process with more capabilities, so it knows a wrapper by its name.
#[test]
fn with_the_capability_kill_alone_no_wrapper_is_signalled() {
    in_namespace!();
    let mut scene = Scene::new();
    let init = "is an init, which passes SIGHUP on to its child";
    let as_sh = scene.path("sh");
    symlink("/bin/bash", &as_sh).unwrap();
    let as_sh = as_sh.to_str().unwrap();
    let table: &[(&str, Behaviour, &[&str], &str)] = &[
        ("none-by-dumb-init", Behaviour::Default, &["dumb-init", "--"], init),
        ("none-by-trapping", Behaviour::Default, &["bash", "-c", TRAPPING], "a trap for EXIT"),
        ("none-by-sh", Behaviour::Default, &[as_sh, "-c", TRAPPING], "a trap for EXIT"),
        ("app-by-dumb-init", Behaviour::Handles, &["dumb-init", "--"], ""),
        ("app-by-trapping", Behaviour::Handles, &["bash", "-c", TRAPPING], ""),
    ];
    let start = |(name, does, wrapper, _): &(&str, Behaviour, &[&str], &str)| {
        scene.target_by(wrapper, name, *does)
    };
    let targets: Vec<Target> = table.iter().map(start).collect();
    wait_until_old(|| targets.iter().map(Target::pid).collect());
    let by = ["setpriv", "--bounding-set=-all,+kill", "--inh-caps=-all", "--"];
    for ((name, _, _, reason), mut target) in table.iter().zip(targets) {
        let options = ["--signal", "HUP", "--alive-for", "100ms", "--cmdline", name];
        let agent = scene.nudge_by(scene.podnudge_by(&by), &options);
        if reason.is_empty() {
            scene.renew();
            agent.wait_for("delivered", 1);
        } else {
            assert_refused(&mut scene, &agent, &[reason]);
        }
        let log = agent.log();
        assert_eq!(target.signals(), usize::from(reason.is_empty()), "{name}: {log}");
        assert!(target.is_running(), "{name}: {log}");
    }
}

/// A rule without an action gets the preset of the program that the init or the shell has started.
#[test]
fn a_program_below_a_wrapper_gets_its_preset() {
    in_namespace!();
    let mut scene = Scene::new();
    let two = "ln -s \"$0\" \"${0%/*}/nginx\"; \"${0%/*}/nginx\" \"$@\" & \"$0\" \"$@\"; echo done";
    let script = scene.path("run-it.sh");
    write_script(&script, "#!/bin/sh\n\"$@\"\necho done\n");
    // Another program has a helper that podnudge knows.
    let python = ["python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"];
    let table: &[(&str, &[&str], &str)] = &[
        ("pgbouncer", &[script.to_str().unwrap()], ""),
        ("mosquitto", &["tini", "--"], ""),
        ("dovecot", &["bash", "-c", "trap : HUP; \"$0\" \"$@\"; echo done"], ""),
        ("redis-server", DASH, "takes a new configuration by a restart"),
        ("squid", &["dash", "-c", two], "has started several programs: nginx, squid"),
        ("postgres", &python, "does not know how `python3` reloads"),
    ];
    let targets: Vec<Target> = table
        .iter()
        .map(|(name, wrapper, _)| scene.target_by(wrapper, name, Behaviour::Handles))
        .collect();
    wait_until_old(|| targets.iter().map(Target::pid).collect());
    for ((name, _, reason), target) in table.iter().zip(targets) {
        let agent = scene.nudge(&["--cmdline", name]);
        if reason.is_empty() {
            scene.renew();
            agent.wait_for("delivered", 1);
            assert!(agent.target("sent").ends_with(&format!(" ({name})")));
            assert_eq!(target.signals(), 1, "{}", agent.log());
            assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
        } else {
            assert_refused(&mut scene, &agent, &[reason]);
            assert_eq!(target.signals(), 0);
            agent.wait_for("preflight", 1);
            assert_eq!(agent.last("preflight", "problem"), "no-preset");
        }
    }
}

/// A wrapper that handles the signal itself is the target, whatever is below it. A trap for `EXIT` says
/// nothing about a signal that bash does not handle on its own.
#[test]
fn a_shell_with_a_trap_gets_the_signal_itself() {
    in_namespace!();
    for (signal, traps) in [("HUP", ""), ("WINCH", "trap : EXIT")] {
        let mut scene = Scene::new();
        let script = format!(
            "{traps}; trap 'echo \"hup shell\" >>\"$PODNUDGE_TEST_REPORT\"' {signal}
                \"$0\" \"$@\" & while :; do wait; done"
        );
        let script = script.trim_start_matches(';');
        let target = scene.target_by(&["bash", "-c", script], "app", Behaviour::Handles);
        let agent = nudge_by(&scene, signal, &["--cmdline", "FOLDER/app"]);
        scene.renew();
        agent.wait_for(ROLLED_OUT, 1);
        wait_until("the shell has run its trap", || {
            let report = scene.text("app.report");
            report.contains("hup shell")
        });
        assert_eq!(target.signals(), 0);
    }
}

/// The workers of a master may have handlers before it has its own. So podnudge looks below a process
/// only when that is too old to be starting.
#[test]
fn below_a_young_process_nothing_is_signalled() {
    in_namespace!();
    let mut scene = Scene::new();
    let target = scene.target_by(DASH, "app", Behaviour::Handles);
    let agent = nudge(&scene, &["--process", "dash"]);
    scene.renew();
    agent.wait_for("waiting-for-target", 1);
    let reason = agent.last("waiting-for-target", "reason");
    assert!(reason.contains("(dash) has just started, and does not handle SIGHUP yet"));
    agent.wait_for("delivered", 1);
    // The start time counts in ticks.
    assert!(age(target.pid()) > Duration::from_millis(9900), "{}", agent.log());
    assert_eq!((target.signals(), agent.count("refused")), (1, 0), "{}", agent.log());
}

/// A shell that starts a worker, and executes itself on the signal. Then it has no handler until the
/// file `go` exists.
const EXECUTES_ITSELF: &str = "
    cd \"${PODNUDGE_TEST_REPORT%/*}\"
    if [ -z \"$again\" ]; then export again=1; \"$0\" \"$@\" & else until [ -e go ]; do sleep 0.05; done; fi
    trap 'exec ./app -c \"$BASH_EXECUTION_STRING\" \"$0\" \"$@\"' HUP
    echo >>traps; while :; do sleep 0.05; done";

/// While an application executes itself it has no handlers, but its workers do.
#[test]
fn workers_of_an_application_that_executes_itself_are_not_signalled() {
    in_namespace!(are_not_signalled_while_it_executes_itself(&[]));
}

#[test]
fn workers_of_an_application_that_executes_itself_below_an_init_are_not_signalled() {
    in_namespace!(are_not_signalled_while_it_executes_itself(&["tini", "--"]));
}

fn are_not_signalled_while_it_executes_itself(wrapper: &[&str]) {
    let mut scene = Scene::new();
    let app = scene.path("app");
    symlink("/bin/bash", &app).unwrap();
    let shell = [app.to_str().unwrap(), "-c", EXECUTES_ITSELF];
    let worker = scene.target_by(&[wrapper, &shell].concat(), "worker", Behaviour::Handles);
    let traps = || scene.text("traps").len();
    wait_until("the application has a handler", || traps() == 1);
    let agent = nudge(&scene, &["--cmdline", "FOLDER/worker"]);
    scene.renew();
    agent.wait_for(ROLLED_OUT, 1);
    wait_until_old(|| vec![worker.pid()]);
    scene.renew();
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason");
    assert!(reason.contains("(app) does not handle SIGHUP: it would end"), "{reason}");
    assert_eq!(agent.count("sent"), 1, "{}", agent.log());
    scene.write("go", "");
    agent.wait_for(ROLLED_OUT, 2);
    assert!(agent.target("sent").ends_with(" (app)"), "{}", agent.log());
    assert_eq!(worker.signals(), 0, "{}", agent.log());
}

/// podnudge as the uid of the application, below a shell as root: podnudge may not read whether the
/// shell waits for the signal, so the application must be named.
#[test]
fn below_a_process_that_podnudge_may_not_read_nothing_is_signalled() {
    in_namespace!();
    let mut scene = Scene::new();
    let user = "setpriv --reuid=65532 --regid=65532 --clear-groups -- \"$0\" \"$@\"; echo done";
    scene.write("app.report", "");
    command("chmod").arg("0666").arg(scene.path("app.report")).status().unwrap();
    let mut target = scene.target_by(&["dash", "-c", user], "app", Behaviour::Handles);
    wait_until_old(|| vec![target.pid()]);
    for (arguments, is_sent) in [(["--process", "dash"], false), (["--process", "app"], true)] {
        let podnudge = scene.podnudge_by(&[&OTHER_USER[..], &["--bounding-set=-all"]].concat());
        let agent = scene.nudge_by(podnudge, &[&["--signal", "HUP"], &arguments[..]].concat());
        if is_sent {
            scene.renew();
            agent.wait_for("delivered", 1);
        } else {
            let parts = ["(dash) does not handle SIGHUP", "run podnudge as its uid", "name the"];
            assert_refused(&mut scene, &agent, &parts);
        }
        assert_eq!(target.signals(), usize::from(is_sent), "{}", agent.log());
    }
    // root may read all of them.
    let agent = nudge(&scene, &["--process", "dash"]);
    scene.renew();
    agent.wait_for("delivered", 1);
    assert_eq!(target.signals(), 2, "{}", agent.log());
    assert!(target.is_running());
}

/// A restart ends the wrapper: ending the application alone would not end its container. What is left
/// of the old container is not taken for the new one.
#[test]
fn a_restart_after_a_failure_ends_the_wrapper() {
    in_namespace!();
    let mut scene = Scene::new();
    let wrapper = &["dash", "-c", "\"$0\" \"$@\"; sleep 1000"][..];
    let mut target = scene.target_by(wrapper, "app", Behaviour::Handles);
    wait_until_old(|| vec![target.pid()]);
    let child = children_of(target.pid());
    let agent = scene.configured(
        "[[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\n\
         on-failure = [\"restart\"]\ntarget.cmdline = \"/app\"\nsignal.name = \"HUP\"\n\
         verify = { alive-for = \"10ms\", timeout = \"500ms\", children-newer = true }\n",
    );
    scene.renew();
    agent.wait_for("restarted", 1);
    assert_eq!(agent.target("sent"), format!("{} (app)", child[0]));
    assert_eq!(agent.target("restarted"), format!("{} (dash)", target.pid()));
    wait_until("the wrapper has ended", || !target.is_running());
    assert_eq!(target.signals(), 1);
    let is_applied = || agent.count(ROLLED_OUT) > 0;
    assert!(!is_within(Duration::from_secs(1), is_applied), "{}", agent.log());
}

fn children_of(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
