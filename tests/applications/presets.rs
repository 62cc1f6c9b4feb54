//! Real applications with podnudge's presets: one option is the whole configuration. A good change is
//! in force, with the evidence that the preset promises. A broken one is never reported as in sync.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::plain::Application;
use crate::support::agent::Agent;
use crate::support::http::ask;
use crate::support::kubelet::{Kubelet, Payload, payload};
use crate::support::pod::in_network;
use crate::support::program::{command, podnudge};
use crate::support::wait::{is_within, wait_until};
use podnudge::config::preset;

/// An application, and how to see which version of its configuration it runs.
struct Subject {
    preset: &'static str,
    /// The name of its process.
    process: &'static str,
    /// In its arguments and in its configuration, `{dir}` is the volume, and `{run}` another directory.
    command: &'static [&'static str],
    /// The key, and its content with `{version}`.
    file: (&'static str, &'static str),
    /// Files that are not part of the volume.
    others: &'static [(&'static str, &'static str)],
    /// A line that makes the configuration invalid.
    fault: &'static str,
    seen: Seen,
}

/// Where the version is visible.
enum Seen {
    /// In the answer to this request on this port.
    Http(u16, &'static str),
    /// In what the server at this port sends first.
    Banner(u16),
    /// In the answer to the DNS query for the server's version.
    Dns(u16),
    /// In the title of a process.
    Title,
}

/// A query for `version.bind`, class CHAOS, type TXT (RFC 4892).
const VERSION_BIND: &[u8] =
    b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07version\x04bind\x00\x00\x10\x00\x03";

impl Subject {
    fn command(&self, folder: &Path) -> Vec<String> {
        self.command.iter().map(|argument| filled(argument, folder, "")).collect()
    }

    fn content(&self, folder: &Path, version: &str, fault: &str) -> Payload {
        let (key, text) = self.file;
        payload(&[(key, &(filled(text, folder, version) + fault + "\n"))])
    }

    /// Whether the application shows this version.
    fn shows(&self, version: &str) -> bool {
        let answer = match self.seen {
            Seen::Http(port, path) => http(port, path),
            Seen::Banner(port) => banner(port),
            Seen::Dns(port) => dns(port),
            Seen::Title => titles(),
        };
        answer.is_some_and(|answer| answer.contains(version))
    }
}

fn filled(text: &str, folder: &Path, version: &str) -> String {
    let (dir, run) = (folder.join("volume"), folder.join("run"));
    text.replace("{dir}", dir.to_str().unwrap())
        .replace("{run}", run.to_str().unwrap())
        .replace("{version}", version)
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    Some(stream)
}

/// The whole answer; an error page counts, too.
fn http(port: u16, path: &str) -> Option<String> {
    let mut stream = connect(port)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    Some(String::from_utf8_lossy(&answer).into_owned())
}

fn banner(port: u16) -> Option<String> {
    let mut bytes = [0; 200];
    let count = connect(port)?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

pub(super) fn dns(port: u16) -> Option<String> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.send_to(VERSION_BIND, ("127.0.0.1", port)).ok()?;
    let mut bytes = [0; 512];
    let count = socket.recv(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

fn titles() -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let title = |process: fs::DirEntry| fs::read_to_string(process.path().join("cmdline")).ok();
    Some(processes.filter_map(title).collect())
}

/// The application of a subject with podnudge beside it.
struct Scene {
    folder: tempfile::TempDir,
    kubelet: Kubelet,
    application: Application,
    agent: Agent,
}

impl Scene {
    fn new(subject: &Subject) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        // Some applications change to an unprivileged user.
        command("chmod").args(["-R", "a+rwx"]).arg(at).status().unwrap();
        let run = at.join("run");
        fs::create_dir(&run).unwrap();
        command("chmod").arg("a+rwx").arg(&run).status().unwrap();
        for (name, text) in subject.others {
            fs::write(run.join(name), filled(text, at, "")).unwrap();
        }
        let mut kubelet = Kubelet::new(at.join("volume"));
        kubelet.write(&subject.content(at, "7100", ""));
        let arguments = subject.command(at);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = at.join("application.log");
        let application = Application::start(arguments[0], &arguments[1..], &log);
        let is_up = is_within(Duration::from_secs(20), || subject.shows("7100"));
        assert!(is_up, "{}", fs::read_to_string(&log).unwrap());
        let mut command = podnudge();
        command.args(["--log", "json", "--listen", "127.0.0.1:0", "--settle", "20ms"]);
        command.args(["--on-start", "never", "--process", subject.process]);
        command.arg("--watch").arg(at.join("volume"));
        let agent = Agent::spawn(at, command);
        agent.wait_for("preset", 1);
        agent.wait_for("baseline", 1);
        Self { folder, kubelet, application, agent }
    }

    fn write(&mut self, subject: &Subject, version: &str, fault: &str) {
        self.kubelet.write(&subject.content(self.folder.path(), version, fault));
    }

    /// The status of the only rule.
    fn status(&self) -> Value {
        let answer = ask(&self.agent.last("started", "listen"), "GET", "/status");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: Value = serde_json::from_str(body).unwrap();
        status["rules"][0].clone()
    }

    fn logs(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("application.log")).unwrap();
        format!("{}\n{log}", self.agent.log())
    }
}

