//! Counts reloads as prometheus-config-reloader does, for `reloader-metrics`: each attempt, and whether it
//! failed.

use super::agent::Agent;
use podnudge_core::event::{Acted, RuleId};
use podnudge_core::fact::Fact;
use podnudge_core::status::{Reloads, State, Status};

impl Agent {
    /// Counts an attempt.
    pub(super) fn count_attempt(&mut self, rule: RuleId, acted: &Acted) {
        let Some(reloads) = self.reloads_of(rule) else { return };
        match acted {
            Acted::Sent(_) | Acted::Accepted(_) | Acted::Restarted(_) => {
                reloads.settle();
                reloads.attempts += 1;
                reloads.is_open = true;
            }
            Acted::Failed(_) | Acted::Declined(_) | Acted::Absent(_) | Acted::Refused(_) => {
                reloads.settle();
                reloads.attempts += 1;
                reloads.fail();
            }
            _ => {}
        }
    }

    /// Counts the evidence that an attempt was successful.
    pub(super) fn count_success(&mut self, rule: RuleId, fact: &Fact) {
        if let Fact::Applied(..) | Fact::Delivered(..) = fact
            && let Some(reloads) = self.reloads_of(rule)
        {
            reloads.is_open = false;
            reloads.has_failed = false;
        }
    }

    /// The counts for the metrics, where these are asked for.
    pub(super) fn reloads(&mut self, status: &Status) -> Option<Reloads> {
        let mut sum = self.config.agent.reloader_metrics.then(Reloads::default)?;
        for (reloads, rule) in self.counted.reloads.iter_mut().zip(&status.rules) {
            if !matches!(rule.state, State::Acting | State::Verifying) {
                reloads.settle();
            }
            sum.attempts += reloads.attempts;
            sum.failed += reloads.failed;
            sum.has_failed |= reloads.has_failed;
        }
        Some(sum)
    }

    fn reloads_of(&mut self, RuleId(rule): RuleId) -> Option<&mut Reloads> {
        let all = &mut self.counted.reloads;
        all.resize_with(self.rules.len(), Reloads::default);
        all.get_mut(rule)
    }
}
