//! The main function of podnudge from end to end, with explanations and times:
//!
//! ```text
//! cargo run --release --example demo
//! ```
//!
//! A volume is created and swapped as by the kubelet, a small application runs a version from it, and
//! the real podnudge binary makes the application reload each change: first with one option, then by a
//! URL, then by a signal. Then podnudge rejects broken content, rolls back content with which the
//! application does not work, and refuses to signal a process that the signal would kill.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a demo prints, measures times, and fails by panicking"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook::iterator::Signals;

#[path = "../../tests/support/kubelet.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod kubelet;
use kubelet::{Kubelet, payload};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("application"), Some(volume)) => application(Path::new(&volume)),
        (Some("one-option"), Some(podnudge)) => one_option(Path::new(&podnudge)),
        (Some("master"), Some(volume)) => master(Path::new(&volume)),
        (Some("worker"), Some(volume)) => worker(Path::new(&volume)),
        (Some("bystander"), _) => bystander(),
        (Some("checker"), Some(file)) => return checker(Path::new(&file)),
        _ => demo(),
    }
    ExitCode::SUCCESS
}

/// How long podnudge waits for quiet where a swap follows soon after an action.
const QUIET: Duration = Duration::from_millis(200);
/// How long the parts may take on a slow machine, without the build. A part that waits for a line that podnudge does
/// not log must not wait for ever.
const LONGEST: Duration = Duration::from_mins(5);

fn demo() {
    println!(
        "podnudge runs beside an application in a pod, and makes it reload when its ConfigMap or Secret changes.\n\
         It is built first, as it ships: some minutes the first time, and seconds afterwards.\n\
         Then it makes real processes reload in six parts, in less than a minute."
    );
    let podnudge = build();
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        eprintln!("the demo has not come to its end within {} s", LONGEST.as_secs());
        std::process::exit(1);
    });
    println!(
        "\n1. One option. podnudge finds the process that mounts the volume, and knows the program:\n   \
         nginx, here by a program of that name which reloads in the same way."
    );
    in_namespace(&podnudge);
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("etc/app");
    let mut kubelet = Kubelet::new(&volume);
    kubelet.write(&payload(&[("version", "1")]));

    println!("\n2. By URL. The application serves a version from a mounted ConfigMap.");
    let mut application = Application::start(&volume);
    let reload = format!("http://127.0.0.1:{}/-/reload", application.port);
    let mut agent = Agent::start(&podnudge, &volume, &["--url", &reload]);
    show_swaps(&mut agent, &mut kubelet, &mut application, ["2", "3", "4"], "applied");
    println!("   The kubelet writes the same content again: a swap without a change.");
    kubelet.write_anyway(&payload(&[("version", "4")]));
    show_swaps(&mut agent, &mut kubelet, &mut application, ["5"], "applied");
    println!("   {} swaps, {} reloads.", 5, application.reloads);
    assert_eq!(application.reloads, 4);
    drop(agent);

    println!("\n3. By signal. The same application, HUP instead of a request.");
    let pidfile = folder.path().join("app.pid");
    fs::write(&pidfile, format!("{}\n", application.process.id())).unwrap();
    let by_signal = ["--signal", "HUP", "--pidfile", pidfile.to_str().unwrap()];
    let mut agent = Agent::start(&podnudge, &volume, &by_signal);
    show_swaps(&mut agent, &mut kubelet, &mut application, ["6", "7", "8"], "delivered");
    println!("   No proof is configured, so podnudge only says that it delivered the signal.");
    drop(agent);

    println!("\n4. Rejected. The application's own checker finds an error in the content.");
    let config = folder.path().join("podnudge.toml");
    let checker = std::env::current_exe().unwrap();
    let rule = format!(
        "[agent]\nwork-dir = \"{}\"\n[[rule]]\nname = \"app\"\nhttp = {reload:?}\n\
         [[rule.check]]\nexec = [\"{}\", \"checker\", \"{{dir}}/version\"]\n",
        folder.path().display(),
        checker.display(),
    );
    fs::write(&config, rule).unwrap();
    show(&config);
    let mut agent = Agent::start(&podnudge, &volume, &["--config", config.to_str().unwrap()]);
    kubelet.write(&payload(&[("version", "nine")]));
    println!("   ..data now shows version nine, and podnudge logs:");
    println!("   {}", agent.next("rejected"));
    println!("   The application still answers, and runs version {}.", application.version());
    assert_eq!(application.version(), "8");
    println!("   The content is fixed.");
    show_swaps(&mut agent, &mut kubelet, &mut application, ["9"], "applied");
    assert_eq!(application.version(), "9");
    drop(agent);

    rolled_back(&podnudge, folder.path(), &mut kubelet);

    println!("\n6. Refused. A process without a handler for HUP would be killed by it.");
    let mut bystander = again("bystander", &[]).spawn().unwrap();
    fs::write(&pidfile, format!("{}\n", bystander.id())).unwrap();
    let mut agent = Agent::start(&podnudge, &volume, &by_signal);
    kubelet.write(&payload(&[("version", "12")]));
    println!("   podnudge waits for 10 s, in case the process is only starting …");
    for event in ["waiting-for-target", "refused"] {
        println!("   {}", agent.next(event));
    }
    assert!(bystander.try_wait().unwrap().is_none());
    println!("   The process is alive, and was not signalled.");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    println!(
        "\npodnudge is {0} now. To try it on a process of your own, which reloads on HUP:\n   \
         {0} --watch DIRECTORY --process NAME --signal HUP\n\
         docs/quickstart.md goes on from here, with and without a cluster.",
        podnudge.display()
    );
}

