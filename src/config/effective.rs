//! The effective configuration as a file: every setting, with the defaults filled in. Reading it
//! gives the same configuration again. Pure.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use toml::Value;

use super::action::STEPS;
use super::check::SYNTAXES;
use super::proof::BODY_PROOFS;
use super::validate::{JITTER_BYS, LOG_FORMATS, LOG_LEVELS, ON_STARTS, WATCH_MODES};
use super::{
    Action, Agent, Auth, Body, BodyProof, Check, Condition, Config, Endpoint, Hold, Listen,
    ProofBy, Publish, ReloadEndpoint, Restart, Rule, Scalar, SocketCommand, Step, Target, TargetBy,
    Verify,
};

/// The configuration as TOML. No secret is in it: those are in files of their own.
#[must_use]
pub fn effective(config: &Config) -> String {
    let mut file = File(String::new());
    file.agent(&config.agent);
    for rule in &config.rules {
        file.rule(rule);
    }
    file.0
}

/// The text so far.
struct File(String);

impl File {
    fn agent(&mut self, agent: &Agent) {
        self.0.push_str("[agent]\n");
        match agent.listen {
            Listen::Off => self.text("listen", "off"),
            Listen::Explicit(address) => self.text("listen", &address.to_string()),
            // Written as a setting, a port in use would be an error instead of a warning.
            Listen::Default(address) => {
                self.line(format_args!("# listen = \"{address}\"   # the default"));
            }
        }
        match &agent.reload {
            ReloadEndpoint::Off => self.text("reload", "off"),
            ReloadEndpoint::Loopback => self.text("reload", "loopback"),
            ReloadEndpoint::Token(file) => self.path("reload-token-file", file),
        }
        self.text("log", word(&LOG_FORMATS, agent.log));
        self.text("log-level", word(&LOG_LEVELS, agent.log_level));
        self.path("work-dir", &agent.work_dir);
        if let Some(state_dir) = &agent.state_dir {
            self.path("state-dir", state_dir);
        }
        self.text("watch", word(&WATCH_MODES, agent.watch));
        self.duration("audit", agent.audit);
        self.duration("poll", agent.poll);
        self.duration("grace", agent.grace);
    }

    fn rule(&mut self, rule: &Rule) {
        self.0.push_str("\n[[rule]]\n");
        self.text("name", &rule.name);
        self.list("watch", rule.watch.iter().map(|path| text_of(path)));
        self.list("only", rule.keys.only.iter().map(|glob| glob.as_str().to_owned()));
        self.list("ignore", rule.keys.ignore.iter().map(|glob| glob.as_str().to_owned()));
        self.duration("settle", rule.settle);
        self.duration("settle-max", rule.settle_max);
        self.duration("min-interval", rule.min_interval);
        self.list("on-failure", rule.on_failure.iter().map(|step| word(&STEPS, *step).to_owned()));
        // Where podnudge publishes, it knows what the application can have read.
        if rule.publish.is_none() {
            self.text("on-start", word(&ON_STARTS, rule.on_start));
        }
        self.hold(&rule.hold);
        self.0.push_str("\n[rule.jitter]\n");
        self.duration("window", rule.jitter.window);
        self.text("by", word(&JITTER_BYS, rule.jitter.by));
        self.0.push_str("\n[rule.retry]\n");
        self.duration("first", rule.retry.first);
        self.duration("max", rule.retry.max);
        self.value("attempts", &Value::from(rule.retry.attempts));
        rule.checks.iter().for_each(|check| self.check(check));
        if let Some(publish) = &rule.publish {
            self.publish(publish);
        }
        self.target(&rule.target);
        rule.actions.iter().for_each(|action| self.action(action, rule.restart));
        if rule.on_failure.contains(&Step::Restart) {
            self.0.push_str("\n[rule.restart]\n");
            self.restart(rule.restart);
        }
        self.verify(&rule.verify, &rule.actions);
    }

    fn check(&mut self, check: &Check) {
        self.0.push_str("\n[[rule.check]]\n");
        if !check.keys.is_empty() {
            self.list("keys", check.keys.iter().map(|glob| glob.as_str().to_owned()));
        }
        match &check.condition {
            Condition::NotEmpty => self.value("not-empty", &Value::from(true)),
            Condition::RequiredKeys(keys) => self.list("required-keys", keys.iter().cloned()),
            Condition::MaxBytes(most) => {
                self.value("max-bytes", &Value::from(i64::try_from(*most).unwrap_or(i64::MAX)));
            }
            Condition::Syntax(syntax) => self.text("syntax", word(&SYNTAXES, *syntax)),
            Condition::Exec(exec) => {
                self.list("exec", exec.arguments.iter().cloned());
                self.duration("timeout", exec.timeout);
            }
            Condition::Http(http) => {
                self.text("http", http.endpoint.url.as_str());
                self.text("method", http.method.as_str());
                self.text("content-type", &String::from_utf8_lossy(http.content_type.as_bytes()));
                self.duration("timeout", http.endpoint.timeout);
                self.expect(&http.expect);
                self.endpoint(&http.endpoint);
            }
        }
    }

