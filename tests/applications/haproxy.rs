//! haproxy in master-worker mode.

use super::plays;
use super::pod::{Example, Pod, Subject};
use crate::support::{Payload, ROLLED_OUT, in_network, payload, wait_until};

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
fn haproxy_never_loads_a_broken_configuration() {
    in_network!(plays::never_loads_a_broken_configuration(&HAPROXY));
}

fn soon(example: Example) -> Example {
    example.with("verify", "timeout", "3s").alive_for("10ms")
}

/// After a failed reload the master waits and the old worker serves; podnudge detects the failure
/// by the missing proof.
#[test]
fn haproxy_without_checks_is_rolled_back_by_its_proof() {
    in_network!();
    let played = plays::is_rolled_back_without_checks(&HAPROXY, soon, false);
    assert_eq!((played.application.ends(), played.excused), (0, 0));
}

#[test]
fn haproxy_is_rolled_back_when_a_port_is_in_use() {
    in_network!();
    let played = plays::is_rolled_back_when_a_port_is_in_use(&HAPROXY, soon, "bind 127.0.0.1:9999");
    assert_eq!(played.application.ends(), 0);
    assert!(played.application.log().contains("cannot bind socket"));
}

/// No proof is configured, so podnudge only knows that the signal was delivered.
#[test]
fn a_failed_haproxy_reload_without_check_and_proof_is_delivered_and_not_applied() {
    in_network!();
    let mut pod = Pod::new(&HAPROXY);
    let example = pod.example().without("check").without("verify");
    pod.once(&example);
    let haproxy = pod.start("config");
    let (agent, _) = pod.agent(&example);
    let before = ["applied", "delivered"].map(|event| agent.count(event));
    pod.write(1, HAPROXY.faults[0]);
    agent.wait_for("delivered", before[1] + 1);
    wait_until("HAProxy has rejected the configuration", || {
        haproxy.log().contains("Loading failure")
    });
    assert!(HAPROXY.serves(0), "the old worker serves");
    assert_eq!((agent.count("rolling-back"), haproxy.ends()), (0, 0));
    pod.write(2, "");
    agent.wait_for("delivered", before[1] + 2);
    assert_eq!(agent.count("applied"), before[0]);
    HAPROXY.wait_for(2);
}

/// The master has no handlers while it re-executes itself. podnudge must not refuse it then.
#[test]
fn haproxy_applies_fifty_changes_in_a_row() {
    in_network!();
    let mut pod = Pod::new(&HAPROXY);
    let example = pod.example().without("check").without("verify").alive_for("1ms");
    pod.once(&example);
    let haproxy = pod.start("config");
    let (agent, at_start) = pod.agent(&example);
    for version in 1..=50 {
        pod.write(version, "");
        agent.wait_for(ROLLED_OUT, at_start + version);
    }
    HAPROXY.wait_for(50);
    println!("waited {} times", agent.count("waiting-for-target"));
    assert_eq!((agent.count("refused"), haproxy.ends()), (0, 0));
}
