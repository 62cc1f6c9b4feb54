//! The table of hostile inputs: contents, files, answers, requests and signals, one after the other in each of six
//! podnudges of the shipped kind, under the memory limit of the shipped manifests. For each: what podnudge
//! does, what its control group takes at most, and that another rule is served meanwhile.
//!
//! What the group takes includes podnudge, the processes that it starts, the kernel's memory for them, and
//! what podnudge writes: the log. The files of the test are charged to the test's own group.

mod answers;
mod contents;
mod files;
mod programs;
mod published;
mod requests;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use answers::Server;

use super::{FULL, binary};

use crate::support::{Agent, Application, Kubelet, MemoryLimit, ask, payload, wait_until};

/// The limit of the shipped manifests.
const LIMIT: u64 = 32 * 1024 * 1024;
/// The most that any input may cost beyond an idle podnudge, in KiB.
const MOST: u64 = 16 * 1024;
/// The most that an input may delay another rule: a second, and what a busy machine adds.
const MOST_DELAY: Duration = Duration::from_secs(5);

/// The rules whose volume the kubelet writes.
const VOLUMES: [&str; 12] = [
    "toml",
    "yaml",
    "json",
    "pem",
    "text",
    "action",
    "check",
    "proof",
    "document",
    "handshake",
    "program",
    "published",
];

/// Puts an input before podnudge, or removes it.
type Put = Box<dyn FnOnce(&mut Scene)>;

/// One hostile input.
struct Input {
    /// The rule that gets it; `port` for podnudge's own port, `neighbour` for signals and the like.
    rule: &'static str,
    what: String,
    put: Put,
    /// The log event of the rule that follows, or one of several that are separated by `|`; nothing for
    /// inputs that only must not harm.
    outcome: &'static str,
    /// Removes it.
    remove: Option<Put>,
}

