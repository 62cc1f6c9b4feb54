//! Real applications under load, through the example files that ship: every change is served, no
//! request fails, and what was signalled is the master.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::fleet::Random;
use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::in_namespace;
use crate::support::wait::wait_until;

const CHANGES: usize = 100;

/// A process that ends with its test.
struct Application(Child);

impl Application {
    fn start(program: &str, arguments: &[&str], log: &Path) -> Self {
        let output = fs::File::create(log).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be run: {error}; run ./test"));
        Self(child)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// An empty tmpfs at this path, in this mount namespace only.
fn volume(at: &str) -> Kubelet {
    fs::create_dir_all(at).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs", at]).status().unwrap();
    assert!(mounted.success());
    Kubelet::new(at)
}

/// One request on a connection of its own; the whole answer, or what went wrong.
fn get(address: &str, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| format!("send: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| format!("receive: {error}"))?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(answer) }
}

/// Makes `changes` while two clients send requests, none of which may fail.
fn under_load(address: &str, path: &str, changes: impl FnOnce()) {
    let (stop, sent, failed) =
        (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    sent.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = get(address, path) {
                        failed.lock().unwrap().push(error);
                    }
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(changes));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("{} requests, {} failed", sent.load(Ordering::Relaxed), failed.len());
    assert!(failed.is_empty(), "{} requests failed, such as: {}", failed.len(), failed[0]);
    assert!(sent.into_inner() > 1000, "that was no load");
}

/// podnudge by an example file; only waits that would make the test long are set aside.
fn by_example(folder: &Path, example: &str, quick: &[&str]) -> Agent {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let arguments = ["--config", file.to_str().unwrap(), "--jitter", "0s", "--settle", "20ms"];
    Agent::start(folder, &[arguments.as_slice(), quick].concat())
}

#[test]
fn nginx_serves_every_change_and_only_its_master_is_signalled() {
    in_namespace(|| {
        let address = "127.0.0.1:18080";
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = volume("/etc/nginx/conf.d");
        let site = |version: usize| {
            let server = format!(
                "server {{ listen {address}; location / {{ return 200 \"version {version}.\"; }} }}\n"
            );
            payload(&[("web.conf", &server)])
        };
        kubelet.write(&site(0));
        let main = folder.path().join("nginx.conf");
        let (temporary, log) = (folder.path().display(), folder.path().join("nginx.log"));
        let text = format!(
            "user root;\nworker_processes 2;\ndaemon off;\npid {temporary}/nginx.pid;\nerror_log stderr;\n\
             events {{}}\nhttp {{ access_log off; include /etc/nginx/conf.d/*.conf; }}\n"
        );
        fs::write(&main, text).unwrap();
        let nginx = Application::start("nginx", &["-c", main.to_str().unwrap()], &log);
        wait_until("nginx answers", || get(address, "/").is_ok());
        let quick = ["--min-interval", "0s", "--alive-for", "10ms", "--on-start", "never"];
        let agent = by_example(folder.path(), "nginx.toml", &quick);
        under_load(address, "/", || {
            for version in 1..=CHANGES {
                kubelet.write(&site(version));
                wait_until(&format!("version {version} is served"), || {
                    get(address, "/")
                        .is_ok_and(|answer| answer.ends_with(&format!("version {version}.")))
                });
                agent.wait_for("applied", version);
            }
        });
        assert_eq!(agent.count("sent"), CHANGES);
        let master = format!("{} (nginx)", nginx.0.id());
        assert!(agent.events("sent").iter().all(|event| event["target"] == master.as_str()));
    });
}

/// nginx keeps what it has and says nothing to the sender; that it starts no workers shows it.
#[test]
fn nginx_that_refuses_a_configuration_gives_no_proof() {
    in_namespace(|| {
        let address = "127.0.0.1:18084";
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = volume("/etc/nginx");
        let temporary = folder.path().display();
        let site = |text: &str| {
            let main = format!(
                "user root;\nworker_processes 2;\ndaemon off;\npid {temporary}/nginx.pid;\n\
                 error_log stderr;\nevents {{}}\nhttp {{ access_log off; server {{ \
                 listen {address}; {text} }} }}\n"
            );
            payload(&[("nginx.conf", &main)])
        };
        kubelet.write(&site("return 200 \"version 0.\";"));
        let _nginx = Application::start("nginx", &[], &folder.path().join("nginx.log"));
        wait_until("nginx answers", || get(address, "/").is_ok());
        let file = folder.path().join("podnudge.toml");
        let config = "[[rule]]\nwatch = \"/etc/nginx\"\nsettle = \"0s\"\non-start = \"never\"\n\
                      target = { process = \"nginx\" }\nsignal = { name = \"HUP\" }\n\
                      retry = { attempts = 1 }\n\
                      verify = { children-newer = true, alive-for = \"10ms\", timeout = \"2s\" }\n";
        fs::write(&file, config).unwrap();
        let agent = Agent::start(folder.path(), &["--config", file.to_str().unwrap()]);
        for n in 1..=3 {
            kubelet.write(&site(&format!("retrun {n};")));
            agent.wait_for("gave-up", n);
            let reason = agent.last("gave-up", "reason");
            assert!(reason.ends_with("since the signal; older ones: 2"), "{reason}");
            kubelet.write(&site(&format!("return 200 \"version {n}.\";")));
            agent.wait_for("applied", n);
            wait_until("it is served", || {
                get(address, "/").is_ok_and(|got| got.ends_with(&format!("version {n}.")))
            });
        }
        assert_eq!((agent.count("sent"), agent.count("applied")), (6, 3));
    });
}

/// Good and broken configurations in an order that is drawn: what nginx itself refuses causes no
/// reload, and what comes after it is served at once.
#[test]
fn nginx_never_meets_a_configuration_that_it_would_refuse() {
    const BROKEN: [&str; 4] = [
        "lisen 80;",
        "location / {",
        "ssl_certificate /nowhere/tls.crt;",
        "return 200 \"never ends;",
    ];
    in_namespace(|| {
        let address = "127.0.0.1:18083";
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = volume("/etc/nginx");
        let temporary = folder.path().display();
        let main = format!(
            "user root;\nworker_processes 2;\ndaemon off;\npid {temporary}/nginx.pid;\n\
             error_log stderr;\nevents {{}}\nhttp {{ access_log off; include sites/*.conf; }}\n"
        );
        let site = |version: usize, more: &str| {
            let server = format!(
                "server {{ listen {address}; {more}\nlocation /v {{ return 200 \"version {version}.\"; }} }}\n"
            );
            payload(&[("nginx.conf", &main), ("sites/web.conf", &server)])
        };
        kubelet.write(&site(0, ""));
        let nginx = Application::start("nginx", &[], &folder.path().join("nginx.log"));
        wait_until("nginx answers", || get(address, "/v").is_ok());
        let quick = ["--min-interval", "0s", "--alive-for", "10ms", "--on-start", "never"];
        let agent = by_example(folder.path(), "nginx-checked.toml", &quick);
        let mut random = Random::from_environment();
        let (mut good, mut refused) = (0, 0);
        under_load(address, "/v", || {
            for version in 1..=40 {
                let draw = random.below(std::time::Duration::from_nanos(8)).subsec_nanos() as usize;
                if let Some(broken) = BROKEN.get(draw) {
                    refused += 1;
                    kubelet.write(&site(version, broken));
                    agent.wait_for("rejected", refused);
                    continue;
                }
                good += 1;
                kubelet.write(&site(version, ""));
                agent.wait_for("applied", good);
                wait_until(&format!("version {version} is served"), || {
                    get(address, "/v")
                        .is_ok_and(|got| got.ends_with(&format!("version {version}.")))
                });
            }
        });
        println!("{good} good and {refused} broken configurations");
        assert!(good >= 5 && refused >= 5);
        assert_eq!((agent.count("sent"), agent.count("rejected")), (good, refused));
        assert!(agent.last("rejected", "reason").contains("[emerg]"));
        let log = fs::read_to_string(folder.path().join("nginx.log")).unwrap();
        assert!(!log.contains("[emerg]"), "nginx itself met one: {log}");
        drop(nginx);
    });
}

#[test]
fn prometheus_loads_every_change_and_says_so() {
    in_namespace(|| {
        let address = "127.0.0.1:9090"; // of the example file
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = volume("/etc/prometheus");
        let config = |version: usize| {
            let text = format!("global:\n  external_labels:\n    version: v{version}x\n");
            payload(&[("prometheus.yml", &text)])
        };
        kubelet.write(&config(0));
        let data = format!("--storage.tsdb.path={}", folder.path().join("data").display());
        let arguments = [
            "--config.file=/etc/prometheus/prometheus.yml",
            "--web.enable-lifecycle",
            "--web.listen-address=127.0.0.1:9090",
            &data,
        ];
        let log = folder.path().join("prometheus.log");
        let _prometheus = Application::start("prometheus", &arguments, &log);
        wait_until("Prometheus is ready", || get(address, "/-/ready").is_ok());
        let agent = by_example(folder.path(), "prometheus.toml", &["--on-start", "never"]);
        under_load(address, "/api/v1/query?query=vector(1)", || {
            for version in 1..=CHANGES {
                kubelet.write(&config(version));
                agent.wait_for("applied", version);
                let loaded = get(address, "/api/v1/status/config").unwrap();
                assert!(loaded.contains(&format!("version: v{version}x")), "{loaded}");
            }
        });
        let metrics = get(address, "/metrics").unwrap();
        assert!(metrics.contains("\nprometheus_config_last_reload_successful 1\n"));
        assert_eq!(agent.count("accepted"), CHANGES);
    });
}
