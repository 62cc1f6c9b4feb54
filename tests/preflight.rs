//! The preflight: mistakes in the pod's spec or in the configuration are reported at the start, before
//! the first change, and `podnudge doctor` finds the same.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{
    Agent, Behaviour, Kubelet, MemoryLimit, OTHER_USER, Running, Scene, answering, command,
    in_namespace, in_network, is_within, mount, payload, podnudge, podnudge_by, request, requests,
    respond, tmpfs, wait_until, wait_until_commit_is_past, wait_until_old,
};

/// A mistake is reported within this time of the start.
const AT_START: Duration = Duration::from_secs(2);

/// A mistake in the configuration, or in what it refers to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// The settings of the rule besides `watch`. With `watch = …`, that, too.
    settings: String,
    /// The kind of the problem.
    problem: String,
    /// Parts of its reason and hint.
    parts: Vec<String>,
    /// Corrects what the settings refer to: what is there then, and its name.
    #[serde(default)]
    fix: String,
}

impl Mistake {
    fn new(settings: &str, problem: &str, parts: &[&str]) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        let (settings, problem) = (settings.to_owned(), problem.to_owned());
        Self { settings, problem, parts, fix: String::new() }
    }

    fn correct(&self, scene: &Scene) {
        match self.fix.split_once(' ').expect("there is something to correct") {
            // These run until the end of the namespace.
            ("target", name) => std::mem::forget(scene.target(name, Behaviour::Handles)),
            ("socket", name) => {
                std::mem::forget(UnixListener::bind(scene.path(name)).unwrap());
            }
            ("port", number) => start_server(number.parse().unwrap()),
            ("program", name) => {
                let file = scene.write(name, "#!/bin/sh\n");
                fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
            }
            ("file", name) => drop(scene.write(name, "hunter2")),
            (kind, _) => panic!("nothing of the kind {kind} can be made"),
        }
    }
}

/// The mistakes of a file.
fn mistakes(text: &str) -> Vec<Mistake> {
    let mut table: BTreeMap<String, Vec<Mistake>> = toml::from_str(text).unwrap();
    table.remove("mistake").unwrap()
}

/// Writes a configuration with these settings, and returns its path.
fn configuration(scene: &Scene, number: usize, settings: &str) -> String {
    let watch = "watch = \"FOLDER/volume\"\n";
    let watch = if settings.contains("watch = ") { "" } else { watch };
    // Where podnudge publishes, it fills the directory at its start.
    let on_start = if settings.contains("publish") { "" } else { "on-start = \"never\"\n" };
    let text = format!(
        "agent = {{ resync = \"1s\", work-dir = \"FOLDER/work\" }}\n\
         [[rule]]\nname = \"web\"\n{on_start}{watch}{settings}\n"
    );
    scene.write(&format!("{number}.toml"), &text)
}

/// podnudge with this configuration, started by another program or by itself.
fn start(scene: &Scene, mut command: Command, file: &str) -> Agent {
    command.args(["run", "--log", "json", "--listen", "127.0.0.1:0", "--config", file]);
    scene.start(command, "started")
}

/// Each mistake is reported within 2 s of the start: one warning, a metric and a line of the status.
/// None is repeated, and no other problem is found. Once fixed, it is reported as solved. The doctor
/// finds the same.
fn assert_reported(scene: &Scene, by: impl Fn() -> Command, mistakes: &[Mistake]) {
    let mut agents = Vec::new();
    for (number, mistake) in mistakes.iter().enumerate() {
        let file = configuration(scene, number, &mistake.settings);
        let agent = start(scene, by(), &file);
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
        if !mistake.fix.is_empty() {
            mistake.correct(scene);
            wait_until(&format!("`{}` is solved", mistake.settings), || {
                agent.count("preflight-solved") == 1
            });
            assert_eq!(agent.count("preflight"), 1, "{}", agent.log());
        }
    }
}

fn assert_in_time(agent: &Agent, mistake: &Mistake) {
    let Mistake { settings, problem, parts, .. } = mistake;
    assert_eq!(&agent.last("preflight", "problem"), problem, "{settings}");
    let explanation = agent.last("preflight", "reason") + "; " + &agent.last("preflight", "hint");
    for part in parts {
        assert!(explanation.contains(part), "`{part}` is not in: {explanation}");
    }
    let time =
        |event: &str| -> humantime::Timestamp { agent.last(event, "timestamp").parse().unwrap() };
    let after = time("preflight").duration_since(*time("started")).unwrap();
    assert!(after <= AT_START, "{settings}: after {after:?}");
    let metric = format!("podnudge_preflight_problem{{rule=\"web\",problem=\"{problem}\"}} 1");
    assert!(agent.get("/metrics").contains(&metric));
    let url = format!("http://{}", agent.address());
    let output = podnudge().args(["status", "--url", &url]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("\n  problem: "), "{table}");
    assert_ne!(agent.rule()["in_sync"], "yes", "{settings}");
}

