//! The whole file, and the configuration made from it. Pure.

use std::path::Path;

use super::action::Action;
use super::agent::Agent;
use super::cluster::Cluster;
use super::define::Section;
use super::limit;
use super::overlay::{Override, overlay, remove_proofs};
use super::prelude::*;
use super::preset::{self, Unresolved};
use super::problem::{Origin, Problem, Problems, Report};
use super::rule::{self, Rule, RuleSettings};
use super::settings::{self, Settings, page};
use super::short;
use super::tree;
use super::write::Page;
use super::yaml;
use podnudge_core::week::Zones;

settings! {
    /// The file.
    pub struct File = ""; {
        /// Settings of podnudge itself.
        agent: Agent = table();
        /// How to reach the Kubernetes API.
        cluster: Option<Cluster> = optional_table();
        /// The rules.
        rule: Vec<RuleSettings> = tables();
    }
}

/// The definition of the whole file.
pub const FILE: &Section = <File as Settings>::SECTION;

/// The whole effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Settings of podnudge itself.
    pub agent: Agent,
    /// How to reach the Kubernetes API; `None` if nothing needs it.
    pub cluster: Option<Cluster>,
    /// At least one rule, in the order of the file; names are unique.
    pub rules: Vec<Rule>,
}

/// A configuration that was made from the options of another program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Translated {
    /// The text of the file.
    pub text: String,
    /// The options that parts of it come from, which problems name.
    pub origins: Vec<Origin>,
}

/// Makes the configuration from the text of the file (empty if there is none) and the settings that take
/// precedence. `bundle` is the system's CA bundle, for https without `ca-file`. Time zones by name are
/// unknown. Pure.
///
/// # Errors
///
/// All problems at once.
pub fn parse(
    file_name: &str,
    text: &str,
    overrides: &[Override],
    bundle: Option<&Path>,
) -> Result<(Config, Vec<Problem>), Problems> {
    parse_with_zones(file_name, text, &[], overrides, bundle, &|_| None)
}

/// Makes the configuration as [`parse`] does, with time zones: `zones` returns the content of the file for a
/// name in their database. `origins` are the options of another program that parts of the text come from.
///
/// # Errors
///
/// All problems at once.
pub fn parse_with_zones(
    file_name: &str,
    text: &str,
    origins: &[Origin],
    overrides: &[Override],
    bundle: Option<&Path>,
    zones: Zones<'_>,
) -> Result<(Config, Vec<Problem>), Problems> {
    let mut report = Report::new(FILE, file_name, text, zones, bundle);
    report.origins = origins;
    report.is_yaml = yaml::is_yaml(file_name, text);
    let read = if report.is_yaml { yaml::read } else { tree::read };
    let config = read(text, &report).and_then(|mut root| {
        short::write_out(&mut root, FILE);
        overlay(&mut root, overrides, &report);
        let unresolved = preset::merge(&mut root, &report);
        remove_proofs(&mut root, overrides);
        let root_place = Place::root(&report);
        let file = settings::read(root_place.clone(), root)?;
        resolve(file, unresolved, &root_place)
    });
    report.finish(config)
}

/// `None` only after a problem was reported.
fn resolve(
    mut file: File,
    unresolved: Vec<Option<Unresolved>>,
    root: &Place<'_>,
) -> Option<Config> {
    rule::validate_all(&mut file.rule, root);
    let rule = |(settings, unresolved): (RuleSettings, Option<Unresolved>)| {
        let place = root.at_path(&settings.path);
        Some(Rule { unresolved, ..Rule::new(settings, &place, &file.agent)? })
    };
    let cluster = cluster(&file, root);
    let rules: Vec<Option<Rule>> = file.rule.into_iter().zip(unresolved).map(rule).collect();
    let rules = rules.into_iter().collect::<Option<_>>()?;
    Some(Config { agent: file.agent, cluster, rules })
}

/// How to reach the Kubernetes API, if the file says so or a rule needs it.
fn cluster(file: &File, root: &Place<'_>) -> Option<Cluster> {
    let evicts = file.rule.iter().filter(|rule| rule.evicts());
    let evicts = evicts.map(|rule| (root.at_path(&rule.path).inner("restart"), "what"));
    let users = file.rule.iter().filter_map(|rule| {
        let limit = rule.limit.as_ref().filter(|limit| limit.lease.is_some())?;
        Some((root.at_path(&rule.path).inner("limit"), limit))
    });
    limit::validate_all(users.clone());
    let drains = file.rule.iter().filter_map(|rule| {
        let _ = rule.drain.as_ref().filter(|drain| !drain.services.is_empty())?;
        Some((root.at_path(&rule.path).inner("drain"), "services"))
    });
    let eager = file.cluster.as_ref().filter(|cluster| cluster.eager_sync);
    let eager = eager.map(|_| (root.inner("cluster"), "eager-sync"));
    let events = file.cluster.as_ref().filter(|cluster| cluster.events);
    let events = events.map(|_| (root.inner("cluster"), "events"));
    let users = users.map(|(place, _)| (place, "lease")).chain(eager).chain(events);
    let users = users.chain(evicts).chain(drains);
    let mut users = users.peekable();
    let is_used = users.peek().is_some();
    let given = file.cluster.clone();
    let cluster = given.or_else(|| is_used.then(settings::defaults).flatten())?;
    cluster.validate_with(&root.inner("cluster"), users);
    Some(cluster)
}

/// The effective configuration as a file: every setting, with the defaults filled in. Parsing it gives
/// the same configuration again. It contains no secrets, because those are in separate files.
#[must_use]
pub fn effective(config: &Config) -> String {
    let mut file = Page::default();
    file.tables("agent", Agent::SECTION, vec![page(&config.agent)]);
    file.tables("cluster", Cluster::SECTION, config.cluster.iter().map(page).collect());
    let rules = config.rules.iter().map(|rule| {
        let mut rule_page = page(&rule.settings);
        let order: Vec<&str> = rule.actions.iter().map(Action::name).collect();
        rule_page.sort_actions(&order);
        rule_page
    });
    file.tables("rule", RuleSettings::SECTION, rules.collect());
    file.text()
}
