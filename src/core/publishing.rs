//! Publishing: what has passed is put where the application reads, just before the action, and
//! taken back where it does not work.
//!
//! The application reads what is published when it starts and when it reloads, and never the
//! volumes. So podnudge knows what it can have read, and need not ask.

use std::collections::VecDeque;

use super::delivery::{Attempt, Phase, Question};
use super::event::{Command, Current, Publication, Published, RollBack, Standing};
use super::fact::{Basis, Fact};
use super::look::OnDisk;
use super::rule::Rule;
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// Goes on with what a podnudge before this one has left half done, whatever is on disk now:
    /// it was killed before the proof was seen, or as it was about to take it back.
    pub(super) fn go_on(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(current) = self.published.current.filter(|_| self.policy.publishes) else {
            return;
        };
        let committed = UnixTime(now.wall.0.saturating_sub(now.mono.since(current.at)));
        let disk = OnDisk { digest: current.digest, committed, committed_at: current.at };
        let trial = Attempt::first(disk, false);
        match (self.why_bad(current.digest), self.published.good) {
            (Some(_), Some(good)) if self.policy.rolls_back => {
                self.begin(now, Attempt { back_to: Some(good), ..trial }, out);
            }
            (None, _) if current.standing == Standing::Trying => self.begin(now, trial, out),
            _ => {}
        }
    }

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
        match current.standing {
            Standing::Good if current.digest == disk.digest => {
                self.take_as_baseline(now, disk.digest, Basis::Remembered, out);
            }
            Standing::ForStart if current.digest == disk.digest => {
                self.ask(Question::FirstLook, out);
            }
            Standing::Good => {
                self.running = Some(current.digest);
                if self.is_taken_back() {
                    self.say(Fact::RolledBack(current.digest), out);
                }
                self.want(now.mono, disk, out);
            }
            Standing::ForStart | Standing::Trying => self.want(now.mono, disk, out),
        }
    }

    /// Whether the delivery has to be brought to its end before what is on disk has its turn: the
    /// application reads what it is about.
    pub(super) fn goes_on(&self) -> bool {
        let attempt = self.phase.attempt().filter(|_| self.phase.due().is_some());
        attempt
            .is_some_and(|attempt| attempt.back_to.is_some() || self.is_published(attempt.digest()))
    }

    /// Whether this was verified last: it may always be gone back to.
    pub(super) fn is_good(&self, digest: Digest) -> bool {
        self.published.good == Some(digest)
    }

    /// Whether the application reads this.
    pub(super) fn is_published(&self, digest: Digest) -> bool {
        self.published.current.is_some_and(|current| current.digest == digest)
    }

    /// Puts what is on disk in the place of what is on trial, if it may begin in this instant.
    /// Until then the trial goes on: what kills the application must not lie there meanwhile.
    pub(super) fn replace_if_due(
        &mut self,
        now: Now,
        disk: OnDisk,
        out: &mut VecDeque<Command>,
    ) -> bool {
        let Some(trial) = self.phase.attempt() else { return false };
        let (old, is_old) = (trial.digest(), trial.disk.digest == disk.digest);
        // The application is told of what it reads again before it is told of the next.
        let is_untold = trial.back_to.is_some() && matches!(self.phase, Phase::Backoff { .. });
        if is_old || old == disk.digest {
            self.turn = None;
            return false;
        }
        if !self.check(disk, out) || is_untold {
            return false;
        }
        let attempt = Attempt::first(disk, false);
        let has_turn = self.turn(now.mono, disk, out) <= now.mono;
        let is_good = self.is_good(disk.digest);
        let is_held = !is_good && self.hold(now, &attempt, false).is_some();
        let is_due = self.is_whole() && !self.look.is_busy() && has_turn && !is_held;
        if is_due {
            let trial = self.phase.clone();
            if is_good {
                self.begin(now, attempt, out);
            } else {
                self.begin_unless_paused(now, attempt, out);
            }
            self.replaced = Some(trial);
        }
        is_due
    }

    /// Publishes what is to be delivered, where podnudge does that, and acts.
    pub(super) fn begin(&mut self, now: Now, attempt: Attempt, out: &mut VecDeque<Command>) {
        let digest = attempt.digest();
        // A person who forces it may have seen that something is wrong with what is published.
        let mut before = self.phase.attempt().into_iter();
        let is_first = !before.any(|before| before.forced && before.digest() == digest);
        let is_there = self.is_published(digest)
            && self.half_published != Some(digest)
            && !(attempt.forced && is_first);
        if !self.policy.publishes || is_there {
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
        let goes_on = attempt.back_to.is_none() && self.goes_on();
        let trial = std::mem::replace(&mut self.phase, Phase::Publishing(attempt));
        if goes_on {
            self.replaced = Some(trial);
        }
    }

    pub(super) fn was_published(
        &mut self,
        now: Now,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let Phase::Publishing(attempt) = &self.phase else { return };
        let attempt = attempt.clone();
        let replaced = self.replaced.take();
        match publication {
            Publication::Done => {
                let digest = attempt.digest();
                if let Some(trial) = replaced.as_ref().and_then(Phase::attempt) {
                    self.say(Fact::Superseded(trial.digest()), out);
                }
                self.is_read(now, digest);
                self.half_published = None;
                self.turn = None;
                self.is_filled = true;
                self.published.bad.retain(|(bad, _)| *bad != digest);
                if attempt.back_to.is_none() {
                    self.say(Fact::Published(digest), out);
                }
                return self.act(now, attempt, out);
            }
            Publication::Moved => {
                // A look tells what is there now. Should what counts be the same, it has its turn again,
                // after the checks: keys that do not count may be others.
                self.look.touched_all(now.mono);
                self.check_again();
                let reason = Reason::new("the volume changed while it was being published");
                let at = now.mono.after(self.policy.retry.first);
                match replaced {
                    Some(trial) => self.resume(now.mono, trial, &attempt, at),
                    None => self.phase = Phase::Backoff { attempt, at, reason },
                }
            }
            Publication::Failed(reason, current) => {
                let is_turned = current == Some(attempt.digest());
                if is_turned {
                    self.half_published = current;
                    self.is_read(now, attempt.digest());
                } else if current.is_none_or(|current| !self.is_published(current)) {
                    self.running = None;
                    self.published.current = None;
                }
                self.counters.actions_refused += 1;
                match replaced.filter(|_| !is_turned) {
                    Some(trial) => {
                        self.say(Fact::Refused(reason), out);
                        let at = now.mono.after(self.policy.retry.max);
                        self.resume(now.mono, trial, &attempt, at);
                    }
                    None => self.refused(now.mono, attempt, reason, out),
                }
            }
        }
        self.reconcile(now, out);
    }

    /// What was to take its place could not be published, and has its next turn at `at`.
    pub(super) fn resume(&mut self, now: Moment, trial: Phase, next: &Attempt, at: Moment) {
        // What a person asked for is still to be done.
        self.forced |= next.forced;
        let next = next.digest();
        self.phase = trial;
        self.turn = Some((next, at));
        if let Phase::Verifying(verification) = &mut self.phase {
            verification.next_look = Some(now);
        }
    }

    /// From here on the application may read this, at any start.
    fn is_read(&mut self, now: Now, digest: Digest) {
        self.running = None;
        if !self.is_published(digest) {
            let standing = Standing::Trying;
            self.published.current = Some(Current { digest, at: now.mono, standing });
        }
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
        // Whoever forced it has got what there was to get.
        self.forced &= self.look.on_disk().is_some_and(|disk| disk.digest != digest);
        self.turn = None;
        let attempt = Attempt {
            back_to: Some(good),
            after_restart: attempt.restart || self.policy.is_restart,
            ..Attempt::first(attempt.disk, false)
        };
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