/// `podnudge doctor` finds this problem only.
fn assert_diagnosed(mut doctor: Command, file: &str, mistake: &Mistake) {
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
    assert_eq!(kinds, [mistake.problem.as_str()], "{findings:#}");
}

#[test]
fn mistakes_about_the_target_are_reported_at_the_start() {
    in_namespace!();
    let scene = Scene::new();
    let ignores = ["sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""];
    let _ignores = scene.target_by(&ignores, "ignores", Behaviour::Ignores);
    let _running = ["nginx", "java", "caddy", "dnsmasq", "gunicorn", "myapp", "twice", "twice"]
        .map(|name| scene.target(name, Behaviour::Handles));
    let _node = scene.target("node", Behaviour::Default);
    let _renamed = renamed_nodes(&scene);
    let default = scene.target("default", Behaviour::Default);
    scene.write("left-over", "4000000");
    scene.write("no-pid", "nginx");
    wait_until_old(|| vec![default.pid()]);
    assert_reported(&scene, podnudge, &mistakes(include_str!("preflight/target.toml")));
    // Nothing is wrong, or what is wrong is wanted.
    let right = [
        "target = { process = \"nginx\" }",
        "target = { process = \"dnsmasq\" }\nsignal = { name = \"HUP\" }\naccept = [\"signal-does-not-reload\"]",
        "target = { process = \"gunicorn\" }\naccept = \"unchecked\"",
    ];
    let agents = right.iter().enumerate().map(|(number, settings)| {
        let file = configuration(&scene, 90 + number, settings);
        let doctor = podnudge().args(["doctor", "--listen", "off", "--config"]).arg(&file).output();
        assert_eq!(doctor.unwrap().status.code(), Some(0), "{settings}");
        start(&scene, podnudge(), &file)
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
}

/// Processes that handle USR1 and have another name than `node`, as Node.js gives its main thread one, and an application
/// itself and its arguments: one is known by its first argument, one by its executable, and one by a thread.
fn renamed_nodes(scene: &Scene) -> [Running; 3] {
    let handle = "trap : USR1; printf \"$1\" >/proc/self/comm; while :; do sleep 1; done";
    let copy = scene.path("titled/node");
    fs::create_dir(copy.parent().unwrap()).unwrap();
    fs::copy("/bin/bash", &copy).unwrap();
    let named = |name: &str| format!("exec -a {name} \"$0\" -c \"$1\" {name} $2");
    let python = "import ctypes, signal, threading, time
name = ctypes.CDLL(None).prctl
signal.signal(signal.SIGUSR1, lambda *_: None)
name(15, b'inspected')
def inspect():
    name(15, b'SignalInspector')
    time.sleep(1000)
threading.Thread(target=inspect, daemon=True).start()
while True: time.sleep(1)";
    let start = |program: &Path, name: &str, comm: &str| {
        let mut bash = command("bash");
        bash.args(["-c", &named(name)]).arg(program).args([handle, comm]);
        Running::start(&mut bash)
    };
    let running = [
        start(Path::new("/bin/bash"), "node", "MainThread"),
        start(&copy, "titled", "titled"),
        Running::start(command("python3").args(["-c", python])),
    ];
    let threads = ["MainThread", "titled", "SignalInspector"];
    for (process, name) in running.iter().zip(threads) {
        wait_until(name, || {
            let tasks = fs::read_dir(format!("/proc/{}/task", process.0.id())).unwrap();
            let name_of = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
            tasks.flatten().filter_map(name_of).any(|comm| comm.trim_end() == name)
        });
    }
    running
}

#[test]
fn a_target_of_another_uid_is_reported_with_the_security_context_to_set() {
    in_namespace!();
    let scene = Scene::new();
    let _nginx = scene.target("nginx", Behaviour::Handles);
    assert_reported(
        &scene,
        || podnudge_by(&OTHER_USER),
        &[Mistake::new(
            "target = { process = \"nginx\" }",
            "not-permitted",
            &[
                "podnudge runs as uid 65532 and the target as uid 0",
                "runAsUser: 0 and runAsNonRoot: false",
            ],
        )],
    );
}

/// The targets started after the content, so each has read it. But what no action can reach is never in sync.
#[test]
fn a_target_that_no_action_can_reach_is_never_in_sync() {
    in_namespace!();
    let scene = Scene::new();
    wait_until_commit_is_past(&scene.path("volume"));
    let _targets =
        ["nginx", "twice", "twice", "myapp"].map(|name| scene.target(name, Behaviour::Handles));
    let default = scene.target("default", Behaviour::Default);
    wait_until_old(|| vec![default.pid()]);
    let table: &[(&[&str], &str)] = &[
        (&["--process=nginx", "--signal=HUP"], "not-permitted"),
        (&["--process=twice", "--signal=HUP"], "target-ambiguous"),
        (&["--process=default", "--signal=HUP"], "signal-not-handled"),
        (&["--process=myapp"], "no-preset"),
    ];
    for (options, problem) in table {
        let by: &[&str] = if *problem == "not-permitted" { &OTHER_USER } else { &[] };
        let options = [&["--on-start", "if-newer"], *options].concat();
        let agent = scene.nudge_by(scene.podnudge_by(by), &options);
        agent.wait_for("preflight", 1);
        let rule = &agent.status()["rules"][0];
        assert_eq!(rule["preflight"][0]["problem"], *problem, "{rule:#}");
        assert_eq!(rule["in_sync"], "unknown", "{rule:#}");
    }
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

/// Port 80 answers, and nothing listens at port 81 and above.
#[test]
fn mistakes_about_addresses_programs_and_files_are_reported_at_the_start() {
    in_network!();
    let scene = Scene::new();
    start_server(80);
    drop(UnixListener::bind(scene.path("dead.sock")).unwrap());
    scene.write("not-executable", "");
    assert_reported(&scene, podnudge, &mistakes(include_str!("preflight/addresses.toml")));
}

#[test]
fn a_missing_ca_file_is_reported_at_the_start() {
    let scene = Scene::new();
    let (url, _) = answering(&[("200 OK", "", "")]);
    let url = url.replace("http://", "https://");
    let settings = format!("http = {{ url = \"{url}\", ca-file = \"FOLDER/ca.pem\" }}");
    assert_reported(
        &scene,
        podnudge,
        &[Mistake::new(&settings, "file-missing", &["/ca.pem` does not exist"])],
    );
}

#[test]
fn mistakes_about_mounts_are_reported_at_the_start() {
    in_namespace!();
    let scene = Scene::new();
    let volume = scene.path("volume");
    let own_mounts = ["unshare", "--mount", "--propagation", "private"];
    let _blind = scene.target_by(&own_mounts, "blind", Behaviour::Handles);
    tmpfs(scene.path("memory")).write(&payload(&[("a.conf", "1")]));
    let bind = |from: &Path, at: &Path| mount(&["--bind", from.to_str().unwrap()], at);
    bind(&volume, &volume);
    let generation = fs::canonicalize(volume.join("..data")).unwrap();
    bind(&generation, &scene.path("sub"));
    bind(&generation, &scene.path("parent/sub"));
    // Its own mounts: a generation in place of the volume, and no publish directory.
    let script = "umount \"$0\" && mount --bind \"$1\" \"$0\" && shift && exec \"$@\"";
    let paths = [&volume, &generation].map(|path| path.to_str().unwrap());
    let by = ["unshare", "--mount", "sh", "-c", script, paths[0], paths[1]];
    let _app = scene.target_by(&by, "nginx", Behaviour::Handles);
    let _other = scene.target_by(&own_mounts, "haproxy", Behaviour::MasterWithWorker);
    tmpfs(scene.path("published"));
    assert_reported(&scene, podnudge, &mistakes(include_str!("preflight/mounts.toml")));
}

#[test]
fn a_process_namespace_that_is_not_shared_is_reported_at_the_start() {
    let scene = Scene::new();
    assert_reported(
        &scene,
        || podnudge_by(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]),
        &[Mistake::new(
            "signal = { name = \"HUP\" }\ntarget = { process = \"nginx\" }",
            "namespace-not-shared",
            &["no process outside its own container", "shareProcessNamespace: true"],
        )],
    );
}

#[test]
fn too_little_memory_for_a_check_is_reported_at_the_start() {
    let scene = Scene::new();
    let mut kubelet = Kubelet::new(scene.path("large"));
    kubelet.write(&payload(&[("a.yaml", &"- item\n".repeat(15_000))]));
    let group = MemoryLimit::new(12 * 1024 * 1024);
    let in_group = || group.command(env!("CARGO_BIN_EXE_podnudge"));
    let (url, _) = answering(&[("200 OK", "", "")]);
    let settings = format!(
        "watch = \"FOLDER/large\"\nhttp = {{ url = \"{url}\" }}\n[[rule.check]]\nsyntax = \"yaml\""
    );
    assert_reported(
        &scene,
        in_group,
        &[Mistake::new(
            &settings,
            "memory-limit",
            &["podnudge may use 12 MiB", "(103 KiB) may need 16 MiB", "memory: 16Mi"],
        )],
    );
}

/// The addresses are left alone while nothing changes: each connection shows in some logs.
#[test]
fn addresses_that_answer_are_tried_once() {
    let scene = Scene::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let kept = Arc::clone(&connections);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            kept.fetch_add(1, Ordering::SeqCst);
        }
    });
    let settings = format!("http = {{ url = \"http://{address}/reload\" }}");
    let file = configuration(&scene, 0, &settings);
    let agent = start(&scene, podnudge(), &file);
    let count = || connections.load(Ordering::SeqCst);
    wait_until("the address was tried", || count() == 1);
    assert!(!is_within(Duration::from_secs(3), || count() > 1));
    assert_eq!(agent.count("preflight"), 0, "{}", agent.log());
}

