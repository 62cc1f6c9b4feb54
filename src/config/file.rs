//! The whole file, and the configuration that it makes. Pure.

use std::path::Path;

use super::agent::Agent;
use super::define::{Section, Settings};
use super::place::Place;
use super::problem::{Problem, Problems, Report};
use super::raw::{self, Overrides};
use super::rule::{self, Rule, RuleSettings};
use super::table;
use super::write::Page;
use crate::week::Zones;

settings! {
    /// The file.
    pub struct File = ""; {
        /// What concerns podnudge itself.
        agent: Agent = table;
        /// The rules.
        rule: Vec<RuleSettings> = tables;
    }
}

/// All that the file may hold.
pub const FILE: &Section = <File as Settings>::SECTION;

/// The whole effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What concerns podnudge itself.
    pub agent: Agent,
    /// At least one rule, in the order of the file; names are unique.
    pub rules: Vec<Rule>,
}

/// Makes the configuration from the file's text (empty without one) and from what goes before
/// it. `bundle` is the system's CA bundle, for https without `ca-file`. No time zone is known by
/// its name. Pure.
///
/// # Errors
///
/// All problems at once.
pub fn parse(
    file_name: &str,
    text: &str,
    overrides: &Overrides,
    bundle: Option<&Path>,
) -> Result<(Config, Vec<Problem>), Problems> {
    parse_with_zones(file_name, text, overrides, bundle, &|_| None)
}

/// The same, with the time zones of the system.
pub(super) fn parse_with_zones(
    file_name: &str,
    text: &str,
    overrides: &Overrides,
    bundle: Option<&Path>,
    zones: Zones<'_>,
) -> Result<(Config, Vec<Problem>), Problems> {
    let report = Report::new(file_name, text, zones, bundle);
    let config = raw::read(text, &report).and_then(|mut root| {
        raw::overlay(&mut root, overrides, FILE, &report);
        let root_place = Place::root(&report);
        let file = table::read(root_place.clone(), FILE, root)?;
        decide(file, &root_place)
    });
    report.judge(config)
}

/// `None` only after a problem was reported.
fn decide(mut file: File, root: &Place<'_>) -> Option<Config> {
    rule::judge_all(&mut file.rule, root);
    let rule = |settings: RuleSettings| {
        let place = root.elsewhere(&settings.path);
        Rule::new(settings, &place, &file.agent)
    };
    let rules: Vec<Option<Rule>> = file.rule.into_iter().map(rule).collect();
    Some(Config { agent: file.agent, rules: rules.into_iter().collect::<Option<_>>()? })
}

/// The effective configuration as a file: every setting, with the defaults filled in. Reading it
/// gives the same configuration again. No secret is in it: those are in files of their own.
#[must_use]
pub fn effective(config: &Config) -> String {
    let mut page = Page::default();
    page.table(Page::of(&config.agent), Agent::SECTION);
    for rule in &config.rules {
        let mut table = Page::of(&rule.settings);
        table.order(&rule.settings.order);
        page.table(table, RuleSettings::SECTION);
    }
    page.text()
}
