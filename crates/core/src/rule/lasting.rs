//! What a rule saves across a restart of podnudge, and what it takes from an earlier one.
//!
//! What must not happen twice is saved before it is done: the end of the target or of the pod, and a rollback. All else
//! is saved when it has changed (`Rule::remember`). So `Command::Persist` precedes such a command, which the event loop
//! performs after all that is queued for writing. If podnudge is killed in between, `Rule::restore` continues there
//! (`rollout/saved.rs`): a restart that had begun counts in the budget, and a target that started after the content was
//! in place is verified and not restarted again. A rule that publishes also finds its generations and their record
//! (`publish/record.rs`). `crates/core/tests/lasting.rs` kills the core after each command.
//!
//! The jitter's wait, triggers and approvals are forgotten, and without a state directory all of it: `on-start`, the
//! first scan and the age of the target decide again. What was checked, or waits for its checks, and has not passed is
//! remembered apart from this (`checks/attempts.rs`): the first scan takes none of it as a baseline, and no content at
//! all if a record cannot be read.

use std::collections::VecDeque;

use super::{Direction, Found, Policy, Replica, Rollout, Rule, RuleId, Unfinished};
use crate::application::Rate;
use crate::clock::{Moment, Now};
use crate::command::Command;
use crate::intake::OnDisk;
use crate::memory::{Known, Memory, SavedRollout};
use crate::permit::End;
use crate::reason::Reason;
use crate::snapshot::Digest;

impl Rule {
    /// The rule of a podnudge that starts, with what an earlier one has left.
    pub(crate) fn new(
        id: RuleId,
        policy: Policy,
        found: Found,
        replica: Replica,
        now: Now,
    ) -> Self {
        let mut found = found.in_own_pod(&policy);
        let mut rule = Self::before_restore(id, policy, &mut found, replica, now);
        rule.restore(now, found.memory);
        rule
    }

    /// Saves the rule's state if it has changed.
    pub(super) fn remember(&mut self, out: &mut VecDeque<Command>) {
        let memory = self.memory();
        if memory != self.saved.last {
            self.saved.last.clone_from(&memory);
            out.push_back(Command::Persist(self.id, Box::new(memory)));
        }
    }

    fn memory(&self) -> Memory {
        let why = |failed| self.why_rolled_back(failed);
        let rollout = self.rollout.as_ref().and_then(|rollout| rollout.saved(&why));
        let has_rollout = rollout.is_some();
        Memory {
            known: self.saved.known,
            restarts: self.application.rate().restarts().collect(),
            // During a rollout its own times tell, so that an action needs no file of its own.
            last_action: match rollout {
                Some(_) => self.saved.last.last_action,
                None => self.application.rate().last_action(),
            },
            failed: self.application.verdicts().given_up().cloned(),
            rollout,
            ends: self.application.rate().ends(),
            slot: self.saved_slot(),
            halts: self.permit.saved_halts(),
            drained_since: self.permit.drain().began().filter(|_| has_rollout),
            pod: self.saved.pod.clone(),
            paused_until: self.intake.paused_until(),
        }
    }

    /// Why this digest is rolled back. A person may have released it from quarantine meanwhile.
    pub(super) fn why_rolled_back(&self, failed: Digest) -> Reason {
        let reason = self.application.verdicts().quarantine_reason(failed).cloned();
        reason.unwrap_or_else(|| Reason::new("it did not work"))
    }

