//! What happens when the volumes of a rule change, in a sentence for each rule: the end of `podnudge check`. Pure.
//!
//! The steps are in the order in which podnudge performs them. The sentences are put together from parts, because a call of
//! `format!` for each step would take kilobytes of the program.

use std::time::Duration;

use podnudge_config::{
    Action, ApproveBefore, Check, Condition, Config, Endpoint, Rule, TargetBy, without_query,
};
use podnudge_core::shown;

/// A sentence for each rule, each on a line of its own.
#[must_use]
pub fn summary(config: &Config) -> String {
    let mut text = String::new();
    for rule in &config.rules {
        if config.rules.len() > 1 {
            push(&mut text, &[&rule.name, ": "]);
        }
        sentence(rule, &mut text);
        // The comma after the last step.
        text.pop();
        text.push('\n');
    }
    text
}

fn sentence(rule: &Rule, text: &mut String) {
    let settings = &rule.settings;
    let mut word = "when ";
    for path in &settings.watch {
        push(text, &[word, &shown::path(path)]);
        word = " or ";
    }
    text.push_str(if settings.watch.len() == 1 { " changes:" } else { " change:" });
    let approval = settings.hold.approve_before;
    if approval == Some(ApproveBefore::Check) {
        step(text, &["wait for an approval"]);
    }
    rule.checks.iter().for_each(|one| check(one, text));
    if let Some(program) = rule.with_check_of_preset().as_ref().and_then(|rule| rule.checks.first())
    {
        check(program, text);
        text.insert_str(text.len() - 1, " if it can run");
    }
    if approval == Some(ApproveBefore::Rollout) {
        step(text, &["wait for an approval"]);
    }
    waits(rule, text);
    if let Some(publish) = &settings.publish {
        step(text, &["publish to ", &shown::path(&publish.dir)]);
    }
    if let Some(expand) = &settings.expand {
        step(text, &["write ", &shown::path(&expand.to)]);
    }
    if rule.actions.is_empty() {
        step(text, &["reload and proof as the preset of the target's program says"]);
    } else {
        actions(rule, text);
        proofs(rule, text);
    }
}

fn check(check: &Check, text: &mut String) {
    match &check.condition {
        Condition::NotEmpty => step(text, &["check that no key is empty"]),
        Condition::RequiredKeys(keys) => {
            step(text, &["check for ", &shown::text(&keys.join(" and "))]);
        }
        Condition::MaxBytes(_) => step(text, &["check the size"]),
        Condition::Syntax(_) => step(text, &["check the syntax"]),
        Condition::Exec(program) => {
            step(text, &["check by ", &shown::program(&program.arguments)]);
        }
        Condition::Http(http) => {
            step(text, &["check by ", http.method.as_str(), " ", &url(&http.endpoint)]);
        }
        Condition::Expands(_) => step(text, &["check that it can be expanded"]),
    }
}

/// What may delay the rollout, besides an approval.
fn waits(rule: &Rule, text: &mut String) {
    let settings = &rule.settings;
    let hold = &settings.hold;
    if hold.pause_file.is_some() || hold.pause_key.is_some() {
        step(text, &["wait while it is paused"]);
    }
    if let Some(window) = &hold.window {
        step(text, &["wait for ", &shown::text(window)]);
    }
    if !settings.jitter.window.is_zero() {
        step(text, &["wait up to ", &time(settings.jitter.window)]);
    }
    if let Some(limit) = &settings.limit {
        step(text, &[if limit.turn.is_some() { "wait for its turn" } else { "wait for a slot" }]);
    }
    if let Some(drain) = &settings.drain {
        step(text, &["leave the Services for ", &time(drain.wait)]);
    }
}

fn actions(rule: &Rule, text: &mut String) {
    let target = target(rule);
    for action in &rule.actions {
        match action {
            Action::Signal(signal) => {
                step(text, &[signal.name.as_str().trim_start_matches("SIG"), " to ", &target]);
            }
            Action::Http(http) => step(text, &[http.method.as_str(), " ", &url(&http.endpoint)]),
            Action::Exec(program) => step(text, &["run ", &shown::program(&program.arguments)]),
            Action::Command(command) => {
                step(text, &["command to ", &shown::text(&command.socket.to_string())]);
            }
            Action::Restart => step(text, &["restart ", &target]),
            Action::RestartPod(_) => step(text, &["restart the pod in place"]),
            Action::Evict(_) => step(text, &["evict the pod"]),
        }
        if action.restarts() {
            // What follows is never performed.
            return;
        }
    }
}

fn target(rule: &Rule) -> String {
    match &rule.settings.target.by {
        TargetBy::Mount => "the process that mounts the volume".to_owned(),
        TargetBy::Process(name) => shown::text(name),
        TargetBy::Exe(path) => shown::path(path),
        TargetBy::Cmdline(regex) => shown::literal(regex.as_str()),
        TargetBy::Pidfile(file) => {
            let mut text = "the process in ".to_owned();
            text += &shown::path(file);
            text
        }
    }
}

fn proofs(rule: &Rule, text: &mut String) {
    let verify = &rule.settings.verify;
    let before = text.len();
    if let Some(url) = &verify.http {
        step(text, &["proof by GET ", &shown::text(without_query(url).as_str())]);
    }
    if verify.children_newer == Some(true) {
        step(text, &["proof by new workers"]);
    }
    if let Some(address) = verify.tls {
        step(text, &["proof by the certificate at ", &address.to_string()]);
    }
    if let Some(socket) = &verify.socket {
        step(text, &["proof by the answer of ", &shown::text(&socket.to_string())]);
    }
    if !verify.exec.is_empty() {
        step(text, &["proof by ", &shown::program(&verify.exec)]);
    }
    if text.len() == before {
        step(text, &["no proof"]);
    }
}

/// Adds a step, and the comma after it.
fn step(text: &mut String, parts: &[&str]) {
    text.push(' ');
    push(text, parts);
    text.push(',');
}

fn push(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
}

fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

fn url(endpoint: &Endpoint) -> String {
    shown::text(without_query(&endpoint.url).as_str())
}