    fn hold(&mut self, hold: &Hold) {
        self.0.push_str("\n[rule.hold]\n");
        if let Some(path) = &hold.pause_file {
            self.path("pause-file", path);
        }
        if let Some(key) = &hold.pause_key {
            self.text("pause-key", key);
        }
        if let Some(window) = &hold.window {
            self.text("window", &window.text);
            self.text("time-zone", &window.zone_text);
        }
        self.value("approve", &Value::from(hold.approve));
    }

    fn publish(&mut self, publish: &Publish) {
        self.0.push_str("\n[rule.publish]\n");
        self.path("dir", &publish.dir);
        self.value("keep", &Value::from(publish.keep));
        match publish.mode {
            Some(mode) => self.text("mode", &format!("{mode:04o}")),
            None => self.line(format_args!("# mode: as in the volume")),
        }
        for (key, id) in [("uid", publish.uid), ("gid", publish.gid)] {
            if let Some(id) = id {
                self.value(key, &Value::from(id));
            }
        }
        self.value("rollback", &Value::from(publish.rollback));
    }

    fn target(&mut self, target: &Target) {
        self.0.push_str("\n[rule.target]\n");
        match &target.by {
            TargetBy::Mount => self.line(format_args!("# the process that mounts what is watched")),
            TargetBy::Process(name) => self.text("process", name),
            TargetBy::Exe(path) => self.path("exe", path),
            TargetBy::Cmdline(regex) => self.text("cmdline", regex.as_str()),
            TargetBy::Pidfile(path) => self.path("pidfile", path),
        }
        if let Some(uid) = target.uid {
            self.value("uid", &Value::from(uid));
        }
        self.value("all", &Value::from(target.all));
        self.duration("wait", target.wait);
    }

    fn action(&mut self, action: &Action, restart: Restart) {
        self.0.push_str("\n[rule.");
        self.0.push_str(action.name());
        self.0.push_str("]\n");
        match action {
            Action::Signal(action) => {
                let name = action.signal.as_str();
                self.text("name", name.strip_prefix("SIG").unwrap_or(name));
                self.value("allow-unhandled", &Value::from(action.allow_unhandled));
            }
            Action::Http(action) => {
                self.text("url", action.endpoint.url.as_str());
                self.text("method", action.method.as_str());
                self.duration("timeout", action.endpoint.timeout);
                match &action.body {
                    Body::Empty => {}
                    Body::Text(text) => self.text("body", text),
                    Body::File(path) => self.path("body-file", path),
                }
                self.expect(&action.expect);
                self.endpoint(&action.endpoint);
            }
            Action::Exec(program) => {
                self.list("argv", program.arguments.iter().cloned());
                self.duration("timeout", program.timeout);
            }
            Action::Command(command) => {
                self.command(command);
                self.duration("timeout", command.timeout);
            }
            Action::Restart => self.restart(restart),
        }
    }

    fn restart(&mut self, Restart { grace, budget }: Restart) {
        self.duration("grace", grace);
        self.value("most", &Value::from(budget.most));
        self.duration("within", budget.within);
    }

    fn command(&mut self, command: &SocketCommand) {
        self.text("socket", &command.address.to_string());
        self.text("send", &command.send);
        self.text("answer-matches", command.matches.as_str());
    }

    fn verify(&mut self, verify: &Verify, actions: &[Action]) {
        self.0.push_str("\n[rule.verify]\n");
        if actions.iter().any(Action::needs_process) {
            self.duration("alive-for", verify.alive_for);
        }
        self.duration("timeout", verify.timeout);
        verify.proofs.iter().for_each(|proof| self.proof(proof));
    }

