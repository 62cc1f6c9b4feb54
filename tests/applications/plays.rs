//! Tests for every application: good and broken configurations in a random order.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::{Agent, Container, Random};

use super::load::{Outage, under_load, under_load_but_for_outages};
use super::pod::{Example, Pod, Subject};

const CONFIGURATIONS: usize = 20;

/// The faults of all versions from 1 on, in a random order. Eight versions are broken, with each
/// fault equally often, and the last version is good.
fn draw(faults: &[&'static str]) -> Vec<&'static str> {
    let mut random = Random::from_environment();
    let broken = faults.iter().cycle().take(8);
    let mut deck: Vec<_> =
        broken.copied().chain(std::iter::repeat("")).take(CONFIGURATIONS - 1).collect();
    for last in (1..deck.len()).rev() {
        let limit = Duration::from_nanos(u64::try_from(last + 1).unwrap());
        deck.swap(last, usize::try_from(random.below(limit).as_nanos()).unwrap());
    }
    deck.push("");
    deck
}

/// The state after a test, for further assertions.
pub(super) struct Played {
    pub(super) agent: Agent,
    pub(super) application: Container,
    /// How many requests failed during an outage.
    pub(super) excused: usize,
    /// The folder with the logs.
    #[expect(dead_code, reason = "it must be dropped last")]
    pod: Pod,
}

/// With checks: a broken configuration is rejected and not published, and the next good one is
/// served at once.
pub(super) fn never_loads_a_broken_configuration(subject: &'static Subject) {
    let mut pod = Pod::new(subject);
    let example = pod.example();
    pod.once(&example);
    let application = pod.start("config");
    let (agent, at_start) = pod.agent(&example.alive_for("10ms"));
    let (mut good, mut rejected) = (at_start, 0);
    under_load(subject.address, subject.path, || {
        for (fault, version) in draw(subject.faults).into_iter().zip(1..) {
            pod.write(version, fault);
            if fault.is_empty() {
                good += 1;
                agent.wait_for("applied", good);
                subject.wait_for(version);
            } else {
                rejected += 1;
                agent.wait_for("rejected", rejected);
            }
        }
    });
    println!("{} good and {rejected} broken configurations", good - at_start);
    assert_eq!((agent.count("applied"), agent.count("rejected")), (good, rejected));
    for event in agent.events("rejected") {
        let reason = event["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("`{}", subject.checker)), "{reason}");
        assert!(reason.contains(" ended with 1: "), "without the output of the checker: {reason}");
    }
    println!("rejected: {}", agent.last("rejected", "reason"));
    assert_eq!(agent.count("published"), good - at_start);
    let delivered = ["sent", "accepted", "fresh"].map(|event| agent.count(event));
    assert_eq!(delivered.iter().sum::<usize>(), good);
    assert!(agent.events("scheduled").iter().all(|event| event["wait"] == 0.0), "applied late");
    let troubles =
        ["preflight", "rolling-back", "retrying", "check-failed", "refused", "gave-up", "tripped"];
    for trouble in troubles {
        assert_eq!(agent.count(trouble), 0, "{trouble}: {}", agent.last(trouble, "reason"));
    }
    let log = application.log();
    assert!(
        !log.contains(subject.complaint),
        "the application has loaded a broken configuration: {log}"
    );
    assert_eq!(application.ends(), 0);
}

/// Without checks, but with a proof: every broken configuration reaches the application and is
/// rolled back. With `is_down_by_broken`, requests may fail until then.
pub(super) fn is_rolled_back_without_checks(
    subject: &'static Subject,
    edit: fn(Example) -> Example,
    is_down_by_broken: bool,
) -> Played {
    let mut pod = Pod::new(subject);
    let example = edit(pod.example().without("check"));
    pod.once(&example);
    let application = pod.start("config");
    let (agent, at_start) = pod.agent(&example);
    let (mut good, mut rolled_back, mut serving) = (at_start, 0, 0);
    let play = |outage: &Outage| {
        for (fault, version) in draw(subject.faults).into_iter().zip(1..) {
            if fault.is_empty() {
                pod.write(version, fault);
                good += 1;
                agent.wait_for("applied", good);
                serving = version;
                subject.wait_for(version);
                pod.wait_until_good();
                continue;
            }
            if is_down_by_broken {
                outage.begin();
            }
            pod.write(version, fault);
            rolled_back += 1;
            agent.wait_for("rolled-back", rolled_back);
            subject.wait_for(serving);
            outage.end();
        }
    };
    let excused = under_load_but_for_outages(subject.address, subject.path, play);
    println!(
        "{} good configurations, and {rolled_back} broken ones that were rolled back",
        good - at_start
    );
    assert_eq!((agent.count("applied"), agent.count("rolled-back")), (good, rolled_back));
    assert_eq!(
        (agent.count("published"), agent.count("rolling-back")),
        (good - at_start + rolled_back, rolled_back)
    );
    for trouble in ["refused", "gave-up", "tripped"] {
        assert_eq!(agent.count(trouble), 0, "{trouble}: {}", agent.last(trouble, "reason"));
    }
    let log = application.log();
    assert!(
        log.contains(subject.complaint),
        "the application has loaded no broken configuration: {log}"
    );
    Played { agent, application, excused, pod }
}

/// With checks, but with an error that they do not detect, a port in use: the configuration is
/// rolled back, and the next one is served.
pub(super) fn is_rolled_back_when_a_port_is_in_use(
    subject: &'static Subject,
    edit: fn(Example) -> Example,
    fault: &'static str,
) -> Played {
    let mut pod = Pod::new(subject);
    let example = edit(pod.example());
    pod.once(&example);
    let application = pod.start("config");
    let (agent, at_start) = pod.agent(&example);
    let _occupied = TcpListener::bind("127.0.0.1:9999").unwrap();
    pod.write(1, fault);
    agent.wait_for("rolled-back", 1);
    subject.wait_for(0);
    assert_eq!((agent.count("rejected"), agent.count("published")), (0, 1));
    println!("rolled back: {}", agent.last("rolling-back", "reason"));
    pod.write(2, "");
    agent.wait_for("applied", at_start + 1);
    subject.wait_for(2);
    Played { agent, application, excused: 0, pod }
}
