//! A Java application that reads its keystore when it starts: the manifest for it, as processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::certificates::{pair, presented, rsa};
use crate::support::certificate::Pair;
use crate::support::manifests::{by_name, documents, object, texts};
use crate::support::{
    Agent, Kubelet, Payload, SharedPod, ask, command, in_network, payload, podnudge, wait_until,
};

const NAME: &str = "www.example.com";

/// The manifest, with its paths below a folder.
struct Manifest {
    documents: Vec<Value>,
    at: String,
}

impl Manifest {
    fn below(folder: &Path) -> Self {
        let documents = documents(include_str!("../../k8s/certificates-java.yaml"));
        Self { documents, at: folder.display().to_string() }
    }

    fn here(&self, text: &str) -> String {
        // The installed file is mounted there by its subPath.
        let text = text.replace("/usr/local/bin/podnudge", "/opt/podnudge/podnudge");
        ["/etc/", "/opt/"]
            .iter()
            .fold(text, |text, path| text.replace(path, &format!("{}{path}", self.at)))
    }

    /// A file of a ConfigMap or Secret.
    fn file(&self, kind: &str, name: &str, key: &str) -> String {
        let object = object(&self.documents, kind, name);
        let data = if kind == "Secret" { &object["stringData"] } else { &object["data"] };
        self.here(data[key].as_str().unwrap())
    }

    /// Its command and arguments, as the user of the pod, without capabilities.
    fn start(&self, mut by: Command, list: &str, container: &str) -> Command {
        let pod = &object(&self.documents, "Deployment", "keystore")["spec"]["template"]["spec"];
        let user = pod["securityContext"]["runAsUser"].as_str().unwrap();
        by.arg("setpriv").args(["--no-new-privs", "--clear-groups", "--bounding-set=-all"]);
        by.args(["--reuid", user, "--regid", user]);
        let containers = by_name(&pod[list], "name");
        let (_, container) = containers.iter().find(|(name, _)| *name == container).unwrap();
        let words = match &container["command"] {
            Value::Null => vec![podnudge().get_program().to_str().unwrap().to_owned()],
            command => texts(command),
        };
        let arguments = container.get("args").map(texts).unwrap_or_default();
        by.args(words.iter().chain(&arguments).map(|word| self.here(word)));
        by
    }
}

/// The Secret, with the keystore that cert-manager adds: OpenSSL encrypts it like the profile `Modern2023`.
fn with_keystore(mut secret: Payload, password: &str, folder: &Path) -> Payload {
    let [crt, key, store] = ["tls.crt", "tls.key", "keystore.p12"].map(|name| folder.join(name));
    fs::write(&crt, &secret["tls.crt"]).unwrap();
    fs::write(&key, &secret["tls.key"]).unwrap();
    let mut openssl = command("openssl");
    openssl.args(["pkcs12", "-export", "-passout", &format!("pass:{password}"), "-in"]);
    let made = openssl.arg(&crt).arg("-inkey").arg(&key).arg("-out").arg(&store).output();
    let made = made.expect("openssl can be run; run ./test");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    secret.insert("keystore.p12".to_owned(), fs::read(store).unwrap());
    secret
}

#[test]
fn a_java_application_presents_the_rotated_certificate_of_its_keystore() {
    in_network!();
    let found = command("javac").arg("--version").output();
    assert!(found.is_ok_and(|output| output.status.success()), "javac is missing; run ./test");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    let manifest = Manifest::below(at);
    assert_eq!(
        object(&manifest.documents, "Certificate", "keystore-web")["spec"]["keystores"]["pkcs12"]["profile"],
        "Modern2023"
    );
    let password = manifest.file("Secret", "keystore-password", "password");
    let keystore = |secret| with_keystore(secret, &password, at);
    let volume = |path: &str, content: &Payload| {
        let mut kubelet = Kubelet::new(at.join(path));
        kubelet.write(content);
        kubelet
    };
    let server = manifest.file("ConfigMap", "keystore-app", "Server.java");
    volume("etc/app", &payload(&[("Server.java", &server)]));
    let settings = manifest.file("ConfigMap", "keystore-podnudge", "podnudge.toml");
    volume("etc/podnudge", &payload(&[("podnudge.toml", &settings)]));
    let mut tls = volume("etc/tls", &keystore(pair(0x11)));
    fs::create_dir_all(at.join("opt/podnudge")).unwrap();
    fs::set_permissions(at.join("opt/podnudge"), fs::Permissions::from_mode(0o777)).unwrap();

    let pod = SharedPod::start(at);
    let install = manifest.start(pod.container('c'), "initContainers", "podnudge-install");
    assert!({ install }.status().unwrap().success());
    let mut start = manifest.start(pod.container('a'), "containers", "app");
    let log = fs::File::create(at.join("java.log")).unwrap();
    let mut application = start.env("KEYSTORE_PASSWORD", &password).stderr(log).spawn().unwrap();
    let log = || fs::read_to_string(at.join("java.log")).unwrap();
    wait_until("the application presents its certificate", || {
        assert!(application.try_wait().unwrap().is_none(), "{}", log());
        presented(NAME) == "11"
    });

    let mut start = manifest.start(pod.container('b'), "containers", "podnudge");
    // Only its delays are left out.
    start.args(["--jitter", "0s", "--settle", "20ms", "--min-interval", "0s"]);
    let agent = Agent::spawn(at, start);
    agent.wait_for("baseline|fresh|applied", 1);
    let (applied, restarts) = (agent.count("applied"), agent.count("restarted"));
    let outcomes = || (agent.count("applied") - applied, agent.count("restarted") - restarts);

    tls.write(&keystore(pair(0x22)));
    agent.wait_for("applied", applied + 1);
    assert_eq!(agent.last("applied", "evidence"), "verified");
    assert_eq!(agent.last("certificate-presented", "serial"), "22");
    assert_eq!(presented(NAME), "22");

    // A key of another certificate, and a Secret without the keystore.
    let mut mismatched = keystore(pair(0x33));
    mismatched.extend(payload(&[("tls.key", &Pair::ecdsa(&[0x34]).key)]));
    tls.write(&mismatched);
    agent.wait_for("rejected", 1);
    let reason = agent.last("rejected", "reason");
    assert!(reason.contains("does not belong to the certificate in `tls.crt`"), "{reason}");
    tls.write(&pair(0x44));
    agent.wait_for("rejected", 2);
    assert!(agent.last("rejected", "reason").contains("keystore.p12"), "{}", agent.log());
    assert_eq!((presented(NAME).as_str(), outcomes()), ("22", (1, 1)));

    // The kind of key of the manifest.
    let (secret, serial) = rsa(at);
    tls.write(&keystore(secret));
    agent.wait_for("applied", applied + 2);
    assert_eq!(presented(NAME), serial);
    assert_eq!(agent.last("certificate-presented", "serial"), serial);
    assert_eq!(outcomes(), (2, 2));
    let metrics = ask("127.0.0.1:9533", "GET", "/metrics");
    let expiry = "podnudge_certificate_expiry_timestamp_seconds{";
    assert!(metrics.contains(expiry), "{metrics}");
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
    // `podnudge supervise` says what it has restarted; the application itself says nothing.
    let lines = log().lines().filter(|line| line.contains("restart requested")).count();
    assert_eq!(lines, 2, "{}", log());
    drop(pod);
    application.wait().unwrap();
}
