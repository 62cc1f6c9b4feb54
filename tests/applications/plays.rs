//! What is played on every application: good and broken configurations in an order that is drawn.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::agent::Agent;
use crate::support::random::Random;

use super::load::{Outage, under_load, under_load_but_for_outages};
use super::pod::{Container, Example, Pod, Subject};

const CONFIGURATIONS: usize = 20;

/// The faults of so many versions, the first of which is 1, in an order that is drawn: eight are
/// broken, by each fault equally often, and the last one is good.
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

/// What there is to look at after a play.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) agent: Agent,
    pub(super) application: Container,
    /// How many requests failed while they might.
    pub(super) excused: usize,
    /// It holds the logs.
    #[expect(dead_code, reason = "it is there to be dropped last")]
    pod: Pod,
}

/// With checks: what is broken is refused, and neither published nor sent; what comes after it is
/// served at once.
pub(super) fn never_meets_a_broken_one(subject: &'static Subject) {
    let mut pod = Pod::new(subject);
    let example = pod.example();
    pod.once(&example);
    let application = pod.start("config");
    let (agent, at_start) = pod.agent(&example.alive_for("10ms"));
    let (mut good, mut refused) = (at_start, 0);
    under_load(subject.address, subject.path, || {
        for (fault, version) in draw(subject.faults).into_iter().zip(1..) {
            pod.write(version, fault);
            if fault.is_empty() {
                good += 1;
                agent.wait_for("applied", good);
                subject.wait_for(version);
            } else {
                refused += 1;
                agent.wait_for("rejected", refused);
            }
        }
    });
    println!("{} good and {refused} broken configurations", good - at_start);
    assert_eq!((agent.count("applied"), agent.count("rejected")), (good, refused));
    for event in agent.events("rejected") {
        let reason = event["reason"].as_str().unwrap();
        assert!(reason.starts_with(&format!("`{}", subject.checker)), "{reason}");
        assert!(reason.contains(" ended with 1: "), "it does not say why: {reason}");
    }
    println!("refused: {}", agent.last("rejected", "reason"));
    assert_eq!(agent.count("published"), good - at_start);
    let told = ["sent", "accepted", "fresh"].map(|event| agent.count(event));
    assert_eq!(told.iter().sum::<usize>(), good);
    assert!(agent.events("scheduled").iter().all(|event| event["wait"] == "0s"), "applied late");
    for trouble in ["rolling-back", "retrying", "check-failed", "refused", "gave-up", "tripped"] {
        assert_eq!(agent.count(trouble), 0, "{trouble}: {}", agent.last(trouble, "reason"));
    }
    let log = application.log();
    assert!(!log.contains(subject.complaint), "it has met a broken one: {log}");
    assert_eq!(application.ends(), 0);
}

/// Without checks, by a proof: every broken configuration reaches the application, is seen not to
/// work, and is rolled back. `around` may say that the application is down for that time.
pub(super) fn gets_the_last_good_one_again(
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
    assert!(log.contains(subject.complaint), "it has met no broken one: {log}");
    Played { agent, application, excused, pod }
}

/// With checks, and something that they do not see: a port that somebody else has. The application
/// does not take it, so it is rolled back, and what comes next is served.
pub(super) fn cannot_have_a_port(
    subject: &'static Subject,
    edit: fn(Example) -> Example,
    fault: &'static str,
) -> Played {
    let mut pod = Pod::new(subject);
    let example = edit(pod.example());
    pod.once(&example);
    let application = pod.start("config");
    let (agent, at_start) = pod.agent(&example);
    let _taken = TcpListener::bind("127.0.0.1:9999").unwrap();
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
