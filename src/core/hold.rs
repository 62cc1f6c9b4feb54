//! What keeps a rule from beginning: a pause, a closed window, an approval that is missing, or a
//! restart budget that is spent. What a person asks for, taking back what does not work, and what an
//! application is to start with wait for none of them.

use std::collections::VecDeque;
use std::time::Duration;

use super::delivery::{Attempt, Phase};
use super::event::Command;
use super::fact::Fact;
use super::jitter;
use super::rule::Rule;
use super::status::State;
use crate::clock::{Moment, Now};
use crate::config::Jitter;
use crate::reason::Reason;
use crate::shown;

/// Between two looks whether the file or key is still there that pauses a rule.
const PAUSE_POLL: Duration = Duration::from_secs(5);

impl Rule {
    /// Begins an attempt, unless something keeps it.
    pub(super) fn begin_unless_held(
        &mut self,
        now: Now,
        attempt: Attempt,
        out: &mut VecDeque<Command>,
    ) {
        let is_begun = attempt.number > 1 || self.is_published(attempt.digest());
        let is_urgent = self.is_first_fill() || self.is_good(attempt.digest());
        if attempt.forced || attempt.back_to.is_some() || is_urgent {
            self.begin(now, attempt, out);
        } else if let Some((at, reason)) = self.hold(now, &attempt, is_begun) {
            // What cannot be brought to its end now must not lie there until it can.
            if !is_begun || !self.roll_back(now, &attempt, &reason, out) {
                self.held(now.mono, attempt, at, reason, out);
            }
        } else if is_begun {
            self.begin(now, attempt, out);
        } else {
            self.begin_unless_paused(now, attempt, out);
        }
    }

    /// Begins an attempt that nothing else keeps, unless there is a file that pauses the rule.
    pub(super) fn begin_unless_paused(
        &mut self,
        now: Now,
        attempt: Attempt,
        out: &mut VecDeque<Command>,
    ) {
        if self.policy.hold.pause_file.is_some() {
            out.push_back(Command::LookForPause(self.id));
            self.phase = Phase::LookingForPause(attempt);
        } else {
            self.begin(now, attempt, out);
        }
    }

    /// The answer to the question whether the file is there that pauses the rule.
    pub(super) fn paused(&mut self, now: Now, by: Option<Reason>, out: &mut VecDeque<Command>) {
        let Phase::LookingForPause(attempt) = &self.phase else { return };
        let attempt = attempt.clone();
        match by {
            Some(reason) => {
                let at = now.mono.after(PAUSE_POLL);
                match self.replaced.take() {
                    Some(trial) => self.resume(now.mono, trial, &attempt, at),
                    None => self.held(now.mono, attempt, Some(at), reason, out),
                }
                self.reconcile(now, out);
            }
            None => self.begin(now, attempt, out),
        }
    }

    /// What keeps the rule from beginning now, and until when, if that is known. What was begun
    /// already goes on, as far as the budget allows.
    pub(super) fn hold(
        &mut self,
        now: Now,
        attempt: &Attempt,
        is_begun: bool,
    ) -> Option<(Option<Moment>, Reason)> {
        let at = self.next_restart(now.mono);
        if self.policy.is_restart && at > now.mono {
            let budget = self.policy.restarts;
            let within = humantime::format_duration(budget.within);
            let reason = format!("{} restarts within {within} are all there may be", budget.most);
            return Some((Some(at), Reason::new(reason)));
        }
        if is_begun {
            return None;
        }
        let hold = &self.policy.hold;
        if hold.approve {
            let reason = Reason::new("the rule waits for somebody to approve");
            return Some((None, reason.hint("with `agent.reload` set, run `podnudge trigger` or send POST /reload; or send podnudge HUP")));
        }
        if let Some(key) = hold.pause_key.as_ref().filter(|_| self.look.is_pausing()) {
            let reason = Reason::new(format!("paused by the key `{}`", shown::text(key)));
            let at = Some(now.mono.after(PAUSE_POLL));
            return Some((at, reason.hint("remove the key, or force the reload")));
        }
        if let Some(window) = &hold.window
            && let Some(opening) = window.next_opening(now.wall)
            && opening.from > now.wall
        {
            // Replicas that wait for the same hour are spread, too, but none beyond its end.
            let open_for = opening.until.since(opening.from);
            let jitter = self.policy.jitter;
            let jitter = Jitter { window: jitter.window.min(open_for), ..jitter };
            self.draws += 1;
            let jitter = jitter::wait(jitter, &self.replica, &attempt.digest(), self.draws);
            let (text, zone) = (&window.text, &window.zone_text);
            let reason = Reason::new(format!("outside of the window `{text}` ({zone})"));
            let wait = opening.from.since(now.wall);
            return Some((Some(now.mono.after(wait).after(jitter)), reason));
        }
        None
    }

    fn held(
        &mut self,
        now: Moment,
        mut attempt: Attempt,
        at: Option<Moment>,
        reason: Reason,
        out: &mut VecDeque<Command>,
    ) {
        if !attempt.has_said(State::Held, &reason) {
            self.say(Fact::Held(reason.clone(), at.map(|at| at.since(now))), out);
            attempt.said = Some((State::Held, reason.clone()));
        }
        self.phase = Phase::Held { attempt, at, reason };
    }
}
