//! Apache httpd: a reload of a broken configuration ends it, and it cannot start with one.

use super::load::get;
use super::plays;
use super::pod::{Example, Pod, Subject};
use crate::support::{Payload, in_network, payload, wait_until};

const APACHE: Subject = Subject {
    example: "apache-published.toml",
    command: &["apache2", "-d", "{dir}", "-f", "httpd.conf", "-DFOREGROUND"],
    content,
    checker: "apache2 -t",
    faults: &[
        "Lisen 8081",
        "<Location /never-ends>",
        "LoadModule no_module /nowhere/mod_no.so",
        "Include nowhere.conf",
    ],
    address: "127.0.0.1:8080",
    path: "/v",
    answer: |version| format!("X-Version: {version}\r\n"),
    complaint: "AH00526",
};

fn content(version: usize, fault: &str) -> Payload {
    let modules = ["mpm_event", "authz_core", "headers"];
    let load =
        |name: &&str| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
    let config = format!(
        "{}ServerName localhost\nListen 127.0.0.1:8080\nUser www-data\nGroup www-data\n\
         PidFile {{run}}/httpd.pid\nDefaultRuntimeDir {{run}}\nErrorLog /dev/stderr\n\
         DocumentRoot www\nInclude sites/*.conf\n",
        modules.iter().map(load).collect::<String>()
    );
    let site = format!("Header set X-Version {version}\n{fault}\n");
    payload(&[
        ("httpd.conf", &config),
        ("sites/web.conf", &site),
        ("www/v", "here\n"),
        ("www/healthz", "well\n"),
    ])
}

/// One second is enough for so short a configuration.
fn soon(example: Example) -> Example {
    example.with("verify", "timeout", "3s").alive_for("1s")
}

#[test]
fn apache_never_loads_a_broken_configuration() {
    in_network!(plays::never_loads_a_broken_configuration(&APACHE));
}

/// Apache exits at each broken configuration, and requests fail until it runs again: at the latest
/// its second start finds the configuration that podnudge has rolled back to.
#[test]
fn apache_without_checks_exits_and_restarts_with_the_last_good_configuration() {
    in_network!();
    let played = plays::is_rolled_back_without_checks(&APACHE, soon, true);
    let (ends, excused) = (played.application.ends(), played.excused);
    println!("{ends} ends, {excused} requests failed meanwhile");
    println!("such as: {}", played.agent.last("rolling-back", "reason"));
    assert!(ends >= 8, "each broken configuration ends it");
}

#[test]
fn apache_restarts_with_the_last_good_configuration_when_a_port_is_in_use() {
    in_network!();
    let played =
        plays::is_rolled_back_when_a_port_is_in_use(&APACHE, soon, "Listen 127.0.0.1:9999");
    assert!(played.application.ends() > 0);
    assert!(played.application.log().contains("Address already in use"));
}

/// A crash while the volume holds a rejected change.
#[test]
fn a_killed_apache_restarts_with_the_last_good_configuration() {
    in_network!();
    let mut pod = Pod::new(&APACHE);
    let example = soon(pod.example());
    pod.once(&example);
    let apache = pod.start("config");
    let (agent, at_start) = pod.agent(&example);
    pod.write(1, "");
    agent.wait_for("applied", at_start + 1);
    pod.wait_until_good();
    pod.write(2, APACHE.faults[0]);
    agent.wait_for("rejected", 1);
    apache.kill();
    APACHE.wait_for(1);
    assert_eq!(apache.ends(), 1);
    assert!(!apache.log().contains(APACHE.complaint));
    pod.write(3, "");
    agent.wait_for("applied", at_start + 2);
    APACHE.wait_for(3);
}

/// The contrast, and the reason to publish: with checks alone podnudge does not reload the broken
/// configuration, but a restarted Apache reads it from the volume.
#[test]
fn a_killed_apache_that_reads_the_volume_cannot_restart() {
    in_network!();
    let mut pod = Pod::new(&APACHE);
    let example = soon(pod.example().without("publish"));
    let apache = pod.start("volume");
    let (agent, at_start) = pod.agent(&example);
    pod.write(1, "");
    agent.wait_for("applied", at_start + 1);
    pod.write(2, APACHE.faults[0]);
    agent.wait_for("rejected", 1);
    assert!(APACHE.serves(1), "Apache was not reloaded");
    apache.kill();
    wait_until("Apache has failed to start several times", || apache.ends() >= 5);
    assert!(get(APACHE.address, APACHE.path).is_err());
    assert!(apache.log().matches(APACHE.complaint).count() >= 4);
    pod.write(3, "");
    APACHE.wait_for(3);
}