/// Three good changes, and then a broken one.
fn is_reloaded_and_never_falsely_in_sync(subject: &Subject) {
    let known = preset(subject.preset).unwrap();
    let mut scene = Scene::new(subject);
    for version in ["7101", "7102", "7103"] {
        let before = scene.status()["digest_on_disk"].clone();
        scene.write(subject, version, "");
        let is_known = || {
            let status = scene.status();
            status["digest_on_disk"] != before && status["evidence"] == known.evidence.as_str()
        };
        assert!(is_within(Duration::from_secs(20), is_known), "{}", scene.logs());
        let wanted = if known.evidence == "delivered" { "unknown" } else { "yes" };
        assert_eq!(scene.status()["in_sync"], wanted);
        wait_until(&format!("{version} is in force"), || subject.shows(version));
    }
    let before = scene.status()["digest_on_disk"].clone();
    scene.write(subject, "7104", subject.fault);
    wait_until("podnudge has seen the change", || scene.status()["digest_on_disk"] != before);
    let claims = || scene.status()["in_sync"] == "yes";
    assert!(!is_within(Duration::from_secs(4), claims), "{}", scene.logs());
    assert!(!subject.shows("7104"), "{}", scene.logs());
    let has_ended = scene.application.0.try_wait().unwrap().is_some();
    assert_eq!(has_ended, known.ends, "{}", scene.logs());
    if known.ends {
        assert_eq!(scene.agent.count("tripped"), 1, "{}", scene.logs());
        let warned = scene.agent.events("preflight");
        assert!(warned.iter().any(|warning| warning["problem"] == "unchecked"), "{warned:?}");
    }
}

macro_rules! subjects {
    ($($test:ident: $subject:expr;)+) => {
        $(
            #[test]
            fn $test() {
                in_network(|| is_reloaded_and_never_falsely_in_sync(&$subject));
            }
        )+
    };
}

