//! caddy, to which podnudge sends the Caddyfile of the content: what it imports, and certificates beside it.

use super::certificates::{pair, presented};
use super::load::get;
use crate::support::{
    Agent, Payload, Scene, in_network, payload, wait_until, wait_until_commit_is_past,
};

const DIR: &str = "/etc/app";
const ADDRESS: &str = "127.0.0.1:8080";
const GLOBAL: &str = "{\n\tadmin 127.0.0.1:2019\n\tauto_https off\n\tskip_install_trust\n}\n";

/// caddy in another working directory than that of its configuration, and podnudge.
fn start(first: &Payload, is_up: &dyn Fn() -> bool) -> (Scene, Agent) {
    let mut scene = Scene::on_tmpfs(DIR, first);
    wait_until_commit_is_past(&scene.kubelet.volume);
    let home = scene.filled("HOME=FOLDER");
    scene.run(&["env", "-C", "/", &home, "caddy", "run", "--config", "/etc/app/Caddyfile"]);
    wait_until("caddy answers", is_up);
    let agent = scene.nudge(&["--process", "caddy", "--on-start", "if-newer"]);
    agent.wait_for("baseline", 1);
    (scene, agent)
}

fn importing(path: &str, version: &str) -> Payload {
    let main = format!("{GLOBAL}import {path}\n");
    let site = format!("http://{ADDRESS} {{\n\trespond {version}\n}}\n");
    payload(&[("Caddyfile", &main), ("site.caddy", &site)])
}

fn shows(version: &str) -> bool {
    get(ADDRESS, "/").is_ok_and(|got| got.ends_with(version))
}

/// caddy would look for it in its working directory, find nothing there, and serve no site at all.
#[test]
fn caddy_is_not_sent_a_relative_import() {
    in_network!();
    let first = importing("*.caddy", "7100");
    let (mut scene, agent) = start(&first, &|| shows("7100"));
    scene.kubelet.write(&importing("*.caddy", "7101"));
    agent.wait_for("applied|gave-up|retrying", 1);
    assert_eq!(agent.count("applied"), 0, "{}", agent.log());
    let log = agent.log();
    assert!(log.contains("`import *.caddy`"), "{log}");
    assert!(log.contains("import /etc/caddy/*.caddy"), "{log}");
    assert!(shows("7100"));
    scene.kubelet.write(&importing("/etc/app/*.caddy", "7102"));
    agent.wait_for("applied", 1);
    wait_until("caddy serves it", || shows("7102"));
}

fn with_certificate(serial: u8) -> Payload {
    let main = format!(
        "{GLOBAL}https://web.example:8443 {{\n\ttls /etc/app/tls.crt /etc/app/tls.key\n\trespond yes\n}}\n"
    );
    let mut content = pair(serial);
    content.extend(payload(&[("Caddyfile", &main)]));
    content
}

/// The Caddyfile is the same, and caddy would not look at the files that it names.
#[test]
fn caddy_serves_a_certificate_that_alone_was_renewed() {
    in_network!();
    let is_up = || presented("web.example") == "07";
    let (mut scene, agent) = start(&with_certificate(7), &is_up);
    scene.kubelet.write(&with_certificate(8));
    agent.wait_for("applied", 1);
    wait_until("caddy presents the new certificate", || presented("web.example") == "08");
    // caddy answers with an error to a broken one.
    let mut broken = with_certificate(9);
    broken.extend(payload(&[("tls.crt", "nothing\n")]));
    scene.kubelet.write(&broken);
    agent.wait_for("applied|gave-up|retrying", 2);
    assert_eq!((agent.count("applied"), presented("web.example").as_str()), (1, "08"));
}
