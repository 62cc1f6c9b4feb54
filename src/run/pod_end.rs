//! The end of podnudge for a rule that restarts the whole pod.

use super::agent::{Agent, Done, RuleState};
use super::clock;
use crate::state::StateDir;
use crate::volume::mounts;
use podnudge_config::Action;
use podnudge_core::clock::Moment;
use podnudge_core::event::{Acted, Event, RuleId};
use podnudge_core::reason::Reason;

/// podnudge ends for a rule that restarts its pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    rule: RuleId,
    code: u8,
    /// Until then, it may first tell the other replicas of content that failed.
    pub(super) until: Moment,
    /// From then on, another replica may have its slot.
    before: Option<Moment>,
}

impl Agent {
    /// Why podnudge must not end for this rule, if so: the next podnudge would not know why it was started.
    pub(super) fn why_not_end(&self, rule: RuleId) -> Option<Reason> {
        let ends = self.rule(rule)?.actions.iter().any(|action| action.pod_exit_code().is_some());
        let path = self.config.agent.state_dir.as_deref().filter(|_| ends)?;
        if mounts::is_in_pod() && mounts::is_on_root(path) {
            let reason =
                Reason::new("`state-dir` is not on a volume, and is lost when podnudge ends");
            return Some(reason.hint("mount an emptyDir there"));
        }
        self.state.as_ref().and_then(StateDir::failure)
    }

    /// Ends podnudge with the rule's exit code when all that was queued for writing is saved, unless it is `before`
    /// by then.
    pub(super) fn end_pod(&mut self, rule: RuleId, before: Option<Moment>) {
        let state = self.state.clone();
        self.queue_write(rule, move |config| {
            let failure = state.as_ref().and_then(StateDir::failure);
            match (config.actions.iter().find_map(Action::pod_exit_code), failure) {
                (Some(code), None) => Done::MayEnd(rule, code, before),
                (_, failure) => {
                    let reason = failure.unwrap_or(Reason::new("the rule has no exit code"));
                    Done::Event(Event::Acted(rule, Acted::Refused(reason)))
                }
            }
        });
    }

    /// podnudge ends with this exit code as soon as the other replicas know what failed here.
    pub(super) fn end_with(&mut self, rule: RuleId, code: u8, before: Option<Moment>) {
        let until = clock::now().mono.after(self.config.agent.grace);
        self.ending = Some(Ending { rule, code, until, before });
    }

    /// Does not end for a rule any more that has lost its slot: what precedes the end may have taken long, and podnudge
    /// may have been suspended meanwhile. Returns whether that is so.
    pub(super) fn give_up_late_end(&mut self) -> bool {
        let is_late =
            |ending: &mut Ending| ending.before.is_some_and(|before| clock::now().mono >= before);
        let Some(Ending { rule, .. }) = self.ending.take_if(is_late) else { return false };
        let reason = Reason::new("the slot of this rule expired before podnudge ended");
        self.handle_event(Event::Acted(rule, Acted::Refused(reason)));
        true
    }

    /// The exit code, if podnudge ends now: checks that run do not count then.
    pub(super) fn ended_for_pod(&mut self) -> Option<u8> {
        let Ending { code, until, .. } = self.ending?;
        if self.api.is_telling() && clock::now().mono < until {
            return None;
        }
        self.rules.iter_mut().for_each(RuleState::stop);
        Some(code)
    }
}
