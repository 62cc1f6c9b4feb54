//! How long from the rename of `..data` to the arrival of the signal, beside a bare floor that
//! only waits for the event, hashes the files and kills. Both run as processes of their own, by
//! turns, on the same volume, so that both meet what else the machine is doing; what is printed
//! last is the ratio of their medians.
//!
//! ```text
//! cargo bench --bench latency
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

/// How often the two take turns, and how many swaps a turn has.
const TURNS: usize = 6;
const ROUNDS: usize = 50;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some("floor"), Some(volume), Some(pid)) =
        (arguments.next().as_deref(), arguments.next(), arguments.next())
    {
        return floor(Path::new(&volume), pid.parse().unwrap());
    }
    let arrivals = arrivals();
    let swaps = TURNS * ROUNDS;
    println!("from the rename of ..data to the signal's arrival, {swaps} swaps each, medians:");
    for (name, volumes, keys, size) in [
        ("5 files of 1 KiB", 1, 5, 1024),
        ("1 file of 1 MiB", 1, 1, 1024 * 1024),
        ("50 volumes of 20 files of 1 KiB, one changes", 50, 20, 1024),
    ] {
        let scene = Scene::new(volumes, keys, size);
        let (mut floor, mut podnudge) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            floor.extend(scene.measure(&arrivals, scene.floor()));
            podnudge.extend(scene.measure(&arrivals, scene.podnudge()));
        }
        let (floor, podnudge) = (median(floor), median(podnudge));
        let ratio = podnudge.as_secs_f64() / floor.as_secs_f64();
        println!("  {name}: floor {floor:?}, podnudge {podnudge:?}, ratio {ratio:.2}");
    }
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
}

impl Scene {
    fn new(volumes: usize, keys: usize, size: usize) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let volumes = (0..volumes).map(|n| folder.path().join(format!("volume{n}"))).collect();
        let scene = Self { folder, volumes, keys, size };
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

    fn podnudge(&self) -> Child {
        let pidfile = self.folder.path().join("pid");
        fs::write(&pidfile, std::process::id().to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_podnudge"));
        command
            .args(["--settle", "0s", "--alive-for", "0s", "--listen", "off", "--signal", "HUP"])
            .args(["--on-start", "never", "--log-level", "error", "--pidfile"])
            .arg(&pidfile);
        for volume in &self.volumes {
            command.arg("--watch").arg(volume);
        }
        command.stderr(Stdio::inherit()).spawn().unwrap()
    }

    /// One turn with this process at work. Ends it.
    fn measure(&self, arrivals: &Receiver<Instant>, process: Child) -> Vec<Duration> {
        let _process = Ends(process);
        thread::sleep(Duration::from_millis(500)); // it sets up its watches
        let kubelet = Kubelet::new(&self.volumes[0]);
        let mut times = Vec::new();
        for round in 1..=ROUNDS {
            let prepared = kubelet.prepare(&self.content(round));
            thread::sleep(Duration::from_millis(5)); // it rests
            while arrivals.try_recv().is_ok() {}
            let start = Instant::now();
            let old = kubelet.commit(&prepared).unwrap();
            let arrived = arrivals.recv_timeout(Duration::from_secs(10)).expect("a signal comes");
            times.push(arrived - start);
            fs::remove_dir_all(kubelet.volume.join(old)).unwrap();
        }
        times
    }
}

/// A process that ends with what it was started for, also if that fails.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The least that can be done: wait for the rename, hash all files, kill.
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
