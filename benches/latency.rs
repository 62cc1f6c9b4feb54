//! Measures the time from the rename of `..data` to the arrival of the signal. The baseline
//! (`floor`) is a process that only waits for the event, hashes the files and sends the signal.
//! Both run alternately as separate processes on the same volume, so that other load affects both;
//! the result is the ratio of their medians. Podnudge is the build that ships, which is made first. Other
//! builds, given as arguments, are measured in the same rotation. A process of the lowest priority keeps
//! each CPU awake: to wake one takes up to 150 µs in a virtual machine, at random, in the floor and in
//! podnudge. Needs root, for a pid namespace.
//!
//! ```text
//! cargo bench --bench latency
//! cargo bench --bench latency -- PATH-OF-ANOTHER-PODNUDGE
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench measures, prints, and fails by panicking"
)]

use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::inotify;
use sha2::{Digest as _, Sha256};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

#[path = "../tests/support/kubelet.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod kubelet;
use kubelet::{Kubelet, Payload};

/// The number of turns, and of swaps per turn.
const TURNS: usize = 6;
const ROUNDS: usize = 15;
/// How long podnudge takes until it is idle again: its first look whether the content was read fails, because
/// the signal has just arrived, and the second one follows after 100 ms.
const IDLE: Duration = Duration::from_millis(200);
/// The aim of the build that ships for the scenes of small volumes, in multiples of the floor. If it is missed, the bench
/// fails.
const AIM: f64 = 2.0;
/// The name by which podnudge finds this process in the scene where it searches for its target.
const NAME: &str = "latency";

/// The scenes: name, volumes, files per volume, bytes per file, and the number of other processes
/// among which podnudge finds its target by name; with 0, a pidfile names the target.
const SCENES: [(&str, usize, usize, usize, usize); 4] = [
    ("5 files of 1 KiB", 1, 5, 1024, 0),
    ("1 file of 1 MiB", 1, 1, 1024 * 1024, 0),
    ("50 volumes of 20 files of 1 KiB, one changes", 50, 20, 1024, 0),
    ("5 files of 1 KiB, target found by name among 20 processes", 1, 5, 1024, 20),
];

fn main() {
    // Cargo adds its own options.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.as_slice() {
        [role, volume, pid] if role == "floor" => {
            floor(Path::new(volume), pid.parse().unwrap());
        }
        [role, builds @ ..] if role == "inside" => compare(builds),
        others => {
            let builds: Vec<String> =
                [shipped()].into_iter().chain(others.iter().cloned()).collect();
            in_namespace(&builds);
        }
    }
}

