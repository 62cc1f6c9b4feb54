//! Programs that try to leave processes behind, to inherit what they should not, and to stop or end their
//! own supervisor. Tests that use only the library run as pid 1 of a namespace, and see what is left.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use podnudge::exchange::children;
use podnudge::exchange::program::run;

use crate::programs::{LONG, shell};
use crate::support::pod::no_other_process;
use crate::support::{Agent, Scene, in_namespace, wait_until, write_script};

const SHORT: Duration = Duration::from_millis(300);

/// Starts podnudge with a rule whose action is a shell script, and this by a change.
fn start(scene: &mut Scene, by: &[&str], script: &str, limit: &str) -> Agent {
    scene.write("script", script);
    let settings = format!(
        "on-start = \"never\"\nretry = {{ attempts = 1 }}\n\
         exec = {{ argv = [\"sh\", \"FOLDER/script\"], timeout = \"{limit}\" }}\n\
         [agent]\nwork-dir = \"FOLDER\"\ngrace = \"1s\"",
    );
    let agent = scene.rule_by(scene.podnudge_by(by), &settings);
    scene.change("2");
    agent
}

fn wait_for_file(scene: &Scene, name: &str) {
    wait_until(name, || !scene.text(name).is_empty());
}

/// The processes of this namespace, but for this one, its threads and these.
fn processes_besides(known: &[i32]) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap();
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let pids = pids.filter_map(|entry| pid(entry.ok()?));
    pids.filter(|pid| *pid != 1 && !known.contains(pid)).collect()
}

fn alone(agent: &Agent) {
    wait_until("only podnudge is left", || processes_besides(&[agent.pid()]).is_empty());
}

#[test]
fn processes_that_detach_from_a_program_end_with_it() {
    in_namespace!();
    for script in [
        "sleep 1000 & exit 0",
        "setsid sleep 1000 & exit 0",
        // A daemon: forked twice, in a session of its own.
        "(setsid sh -c '(sleep 1000 &) ; exec sleep 1000' &) ; exit 0",
        "setsid sh -c \"trap '' TERM HUP INT; while :; do sleep 1; done\" & exit 0",
        "setsid sh -c 'kill -STOP $$' & exit 0",
    ] {
        let ended = shell(script, LONG);
        assert!(ended.is_success, "{script}: {ended:?}");
        assert_eq!(processes_besides(&[]), [0; 0], "{script}");
        no_other_process();
    }
}

#[test]
fn processes_that_detach_end_with_a_program_that_is_out_of_time() {
    in_namespace!();
    let script =
        "setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & trap '' TERM; kill -STOP $$";
    let ended = shell(script, SHORT);
    assert_eq!((ended.is_exit, ended.how.as_str()), (false, "did not end within 300ms"));
    assert_eq!(processes_besides(&[]), [0; 0]);
    no_other_process();
}

#[test]
fn how_a_program_ended_is_reported_exactly() {
    for code in [0, 1, 42, 64, 127, 255] {
        assert_eq!(shell(&format!("exit {code}"), LONG).how, format!("ended with {code}"));
    }
    for (signal, name) in [
        ("KILL", "SIGKILL"),
        ("TERM", "SIGTERM"),
        ("SEGV", "SIGSEGV"),
        ("PIPE", "SIGPIPE"),
        ("40", "signal 40"),
    ] {
        let ended = shell(&format!("kill -{signal} $$"), LONG);
        assert_eq!((ended.is_exit, ended.how), (false, format!("was ended by {name}")));
    }
}

/// podnudge continues a supervisor that was stopped once.
#[test]
fn a_program_that_stops_its_supervisor_gains_nothing() {
    in_namespace!();
    let ended = shell("setsid sleep 1000 & kill -STOP $PPID", SHORT);
    assert!(!ended.is_success, "{ended:?}");
    no_other_process();
}

#[test]
fn a_program_cannot_end_its_supervisor_by_a_signal_that_can_be_blocked() {
    let ended = shell(
        "for n in HUP INT QUIT TERM USR1 ALRM PIPE CHLD; do kill -$n $PPID; done; echo done",
        LONG,
    );
    assert_eq!((ended.is_success, ended.output.as_str()), (true, "done"));
}

