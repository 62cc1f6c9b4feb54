//! podnudge in an image with nginx and nothing said of checks: it uses `nginx -t` by itself, once that accepts what nginx
//! runs.

use std::fs;

use super::load::get;
use crate::support::{Agent, Container, Payload, Scene, in_network, payload, wait_until};

const DIR: &str = "/etc/nginx";
const ADDRESS: &str = "127.0.0.1:8080";

/// The configuration, with another file of it.
fn content(key: &str, site: &str) -> Payload {
    let main = format!(
        "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-preset.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{ access_log off; server {{ listen {ADDRESS}; {site} }} }}\n"
    );
    payload(&[(key, &main)])
}

fn version(version: &str) -> Payload {
    content("nginx.conf", &format!("return 200 \"{version}\";"))
}

fn broken() -> Payload {
    content("nginx.conf", "retrun 1;")
}

/// nginx with this content, whose configuration is this file.
fn start(content: &Payload, file: &str) -> (Scene, Container) {
    let mut scene = Scene::of(content).mounted_at(DIR);
    let nginx = scene.container(&["nginx", "-c", file], "nginx.log");
    wait_until("nginx answers", || get(ADDRESS, "/").is_ok());
    (scene, nginx)
}

fn serves(version: &str) {
    wait_until(version, || get(ADDRESS, "/").is_ok_and(|answer| answer.ends_with(version)));
}

/// podnudge with a work directory of its own, as in an image with nginx.
fn nudge(scene: &Scene, by: &[&str], agent: &str, rule: &str) -> Agent {
    let work = scene.path("work");
    fs::create_dir_all(&work).unwrap();
    let mount = "mount -t tmpfs tmpfs \"$0\"; exec \"$@\"";
    let mounted = ["sh", "-ec", mount, work.to_str().unwrap()];
    let mut podnudge = scene.podnudge_by(&[&mounted[..], by].concat());
    podnudge.env_remove("PODNUDGE_CHECK");
    let work_dir = if agent.is_empty() { "work-dir = \"FOLDER/work\"" } else { agent };
    let file = format!(
        "[agent]\nresync = \"1s\"\n{work_dir}\n[[rule]]\nname = \"of-preset\"\nwatch = \"{DIR}\"\nsettle = \"20ms\"\nmin-interval = \"0s\"\n{rule}\n"
    );
    scene.configured_by(podnudge, &file)
}

fn uses_the_check(agent: &Agent) {
    agent.wait_for("preset-check", 1);
    let said = &agent.events("preset-check")[0];
    assert_eq!(said["check"], "nginx -t -q -c {dir}/nginx.conf");
    assert!(said["reason"].is_null() && said["hint"].is_null(), "{said}");
}

fn rejects_what_is_broken(scene: &mut Scene, agent: &Agent) {
    scene.kubelet.write(&broken());
    agent.wait_for("rejected", 1);
    assert!(agent.last("rejected", "reason").contains("[emerg]"), "{}", agent.log());
    assert_eq!(agent.count("sent"), 0);
}

/// What the check rejects at the start says nothing of the check: the content may be broken.
#[test]
fn broken_content_at_the_start_does_not_leave_the_check_out_for_good() {
    in_network!();
    let (mut scene, _nginx) = start(&version("one"), "/etc/nginx/nginx.conf");
    scene.kubelet.write(&broken());
    let agent = nudge(&scene, &[], "", "");
    agent.wait_for("preset-check", 1);
    assert!(agent.events("preset-check")[0]["reason"].is_string(), "{}", agent.log());
    scene.kubelet.write(&version("two"));
    agent.wait_for("applied", 1);
    agent.wait_for("preset-check", 2);
    assert!(agent.events("preset-check")[1]["reason"].is_null(), "{}", agent.log());
    scene.kubelet.write(&broken());
    agent.wait_for("rejected", 1);
    serves("two");
}

#[test]
fn content_is_checked_by_the_preset_without_being_asked() {
    in_network!();
    for preset in ["", "preset = \"nginx\""] {
        let (mut scene, _nginx) = start(&version("one"), "/etc/nginx/nginx.conf");
        let agent = nudge(&scene, &[], "", preset);
        uses_the_check(&agent);
        rejects_what_is_broken(&mut scene, &agent);
        assert_eq!(agent.rule()["state"], "rejected");
        assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
        scene.kubelet.write(&version("two"));
        agent.wait_for("applied", 1);
        serves("two");
        let log = scene.text("nginx.log");
        assert!(!log.contains("[emerg]"), "nginx never loaded the broken content: {log}");
    }
}

#[test]
fn what_the_check_has_rejected_is_not_used_by_the_next_podnudge() {
    in_network!();
    let (mut scene, _nginx) = start(&version("one"), "/etc/nginx/nginx.conf");
    fs::create_dir(scene.path("state")).unwrap();
    let agent = "work-dir = \"FOLDER/work\"\nstate-dir = \"FOLDER/state\"";
    let first = nudge(&scene, &[], agent, "preset = \"nginx\"");
    uses_the_check(&first);
    rejects_what_is_broken(&mut scene, &first);
    first.stop();
    // Nothing else tells that what is there was rejected.
    for file in fs::read_dir(scene.path("state")).unwrap() {
        let path = file.unwrap().path();
        if !path.to_str().unwrap().contains("podnudge-checks") {
            fs::remove_file(path).unwrap();
        }
    }
    let next = nudge(&scene, &[], agent, "preset = \"nginx\"\non-start = \"always\"");
    next.wait_for("rejected", 1);
    scene.kubelet.write(&version("two"));
    next.wait_for("applied", 1);
    assert_eq!((next.count("sent"), next.count("rejected")), (1, 1), "{}", next.log());
}

