//! The problems of a rule that its preflights have found, or its rights show.

use std::collections::VecDeque;
use std::time::Duration;

use super::Rule;
use crate::clock::Now;
use crate::command::Command;
use crate::fact::Fact;
use crate::preflight::{Problem, ProblemKind};

/// How long an application may take from its start to the first answer that a proof accepts.
const TIME_TO_ANSWER: Duration = Duration::from_secs(20);

impl Rule {
    /// Handles the answer to [`Command::Preflight`]. During a rollout no new problem with the target
    /// is reported: its outcome says what is wrong, and the target may be absent for a moment. The exception is a proof
    /// that fails after [`TIME_TO_ANSWER`]: the target runs, and the rollout waits for it in vain.
    pub(crate) fn preflight(
        &mut self,
        now: Now,
        mut problems: Vec<Problem>,
        out: &mut VecDeque<Command>,
    ) {
        if self.policy.intake.has_key_filter && self.intake.source().has_no_keys() {
            problems.push(Problem::no_keys());
        }
        if let Some(rollout) = &self.rollout {
            let since = rollout.waits_for_target_since();
            let is_overdue = since.is_some_and(|since| now.mono >= since.after(TIME_TO_ANSWER));
            problems.retain(|Problem { kind, .. }| {
                !kind.may_be_of_rollout()
                    || self.preflight.contains(*kind)
                    || (is_overdue && *kind == ProblemKind::ProofFails)
            });
        }
        let found = self.preflight.found(now.mono, problems);
        self.report_preflight(found, out);
    }

    /// Takes the rights that podnudge's service account lacks.
    pub(crate) fn rights(&mut self, missing: Vec<Problem>, out: &mut VecDeque<Command>) {
        let found = self.preflight.rights(missing);
        self.report_preflight(found, out);
    }

    pub(super) fn report_preflight(
        &mut self,
        (new, solved): (Vec<Problem>, Vec<ProblemKind>),
        out: &mut VecDeque<Command>,
    ) {
        for problem in new {
            self.report(Fact::Preflight(problem), out);
        }
        for kind in solved {
            self.report(Fact::PreflightSolved(kind), out);
        }
    }
}
