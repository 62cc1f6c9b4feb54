//! nginx whose certificate is rotated: the serial number that it presents is the proof.

use std::fs;
use std::path::Path;

use crate::support::certificate::Pair;
use crate::support::{
    Agent, Kubelet, Payload, Scene, command, in_network, payload, podnudge, wait_until,
};

const ADDRESS: &str = "127.0.0.1:8443";

fn secret(crt: &str, key: &str) -> Payload {
    payload(&[("tls.crt", crt), ("tls.key", key)])
}

pub(super) fn pair(serial: u8) -> Payload {
    let pair = Pair::ecdsa(&[serial]);
    secret(&pair.crt, &pair.key)
}

/// An RSA pair, and its serial number, by OpenSSL.
pub(super) fn rsa(folder: &Path) -> (Payload, String) {
    let [crt, key] = ["rsa.crt", "rsa.key"].map(|name| folder.join(name));
    let mut openssl = command("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=web.example"]);
    let made = openssl.arg("-out").arg(&crt).arg("-keyout").arg(&key).output();
    assert!(made.expect("openssl can be run; run ./test").status.success());
    let mut openssl = command("openssl");
    let serial = openssl.args(["x509", "-noout", "-serial", "-in"]).arg(&crt).output().unwrap();
    let serial = String::from_utf8(serial.stdout).unwrap();
    let serial = serial.trim().strip_prefix("serial=").unwrap().to_owned();
    let [crt, key] = [crt, key].map(|path| fs::read_to_string(path).unwrap());
    (secret(&crt, &key), serial)
}

