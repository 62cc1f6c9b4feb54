//! A record of the events and commands of one core. From these alone it derives when a rollout must
//! begin, and which content may be quarantined.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use podnudge_core::Policy;
use podnudge_core::clock::Moment;
use podnudge_core::command::Command;
use podnudge_core::event::{Absence, Acted, Alive, Checked, Event, Proof, Publication};
use podnudge_core::evidence::InSync;
use podnudge_core::fact::Fact;
use podnudge_core::snapshot::Digest;
use podnudge_core::status::{RuleStatus, State};

/// A trigger that is not carried out yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    /// The scan that determines its content is still to come.
    Anything,
    For(Digest),
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The digest of the last checks, and whether they passed.
    checked: Option<(Digest, bool)>,
    /// The times of the last action and of the last successful action.
    last_action: Option<Moment>,
    delivered: Option<Moment>,
    /// The digest that was last published, rolled back to, or acted on.
    last: Option<Digest>,
    /// `last`, `rolling_back` and the evidence against the digest before its publication; they apply again if it
    /// fails.
    before: (Option<Digest>, Option<Digest>, Option<(Digest, &'static str)>),
    quarantined: BTreeSet<Digest>,
    /// The digest that is being rolled back.
    rolling_back: Option<Digest>,
    gave_up: Option<Digest>,
    /// The digests whose last publication failed, with its time.
    unpublished: BTreeMap<Digest, Moment>,
    asked: Asked,
    /// The evidence against each digest since its last publication.
    evidence: BTreeMap<Digest, &'static str>,
    /// The digests that were quarantined without evidence.
    pub(crate) unfounded: Vec<Digest>,
}

impl Record {
    /// Records a command of the core.
    pub(crate) fn command(&mut self, command: &Command) {
        match command {
            Command::Publish(_, digest) => {
                let evidence = self.evidence.remove_entry(digest);
                self.before = (self.last, self.rolling_back, evidence);
                (self.last, self.rolling_back) = (Some(*digest), None);
                self.unpublished.remove(digest);
                self.quarantined.remove(digest);
                self.got(*digest);
            }
            Command::RollBack(_, back) => {
                self.last = Some(back.to);
                self.rolling_back = Some(back.failed);
                self.quarantined.insert(back.failed);
                self.got(back.failed);
                if !self.evidence.contains_key(&back.failed) {
                    self.unfounded.push(back.failed);
                }
            }
            Command::Act(act) => {
                self.last = Some(act.digest);
                if act.fresh_after.is_none() {
                    self.got(act.digest);
                }
            }
            Command::Report(_, Fact::GaveUp(digest, ..)) => self.gave_up = Some(*digest),
            _ => {}
        }
    }

    /// The trigger for this digest is carried out.
    fn got(&mut self, digest: Digest) {
        if self.asked == Asked::For(digest) {
            self.asked = Asked::Nothing;
        }
    }

    /// Records an event for the core.
    pub(crate) fn event(&mut self, now: Moment, event: &Event) {
        match event {
            Event::Trigger(_) => {
                self.asked = Asked::Anything;
                self.gave_up = None;
                self.unpublished.clear();
            }
            Event::Checked(_, digest, checked) => {
                self.checked = Some((*digest, *checked == Checked::Passed));
                if matches!(checked, Checked::Rejected(_) | Checked::NotBefore(..)) {
                    self.got(*digest);
                }
            }
            Event::Published(_, Publication::Done) => {}
            Event::Published(_, publication) => {
                self.unpublished.extend(self.last.map(|digest| (digest, now)));
                let is_turned = match publication {
                    Publication::Failed(_, current) => *current == self.last,
                    _ => false,
                };
                if !is_turned && self.rolling_back.is_none() {
                    let evidence;
                    (self.last, self.rolling_back, evidence) = self.before;
                    self.evidence.extend(evidence);
                }
            }
            Event::Acted(_, acted) => self.acted(now, acted),
            Event::Verified(_, seen) => {
                let why = match (&seen.alive, &seen.proof) {
                    (Alive::Gone(_), _) => Some("a process has ended"),
                    (Alive::Absent(Absence { was_read: true, .. }), _) => Some("it was read"),
                    (Alive::Absent(_), _) => None,
                    (_, Proof::Pending(_)) => Some("a process gives no proof"),
                    _ => None,
                };
                self.evidence.extend(self.last.zip(why));
            }
            _ => {}
        }
    }

    fn acted(&mut self, now: Moment, acted: &Acted) {
        let why = match acted {
            Acted::Sent(_) | Acted::Accepted(_) | Acted::Restarted(_) => {
                (self.last_action, self.delivered) = (Some(now), Some(now));
                None
            }
            Acted::Fresh(_) | Acted::Unseen => {
                self.delivered = Some(now);
                None
            }
            Acted::Failed(_) | Acted::Declined(_) => {
                self.last_action = Some(now);
                Some("an action failed")
            }
            Acted::Absent(Absence { was_read: true, .. }) => Some("it was read"),
            Acted::Absent(_)
            | Acted::Refused(_)
            | Acted::Ready
            | Acted::EndsPod
            | Acted::Evicted
            | Acted::Postponed(..)
            | Acted::Unanswered(..)
            | Acted::NotRestarted(_) => None,
        };
        self.evidence.extend(self.last.zip(why));
    }

    /// Records the status after a scan.
    pub(crate) fn scanned(&mut self, rule: &RuleStatus) {
        let Some(disk) = rule.digest_on_disk else { return };
        self.asked = match self.asked {
            Asked::Anything => {
                self.quarantined.remove(&disk);
                Asked::For(disk)
            }
            Asked::For(digest) if digest != disk => Asked::Nothing,
            asked => asked,
        };
    }

    /// A rollout that should have begun by now but has not, at a time without pending commands.
    /// Only for rules without settle time, jitter, holds and restarts, whose actions do not change
    /// content.
    pub(crate) fn overdue(
        &self,
        now: Moment,
        rule: &RuleStatus,
        policy: &Policy,
    ) -> Option<String> {
        let disk = rule.digest_on_disk?;
        let over =
            |since: Option<Moment>, wait: Duration| since.is_none_or(|at| at.after(wait) <= now);
        let is_whole = rule.volumes.iter().all(|volume| volume.present && volume.reason.is_none());
        let has_passed = !policy.intake.has_checks || self.checked == Some((disk, true));
        let may_begin = is_whole
            && has_passed
            && rule.state != State::Stopped
            && over(self.delivered, policy.rollout.alive_for)
            && over(self.unpublished.get(&disk).copied(), policy.rollout.retry.max);
        if !may_begin {
            return None;
        }
        let is_rolling_back = self.rolling_back == Some(disk) && rule.state == State::RollingBack;
        if is_rolling_back {
            return None;
        }
        if self.asked == Asked::For(disk) {
            return Some(format!("{disk} was triggered"));
        }
        let is_left =
            rule.in_sync != InSync::No || self.last == Some(disk) || self.gave_up == Some(disk);
        let is_due =
            !self.quarantined.contains(&disk) && over(self.last_action, policy.gate.min_interval);
        (is_due && !is_left).then(|| format!("the rollout of {disk} has not begun"))
    }
}