/// Runs the first part in namespaces of its own, where the volume can be mounted without being root.
fn in_namespace(podnudge: &Path) {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]);
    unshare.arg("--kill-child").arg(std::env::current_exe().unwrap());
    let done = unshare.arg("one-option").arg(podnudge).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "this part needs unshare(1) of util-linux, and user namespaces (sysctl \
         kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0, or root)"
    );
}

/// The application here has the name of nginx, and reloads as nginx does: on HUP the master process
/// starts a new worker, which reads the configuration.
fn one_option(podnudge: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("conf.d");
    fs::create_dir(&volume).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&volume).status();
    assert!(mounted.unwrap().success());
    let mut kubelet = Kubelet::new(&volume);
    kubelet.write(&payload(&[("version", "1")]));
    // podnudge compares the start of the process with the commit, whose clock is coarse.
    std::thread::sleep(Duration::from_secs(1));
    let program = folder.path().join("nginx");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    let mut nginx = Command::new(&program);
    let nginx = nginx.arg("master").arg(&volume).stdout(Stdio::piped()).spawn().unwrap();
    let mut nginx = Application::of(nginx, 0);
    assert_eq!(nginx.next_reload().0, "1");
    println!("   $ podnudge --watch /etc/nginx/conf.d");
    let (listen, watch) = (["--listen", "off", "--watch"], volume.to_str().unwrap());
    let mut agent = Agent::launch(podnudge, &[listen.as_slice(), &[watch]].concat());
    println!("   {}", agent.next("preset"));
    agent.next("baseline");
    show_swaps(&mut agent, &mut kubelet, &mut nginx, ["2", "3"], "applied");
    println!(
        "   The new worker is the proof, so podnudge says that the application runs the content."
    );
}

/// The master process: starts a worker, and replaces it on HUP.
fn master(volume: &Path) {
    let program = std::env::args_os().next().unwrap();
    let start = || Command::new(&program).arg("worker").arg(volume).spawn().unwrap();
    let mut signals = Signals::new([SIGHUP]).unwrap();
    let mut worker = start();
    for _ in signals.forever() {
        let mut old = std::mem::replace(&mut worker, start());
        // As nginx does: the old worker may end once the new one runs.
        std::thread::sleep(Duration::from_millis(100));
        old.kill().unwrap();
        old.wait().unwrap();
    }
}

/// A worker process: prints the version that it has read.
fn worker(volume: &Path) {
    let version = fs::read_to_string(volume.join("version")).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    println!("{version} {}", now.as_nanos());
    Signals::new([SIGHUP]).unwrap().forever().for_each(drop);
}