/// The serial number of the certificate that is presented for this name, as OpenSSL's client sees it.
pub(super) fn presented(name: &str) -> String {
    let script = format!(
        "openssl s_client -connect {ADDRESS} -servername {name} </dev/null 2>/dev/null \
         | openssl x509 -noout -serial 2>/dev/null"
    );
    let output = command("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().replace("serial=", "")
}

/// A volume with a Secret, and nginx that presents a certificate. `read` is the folder whose certificate nginx reads;
/// `more` is part of its configuration.
fn start(first: &Payload, read: &str, more: &str) -> Scene {
    let mut scene = Scene::of(first);
    for (key, content) in first {
        scene.write(&format!("copy/{key}"), std::str::from_utf8(content).unwrap());
    }
    // nginx starts only with all its files.
    Kubelet::new(scene.path("other")).write(&pair(0x12));
    let text = format!(
        "user root;\nworker_processes 2;\ndaemon off;\npid FOLDER/nginx.pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{ access_log off;\n\
         server {{ listen {ADDRESS} ssl; ssl_certificate FOLDER/{read}/tls.crt;\n\
         ssl_certificate_key FOLDER/{read}/tls.key; }}\n{more}\n}}\n",
    );
    let main = scene.write("nginx.conf", &text);
    scene.run(&["nginx", "-c", &main]);
    wait_until("nginx presents a certificate", || !presented("web.example").is_empty());
    scene
}

fn rule(name: &str, watch: &str, verify: &str) -> String {
    format!(
        "[[rule]]\nname = {name:?}\nwatch = \"FOLDER/{watch}\"\nsettle = \"20ms\"\non-start = \"never\"\n\
         target = {{ process = \"nginx\" }}\nsignal = {{ name = \"HUP\" }}\n\
         retry = {{ attempts = 1 }}\n[[rule.check]]\nsyntax = \"pem\"\n\
         [rule.verify]\ntls = \"{ADDRESS}\"\nalive-for = \"10ms\"\n{verify}\n",
    )
}

#[test]
fn nginx_presents_the_rotated_certificate_and_keeps_it_when_a_bad_one_is_refused() {
    in_network!();
    let mut site = start(&pair(0x11), "volume", "");
    let agent = site.configured(&rule("web", "volume", ""));
    site.kubelet.write(&pair(0x22));
    agent.wait_for("applied", 1);
    assert_eq!(agent.last("applied", "evidence"), "verified");
    assert_eq!(agent.last("certificate-presented", "serial"), "22");
    assert_eq!(agent.last("certificate-presented", "target"), ADDRESS);
    assert_eq!(presented("web.example"), "22");

    let (certificate, other) = (Pair::ecdsa(&[0x33]), Pair::ecdsa(&[0x34]));
    site.kubelet.write(&secret(&certificate.crt, &other.key));
    agent.wait_for("rejected", 1);
    let reason = agent.last("rejected", "reason");
    assert!(reason.contains("does not belong to the certificate in `tls.crt`"), "{reason}");

    let expired = Pair::until(&[0x44], &rcgen::PKCS_ECDSA_P256_SHA256, 2020);
    site.kubelet.write(&secret(&expired.crt, &expired.key));
    agent.wait_for("rejected", 2);
    assert!(agent.last("rejected", "reason").contains("expired at 2020-01-01"));
    assert_eq!((agent.count("sent"), presented("web.example").as_str()), (1, "22"));

    let (rsa, serial) = rsa(site.folder.path());
    site.kubelet.write(&rsa);
    agent.wait_for("applied", 2);
    assert_eq!(presented("web.example"), serial);
    assert_eq!(agent.last("certificate-presented", "serial"), serial);
    // One line for each rollout, however often podnudge looks.
    assert_eq!((agent.count("sent"), agent.count("certificate-presented")), (2, 2));
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
}

/// nginx takes the signal, starts new workers and reads its certificate from elsewhere.
#[test]
fn a_certificate_that_nginx_does_not_read_is_not_proven() {
    in_network!();
    let mut site = start(&pair(0x11), "copy", "");
    let agent = site.configured(&rule("web", "volume", "timeout = \"2s\"\nchildren-newer = true"));
    site.kubelet.write(&pair(0x22));
    agent.wait_for("gave-up", 1);
    let reason = agent.last("gave-up", "reason");
    let wanted = "presents the certificate with the serial number 11, and `tls.crt` has 22";
    assert!(reason.contains(wanted), "{reason}");
    assert_eq!((agent.count("sent"), agent.count("applied")), (1, 0));
    assert_eq!(agent.count("certificate-presented"), 0);
}

#[test]
fn a_published_certificate_that_nginx_does_not_read_is_rolled_back() {
    in_network!();
    let first = pair(0x11);
    let mut site = start(&first, "copy", "");
    let publish = site.path("published");
    fs::create_dir(&publish).unwrap();
    let rule = rule("web", "volume", "timeout = \"2s\"")
        .replace("on-start = \"never\"\n", &format!("publish = {{ dir = {publish:?} }}\n"));
    let file = site.write("podnudge.toml", &rule);
    let once = podnudge().args(["once", "--config", &file]).output().unwrap();
    assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
    let agent = site.configured(&rule);
    site.kubelet.write(&pair(0x22));
    agent.wait_for("rolling-back", 1);
    let reason = agent.last("rolling-back", "reason");
    assert!(reason.contains("serial number 11, and `tls.crt` has 22"), "{reason}");
    agent.wait_for("rolled-back", 1);
    assert_eq!(fs::read(publish.join("tls.crt")).unwrap(), first["tls.crt"]);
    assert_eq!(agent.last("certificate-presented", "serial"), "11");
}

/// TLS 1.2 alone, a demand for a certificate of the client, and two names at one address.
#[test]
fn nginx_with_several_names_and_client_certificates_is_proven_for_each_name() {
    in_network!();
    let more = "ssl_protocols TLSv1.2;\nssl_client_certificate FOLDER/copy/tls.crt;\n\
                ssl_verify_client on;\n\
                server { listen 127.0.0.1:8443 ssl; server_name other.example;\n\
                ssl_certificate FOLDER/other/tls.crt;\n\
                ssl_certificate_key FOLDER/other/tls.key; }";
    let mut site = start(&pair(0x11), "volume", more);
    let mut other = Kubelet::new(site.path("other"));
    assert_eq!([presented("web.example"), presented("other.example")], ["11", "12"]);
    let rules =
        rule("web", "volume", "") + &rule("other", "other", "tls-server-name = \"other.example\"");
    let agent = site.configured(&rules);
    agent.wait_for("baseline", 2);
    other.write(&pair(0x22));
    agent.wait_for("applied", 1);
    assert_eq!(agent.last("applied", "rule"), "other");
    assert_eq!([presented("web.example"), presented("other.example")], ["11", "22"]);
    site.kubelet.write(&pair(0x21));
    agent.wait_for("applied", 2);
    assert_eq!(agent.last("certificate-presented", "serial"), "21");
    assert_eq!([presented("web.example"), presented("other.example")], ["21", "22"]);
}

/// A file of a ConfigMap in the manifest, with the paths of this folder.
fn of_manifest(name: &str) -> String {
    let manifest = include_str!("../../k8s/certificates.yaml");
    let (_, rest) = manifest.split_once(&format!("  {name}: |\n")).unwrap();
    let (text, _) = rest.split_once("\n---\n").unwrap();
    text.replace("/tmp/", "FOLDER/").replace("/etc/tls", "FOLDER/volume")
}

#[test]
fn the_manifest_rotates_the_certificate_of_nginx() {
    in_network!();
    let mut scene = Scene::of(&pair(0x11));
    let nginx_conf = format!("user root;\n{}", of_manifest("nginx.conf")).replace("8443", ADDRESS);
    let main = scene.write("nginx.conf", &nginx_conf);
    scene.run(&["nginx", "-c", &main, "-g", "daemon off;"]);
    wait_until("nginx presents a certificate", || presented("www.example.com") == "11");
    let file = scene.write("podnudge.toml", &of_manifest("podnudge.toml"));
    let quick = ["--jitter", "0s", "--settle", "20ms", "--min-interval", "0s"];
    let agent = Agent::start(scene.folder.path(), &[&["--config", &file], &quick[..]].concat());
    let before = agent.count("applied");
    scene.kubelet.write(&pair(0x22));
    agent.wait_for("applied", before + 1);
    assert_eq!(agent.last("certificate-presented", "serial"), "22");
    assert_eq!(presented("www.example.com"), "22");
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
}
