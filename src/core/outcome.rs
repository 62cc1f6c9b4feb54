//! How a delivery went, and what follows: the answers to [`Command::Act`] and
//! [`Command::Verify`].

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff;
use super::delivery::{Attempt, Phase, Verification};
use super::event::{Acted, Alive, Command, Proof, Verified};
use super::fact::Fact;
use super::rule::Rule;
use super::status::{Delivery, State};
use crate::clock::{Moment, Now};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// Between two looks for a target that is not there: at first, and at most.
const TARGET_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Between two looks for the proof: at first, and at most.
const PROOF_POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How an action went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// It did not reach the application, as far as one can tell.
    Undelivered,
    /// There is no proof that the application took it.
    NotTaken,
    /// The application said that it does not accept.
    Declined,
}

impl Rule {
    pub(super) fn acted(&mut self, now: Now, acted: Acted, out: &mut VecDeque<Command>) {
        let Phase::Acting(attempt) = &self.phase else { return };
        let attempt = attempt.clone();
        let digest = attempt.digest();
        match acted {
            Acted::Sent(to) => {
                self.say(Fact::Sent(digest, to), out);
                self.verify(now.mono, attempt, Delivery::Sent);
            }
            Acted::Accepted(answer) => {
                self.say(Fact::Accepted(digest, answer), out);
                self.verify(now.mono, attempt, Delivery::Accepted);
            }
            Acted::Restarted(names) => {
                self.say(Fact::Restarted(digest, names), out);
                self.restarted(now.mono, &attempt);
                self.verify(now.mono, attempt, Delivery::Sent);
                // It takes its time until somebody starts it anew.
                if let Phase::Verifying(verification) = &mut self.phase {
                    let anew = now.mono.after(self.policy.target_wait);
                    verification.deadline = verification.deadline.max(anew);
                }
            }
            Acted::Fresh(target) => {
                self.say(Fact::Fresh(digest, target), out);
                self.counters.fresh += 1;
                if self.reads_volumes() {
                    self.runs(now, digest, out);
                } else {
                    // Only what is verified can be gone back to.
                    self.begin_verification(now.mono, attempt, true);
                }
            }
            Acted::Absent(reason) => {
                self.look.doubt_again(&attempt.doubts);
                self.target_absent(now, attempt, reason, out);
            }
            Acted::Failed(reason) => {
                self.last_action = Some(now.mono);
                self.failed(now, attempt, Failure::Undelivered, reason, out);
            }
            Acted::Declined(reason) => {
                self.last_action = Some(now.mono);
                self.failed(now, attempt, Failure::Declined, reason, out);
            }
            Acted::Refused(reason) => {
                self.counters.actions_refused += 1;
                self.look.doubt_again(&attempt.doubts);
                self.refused(now.mono, attempt, reason, out);
            }
        }
        self.reconcile(now, out);
    }