/// Content that passes the check but with which the application does not work.
fn rolled_back(podnudge: &Path, folder: &Path, kubelet: &mut Kubelet) {
    println!("\n5. Rolled back. The application reads what podnudge publishes, not the volume.");
    let (dir, config) = (folder.join("published"), folder.join("publishing.toml"));
    fs::create_dir(&dir).unwrap();
    let write = |url: &str| {
        let rule = format!(
            "[agent]\nlisten = \"off\"\nwork-dir = \"{}\"\n[[rule]]\nname = \"app\"\nwatch = [\"{}\"]\n\
             [rule.publish]\ndir = \"{}\"\n[rule.http]\nurl = \"{url}/-/reload\"\n\
             [rule.verify]\nhttp = \"{url}/healthz\"\ntimeout = \"1s\"\n\
             [[rule.check]]\nexec = [\"{}\", \"checker\", \"{{dir}}/version\"]\n",
            folder.display(),
            kubelet.volume.display(),
            dir.display(),
            std::env::current_exe().unwrap().display(),
        );
        fs::write(&config, rule).unwrap();
    };
    write("http://127.0.0.1");
    let arguments = ["--config", config.to_str().unwrap()];
    println!("   $ podnudge once {}", arguments.join(" "));
    let once = Command::new(podnudge).arg("once").args(arguments).output().unwrap();
    assert!(once.status.success());
    let mut application = Application::start(&dir);
    write(&format!("http://127.0.0.1:{}", application.port));
    show(&config);
    let mut agent = Agent::with(podnudge, &arguments);
    let (port, stop) = (application.port, Arc::new(AtomicBool::new(false)));
    let has_stopped = Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        let mut answers = 0;
        while !has_stopped.load(Ordering::Relaxed) {
            assert!(!version(port).is_empty());
            answers += 1;
        }
        answers
    });
    kubelet.write(&payload(&[("version", "1000")]));
    println!(
        "   ..data now shows version 1000: a number, but with it the application is unhealthy."
    );
    assert_eq!(application.next_reload().0, "1000");
    println!("   {}", agent.next("published"));
    println!("   {}", agent.next("rolling-back"));
    assert_eq!(application.next_reload().0, "9");
    println!("   {}", agent.next("rolled-back"));
    assert_eq!(fs::read_to_string(dir.join("version")).unwrap(), "9");
    println!("   The application runs version {}, and would start with it.", version(port));
    println!("   The content is fixed.");
    kubelet.write(&payload(&[("version", "11")]));
    println!("   {}", agent.next("applied"));
    assert_eq!(version(port), "11");
    stop.store(true, Ordering::Relaxed);
    println!("   Meanwhile it has answered {} requests, and none failed.", client.join().unwrap());
}

/// Prints a configuration file.
fn show(file: &Path) {
    println!("   $ cat {}", file.display());
    fs::read_to_string(file).unwrap().lines().for_each(|line| println!("   | {line}"));
}

/// Swaps the volume to each version in turn, and prints how long it took until the application
/// ran it. podnudge then logs this event.
fn show_swaps<const N: usize>(
    agent: &mut Agent,
    kubelet: &mut Kubelet,
    application: &mut Application,
    versions: [&str; N],
    event: &str,
) {
    for version in versions {
        let prepared = kubelet.prepare(&payload(&[("version", version)]));
        let committed = SystemTime::now();
        let old = kubelet.commit(&prepared).unwrap();
        let (running, reloaded) = application.next_reload();
        let took = reloaded.duration_since(committed).unwrap_or_default();
        assert_eq!(running, version);
        fs::remove_dir_all(kubelet.volume.join(old)).unwrap();
        agent.next(event);
        // Within a second of an action, more swaps may follow.
        let waited = if took >= QUIET { ", after 200 ms without another swap" } else { "" };
        println!(
            "   ..data now shows version {version}; {:.1} ms later the application runs it{waited}",
            took.as_secs_f64() * 1000.0
        );
    }
}

