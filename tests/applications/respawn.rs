//! A worker of nginx that ends during the verification is no proof of a reload.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::load::get;
use crate::support::{Payload, Scene, in_network, payload, wait_until};

const ADDRESS: &str = "127.0.0.1:8080";

fn content(workers: usize, version: usize, fault: &str) -> Payload {
    let main = format!(
        "user root;\nworker_processes {workers};\ndaemon off;\npid /run/nginx-respawn.pid;\n\
         error_log stderr;\nevents {{}}\nhttp {{ access_log off; server {{ listen {ADDRESS};\n\
         {fault} return 200 \"version {version}.\"; }} }}\n"
    );
    payload(&[("nginx.conf", &main)])
}

fn workers(of: u32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    children.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Broken content, a worker that the kernel kills for memory, the fix, and good edits. A podnudge that gets no processor
/// for the 100 ms in which the only old worker and the new one run misses that proof, and signals once more: beside many
/// other tests, several times.
fn is_not_verified_by_a_worker_that_was_started_again(number: usize) {
    let mut scene = Scene::on_tmpfs("/etc/nginx", &content(number, 0, ""));
    let (nginx, _) = scene.run(&["nginx"]);
    wait_until("nginx answers", || get(ADDRESS, "/").is_ok());
    let agent = scene.configured(
        "[[rule]]\nwatch = \"/etc/nginx\"\nsettle = \"0s\"\non-start = \"never\"\n\
         min-interval = \"0s\"\ntarget.process = \"nginx\"\npreset = \"nginx\"\n\
         retry = { first = \"100ms\", attempts = 6 }\nverify = { alive-for = \"10ms\", timeout = \"3s\" }\n",
    );
    agent.wait_for("baseline", 1);
    scene.kubelet.write(&content(number, 1, "retrun 1;"));
    agent.wait_for("sent", 1);
    let old = workers(nginx);
    kill(Pid::from_raw(old[0]), Signal::SIGKILL).unwrap();
    wait_until("nginx has started the worker again", || {
        let now = workers(nginx);
        now.len() == number && !now.contains(&old[0])
    });
    agent.wait_for("applied|gave-up", 1);
    assert_eq!(agent.count("applied"), 0, "{}", agent.log());
    for version in 2..=4 {
        scene.kubelet.write(&content(number, version, ""));
        agent.wait_for("applied", version - 1);
        let wanted = format!("version {version}.");
        wait_until("it is served", || get(ADDRESS, "/").is_ok_and(|got| got.ends_with(&wanted)));
    }
}

#[test]
fn nginx_with_one_worker_that_was_killed_is_not_verified() {
    in_network!(is_not_verified_by_a_worker_that_was_started_again(1));
}

#[test]
fn nginx_with_two_workers_of_which_one_was_killed_is_not_verified() {
    in_network!(is_not_verified_by_a_worker_that_was_started_again(2));
}
