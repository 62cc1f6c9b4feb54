//! One rule: its volumes, the candidate that waits for the gate, the rollout in progress, and the
//! content that the application is known to run.
//!
//! Each part owns its data and its queries have no side effects; only this file and `rule/` combine
//! the parts.
//! A rollout begins in [`Rule::begin`], and ends in `Rule::finish` (`rule/outcome.rs`) or when another rollout
//! supersedes it. [`Rule::step`] defines the order in which due work is done.

mod after;
mod drain;
mod evict;
mod halts;
mod inputs;
mod lasting;
mod outcome;
mod pod_restart;
mod progress;
mod sharing;
mod slots;
mod status;
mod waiting;

use std::collections::VecDeque;

use super::application::Application;
use super::cause::Cause;
use super::command::Command;
use super::event::{Found, RuleId};
use super::fact::Fact;
use super::intake::{Checks, Intake, OnDisk, Runs, Source, Verdict};
use super::jitter::Replica;
use super::memory::{Known, Memory};
use super::neighbours::Neighbours;
use super::permit::Permit;
use super::pod_end::BeforeEnd;
use super::policy::Policy;
use super::preflight::Preflight;
use super::rollout::{Direction, Input, Outcome, Rollout};
use super::status::Counters;
use super::tracker::Unfinished;
use super::trial::Trial;
use crate::clock::{Moment, Now};

/// What is saved across a restart of podnudge, besides what the owners save.
#[derive(Debug, Default)]
struct Saved {
    /// What the application ran, to be saved.
    known: Known,
    /// What was saved last.
    last: Memory,
    /// The UID of podnudge's pod, if the rule evicts it.
    pod: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// No new action begins; one in progress may finish.
    Stopping,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Rule {
    id: RuleId,
    policy: Policy,
    replica: Replica,
    /// When podnudge started.
    started: Moment,
    intake: Intake,
    rollout: Option<Rollout>,
    application: Application,
    permit: Permit,
    saved: Saved,
    neighbours: Neighbours,
    /// What was counted for the end of podnudge that was commanded last.
    before_end: Option<BeforeEnd>,
    life: Life,
    preflight: Preflight,
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
        let mut found = found.in_own_pod(&policy);
        let application = Application::new(&policy, &mut found);
        let mut rule = Self {
            id,
            replica,
            started: now.mono,
            intake: Intake::new(&policy, found.interrupted, now.mono),
            policy,
            rollout: None,
            application,
            permit: Permit::default(),
            saved: Saved { pod: found.pod, ..Saved::default() },
            neighbours: Neighbours::default(),
            before_end: None,
            life: Life::Running,
            preflight: Preflight::default(),
            counters: Counters::default(),
        };
        rule.restore(now, found.memory);
        rule
    }

    /// Begins a rollout, superseding the one in progress. The only way to begin one.
    fn begin(
        &mut self,
        now: Now,
        content: OnDisk,
        direction: Direction,
        cause: Cause,
        out: &mut VecDeque<Command>,
    ) {
        self.application.rollout_begins();
        // A person may trigger the way back.
        let goes_back = cause.needs_slot() && !self.needs_slot(cause, content.digest);
        let mut rollout = Rollout::new(content, direction, cause, goes_back);
        let before = self.rollout.take();
        self.permit.taken_over(now.mono);
        let progress = rollout.begin(before, &self.context(now, &rollout));
        self.rollout = Some(rollout);
        self.apply(now, progress, out);
    }

    /// Continues the rollout that was in progress when podnudge started, as soon as no other rule
    /// acts on the same target.
    fn resume(&mut self, content: OnDisk, direction: Direction) {
        let is_known_good = self.application.tracker().last_good() == Some(content.digest);
        self.rollout = Some(Rollout::resumed(content, direction, is_known_good));
    }

    /// Processes everything that is due at `now`.
    pub(super) fn advance(
        &mut self,
        now: Now,
        neighbours: Neighbours,
        out: &mut VecDeque<Command>,
    ) {
        self.neighbours = neighbours;
        while !self.is_stopped() && self.step(now, out) {}
        if !self.is_stopped() {
            self.look_at_pod(now.mono, out);
        }
        self.remember(out);
    }

