//! nginx.

use std::fs;

use serde_json::Value;

use super::load::{get, under_load};
use super::plain::{CHANGES, by_example};
use super::plays;
use super::pod::{Example, Pod, Subject};
use crate::support::{Payload, Random, Scene, in_namespace, in_network, payload, wait_until};

const NGINX: Subject = Subject {
    example: "nginx-published.toml",
    command: &["nginx", "-c", "{dir}/nginx.conf", "-g", "daemon off;"],
    content,
    checker: "nginx -t",
    faults: &[
        "lisen 80;",
        "location / {",
        "ssl_certificate /nowhere/tls.crt;",
        "return 200 \"never ends;",
    ],
    address: "127.0.0.1:8080",
    path: "/v",
    answer: |version| format!("version {version}."),
    complaint: "[emerg]",
};

fn content(version: usize, fault: &str) -> Payload {
    let main = "user root;\nworker_processes 2;\npid {run}/nginx.pid;\nerror_log stderr;\n\
                events {}\nhttp { access_log off; include sites/*.conf; }\n";
    let site = format!(
        "server {{ listen 127.0.0.1:8080; {fault}\n\
         location = /healthz {{ return 200; }}\n\
         location = /v {{ return 200 \"version {version}.\"; }} }}\n"
    );
    payload(&[("nginx.conf", main), ("sites/web.conf", &site)])
}

#[test]
fn nginx_never_loads_a_broken_configuration_with_the_publishing_example() {
    in_network!(plays::never_loads_a_broken_configuration(&NGINX));
}

fn soon(example: Example) -> Example {
    example.with("verify", "timeout", "3s").alive_for("10ms")
}

/// nginx keeps its old worker when a reload fails, so no request fails; podnudge detects the
/// failure by the missing proof.
#[test]
fn nginx_without_checks_is_rolled_back_by_its_proof() {
    in_network!();
    let played = plays::is_rolled_back_without_checks(&NGINX, soon, false);
    assert_eq!((played.application.ends(), played.excused), (0, 0));
}

#[test]
fn nginx_is_rolled_back_when_a_port_is_in_use() {
    in_network!();
    let fault = "listen 127.0.0.1:9999;";
    let played = plays::is_rolled_back_when_a_port_is_in_use(&NGINX, soon, fault);
    assert_eq!(played.application.ends(), 0);
    assert!(played.application.log().contains("Address already in use"));
}

/// No proof is configured, so podnudge only knows that the signal was delivered.
#[test]
fn a_failed_nginx_reload_without_check_and_proof_is_delivered_and_not_applied() {
    in_network!();
    let mut pod = Pod::new(&NGINX);
    let example = pod.example().without("check").without("verify");
    pod.once(&example);
    let nginx = pod.start("config");
    let (agent, _) = pod.agent(&example);
    let before = ["applied", "delivered"].map(|event| agent.count(event));
    pod.write(1, NGINX.faults[0]);
    agent.wait_for("delivered", before[1] + 1);
    wait_until("nginx has rejected the configuration", || nginx.log().contains("[emerg]"));
    assert!(NGINX.serves(0), "the old worker serves");
    assert_eq!(agent.count("rolling-back"), 0);
    pod.write(2, "");
    agent.wait_for("delivered", before[1] + 2);
    assert_eq!(agent.count("applied"), before[0]);
    NGINX.wait_for(2);
}

#[test]
fn nginx_serves_every_change_and_only_its_master_is_signalled() {
    in_namespace!();
    let address = "127.0.0.1:18080";
    let site = |version: usize| {
        let server = format!(
            "server {{ listen {address}; location / {{ return 200 \"version {version}.\"; }} }}\n"
        );
        payload(&[("web.conf", &server)])
    };
    let mut scene = Scene::on_tmpfs("/etc/nginx/conf.d", &site(0));
    let main = scene.write(
        "nginx.conf",
        "user root;\nworker_processes 2;\ndaemon off;\npid FOLDER/nginx.pid;\nerror_log stderr;\n\
         events {}\nhttp { access_log off; include /etc/nginx/conf.d/*.conf; }\n",
    );
    let (nginx, _) = scene.run(&["nginx", "-c", &main]);
    wait_until("nginx answers", || get(address, "/").is_ok());
    let quick = ["--min-interval", "0s", "--alive-for", "10ms", "--on-start", "never"];
    let agent = by_example(&scene, "nginx.toml", &quick);
    under_load(address, "/", || {
        for version in 1..=CHANGES {
            scene.kubelet.write(&site(version));
            wait_until(&format!("version {version} is served"), || {
                get(address, "/")
                    .is_ok_and(|answer| answer.ends_with(&format!("version {version}.")))
            });
            agent.wait_for("applied", version);
        }
    });
    assert_eq!(agent.count("sent"), CHANGES);
    let is_master = |sent: &Value| sent["target"] == "nginx" && sent["pid"] == nginx;
    assert!(agent.events("sent").iter().all(is_master), "{}", agent.log());
}

