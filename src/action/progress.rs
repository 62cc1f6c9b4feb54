//! Tracks which of a rule's actions are done. Pure, except that it checks whether a process has
//! ended.

use crate::verify::{Baseline, Partial};
use podnudge_core::command::Act;
use podnudge_core::event::{Absence, Acted, Targets};
use podnudge_core::reason::Reason;

/// The actions that are done.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) signalled: Option<Targets>,
    answers: Vec<String>,
}

impl Progress {
    pub(super) fn record(&mut self, acted: Acted) -> Result<(), Acted> {
        match acted {
            Acted::Accepted(answer) => {
                self.answers.push(answer);
                Ok(())
            }
            other => Err(other),
        }
    }

    pub(super) fn to_acted(&self) -> Acted {
        let answers = self.answers.join("; ");
        match &self.signalled {
            Some(targets) if answers.is_empty() => Acted::Sent(targets.clone()),
            Some(targets) => {
                let text = format!("{}; {answers}", targets.text);
                Acted::Sent(Targets { text, ..targets.clone() })
            }
            None => Acted::Accepted(answers),
        }
    }

    /// The result if an action failed. If others were done before it, they count as an attempt, and
    /// the baseline keeps the processes that may end because of them.
    pub(super) fn interrupted(
        self,
        acted: Acted,
        act: &Act,
        baseline: Baseline,
    ) -> Result<(Acted, Baseline), Acted> {
        let signalled =
            self.signalled.iter().map(|targets| format!("signal sent to {}", targets.text));
        let done: Vec<String> = signalled.chain(self.answers.iter().cloned()).collect();
        if done.is_empty() {
            return Err(acted);
        }
        let then = |reason: Reason| {
            let message = format!("{}, then: {}", done.join("; "), reason.message);
            Reason { message, ..reason }
        };
        let acted_before = self.to_acted();
        if baseline.has_ended() {
            return Ok((acted_before, baseline));
        }
        let partial = Partial { digest: act.digest, at: act.at, acted: acted_before };
        let baseline = Baseline { partial: Some(partial), ..baseline };
        let acted = match acted {
            Acted::Absent(Absence { reason, .. })
            | Acted::Refused(reason)
            | Acted::Failed(reason) => Acted::Failed(then(reason)),
            Acted::Declined(reason) => Acted::Declined(then(reason)),
            other => other,
        };
        Ok((acted, baseline))
    }
}