/// podnudge, its rules and their applications.
struct Scene {
    agent: Agent,
    /// Removed after the agent has ended.
    limit: MemoryLimit,
    address: String,
    volumes: Vec<(&'static str, Kubelet)>,
    other: Kubelet,
    application: Application,
    server: Server,
    writes: usize,
    /// A client that holds connections open.
    held: Option<Child>,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let binary = binary(FULL);
        let limit = MemoryLimit::new(LIMIT);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        let mut other = Kubelet::new(folder.path().join("other"));
        other.write(&payload(&[("a.conf", "0")]));
        let application = Application::start(&other.volume, "a.conf");
        let server = Server::start();
        let rule = |name: &str, settings: &str| {
            format!(
                "[[rule]]\nname = \"{name}\"\nwatch = \"{root}/{name}\"\non-start = \"never\"\nsettle = \"0s\"\n\
                 retry = {{ first = \"10ms\", max = \"10ms\", attempts = 1 }}\n{settings}\n"
            )
        };
        let works = format!("http = {{ url = \"{}\" }}\n", application.url());
        let hostile = format!("{{ url = \"{}\", timeout = \"300ms\" }}", server.url());
        let mut config = format!(
            "agent = {{ log = \"json\", log-level = \"debug\", resync = \"1s\", work-dir = \"{root}/work\" }}\n"
        );
        config += &rule("other", &works);
        let script = format!("exec = [\"sh\", \"{root}/checker\"]\ntimeout = \"300ms\"");
        config += &rule("program", &format!("{works}[[rule.check]]\n{script}"));
        let publish = format!("{works}publish = {{ dir = \"{root}/publish\" }}\n");
        // It is filled at the start.
        config += &rule("published", &publish).replace("on-start = \"never\"\n", "");
        for syntax in ["toml", "yaml", "json", "pem"] {
            config += &rule(syntax, &format!("{works}[[rule.check]]\nsyntax = \"{syntax}\""));
        }
        config += &rule("text", &format!("{works}[[rule.check]]\nnot-empty = true"));
        config += &rule("files", &works);
        config += &rule("action", &format!("http = {hostile}"));
        let check = format!("[[rule.check]]\nhttp = \"{}\"\ntimeout = \"300ms\"", server.url());
        config += &rule("check", &format!("{works}{check}"));
        let proof = format!("[rule.verify]\nhttp = \"{}\"\ntimeout = \"300ms\"", server.url());
        config += &rule("proof", &format!("{works}{proof}\nbody-matches = \"proof\""));
        let contains = "json-contains = { pointer = \"/a\", value = \"x\" }";
        config += &rule("document", &format!("{works}{proof}\n{contains}"));
        let tls = format!("[rule.verify]\ntls = \"{}\"\ntls-certificate = \"a\"", server.address());
        config += &rule("handshake", &format!("{works}{tls}\ntimeout = \"300ms\""));
        let mut volumes = Vec::new();
        for name in VOLUMES {
            let mut kubelet = Kubelet::new(folder.path().join(name));
            kubelet.write(&payload(&[("a", "")]));
            volumes.push((name, kubelet));
        }
        fs::create_dir(folder.path().join("files")).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::create_dir(folder.path().join("publish")).unwrap();
        fs::write(folder.path().join("checker"), "").unwrap();
        fs::write(folder.path().join("files/a"), "0").unwrap();
        fs::write(folder.path().join("podnudge.toml"), config).unwrap();
        let mut command = limit.command(&binary);
        command.args(["--listen", "127.0.0.1:0", "--config"]);
        command.arg(folder.path().join("podnudge.toml"));
        let agent = Agent::spawn(folder.path(), command);
        agent.wait_for("baseline", 13);
        agent.wait_for("applied|unread", 1);
        let address = agent.last("started", "listen");
        let held = None;
        Self { agent, limit, address, volumes, other, application, server, writes: 0, held, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// New content for a rule.
    fn write(&mut self, rule: &str, content: Vec<u8>) {
        let (_, volume) = self.volumes.iter_mut().find(|(name, _)| *name == rule).unwrap();
        volume.write(&[("a".to_owned(), content)].into());
    }

    /// New content of no interest.
    fn nudge(&mut self, rule: &str) {
        self.writes += 1;
        self.write(rule, self.writes.to_string().into_bytes());
    }

    /// Another text around the same certificate.
    fn renew(&mut self) {
        self.writes += 1;
        let content = format!("{}\n{}", self.writes, include_str!("../pem/ec.crt"));
        self.write("handshake", content.into_bytes());
    }

    /// The log events of a rule.
    fn events(&self, rule: &str, events: &str) -> usize {
        let events = self.agent.events(events);
        events.iter().filter(|event| event["rule"] == rule).count()
    }

    /// How long it takes until new content of the other rule has reached its application.
    #[expect(clippy::disallowed_methods, reason = "the delay is what this measures")]
    fn serve(&mut self) -> Duration {
        self.writes += 1;
        let content = format!("other {}", self.writes);
        let begun = Instant::now();
        self.other.write(&payload(&[("a.conf", &content)]));
        wait_until("the other rule is served", || {
            self.application.reloads().iter().rev().take(50).any(|reload| *reload == content)
        });
        begun.elapsed()
    }
}

#[test]
fn no_hostile_content_ends_podnudge_costs_much_memory_or_delays_another_rule() {
    withstands(71, contents::inputs());
}

#[test]
fn no_hostile_file_ends_podnudge_costs_much_memory_or_delays_another_rule() {
    withstands(22, files::inputs());
}

#[test]
fn no_hostile_answer_to_a_check_or_an_action_ends_podnudge_costs_much_memory_or_delays_another_rule()
 {
    withstands(42, answers::inputs(&["check", "action"]));
}

#[test]
fn no_hostile_answer_to_a_proof_ends_podnudge_costs_much_memory_or_delays_another_rule() {
    withstands(40, answers::inputs(&["proof", "document", "handshake"]));
}

#[test]
fn no_hostile_program_or_request_ends_podnudge_costs_much_memory_or_delays_another_rule() {
    withstands(29, programs::inputs().into_iter().chain(requests::inputs()).collect());
}

#[test]
fn no_hostile_change_of_what_is_published_ends_podnudge_costs_much_memory_or_delays_another_rule() {
    withstands(12, published::inputs());
}

/// Puts the inputs, which must be `count`, before one podnudge, one after the other.
fn withstands(count: usize, inputs: Vec<Input>) {
    assert_eq!(inputs.len(), count, "SPECIFICATION.md says how many there are in all");
    let mut scene = Scene::start();
    scene.serve();
    let idle = scene.limit.usage();
    println!("idle: {idle} KiB");
    let (mut failed, mut most) = (String::new(), 0);
    for Input { rule, what, put, outcome, remove } in inputs {
        // In a pod the log goes to a pipe, and grows nothing here.
        scene.agent.log_leaves_memory();
        let mut peak = scene.limit.measure();
        let before = scene.events(rule, outcome);
        put(&mut scene);
        let delay = scene.serve();
        let wanted = |scene: &Scene| outcome.is_empty() || scene.events(rule, outcome) > before;
        wait_until(&format!("{rule}, {what}: {outcome}"), || wanted(&scene));
        assert!(ask(&scene.address, "GET", "/livez").starts_with("HTTP/1.1 200"), "{rule}, {what}");
        let cost = peak.read().saturating_sub(idle);
        most = most.max(cost);
        let line = format!("{rule}, {what}: {outcome}, {cost} KiB, other rule after {delay:?}");
        println!("{line}");
        if cost > MOST || delay > MOST_DELAY || scene.agent.has_ended() {
            writeln!(failed, "{line}").unwrap();
        }
        if let Some(remove) = remove {
            remove(&mut scene);
        }
    }
    println!("{count} inputs, at most {most} KiB beyond idle");
    assert!(failed.is_empty(), "{failed}\n{}", scene.agent.log());
    assert_eq!(scene.limit.ended(), 0, "the kernel has ended a process");
    assert_eq!(scene.agent.stop().code(), Some(0));
}
