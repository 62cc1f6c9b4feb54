//! When content has its turn: after the checks, the jitter and the minimum interval, or when a
//! person wants it.

use std::collections::VecDeque;

use super::delivery::{Attempt, Phase};
use super::event::Command;
use super::fact::Fact;
use super::jitter;
use super::look::OnDisk;
use super::rule::Rule;
use crate::clock::{Moment, Now};

impl Rule {
    /// Content is to be delivered: it is checked, and then has its turn.
    pub(super) fn want(&mut self, now: Moment, disk: OnDisk, out: &mut VecDeque<Command>) {
        if self.check(disk, out) {
            self.schedule(now, disk, out);
        } else if matches!(self.phase, Phase::Starting) {
            self.phase = Phase::Idle;
        }
    }

    /// Begins the wait for the content's turn.
    fn schedule(&mut self, now: Moment, disk: OnDisk, out: &mut VecDeque<Command>) {
        let fire_at = self.turn(now, disk, out);
        self.turn = None;
        self.phase = Phase::Waiting { fire_at };
    }

    /// When what is on disk has its turn: at once, if the application has nothing to start with, or
    /// goes back to what was good.
    pub(super) fn turn(
        &mut self,
        now: Moment,
        disk: OnDisk,
        out: &mut VecDeque<Command>,
    ) -> Moment {
        let is_urgent = self.is_first_fill() || self.published.good == Some(disk.digest);
        let is_known = self.turn.is_some_and(|(digest, _)| digest == disk.digest);
        let at = match self.turn {
            // A wait keeps its time, whatever content comes meanwhile.
            Some((_, at)) if is_known || !is_urgent => at,
            _ if is_urgent => now,
            _ => {
                self.draws += 1;
                let jitter = self.policy.jitter;
                now.after(jitter::wait(jitter, &self.replica, &disk.digest, self.draws))
            }
        };
        let fire_at = if is_urgent { at } else { self.spaced(at) };
        if !is_known {
            self.say(Fact::Scheduled(disk.digest, fire_at.since(now)), out);
        }
        self.turn = Some((disk.digest, at));
        fire_at
    }

    /// Begins an action if its time has come, or if a person asked for it.
    pub(super) fn fire_if_due(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.phase.is_busy() || matches!(self.phase, Phase::Inspecting(_) | Phase::Stopped) {
            return;
        }
        let due = self.phase.due().is_some_and(|at| now.mono >= at);
        let disk = self.look.on_disk();
        // The application is told of what it reads again before a person's wish has its turn, which
        // may also have failed a moment ago.
        let is_untold = self.phase.is_rolling_back()
            && matches!(self.phase, Phase::TargetAbsent { .. } | Phase::Backoff { .. });
        let has_turn = self.turn.is_none_or(|(_, at)| at <= now.mono) || !self.goes_on();
        let is_possible = self.reads_volumes() || self.is_whole();
        let may_force =
            self.forced && self.forced_for.is_some() && is_possible && !is_untold && has_turn;
        if let Some(disk) = disk.filter(|_| may_force)
            && self.check(disk, out)
        {
            self.forced = false;
            self.begin(now, Attempt::first(disk, true), out);
        } else if due && self.goes_on() {
            let is_replaced = disk.is_some_and(|disk| self.replace_if_due(now, disk, out));
            if !is_replaced && let Some(attempt) = self.phase.next_attempt() {
                self.begin_unless_held(now, attempt, out);
            }
        } else if let Some(disk) = disk.filter(|_| due && self.is_whole())
            && self.check(disk, out)
        {
            let attempt = self.phase.next_attempt().map(|attempt| Attempt { disk, ..attempt });
            let attempt = attempt.unwrap_or_else(|| Attempt::first(disk, false));
            self.begin_unless_held(now, attempt, out);
        }
    }

    /// Whether what is due may begin.
    pub(super) fn may_fire(&self) -> bool {
        self.goes_on() || (!self.look.is_busy() && self.is_whole() && self.is_usable())
    }

    /// Whether all of what is on disk can be delivered: what cannot be read cannot be published.
    pub(super) fn is_whole(&self) -> bool {
        let is_read = self.reads_volumes() || self.look.unreadable().is_none();
        is_read && !self.look.is_missing_a_volume()
    }

    /// The first moment from `at` on that keeps the minimum interval.
    pub(super) fn spaced(&self, at: Moment) -> Moment {
        self.last_action.map_or(at, |last| at.max(last.after(self.policy.min_interval)))
    }
}
