//! The preflight: mistakes in the pod's spec or in the configuration are reported at the start, before
//! the first change, and `podnudge doctor` finds the same.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::http::{answering, ask, request, requests, respond};
use crate::support::kubelet::{Kubelet, payload};
use crate::support::memory::MemoryLimit;
use crate::support::pod::{Behaviour, Target, in_namespace, in_network};
use crate::support::program::{command, podnudge};
use crate::support::wait::{is_within, wait_until, wait_until_commit_is_past};

/// A mistake is reported within this time of the start.
const AT_START: Duration = Duration::from_secs(2);

/// A mistake in the configuration, or in what it refers to.
struct Mistake {
    /// The settings of the rule besides `watch`; `FOLDER` is the folder of the scene. With
    /// `watch = …`, that, too.
    settings: &'static str,
    /// The kind of the problem.
    problem: &'static str,
    /// Parts of its reason and hint.
    parts: &'static [&'static str],
    /// Corrects what the settings refer to.
    fix: Option<fn(&Path)>,
}

const ABOUT_TARGETS: &[Mistake] = &[
    Mistake {
        settings: "target = { process = \"ngnix\" }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["target not found: no process named `ngnix`", "did you mean `nginx`?"],
        fix: Some(|folder| {
            // It runs until the end of the namespace.
            std::mem::forget(Target::start(folder, "ngnix", Behaviour::Handles));
        }),
    },
    Mistake {
        settings: "target = { process = \"nginx\", uid = 101 }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["no process named `nginx` of uid 101", "nginx, uid 0"],
        fix: None,
    },
    Mistake {
        settings: "target = { exe = \"/usr/sbin/nginx\" }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["no process runs `/usr/sbin/nginx`"],
        fix: None,
    },
    Mistake {
        settings: "target = { cmdline = \"^nginx: master\" }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["no process has arguments that match `^nginx: master`"],
        fix: None,
    },
    Mistake {
        settings: "target = { pidfile = \"FOLDER/nginx.pid\" }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["there is no pidfile", "mount the directory"],
        fix: None,
    },
    Mistake {
        settings: "target = { pidfile = \"FOLDER/left-over\" }\nsignal = { name = \"HUP\" }",
        problem: "target-not-found",
        parts: &["no process has the pid 4000000", "left over"],
        fix: None,
    },
    Mistake {
        settings: "target = { pidfile = \"FOLDER/no-pid\" }\nsignal = { name = \"HUP\" }",
        problem: "target-unsupported",
        parts: &["/no-pid` contains no pid"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"ignores\" }\nsignal = { name = \"HUP\" }",
        problem: "signal-not-handled",
        parts: &["ignores SIGHUP", "signal on which"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"default\" }\nsignal = { name = \"HUP\" }",
        problem: "signal-not-handled",
        parts: &["does not handle SIGHUP", "it would end"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"twice\" }\nsignal = { name = \"HUP\" }",
        problem: "target-ambiguous",
        parts: &["several processes match", "all = true"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"java\" }\nsignal = { name = \"HUP\" }",
        problem: "signal-not-handled",
        parts: &["a Java virtual machine, which shuts down on SIGHUP", "/actuator/refresh"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"java\" }\nsignal = { name = \"USR2\" }",
        problem: "signal-not-handled",
        parts: &["SIGUSR2"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"node\" }\nsignal = { name = \"USR1\" }",
        problem: "signal-not-handled",
        parts: &["Node.js, which starts its debugger on SIGUSR1"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"caddy\" }\nverify = { alive-for = \"2s\" }",
        problem: "no-preset",
        parts: &["the preset `caddy` does not fit: ", "--preset caddy"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"dnsmasq\" }\nsignal = { name = \"HUP\" }",
        problem: "signal-does-not-reload",
        parts: &["does not reload on SIGHUP", "--preset dnsmasq"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"gunicorn\" }",
        problem: "unchecked",
        parts: &["a broken configuration ends `gunicorn`", "--check-exec"],
        fix: None,
    },
    Mistake {
        settings: "target = { process = \"myapp\" }",
        problem: "no-preset",
        parts: &["how `myapp` reloads", "`--signal HUP`"],
        fix: None,
    },
];

const ABOUT_ADDRESSES: &[Mistake] = &[
    Mistake {
        settings: "http = { url = \"http://127.0.0.1:81/reload\" }",
        problem: "unreachable",
        parts: &["cannot connect to `127.0.0.1:81`", "refused", "check the port"],
        fix: Some(|_| start_server(81)),
    },
    Mistake {
        settings: "http = { url = \"http://nowhere.invalid/reload\" }",
        problem: "unreachable",
        parts: &["cannot connect to `nowhere.invalid:80`"],
        fix: None,
    },
    Mistake {
        settings: "http = { url = \"http://localhost/\", unix-socket = \"FOLDER/http.sock\" }",
        problem: "unreachable",
        parts: &["http.sock", "in a volume that both containers mount"],
        fix: Some(|folder| {
            std::mem::forget(UnixListener::bind(folder.join("http.sock")).unwrap());
        }),
    },
    Mistake {
        settings: "command = { socket = \"FOLDER/dead.sock\", send = \"reload\\n\", answer-matches = \"ok\" }",
        problem: "unreachable",
        parts: &["dead.sock", "no process listens there"],
        fix: None,
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\n[rule.verify]\nhttp = \"http://127.0.0.1:82/\"",
        problem: "unreachable",
        parts: &["cannot connect to `127.0.0.1:82`"],
        fix: Some(|_| start_server(82)),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\n[rule.verify]\nhttp = \"http://127.0.0.1/metrics\"\nmetric-grew = \"config_reload\"",
        problem: "proof-unreadable",
        parts: &["a proof cannot be read", "config_reload"],
        fix: None,
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\n[[rule.check]]\nhttp = \"http://127.0.0.1:83/check\"",
        problem: "unreachable",
        parts: &["cannot connect to `127.0.0.1:83`"],
        fix: Some(|_| start_server(83)),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\", bearer-file = \"FOLDER/token\" }",
        problem: "file-missing",
        parts: &["/token` does not exist", "mount the volume"],
        fix: Some(|folder| fs::write(folder.join("token"), "hunter2").unwrap()),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\", body-file = \"{dir}/body\" }",
        problem: "file-missing",
        parts: &["has no key `body` to send as the body of the request", "`{dir}/NAME`"],
        fix: Some(|folder| fs::write(folder.join("volume/body"), "").unwrap()),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\n[[rule.check]]\nexec = [\"nginxx\", \"-t\"]",
        problem: "program-missing",
        parts: &["`nginxx` does not exist in podnudge's container", "podnudge install"],
        fix: None,
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\n[[rule.check]]\nexec = [\"FOLDER/not-executable\"]",
        problem: "program-missing",
        parts: &["or is not executable"],
        fix: Some(|folder| write_program(&folder.join("not-executable"))),
    },
    Mistake {
        settings: "exec = { argv = [\"FOLDER/reload\"] }",
        problem: "program-missing",
        parts: &["/reload` does not exist"],
        fix: Some(|folder| write_program(&folder.join("reload"))),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\nverify = { exec = [\"FOLDER/proof\"] }",
        problem: "program-missing",
        parts: &["/proof` does not exist"],
        fix: Some(|folder| write_program(&folder.join("proof"))),
    },
    Mistake {
        settings: "http = { url = \"http://127.0.0.1/\" }\nonly = \"*.cfg\"",
        problem: "no-keys",
        parts: &["no key of the volumes counts", "`*.conf`"],
        fix: None,
    },
];

const ABOUT_MOUNTS: &[Mistake] = &[
    Mistake {
        settings: "watch = \"FOLDER/memory\"\nsignal = { name = \"HUP\" }\ntarget = { process = \"blind\" }",
        problem: "not-mounted",
        parts: &["(blind) does not mount the watched volume", "mount the same volume"],
        fix: None,
    },
    Mistake {
        settings: "watch = \"FOLDER/sub\"\nsignal = { name = \"HUP\" }\ntarget = { process = \"haproxy\" }",
        problem: "subpath",
        parts: &["/sub` is mounted with subPath", "without subPath"],
        fix: None,
    },
    Mistake {
        settings: "watch = \"FOLDER/parent\"\nsignal = { name = \"HUP\" }\ntarget = { process = \"haproxy\" }",
        problem: "subpath",
        parts: &["/parent/sub` is mounted with subPath"],
        fix: None,
    },
    Mistake {
        settings: "signal = { name = \"HUP\" }\ntarget = { process = \"nginx\" }",
        problem: "subpath",
        parts: &["(nginx) mounts the volume by subPath at `", "without subPath"],
        fix: None,
    },
    Mistake {
        settings: "watch = [\"FOLDER/memory\", \"FOLDER/volume\"]\nsignal = { name = \"HUP\" }\ntarget = { process = \"nginx\" }",
        problem: "subpath",
        parts: &["(nginx) mounts the volume by subPath at `", "without subPath"],
        fix: None,
    },
    Mistake {
        settings: "signal = { name = \"HUP\" }\n[rule.target]\nprocess = \"haproxy\"\n[rule.publish]\ndir = \"FOLDER/published\"\nrollback = false",
        problem: "not-published",
        parts: &["(haproxy) does not mount `", "an emptyDir"],
        fix: None,
    },
];

/// The folder of the scene, with the volume `volume`.
fn scene() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    kubelet.write(&payload(&[("a.conf", "1")]));
    folder
}

/// Writes a configuration with these settings, and returns its path.
fn configuration(folder: &Path, number: usize, settings: &str) -> PathBuf {
    let watch = "watch = \"FOLDER/volume\"\n";
    let watch = if settings.contains("watch = ") { "" } else { watch };
    // Where podnudge publishes, it fills the directory at its start.
    let on_start = if settings.contains("publish") { "" } else { "on-start = \"never\"\n" };
    let text = format!(
        "agent = {{ resync = \"1s\", work-dir = \"FOLDER/work\" }}\n\
         [[rule]]\nname = \"web\"\n{on_start}{watch}{settings}\n"
    );
    let file = folder.join(format!("{number}.toml"));
    fs::write(&file, text.replace("FOLDER", folder.to_str().unwrap())).unwrap();
    file
}

/// podnudge with this configuration, started by another program or by itself.
fn start(folder: &Path, mut command: Command, file: &Path) -> Agent {
    command.args(["run", "--log", "json", "--listen", "127.0.0.1:0", "--config"]).arg(file);
    let agent = Agent::spawn(folder, command);
    agent.wait_for("started", 1);
    agent
}

/// Each mistake is reported within 2 s of the start: one warning, a metric and a line of the status.
/// None is repeated, and no other problem is found. Once fixed, it is reported as solved. The doctor
/// finds the same.
fn assert_reported(folder: &Path, by: impl Fn() -> Command, mistakes: &[Mistake]) {
    let mut agents = Vec::new();
    for (number, mistake) in mistakes.iter().enumerate() {
        let file = configuration(folder, number, mistake.settings);
        let agent = start(folder, by(), &file);
        agent.wait_for("preflight", 1);
        assert_in_time(&agent, mistake);
        assert_diagnosed(by(), &file, mistake);
        agents.push(agent);
    }
    // At least two resyncs find each again.
    let is_repeated = || agents.iter().any(|agent| agent.count("preflight|preflight-solved") > 1);
    let is_repeated = is_within(Duration::from_secs(3), is_repeated);
    for (agent, mistake) in agents.iter().zip(mistakes) {
        let events = agent.events("preflight|preflight-solved");
        assert!(!is_repeated || events.len() == 1, "{}: {events:?}", mistake.settings);
    }
    for (agent, mistake) in agents.iter().zip(mistakes) {
        if let Some(fix) = mistake.fix {
            fix(folder);
            wait_until(&format!("`{}` is solved", mistake.settings), || {
                agent.count("preflight-solved") == 1
            });
            assert_eq!(agent.count("preflight"), 1, "{}", agent.log());
        }
    }
}

fn assert_in_time(agent: &Agent, mistake: &Mistake) {
    let Mistake { settings, problem, parts, .. } = mistake;
    assert_eq!(agent.last("preflight", "problem"), *problem, "{settings}");
    let explanation = agent.last("preflight", "reason") + "; " + &agent.last("preflight", "hint");
    for part in *parts {
        assert!(explanation.contains(part), "`{part}` is not in: {explanation}");
    }
    let time =
        |event: &str| -> humantime::Timestamp { agent.last(event, "timestamp").parse().unwrap() };
    let after = time("preflight").duration_since(*time("started")).unwrap();
    assert!(after <= AT_START, "{settings}: after {after:?}");
    let address = agent.last("started", "listen");
    let metric = format!("podnudge_preflight_problem{{rule=\"web\",problem=\"{problem}\"}} 1");
    assert!(ask(&address, "GET", "/metrics").contains(&metric));
    let url = format!("http://{address}");
    let output = podnudge().args(["status", "--url", &url]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("\n  problem: "), "{table}");
    let answer = ask(&address, "GET", "/status");
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_ne!(status["rules"][0]["in_sync"], "yes", "{settings}");
}

/// `podnudge doctor` finds this problem only.
fn assert_diagnosed(mut doctor: Command, file: &Path, mistake: &Mistake) {
    let output = doctor
        .args(["doctor", "--json", "--listen", "off", "--config"])
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["problems"], serde_json::json!([]));
    let problems = findings["rules"][0]["problems"].as_array().unwrap();
    let kinds: Vec<&Value> = problems.iter().map(|problem| &problem["problem"]).collect();
    assert_eq!(kinds, [mistake.problem], "{findings:#}");
}

/// Waits until a process is older than 10 s: a younger one may still install its handler.
fn wait_until_old(target: &Target) {
    let process = Path::new("/proc").join(target.pid().to_string());
    let is_old = || process.metadata().unwrap().modified().unwrap().elapsed().unwrap();
    wait_until("the targets are old enough", || is_old() > Duration::from_secs(11));
}

#[test]
fn mistakes_about_the_target_are_reported_at_the_start() {
    in_namespace(|| {
        let folder = scene();
        let folder = folder.path();
        let start_target = |name: &str, does: Behaviour| Target::start(folder, name, does);
        let _ignores = Target::start_by(folder, "ignores", Behaviour::Ignores, |program| {
            let mut shell = command("sh");
            shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(program);
            shell
        });
        let _running = ["nginx", "java", "caddy", "dnsmasq", "gunicorn", "myapp", "twice", "twice"]
            .map(|name| start_target(name, Behaviour::Handles));
        let _node = start_target("node", Behaviour::Default);
        let default = start_target("default", Behaviour::Default);
        fs::write(folder.join("left-over"), "4000000").unwrap();
        fs::write(folder.join("no-pid"), "nginx").unwrap();
        wait_until_old(&default);
        assert_reported(folder, podnudge, ABOUT_TARGETS);
        // Nothing is wrong, or what is wrong is wanted.
        let right = [
            "target = { process = \"nginx\" }",
            "target = { process = \"dnsmasq\" }\nsignal = { name = \"HUP\" }\naccept = [\"signal-does-not-reload\"]",
            "target = { process = \"gunicorn\" }\naccept = \"unchecked\"",
        ];
        let agents = right.iter().enumerate().map(|(number, settings)| {
            let file = configuration(folder, 90 + number, settings);
            let doctor =
                podnudge().args(["doctor", "--listen", "off", "--config"]).arg(&file).output();
            assert_eq!(doctor.unwrap().status.code(), Some(0), "{settings}");
            start(folder, podnudge(), &file)
        });
        let agents: Vec<Agent> = agents.collect();
        for agent in &agents {
            agent.wait_for("baseline", 1);
        }
        let is_reported = || agents.iter().any(|agent| agent.count("preflight") > 0);
        assert!(
            !is_within(AT_START, is_reported),
            "{}",
            agents.iter().map(Agent::log).collect::<String>()
        );
    });
}

#[test]
fn a_target_of_another_uid_is_reported_with_the_security_context_to_set() {
    in_namespace(|| {
        let folder = scene();
        let _nginx = Target::start(folder.path(), "nginx", Behaviour::Handles);
        let as_other = || {
            let mut command = command("setpriv");
            command.args(["--reuid=65532", "--regid=65532", "--clear-groups"]);
            command.arg(env!("CARGO_BIN_EXE_podnudge"));
            command
        };
        assert_reported(
            folder.path(),
            as_other,
            &[Mistake {
                settings: "target = { process = \"nginx\" }",
                problem: "not-permitted",
                parts: &[
                    "podnudge runs as uid 65532 and the target as uid 0",
                    "runAsUser: 0 and runAsNonRoot: false",
                ],
                fix: None,
            }],
        );
    });
}

/// The targets started after the content, so each has read it. But what no action can reach is never in sync.
#[test]
fn a_target_that_no_action_can_reach_is_never_in_sync() {
    in_namespace(|| {
        let folder = scene();
        let folder = folder.path();
        wait_until_commit_is_past(&folder.join("volume"));
        let target = |name: &str, does| Target::start(folder, name, does);
        let _targets = [
            target("nginx", Behaviour::Handles),
            target("twice", Behaviour::Handles),
            target("twice", Behaviour::Handles),
            target("myapp", Behaviour::Handles),
        ];
        let default = target("default", Behaviour::Default);
        wait_until_old(&default);
        let table: &[(&[&str], &str)] = &[
            (&["--process=nginx", "--signal=HUP"], "not-permitted"),
            (&["--process=twice", "--signal=HUP"], "target-ambiguous"),
            (&["--process=default", "--signal=HUP"], "signal-not-handled"),
            (&["--process=myapp"], "no-preset"),
        ];
        for (options, problem) in table {
            let mut podnudge = if *problem == "not-permitted" {
                let mut command = command("setpriv");
                command.args(["--reuid=65532", "--regid=65532", "--clear-groups"]);
                command.arg(env!("CARGO_BIN_EXE_podnudge"));
                command
            } else {
                podnudge()
            };
            podnudge.args(["--log", "json", "--listen", "127.0.0.1:0", "--watch"]);
            podnudge.arg(folder.join("volume")).args(*options);
            let agent = Agent::spawn(folder, podnudge);
            agent.wait_for("baseline", 1);
            agent.wait_for("preflight", 1);
            let rule = &agent.status()["rules"][0];
            assert_eq!(rule["preflight"][0]["problem"], *problem, "{rule:#}");
            assert_eq!(rule["in_sync"], "unknown", "{rule:#}");
        }
    });
}

/// A server that answers every request with 200 and some metrics.
fn start_server(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in requests(&listener) {
            request(&stream);
            respond(stream, "200 OK", "", "config_reloads 1\n");
        }
    });
}

fn write_program(path: &Path) {
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Port 80 answers, and nothing listens at port 81 and above.
#[test]
fn mistakes_about_addresses_programs_and_files_are_reported_at_the_start() {
    in_network(|| {
        let folder = scene();
        let folder = folder.path();
        start_server(80);
        drop(UnixListener::bind(folder.join("dead.sock")).unwrap());
        fs::write(folder.join("not-executable"), "").unwrap();
        assert_reported(folder, podnudge, ABOUT_ADDRESSES);
    });
}

#[cfg(feature = "tls")]
#[test]
fn a_missing_ca_file_is_reported_at_the_start() {
    let folder = scene();
    let (url, _) = answering(&[("200 OK", "", "")]);
    let url = url.replace("http://", "https://");
    let settings = format!("http = {{ url = \"{url}\", ca-file = \"FOLDER/ca.pem\" }}").leak();
    assert_reported(
        folder.path(),
        podnudge,
        &[Mistake {
            settings,
            problem: "file-missing",
            parts: &["/ca.pem` does not exist"],
            fix: None,
        }],
    );
}

/// Mounts at a folder in this mount namespace, with options of mount(8).
fn mount(options: &[&str], from: &Path, at: &Path) {
    fs::create_dir_all(at).unwrap();
    let mounted = command("mount").args(options).arg(from).arg(at).status().unwrap();
    assert!(mounted.success(), "mount {options:?}");
}

#[test]
fn mistakes_about_mounts_are_reported_at_the_start() {
    in_namespace(|| {
        let folder = scene();
        let folder = folder.path();
        let volume = folder.join("volume");
        let without_mounts = |name: &str, behaviour: Behaviour| {
            Target::start_by(folder, name, behaviour, |program| {
                let mut unshare = command("unshare");
                unshare.args(["--mount", "--propagation", "private"]).arg(program);
                unshare
            })
        };
        let _blind = without_mounts("blind", Behaviour::Handles);
        mount(&["-t", "tmpfs"], Path::new("tmpfs"), &folder.join("memory"));
        Kubelet::new(folder.join("memory")).write(&payload(&[("a.conf", "1")]));
        mount(&["--bind"], &volume, &volume);
        let generation = fs::canonicalize(volume.join("..data")).unwrap();
        mount(&["--bind"], &generation, &folder.join("sub"));
        mount(&["--bind"], &generation, &folder.join("parent/sub"));
        // Its own mounts: a generation in place of the volume, and no publish directory.
        let _app = Target::start_by(folder, "nginx", Behaviour::Handles, |program| {
            let script = "umount \"$0\" && mount --bind \"$1\" \"$0\" && shift && exec \"$@\"";
            let mut unshare = command("unshare");
            unshare
                .args(["--mount", "sh", "-c", script])
                .arg(&volume)
                .arg(&generation)
                .arg(program);
            unshare
        });
        let _other = without_mounts("haproxy", Behaviour::MasterWithWorker);
        mount(&["-t", "tmpfs"], Path::new("tmpfs"), &folder.join("published"));
        assert_reported(folder, podnudge, ABOUT_MOUNTS);
    });
}

#[test]
fn a_process_namespace_that_is_not_shared_is_reported_at_the_start() {
    let folder = scene();
    let in_own = || {
        let mut command = command("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(env!("CARGO_BIN_EXE_podnudge"));
        command
    };
    assert_reported(
        folder.path(),
        in_own,
        &[Mistake {
            settings: "signal = { name = \"HUP\" }\ntarget = { process = \"nginx\" }",
            problem: "namespace-not-shared",
            parts: &["no process outside its own container", "shareProcessNamespace: true"],
            fix: None,
        }],
    );
}

#[test]
fn too_little_memory_for_a_check_is_reported_at_the_start() {
    let folder = scene();
    let mut kubelet = Kubelet::new(folder.path().join("large"));
    kubelet.write(&payload(&[("a.yaml", &"- item\n".repeat(15_000))]));
    let group = MemoryLimit::new(12 * 1024 * 1024);
    let in_group = || group.command(env!("CARGO_BIN_EXE_podnudge"));
    let (url, _) = answering(&[("200 OK", "", "")]);
    let settings = format!(
        "watch = \"FOLDER/large\"\nhttp = {{ url = \"{url}\" }}\n[[rule.check]]\nsyntax = \"yaml\""
    );
    assert_reported(
        folder.path(),
        in_group,
        &[Mistake {
            settings: settings.leak(),
            problem: "memory-limit",
            parts: &["podnudge may use 12 MiB", "(103 KiB) may need 16 MiB", "memory: 16Mi"],
            fix: None,
        }],
    );
}

/// The addresses are left alone while nothing changes: each connection shows in some logs.
#[test]
fn addresses_that_answer_are_tried_once() {
    let folder = scene();
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let kept = std::sync::Arc::clone(&connections);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            kept.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let settings = format!("http = {{ url = \"http://{address}/reload\" }}");
    let file = configuration(folder.path(), 0, &settings);
    let agent = start(folder.path(), podnudge(), &file);
    let count = || connections.load(std::sync::atomic::Ordering::SeqCst);
    wait_until("the address was tried", || count() == 1);
    assert!(!is_within(Duration::from_secs(3), || count() > 1));
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
}

/// What only the doctor says: podnudge has a state or an event of its own for it.
#[test]
fn the_doctor_also_finds_what_podnudge_shows_as_a_state() {
    let folder = scene();
    let (url, _) = answering(&[("200 OK", "", "")]);
    let doctor = |settings: &str, more: &[&str]| {
        let file = configuration(folder.path(), 0, settings);
        let mut command = podnudge();
        command.args(["doctor", "--config"]).arg(file).args(more);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let http = format!("http = {{ url = \"{url}\" }}");
    let (exit, text) = doctor(&http, &["--listen", "off"]);
    assert_eq!(exit, 0, "{text}");
    let (exit, text) = doctor(&format!("watch = \"FOLDER/volme\"\n{http}"), &["--listen", "off"]);
    assert!(exit == 1 && text.contains("nothing exists at the watched path"), "{text}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (exit, text) = doctor(&http, &["--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(exit == 1 && text.contains("cannot listen on 127.0.0.1:"), "{text}");
    let huge = fs::File::create(folder.path().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let (exit, text) = doctor(&format!("watch = \"FOLDER/huge\"\n{http}"), &["--listen", "off"]);
    assert!(
        exit == 1
            && text.contains("holds more than 16 MiB")
            && text.contains("(volume-unreadable)"),
        "{text}"
    );
    let (exit, text) = doctor(&http, &["--listen", "off", "--watch-mode", "poll"]);
    assert!(
        exit == 1 && text.contains("podnudge polls every") && text.contains("(polled)"),
        "{text}"
    );
    // A podnudge that runs there is no problem.
    let file = configuration(folder.path(), 1, &http);
    let agent = start(folder.path(), podnudge(), &file);
    let (exit, text) = doctor(&http, &["--listen", &agent.last("started", "listen")]);
    assert_eq!(exit, 0, "{text}");
    let dead = "http = { url = \"http://127.0.0.1:1/reload\" }";
    assert_eq!(doctor(dead, &["--listen", "off"]).0, 1);
    let (exit, text) = doctor(dead, &["--listen", "off", "--before-start"]);
    assert_eq!(exit, 0, "{text}");
}

/// podnudge looks again later, and the doctor does not: it must not call right what it cannot know yet.
#[test]
fn the_doctor_says_that_a_target_has_just_started() {
    in_namespace(|| {
        let folder = scene();
        let _target = Target::start(folder.path(), "app", Behaviour::Default);
        let settings = "target = { process = \"app\" }\nsignal = { name = \"HUP\" }";
        let file = configuration(folder.path(), 0, settings);
        let doctor = podnudge().args(["doctor", "--listen", "off", "--config"]).arg(file).output();
        let doctor = doctor.unwrap();
        let text = String::from_utf8(doctor.stdout).unwrap();
        assert!(text.contains("(app) has just started, and does not handle SIGHUP yet"), "{text}");
        assert_eq!(doctor.status.code(), Some(1), "{text}");
    });
}

/// Nothing is learnt about the handlers of a process that has ended.
#[test]
fn a_problem_of_a_target_that_has_ended_is_not_reported_as_solved() {
    in_namespace(|| {
        let folder = scene();
        let _other = Target::start(folder.path(), "other", Behaviour::Handles);
        let target = Target::start(folder.path(), "gunicorn", Behaviour::Handles);
        let file = configuration(folder.path(), 0, "target = { process = \"gunicorn\" }");
        let agent = start(folder.path(), podnudge(), &file);
        agent.wait_for("preflight", 1);
        assert_eq!(agent.last("preflight", "problem"), "unchecked");
        drop(target);
        agent.wait_for("preflight", 2);
        assert_eq!(agent.last("preflight", "problem"), "target-not-found");
        let _target = Target::start(folder.path(), "gunicorn", Behaviour::Handles);
        agent.wait_for("preflight-solved", 1);
        let is_repeated = || agent.count("preflight") > 2 || agent.count("preflight-solved") > 1;
        assert!(!is_within(Duration::from_secs(3), is_repeated), "{}", agent.log());
        assert_eq!(agent.last("preflight-solved", "problem"), "target-not-found");
    });
}

#[test]
fn a_problem_that_was_fixed_is_reported_as_solved() {
    in_namespace(|| {
        let folder = scene();
        let _other = Target::start(folder.path(), "other", Behaviour::Handles);
        let settings = "target = { process = \"app\" }\nsignal = { name = \"HUP\" }";
        let file = configuration(folder.path(), 0, settings);
        let agent = start(folder.path(), podnudge(), &file);
        agent.wait_for("preflight", 1);
        let _target = Target::start(folder.path(), "app", Behaviour::Handles);
        agent.wait_for("preflight-solved", 1);
        assert_eq!(agent.last("preflight-solved", "problem"), "target-not-found");
    });
}
