//! `podnudge doctor`: everything that podnudge does short of acting, once.
//!
//! Does what the preflight of each rule does, reads the volumes, tries inotify and the admin address,
//! and says what it found. Changes nothing.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::admin::{bind, client};
#[cfg(feature = "cluster")]
use crate::cluster::{self, Api};
use crate::preflight::{Addresses, Stage, preflight, still_starting};
use crate::process::{Context, choose_preset, find, others, why};
use crate::state;
use crate::system::surroundings::Pod;
use crate::volume::scan::Directory;
use crate::volume::watch::Watching;
use crate::volume::{mounts, scan};
use podnudge_config::{Config, Rule};
use podnudge_core::event::{VolumeId, Watch};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// What concerns all rules.
    pub problems: Vec<Problem>,
    /// In the order of the configuration.
    pub rules: Vec<RuleFindings>,
}

/// What was found about one rule.
#[derive(Debug, Serialize)]
pub struct RuleFindings {
    /// The rule's name.
    pub rule: String,
    /// The kinds of its actions.
    pub action: String,
    /// What its proofs are.
    pub proof: String,
    /// One line for each volume.
    pub volumes: Vec<String>,
    /// The target processes, if they were found, and how.
    pub target: Option<String>,
    /// Other processes that could be a target.
    pub others: Option<String>,
    /// What would prevent the actions of the rule.
    pub problems: Vec<Problem>,
}

impl Findings {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.problems.is_empty() && self.rules.iter().all(|rule| rule.problems.is_empty())
    }
}

/// Examines podnudge and each rule.
pub async fn examine(config: &Config, stage: Stage, pod: &Pod) -> Findings {
    let context = Context::new(pod.told_name());
    let volumes = config.rules.iter().map(|rule| rule.settings.watch.len()).sum();
    let mut watched =
        Watched { watching: Watching::new(config.agent.watch, volumes), count: 0, polled: None };
    let mut rules = Vec::new();
    for rule in &config.rules {
        let work_dir = &config.agent.work_dir;
        let mut found = examine_rule(&context, rule, work_dir, stage, &mut watched).await;
        found.problems.extend(pod_unknown(config, rule, pod));
        rules.push(found);
    }
    let polled = watched.polled.map(|reason| polled(config, reason));
    let memory = config.agent.state_dir.as_deref().and_then(state::examine);
    let memory = memory.map(|reason| Problem::new(ProblemKind::StateDirUnusable, reason));
    let problems = port_taken(config).await.into_iter().chain(memory).chain(polled).collect();
    Findings { problems, rules }
}

/// Tries to watch the volumes of all rules.
struct Watched {
    watching: Watching,
    count: usize,
    /// Why a volume cannot be watched.
    polled: Option<Reason>,
}

impl Watched {
    fn watch(&mut self, directories: Vec<Directory>) {
        let volume = VolumeId(self.count);
        self.count += 1;
        if let Some(Watch::Polling(reason)) = self.watching.sync(volume, directories).watch {
            self.polled.get_or_insert(reason);
        }
    }
}