/// nginx keeps the old configuration and reports nothing to the sender of the signal; only the lack
/// of new workers shows the failure.
#[test]
fn nginx_gives_no_proof_of_a_configuration_that_it_rejects() {
    in_namespace!();
    let address = "127.0.0.1:18084";
    let site = |text: &str| {
        let main = format!(
            "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-proof.pid;\n\
             error_log stderr;\nevents {{}}\nhttp {{ access_log off; server {{ \
             listen {address}; {text} }} }}\n"
        );
        payload(&[("nginx.conf", &main)])
    };
    let first = site("return 200 \"version 0.\";");
    let mut scene = Scene::on_tmpfs("/etc/nginx", &first);
    scene.run(&["nginx"]);
    wait_until("nginx answers", || get(address, "/").is_ok());
    let agent = scene.configured(
        "[[rule]]\nwatch = \"/etc/nginx\"\nsettle = \"0s\"\non-start = \"never\"\n\
         target = { process = \"nginx\" }\nsignal = { name = \"HUP\" }\nretry = { attempts = 1 }\n\
         verify = { children-newer = true, alive-for = \"10ms\", timeout = \"2s\" }\n",
    );
    agent.wait_for("baseline", 1);
    for n in 1..=3 {
        scene.kubelet.write(&site(&format!("retrun {n};")));
        agent.wait_for("gave-up", n);
        let reason = agent.last("gave-up", "reason");
        assert!(reason.ends_with("since the signal; older ones: 2"), "{reason}");
        scene.kubelet.write(&site(&format!("return 200 \"version {n}.\";")));
        agent.wait_for("applied", n);
        wait_until(&format!("version {n} is served"), || {
            get(address, "/").is_ok_and(|got| got.ends_with(&format!("version {n}.")))
        });
    }
    assert_eq!((agent.count("sent"), agent.count("applied")), (6, 3));
}

/// Good and broken configurations in a random order: a configuration that nginx itself rejects
/// causes no reload, and the next good one is served at once.
#[test]
fn nginx_never_loads_a_broken_configuration_with_the_checking_example() {
    const BROKEN: [&str; 4] = [
        "lisen 80;",
        "location / {",
        "ssl_certificate /nowhere/tls.crt;",
        "return 200 \"never ends;",
    ];
    in_namespace!();
    let address = "127.0.0.1:18083";
    let main = "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-checked.pid;\n\
            error_log stderr;\nevents {}\nhttp { access_log off; include sites/*.conf; }\n";
    let site = |version: usize, more: &str| {
        let server = format!(
            "server {{ listen {address}; {more}\nlocation /v {{ return 200 \"version {version}.\"; }} }}\n"
        );
        payload(&[("nginx.conf", main), ("sites/web.conf", &server)])
    };
    let mut scene = Scene::on_tmpfs("/etc/nginx", &site(0, ""));
    let (_, log) = scene.run(&["nginx"]);
    wait_until("nginx answers", || get(address, "/v").is_ok());
    let quick = ["--min-interval", "0s", "--alive-for", "10ms", "--on-start", "never"];
    let agent = by_example(&scene, "nginx-checked.toml", &quick);
    let mut random = Random::from_environment();
    let (mut good, mut rejected) = (0, 0);
    under_load(address, "/v", || {
        for version in 1..=40 {
            let draw = random.below(std::time::Duration::from_nanos(8)).subsec_nanos() as usize;
            if let Some(broken) = BROKEN.get(draw) {
                rejected += 1;
                scene.kubelet.write(&site(version, broken));
                agent.wait_for("rejected", rejected);
                continue;
            }
            good += 1;
            scene.kubelet.write(&site(version, ""));
            agent.wait_for("applied", good);
            wait_until(&format!("version {version} is served"), || {
                get(address, "/v").is_ok_and(|got| got.ends_with(&format!("version {version}.")))
            });
        }
    });
    println!("{good} good and {rejected} broken configurations");
    assert!(good >= 5 && rejected >= 5);
    assert_eq!((agent.count("sent"), agent.count("rejected")), (good, rejected));
    assert!(agent.last("rejected", "reason").contains("[emerg]"));
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("[emerg]"), "nginx itself has loaded a broken configuration: {log}");
}