/// What only the doctor says: podnudge has a state or an event of its own for it.
#[test]
fn the_doctor_also_finds_what_podnudge_shows_as_a_state() {
    let scene = Scene::new();
    let (url, _) = answering(&[("200 OK", "", "")]);
    let doctor = |settings: &str, more: &[&str]| {
        let file = configuration(&scene, 0, settings);
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
    let huge = fs::File::create(scene.path("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let (exit, text) = doctor(&format!("watch = \"FOLDER/huge\"\n{http}"), &["--listen", "off"]);
    assert!(
        exit == 1
            && text.contains("holds more than 64 MiB")
            && text.contains("(volume-unreadable)"),
        "{text}"
    );
    let (exit, text) = doctor(&http, &["--listen", "off", "--watch-mode", "poll"]);
    assert!(exit == 0 && !text.contains("(polled)"), "it was asked for: {text}");
    // A podnudge that runs there is no problem.
    let file = configuration(&scene, 1, &http);
    let agent = start(&scene, podnudge(), &file);
    let (exit, text) = doctor(&http, &["--listen", &agent.address()]);
    assert_eq!(exit, 0, "{text}");
    let dead = "http = { url = \"http://127.0.0.1:1/reload\" }";
    assert_eq!(doctor(dead, &["--listen", "off"]).0, 1);
    let (exit, text) = doctor(dead, &["--listen", "off", "--before-start"]);
    assert_eq!(exit, 0, "{text}");
}

/// podnudge looks again later, and the doctor does not: it must not call right what it cannot know yet.
#[test]
fn the_doctor_says_that_a_target_has_just_started() {
    in_namespace!();
    let scene = Scene::new();
    let _target = scene.target("app", Behaviour::Default);
    let settings = "target = { process = \"app\" }\nsignal = { name = \"HUP\" }";
    let file = configuration(&scene, 0, settings);
    let doctor = podnudge().args(["doctor", "--listen", "off", "--config"]).arg(file).output();
    let doctor = doctor.unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(text.contains("(app) has just started, and does not handle SIGHUP yet"), "{text}");
    assert_eq!(doctor.status.code(), Some(1), "{text}");
}

/// Nothing is learnt about the handlers of a process that has ended.
#[test]
fn a_problem_of_a_target_that_has_ended_is_not_reported_as_solved() {
    in_namespace!();
    let scene = Scene::new();
    let _other = scene.target("other", Behaviour::Handles);
    let target = scene.target("gunicorn", Behaviour::Handles);
    let file = configuration(&scene, 0, "target = { process = \"gunicorn\" }");
    let agent = start(&scene, podnudge(), &file);
    agent.wait_for("preflight", 1);
    assert_eq!(agent.last("preflight", "problem"), "unchecked");
    drop(target);
    agent.wait_for("preflight", 2);
    assert_eq!(agent.last("preflight", "problem"), "target-not-found");
    let _target = scene.target("gunicorn", Behaviour::Handles);
    agent.wait_for("preflight-solved", 1);
    let is_repeated = || agent.count("preflight") > 2 || agent.count("preflight-solved") > 1;
    assert!(!is_within(Duration::from_secs(3), is_repeated), "{}", agent.log());
    assert_eq!(agent.last("preflight-solved", "problem"), "target-not-found");
}

#[test]
fn a_problem_that_was_fixed_is_reported_as_solved() {
    in_namespace!();
    let scene = Scene::new();
    let _other = scene.target("other", Behaviour::Handles);
    let settings = "target = { process = \"app\" }\nsignal = { name = \"HUP\" }";
    let file = configuration(&scene, 0, settings);
    let agent = start(&scene, podnudge(), &file);
    agent.wait_for("preflight", 1);
    let _target = scene.target("app", Behaviour::Handles);
    agent.wait_for("preflight-solved", 1);
    assert_eq!(agent.last("preflight-solved", "problem"), "target-not-found");
}
