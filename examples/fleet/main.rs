//! Twelve replicas of an application that must be restarted to take a change, with a podnudge each, behind
//! a balancer, under load:
//!
//! ```text
//! cargo run --release --example fleet
//! ```
//!
//! First with a slot and a drain: no request fails, and at most one replica is down at a time. Then without
//! them: many requests fail. Everything is real but the cluster: the podnudges, the applications below
//! `podnudge supervise`, the kubelet's swaps, the requests. The balancer (`balancer.rs`) stands for the kubelet's
//! probes and the Service, a small server in memory for the Kubernetes API. `FLEET_CHANGES` sets the number of
//! changes (10).

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example prints, waits, and fails by panicking"
)]

mod application;
mod balancer;
mod load;
mod replica;

#[path = "../../tests/support/api_server.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod api_server;
#[path = "../../tests/support/http.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod http;
#[path = "../../tests/support/kubelet.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod kubelet;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use api_server::ApiServer;
use balancer::Balancer;
use load::Load;
use replica::{Protection, Replica};

const REPLICAS: usize = 12;
/// How long a change may take to reach all replicas, one after the other.
const LIMIT: Duration = Duration::from_mins(3);

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("application") {
        let (port, file) = (arguments.next().unwrap(), arguments.next().unwrap());
        return application::run(port.parse().unwrap(), file.as_ref());
    }
    let changes = std::env::var("FLEET_CHANGES").map_or(10, |text| text.parse().unwrap());
    let podnudge = build();
    println!("\n1. {REPLICAS} replicas, with one slot and a drain: {changes} changes under load.");
    let result = play(&podnudge, Protection::SlotAndDrain, changes);
    assert_eq!(result.failed, 0, "a request failed");
    assert!(result.most_down <= 1, "{} replicas were down at once", result.most_down);
    println!(
        "\n2. The same without: 2 changes under load, the replicas at most 2 s apart by jitter."
    );
    let result = play(&podnudge, Protection::Jitter, 2);
    assert!(
        result.failed > 0,
        "without a slot and a drain, no request failed: the load proves nothing"
    );
}

/// What the clients saw.
struct Outcome {
    failed: usize,
    most_down: usize,
}

fn play(podnudge: &Path, protection: Protection, changes: usize) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let api = ApiServer::start();
    let mut replicas: Vec<Replica> = (0..REPLICAS)
        .map(|n| Replica::start(podnudge, folder.path(), n, &api, protection))
        .collect();
    let balancer = Balancer::start(&replicas, &api);
    wait("all replicas are ready", || balancer.ready() == REPLICAS);
    balancer.forget();
    let load = Load::start(balancer.address());
    for change in 1..=changes {
        let version = (change + 1).to_string();
        let begin = Instant::now();
        for replica in &mut replicas {
            replica.swap(&version);
        }
        wait("all replicas run the change", || {
            replicas.iter().all(|replica| replica.version().as_deref() == Some(&version))
                && balancer.ready() == REPLICAS
        });
        println!(
            "   change {change}: all {REPLICAS} replicas run it after {:.1} s; {} requests so far, {} failed; at most {} down at once",
            begin.elapsed().as_secs_f64(),
            load.sent(),
            load.failed(),
            balancer.most_down()
        );
    }
    let (sent, failed) = load.stop();
    let most_down = balancer.most_down();
    println!(
        "   {sent} requests, {failed} failed; at most {most_down} of {REPLICAS} replicas were down at once."
    );
    Outcome { failed, most_down }
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Builds podnudge as this example was built, and returns its path.
fn build() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.parent().and_then(Path::parent).unwrap();
    let is_release = target.ends_with("release");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked"]).args(is_release.then_some("--release"));
    assert!(cargo.status().unwrap().success(), "podnudge can be built");
    target.join("podnudge")
}