async fn examine_rule(
    context: &Context,
    rule: &Rule,
    work_dir: &Path,
    stage: Stage,
    watched: &mut Watched,
) -> RuleFindings {
    let mut problems = Vec::new();
    let mut volumes = Vec::new();
    let mut keys = 0;
    for path in &rule.settings.watch {
        let shown = shown::path(path);
        let reading = match scan::read(path, &rule.keys) {
            Ok(reading) => reading,
            Err(error) => {
                problems.push(Problem::new(ProblemKind::VolumeUnreadable, error.reason()));
                continue;
            }
        };
        watched.watch(reading.directories);
        let Some(snapshot) = reading.snapshot else {
            let reason = Reason::new(format!("nothing exists at the watched path `{shown}`"));
            let hint = "mount the volume in podnudge's container, too, at this path";
            problems.push(Problem::new(ProblemKind::VolumeMissing, reason.hint(hint)));
            continue;
        };
        let kind = mounts::kind(path).unwrap_or_else(|| "no volume of its own".to_owned());
        volumes.push(format!("{shown}: {kind}; keys: {}", snapshot.keys.len()));
        keys += snapshot.keys.len();
    }
    if problems.is_empty() && keys == 0 && rule.has_key_filter() {
        problems.push(Problem::no_keys());
    }
    // The preflight says why a preset cannot be used.
    let chosen = choose_preset(context, rule).ok().flatten().map(|(chosen, _)| chosen);
    let rule = chosen.as_ref().unwrap_or(rule);
    let targets = rule.names_process().then(|| find(context, rule)).and_then(Result::ok);
    let (found, _) = preflight(context, rule, work_dir, Addresses::default(), stage).await;
    problems.extend(found);
    if problems.is_empty() {
        problems.extend(still_starting(rule, targets.as_deref().unwrap_or_default()));
    }
    RuleFindings {
        rule: rule.name.clone(),
        action: rule.shown_actions().to_string(),
        proof: rule.proof_kinds(),
        volumes,
        target: match &targets {
            Some(targets) => Some(why(context, rule, targets)),
            None if !rule.names_process() => Some("not needed".to_owned()),
            None => None,
        },
        others: targets.and_then(|targets| others(context, rule, &targets)),
        problems,
    }
}

/// Whether the rule evicts a pod that podnudge does not know.
#[cfg(feature = "cluster")]
fn pod_unknown(config: &Config, rule: &Rule, pod: &Pod) -> Option<Problem> {
    let cluster = config.cluster.clone().filter(|_| rule.settings.evicts())?;
    let reason = cluster::unknown_pod(&Api::new(cluster, None).pod(pod.clone()))?;
    Some(Problem::new(ProblemKind::PodUnknown, reason))
}

#[cfg(not(feature = "cluster"))]
fn pod_unknown(_: &Config, _: &Rule, _: &Pod) -> Option<Problem> {
    None
}

/// Tries the admin address. A podnudge that already runs there is no problem.
async fn port_taken(config: &Config) -> Option<Problem> {
    let listen = config.agent.listen();
    let reason = bind::bind(listen).err()?.reason();
    if client::is_podnudge(listen).await {
        return None;
    }
    Some(Problem::new(ProblemKind::PortTaken, reason))
}

fn polled(config: &Config, reason: Reason) -> Problem {
    let every = humantime::format_duration(config.agent.poll);
    let message = format!("podnudge polls every {every}: {}", reason.message);
    Problem::new(ProblemKind::Polled, Reason { message, ..reason })
}

/// The findings for people.
#[must_use]
pub fn text(findings: &Findings) -> String {
    let mut text = String::new();
    for problem in &findings.problems {
        add(&mut text, "problem:", problem, "");
    }
    for found in &findings.rules {
        let state =
            if found.problems.is_empty() { "nothing is wrong" } else { "something is wrong" };
        let mut row = |name: &str, value: &str| _ = writeln!(text, "{name:<10} {value}");
        row(&format!("{}:", found.rule), state);
        for volume in &found.volumes {
            row("  volume:", volume);
        }
        row("  action:", &found.action);
        row("  proof:", &found.proof);
        row("  target:", found.target.as_deref().unwrap_or("none found"));
        if let Some(others) = &found.others {
            row("  others:", others);
        }
        for problem in &found.problems {
            add(&mut text, "problem:", problem, "  ");
        }
    }
    text
}

fn add(text: &mut String, name: &str, problem: &Problem, indent: &str) {
    let Reason { message, hint } = &problem.reason;
    let kind = problem.kind.name();
    _ = writeln!(text, "{indent}{name:<w$} {message} ({kind})", w = 10 - indent.len());
    if let Some(hint) = hint {
        _ = writeln!(text, "{indent}{:<w$} {hint}", "   hint:", w = 10 - indent.len());
    }
}
