//! One rule: its volumes, the candidate that waits for the gate, the rollout that is under way, and
//! what the application is known to run.
//!
//! Each part keeps its own data and answers questions; only this file composes them. A rollout
//! begins in [`Rule::begin`], and ends in [`Rule::finish`] or where another one begins in its place.
//! What is due, in which order, is [`Rule::step`].

mod progress;
mod status;
mod told;
mod waiting;

use std::collections::VecDeque;

use super::belief::Belief;
use super::budget::Budget;
use super::candidate::{Candidate, Trigger};
use super::changed::ChangedKeys;
use super::checks::{Checks, Verdict};
use super::command::Command;
use super::event::{Found, Publication, RuleId};
use super::fact::Fact;
use super::generations::Generations;
use super::jitter::Replica;
use super::known::{Known, Unfinished};
use super::policy::Policy;
use super::rollout::{Input, Kind, Outcome, Rollout};
use super::source::{Doubts, OnDisk, Source};
use super::status::{Counters, Delivery};
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// What a rule has to know of the other rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Neighbours {
    /// A rule that is acting on, or verifying, a target that may be the same.
    pub(super) busy: Option<Reason>,
    /// A rule that has published content for a target that may be the same, and that is not proven. Of
    /// a process that reads it beside other new content and ends, nobody could tell of which.
    pub(super) unproven: Option<Reason>,
    /// Another rule has given newer content to a target that may be the same.
    pub(super) newer: bool,
}

/// Content that is at rest short of the application: all attempts failed.
#[derive(Debug)]
struct GivenUp {
    /// What is on disk as long as it is at rest.
    digest: Digest,
    reason: Reason,
}

#[derive(Debug)]
pub(super) struct Rule {
    id: RuleId,
    policy: Policy,
    replica: Replica,
    source: Source,
    checks: Checks,
    candidate: Option<Candidate>,
    trigger: Trigger,
    rollout: Option<Rollout>,
    given_up: Option<GivenUp>,
    known: Box<dyn Known>,
    budget: Budget,
    neighbours: Neighbours,
    /// The names of the processes that were acted on last.
    target_names: Vec<String>,
    changed: ChangedKeys,
    /// What was open about the volumes when the last action began.
    doubts: Doubts,
    last_action: Option<Moment>,
    /// When the application could first read what the rollout brings.
    given_at: Option<Moment>,
    /// The digest that was verified last, and when.
    applied: Option<(Digest, UnixTime)>,
    delivery: Delivery,
    /// The content whose certificates were asked about last, and when the first expires.
    certificates: (Option<Digest>, Option<UnixTime>),
    /// How many waits were drawn.
    draws: u64,
    stopping: bool,
    stopped: bool,
    counters: Counters,
}

impl Rule {
    pub(super) fn new(
        id: RuleId,
        policy: Policy,
        found: Found,
        replica: Replica,
        now: Now,
    ) -> Self {
        let known: Box<dyn Known> = if policy.publishes {
            Box::new(Generations::new(found.published, policy.rolls_back))
        } else {
            Box::new(Belief::new(policy.on_start, found.memory))
        };
        let mut rule = Self {
            id,
            replica,
            source: Source::new(&policy, now.mono),
            checks: Checks::new(policy.has_checks),
            policy,
            candidate: None,
            trigger: Trigger::None,
            rollout: None,
            given_up: None,
            known,
            budget: Budget::default(),
            neighbours: Neighbours::default(),
            target_names: Vec::new(),
            changed: ChangedKeys::default(),
            doubts: Doubts::default(),
            last_action: None,
            given_at: None,
            applied: None,
            delivery: Delivery::None,
            certificates: (None, None),
            draws: 0,
            stopping: false,
            stopped: false,
            counters: Counters::default(),
        };
        // What a podnudge before this one left open is brought to its end, whatever is on disk now.
        match rule.known.unfinished(now) {
            Some(Unfinished::Proof(content)) => rule.resume(content, Kind::Forward),
            Some(Unfinished::RollBack(content)) => {
                if let Some((content, kind)) = rule.back(content, false) {
                    rule.resume(content, kind);
                }
            }
            None => {}
        }
        rule
    }

    /// The one way in: a rollout begins, in the place of the one that is under way.
    fn begin(
        &mut self,
        now: Now,
        content: OnDisk,
        kind: Kind,
        is_triggered: bool,
        out: &mut VecDeque<Command>,
    ) {
        let mut rollout = Rollout::new(content, kind, is_triggered);
        let before = self.rollout.take();
        let progress = rollout.begin(before, &self.context(now, &rollout));
        self.rollout = Some(rollout);
        self.given_up = None;
        self.follow(now, progress, out);
    }

