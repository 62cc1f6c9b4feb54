//! Well-behaved and misbehaving programs: none runs beyond its timeout, and none leaves processes
//! behind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use podnudge::exchange::program::{Ended, run};
use podnudge_core::reason::Reason;

use crate::support::pod::no_other_process;
use crate::support::program::{DESCRIPTORS, inherit_nothing};
use crate::support::{
    Agent, Application, ROLLED_OUT, Scene, command, in_namespace, payload, wait_until,
};

pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) fn execute(arguments: &[&str], limit: Duration) -> Result<Ended, Reason> {
    inherit_nothing();
    podnudge::run::runtime().unwrap().block_on(run(
        arguments,
        &[("NAME", OsStr::new("value"))],
        &[],
        None,
        limit,
    ))
}

pub(crate) fn shell(script: &str, limit: Duration) -> Ended {
    execute(&["sh", "-c", script], limit).unwrap()
}

#[test]
fn the_output_and_the_exit_status_of_a_program_are_reported() {
    let good = shell("echo out; echo err >&2; echo $NAME", LONG);
    assert!(good.is_success);
    assert_eq!((good.how.as_str(), good.output.as_str()), ("ended with 0", "out\nerr\nvalue"));
    let bad = shell("printf 'line 3: \\033[31mno\\n' >&2; exit 3", LONG);
    assert!(!bad.is_success);
    assert_eq!((bad.how.as_str(), bad.output.as_str()), ("ended with 3", "line 3:  [31mno"));
    assert_eq!(shell("kill -SEGV $$", LONG).how, "was ended by SIGSEGV");
}

#[test]
fn a_missing_or_non_executable_program_fails_with_a_clear_error() {
    let missing = execute(&["/nowhere/checker"], LONG).unwrap_err();
    assert!(missing.message.contains("cannot run `/nowhere/checker`"), "{missing}");
    assert!(missing.hint.is_some());
    let quoted = execute(&["/no \"where\"\\\n"], LONG).unwrap_err();
    assert!(quoted.message.contains("cannot run `/no \"where\"\\\\n`"), "{quoted}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checker");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = execute(&[file.to_str().unwrap()], LONG).unwrap_err();
    assert!(refused.message.contains("ermission denied"), "{refused}");
}

#[test]
fn a_program_that_ignores_term_is_killed_with_its_children() {
    in_namespace!();
    let ended = shell("trap '' TERM; sleep 1000 & while :; do sleep 1; done", LONG / 200);
    assert!(!ended.is_success);
    assert_eq!(ended.how, "did not end within 300ms");
    no_other_process();
}

/// As pid 1, podnudge inherits the processes that its programs leave behind.
#[test]
fn as_pid_1_podnudge_reaps_orphaned_processes() {
    let mut scene = Scene::new();
    let application = scene.application();
    let pids = scene.path("pids");
    let config = format!(
        "[agent]\nwork-dir = \"{}\"\nresync = \"1s\"\n[[rule]]\nname = \"web\"\nwatch = \"{}\"\n\
         settle = \"0s\"\non-start = \"never\"\n[rule.http]\nurl = \"{}\"\n[[rule.check]]\n\
         exec = [\"sh\", \"-c\", \"setsid sleep 0.1 >&- 2>&- & echo $! >> {}\"]\n",
        scene.folder.path().display(),
        scene.kubelet.volume.display(),
        application.url(),
        pids.display(),
    );
    let file = scene.path("podnudge.toml");
    fs::write(&file, config).unwrap();
    let mut command = command("unshare");
    command
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(env!("CARGO_BIN_EXE_podnudge"))
        .args(["--log", "json", "--listen", "off", "--config"])
        .arg(&file);
    let agent = Agent::spawn(scene.folder.path(), command);
    agent.wait_for("baseline", 1);
    for n in 1..4 {
        scene.roll_out(&agent, &format!("change {n}"));
    }
    let children = |pid: i32| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
    };
    // unshare's only child is podnudge.
    let podnudge = children(agent.pid())[0];
    assert_eq!(fs::read_to_string(&pids).unwrap().lines().count(), 3);
    wait_until("podnudge has no children", || children(podnudge).is_empty());
}

#[test]
fn only_the_end_of_a_large_output_is_kept() {
    let loud = shell("head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1", LONG);
    assert_eq!(loud.how, "ended with 1");
    assert!(loud.output.ends_with("x\nthe end"));
    assert!(loud.output.len() <= 4096);
}

