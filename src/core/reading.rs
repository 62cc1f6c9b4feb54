//! What the application runs, where nothing was delivered to it: it reads its volumes when it
//! starts, so the question is since when it runs.

use std::collections::VecDeque;
use std::time::Duration;

use super::delivery::{Attempt, Phase, Question};
use super::event::{Command, Inspection};
use super::fact::{Basis, Fact};
use super::look::OnDisk;
use super::rule::Rule;
use crate::clock::{Moment, Now};
use crate::config::OnStart;
use crate::volume::snapshot::Digest;

/// File times come from a coarse clock and start times are counted in ticks: each may be up to
/// 10 ms early. Only what is further apart than both together is certain.
pub(super) const CLOCK_MARGIN: Duration = Duration::from_millis(20);

/// How long an application may take from its start until it has read its volumes.
const LONGEST_START: Duration = Duration::from_secs(10);

impl Rule {
    /// The first complete look: what does the application run?
    pub(super) fn first_look(&mut self, now: Now, disk: OnDisk, out: &mut VecDeque<Command>) {
        if self.policy.publishes {
            return self.first_publication(now, disk, out);
        }
        match (self.remembered, self.policy.on_start) {
            (Some(memory), _) if memory.running == Some(disk.digest) => {
                if disk.committed_at <= now.moment_of(memory.at) {
                    self.take_as_baseline(now, disk.digest, Basis::Remembered, out);
                } else {
                    self.ask(Question::Remembered, out);
                }
            }
            (_, OnStart::Never) => self.take_as_baseline(now, disk.digest, Basis::Never, out),
            (None, OnStart::Always) => {
                self.insists = true;
                self.want(now.mono, disk, out);
            }
            (Some(_), _) => self.want(now.mono, disk, out),
            (None, OnStart::IfNewer) => self.ask(Question::FirstLook, out),
        }
    }

    pub(super) fn take_as_baseline(
        &mut self,
        now: Now,
        digest: Digest,
        basis: Basis,
        out: &mut VecDeque<Command>,
    ) {
        self.say(Fact::Baseline(digest, basis), out);
        self.running = Some(digest);
        self.phase = Phase::Idle;
        self.look.settle_doubts();
        self.remember(now, Some(digest), out);
        // What was verified is not given up for what was not.
        if basis == Basis::Remembered || self.published.good.is_none_or(|good| good == digest) {
            self.approve(digest, out);
        }
    }

    /// The answer to the question since when the target runs.
    pub(super) fn inspected(&mut self, now: Now, target: Inspection, out: &mut VecDeque<Command>) {
        let (Phase::Inspecting(question), Some(disk)) = (&self.phase, self.look.on_disk()) else {
            return;
        };
        let (question, digest) = (*question, disk.digest);
        self.phase = Phase::Idle;
        match (question, target) {
            (Question::FirstLook, Inspection::Running { first, .. }) => {
                if self.readable_since(disk).after(CLOCK_MARGIN) >= first {
                    self.want(now.mono, disk, out);
                } else if self.policy.publishes {
                    // It has read it; whether it works with it is still to be seen.
                    self.begin(now, Attempt::first(disk, false), out);
                } else {
                    self.take_as_baseline(now, digest, Basis::TargetIsYounger, out);
                }
            }
            (Question::FirstLook, Inspection::Absent) if self.policy.publishes => {
                self.begin(now, Attempt::first(disk, false), out);
            }
            (Question::FirstLook, Inspection::Blind) => self.want(now.mono, disk, out),
            (Question::FirstLook, _) => self.take_as_baseline(now, digest, Basis::Unknown, out),
            (Question::Remembered, Inspection::Running { first, last })
                if self.remembered.is_some_and(|memory| last >= now.moment_of(memory.at))
                    && disk.committed_at.after(CLOCK_MARGIN) >= first =>
            {
                self.want(now.mono, disk, out);
            }
            (Question::Remembered, _) => {
                self.take_as_baseline(now, digest, Basis::Remembered, out);
            }
            // The content went on meanwhile, or a person asked: what follows takes care of it.
            _ if self.running != Some(digest) || self.forced => {}
            (_, Inspection::Running { last, .. }) if self.may_have_read_unseen(last) => {
                self.running = None;
            }
            (_, Inspection::Blind) => self.running = None,
            (Question::Unchanged, _) => self.unchanged(digest, out),
            (Question::GoneBack, _) => {
                self.cancelled(digest, out);
                self.remember(now, Some(digest), out);
            }
        }
        self.reconcile(now, out);
    }

    /// Whether the application, started at `start`, may have read something that no look saw.
    fn may_have_read_unseen(&mut self, start: Moment) -> bool {
        self.look.leaves_open(start.after(LONGEST_START)) || self.may_have_reread_unseen()
    }

    /// The same for what it read when it was made to reload. Once for each content.
    pub(super) fn may_have_reread_unseen(&mut self) -> bool {
        let disk = self.look.on_disk().map(|disk| disk.digest);
        let is_open = disk != self.repeated && self.look.leaves_open(self.read_until);
        if is_open {
            self.repeated = disk;
        }
        is_open
    }

    /// The content is again what the application runs.
    pub(super) fn cancelled(&mut self, digest: Digest, out: &mut VecDeque<Command>) {
        self.counters.cancelled += 1;
        self.say(Fact::Cancelled(digest), out);
        self.look.settle_doubts();
    }

    pub(super) fn ask(&mut self, question: Question, out: &mut VecDeque<Command>) {
        self.phase = Phase::Inspecting(question);
        out.push_back(Command::Inspect(self.id));
    }

    pub(super) fn unchanged(&mut self, digest: Digest, out: &mut VecDeque<Command>) {
        self.counters.unchanged += 1;
        self.say(Fact::Unchanged(digest), out);
        self.look.settle_doubts();
    }
}