subjects! {
    nginx: Subject {
        preset: "nginx",
        process: "nginx",
        command: &["nginx", "-c", "{dir}/nginx.conf"],
        file: ("nginx.conf", "daemon off; user root; worker_processes 2; pid {run}/pid;\nerror_log stderr; events {}\nhttp { access_log off; server { listen 127.0.0.1:8080; location / { return 200 {version}; } } }\n"),
        others: &[],
        fault: "lisen 80;",
        seen: Seen::Http(8080, "/"),
    };
    haproxy: Subject {
        preset: "haproxy",
        process: "haproxy",
        command: &["haproxy", "-W", "-db", "-f", "{dir}/haproxy.cfg"],
        file: ("haproxy.cfg", "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\nfrontend web\n bind 127.0.0.1:8080\n http-request return status 200 content-type text/plain string {version}\n"),
        others: &[],
        fault: "bogus keyword",
        seen: Seen::Http(8080, "/"),
    };
    apache: Subject {
        preset: "apache",
        process: "apache2",
        command: &["apache2", "-d", "{run}", "-f", "{dir}/apache2.conf", "-DFOREGROUND"],
        file: ("apache2.conf", "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\nLoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\nLoadModule headers_module /usr/lib/apache2/modules/mod_headers.so\nServerName localhost\nListen 127.0.0.1:8080\nUser www-data\nGroup www-data\nPidFile {run}/pid\nDefaultRuntimeDir {run}\nErrorLog /dev/stderr\nDocumentRoot {run}\nHeader always set X-Version {version}\n"),
        others: &[],
        fault: "Lisen 8081",
        seen: Seen::Http(8080, "/"),
    };
    prometheus: Subject {
        preset: "prometheus",
        process: "prometheus",
        command: &["prometheus", "--config.file={dir}/prometheus.yml", "--storage.tsdb.path={run}/data", "--web.listen-address=127.0.0.1:9090", "--web.enable-lifecycle"],
        file: ("prometheus.yml", "global:\n  external_labels:\n    version: \"{version}\"\n"),
        others: &[],
        fault: "nothing: {",
        seen: Seen::Http(9090, "/api/v1/status/config"),
    };
    blackbox_exporter: Subject {
        preset: "blackbox-exporter",
        process: "prometheus-blackbox-exporter",
        command: &["prometheus-blackbox-exporter", "--config.file={dir}/blackbox.yml", "--web.listen-address=127.0.0.1:9115"],
        file: ("blackbox.yml", "modules:\n  \"{version}\":\n    prober: tcp\n"),
        others: &[],
        fault: "nothing: {",
        seen: Seen::Http(9115, "/config"),
    };
    nats: Subject {
        preset: "nats",
        process: "nats-server",
        command: &["nats-server", "-c", "{dir}/nats.conf"],
        file: ("nats.conf", "listen: 127.0.0.1:4222\nhttp: 127.0.0.1:8222\nmax_connections: {version}\n"),
        others: &[],
        fault: "listen: {",
        seen: Seen::Http(8222, "/varz"),
    };
    bind9: Subject {
        preset: "bind9",
        process: "named",
        command: &["named", "-f", "-u", "root", "-c", "{dir}/named.conf"],
        file: ("named.conf", "options { directory \"{run}\"; pid-file \"{run}/pid\"; session-keyfile \"{run}/key\"; listen-on port 5353 { 127.0.0.1; }; listen-on-v6 { none; }; version \"{version}\"; recursion no; };\ncontrols { };\n"),
        others: &[],
        fault: "nothing here;",
        seen: Seen::Dns(5353),
    };
    unbound: Subject {
        preset: "unbound",
        process: "unbound",
        command: &["unbound", "-d", "-c", "{dir}/unbound.conf"],
        file: ("unbound.conf", "server:\n  interface: 127.0.0.1\n  port: 5353\n  version: \"{version}\"\n  use-syslog: no\n  do-daemonize: no\n  chroot: \"\"\n  username: \"\"\n  directory: \"{run}\"\n  pidfile: \"{run}/pid\"\n  module-config: \"iterator\"\n"),
        others: &[],
        fault: "nothing here",
        seen: Seen::Dns(5353),
    };
    squid: Subject {
        preset: "squid",
        process: "squid",
        command: &["squid", "-N", "-f", "{dir}/squid.conf"],
        file: ("squid.conf", "http_port 127.0.0.1:3128\nvisible_hostname {version}\npid_filename {run}/pid\ncache_log {run}/cache.log\naccess_log none\ncoredump_dir {run}\nhttp_access deny all\nshutdown_lifetime 1 second\n"),
        others: &[],
        fault: "acl nothing",
        seen: Seen::Http(3128, "http://127.0.0.1/"),
    };
    lighttpd: Subject {
        preset: "lighttpd",
        process: "lighttpd",
        command: &["lighttpd", "-D", "-f", "{dir}/lighttpd.conf"],
        file: ("lighttpd.conf", "server.document-root = \"{run}\"\nserver.port = 8080\nserver.bind = \"127.0.0.1\"\nserver.tag = \"{version}\"\n"),
        others: &[],
        fault: "server.port = ",
        seen: Seen::Http(8080, "/"),
    };
    gunicorn: Subject {
        preset: "gunicorn",
        process: "gunicorn",
        command: &["env", "PYTHONDONTWRITEBYTECODE=1", "gunicorn", "-c", "{dir}/gunicorn.conf.py", "--chdir", "{run}", "-b", "127.0.0.1:8000", "app:app"],
        file: ("gunicorn.conf.py", "raw_env = ['VERSION={version}']\n"),
        others: &[("app.py", "import os\ndef app(environ, start):\n    start('200 OK', [])\n    return [os.environ['VERSION'].encode()]\n")],
        fault: "nothing here",
        seen: Seen::Http(8000, "/"),
    };
    php_fpm: Subject {
        preset: "php-fpm",
        process: "php-fpm8.2",
        command: &["php-fpm8.2", "-F", "-O", "-R", "-y", "{dir}/php-fpm.conf"],
        file: ("php-fpm.conf", "[global]\nerror_log = /dev/stderr\n[{version}]\nuser = root\ngroup = root\nlisten = {run}/php.sock\npm = static\npm.max_children = 2\n"),
        others: &[],
        fault: "nothing = here",
        seen: Seen::Title,
    };
    sshd: Subject {
        preset: "sshd",
        process: "sshd",
        command: &["sh", "-c", "mkdir -p /run/sshd; ssh-keygen -q -N '' -f {run}/key; exec /usr/sbin/sshd -D -e -f {dir}/sshd_config"],
        file: ("sshd_config", "ListenAddress 127.0.0.1\nPort 2222\nHostKey {run}/key\nPidFile {run}/pid\nVersionAddendum {version}\n"),
        others: &[],
        fault: "Nothing here",
        seen: Seen::Banner(2222),
    };
}
