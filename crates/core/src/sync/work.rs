//! What the leader of `podnudge sync` has: what it follows, the edits, and the pass under way. Pure.

use std::time::Duration;

use super::edits::{Edit, Edits, OLD, Target};
use super::election::Election;
use super::follow::Follow;
use super::pass::{Pass, Passes};
use crate::clock::{Moment, Now, UnixTime};
use crate::objects::ObjectName;

/// How long the first edit waits for others, so that one pass is for all that is applied together. The kubelets' own
/// watches have seen the edit by then, too.
const JOIN: Duration = Duration::from_millis(200);
/// After a pass in which everything was refused, the next one comes so late: the right may be there by then.
const AFTER_REFUSALS: Duration = Duration::from_secs(10);
/// The most objects of one pass.
const MOST_TARGETS: usize = 64;

/// What a leader has.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) follows: Vec<Follow>,
    pub(super) edits: Edits,
    /// The text of the edits.
    pub(super) record: String,
    /// Whether there was no record, so that what is found is not edited.
    pub(super) is_first: bool,
    /// The edits that no pass is for yet.
    pub(super) waiting: Vec<Target>,
    /// When the next pass may begin.
    pass_at: Moment,
    pub(super) pass: Option<Pass>,
    /// Whether the next pass repeats one in which everything was refused.
    is_repeated: bool,
    pub(super) has_told: bool,
}

impl Work {
    /// With the record of the last leader, if there is one.
    pub(super) fn new(now: Now, follows: Vec<Follow>, record: Option<&str>) -> Self {
        let kept = record.and_then(Edits::parse);
        let is_first = kept.is_none();
        let edits = kept.unwrap_or_else(|| Edits::new(now.wall));
        Self {
            follows,
            record: edits.text(),
            edits,
            is_first,
            waiting: Vec::new(),
            pass_at: now.mono,
            pass: None,
            is_repeated: false,
            has_told: false,
        }
    }

    pub(super) fn add(&mut self, now: Now, object: ObjectName, edit: Edit, late: UnixTime) {
        let at = now.mono.after(JOIN);
        // Edits that were refused must not keep this one waiting.
        self.pass_at = if self.waiting.is_empty() { at } else { at.min(self.pass_at) };
        self.edits.add(object.clone(), edit.clone());
        // An edit that is followed by another one is late since the first.
        let earlier = self.waiting.extract_if(.., |target| target.object == object).next();
        let late_since = earlier.map_or(late, |earlier| late.min(earlier.late_since));
        self.waiting.push(Target { object, edit, late_since });
    }

    /// When the next pass begins; `None` if there is nothing to do, or something comes before.
    pub(super) fn pass_due(&self, election: &Election, passes: &Passes) -> Option<Moment> {
        // What a new leader has to do is in the Lease first, so that there is no moment in which nobody knows.
        let may_begin =
            !self.waiting.is_empty() && self.pass.is_none() && election.has_written(&self.record);
        may_begin.then(|| self.pass_at.max(passes.next()))
    }

    pub(super) fn begin_pass(&mut self, now: Now) {
        let most = self.waiting.len().min(MOST_TARGETS);
        let targets = self.waiting.drain(..most).collect();
        self.pass = Some(Pass::new(targets, now.mono, std::mem::take(&mut self.is_repeated)));
    }

    /// Handles the end of a pass. Returns the edits that are done: also those that were refused, if they are so old that
    /// the kubelets have written them.
    pub(super) fn end_pass(&mut self, now: Now, pass: &Pass) -> Vec<Target> {
        let is_open = |Target { edit, late_since, .. }: &Target| {
            let age = now.wall.since(edit.content_at.unwrap_or(*late_since));
            pass.is_refused() && age < OLD
        };
        let (open, done) = pass.targets.iter().cloned().partition::<Vec<_>, _>(is_open);
        for target in open {
            if let Some(newer) = self.waiting.iter_mut().find(|it| it.object == target.object) {
                newer.late_since = newer.late_since.min(target.late_since);
            } else if self.edits.is_open(&target.object, &target.edit) {
                if self.waiting.is_empty() {
                    self.pass_at = now.mono.after(AFTER_REFUSALS);
                }
                self.waiting.push(target);
            }
            self.is_repeated = true;
        }
        for Target { object, edit, .. } in &done {
            self.edits.done(object, edit);
        }
        self.edits.forget(now.wall);
        self.record = self.edits.text();
        done
    }

    pub(super) fn late_since(&self) -> Option<UnixTime> {
        let running = self.pass.iter().flat_map(|pass| pass.targets.iter());
        self.waiting.iter().chain(running).map(|target| target.late_since).min()
    }
}
