//! The end of podnudge for a rule that restarts the whole pod.

use super::agent::{Agent, Done, RuleState};
use crate::config::Action;
use crate::core::event::{Acted, Event, RuleId};
use crate::reason::Reason;
use crate::state::StateDir;
use crate::volume::mounts;

impl Agent {
    /// Why podnudge must not end for this rule, if so: the next podnudge would not know why it was started.
    pub(super) fn why_not_end(&self, rule: RuleId) -> Option<Reason> {
        self.rule(rule)?.settings.restart_pod?;
        let path = self.config.agent.state_dir.as_deref()?;
        if mounts::is_in_pod() && mounts::is_on_root(path) {
            let reason =
                Reason::new("`state-dir` is not on a volume, and is lost when podnudge ends");
            return Some(reason.hint("mount an emptyDir there"));
        }
        self.state.as_ref().and_then(StateDir::failure)
    }

    /// Ends podnudge with the rule's exit code when all that was queued for writing is saved.
    pub(super) fn end_pod(&mut self, rule: RuleId) {
        let state = self.state.clone();
        self.queue_write(rule, move |config| {
            let failure = state.as_ref().and_then(StateDir::failure);
            match (config.actions.iter().find_map(Action::pod_exit_code), failure) {
                (Some(code), None) => Done::MayEnd(code),
                (_, failure) => {
                    let reason = failure.unwrap_or(Reason::new("the rule has no exit code"));
                    Done::Event(Event::Acted(rule, Acted::Refused(reason)))
                }
            }
        });
    }

    /// podnudge ends: checks that run do not count.
    pub(super) fn end_with(&mut self, code: u8) {
        self.rules.iter_mut().for_each(RuleState::stop);
        self.exit_code = Some(code);
    }
}
