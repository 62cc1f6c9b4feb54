//! The promises of SPECIFICATION.md, tested with the shipped binaries: static, release, with and
//! without TLS. `./test` builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support::agent::Agent;
use crate::support::application::Application;
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::program::command;
use crate::support::wait::wait_until;

const MIB: u64 = 1024 * 1024;

/// A shipped build and its limits.
struct Shipped {
    path: &'static str,
    largest: u64,
    /// Resident memory after ten reloads.
    most_memory: u64,
}

const SHIPPED: [Shipped; 2] = [
    Shipped {
        path: "target/x86_64-unknown-linux-gnu/release/podnudge",
        largest: 4 * MIB + MIB / 4,
        most_memory: 5 * MIB,
    },
    Shipped {
        path: "target/plain/x86_64-unknown-linux-gnu/release/podnudge",
        largest: 27 * MIB / 8,
        most_memory: 15 * MIB / 4,
    },
];

impl Shipped {
    fn binary(&self) -> PathBuf {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.path);
        assert!(path.exists(), "{} is not built: run ./test", self.path);
        path
    }
}

/// A field of `/proc/PID/status`, in the unit of that file.
fn number(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The voluntary context switches of all threads of a process.
fn wakeups(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(|task| of(task.unwrap())).sum()
}

#[test]
fn the_binaries_are_static_and_within_their_size_limits() {
    for shipped in SHIPPED {
        let binary = shipped.binary();
        let size = fs::metadata(&binary).unwrap().len();
        println!("{}: {size} bytes", shipped.path);
        assert!(size <= shipped.largest, "{}: {size} bytes", shipped.path);
        let headers = command("ldd").arg(&binary).output().unwrap();
        let text = String::from_utf8_lossy(&headers.stdout).into_owned()
            + &String::from_utf8_lossy(&headers.stderr);
        assert!(text.contains("statically linked") || text.contains("not a dynamic"), "{text}");
    }
}

#[test]
fn ten_reloads_stay_within_the_memory_thread_and_descriptor_limits() {
    for shipped in SHIPPED {
        let (folder, mut kubelet) = temporary_volume(&[("a.conf", "0")]);
        let application = Application::start(&kubelet.volume, "a.conf");
        let mut command = command(shipped.binary());
        command
            .args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never"])
            .args(["--settle", "0s", "--resync", "10m", "--url", &application.url(), "--watch"])
            .arg(&kubelet.volume);
        let agent = Agent::spawn(folder.path(), command);
        agent.wait_for("baseline", 1);
        let mut most_threads = 0;
        let mut after_first = 0;
        for n in 1..=10 {
            kubelet.write(&payload(&[("a.conf", &n.to_string())]));
            agent.wait_for("applied", n);
            most_threads = most_threads.max(number(agent.pid(), "Threads"));
            if n == 1 {
                after_first = descriptors(agent.pid());
            }
        }
        let memory = number(agent.pid(), "VmRSS") * 1024;
        println!("{}: {memory} bytes resident, {most_threads} threads", shipped.path);
        assert!(memory <= shipped.most_memory, "{}: {memory} bytes", shipped.path);
        assert!(most_threads <= 3, "{most_threads} threads");
        wait_until("the descriptors of the requests are closed", || {
            descriptors(agent.pid()) <= after_first
        });

        // When idle, the thread that reads volumes ends, and nothing wakes the others.
        wait_until("the reading thread has ended", || number(agent.pid(), "Threads") == 2);
        let before = wakeups(agent.pid());
        #[expect(clippy::disallowed_methods, reason = "idleness is measured over a time")]
        let start = Instant::now();
        wait_until("three seconds are over", || start.elapsed().as_secs() >= 3);
        assert_eq!(wakeups(agent.pid()) - before, 0, "woken while idle");
    }
}

#[test]
fn the_binaries_run_in_an_empty_root_and_resolve_names() {
    for shipped in SHIPPED {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
        fs::write(root.join("etc/resolv.conf"), "").unwrap();
        fs::copy(shipped.binary(), root.join("podnudge")).unwrap();
        let mut kubelet = Kubelet::new(root.join("volume"));
        kubelet.write(&payload(&[("a.conf", "0")]));
        let application = Application::start(&kubelet.volume, "a.conf");
        let url = application.url().replace("127.0.0.1", "localhost");
        let mut command = command("chroot");
        command
            .args(["--userspec", "65532:65532"])
            .arg(&root)
            .args(["/podnudge", "--log", "json", "--listen", "off", "--on-start", "never"])
            .args(["--watch", "/volume", "--url", &url]);
        let agent = Agent::spawn(folder.path(), command);
        agent.wait_for("baseline", 1);
        kubelet.write(&payload(&[("a.conf", "1")]));
        agent.wait_for("applied", 1);
        assert_eq!(application.reloads(), ["1"]);
    }
}
