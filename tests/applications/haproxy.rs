//! haproxy in master-worker mode.

use super::plays;
use super::pod::{Example, Pod, Subject};
use crate::support::kubelet::{Payload, payload};
use crate::support::pod::in_network;
use crate::support::wait::wait_until;

const HAPROXY: Subject = Subject {
    example: "haproxy-published.toml",
    command: &["haproxy", "-W", "-db", "-f", "{dir}/haproxy.cfg"],
    content,
    checker: "haproxy -c",
    faults: &[
        "bogus keyword",
        "default_backend nowhere",
        "bind 127.0.0.1:8081 ssl crt nowhere.pem",
        "http-request return status 200 string \"never ends",
    ],
    address: "127.0.0.1:8080",
    path: "/v",
    answer: |version| format!("version {version}."),
    complaint: "[ALERT]",
};

fn content(version: usize, fault: &str) -> Payload {
    let config = format!(
        "global\n  default-path config\n  maxconn 200\n  hard-stop-after 30s\n\
         defaults\n  mode http\n  timeout client 5s\n  timeout connect 5s\n  timeout server 5s\n\
         frontend web\n  bind 127.0.0.1:8080\n  {fault}\n  http-request return status 200 \
         content-type text/plain string \"version {version}.\"\n"
    );
    payload(&[("haproxy.cfg", &config)])
}

#[test]
fn haproxy_never_meets_a_broken_one() {
    in_network(|| plays::never_meets_a_broken_one(&HAPROXY));
}

fn soon(example: Example) -> Example {
    example.with("verify", "timeout", "3s").alive_for("10ms")
}

/// The master waits and the old worker serves where a reload fails; the proof tells podnudge.
#[test]
fn haproxy_without_checks_gets_the_last_good_one_again_by_its_proof() {
    in_network(|| {
        let played = plays::gets_the_last_good_one_again(&HAPROXY, soon, false);
        assert_eq!((played.application.ends(), played.excused), (0, 0));
    });
}

#[test]
fn haproxy_cannot_have_a_port_and_gets_the_last_good_one_again() {
    in_network(|| {
        let played = plays::cannot_have_a_port(&HAPROXY, soon, "bind 127.0.0.1:9999");
        assert_eq!(played.application.ends(), 0);
        assert!(played.application.log().contains("cannot bind socket"));
    });
}

/// Without that proof podnudge knows that the signal was sent and that the master is alive. That
/// is all true, and haproxy runs the old configuration.
#[test]
fn haproxy_without_checks_and_without_proof_fails_silently() {
    in_network(|| {
        let mut pod = Pod::new(&HAPROXY);
        let example = pod.example().without("check").without("verify");
        pod.once(&example);
        let haproxy = pod.start("config");
        let (agent, at_start) = pod.agent(&example);
        pod.write(1, HAPROXY.faults[0]);
        agent.wait_for("applied", at_start + 1);
        wait_until("HAProxy has refused it", || haproxy.log().contains("Loading failure"));
        assert!(HAPROXY.serves(0), "the old worker serves");
        assert_eq!((agent.count("rolling-back"), haproxy.ends()), (0, 0));
        pod.write(2, "");
        agent.wait_for("applied", at_start + 2);
        HAPROXY.wait_for(2);
    });
}

/// The master has no handlers while it executes itself anew. That is no reason to refuse it.
#[test]
fn haproxy_takes_changes_that_follow_each_other_at_once() {
    in_network(|| {
        let mut pod = Pod::new(&HAPROXY);
        let example = pod.example().without("check").without("verify").alive_for("1ms");
        pod.once(&example);
        let haproxy = pod.start("config");
        let (agent, at_start) = pod.agent(&example);
        for version in 1..=50 {
            pod.write(version, "");
            agent.wait_for("applied", at_start + version);
        }
        HAPROXY.wait_for(50);
        println!("waited {} times", agent.count("waiting-for-target"));
        assert_eq!((agent.count("refused"), haproxy.ends()), (0, 0));
    });
}