/// Builds the podnudge binary, and returns its path.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What `cargo run` says of this package is not true of podnudge, and build scripts that read it would run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
    let built = command
        // As in the folder of the workspace: a build of one package alone has other features, and repeats what is built.
        .args(["build", "--locked", "--release"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .status()
        .expect("cargo can be run");
    assert!(built.success(), "podnudge cannot be built");
    // The example is in target/release/examples.
    let example = std::env::current_exe().unwrap();
    example.parent().unwrap().parent().unwrap().with_file_name("release").join("podnudge")
}

/// The command that starts this program in another role.
fn again(role: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(role).args(arguments);
    command
}

/// A running podnudge, and its log.
struct Agent {
    process: Child,
    log: BufReader<std::process::ChildStderr>,
}

impl Agent {
    fn start(podnudge: &Path, volume: &Path, arguments: &[&str]) -> Self {
        println!("   $ podnudge --watch /etc/app {}", arguments.join(" "));
        let volume = ["--watch", volume.to_str().unwrap()];
        let quiet = ["--listen", "off", "--on-start", "never"];
        Self::spawn(podnudge, &[quiet.as_slice(), &volume, arguments].concat())
    }

    fn with(podnudge: &Path, arguments: &[&str]) -> Self {
        println!("   $ podnudge {}", arguments.join(" "));
        Self::spawn(podnudge, arguments)
    }

    fn spawn(podnudge: &Path, arguments: &[&str]) -> Self {
        let mut agent = Self::launch(podnudge, arguments);
        agent.next("baseline");
        agent
    }

    fn launch(podnudge: &Path, arguments: &[&str]) -> Self {
        let mut process =
            Command::new(podnudge).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Self { process, log }
    }

    /// The next log line about `event`, without its time.
    fn next(&mut self, event: &str) -> String {
        let mut line = String::new();
        while !line.contains(&format!("event=\"{event}\"")) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "podnudge ended");
        }
        line.trim_end().split_once(' ').map_or(String::new(), |(_, rest)| rest.trim().to_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A running application process.
struct Application {
    process: Child,
    said: BufReader<ChildStdout>,
    port: u16,
    reloads: usize,
}

impl Application {
    fn start(volume: &Path) -> Self {
        let process = again("application", &[volume.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut application = Self::of(process, 0);
        let mut port = String::new();
        application.said.read_line(&mut port).unwrap();
        application.port = port.trim().parse().unwrap();
        application
    }

    fn of(mut process: Child, port: u16) -> Self {
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said, port, reloads: 0 }
    }

    /// The version in its response.
    fn version(&self) -> String {
        version(self.port)
    }

    /// The version that it runs after the next reload, and the time of the reload.
    fn next_reload(&mut self) -> (String, SystemTime) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        self.reloads += 1;
        let (version, nanos) = line.trim().split_once(' ').unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos.parse().unwrap());
        (version.to_owned(), at)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The version in the response of an application.
fn version(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: app\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.rsplit("\r\n").next().unwrap_or_default().to_owned()
}

/// The application: reloads on `POST /-/reload` and on HUP, and prints each reload. With versions
/// of four or more digits, `/healthz` answers 503.
fn application(volume: &Path) {
    let file = volume.join("version");
    let read = move || fs::read_to_string(&file).unwrap_or_default();
    let running = Arc::new(Mutex::new(read()));
    let runs = Arc::clone(&running);
    let reload = move || {
        let version = read();
        runs.lock().unwrap().clone_from(&version);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        println!("{version} {}", now.as_nanos());
    };
    let mut hups = Signals::new([SIGHUP]).unwrap();
    let on_hup = reload.clone();
    std::thread::spawn(move || hups.forever().for_each(|_| on_hup()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap_or(0);
        if request.iter().take(length).take(15).eq(b"POST /-/reload ") {
            reload();
        }
        let version = running.lock().unwrap().clone();
        let is_asked = request.starts_with(b"GET /healthz ");
        let is_healthy = version.len() < 4;
        let status = if is_asked && !is_healthy { "503 Unhealthy" } else { "200 OK" };
        let length = version.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{version}"
        );
        drop(stream.write_all(answer.as_bytes()));
    }
}

/// The application's checker: a version is a number.
fn checker(file: &Path) -> ExitCode {
    let version = fs::read_to_string(file).unwrap();
    if version.parse::<u32>().is_ok() {
        return ExitCode::SUCCESS;
    }
    println!("{}: a version is a number", file.display());
    ExitCode::FAILURE
}

/// A process that does not handle HUP.
fn bystander() {
    Signals::new([SIGUSR1]).unwrap().forever().for_each(drop);
}
