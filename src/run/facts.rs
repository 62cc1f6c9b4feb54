//! Reports what happens to the rules: to the log, as Events, and to the history of changes.

use super::agent::{Agent, RuleState};
#[cfg(feature = "page")]
use super::clock;
use crate::report;
#[cfg(any(feature = "compat", feature = "page"))]
use podnudge_core::event::Acted;
use podnudge_core::event::RuleId;
use podnudge_core::fact::Fact;
#[cfg(feature = "page")]
use podnudge_core::history::History;

/// What is to be reported, and what is remembered of it.
#[derive(Default)]
pub(super) struct Facts {
    /// To be logged when all other commands are done.
    pub(super) pending: Vec<(RuleId, Fact)>,
    #[cfg(feature = "page")]
    pub(super) history: History,
}

impl Agent {
    /// Remembers what has become of an action.
    #[cfg(any(feature = "compat", feature = "page"))]
    pub(super) fn note_attempt(&mut self, rule: RuleId, acted: &Acted) {
        #[cfg(feature = "compat")]
        self.count_attempt(rule, acted);
        #[cfg(feature = "page")]
        self.facts.history.acted(clock::now().wall, rule, acted);
    }

    /// Logs what the core has reported. Writing a line takes longer than sending a signal.
    pub(super) fn log_facts(&mut self) {
        for (rule, fact) in std::mem::take(&mut self.facts.pending) {
            self.event_of_fact(rule, &fact);
            if let Some(RuleState { config, digests, .. }) = self.rules.get(rule.0) {
                let state_dir = self.config.agent.state_dir.as_deref();
                let path = |volume| self.display_path(volume);
                report::fact(&config.name, digests.naming, &fact, state_dir, path);
            }
            if matches!(fact, Fact::Applied(..)) {
                self.retry_preset_check(rule);
            }
        }
    }
}