    /// Takes what an earlier podnudge has saved, and finishes what it left unfinished, whatever is on disk now.
    pub(super) fn restore(&mut self, now: Now, memory: Option<Memory>) {
        let is_known = memory.is_some();
        let memory = memory.unwrap_or_default();
        let saved = memory.rollout.clone();
        *self.application.rate_mut() = Rate::restored(now.mono, &memory);
        if let Some(failed) = memory.failed.clone() {
            self.application.verdicts_mut().give_up(failed);
        }
        self.rollout = match self.application.unfinished(now) {
            _ if self.application.reads_volumes() => saved.and_then(|saved| {
                // Before its action, it passes the gate again.
                let is_open = saved.back.is_none() && memory.known.running.is_none();
                // The first scan finds when it was committed, and whether it is still there.
                let (digest, committed, committed_at) = (saved.digest, now.wall, now.mono);
                let content = OnDisk { digest, committed, committed_at };
                is_open.then(|| self.restored(now, content, Direction::Forward, Some(saved)))
            }),
            Some(Unfinished::Proof(content) | Unfinished::RollBack(content))
                if self.application.verdicts().have_given_up(content.digest) =>
            {
                None
            }
            Some(Unfinished::Proof(content)) => self.unproven(now, content, saved),
            Some(Unfinished::RollBack(content)) => self.rollback(now, content, saved),
            None => None,
        };
        self.intake.pause(memory.paused_until);
        self.saved.known = self.known_in_pod(now, memory.known);
        self.permit.restore(now.mono, memory.slot, &self.policy.permit);
        // Without a record, what is left unfinished may have interrupted the application.
        if let Some(digest) = self.rollout.as_ref().filter(|_| !is_known).map(Rollout::digest) {
            self.interrupted(digest, true);
        }
        if self.rollout.is_none() {
            self.end_use_of_slot(now.mono, End::Unproven);
        }
        self.permit.restore_halts(memory.halts.clone(), &self.policy.permit);
        let content = memory.rollout.as_ref().map(|saved| saved.digest);
        self.restore_drain(now.mono, memory.drained_since, content);
        self.saved.last = memory;
    }

    /// The rollout of published content without a proof. If podnudge was about to roll it back, the rollback.
    fn unproven(
        &mut self,
        now: Now,
        content: OnDisk,
        saved: Option<SavedRollout>,
    ) -> Option<Rollout> {
        let saved = saved.filter(|saved| {
            let failed = saved.back.as_ref().map(|back| back.failed);
            saved.digest == content.digest || failed == Some(content.digest)
        });
        match saved.as_ref().and_then(|saved| saved.back.clone()) {
            Some(back) if back.failed == content.digest => {
                self.application.verdicts_mut().quarantine(back.failed, back.reason);
                let rollback = self.rollback(now, content, saved);
                rollback.or_else(|| Some(Rollout::resumed(content, Direction::Forward, false)))
            }
            Some(back) => {
                let (failed, after_restart) = (back.failed, back.after_restart);
                let direction = Direction::Back { failed, after_restart };
                Some(self.restored(now, content, direction, saved))
            }
            None => Some(self.restored(now, content, Direction::Forward, saved)),
        }
    }

    fn rollback(&self, now: Now, content: OnDisk, saved: Option<SavedRollout>) -> Option<Rollout> {
        let saved = saved
            .filter(|saved| saved.back.as_ref().is_some_and(|back| back.failed == content.digest));
        let after_restart = saved.as_ref().is_some_and(SavedRollout::is_after_restart);
        let (content, direction) = self.application.plan_rollback(content, after_restart)?;
        Some(self.restored(now, content, direction, saved))
    }

    fn restored(
        &self,
        now: Now,
        content: OnDisk,
        direction: Direction,
        saved: Option<SavedRollout>,
    ) -> Rollout {
        let is_known_good = self.application.is_known_good(content.digest);
        let longest =
            self.policy.rollout.retry.max.max(self.application.rate().min_interval(&self.policy));
        match saved {
            Some(saved) => {
                Rollout::restored(saved, content, direction, now, is_known_good, longest)
            }
            None => Rollout::resumed(content, direction, is_known_good),
        }
    }

    /// What to save of what the application runs, after this was found: the new pod may have read something else
    /// than what is verified, and only the first podnudge of the pod can assume that it has not.
    pub(super) fn known_in_pod(&self, now: Now, known: Known) -> Known {
        let is_in_new_pod = self.rollout.as_ref().is_some_and(Rollout::is_in_new_pod);
        if is_in_new_pod && known == Known::default() {
            return Known { at: now.wall, ..known };
        }
        known
    }

    /// Takes over the drain of an earlier podnudge, which has acted only after the pod had left its Services.
    /// `content`: what it was for.
    pub(super) fn restore_drain(
        &mut self,
        now: Moment,
        since: Option<Moment>,
        content: Option<Digest>,
    ) {
        let Some(since) = since else { return };
        match &self.rollout {
            Some(rollout) => {
                let has_acted = rollout.restarted_by_earlier().is_some();
                self.permit.restore_drain(since, now, has_acted, &self.policy.permit);
            }
            None => self.permit.returns_to_services(now, content, &self.policy.permit),
        }
    }
}