#[test]
fn the_check_is_not_used_before_it_accepts_what_runs() {
    in_network!();
    // nginx reads another file than the check, as where only `conf.d` is mounted.
    let (mut scene, _nginx) =
        start(&content("other.conf", "return 200 \"one\";"), "/etc/nginx/other.conf");
    // A record of other content, which was rejected before, changes nothing.
    let record = format!("[{{\"digest\":\"{}\",\"times\":0}}]", "ab".repeat(32));
    scene.write("state/..podnudge-checks.of-preset.json", &record);
    let agent = "work-dir = \"FOLDER/work\"\nstate-dir = \"FOLDER/state\"";
    let agent = nudge(&scene, &[], agent, "");
    agent.wait_for("preset-check", 1);
    let reason = agent.last("preset-check", "reason");
    assert!(reason.contains("needs `nginx.conf`"), "{reason}");
    let mut both = content("other.conf", "return 200 \"two\";");
    scene.kubelet.write(&both);
    agent.wait_for("applied", 1);
    serves("two");
    // It is tried on other content, too, and said once why it is not used.
    assert_eq!((agent.count("preset-check"), agent.count("rejected")), (1, 0));
    both.extend(version("three"));
    scene.kubelet.write(&both);
    agent.wait_for("preset-check", 2);
    assert!(agent.events("preset-check")[1]["reason"].is_null(), "{}", agent.log());
    both.extend(broken());
    scene.kubelet.write(&both);
    agent.wait_for("rejected", 1);
}

/// Only a part of the configuration is watched, as with `conf.d`.
#[test]
fn a_part_of_a_configuration_is_checked_by_a_check_of_its_own() {
    in_network!();
    let site =
        |text: &str| payload(&[("site.conf", &format!("server {{ listen {ADDRESS}; {text} }}\n"))]);
    let good = |version: &str| site(&format!("return 200 \"{version}\";"));
    let mut scene = Scene::of(&good("one")).mounted_at(DIR);
    let main = scene.write(
        "main.conf",
        "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-part.pid;\nerror_log stderr;\nevents {}\n\
         http { access_log off; include /etc/nginx/*.conf; }\n",
    );
    let _nginx = scene.container(&["nginx", "-c", &main], "nginx.log");
    serves("one");
    let lacks = "the check of the preset `nginx` needs `nginx.conf` in the watched directory";
    let page = "docs/checks.md#a-part-of-a-configuration";

    // podnudge does not say that it rejects content that the program cannot check.
    let agent = nudge(&scene, &[], "", "preset = \"nginx\"\ncheck = \"preset\"");
    agent.wait_for("preflight", 1);
    assert_eq!(agent.last("preflight", "problem"), "file-missing");
    scene.kubelet.write(&good("two"));
    agent.wait_for("check-failed", 1);
    assert_eq!(agent.last("check-failed", "reason"), lacks);
    assert_eq!((agent.count("rejected"), agent.count("sent")), (0, 0), "{}", agent.log());
    agent.stop();

    let agent = nudge(&scene, &[], "", "");
    agent.wait_for("preset-check", 1);
    assert_eq!(agent.last("preset-check", "reason"), lacks);
    assert!(agent.last("preset-check", "hint").contains(page), "{}", agent.log());
    agent.wait_for("applied", 1);
    serves("two");
    agent.stop();

    // The place that the hint names has a check that works.
    let docs = include_str!("../../docs/checks.md");
    let docs = docs.split_once("\n## A part of a configuration\n").unwrap().1;
    let check = docs.lines().find(|line| line.contains("checked.conf")).unwrap();
    let check = check.replace("/etc/nginx/nginx.conf", &main).replace("/conf.d/", "/");
    let agent = nudge(&scene, &[], "", &format!("[[rule.check]]\n{check}"));
    scene.kubelet.write(&site("retrun 1;"));
    agent.wait_for("rejected", 1);
    let reason = agent.last("rejected", "reason");
    assert!(reason.contains("retrun") && reason.contains("{dir}/site.conf"), "{reason}");
    scene.kubelet.write(&good("three"));
    agent.wait_for("applied", 1);
    serves("three");
    assert!(!scene.text("nginx.log").contains("[emerg]"), "nginx never loaded broken content");
}

#[test]
fn the_check_is_not_used_if_it_must_not_be() {
    in_network!();
    let (mut scene, _nginx) = start(&version("one"), "/etc/nginx/nginx.conf");
    let shared = "its container mounts the directory, too";
    let cluster =
        "work-dir = \"FOLDER/work\"\n[cluster]\nurl = \"http://127.0.0.1:1\"\nnamespace = \"web\"";
    let missing = "the program `nginx` does not exist in podnudge's container";
    for (by, agent, rule, reason) in [
        (&[][..], "", "check = \"none\"", None),
        (&[], "", "accept = \"unchecked\"", None),
        (&[], "work-dir = \"/tmp\"", "", Some(shared)),
        (&["env", "PATH=/nowhere"], "", "", Some(missing)),
        (&[], cluster, "", Some("access to the Kubernetes API")),
    ] {
        let agent = nudge(&scene, by, agent, rule);
        if let Some(reason) = reason {
            agent.wait_for("preset-check", 1);
            let said = &agent.events("preset-check")[0];
            assert!(said["reason"].as_str().unwrap().contains(reason), "{said}");
            assert!(!said["hint"].is_null(), "{said}");
        }
        scene.kubelet.write(&broken());
        agent.wait_for("sent", 1);
        scene.kubelet.write(&version("one"));
        agent.wait_for("applied", 1);
        assert_eq!(agent.count("preset-check"), usize::from(reason.is_some()), "{}", agent.log());
        agent.stop();
    }
}