    /// Does one thing that is due. Returns whether more may be due.
    fn step(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        self.tell_halts(out);
        if self.is_stopping() && (!self.is_busy() || self.ends_pod()) {
            self.settle_drain(now.mono);
            self.life = Life::Stopped;
            let rolled_out = self.rollout.as_ref().map(Rollout::digest);
            self.permit.stop(self.id, rolled_out, out);
            return false;
        }
        if let Some(volumes) = self.intake.source_mut().begin_due_scan(now.mono) {
            out.push_back(Command::Scan(self.id, volumes));
        }
        if self.preflight.take_second(now.mono) {
            out.push_back(Command::Preflight(self.id));
        }
        self.choose_candidate(now, out);
        self.start_due_checks(now, out);
        self.schedule(now, out);
        self.continue_trial(now, out);
        self.look_for_crashes(now, out);
        let has_progressed = self.pass_gate(now, out)
            || self.end_drain_without_slot(now, out)
            || self.end_drain_without_content(now, out)
            || self.end_pod(now, out)
            || self.continue_rollout(now, out);
        if !has_progressed {
            self.update_use_of_slot(now.mono);
            self.settle_drain(now.mono);
            self.settle_slot(now, out);
        }
        has_progressed
    }

    /// Continues the rollout if it is due. Returns whether it did.
    fn continue_rollout(&mut self, now: Now, out: &mut VecDeque<Command>) -> bool {
        let is_due = self.rollout.as_ref().is_some_and(|rollout| rollout.is_due(now.mono));
        if is_due && self.may_continue(now.mono) {
            self.progress(now, Input::Tick, out);
            return true;
        }
        false
    }

    /// Whether the rollout may make an attempt: only if no other rule acts on the same target, and
    /// where the application reads the volumes, only if the rollout's content is on disk.
    fn may_continue(&self, now: Moment) -> bool {
        let Some(rollout) = self.rollout.as_ref().filter(|rollout| rollout.is_waiting()) else {
            return true;
        };
        self.neighbours.busy.is_none()
            && !self.is_delayed_by_slot(now, rollout)
            && self.has_content(now, rollout)
    }

    /// Whether an action would make the application read the rollout's content.
    fn has_content(&self, now: Moment, rollout: &Rollout) -> bool {
        let is_on_disk = || {
            self.intake.source().digest() == Some(rollout.digest())
                && !self.intake.source().is_update_pending(now)
                && !self.intake.source().is_missing_a_volume()
                && self.application.tracker().is_resolved()
                && self.intake.checks().verdict(rollout.digest()) == Verdict::Passed
        };
        !self.application.tracker().reads_volumes() || is_on_disk()
    }

    /// The latest time to call [`Rule::advance`].
    pub(super) fn next_wakeup(&self, now: Now) -> Option<Moment> {
        if self.is_stopped() {
            return None;
        }
        let wakes = |rollout: &&Rollout| self.wakes(now.mono, rollout);
        let rollout = self.rollout.as_ref().filter(wakes);
        let gate = self.gate(now).and_then(|gate| gate.next_evaluation());
        let rollout = rollout.and_then(Rollout::next_wakeup);
        let (source, preflight) =
            (self.intake.source().next_wakeup(), self.preflight.next_wakeup());
        let trial = self.application.trial().and_then(Trial::next_wakeup);
        let permit = self.permit.next_wakeup();
        [rollout, gate, self.next_check(), source, preflight, trial, self.next_look(), permit]
            .into_iter()
            .flatten()
            .min()
    }

    /// What the application runs, and what is being brought to it.
    fn runs(&self) -> Runs {
        self.application.runs(self.rollout.as_ref().map(Rollout::digest))
    }

    pub(super) fn name(&self) -> &str {
        &self.policy.name
    }

    /// Whether the rule is publishing, acting on its target, or waiting for the proof, or for why
    /// the target has ended.
    pub(super) fn is_busy(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_busy)
            || self.application.trial().is_some_and(Trial::is_polling)
    }

    pub(super) fn checks(&self) -> &Checks {
        self.intake.checks()
    }

    pub(super) fn source(&self) -> &Source {
        self.intake.source()
    }

    /// For events about volumes that precede a scan.
    pub(super) fn source_mut(&mut self) -> &mut Source {
        self.intake.source_mut()
    }

    pub(super) fn publishes(&self) -> bool {
        self.policy.application.publishes
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.life == Life::Stopped
    }

    fn is_stopping(&self) -> bool {
        self.life != Life::Running
    }

    fn report(&mut self, fact: Fact, out: &mut VecDeque<Command>) {
        self.counters.count(&fact);
        out.push_back(Command::Report(self.id, fact));
    }
}
