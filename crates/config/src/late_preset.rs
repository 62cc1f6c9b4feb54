//! Gives a rule without an action the preset of its target's program, and a rule without checks that of its preset. Pure.

use super::agent::Agent;
use super::check::{self, Check, CheckBy, CheckSettings, Condition};
use super::file::FILE;
use super::hold::ApproveBefore;
use super::place::Place;
use super::preset::{Preset, add};
use super::problem::{At, Report};
use super::program::Program;
use super::risk::Risk;
use super::rule::{Rule, RuleSettings};
use super::settings;
use super::tree::{Node, Value};
use podnudge_core::reason::Reason;

/// How to get a check that can run.
pub const NEEDS_ALL: &str = "watch the directory with the whole configuration; \
    docs/checks.md#a-part-of-a-configuration has a check for a part such as `conf.d`; `check = \"none\"` says that no \
    check is wanted";

impl Rule {
    /// Whether the rule has no action of its own: its target's program determines the preset.
    #[must_use]
    pub fn awaits_preset(&self) -> bool {
        self.unresolved.is_some()
    }

    /// The rule with the actions and proofs of a preset, in place of none.
    ///
    /// # Errors
    /// If its own settings contradict those of the preset.
    pub fn with_preset(&self, preset: &'static Preset) -> Result<Self, Reason> {
        let Some(unresolved) = &self.unresolved else { return Ok(self.clone()) };
        let report = Report::new(FILE, "", "", &|_| None, unresolved.bundle.as_deref());
        let place = Place::root(&report).nth("rule", 0);
        let at = At::Preset(preset.name.clone());
        let mut entries = unresolved.own.0.clone();
        let watch = Node { at: at.clone(), value: Value::Text("/etc".to_owned()) };
        entries.insert("watch".to_owned(), (at, watch));
        add(&mut entries, preset);
        let settings = settings::read::<RuleSettings>(place.clone(), entries);
        let made = settings.zip(settings::defaults::<Agent>()).and_then(|(settings, agent)| {
            let settings = RuleSettings { name: Some(self.name.clone()), ..settings };
            Self::new(settings, &place, &agent)
        });
        let (made, _) = report.finish(made).map_err(|problems| {
            let message =
                format!("the preset `{}` does not fit: {}", preset.name, problems.summary());
            Reason::new(message).hint(format!(
                "set `--preset {}` to see the setting at fault, or set the action yourself",
                preset.name
            ))
        })?;
        let settings = RuleSettings {
            signal: made.settings.signal,
            http: made.settings.http,
            command: made.settings.command,
            retry: made.settings.retry,
            verify: made.settings.verify,
            ..self.settings.clone()
        };
        if let Some(reason) = settings.wrong_body() {
            return Err(reason);
        }
        // The check of an earlier preset, which the rule does not ask for, is not for this one.
        let mut checks =
            if self.may_use_check_of_preset() { Vec::new() } else { self.checks.clone() };
        check::fill(&mut checks, Some(preset))?;
        Ok(Self {
            settings,
            checks,
            actions: made.actions,
            verify: made.verify,
            preset: Some(preset),
            ..self.clone()
        })
    }

    /// The rule with the check of its preset, if it uses that without asking for it.
    #[must_use]
    pub fn with_check_of_preset(&self) -> Option<Self> {
        let preset =
            self.preset.filter(|_| self.may_use_check_of_preset() && self.checks.is_empty())?;
        if preset.check.is_empty() || preset.check_on_request {
            return None;
        }
        let timeout = settings::defaults::<CheckSettings>()?.timeout;
        let program = Program { arguments: preset.check.clone(), timeout };
        let check = Check { keys: Vec::new(), condition: Condition::Exec(program) };
        Some(Self { checks: vec![check], ..self.clone() })
    }

    /// Whether the rule asks for the check of its preset.
    #[must_use]
    pub fn asks_for_check_of_preset(&self) -> bool {
        self.settings.check.iter().any(|check| check.by == Some(CheckBy::Preset))
    }

    /// The file of the first volume that the check of the preset reads, and why the check cannot run without it: as
    /// where only a part of the configuration is watched.
    #[must_use]
    pub fn file_of_check(&self) -> Option<(&'static str, Reason)> {
        let preset = self.preset?;
        let key = preset.check.iter().find_map(|argument| argument.split_once("{dir}/"))?.1;
        let Preset { name, .. } = preset;
        let message =
            format!("the check of the preset `{name}` needs `{key}` in the watched directory");
        Some((key, Reason::new(message).hint(NEEDS_ALL)))
    }

    /// Whether the rule would use the check of its preset, or of the one that it gets, without asking for it: it says
    /// nothing of checks, and needs no approval before content is given to a program.
    #[must_use]
    pub fn may_use_check_of_preset(&self) -> bool {
        self.settings.check.is_empty()
            && self.settings.expand.is_none()
            && self.settings.hold.approve_before != Some(ApproveBefore::Check)
            && !self.settings.accept.contains(&Risk::Unchecked)
            && (self.preset.is_some() || self.awaits_preset())
    }
}

/// Not derived: what is derived is compiled anew in each crate that uses it, and this is 8 KiB.
impl Clone for Rule {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            settings: self.settings.clone(),
            keys: self.keys.clone(),
            checks: self.checks.clone(),
            actions: self.actions.clone(),
            restart: self.restart,
            verify: self.verify.clone(),
            preset: self.preset,
            unresolved: self.unresolved.clone(),
        }
    }
}