    pub(super) fn verified(&mut self, now: Now, verified: Verified, out: &mut VecDeque<Command>) {
        let Phase::Verifying(verification) = &self.phase else { return };
        let attempt = verification.attempt.clone();
        let (disk, digest) = (attempt.disk, attempt.digest());
        let survived = verification.acted_at.after(self.policy.alive_for);
        let is_open = matches!((&verified.alive, &verified.proof), (Alive::Gone(_), _))
            || !matches!(verified.proof, Proof::Pending(_))
            || now.mono < survived;
        if !is_open && self.is_superseded(now, &attempt, out) {
            return self.reconcile(now, out);
        }
        let Phase::Verifying(verification) = &mut self.phase else { return };
        if std::mem::take(&mut verification.has_ended) && !matches!(verified.alive, Alive::Gone(_))
        {
            // It was still there when this look began.
            verification.next_look = Some(now.mono);
            return;
        }
        let is_fresh = verification.is_fresh;
        // Another one would not be of the budget.
        let restarted = attempt.restart || self.policy.is_restart;
        let deadline = verification.deadline;
        match (verified.alive, verified.proof) {
            (Alive::Gone(reason), _) => {
                self.counters.actions_tripped += u64::from(!is_fresh);
                if self.roll_back(now, &attempt, &reason, out) {
                } else if is_fresh || (attempt.back_to.is_some() && !restarted) {
                    // It was not podnudge's doing, or it had read what was taken back, and it may
                    // come back.
                    self.target_absent(now, attempt, reason, out);
                } else {
                    self.say(Fact::Tripped(digest, reason.clone()), out);
                    self.phase = Phase::Tripped { digest: disk.digest, reason };
                }
            }
            (Alive::Replaced, _) => {
                // It takes its time until somebody starts it anew, and then has to survive.
                let anew = now.mono.after(self.policy.target_wait);
                verification.deadline = deadline.max(anew);
                verification.next_look = Some(now.mono.after(PROOF_POLL.0));
            }
            (_, Proof::Given | Proof::NotAsked) if now.mono >= survived => {
                if attempt.back_to.is_some() || self.is_taken_back() {
                    self.say(Fact::RolledBack(digest), out);
                } else {
                    let took = now.wall.since(disk.committed);
                    if !is_fresh {
                        self.counters.actions_applied += 1;
                        self.counters.commit_to_applied.observe(took.as_secs_f64());
                    }
                    self.say(Fact::Applied(digest, took), out);
                }
                self.runs(now, digest, out);
            }
            (_, Proof::Given | Proof::NotAsked) => verification.next_look = Some(survived),
            (_, Proof::Pending(reason)) if now.mono >= deadline => {
                self.failed(now, attempt, Failure::NotTaken, reason, out);
            }
            (_, Proof::Pending(reason)) => {
                let wait = backoff::doubled(PROOF_POLL.0, verification.looks, PROOF_POLL.1);
                verification.looks = verification.looks.saturating_add(1);
                verification.next_look = Some(now.mono.after(wait).min(deadline));
                verification.pending = Some(reason);
            }
        }
        self.reconcile(now, out);
    }

    /// A process that was acted on has ended: that is worth a look, and no time is to be lost.
    pub(super) fn target_ended(&mut self, now: Now) {
        if let Phase::Verifying(verification) = &mut self.phase {
            // A look that is under way may have been too early to see it.
            verification.has_ended = verification.next_look.is_none();
            let next = &mut verification.next_look;
            *next = next.map(|at| at.min(now.mono));
        }
    }

    /// Whether newer content takes the place of what is still waiting for its proof.
    fn is_superseded(&mut self, now: Now, attempt: &Attempt, out: &mut VecDeque<Command>) -> bool {
        let newer = self.look.on_disk().filter(|disk| disk.digest != attempt.disk.digest);
        let Some(newer) = newer else { return false };
        if !self.reads_volumes() {
            return self.replace_if_due(now, newer, out);
        }
        self.say(Fact::Superseded(attempt.digest()), out);
        self.phase = Phase::Idle;
        true
    }

    /// Something was delivered: from now on only a proof tells what the application runs.
    fn verify(&mut self, now: Moment, attempt: Attempt, delivery: Delivery) {
        self.delivery = delivery;
        self.last_action = Some(now);
        self.counters.actions_delivered += 1;
        self.begin_verification(now, attempt, false);
    }

    fn begin_verification(&mut self, now: Moment, attempt: Attempt, is_fresh: bool) {
        self.running = None;
        self.insists = false;
        self.read_until = now.after(self.policy.alive_for);
        let first_look = if self.policy.proof { now } else { now.after(self.policy.alive_for) };
        self.phase = Phase::Verifying(Verification {
            attempt,
            acted_at: now,
            is_fresh,
            deadline: now.after(self.policy.verify_timeout.max(self.policy.alive_for)),
            looks: 0,
            has_ended: false,
            next_look: Some(first_look),
            pending: None,
        });
    }

    /// The application is known to run `digest`, unless it was made to reload while a volume was
    /// missing.
    fn runs(&mut self, now: Now, digest: Digest, out: &mut VecDeque<Command>) {
        // While a volume cannot be read, acting again would not tell more.
        self.read_until = now.mono;
        let is_open = self.look.unreadable().is_none() && self.may_have_reread_unseen();
        let is_known = !self.reads_volumes() || (!self.look.is_missing_a_volume() && !is_open);
        self.running = Some(digest).filter(|_| is_known);
        self.applied = Some((digest, now.wall));
        self.delivery = Delivery::Applied;
        // What was gone on with at start may be at its end before the first look is.
        let is_seen = self.look.on_disk().is_some();
        self.phase = if is_seen { Phase::Idle } else { Phase::Starting };
        // What could not be read is no memory to rely on.
        let certain = self.running.filter(|_| self.look.unreadable().is_none());
        self.remember(now, certain, out);
        self.approve(digest, out);
        if self.look.on_disk().is_some_and(|disk| disk.digest == digest) {
            self.look.settle_doubts();
        }
    }

