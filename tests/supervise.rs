//! `podnudge supervise`: the real binary as the init of an application, and restarts that a real podnudge asks
//! it for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::{
    Agent, Kubelet, ask, command, in_namespace, in_network, payload, podnudge, wait_until,
    write_script,
};

/// The request for a restart, as podnudge sends it.
const REQUEST: Signal = Signal::SIGSTKFLT;
/// A user without capabilities.
const USER: [&str; 4] = ["--reuid=65532", "--regid=65532", "--clear-groups", "--bounding-set=-all"];
/// An application that ends on TERM, with 5. A start is a line in `starts`. It reads the volume, where there is one.
const APP: &str = "trap 'echo term >>terms; exit 5' TERM; cat */..data/* >/dev/null 2>&1; echo $$ >>starts; while :; do sleep 0.02; done";

struct Scene {
    folder: TempDir,
}

/// A supervised application. Killed at the end of its test.
struct Supervised {
    child: Child,
    folder: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Some tests run as another uid.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a shell script of this name below a supervisor with these options.
    fn start(&self, name: &str, script: &str, options: &[&str]) -> Supervised {
        self.start_by(podnudge(), name, script, options)
    }

    fn start_by(&self, mut by: Command, name: &str, script: &str, options: &[&str]) -> Supervised {
        let folder = self.path().join(format!("{name}.d"));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let program = folder.join(name);
        write_script(&program, &format!("#!/bin/sh\n{script}\n"));
        by.arg("supervise").args(options).arg("--").arg(program);
        let supervised = Supervised::spawn(by, folder);
        supervised.wait_for_starts(1);
        supervised
    }
}