    /// What was under way when podnudge started goes on, as soon as no other rule acts on the same
    /// target.
    fn resume(&mut self, content: OnDisk, kind: Kind) {
        self.rollout = Some(Rollout::new(content, kind, false));
    }

    /// The one way out: the rollout has come to this.
    fn finish(&mut self, now: Now, outcome: Outcome, out: &mut VecDeque<Command>) {
        let Some(mut rollout) = self.rollout.take() else { return };
        match outcome {
            Outcome::Superseded => {}
            Outcome::Applied { is_fresh } => self.applied(now, &rollout, is_fresh, out),
            Outcome::GaveUp(reason) => {
                let fact = Fact::GaveUp(rollout.digest(), reason.clone(), rollout.attempt());
                self.say(fact, out);
                let digest = rollout.failed().unwrap_or(rollout.digest());
                self.given_up = Some(GivenUp { digest, reason });
            }
            Outcome::RollBack(reason) => {
                let failed = rollout.digest();
                let after_restart = rollout.is_restart() || self.policy.is_restart;
                self.counters.rollbacks += 1;
                if let Some(good) = self.known.to_roll_back_to(failed) {
                    self.say(Fact::RollingBack(failed, good, reason.clone()), out);
                }
                self.known.quarantine(failed, reason);
                // Whoever triggered it has got what there was to get.
                if self.source.digest() == Some(failed) {
                    self.trigger = self.trigger.ended();
                }
                self.roll_back(now, rollout.content(), after_restart, out);
            }
            Outcome::Unpublished(publication) => {
                self.rollout = rollout.replaced();
                self.unpublished(now, &rollout, publication, out);
            }
        }
    }

    fn roll_back(
        &mut self,
        now: Now,
        failed: OnDisk,
        after_restart: bool,
        out: &mut VecDeque<Command>,
    ) {
        if let Some((content, kind)) = self.back(failed, after_restart) {
            self.begin(now, content, kind, false, out);
        }
    }

    /// The roll-back of what failed, if there is anything to go back to.
    fn back(&self, failed: OnDisk, after_restart: bool) -> Option<(OnDisk, Kind)> {
        let good = self.known.to_roll_back_to(failed.digest)?;
        let kind = Kind::Back { failed: failed.digest, after_restart };
        Some((OnDisk { digest: good, ..failed }, kind))
    }

    fn applied(
        &mut self,
        now: Now,
        rollout: &Rollout,
        is_fresh: bool,
        out: &mut VecDeque<Command>,
    ) {
        let digest = rollout.digest();
        let disk = self.source.digest();
        let is_quarantined = disk.is_some_and(|disk| self.known.why_quarantined(disk).is_some());
        if rollout.failed().is_some() || is_quarantined {
            self.say(Fact::RolledBack(digest), out);
        } else if !(is_fresh && self.known.follows_disk() && !rollout.has_tripped()) {
            let took = now.wall.since(rollout.content().committed);
            if !is_fresh {
                self.counters.actions_applied += 1;
                self.counters.commit_to_applied.observe(took.as_secs_f64());
            }
            self.say(Fact::Applied(digest, took), out);
        }
        self.applied = Some((digest, now.wall));
        self.delivery = Delivery::Applied;
        let keep = self.known.applied(now, digest, &self.source);
        self.keep(keep, out);
        if disk == Some(digest) {
            self.source.settle_doubts();
        }
    }

    /// Content could not be published: it becomes a candidate again.
    fn unpublished(
        &mut self,
        now: Now,
        rollout: &Rollout,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let (wait, reason) = match publication {
            Publication::Failed(reason, _) => {
                self.counters.actions_refused += 1;
                let told = self.candidate.as_mut().is_some_and(|before| !before.tell(&reason));
                if !told {
                    self.say(Fact::Refused(reason.clone()), out);
                }
                (self.policy.retry.max, reason)
            }
            Publication::Done | Publication::Moved => {
                // A scan tells what is there now. Should what counts be the same, it has its turn
                // again, after the checks: keys that do not count may be others.
                self.source.hints_lost(now.mono);
                self.checks.forget();
                let reason = Reason::new("the volume changed while it was being published");
                (self.policy.retry.first, reason)
            }
        };
        if rollout.is_triggered() && self.trigger == Trigger::None {
            self.trigger = Trigger::For(rollout.digest());
        }
        // Newer content that is a candidate meanwhile is another matter.
        let is_newest = |one: &Candidate| one.digest() == rollout.digest();
        if self.candidate.as_ref().is_none_or(is_newest) {
            let until = now.mono.after(wait);
            self.candidate = Some(Candidate::again(rollout.content(), now.mono, until, reason));
        }
    }

