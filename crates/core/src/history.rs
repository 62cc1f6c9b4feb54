//! Remembers what became of the recent changes of each rule, for the page and for `/status`. Pure.
//!
//! It follows from what the core reports and commands, with the times of that; the core itself does not need it: the
//! event loop keeps it (`run/facts.rs`) and adds it to the status (`run/answers.rs`). The number of changes is limited,
//! and so are their bytes: what is too much is the oldest.

mod change;

use std::collections::VecDeque;

use crate::clock::UnixTime;
use crate::command::{Command, Extent};
use crate::event::{Acted, RuleId};
use crate::evidence::Evidence;
use crate::fact::{AfterFresh, Attempt, Fact};
use crate::snapshot::Digest;
use crate::status::{Change, ChangedKeys, Outcome, State, StepName};
use change::begun;

/// The most changes of a rule.
pub const MOST_CHANGES: usize = 20;
/// The most bytes of all changes of all rules.
pub const MOST_BYTES: usize = 64 * 1024;
/// The recent changes of all rules.
#[derive(Debug, Default)]
pub struct History {
    rules: Vec<Changed>,
}

/// The recent changes of a rule.
#[derive(Debug, Default)]
struct Changed {
    /// The oldest first.
    changes: VecDeque<Change>,
    /// When the volumes that were read last were committed.
    committed: Option<UnixTime>,
    /// The content that was acted for last, unless its rollout has ended.
    rollout: Option<Digest>,
    /// The content that failed, and the one that it is rolled back to.
    back: Option<(Digest, Digest)>,
}

impl History {
    /// The volumes of a rule were read, and the newest of those was committed at this time.
    pub fn read(&mut self, rule: RuleId, committed: UnixTime) {
        self.happened(rule, |changed| changed.committed = Some(committed));
    }

    /// The core has given this command.
    pub fn commanded(&mut self, now: UnixTime, command: &Command) {
        match command {
            Command::Check(rule, digest) => self.happened(*rule, |changed| {
                changed.on_disk(now, *digest).begin_step(now, StepName::Check);
            }),
            Command::Publish(rule, digest) => {
                self.happened(*rule, |changed| _ = changed.acting(now, *digest));
            }
            Command::RollBack(rule, back) => {
                self.happened(*rule, |changed| _ = changed.acting(now, back.to));
            }
            Command::Act(act) if act.extent == Extent::Send => {
                self.happened(act.rule, |changed| {
                    let change = changed.acting(now, act.digest);
                    // The way back to the last good content has attempts of its own.
                    if change.digest == Some(act.digest) {
                        change.attempts = act.attempt;
                    }
                });
            }
            Command::Report(rule, fact) => {
                self.happened(*rule, |changed| changed.reported(now, fact));
            }
            _ => {}
        }
    }

    /// An action of a rule was answered. What was not sent waits, also if that was reported before.
    pub fn acted(&mut self, now: UnixTime, rule: RuleId, acted: &Acted) {
        if matches!(acted, Acted::Absent(_) | Acted::Failed(_) | Acted::Refused(_)) {
            self.happened(rule, |changed| {
                if let Some(change) = changed.in_rollout() {
                    change.begin_step(now, StepName::Wait);
                }
            });
        }
    }

    fn happened(&mut self, rule: RuleId, what: impl FnOnce(&mut Changed)) {
        if self.rules.len() <= rule.0 {
            self.rules.resize_with(rule.0 + 1, Changed::default);
        }
        let Some(changed) = self.rules.get_mut(rule.0) else { return };
        what(changed);
        if changed.changes.len() > MOST_CHANGES {
            changed.changes.pop_front();
        }
        self.limit_bytes();
    }

    /// The recent changes of a rule in this state, the newest first.
    #[must_use]
    pub fn changes(&self, rule: RuleId, state: State) -> Vec<Change> {
        let Some(known) = self.rules.get(rule.0) else { return Vec::new() };
        let changes = known.changes.iter().rev().filter_map(|change| {
            // The content went back before it was of interest to the core, which reports nothing then.
            let is_over = state == State::Idle && change.is_open();
            match change.digest {
                None if is_over => None,
                Some(_) if is_over => {
                    let last = change.steps.last().map(|step| step.began_at);
                    Some(Change { outcome: Outcome::Superseded, ended_at: last, ..change.clone() })
                }
                _ => Some(change.clone()),
            }
        });
        changes.collect()
    }

    fn limit_bytes(&mut self) {
        let bytes = |rule: &Changed| rule.changes.iter().map(Change::bytes).sum::<usize>();
        let mut all: usize = self.rules.iter().map(bytes).sum();
        while all > MOST_BYTES {
            let began = |rule: &&mut Changed| rule.changes.front().map(Change::began_at);
            let with_any = self.rules.iter_mut().filter(|rule| !rule.changes.is_empty());
            let oldest = with_any.min_by_key(began).and_then(|rule| rule.changes.pop_front());
            let Some(oldest) = oldest else { return };
            all = all.saturating_sub(oldest.bytes());
        }
    }
}