/// Nothing but podnudge itself can end what is left then.
#[test]
fn what_a_program_leaves_that_kills_its_supervisor_is_ended() {
    in_namespace!();
    let mut scene = Scene::new();
    let agent = start(
        &mut scene,
        &[],
        "setsid sleep 1000 & sleep 1000 & kill -KILL $PPID; sleep 1000",
        "1m",
    );
    agent.wait_for("gave-up", 1);
    assert!(agent.log().contains("something has ended its supervisor"), "{}", agent.log());
    alone(&agent);
}

#[test]
fn what_a_program_leaves_that_stops_its_supervisor_again_and_again_is_ended() {
    in_namespace!();
    let mut scene = Scene::new();
    // Several, so that it cannot do anything between two of their signals.
    let script = "parent=$PPID; for n in 1 2 3 4; do setsid sh -c \"while :; do kill -STOP $parent; done\" & done; \
                  until grep -q '^State:.T' /proc/$parent/status; do :; done";
    let agent = start(&mut scene, &[], script, "1s");
    agent.wait_for("gave-up", 1);
    alone(&agent);
}

/// What one rule's program has left is ended while another rule starts its own.
#[test]
fn a_program_that_kills_its_supervisor_does_not_end_another_program() {
    in_namespace!();
    children::adopt_orphans();
    let hostile = std::thread::spawn(|| {
        for _ in 0..30 {
            shell("for i in 1 2 3 4 5; do setsid sleep 1000 & done; kill -KILL $PPID", LONG);
        }
    });
    while !hostile.is_finished() {
        let ended = shell("exit 0", LONG);
        assert!(ended.is_success, "{ended:?}");
    }
    hostile.join().unwrap();
    // Reaps what has ended since.
    children::end_left();
    no_other_process();
}

/// Newer content ends a check in the thread of the event loop, where other rules have to go on.
#[test]
#[expect(clippy::disallowed_methods, reason = "measures how long podnudge blocks")]
fn a_program_that_stops_its_supervisor_does_not_delay_its_abandonment() {
    in_namespace!();
    children::adopt_orphans();
    let scene = Scene::new();
    let mark = scene.path("mark");
    let script = format!(
        "parent=$PPID; setsid sh -c \"while :; do kill -STOP $parent; echo 1 > {}; done\" & wait",
        mark.display()
    );
    let runtime = podnudge::run::runtime().unwrap();
    runtime.block_on(async {
        let arguments = ["sh", "-c", script.as_str()];
        let mut program = Box::pin(run(&arguments, &[], &[], None, LONG));
        while !mark.exists() {
            drop(tokio::time::timeout(SHORT, &mut program).await);
        }
        let begun = Instant::now();
        drop(program);
        assert!(begun.elapsed() < Duration::from_millis(800), "{:?}", begun.elapsed());
    });
    wait_until("nothing is left", || {
        children::end_left();
        processes_besides(&[]).is_empty()
    });
    no_other_process();
}

/// The seccomp profiles of older container runtimes do not know `pidfd_open(2)`. A program then runs and ends, and
/// what it leaves is ended, as with it.
#[test]
fn programs_run_and_are_ended_where_pidfds_are_refused() {
    for error in ["EPERM", "ENOSYS"] {
        for (then, limit, outcome) in [
            ("", "1m", "applied"),
            ("exec sleep 1000", "5s", "gave-up"),
            ("kill -KILL $PPID; exec sleep 1000", "1m", "gave-up"),
        ] {
            let mut scene = Scene::new();
            // -D detaches the tracer, so that the child process is podnudge itself.
            let inject = format!("inject=pidfd_open:error={error}");
            let strace = ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e", &inject];
            let script = format!("setsid sleep 1000 & echo $! > FOLDER/left; {then}");
            let agent = start(&mut scene, &strace, &script, limit);
            agent.wait_for("applied|gave-up", 1);
            assert_eq!(agent.count(outcome), 1, "{error}, {then}: {}", agent.log());
            let left = scene.text("left");
            assert!(!left.is_empty(), "{error}, {then}: the program was not started");
            let left = Path::new("/proc").join(left.trim());
            wait_until("what was left is ended", || !left.exists());
        }
    }
}

#[test]
fn no_program_outlives_a_podnudge_that_is_killed() {
    in_namespace!();
    for script in [
        "setsid sleep 1000 & echo 1 > FOLDER/mark; exec sleep 1000",
        // podnudge's end continues the supervisor.
        "setsid sleep 1000 & kill -STOP $PPID; echo 1 > FOLDER/mark; exec sleep 1000",
    ] {
        let mut scene = Scene::new();
        let mut agent = start(&mut scene, &[], script, "1m");
        wait_for_file(&scene, "mark");
        agent.kill();
        no_other_process();
    }
}