/// Regardless of how the tests were started: under nohup, in the background, with other limits.
#[test]
fn processes_started_by_tests_inherit_no_signals_limits_or_environment() {
    const INSIDE: &str = "PODNUDGE_TEST_INSIDE_NOHUP";
    if std::env::var_os(INSIDE).is_none() {
        let script = "trap '' HUP INT QUIT TERM USR1; ulimit -Sn 64; ulimit -Sf 8; umask 077; \
                      exec env --block-signal=HUP \"$@\" <&-";
        let mut shell = command("sh");
        shell.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
        let test = "programs::processes_started_by_tests_inherit_no_signals_limits_or_environment";
        let output = shell.args(["--exact", test]).env(INSIDE, "1").output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
        return;
    }
    let stdout_of = |program: &[&str]| {
        let output = command(program[0]).args(&program[1..]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let status = stdout_of(&["cat", "/proc/self/status"]);
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    assert_eq!((field("Umask:\t"), field("SigBlk:\t")), ("0022", "0000000000000000"));
    // Signals above 31 are reserved by the C library, which lets children ignore them.
    let ignored = u64::from_str_radix(field("SigIgn:\t"), 16).unwrap();
    assert_eq!(ignored & 0x7fff_ffff, 0, "{ignored:x}");
    let limits = format!("{DESCRIPTORS}\nunlimited\n");
    assert_eq!(stdout_of(&["sh", "-c", "ulimit -n; ulimit -f"]), limits);
    assert_eq!(stdout_of(&["readlink", "/proc/self/fd/0"]), "/dev/null\n");
    let environment = stdout_of(&["env"]);
    assert!(environment.starts_with("PATH=") && environment.lines().count() == 1, "{environment}");
}

/// In KiB. `smaps_rollup` is exact, whereas `VmRSS` may lag behind by some hundred pages (proc(5)).
fn anonymous_memory() -> i64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn thousands_of_runs_leak_no_memory_descriptors_or_processes() {
    in_namespace!();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    podnudge::run::runtime().unwrap().block_on(async {
        let once = || run(&["true"], &[], &[], None, LONG);
        for _ in 0..100 {
            assert!(once().await.unwrap().is_success);
        }
        let (before, mut memory) = (descriptors(), vec![anonymous_memory()]);
        for _ in 0..10 {
            for _ in 0..200 {
                assert!(once().await.unwrap().is_success);
            }
            memory.push(anonymous_memory());
        }
        assert_eq!(descriptors(), before);
        // A leak per run shows in each 200 runs; the allocator grows and shrinks only in some of
        // them. 8 KiB are 40 bytes per run.
        let mut growth: Vec<i64> = memory.windows(2).map(|two| two[1] - two[0]).collect();
        growth.sort_unstable();
        assert!(growth[growth.len() / 2] < 8, "KiB after each 200 programs: {memory:?}");
    });
    no_other_process();
}

#[test]
fn install_copies_the_binary_and_replaces_a_running_one() {
    let folder = tempfile::tempdir().unwrap();
    let podnudge = |program: &str, arguments: &[&str]| {
        let output = command(program).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let path = folder.path().to_str().unwrap();
    let installed = folder.path().join("podnudge").to_str().unwrap().to_owned();
    let done = (Some(0), format!("{installed}\n"));
    assert_eq!(podnudge(env!("CARGO_BIN_EXE_podnudge"), &["install", path]), done);
    // The installed binary replaces itself while it runs.
    assert_eq!(podnudge(&installed, &["install", path]), done);
    let version = format!("podnudge {}\n", *podnudge::system::version::SHOWN);
    assert_eq!(podnudge(&installed, &["--version"]), (Some(0), version));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let (code, message) = podnudge(&installed, &["install", "/nowhere"]);
    assert_eq!(code, Some(74));
    assert!(
        message.contains("cannot install into `/nowhere`") && message.contains("emptyDir"),
        "{message}"
    );
}

/// As pid 1 of a container, which was killed during an earlier installation, with a strict umask.
#[test]
fn install_gives_an_executable_for_all_users_and_survives_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    for left in [".podnudge.1", ".podnudge-0123456789abcdef"] {
        fs::write(folder.path().join(left), "half of a binary").unwrap();
    }
    let mut unshare = command("unshare");
    unshare.args(["--pid", "--fork", "sh", "-c", "umask 077; exec \"$0\" install \"$1\""]);
    unshare.arg(env!("CARGO_BIN_EXE_podnudge")).arg(folder.path());
    let output = unshare.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let installed = fs::metadata(folder.path().join("podnudge")).unwrap();
    assert_eq!(installed.permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// nginx reports the error for a private copy, which is removed afterwards.
#[test]
fn a_program_checks_a_private_copy_before_the_application_reloads() {
    let site = |text: &str| {
        let main = "events {}\nhttp { include sites/*.conf; }\n";
        payload(&[("nginx.conf", main), ("sites/a.conf", text), ("README.md", "ignored")])
    };
    let mut scene = Scene::of(&site("server { listen 127.0.0.1:18081; }\n"));
    let application = Application::start(&scene.kubelet.volume, "sites/a.conf");
    // The leftover copy of a podnudge that was killed during a check.
    let work = scene.path("work");
    fs::create_dir_all(work.join("podnudge-check-web/etc")).unwrap();
    let agent = scene.rule(&format!(
        "name = \"web\"\non-start = \"never\"\nignore = \"*.md\"\nhttp.url = \"{}\"\n[[rule.check]]\n\
         exec = [\"nginx\", \"-q\", \"-t\", \"-g\", \"pid FOLDER/pid; error_log stderr;\", \"-c\", \
         \"{{dir}}/nginx.conf\"]\n[agent]\nwork-dir = \"FOLDER/work\"",
        application.url(),
    ));
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    scene.kubelet.write(&site("server { listen 127.0.0.1:18081; lisen 1; }\n"));
    agent.wait_for("rejected", 1);
    let message = agent.last("rejected", "reason");
    assert!(message.contains("ended with 1"), "{message}");
    assert!(message.contains("unknown directive \"lisen\" in {dir}/sites/a.conf:1"), "{message}");
    scene.kubelet.write(&site("server { listen 127.0.0.1:18082; }\n"));
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(application.reloads(), ["server { listen 127.0.0.1:18082; }\n"]);
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
}

/// The copy may contain Secrets, and the program that checks it makes what it likes in it.
#[test]
fn a_private_copy_is_removed_whatever_a_program_has_made_in_it() {
    let mut scene = Scene::with(&[("a", "1")]);
    let application = scene.application();
    let work = scene.path("work");
    fs::create_dir(&work).unwrap();
    let script = "mkdir -p closed $(printf 'd/%.0s' $(seq 200)) && cp a closed/ && ln -s / d/d/root \
                  && chmod 0 closed d/d/d d/d d .";
    // Without capabilities, modes hold for root, too.
    let by = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let settings = format!(
        "on-start = \"never\"\nhttp.url = \"{}\"\n[[rule.check]]\n\
         exec = [\"sh\", \"-c\", \"cd {{dir}} && {script}\"]\n[agent]\nwork-dir = \"FOLDER/work\"",
        application.url(),
    );
    let agent = scene.rule_by(scene.podnudge_by(&by), &settings);
    scene.roll_out(&agent, "2");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0, "{}", agent.log());
    assert_eq!(agent.count("left-over"), 0);
}

/// It may contain Secrets, and something that podnudge cannot remove.
#[test]
fn a_private_copy_that_cannot_be_removed_is_reported_and_removed_at_the_next_start() {
    in_namespace!();
    let mut scene = Scene::with(&[("a", "1")]);
    let application = scene.application();
    let work = scene.path("work");
    fs::create_dir(&work).unwrap();
    let settings = format!(
        "name = \"web\"\non-start = \"never\"\nhttp.url = \"{}\"\n[[rule.check]]\n\
         exec = [\"sh\", \"-c\", \"mkdir {{dir}}/mounted && mount -t tmpfs tmpfs {{dir}}/mounted\"]\n\
         [agent]\nwork-dir = \"FOLDER/work\"",
        application.url(),
    );
    let agent = scene.rule(&settings);
    scene.change("2");
    // It decides nothing about the content.
    agent.wait_for(ROLLED_OUT, 1);
    agent.wait_for("left-over", 1);
    assert!(agent.last("left-over", "path").starts_with(work.to_str().unwrap()));
    assert!(agent.last("left-over", "hint").contains("may contain Secrets"));
    assert!(agent.stop().success());
    let agent = scene.rule(&settings);
    assert_eq!((agent.count("left-over"), agent.last("left-over", "rule")), (1, "web".to_owned()));
    assert!(agent.stop().success());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mounted = mounts.find(|path| path.starts_with(work.to_str().unwrap())).unwrap();
    assert!(command("umount").arg(mounted).status().unwrap().success());
    let agent = scene.rule(&settings);
    assert_eq!((agent.count("left-over"), fs::read_dir(&work).unwrap().count()), (0, 0));
}
