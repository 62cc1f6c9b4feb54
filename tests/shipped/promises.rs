//! The promises of SPECIFICATION.md, tested with the binaries that ship: static, release, with and
//! without TLS.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{FULL, PLAIN, binary};
use crate::proof_by_tls;
use crate::support::certificate::Pair;
use crate::support::{
    Agent, Application, Kubelet, MemoryLimit, Scene, command, payload, wait_until,
};

const MIB: u64 = 1024 * 1024;

/// A shipped build and its limits.
struct Shipped {
    path: &'static str,
    largest: u64,
    /// Resident memory after ten reloads.
    most_memory: u64,
}

const WITH_TLS: Shipped = Shipped { path: FULL, largest: 5 * MIB, most_memory: 9 * MIB / 2 };
const WITHOUT_TLS: Shipped =
    Shipped { path: PLAIN, largest: 7 * MIB / 2, most_memory: 15 * MIB / 4 };

/// Makes two tests of each promise: the other build has its own for `./test nightly`.
macro_rules! kept_by_both_builds {
    ($($promise:ident)+) => {
        mod with_tls {
            $(#[test] fn $promise() { super::$promise(&super::WITH_TLS); })+
        }
        mod nightly {
            $(#[test] fn $promise() { super::$promise(&super::WITHOUT_TLS); })+
        }
    };
}

kept_by_both_builds! {
    a_binary_is_static_and_within_its_size_limit
    ten_reloads_stay_within_the_memory_thread_and_descriptor_limits
    supervising_stays_within_the_memory_limit_and_does_not_wake_up
    a_binary_runs_in_an_empty_root_and_resolves_names
}

impl Shipped {
    fn binary(&self) -> PathBuf {
        binary(self.path)
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

/// Waits until nothing is woken for three whole seconds. On a busy machine, the last events come late.
fn sleeps_for_three_seconds(wakeups: impl Fn() -> u64) {
    let mut idle_since = (wakeups(), 0);
    #[expect(clippy::disallowed_methods, reason = "idleness is measured over a time")]
    let start = Instant::now();
    wait_until("it does not wake up for three whole seconds", || {
        let (now, seconds) = (wakeups(), start.elapsed().as_secs());
        if now != idle_since.0 {
            idle_since = (now, seconds);
        }
        seconds >= idle_since.1 + 4
    });
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

fn a_binary_is_static_and_within_its_size_limit(shipped: &Shipped) {
    let binary = shipped.binary();
    let size = fs::metadata(&binary).unwrap().len();
    println!("{}: {size} bytes", shipped.path);
    assert!(size <= shipped.largest, "{}: {size} bytes", shipped.path);
    let headers = command("ldd").arg(&binary).output().unwrap();
    let text = String::from_utf8_lossy(&headers.stdout).into_owned()
        + &String::from_utf8_lossy(&headers.stderr);
    assert!(text.contains("statically linked") || text.contains("not a dynamic"), "{text}");
}

fn ten_reloads_stay_within_the_memory_thread_and_descriptor_limits(shipped: &Shipped) {
    let mut scene = Scene::with(&[("a.conf", "0")]);
    let application = scene.application();
    let mut command = command(shipped.binary());
    command
        .args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never"])
        .args(["--settle", "0s", "--resync", "10m", "--url", &application.url(), "--watch"])
        .arg(&scene.kubelet.volume);
    let agent = Agent::spawn(scene.folder.path(), command);
    agent.wait_for("baseline", 1);
    let mut most_threads = 0;
    let mut after_first = 0;
    for n in 1..=10 {
        scene.change(&n.to_string());
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
    sleeps_for_three_seconds(|| wakeups(agent.pid()));
}

/// Each reload is verified by a TLS handshake.
#[test]
fn ten_proofs_by_a_certificate_stay_within_the_memory_thread_and_descriptor_limits() {
    let pair = Pair::ecdsa(&[1]);
    let tls = proof_by_tls::serve_pair(&pair).to_string();
    let content = |n: usize| payload(&[("tls.crt", &pair.crt), ("n", &n.to_string())]);
    let mut scene = Scene::with(&[("tls.crt", &pair.crt)]);
    let application = Application::start(&scene.kubelet.volume, "n");
    let mut command = command(WITH_TLS.binary());
    command
        .args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never"])
        .args(["--settle", "0s", "--resync", "10m", "--url", &application.url()])
        .args(["--verify-tls", &tls, "--watch"])
        .arg(&scene.kubelet.volume);
    let agent = Agent::spawn(scene.folder.path(), command);
    agent.wait_for("baseline", 1);
    let (mut most_threads, mut after_first) = (0, 0);
    for n in 1..=10 {
        scene.kubelet.write(&content(n));
        agent.wait_for("applied", n);
        most_threads = most_threads.max(number(agent.pid(), "Threads"));
        if n == 1 {
            after_first = descriptors(agent.pid());
        }
    }
    assert_eq!(agent.count("certificate-presented"), 10);
    let memory = number(agent.pid(), "VmRSS") * 1024;
    println!("{memory} bytes resident, {most_threads} threads");
    assert!(memory <= MIB * 11 / 2, "{memory} bytes");
    assert!(most_threads <= 3, "{most_threads} threads");
    wait_until("the descriptors of the handshakes are closed", || {
        descriptors(agent.pid()) <= after_first
    });
    wait_until("the reading thread has ended", || number(agent.pid(), "Threads") == 2);
}

/// Slots, eager sync with two watches, and Events, over TLS.
#[test]
fn everything_of_the_kubernetes_api_stays_within_its_limits() {
    let mut scene = Scene::with(&[("a.conf", "0")]);
    let application = scene.application();
    let (server, port, ca) = crate::support::tls_server::start("127.0.0.1");
    let path = scene.folder.path().display();
    let text = format!(
        "[agent]\nlog = \"json\"\nlisten = \"127.0.0.1:0\"\nresync = \"10m\"\n\
         [cluster]\nurl = \"https://127.0.0.1:{port}\"\nnamespace = \"test\"\n\
         token-file = \"{path}/token\"\nca-file = \"{path}/ca.crt\"\n\
         eager-sync = true\nobjects = [\"configmap/app\", \"secret/tls\"]\nevents = true\n\
         [[rule]]\nwatch = \"{path}/volume\"\nsettle = \"0s\"\non-start = \"never\"\n\
         limit.lease = \"web\"\nhttp.url = \"{}\"\n",
        application.url(),
    );
    fs::write(scene.path("token"), "token").unwrap();
    fs::write(scene.path("ca.crt"), ca).unwrap();
    fs::write(scene.path("podnudge.toml"), &text).unwrap();
    server.grant(crate::support::rights::rights_of(&text));
    server.with_store(|store| {
        for (kind, name) in [("configmaps", "app"), ("secrets", "tls"), ("pods", "web-0")] {
            let object = serde_json::json!({"metadata": {"name": name}});
            store.create(&format!("/api/v1/namespaces/test/{kind}"), object).unwrap();
        }
    });
    let mut command = command(WITH_TLS.binary());
    command.arg("--config").arg(scene.path("podnudge.toml"));
    command.env("PODNUDGE_POD_NAME", "web-0").env("PODNUDGE_POD_UID", "u-0");
    let agent = Agent::spawn(scene.folder.path(), command);
    agent.wait_for("baseline", 1);
    let requests = |text: &str| server.seen().iter().filter(|it| it.contains(text)).count();
    // Whoever waits for a slot watches its Lease, too.
    let watches = || {
        let seen = server.seen();
        seen.iter().filter(|it| it.contains("watch=true") && !it.contains("/leases?")).count()
    };
    wait_until("both objects are watched", || watches() == 2);
    let mut most_threads = 0;
    for n in 1..=10 {
        let edit = serde_json::json!({"metadata": {"labels": {"n": n.to_string()}}});
        server.with_store(|store| {
            store.patch("/api/v1/namespaces/test/configmaps/app", &edit).unwrap();
        });
        agent.wait_for("edited", n);
        scene.change(&n.to_string());
        agent.wait_for("applied", n);
        most_threads = most_threads.max(number(agent.pid(), "Threads"));
    }
    wait_until("an Event is created", || requests("POST /api/v1/namespaces/test/events") >= 1);
    let (memory, private) =
        (number(agent.pid(), "VmRSS") * 1024, number(agent.pid(), "RssAnon") * 1024);
    println!("{memory} bytes resident, {private} private, {most_threads} threads");
    assert!(memory <= MIB * 23 / 4, "{memory} bytes");
    assert!(private <= MIB * 5 / 4, "{private} bytes");
    assert!(most_threads <= 3, "{most_threads} threads");
    wait_until("the reading thread has ended", || number(agent.pid(), "Threads") == 2);
    // What was counted for the next Events follows within a minute; nothing wakes it at other times.
    sleeps_for_three_seconds(|| wakeups(agent.pid()));
    assert_eq!(watches(), 2, "the same watches");
}

fn supervising_stays_within_the_memory_limit_and_does_not_wake_up(shipped: &Shipped) {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = format!("echo >>'{}'; exec sleep 1000", starts.display());
    let started = || fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let mut command = command(shipped.binary());
    let stderr = fs::File::create(folder.path().join("stderr")).unwrap();
    command.args(["supervise", "--", "sh", "-c", &script]).stderr(stderr);
    let supervisor = Ended(command.spawn().unwrap());
    let pid = i32::try_from(supervisor.0.id()).unwrap();
    let mut after_first = 0;
    for n in 0..=10 {
        wait_until("the command has started", || started() == n + 1);
        if n == 0 {
            after_first = descriptors(pid);
        }
        if n < 10 {
            kill(Pid::from_raw(pid), Signal::SIGSTKFLT).unwrap();
        }
    }
    let (private, all) = (number(pid, "RssAnon") * 1024, number(pid, "VmRSS") * 1024);
    println!("{}: {private} bytes of its own, {all} bytes with its code", shipped.path);
    assert!(private <= MIB / 2, "{}: {private} bytes", shipped.path);
    assert_eq!((number(pid, "Threads"), descriptors(pid)), (1, after_first));
    let added = charged(8, |group| {
        let mut command = group.command(shipped.binary());
        command.args(["supervise", "--", "sleep", "1000"]);
        command
    });
    println!("{}: {added} KiB more for a container", shipped.path);
    assert!(added <= 1024, "{}: {added} KiB", shipped.path);
    // It still reports the last start.
    wait_until("it sleeps", || is_asleep(pid));
    sleeps_for_three_seconds(|| wakeups(pid));
}

/// What each of these supervisors of `sleep` adds to what is charged to its container, in KiB. The kernel
/// counts in pieces of up to 256 KiB, so one alone says little. The pages of the program's file are charged to
/// whoever read them first.
fn charged(count: u64, supervisor: impl Fn(&MemoryLimit) -> Command) -> u64 {
    let measure = |start: &dyn Fn(&MemoryLimit) -> Command, processes: u64| {
        let group = MemoryLimit::new(256 * MIB);
        let started: Vec<Ended> =
            (0..count).map(|_| Ended(start(&group).spawn().unwrap())).collect();
        wait_until("all sleep", || {
            let pids = group.processes();
            u64::try_from(pids.len()).unwrap() == processes && pids.into_iter().all(is_asleep)
        });
        let usage = group.usage();
        drop(started);
        usage
    };
    let alone = |group: &MemoryLimit| {
        let mut command = group.command("sleep");
        command.arg("1000");
        command
    };
    measure(&supervisor, 2 * count).saturating_sub(measure(&alone, count)) / count
}

/// Whether a process waits for an event.
fn is_asleep(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('S')
}

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // podnudge would pass TERM on, and leave no sleeping child behind.
        _ = kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM);
        drop(self.0.wait());
    }
}

fn a_binary_runs_in_an_empty_root_and_resolves_names(shipped: &Shipped) {
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
