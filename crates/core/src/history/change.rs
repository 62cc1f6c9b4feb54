//! One change and its steps.

use std::time::Duration;

use crate::clock::UnixTime;
use crate::evidence::Evidence;
use crate::reason::Reason;
use crate::snapshot::{Changes, Key};
use crate::status::{Change, ChangedKeys, Outcome, Step, StepName};

/// The most steps of a change: enough for twelve attempts. Of more, those in the middle become one step.
const MOST_STEPS: usize = 40;
/// The first steps, which are always kept: those before the second attempt.
const FIRST_STEPS: usize = 6;
/// The most steps of an attempt, with the wait before it.
const STEPS_OF_ATTEMPT: usize = 4;
/// A shorter wait is none: what follows was only computed.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// The most names of keys of a change.
const MOST_KEYS: usize = 12;
/// The longest name of a key, in characters.
const LONGEST_KEY: usize = 80;
/// The longest message, and the longest hint, in characters.
const LONGEST_REASON: usize = 400;

pub(super) fn begun(at: UnixTime) -> Change {
    Change {
        digest: None,
        triggered: false,
        keys: Some(ChangedKeys::default()),
        committed_at: None,
        ended_at: None,
        outcome: Outcome::InProgress,
        evidence: Evidence::None,
        reason: None,
        attempts: 0,
        attempts_allowed: None,
        steps: vec![Step { step: StepName::Settle, began_at: at }],
    }
}

impl Change {
    pub(super) fn is_open(&self) -> bool {
        self.outcome == Outcome::InProgress
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.is_open() && self.digest.is_none()
    }

    /// Begins a step, unless it is the current one.
    pub(super) fn begin_step(&mut self, now: UnixTime, step: StepName) {
        if let Some(ended) = self.ended_at.take() {
            self.add(ended, StepName::Wait);
        }
        self.outcome = Outcome::InProgress;
        self.add(now, step);
    }

    fn add(&mut self, now: UnixTime, step: StepName) {
        if let [.., last] = self.steps.as_slice() {
            let is_short = now.since(last.began_at) < SHORTEST_WAIT;
            // Without a commit, the first step begins with what happened first.
            if now == last.began_at || (last.step == StepName::Wait && is_short) {
                self.steps.pop();
            }
        }
        let is_current = self.steps.last().is_some_and(|last| last.step == step);
        if !is_current {
            if self.steps.len() == MOST_STEPS {
                self.leave_out_an_attempt();
            }
            self.steps.push(Step { step, began_at: now });
        }
    }

    /// Has one step stand for the earliest steps that are repeated after the first ones.
    fn leave_out_an_attempt(&mut self) {
        let name = |at: usize| self.steps.get(at).map(|step| step.step);
        let is_there = name(FIRST_STEPS) == Some(StepName::Repeat);
        let from = FIRST_STEPS + usize::from(is_there);
        let mut lengths = 2..=STEPS_OF_ATTEMPT;
        let repeated = lengths.find(|length| name(from + length) == name(from)).unwrap_or(2);
        let first = self.steps.drain(from..from + repeated).next();
        if let (false, Some(first)) = (is_there, first) {
            self.steps.insert(FIRST_STEPS, Step { step: StepName::Repeat, ..first });
        }
    }

    pub(super) fn waits(&mut self, now: UnixTime, reason: &Reason) {
        self.because(reason);
        self.begin_step(now, StepName::Wait);
    }

    pub(super) fn because(&mut self, reason: &Reason) {
        let cut = |text: &String| cut(text, LONGEST_REASON);
        let hint = reason.hint.as_ref().map(cut);
        self.reason = Some(Reason { message: cut(&reason.message), hint });
    }

    /// A person has ended a hold: the hint says how to do that.
    pub(super) fn released(&mut self) {
        self.reason.iter_mut().for_each(|reason| reason.hint = None);
    }

    pub(super) fn ends(&mut self, now: UnixTime, outcome: Outcome) {
        self.outcome = outcome;
        self.ended_at = Some(now);
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let reason = self.reason.as_ref();
        let reason =
            reason.map(|reason| reason.message.len() + reason.hint.as_ref().map_or(0, String::len));
        let keys = self.keys.iter().flat_map(|keys| [&keys.added, &keys.changed, &keys.removed]);
        let keys = keys.flatten().map(|name| size_of::<String>() + name.len());
        size_of::<Self>()
            + size_of::<Step>() * self.steps.len()
            + reason.unwrap_or(0)
            + keys.sum::<usize>()
    }
}

impl ChangedKeys {
    pub(super) fn add(&mut self, changes: &Changes) {
        let Self { added, changed, removed, more } = self;
        let mut room = MOST_KEYS.saturating_sub(added.len() + changed.len() + removed.len());
        for (names, keys) in
            [(added, &changes.added), (changed, &changes.changed), (removed, &changes.removed)]
        {
            for key in keys {
                let name = key_name(key);
                if names.contains(&name) {
                    continue;
                }
                if room == 0 {
                    *more += 1;
                } else {
                    names.push(name);
                    room -= 1;
                }
            }
        }
    }
}

fn key_name(key: &Key) -> String {
    cut(&key.to_string(), LONGEST_KEY)
}

fn cut(text: &str, longest: usize) -> String {
    let mut cut: String = text.chars().take(longest).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