#[test]
fn no_program_outlives_a_podnudge_that_ends() {
    in_namespace!();
    let mut scene = Scene::new();
    let script =
        "setsid sleep 1000 & trap '' TERM; echo 1 > FOLDER/mark; while :; do sleep 1; done";
    let agent = start(&mut scene, &[], script, "1m");
    wait_for_file(&scene, "mark");
    assert!(agent.stop().success());
    no_other_process();
}

/// Each process has a session of its own, so no signal to a group reaches two of them.
#[test]
fn a_fork_bomb_is_ended() {
    in_namespace!();
    let mut scene = Scene::new();
    let bomb = scene.path("bomb");
    write_script(&bomb, "#!/bin/bash\nwhile :; do setsid \"$0\" & done 2>/dev/null\n");
    // The limit bounds the processes of a uid that nothing else has.
    let user = ["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups"];
    let limited = [&["prlimit", "--nproc=120"], &user[..]].concat();
    let script = "setsid FOLDER/bomb & sleep 1; exit 0";
    let mut agent = start(&mut scene, &limited, script, "5s");
    agent.wait_for("applied|gave-up", 1);
    alone(&agent);
    assert!(!agent.has_ended());
}

#[test]
fn an_action_that_starts_a_daemon_succeeds_and_the_daemon_is_ended() {
    in_namespace!();
    let mut scene = Scene::new();
    let script = "setsid sh -c 'echo $$ > FOLDER/daemon; exec sleep 1000' & \
                  until [ -s FOLDER/daemon ]; do sleep 0.01; done";
    let agent = start(&mut scene, &[], script, "1m");
    agent.wait_for("applied", 1);
    let daemon = scene.text("daemon");
    assert!(!Path::new("/proc").join(daemon.trim()).exists());
    alone(&agent);
}

/// Whatever whoever started podnudge has left open, ignored and allowed.
#[test]
fn programs_inherit_no_descriptors_ignored_signals_or_large_limits() {
    let mut scene = Scene::new();
    let open = "trap '' HUP INT USR2; exec 7</etc/passwd 9>FOLDER/open; exec \"$0\" \"$@\"";
    let open = scene.filled(open);
    let script = "cat /proc/self/status > FOLDER/status\n\
                  ls -l /proc/self/fd/0 > FOLDER/stdin\ncat /proc/self/limits > FOLDER/limits\n\
                  while grep -qx 1000 /proc/$PPID/oom_score_adj; do sleep 0.01; done\n\
                  cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj > FOLDER/oom\n\
                  exec ls /proc/self/fd > FOLDER/fds";
    let agent = start(&mut scene, &["sh", "-c", &open], script, "1m");
    agent.wait_for("applied", 1);
    // The last one is that of the listed directory.
    assert_eq!(scene.text("fds"), "0\n1\n2\n3\n");
    assert!(scene.text("stdin").ends_with("-> /dev/null\n"), "{}", scene.text("stdin"));
    let status = scene.text("status");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    // Children of a program that uses the C library may ignore its two own signals, 32 and 33.
    let ignored = u64::from_str_radix(field("SigIgn:\t"), 16).unwrap() & !0x0001_8000_0000;
    assert_eq!((ignored, field("SigBlk:\t")), (0, "0000000000000000"));
    assert_eq!(field("NoNewPrivs:\t"), "1");
    let limits = scene.text("limits");
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let mut parts = line.split_whitespace().map(str::to_owned);
        (parts.next().unwrap(), parts.next().unwrap())
    };
    assert_eq!(limit("Max core file size"), ("0".to_owned(), "0".to_owned()));
    assert_eq!(limit("Max file size"), ("1073741824".to_owned(), "1073741824".to_owned()));
    let (soft, hard) = limit("Max open files");
    assert!(soft == "1024" && hard.parse::<u64>().unwrap() <= 65_536, "{soft} {hard}");
    // The kernel ends the program before its supervisor, which has the same score for the moment of the start.
    let oom = scene.text("oom");
    let (program, supervisor) = oom.trim().split_once('\n').unwrap();
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    assert_eq!((program, supervisor), ("1000", own.trim()));
}
