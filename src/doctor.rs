//! `podnudge doctor`: everything that podnudge does short of acting, once, for each rule.
//!
//! Reads `/proc`, and looks for the volumes and the programs of the rules. Changes nothing.

use std::fmt::Write as _;

use serde::Serialize;

use crate::config::{Config, Rule};
use crate::core::actions;
use crate::core::preflight::Problem;
use crate::preflight::{choose_preset, preflight};
use crate::process::{Context, find, names};
use crate::reason::Reason;
use crate::shown;
use crate::volume::mounts;

/// What was found about one rule.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// The kinds of its actions.
    pub action: String,
    /// The target processes, if they were found.
    pub target: Option<String>,
    /// The watched paths that do not exist.
    pub missing_volumes: Vec<String>,
    /// What would prevent the actions of the rule.
    pub problems: Vec<Problem>,
    /// What is wrong with its volumes or its preset.
    pub warnings: Vec<Reason>,
}

impl Finding {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.missing_volumes.is_empty() && self.problems.is_empty() && self.warnings.is_empty()
    }
}

/// Examines each rule.
#[must_use]
pub fn examine(config: &Config) -> Vec<Finding> {
    let context = Context::new();
    config.rules.iter().map(|rule| examine_rule(&context, rule)).collect()
}

fn examine_rule(context: &Context, rule: &Rule) -> Finding {
    let paths = &rule.settings.watch;
    let mut warnings: Vec<Reason> =
        paths.iter().filter_map(|path| mounts::subpath_warning(path)).collect();
    let chosen = match choose_preset(context, rule) {
        Some(Ok((chosen, _))) => Some(chosen),
        Some(Err(reason)) => {
            warnings.push(reason);
            None
        }
        None => None,
    };
    let rule = chosen.as_ref().unwrap_or(rule);
    let target = rule.names_process().then(|| find(context, rule)).and_then(Result::ok);
    let missing = paths.iter().filter(|path| !path.exists());
    Finding {
        rule: rule.name.clone(),
        action: actions(rule),
        target: target.map(|targets| names(&targets)),
        missing_volumes: missing.map(|path| shown::path(path)).collect(),
        problems: preflight(context, rule),
        warnings,
    }
}

/// The findings for people.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let state = if finding.is_fine() { "nothing is wrong" } else { "something is wrong" };
        let target = finding.target.as_deref().unwrap_or("none found");
        let mut row = |name: &str, value: &str| _ = writeln!(text, "{name:<10} {value}");
        row(&format!("{}:", finding.rule), state);
        row("  action:", &finding.action);
        row("  target:", target);
        for path in &finding.missing_volumes {
            row("  problem:", &format!("nothing exists at the watched path {path}"));
            row("     hint:", "mount the volume in podnudge's container, too, at this path");
        }
        let problems = finding.problems.iter().map(|problem| &problem.reason);
        for Reason { message, hint } in problems.chain(&finding.warnings) {
            row("  problem:", message);
            if let Some(hint) = hint {
                row("     hint:", hint);
            }
        }
    }
    text
}
