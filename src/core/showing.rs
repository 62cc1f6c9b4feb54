//! What a rule shows of itself.

use super::delivery::Phase;
use super::look;
use super::rule::Rule;
use super::status::{RuleStatus, State};
use super::verdict::Verdict;
use crate::clock::{Moment, Now, UnixTime};

impl Rule {
    pub(super) fn status(&self, now: Now) -> RuleStatus {
        let wall = |at: Moment| UnixTime(now.wall.0.saturating_add(at.since(now.mono)));
        let disk = self.look.on_disk();
        let running = disk.is_some_and(|disk| self.running == Some(disk.digest));
        RuleStatus {
            name: self.policy.name.clone(),
            state: self.state(),
            reason: disk
                .and_then(|disk| self.objection(disk.digest))
                .or_else(|| self.phase.reason())
                .or_else(|| self.look.unreadable())
                .cloned(),
            not_ready: self.not_ready(),
            in_sync: running
                && !self.look.is_missing_a_volume()
                && self.look.unreadable().is_none(),
            delivery: self.delivery,
            digest_on_disk: disk.map(|disk| disk.digest),
            digest_applied: self.applied.map(|(digest, _)| digest),
            digest_published: self.published.current.map(|current| current.digest),
            committed_at: disk.map(|disk| disk.committed),
            applied_at: self.applied.map(|(_, at)| at),
            certificates_expire_at: self.certificates_expire_at,
            next_action_at: self.phase.due().or_else(|| self.verdict.due()).map(wall),
            action: self.policy.action.clone(),
            volumes: self.look.status(),
            counters: self.counters.clone(),
        }
    }

    fn state(&self) -> State {
        let is_at_rest = !self.phase.is_busy()
            && !self.phase.is_rolling_back()
            && !matches!(self.phase, Phase::Starting | Phase::Stopped);
        match (self.phase.state(), self.look.phase()) {
            // Where taking it back has failed, too, that is what people must know.
            _ if is_at_rest && self.is_taken_back() && !self.is_stuck() => State::RolledBack,
            _ if is_at_rest && self.is_rejected() => State::Rejected,
            (State::Idle | State::Waiting, look::Phase::Quiet)
                if matches!(self.verdict, Verdict::Asked { .. } | Verdict::Later { .. }) =>
            {
                State::Checking
            }
            (
                State::Starting
                | State::Idle
                | State::Waiting
                | State::WaitingForTarget
                | State::Backoff,
                _,
            ) if self.look.is_missing_a_volume() => State::WaitingForVolume,
            (State::Idle, look::Phase::Settling(_)) => State::Settling,
            (State::Idle, look::Phase::Scanning { .. } | look::Phase::Backoff { .. }) => {
                State::Scanning
            }
            (state, _) => state,
        }
    }

    /// Whether the delivery has come to rest with what is on disk.
    fn is_stuck(&self) -> bool {
        let disk = self.look.on_disk().map(|disk| disk.digest);
        self.phase.stuck_on().is_some_and(|digest| Some(digest) == disk)
    }
}