impl Supervised {
    fn spawn(mut by: Command, folder: PathBuf) -> Self {
        // What the application has left may keep it open.
        let stderr = fs::File::create(folder.join("stderr")).unwrap();
        Self { child: by.current_dir(&folder).stderr(stderr).spawn().unwrap(), folder }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    fn lines(&self, file: &str) -> Vec<i32> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap_or_default()).collect()
    }

    /// The pids of all starts of the application.
    fn starts(&self) -> Vec<i32> {
        self.lines("starts")
    }

    fn wait_for_starts(&self, wanted: usize) {
        wait_until(&format!("{wanted} starts"), || self.starts().len() >= wanted);
    }

    /// Waits for the end, and returns the exit code and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, fs::read_to_string(self.folder.join("stderr")).unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // The supervisor ends with its command.
        if self.is_running() {
            for command in children(self.pid()) {
                _ = kill(Pid::from_raw(command), Signal::SIGKILL);
            }
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a command below the supervisor.
fn run(arguments: &[&str]) -> Output {
    podnudge().arg("supervise").args(arguments).output().unwrap()
}

fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn it_ends_with_the_exit_code_of_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_script(&path, text);
        path.to_str().unwrap().to_owned()
    };
    let (lost, empty) = (script("lost", "#!/no/sh\n"), script("empty", "no program\n"));
    for (arguments, code, parts) in [
        (&["--", "true"][..], 0, &[][..]),
        (&["sh", "-c", "exit 3"], 3, &[]),
        (&["--grace=1s", "sh", "-c", "exit 255"], 255, &[]),
        (&["--", "sh", "-c", "kill -KILL $$"], 137, &[]),
        (&["--", "sh", "-c", "kill -TERM $$"], 143, &[]),
        (&["--", "bash", "-c", "kill -40 $$"], 168, &[]),
        (
            &["--", "no-such-program"],
            127,
            &[
                "cannot start `no-such-program`: No such file",
                "hint: name a program in a directory of PATH",
            ],
        ),
        (&["--", "/no/such/program"], 127, &["hint: name a program of the container's image"]),
        (&["--", &lost], 127, &["hint: it is there, but not the interpreter"]),
        (&["--", "/etc/passwd"], 126, &["cannot start `/etc/passwd`: Permission denied", "hint: "]),
        (&["--", "/etc"], 126, &["hint: it must be a file that the user"]),
        (&["--", &empty], 126, &["hint: a script begins with a line such as"]),
        (&[], 64, &["there is no command to start", "hint: name it after `--`"]),
        (&["--grace", "5", "true"], 64, &["--grace: `5` has no unit", "hint: "]),
        (&["--gracious", "true"], 64, &["unknown option `--gracious`", "hint: the options are"]),
    ] {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(text.is_empty(), parts.is_empty(), "{arguments:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

/// All that a program can see of how it was started is as without the supervisor: dispositions, mask,
/// descriptors, limits, environment, capabilities, and standard input.
#[test]
fn a_command_is_started_as_without_the_supervisor() {
    let script = "cat; env | grep -v ^_=; ulimit -a; umask; pwd; nice; cat /proc/self/oom_score_adj\n\
        grep -E '^(Sig[BIC]|Cap|Uid|Gid|Groups|NoNew|Seccomp:|Threads)' /proc/self/status\n\
        for fd in 0 1 2 7 8; do readlink /proc/self/fd/$fd; done; ls /proc/self/fd; echo err >&2; cat <&7";
    let started = |by: &[&str]| {
        let mut start = command("env");
        start.args([
            "--ignore-signal=HUP,USR1,PIPE",
            "--block-signal=USR2,ALRM,TERM",
            "A=b c",
            "E=",
        ]);
        let open = "ulimit -n 777; umask 027; exec 7</etc/hostname; exec \"$@\"";
        start.args(["bash", "-c", open, "bash"]).args(by).args(["sh", "-c", script]);
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        fs::write(&input, "input\n").unwrap();
        let output = start.stdin(fs::File::open(&input).unwrap()).output().unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap().replace(input.to_str().unwrap(), "INPUT");
        let pipe = |line: &str| !line.starts_with("pipe:");
        // The C library of whoever starts a process may ignore its own two signals, 32 and 33. The standard
        // library of Rust ignores PIPE, and does not say whether it was ignored before.
        let own = |line: &str| match line.strip_prefix("SigIgn:\t") {
            Some(mask) => {
                format!("SigIgn:\t{:x}", u64::from_str_radix(mask, 16).unwrap() & !0x1_8000_1000)
            }
            None => line.to_owned(),
        };
        let lines: Vec<String> = text.lines().filter(|line| pipe(line)).map(own).collect();
        (lines, String::from_utf8(output.stderr).unwrap())
    };
    let (wanted, found) =
        (started(&[]), started(&[env!("CARGO_BIN_EXE_podnudge"), "supervise", "--"]));
    assert!(wanted.0.iter().any(|line| line == "input"), "{wanted:?}");
    assert!(wanted.0.iter().any(|line| line == "SigIgn:\t201"), "{wanted:?}");
    assert_eq!(found, wanted);
}

/// The kernel would stop a command that reads from a terminal in whose background it is. A key reaches the
/// command once, not a second time through the supervisor.
#[test]
fn a_command_has_the_terminal() {
    // bash runs a trap late, after the end of `read`, if the signal arrives just before `read` begins: a
    // `read` without a time-out would then wait for a line that comes only after the trap.
    let script = "trap 'echo int >>keys' INT; echo ready; while ! read -t 1 x; do :; done; \
        echo \"got $x $(wc -l <keys) $(awk '{print $5 == $8}' /proc/$$/stat)\"";
    let folder = tempfile::tempdir().unwrap();
    let pty = "
import os, pty, sys
pid, fd = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
text = b''
def wait(part):
    global text
    while part not in text: text += os.read(fd, 1000)
wait(b'ready')
os.write(fd, b'\\x03')
while not os.path.exists('keys'): pass
os.write(fd, b'hello\\n')
wait(b'got')
wait(b'\\n')
print(text.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let mut start = command("python3");
    start.args([
        "-c",
        pty,
        env!("CARGO_BIN_EXE_podnudge"),
        "supervise",
        "--",
        "bash",
        "-c",
        script,
    ]);
    let output = start.current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("got hello 1 1"), "{text}");
    assert!(output.status.success());
}

#[test]
fn each_signal_is_passed_on() {
    let scene = Scene::new();
    let script = "exec python3 -c '
import signal
def got(number, frame): print(number, file=open(\"got\", \"a\"))
signals = [n for n in range(1, 65) if n not in (9, 16, 17, 19, 32, 33)]
for n in signals: signal.signal(n, got)
print(file=open(\"starts\", \"a\"))
while True: signal.pause()'";
    let mut app = scene.start("app", script, &[]);
    // The kernel discards CONT if a signal follows that stops a process, and the reverse (signal(7)).
    let left_out = [9, 16, 17, 18, 19, 32, 33];
    let passed: Vec<i32> = (1..=64).filter(|number| !left_out.contains(number)).collect();
    let all: Vec<String> = passed.iter().map(i32::to_string).collect();
    let send = format!("for n in {}; do kill -$n {}; done", all.join(" "), app.pid());
    assert!(command("bash").args(["-c", &send]).status().unwrap().success());
    let got = || {
        let mut got = app.lines("got");
        got.sort_unstable();
        got
    };
    wait_until("all signals have arrived", || got() == passed);
    app.send(Signal::SIGCONT);
    wait_until("CONT has arrived", || app.lines("got").last() == Some(&18));
    assert!(app.is_running());
    // After TERM, the kubelet expects an end, and a request for a restart does nothing.
    app.send(REQUEST);
    app.send(Signal::SIGUSR1);
    wait_until("USR1 has arrived again", || app.lines("got").len() == passed.len() + 2);
    assert_eq!((app.starts().len(), app.is_running()), (1, true));
}

#[test]
fn orphans_are_reaped_and_do_not_outlive_a_restart() {
    in_namespace!();
    let scene = Scene::new();
    let script = "for n in 1 2 3 4 5; do (setsid sh -c 'echo >>ended' &); done
            (setsid sh -c \"trap '' TERM HUP; echo \\$\\$ >>left; while :; do sleep 0.1; done\" &)
            (setsid sh -c 'setsid sleep 1000 & echo $! >>left; exec sleep 1000' &)";
    let app = scene.start("app", &format!("{script}\n{APP}"), &[]);
    let begun = |starts: usize| {
        wait_until("the orphans have begun and ended", || {
            app.lines("ended").len() == 5 * starts && app.lines("left").len() == 2 * starts
        });
    };
    begun(1);
    // The command and two orphans, whose parent it has become.
    wait_until("all that have ended are reaped", || children(app.pid()).len() == 3);
    let first = app.lines("left");
    app.send(REQUEST);
    app.wait_for_starts(2);
    assert!(first.iter().all(|pid| state(*pid).is_none()), "something is left of the first");
    begun(2);
    app.send(Signal::SIGTERM);
    let (code, text) = app.end();
    assert_eq!(code, Some(5), "{text}");
}

/// An end that nobody asked for ends the supervisor with its code, also just after a restart: the kubelet
/// counts it.
#[test]
fn an_end_that_nobody_asked_for_is_an_end_of_the_supervisor() {
    let scene = Scene::new();
    let bad = "[ -e bad ] && exit 42";
    let app = scene.start("app", &format!("{bad}\n{APP}"), &[]);
    app.send(REQUEST);
    app.wait_for_starts(2);
    fs::write(app.folder.join("bad"), "").unwrap();
    app.send(REQUEST);
    let [first, second] = app.starts()[..] else { unreachable!("there were two starts") };
    let own = std::process::id();
    let (code, text) = app.end();
    assert_eq!(code, Some(42), "{text}");
    let by = format!("podnudge: restart requested by process {own} (uid 0): process");
    assert!(text.contains(&format!("{by} {first} (`")), "{text}");
    assert!(
        text.contains(&format!("/app`) ended with 5, and process {second} was started\n")),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");

    // A program that is gone.
    let app = scene.start("gone", APP, &[]);
    fs::remove_file(app.folder.join("gone")).unwrap();
    app.send(REQUEST);
    let (code, text) = app.end();
    assert_eq!(code, Some(127), "{text}");
    assert!(text.contains("cannot start `"), "{text}");
}

/// In either order: the command has ended before the supervisor can have asked it to.
#[test]
fn a_crash_at_the_moment_of_a_request_is_a_crash() {
    let scene = Scene::new();
    for (name, order) in [("before", [0, 1]), ("after", [1, 0])] {
        let app = scene.start(name, APP, &[]);
        let command = app.starts()[0];
        app.send(Signal::SIGSTOP);
        wait_until("the supervisor is stopped", || state(app.pid()) == Some('T'));
        for step in order {
            if step == 0 {
                kill(Pid::from_raw(command), Signal::SIGSEGV).unwrap();
                wait_until("the command has ended", || state(command) == Some('Z'));
            } else {
                app.send(REQUEST);
            }
        }
        app.send(Signal::SIGCONT);
        let folder = app.folder.clone();
        let (code, text) = app.end();
        assert_eq!((code, text.as_str()), (Some(139), ""));
        assert_eq!(fs::read_to_string(folder.join("starts")).unwrap().lines().count(), 1);
    }
}

#[test]
fn a_command_that_ignores_its_stop_signal_is_killed() {
    let scene = Scene::new();
    let deaf = "trap 'echo term >>terms' TERM; echo $$ >>starts; while :; do sleep 0.02; done";
    let app = scene.start("deaf", deaf, &["--grace", "200ms"]);
    app.send(REQUEST);
    app.wait_for_starts(2);
    app.send(REQUEST);
    wait_until("the second restart has begun", || app.lines("terms").len() == 2);
    app.send(Signal::SIGTERM);
    let (code, text) = app.end();
    assert_eq!(code, Some(137), "{text}");
    assert!(text.contains("ended with 137, and process"), "{text}");

    let by_quit = format!("trap 'exit 6' QUIT; {deaf}");
    let app = scene.start("quit", &by_quit, &["--stop-signal", "QUIT"]);
    app.send(REQUEST);
    app.wait_for_starts(2);
    app.send(Signal::SIGQUIT);
    assert_eq!(app.end().0, Some(6));
}

/// What the supervisor says of a restart must not end the command that it has just started.
#[test]
fn a_restart_does_not_need_anybody_who_reads_what_is_said() {
    let scene = Scene::new();
    let mut by = command("bash");
    by.args(["-c", "exec \"$0\" \"$@\" 2> >(true)", env!("CARGO_BIN_EXE_podnudge")]);
    let app = scene.start_by(by, "app", APP, &[]);
    for starts in 2..=4 {
        app.send(REQUEST);
        app.wait_for_starts(starts);
    }
    app.send(Signal::SIGTERM);
    assert_eq!(app.end().0, Some(5));
}

/// The kubelet stops the container during a restart: the application ends once, and does not start again.
#[test]
fn the_end_of_the_container_ends_a_restart() {
    let scene = Scene::new();
    let slow = "trap 'echo term >>terms; until [ -e go ]; do sleep 0.01; done; exit 5' TERM
        echo $$ >>starts; while :; do sleep 0.02; done";
    let app = scene.start("app", slow, &[]);
    app.send(REQUEST);
    wait_until("the application was told to end", || app.lines("terms").len() == 1);
    app.send(Signal::SIGTERM);
    app.send(REQUEST);
    // It has read both when it has passed this on.
    fs::write(app.folder.join("go"), "").unwrap();
    let folder = app.folder.clone();
    let (code, text) = app.end();
    assert_eq!((code, text.as_str()), (Some(5), ""));
    for (file, wanted) in [("starts", 1), ("terms", 1)] {
        let lines = fs::read_to_string(folder.join(file)).unwrap().lines().count();
        assert_eq!(lines, wanted, "{file}");
    }
}

#[test]
fn a_process_of_another_user_cannot_ask() {
    let scene = Scene::new();
    let mut app = scene.start("app", APP, &[]);
    let ask = |by: &[&str]| {
        let request = format!("kill -{} {}", REQUEST as i32, app.pid());
        let mut ask = command("setpriv");
        ask.args(by).args(["sh", "-c", &request]);
        ask.output().unwrap()
    };
    let refused = ask(&USER);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not permitted"));
    assert!(ask(&["--reuid=0"]).status.success());
    app.wait_for_starts(2);
    assert!(app.is_running() && app.starts().len() == 2);
}

/// podnudge with a rule that restarts its target.
fn agent(scene: &Scene, mut by: Command, name: &str, target: &str, more: &str) -> (Agent, Kubelet) {
    let folder = scene.path().join(format!("{name}.d"));
    let mut kubelet = Kubelet::new(folder.join("volume"));
    kubelet.write(&payload(&[("a.conf", "0")]));
    let config = format!(
        "[[rule]]\nwatch = \"{}\"\nsettle = \"0s\"\non-start = \"never\"\nretry = {{ attempts = 1 }}\n\
         restart = {{}}\ntarget = {{ {target} }}\nverify = {{ alive-for = \"50ms\" }}\n{more}\n",
        kubelet.volume.display()
    );
    let file = folder.join("podnudge.toml");
    fs::write(&file, config).unwrap();
    by.args(["--log", "json", "--listen", "off", "--config", file.to_str().unwrap()]);
    let agent = Agent::spawn(&folder, by);
    agent.wait_for("baseline", 1);
    (agent, kubelet)
}

fn as_user() -> Command {
    let mut by = command("setpriv");
    by.args(USER).arg(env!("CARGO_BIN_EXE_podnudge"));
    by
}

/// The kubelet notices nothing of such a restart, so the pod stays Ready while the application starts.
#[test]
fn a_restart_with_a_slot_and_without_a_proof_is_a_problem_below_a_supervisor_only() {
    in_namespace!();
    let scene = Scene::new();
    let _below = scene.start("supervised", APP, &[]);
    let alone = scene.path().join("alone");
    std::os::unix::fs::symlink("/bin/sleep", &alone).unwrap();
    let mut alone = command(alone.to_str().unwrap()).arg("1000").spawn().unwrap();
    let is_reported = |name: &str, settings: &str| {
        let file = scene.path().join(format!("{name}.toml"));
        let rule = format!(
            "[cluster]\nurl = \"http://127.0.0.1:1\"\nnamespace = \"a\"\n[[rule]]\nwatch = {:?}\n\
             target.process = \"{name}\"\nrestart = {{}}\n{settings}",
            scene.path()
        );
        fs::write(&file, rule).unwrap();
        let mut doctor = podnudge();
        doctor.args(["doctor", "--json", "--listen", "off", "--config"]).arg(&file);
        let found = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
        assert!(found.contains("\"rules\""), "{found}");
        found.contains("\"restart-unproven\"")
    };
    let slot = "limit = { lease = \"web\" }";
    assert!(is_reported("supervised", slot));
    assert!(!is_reported("alone", slot), "the kubelet notices it");
    for settings in [
        "",
        "limit = { lease = \"web\", bake = \"10s\" }",
        "limit = { lease = \"web\" }\nverify = { http = \"http://127.0.0.1:1/\" }",
        "limit = { lease = \"web\" }\naccept = \"restart-unproven\"",
    ] {
        assert!(!is_reported("supervised", settings), "{settings}");
    }
    alone.kill().unwrap();
    alone.wait().unwrap();
}

/// The supervisor stays the same process, so the kubelet sees no end. Its own arguments match a pattern for
/// the application, too; an orphan matches as well, and is no target of its own.
#[test]
fn podnudge_restarts_a_supervised_application_again_and_again() {
    in_namespace!();
    let scene = Scene::new();
    let table = [
        ("by-name", "process = \"by-name\"", APP.to_owned(), false),
        ("by-user", "process = \"by-user\"", APP.to_owned(), true),
        ("by-cmdline", "cmdline = \"by-cmdline\"", APP.to_owned(), false),
        (
            "by-shell",
            "process = \"by-shell-x\"",
            "ln -sf /bin/sleep by-shell-x; cat */..data/* >/dev/null 2>&1; echo $$ >>starts; ./by-shell-x 1000; exit 3"
                .to_owned(),
            false,
        ),
        (
            "by-orphan",
            "cmdline = \"by-orphan\"",
            format!("ln -sf /bin/sleep by-orphan-x; (setsid ./by-orphan-x 1000 &); {APP}"),
            false,
        ),
    ];
    let mut scenes: Vec<_> = table
        .iter()
        .map(|(name, target, script, is_user)| {
            let by = || if *is_user { as_user() } else { podnudge() };
            let app = scene.start_by(by(), name, script, &[]);
            let (agent, kubelet) = agent(&scene, by(), name, target, "");
            (*name, app, agent, kubelet)
        })
        .collect();
    for n in 1..=3 {
        for (_, _, _, kubelet) in &mut scenes {
            kubelet.write(&payload(&[("a.conf", &n.to_string())]));
        }
        for (name, app, agent, _) in &mut scenes {
            agent.wait_for("applied", n);
            let log = agent.log();
            assert!(app.is_running(), "{name}: {log}");
            // It writes that after it has read the content.
            wait_until("the application writes that it has started", || app.starts().len() > n);
            assert_eq!(app.starts().len(), n + 1, "{name}: {log}");
            let below = format!(" below {} (podnudge-init)", app.pid());
            let target = agent.target("restarted");
            assert!(target.ends_with(&below), "{name}: {target}");
            assert!(target.starts_with(&format!("{} (", app.starts()[n - 1])), "{name}: {target}");
            assert_eq!(agent.count("preflight") + agent.count("refused"), 0, "{name}: {log}");
        }
    }
}

/// Without a target in the rule: the supervisor, its command and an orphan mount the volume.
#[test]
fn by_the_mount_of_the_volume_the_target_is_the_command_and_not_its_supervisor() {
    in_namespace!();
    let scene = Scene::new();
    let volume = scene.path().join("app.d/volume");
    fs::create_dir_all(&volume).unwrap();
    let mounted = command("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&volume).status();
    assert!(mounted.unwrap().success());
    let mut by = command("unshare");
    let other = "mkdir there && mount --bind volume there && umount volume && exec \"$@\"";
    by.args(["--mount", "sh", "-c", other, "sh", env!("CARGO_BIN_EXE_podnudge")]);
    let script = format!("(setsid sleep 1000 &); {APP}");
    let mut app = scene.start_by(by, "app", &script, &[]);
    let (agent, mut kubelet) = agent(&scene, podnudge(), "app", "", "");
    for n in 1..=2 {
        kubelet.write(&payload(&[("a.conf", &n.to_string())]));
        agent.wait_for("applied", n);
        assert_eq!((app.starts().len(), app.is_running()), (n + 1, true), "{}", agent.log());
    }
    drop((agent, app));
    wait_until("the volume can be unmounted", || {
        command("umount").arg(&volume).status().unwrap().success()
    });
}

/// An entrypoint starts a helper and executes the supervisor, which so has a child that is older than its command.
#[test]
fn a_helper_of_the_entrypoint_is_not_the_command_of_the_supervisor() {
    in_namespace!();
    let scene = Scene::new();
    let folder = scene.path().join("app.d");
    let volume = folder.join("volume");
    fs::create_dir_all(&volume).unwrap();
    let mounted = command("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&volume).status();
    assert!(mounted.unwrap().success());
    let mut by = command("unshare");
    let helper = "mkdir there && mount --bind volume there && umount volume && \
        { sh -c \"trap 'echo >>helped' HUP; echo >>ready; while :; do sleep 0.05; done\" & } && \
        until [ -e ready ]; do sleep 0.01; done && exec \"$@\"";
    by.args(["--mount", "sh", "-c", helper, "sh", env!("CARGO_BIN_EXE_podnudge")]);
    let app = scene.start_by(by, "app", &format!("trap 'echo >>hups' HUP; {APP}"), &[]);
    let mut kubelet = Kubelet::new(volume);
    kubelet.write(&payload(&[("a.conf", "0")]));
    let mut podnudge = podnudge();
    podnudge.args(["--log", "json", "--listen", "off", "--on-start", "never", "--settle", "0s"]);
    podnudge.args(["--signal", "HUP", "--alive-for", "50ms", "--watch"]).arg(&kubelet.volume);
    let agent = Agent::spawn(&folder, podnudge);
    agent.wait_for("baseline", 1);
    kubelet.write(&payload(&[("a.conf", "1")]));
    agent.wait_for("sent|refused|waiting-for-target", 1);
    assert_eq!(agent.target("sent"), format!("{} (app)", app.starts()[0]), "{}", agent.log());
    wait_until("the application gets the signal", || app.lines("hups").len() == 1);
    assert!(app.lines("helped").is_empty(), "{}", agent.log());
    let volume = kubelet.volume.clone();
    drop((agent, app));
    wait_until("the volume can be unmounted", || {
        command("umount").arg(&volume).status().unwrap().success()
    });
}

/// As pid 1 of a container with its own process namespace: the kernel would discard signals without a
/// handler, if they were not blocked.
#[test]
fn as_pid_1_it_passes_signals_on() {
    let mut by = command("unshare");
    by.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_podnudge"), "supervise"]);
    let script = "trap 'exit 9' TERM; kill -TERM 1; while :; do sleep 0.01; done";
    assert_eq!(by.args(["--", "sh", "-c", script]).status().unwrap().code(), Some(9));
}

/// A broken configuration that ends the application ends the container, as without the supervisor.
#[test]
fn content_that_ends_the_application_ends_the_container() {
    in_namespace!();
    let scene = Scene::new();
    let script = format!("grep -qs bad volume/a.conf && exit 42\n{APP}");
    let app = scene.start("app", &script, &[]);
    let (agent, mut kubelet) = agent(&scene, podnudge(), "app", "process = \"app\"", "");
    kubelet.write(&payload(&[("a.conf", "bad")]));
    let (code, text) = app.end();
    assert_eq!(code, Some(42), "{text}");
    agent.wait_for("restarted", 1);
    assert_eq!(agent.count("applied"), 0, "{}", agent.log());
}

/// podnudge as another user than the supervisor: ending the application instead would end the container.
#[test]
fn podnudge_of_another_user_than_the_supervisor_refuses_to_restart() {
    in_namespace!();
    let scene = Scene::new();
    let user = "exec setpriv --reuid=65532 --regid=65532 --clear-groups sh -c 'exec ./user'";
    let script = format!("case $0 in ./user) ;; *) {user};; esac; {APP}");
    let mut app = scene.start("user", &script, &[]);
    let (agent, mut kubelet) = agent(&scene, as_user(), "user", "cmdline = \"user\"", "");
    agent.wait_for("preflight", 1);
    assert_eq!(agent.last("preflight", "problem"), "not-permitted");
    kubelet.write(&payload(&[("a.conf", "1")]));
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason") + &agent.last("refused", "hint");
    let wanted = format!(
        "cannot signal process {} (podnudge-init): podnudge runs as uid 65532 and the target as uid 0",
        app.pid()
    );
    assert!(reason.contains(&wanted) && reason.contains("runAsUser: 0"), "{reason}");
    assert!(app.is_running() && app.starts().len() == 1, "{}", agent.log());
}

/// A restart that was refused ended nothing, so it does not explain the end of the application by the next content.
#[test]
fn a_refused_restart_does_not_excuse_content_that_ends_the_application() {
    in_namespace!();
    let scene = Scene::new();
    let user = "exec setpriv --reuid=65532 --regid=65532 --clear-groups sh -c 'exec ./user'";
    let reload = "trap 'grep -qs bad volume/a.conf && exit 1' HUP";
    let script = format!("case $0 in ./user) ;; *) {user};; esac; {reload}; {APP}");
    let app = scene.start("user", &script, &[]);
    let folder = app.folder.clone();
    let mut kubelet = Kubelet::new(folder.join("volume"));
    kubelet.write(&payload(&[("a.conf", "0")]));
    let config = format!(
        "[[rule]]\nwatch = \"{}\"\nsettle = \"0s\"\non-start = \"never\"\non-failure = [\"restart\"]\n\
         retry = {{ attempts = 1 }}\nsignal = \"HUP\"\ntarget.cmdline = \"user\"\n\
         verify = {{ alive-for = \"1s\", timeout = \"2s\", exec = [\"false\"] }}\n\
         [agent]\nwork-dir = \"{}\"\n",
        kubelet.volume.display(),
        folder.display()
    );
    let file = folder.join("podnudge.toml");
    fs::write(&file, config).unwrap();
    let mut by = as_user();
    by.args(["--log", "json", "--listen", "off", "--config", file.to_str().unwrap()]);
    let agent = Agent::spawn(&folder, by);
    agent.wait_for("baseline", 1);
    kubelet.write(&payload(&[("a.conf", "1")]));
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason");
    assert!(reason.contains(&format!("{} (podnudge-init)", app.pid())), "{reason}");
    kubelet.write(&payload(&[("a.conf", "bad")]));
    assert_eq!(app.end().0, Some(1), "{}", agent.log());
    agent.wait_for("tripped", 1);
    assert_eq!(agent.count("delivered|applied"), 0, "{}", agent.log());
}

/// nginx with its workers, which takes a new port only at a start.
#[test]
fn nginx_below_the_supervisor_is_restarted_and_reloaded() {
    in_network!();
    let scene = Scene::new();
    let script = "echo $$ >>starts; exec nginx -p $PWD -c volume/nginx.conf -g 'daemon off; pid nginx.pid; error_log stderr;'";
    let content = |n: usize| {
        let text = format!(
            "user root; worker_processes 2; events {{}} http {{ include ../other/a; access_log off; server {{ listen 127.0.0.1:808{n}; return 200 v{n}; }} }}"
        );
        payload(&[("nginx.conf", text.as_str())])
    };
    let folder = scene.path().join("nginx.d");
    let by_signal = format!(
        "[[rule]]\nname = \"other\"\nwatch = \"{0}/other\"\nsettle = \"0s\"\non-start = \"never\"\n\
         target = {{ cmdline = \"nginx\" }}\nsignal = {{ name = \"HUP\" }}\n\
         verify = {{ alive-for = \"10ms\", children-newer = true }}\n",
        folder.display()
    );
    fs::create_dir(&folder).unwrap();
    let mut kubelet = Kubelet::new(folder.join("volume"));
    kubelet.write(&content(0));
    let mut other = Kubelet::new(folder.join("other"));
    other.write(&payload(&[("a", "# 0")]));
    let mut by = podnudge();
    by.args(["supervise", "--stop-signal", "QUIT", "--", "sh", "-c", script]);
    let mut app = Supervised::spawn(by, folder.clone());
    let answer = |n: usize| ask(&format!("127.0.0.1:808{n}"), "GET", "/");
    wait_until("nginx answers", || std::net::TcpStream::connect("127.0.0.1:8080").is_ok());
    let config = format!(
        "[[rule]]\nname = \"main\"\nwatch = \"{0}/volume\"\nsettle = \"0s\"\non-start = \"never\"\nrestart = {{}}\n\
         target = {{ process = \"nginx\" }}\nverify = {{ alive-for = \"50ms\" }}\n{by_signal}",
        folder.display()
    );
    fs::write(folder.join("podnudge.toml"), config).unwrap();
    let file = folder.join("podnudge.toml");
    let agent = Agent::start(&folder, &["--config", file.to_str().unwrap()]);
    for n in 1..=2 {
        kubelet.write(&content(n));
        wait_until("the restart is applied", || agent.count("applied") >= 2 * n - 1);
        assert!(answer(n).contains(&format!("v{n}")), "{}", agent.log());
        other.write(&payload(&[("a", &format!("# {n}"))]));
        wait_until("the reload is applied", || agent.count("applied") >= 2 * n);
        assert_eq!(app.starts().len(), n + 1, "{}", agent.log());
    }
    assert!(app.is_running());
    app.send(Signal::SIGQUIT);
    assert_eq!(app.end().0, Some(0));
}