    /// Does what is due at `now`.
    pub(super) fn advance(
        &mut self,
        now: Now,
        neighbours: Neighbours,
        out: &mut VecDeque<Command>,
    ) {
        self.neighbours = neighbours;
        while !self.stopped && self.step(now, out) {}
    }

    /// Does one thing that is due. Says whether there may be more.
    fn step(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        if self.stopping && !self.is_busy() {
            self.stopped = true;
            return false;
        }
        if let Some(volumes) = self.source.begin_due_scan(now.mono) {
            out.push_back(Command::Scan(self.id, volumes));
        }
        self.choose_candidate(now, out);
        self.ask_checks(now, out);
        self.schedule(now, out);
        self.pass_gate(now, out) || self.go_on(now, out)
    }

    /// Goes on with the rollout, if it is due. Says whether.
    fn go_on(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let is_due = self.rollout.as_ref().is_some_and(|rollout| rollout.is_due(now.mono));
        if is_due && self.may_go_on(now.mono) {
            self.progress(now, Input::Tick, out);
            return true;
        }
        false
    }

    /// Whether the rollout may make an attempt: not while another rule acts on the same target, and
    /// where the application reads the volumes, only with what it is about.
    fn may_go_on(&self, now: Moment) -> bool {
        let Some(rollout) = self.rollout.as_ref().filter(|rollout| rollout.is_waiting()) else {
            return true;
        };
        let is_on_disk = self.source.digest() == Some(rollout.digest())
            && !self.source.is_looking(now)
            && !self.source.is_missing_a_volume()
            && self.known.is_settled()
            && self.checks.verdict(rollout.digest()) == Verdict::Passed;
        self.neighbours.busy.is_none() && (is_on_disk || !self.known.follows_disk())
    }

    /// When to call [`Rule::advance`] at the latest.
    pub(super) fn next_wakeup(&self, now: Now) -> Option<Moment> {
        if self.stopped {
            return None;
        }
        let rollout = self.rollout.as_ref().filter(|_| self.may_go_on(now.mono));
        let gate = self.gate(now).and_then(|gate| gate.next_look());
        [rollout.and_then(Rollout::next), gate, self.check_due(), self.source.next_wakeup()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn name(&self) -> &str {
        &self.policy.name
    }

    /// Whether the process of both may be the same: by how they are named, and as soon as both were
    /// found, by the names of the processes.
    pub(super) fn may_share_target(&self, other: &Self) -> bool {
        let (names, others) = (&self.target_names, &other.target_names);
        let is_unknown = names.is_empty() || others.is_empty();
        self.policy.target.may_be(&other.policy.target)
            && (is_unknown || names.iter().any(|name| others.contains(name)))
    }

    /// Whether it acts on its target, or waits for the proof.
    pub(super) fn is_busy(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_busy)
    }

    /// Since when the application could read what is being rolled out, where that is still to be
    /// proven: an application that ends does not end of content that was verified before.
    pub(super) fn given_at(&self) -> Option<Moment> {
        let rollout = self.rollout.as_ref().filter(|rollout| rollout.failed().is_none())?;
        let digest = rollout.digest();
        let is_given = !self.known.lacks(digest) && self.known.good() != Some(digest);
        self.given_at.filter(|_| is_given && (rollout.is_busy() || !self.known.follows_disk()))
    }

    /// Whether the application can read content that is still to be proven, between two attempts.
    pub(super) fn is_unproven(&self) -> bool {
        let goes_on = self.rollout.as_ref().is_some_and(Rollout::goes_on_soon);
        goes_on && !self.known.follows_disk() && self.given_at().is_some()
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// For what is told of the volumes before a scan.
    pub(super) fn source_mut(&mut self) -> &mut Source {
        &mut self.source
    }

    pub(super) fn publishes(&self) -> bool {
        self.policy.publishes
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn say(&mut self, fact: Fact, out: &mut VecDeque<Command>) {
        self.counters.count(&fact);
        out.push_back(Command::Report(self.id, fact));
    }
}
