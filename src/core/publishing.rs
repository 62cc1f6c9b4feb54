//! Publishing: what has passed is put where the application reads, just before the action, and
//! taken back where it does not work.
//!
//! The application reads what is published when it starts and when it reloads, and never the
//! volumes. So podnudge knows what it can have read, and need not ask.

use std::collections::VecDeque;

use super::delivery::{Attempt, Phase, Question};
use super::event::{Command, Current, Now, Publication, Published, Reason, RollBack, Standing};
use super::fact::{Basis, Fact};
use super::look::OnDisk;
use super::rule::Rule;
use crate::volume::snapshot::Digest;

impl Rule {
    /// The first complete look, where podnudge publishes: what the application can have read is
    /// what it finds published.
    pub(super) fn first_publication(
        &mut self,
        now: Now,
        disk: OnDisk,
        out: &mut VecDeque<Command>,
    ) {
        let Some(current) = self.published.current else {
            return self.want(now.mono, disk, out);
        };
        let published = OnDisk { digest: current.digest, ..disk };
        let trial = Attempt::first(published, false);
        let is_bad = self.why_bad(current.digest).is_some();
        match (current.standing, self.published.good) {
            // podnudge was killed as it was about to take it back.
            (_, Some(good)) if is_bad && self.policy.rolls_back => {
                self.begin(now, Attempt { back_to: Some(good), ..trial }, out);
            }
            (Standing::Good, _) if current.digest == disk.digest => {
                self.take_as_baseline(now, disk.digest, Basis::Remembered, out);
            }
            (Standing::ForStart, _) if current.digest == disk.digest => {
                self.ask(Question::FirstLook, out);
            }
            // Or before the application was told, or the proof was seen.
            (Standing::Trying, _) if current.digest != disk.digest && !is_bad => {
                self.begin(now, trial, out);
            }
            (Standing::Good, _) => {
                self.running = Some(current.digest);
                if self.is_taken_back() {
                    self.say(Fact::RolledBack(current.digest), out);
                }
                self.want(now.mono, disk, out);
            }
            (Standing::ForStart | Standing::Trying, _) => self.want(now.mono, disk, out),
        }
    }

    /// Publishes what is to be delivered, where podnudge does that, and acts.
    pub(super) fn begin(&mut self, now: Now, attempt: Attempt, out: &mut VecDeque<Command>) {
        if !self.policy.publishes || self.is_published(attempt.digest()) {
            return self.act(now, attempt, out);
        }
        let bad = attempt.disk.digest;
        out.push_back(match attempt.back_to {
            None => Command::Publish(self.id, attempt.disk.digest),
            Some(to) => {
                let reason = self.why_bad(bad).cloned();
                let reason = reason.unwrap_or_else(|| Reason::new("it did not work"));
                Command::RollBack(self.id, RollBack { to, bad, reason })
            }
        });
        self.phase = Phase::Publishing(attempt);
    }

    pub(super) fn was_published(
        &mut self,
        now: Now,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let Phase::Publishing(attempt) = &self.phase else { return };
        let attempt = attempt.clone();
        // From here on it may be read, at any start of the application.
        if publication != Publication::Moved {
            self.running = None;
        }
        match publication {
            Publication::Done => {
                let standing = Standing::Trying;
                let digest = attempt.digest();
                self.published.current = Some(Current { digest, at: now.mono, standing });
                self.is_filled = true;
                self.published.bad.retain(|(bad, _)| *bad != digest);
                if attempt.back_to.is_none() {
                    self.say(Fact::Published(digest), out);
                }
                return self.act(now, attempt, out);
            }
            Publication::Moved => {
                // A look tells what is there now; should it be the same, it has its turn again.
                self.look.touched_all(now.mono);
                let reason = Reason::new("the volume changed while it was being published");
                let at = now.mono.after(self.policy.retry.first);
                self.phase = Phase::Backoff { attempt, at, reason };
            }
            Publication::Failed(reason) => {
                self.published.current = None;
                self.counters.actions_refused += 1;
                self.refused(now.mono, attempt, reason, out);
            }
        }
        self.reconcile(now.mono, out);
    }

    /// What can be gone back to from there.
    pub(super) fn to_go_back_to(&self, attempt: &Attempt) -> Option<Digest> {
        // A podnudge that is ending begins nothing; the next one finds what is on trial.
        let may_roll_back = self.policy.rolls_back && !self.stopping;
        self.published.good.filter(|good| may_roll_back && *good != attempt.digest())
    }

    /// Takes back what does not work, if there is something to go back to. Says whether.
    pub(super) fn roll_back(
        &mut self,
        now: Now,
        attempt: &Attempt,
        reason: &Reason,
        out: &mut VecDeque<Command>,
    ) -> bool {
        let digest = attempt.digest();
        let Some(good) = self.to_go_back_to(attempt) else { return false };
        self.counters.rollbacks += 1;
        self.say(Fact::RollingBack(digest, good, reason.clone()), out);
        self.published.bad.retain(|(bad, _)| *bad != digest);
        self.published.bad.push((digest, reason.clone()));
        let surplus = self.published.bad.len().saturating_sub(Published::MOST_BAD);
        self.published.bad.drain(..surplus);
        let attempt = Attempt { back_to: Some(good), ..Attempt::first(attempt.disk, false) };
        self.begin(now, attempt, out);
        true
    }

    /// What is published was verified.
    pub(super) fn approve(&mut self, digest: Digest, out: &mut VecDeque<Command>) {
        if let Some(current) = &mut self.published.current
            && current.digest == digest
        {
            current.standing = Standing::Good;
            self.published.good = Some(digest);
            out.push_back(Command::Approve(self.id, digest));
        }
    }

    /// Why this digest must not be used again, if it was taken back.
    pub(super) fn why_bad(&self, digest: Digest) -> Option<&Reason> {
        self.published.bad.iter().find(|(bad, _)| *bad == digest).map(|(_, reason)| reason)
    }
}