/// Makes the program that ships, in which the functions lie in another order than in one of `cargo build`.
fn shipped() -> String {
    let script = ". .ci/static-flags
        CARGO_ENCODED_RUSTFLAGS=$static cargo build --quiet --locked --release --target \"$target\" >&2
        printf %s \"$PWD/target/$target/release/podnudge\"";
    let made = Command::new("bash")
        .args(["-ec", script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output();
    let made = made.expect("bash is installed");
    assert!(made.status.success(), "the build failed");
    String::from_utf8(made.stdout).unwrap()
}

/// Runs in a new pid namespace, as in a pod, so that the number of processes is the same
/// everywhere.
fn in_namespace(builds: &[String]) {
    let ended = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        // Pid 1 is never a target, so the shell stays pid 1.
        .args(["sh", "-c", "\"$0\" inside \"$@\"; exit $?"])
        .arg(std::env::current_exe().unwrap())
        .args(builds)
        .status();
    assert!(ended.expect("unshare is installed (package util-linux)").success());
}

fn compare(builds: &[String]) {
    fs::write("/proc/self/comm", NAME).unwrap();
    let arrivals = arrivals();
    let _awake = keep_awake();
    let swaps = TURNS * ROUNDS;
    let mut missed = Vec::new();
    println!("from the rename of ..data to the signal's arrival, {swaps} swaps each, medians:");
    for (name, volumes, keys, size, processes) in SCENES {
        let scene = Scene::new(volumes, keys, size, processes);
        let mut floor = Vec::new();
        let mut podnudge = vec![Vec::new(); builds.len()];
        for turn in 0..TURNS {
            floor.extend(scene.measure(&arrivals, scene.floor()));
            // Vary the order of the builds.
            for n in 0..builds.len() {
                let n = (n + turn) % builds.len();
                podnudge[n].extend(scene.measure(&arrivals, scene.podnudge(&builds[n])));
            }
        }
        let floor = median(floor);
        let ratio = |time: Duration, to: Duration| time.as_secs_f64() / to.as_secs_f64();
        let medians: Vec<Duration> = podnudge.into_iter().map(median).collect();
        println!("  {name}: floor {floor:?}");
        for (build, time) in builds.iter().zip(&medians) {
            let (of_floor, of_first) = (ratio(*time, floor), ratio(*time, medians[0]));
            println!(
                "    {time:?}, {of_floor:.2} of the floor, {of_first:.2} of this build: {build}"
            );
        }
        if size <= 1024 && ratio(medians[0], floor) > AIM {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "more than {AIM} of the floor: {}", missed.join("; "));
}

/// Keeps each CPU busy whenever nothing else wants it (`SCHED_IDLE`, sched(7)).
fn keep_awake() -> Vec<Ends> {
    let cpus = thread::available_parallelism().unwrap().get();
    let spin = |cpu: usize| {
        Command::new("taskset")
            .args(["--cpu-list", &cpu.to_string(), "chrt", "--idle", "0"])
            .args(["sh", "-c", "while :; do :; done"])
            .spawn()
    };
    (0..cpus)
        .map(|cpu| Ends(spin(cpu).expect("taskset is installed (package util-linux)")))
        .collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// When each HUP to this process arrives.
fn arrivals() -> Receiver<Instant> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGHUP]).unwrap();
    thread::spawn(move || signals.forever().for_each(|_| sender.send(Instant::now()).unwrap()));
    receiver
}

struct Scene {
    folder: tempfile::TempDir,
    volumes: Vec<PathBuf>,
    keys: usize,
    size: usize,
    others: Vec<Ends>,
}

impl Scene {
    fn new(volumes: usize, keys: usize, size: usize, processes: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let volumes = (0..volumes).map(|n| folder.path().join(format!("volume{n}"))).collect();
        let other = |_| Ends(Command::new("sleep").arg("1d").spawn().unwrap());
        let others = (0..processes).map(other).collect();
        let scene = Self { folder, volumes, keys, size, others };
        for volume in &scene.volumes {
            Kubelet::new(volume).write(&scene.content(0));
        }
        scene
    }

    fn content(&self, round: usize) -> Payload {
        let content =
            |key: usize| format!("{round} of {key} ").repeat(self.size)[..self.size].to_owned();
        (0..self.keys).map(|key| (format!("{key}.conf"), content(key).into_bytes())).collect()
    }

    fn floor(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .arg("floor")
            .arg(&self.volumes[0])
            .arg(std::process::id().to_string())
            .spawn()
            .unwrap()
    }

    fn podnudge(&self, binary: &str) -> Child {
        let mut command = Command::new(binary);
        command
            .args(["--settle", "0s", "--alive-for", "0s", "--listen", "off", "--signal", "HUP"])
            .args(["--on-start", "never", "--log-level", "error"]);
        if self.others.is_empty() {
            let pidfile = self.folder.path().join("pid");
            fs::write(&pidfile, std::process::id().to_string()).unwrap();
            command.arg("--pidfile").arg(&pidfile);
        } else {
            command.args(["--process", NAME]);
        }
        for volume in &self.volumes {
            command.arg("--watch").arg(volume);
        }
        command.stderr(Stdio::inherit()).spawn().unwrap()
    }

    /// One turn with this process, which is killed afterwards.
    fn measure(&self, arrivals: &Receiver<Instant>, process: Child) -> Vec<Duration> {
        let _process = Ends(process);
        thread::sleep(Duration::from_millis(500)); // until its watches are set up
        let kubelet = Kubelet::new(&self.volumes[0]);
        let mut times = Vec::new();
        for round in 1..=ROUNDS {
            let prepared = kubelet.prepare(&self.content(round));
            thread::sleep(IDLE);
            while arrivals.try_recv().is_ok() {}
            let start = Instant::now();
            let old = kubelet.commit(&prepared).unwrap();
            let arrived = arrivals.recv_timeout(Duration::from_secs(10)).expect("a signal comes");
            times.push(arrived - start);
            // As an application does, for which podnudge waits.
            fs::read(kubelet.volume.join("0.conf")).unwrap();
            fs::remove_dir_all(kubelet.volume.join(old)).unwrap();
        }
        times
    }
}

/// A process that is killed when this value is dropped, even after a panic.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The minimal work: wait for the rename, hash all files, send the signal.
fn floor(volume: &Path, pid: i32) {
    let inotify = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&inotify, volume, inotify::WatchFlags::MOVED_TO).unwrap();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&inotify, &mut buffer);
    loop {
        let event = events.next().unwrap();
        if event.file_name() != Some(c"..data") {
            continue;
        }
        for entry in fs::read_dir(volume.join("..data")).unwrap() {
            let content = fs::read(entry.unwrap().path()).unwrap();
            std::hint::black_box(Sha256::digest(content));
        }
        kill(Pid::from_raw(pid), Signal::SIGHUP).unwrap();
    }
}