impl Changed {
    fn acting(&mut self, now: UnixTime, digest: Digest) -> &mut Change {
        let digest = self.in_place_of(digest);
        self.rollout = Some(digest);
        let others = self.changes.iter_mut().filter(|change| change.is_open());
        for other in others.filter(|other| other.digest.is_some_and(|other| other != digest)) {
            other.ends(now, Outcome::Superseded);
        }
        let change = self.of(now, digest);
        change.begin_step(now, StepName::Act);
        change
    }

    fn reported(&mut self, now: UnixTime, fact: &Fact) {
        match fact {
            Fact::KeysChanged(_, keys) => {
                let committed = self.committed;
                let change = self.unknown(now, committed);
                change.committed_at = committed;
                change.keys.get_or_insert_default().add(keys);
            }
            Fact::Triggered => match self.changes.back_mut().filter(|last| last.is_open()) {
                Some(last) => {
                    last.triggered = true;
                    last.released();
                }
                None => self.unknown(now, None).triggered = true,
            },
            Fact::Resumed => {
                let open = self.changes.iter_mut().filter(|change| change.is_open());
                open.for_each(Change::released);
            }
            Fact::Passed(digest) | Fact::Scheduled(digest, ..) => {
                self.on_disk(now, *digest).begin_step(now, StepName::Wait);
            }
            Fact::Draining(digest, _) | Fact::EndingForPod(digest, _) | Fact::Evicted(digest) => {
                self.of(now, *digest).begin_step(now, StepName::Wait);
            }
            Fact::Sent(digest, _)
            | Fact::Accepted(digest, _)
            | Fact::Restarted(digest, ..)
            | Fact::Fresh(digest, _, AfterFresh::Verifies) => {
                self.of(now, *digest).begin_step(now, StepName::Verify);
            }
            Fact::Escalating(digest, reason) => {
                self.of(now, *digest).waits(now, reason);
            }
            Fact::Baseline(digest, _) => self.baseline_found(now, *digest),
            Fact::KeepsEnding(digest, reason) => self.last_of(now, *digest).because(reason),
            Fact::Held(reason, _) | Fact::CheckFailed(reason, _) => {
                let last = self.changes.back_mut().filter(|last| last.is_open());
                if let Some(change) = last {
                    change.waits(now, reason);
                }
            }
            Fact::Retrying(_, _, reason) | Fact::TargetAbsent(reason) | Fact::Refused(reason) => {
                if let Some(change) = self.in_rollout() {
                    if let Fact::Retrying(_, Attempt { most, .. }, _) = fact {
                        change.attempts_allowed = Some(*most);
                    }
                    change.waits(now, reason);
                }
            }
            Fact::RollingBack(failed, good, reason) => {
                let change = self.last_of(now, *failed);
                change.because(reason);
                change.begin_step(now, StepName::Act);
                self.back = Some((*failed, *good));
                self.rollout = Some(*failed);
            }
            _ => self.ended(now, fact),
        }
    }

    /// The application runs this content without an action: it was only checked, or it has come back.
    fn baseline_found(&mut self, now: UnixTime, digest: Digest) {
        let is_it = |one: &Change| one.is_open() && one.digest == Some(digest) && !one.triggered;
        let has_keys =
            |one: &Change| one.keys.as_ref().is_some_and(|keys| *keys != ChangedKeys::default());
        self.changes.retain(|one| !is_it(one) || has_keys(one));
        let back = self.changes.iter_mut().filter(|one| is_it(one));
        back.for_each(|one| one.ends(now, Outcome::Cancelled));
    }