    fn target_absent(
        &mut self,
        now: Now,
        mut attempt: Attempt,
        reason: Reason,
        out: &mut VecDeque<Command>,
    ) {
        let (since, looks) = attempt.absent.unwrap_or((now.mono, 0));
        attempt.absent = Some((since, looks.saturating_add(1)));
        let is_urgent = self.to_go_back_to(&attempt).is_some();
        // What was there before a failure, and is not now, may have died of what it was told of.
        let patience = if is_urgent && attempt.number > 1 {
            self.policy.target_wait.min(self.policy.verify_timeout)
        } else {
            self.policy.target_wait
        };
        if now.mono >= since.after(patience) {
            let waited = humantime::format_duration(patience);
            let message = format!("no target for {waited}: {}", reason.message);
            let reason = Reason { message, ..reason };
            self.counters.actions_failed += 1;
            // It may end at each start of what is on trial, too soon to be seen.
            if !self.roll_back(now, &attempt, &reason, out) {
                self.refused(now.mono, attempt, reason, out);
            }
            return;
        }
        if !attempt.has_said(State::WaitingForTarget, &reason) {
            self.say(Fact::TargetAbsent(reason.clone()), out);
            attempt.said = Some((State::WaitingForTarget, reason.clone()));
        }
        // A target that dies of what is on trial is there for moments only.
        let looks = if is_urgent { 0 } else { looks };
        let at = now.mono.after(backoff::doubled(TARGET_POLL.0, looks, TARGET_POLL.1));
        self.phase = Phase::TargetAbsent { attempt, at, reason };
    }

    /// An action failed, or its proof did not come: it is repeated, then the target is restarted,
    /// then it is taken back, as far as the rule wants each.
    fn failed(
        &mut self,
        now: Now,
        mut attempt: Attempt,
        failure: Failure,
        reason: Reason,
        out: &mut VecDeque<Command>,
    ) {
        self.running = None;
        attempt.absent = None;
        self.counters.actions_failed += 1;
        // What the application declines would not let it start.
        let may_restart = failure != Failure::Declined && self.policy.restarts_last;
        let repeats = failure == Failure::Undelivered
            || self.policy.retries_first
            || (!may_restart && self.to_go_back_to(&attempt).is_none());
        let is_last = attempt.restart || attempt.number >= self.policy.retry.attempts;
        if !repeats || is_last {
            if may_restart && self.restart_instead(now, &attempt, &reason, out)
                || self.roll_back(now, &attempt, &reason, out)
            {
                return;
            }
            self.say(Fact::GaveUp(attempt.digest(), reason.clone(), attempt.number), out);
            self.phase = Phase::Failed { attempt, at: None, reason };
            return;
        }
        let wait = backoff::wait_after(attempt.number, self.policy.retry);
        let at = self.spaced(now.mono.after(wait));
        self.say(Fact::Retrying(reason.clone(), attempt.number, at.since(now.mono)), out);
        self.phase = Phase::Backoff { attempt, at, reason };
    }

    /// Nothing was sent, because it would be wrong or cannot work as things are. Things may
    /// change without a new digest (a target that is only starting, another pod container), so
    /// the rule looks again at the pace of the slowest retry; each refusal is said once.
    pub(super) fn refused(
        &mut self,
        now: Moment,
        mut attempt: Attempt,
        reason: Reason,
        out: &mut VecDeque<Command>,
    ) {
        if !attempt.has_said(State::Failed, &reason) {
            self.say(Fact::Refused(reason.clone()), out);
            attempt.said = Some((State::Failed, reason.clone()));
        }
        let at = Some(now.after(self.policy.retry.max));
        self.phase = Phase::Failed { attempt, at, reason };
    }
}