    fn proof(&mut self, proof: &ProofBy) {
        match proof {
            ProofBy::Http(proof) => {
                self.text("http", proof.endpoint.url.as_str());
                self.expect(&proof.expect);
                for key in BODY_PROOFS {
                    let said = proof.bodies.iter().map(body_proof);
                    let mut said = said.filter(|(of, _)| *of == key).map(|(_, value)| value);
                    match (said.next(), said.next()) {
                        (None, _) => {}
                        (Some(one), None) => self.value(key, &one),
                        (Some(one), Some(other)) => {
                            let all = [one, other].into_iter().chain(said).collect();
                            self.value(key, &Value::Array(all));
                        }
                    }
                }
                self.endpoint(&proof.endpoint);
            }
            ProofBy::ChildrenNewer => self.value("children-newer", &Value::from(true)),
            ProofBy::Socket(proof) => {
                self.command(proof);
                self.duration("socket-timeout", proof.timeout);
            }
            ProofBy::Exec(proof) => {
                self.list("exec", proof.arguments.iter().cloned());
                self.duration("exec-timeout", proof.timeout);
            }
        }
    }

    fn expect(&mut self, statuses: &[u16]) {
        if statuses.is_empty() {
            self.line(format_args!("# expect: any status from 200 to 299"));
        } else {
            let statuses = statuses.iter().map(|&status| Value::from(i64::from(status)));
            self.value("expect", &Value::Array(statuses.collect()));
        }
    }

    fn endpoint(&mut self, endpoint: &Endpoint) {
        if let Some(path) = &endpoint.unix_socket {
            self.path("unix-socket", path);
        }
        if !endpoint.headers.is_empty() {
            let text = |bytes| Value::from(String::from_utf8_lossy(bytes).into_owned());
            let headers = endpoint.headers.iter();
            let headers = headers.map(|(name, value)| (name.to_string(), text(value.as_bytes())));
            self.value("headers", &Value::Table(headers.collect()));
        }
        match &endpoint.auth {
            None => {}
            Some(Auth::Bearer { token_file }) => self.path("bearer-file", token_file),
            Some(Auth::Basic { username, password_file }) => {
                let username = ("username".to_owned(), Value::from(username.as_str()));
                let password = ("password-file".to_owned(), Value::from(text_of(password_file)));
                self.value("basic", &Value::Table([username, password].into_iter().collect()));
            }
        }
        if let Some(tls) = &endpoint.tls {
            self.path("ca-file", &tls.ca_file);
            if let Some(client) = &tls.client {
                self.path("cert-file", &client.cert_file);
                self.path("key-file", &client.key_file);
            }
        }
    }

    fn text(&mut self, key: &str, text: &str) {
        self.value(key, &Value::from(text));
    }

    fn path(&mut self, key: &str, path: &Path) {
        self.value(key, &Value::from(text_of(path)));
    }

    fn duration(&mut self, key: &str, duration: Duration) {
        self.text(key, &humantime::format_duration(duration).to_string());
    }

    fn list(&mut self, key: &str, texts: impl Iterator<Item = String>) {
        self.value(key, &Value::Array(texts.map(Value::from).collect()));
    }

    fn value(&mut self, key: &str, value: &Value) {
        self.line(format_args!("{key} = {value}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        _ = writeln!(self.0, "{line}");
    }
}

/// The key and the value of what a body must say.
fn body_proof(proof: &BodyProof) -> (&'static str, Value) {
    let pair = |(first, of): (&str, &String), value: Value| {
        let first = (first.to_owned(), Value::from(of.as_str()));
        Value::Table([first, ("value".to_owned(), value)].into_iter().collect())
    };
    match proof {
        BodyProof::Matches(regex) => ("body-matches", Value::from(regex.as_str())),
        BodyProof::JsonGrew(pointer) => ("json-grew", Value::from(pointer.as_str())),
        BodyProof::JsonChanged(pointer) => ("json-changed", Value::from(pointer.as_str())),
        BodyProof::JsonEquals(pointer, value) => {
            ("json-equals", pair(("pointer", pointer), scalar(value)))
        }
        BodyProof::JsonContains(pointer, value) => {
            ("json-contains", pair(("pointer", pointer), scalar(value)))
        }
        BodyProof::MetricGrew(name) => ("metric-grew", Value::from(name.as_str())),
        BodyProof::MetricEquals(name, value) => {
            ("metric-equals", pair(("name", name), Value::from(*value)))
        }
    }
}

fn scalar(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Text(text) => Value::from(text.as_str()),
        Scalar::Number(number) => Value::from(*number),
        Scalar::Truth(truth) => Value::from(*truth),
    }
}

/// Paths come from TOML or from options that were checked to be UTF-8: nothing is lost.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, of)| *of == value).map_or("", |(word, _)| word)
}