    /// The facts that end a change.
    fn ended(&mut self, now: UnixTime, fact: &Fact) {
        let (digest, outcome, evidence, reason) = match fact {
            Fact::Applied(digest, evidence, _) => (digest, Outcome::Applied, *evidence, None),
            Fact::Fresh(digest, ..) => (digest, Outcome::Applied, Evidence::ReadAtStart, None),
            Fact::Delivered(digest, evidence, _) => (digest, Outcome::Delivered, *evidence, None),
            Fact::Superseded(digest) => (digest, Outcome::Superseded, Evidence::None, None),
            Fact::Rejected(digest, why) => (digest, Outcome::Rejected, Evidence::None, Some(why)),
            Fact::RolledBack(digest) => (digest, Outcome::RolledBack, Evidence::None, None),
            Fact::Tripped(digest, why) => (digest, Outcome::Tripped, Evidence::None, Some(why)),
            Fact::GaveUp(digest, why, _) | Fact::PodNotRestarted(digest, why) => {
                (digest, Outcome::Failed, Evidence::None, Some(why))
            }
            Fact::Cancelled(_) => return self.cancelled(now, None),
            Fact::Unchanged(_) => return self.cancelled(now, self.rollout),
            _ => return,
        };
        let digest = self.in_place_of(*digest);
        let change = match outcome {
            // The content on disk was quarantined before, and is not rolled out at all.
            Outcome::RolledBack if self.back.is_none() => match self.changes.back_mut() {
                Some(last) if last.is_open() => last,
                _ => return,
            },
            _ => self.last_of(now, digest),
        };
        change.evidence = evidence;
        if let Some(reason) = reason {
            change.because(reason);
        }
        change.ends(now, outcome);
        if self.rollout == Some(digest) {
            self.rollout = None;
        }
        self.back = self.back.filter(|(failed, _)| *failed != digest);
    }

    /// The content went back to what the application runs. This rollout goes on.
    fn cancelled(&mut self, now: UnixTime, rollout: Option<Digest>) {
        self.forget_unknown();
        let open = self.changes.iter_mut().filter(|change| change.is_open());
        for change in open.filter(|change| rollout.is_none() || change.digest != rollout) {
            change.ends(now, Outcome::Cancelled);
        }
    }

    /// The content whose change this one is a part of: the one that is rolled back.
    fn in_place_of(&self, digest: Digest) -> Digest {
        self.back.filter(|(_, good)| *good == digest).map_or(digest, |(failed, _)| failed)
    }

    /// The change of this content, which is on disk.
    fn on_disk(&mut self, now: UnixTime, digest: Digest) -> &mut Change {
        let is_back = |change: &Change| change.is_open() && change.digest == Some(digest);
        if self.changes.iter().any(is_back) {
            self.forget_unknown();
        }
        self.of(now, digest)
    }

    /// The change of this content that goes on, or begins.
    fn of(&mut self, now: UnixTime, digest: Digest) -> &mut Change {
        let digest = self.in_place_of(digest);
        let may_go_on = |change: &Change| {
            let is_over = matches!(change.outcome, Outcome::Applied | Outcome::Delivered);
            change.digest == Some(digest) && !is_over
        };
        self.change(now, digest, may_go_on)
    }

    /// The last change of this content, whatever became of it.
    fn last_of(&mut self, now: UnixTime, digest: Digest) -> &mut Change {
        self.change(now, digest, |change| change.digest == Some(digest))
    }

    #[expect(clippy::indexing_slicing, reason = "it was found, or added")]
    fn change(
        &mut self,
        now: UnixTime,
        digest: Digest,
        is: impl Fn(&Change) -> bool,
    ) -> &mut Change {
        let open = self.changes.iter().rposition(|one| one.is_open() && one.digest == Some(digest));
        let unknown = self.changes.iter().rposition(Change::is_unknown);
        if let (None, Some(at)) = (open, unknown) {
            self.known(now, at, digest);
        }
        let at = open.or(unknown).or_else(|| self.changes.iter().rposition(is));
        let at = at.unwrap_or_else(|| {
            self.changes.push_back(Change { digest: Some(digest), ..begun(now) });
            self.changes.len() - 1
        });
        &mut self.changes[at]
    }

    /// The change at this place is of this content: no other content waits any more.
    fn known(&mut self, now: UnixTime, at: usize, digest: Digest) {
        let rollout = self.rollout;
        for (n, change) in self.changes.iter_mut().enumerate() {
            if n == at {
                change.digest = Some(digest);
            } else if change.is_open() && change.digest != rollout {
                change.ends(now, Outcome::Superseded);
            }
        }
    }

    /// The change whose content is not known yet.
    #[expect(clippy::indexing_slicing, reason = "there is one, or it was added")]
    fn unknown(&mut self, now: UnixTime, committed: Option<UnixTime>) -> &mut Change {
        if !self.changes.back().is_some_and(Change::is_unknown) {
            let began = committed.filter(|committed| *committed < now).unwrap_or(now);
            self.changes.push_back(begun(began));
        }
        let last = self.changes.len() - 1;
        &mut self.changes[last]
    }

    fn forget_unknown(&mut self) {
        self.changes.retain(|change| !change.is_unknown());
    }

    /// The change that is being rolled out, or else the last one.
    fn in_rollout(&mut self) -> Option<&mut Change> {
        let is_rollout = |one: &Change| one.is_open() && one.digest == self.rollout;
        let at = self.changes.iter().rposition(is_rollout);
        let at = at.or_else(|| self.changes.len().checked_sub(1))?;
        self.changes.get_mut(at).filter(|change| change.is_open())
    }
}
