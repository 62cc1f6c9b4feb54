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
//! changes (10), `FLEET_REPLICAS` that of the replicas (12). With the path of a podnudge as its argument, it uses
//! that one instead of building it: so `./test` runs a short form.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example prints, waits, and fails by panicking"
)]

mod application;
mod balancer;
mod load;
mod replica;

#[path = "../../tests/support/access.rs"]
mod access;
#[path = "../../tests/support/api_server.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod api_server;
#[path = "../../tests/support/http.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod http;
#[path = "../../tests/support/kubelet.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod kubelet;
#[path = "../../tests/support/pages.rs"]
mod pages;
#[path = "../../crates/core/tests/support/store.rs"]
mod store;
#[path = "../../tests/support/watches.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod watches;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use api_server::ApiServer;
use balancer::Balancer;
use load::Load;
use replica::{Protection, Replica};

/// How long a change may take to reach all replicas, one after the other.
const LIMIT: Duration = Duration::from_mins(3);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["application", address, file] => {
            application::run(address.parse().unwrap(), file.as_ref());
        }
        ["protected", podnudge] => protected(podnudge.as_ref()),
        ["unprotected", podnudge] => unprotected(podnudge.as_ref()),
        [] => both(&build()),
        [podnudge] => both(podnudge.as_ref()),
        _ => panic!("give no argument, or the path of podnudge"),
    }
}

fn both(podnudge: &Path) {
    in_namespace("protected", podnudge);
    in_namespace("unprotected", podnudge);
}

fn protected(podnudge: &Path) {
    let (replicas, changes) = (replicas(), number("FLEET_CHANGES", 10));
    println!("\n1. {replicas} replicas, with one slot and a drain: {changes} changes under load.");
    let result = play(podnudge, Protection::SlotAndDrain, changes);
    assert_eq!(result.failed, 0, "a request failed");
    assert!(result.most_down <= 1, "{} replicas were down at once", result.most_down);
}

fn unprotected(podnudge: &Path) {
    println!(
        "\n2. The same with jitter alone: 2 changes under load, the replicas at most 2 s apart."
    );
    let result = play(podnudge, Protection::Jitter, 2);
    assert!(result.failed > 0, "no request failed: then the load proves nothing");
}

/// At least two: one goes on while the other is down.
fn replicas() -> usize {
    let replicas = number("FLEET_REPLICAS", 12);
    assert!((2..=255).contains(&replicas), "FLEET_REPLICAS must be from 2 to 255");
    replicas
}

/// A number of the environment that is at least 1.
fn number(name: &str, default: usize) -> usize {
    let Ok(text) = std::env::var(name) else { return default };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.unwrap_or_else(|| panic!("{name} must be a number from 1, not `{text}`"))
}

/// Runs this program in this role in a namespace of its own, without the other processes of the machine.
fn in_namespace(role: &str, podnudge: &Path) {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]);
    unshare.arg("--kill-child").arg(std::env::current_exe().unwrap()).arg(role).arg(podnudge);
    let done = unshare.status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "the part `{role}` failed, or there is no unshare(1) of util-linux, or no user namespace"
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
    let count = replicas();
    let mut replicas: Vec<Replica> =
        (0..count).map(|n| Replica::start(podnudge, folder.path(), n, &api, protection)).collect();
    let balancer = Balancer::start(&replicas, &api);
    wait("all replicas are ready", || balancer.ready() == count);
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
                && balancer.ready() == count
        });
        println!(
            "   change {change}: all {count} replicas run it after {:.1} s; {} requests so far, {} failed; at most {} down at once",
            begin.elapsed().as_secs_f64(),
            load.sent(),
            load.failed(),
            balancer.most_down()
        );
    }
    let (sent, failed) = load.stop();
    let most_down = balancer.most_down();
    println!(
        "   {sent} requests, {failed} failed; at most {most_down} of {count} replicas were down at once."
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

/// Builds podnudge, and returns its path.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--release", "--bin", "podnudge"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "podnudge cannot be built");
    // The example is in target/release/examples.
    let example = std::env::current_exe().unwrap();
    example.parent().unwrap().parent().unwrap().with_file_name("release").join("podnudge")
}
