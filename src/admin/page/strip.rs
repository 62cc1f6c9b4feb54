//! The steps of a rule's content from the edit to the proof, and the one that it is in. Pure.
//!
//! The mark of that step is the one of the rule: green only once the proof came, red as long as it fails. What is not
//! known, such as the edit itself, has no time.

use std::cmp::Ordering;
use std::time::Duration;

use super::html::{Html, duration};
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::status::{Change, EagerSyncStatus, Outcome, RuleStatus, State, StepName};

/// The names of the steps, in their order.
const STEPS: [&str; 6] = ["edit", "written", "checked", "published", "sent", "proven"];
const WRITTEN: usize = 1;
const CHECKED: usize = 2;
const PUBLISHED: usize = 3;
const SENT: usize = 4;
const PROVEN: usize = 5;

/// How it is with a rule or a change. The worst first, as the page shows the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Bad,
    Open,
    Good,
}

impl Mark {
    /// The class of its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Open => "open",
            Self::Good => "good",
        }
    }

    /// The sign that tells the mark without its colour.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Bad => "✗ ",
            Self::Open => "● ",
            Self::Good => "✓ ",
        }
    }
}

/// The step that the content of a rule is in, with its mark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    step: usize,
    pub(super) mark: Mark,
    /// The change that the steps are of: the one being rolled out, or else the newest.
    change: Option<&'a Change>,
}

impl<'a> Place<'a> {
    pub(super) fn of(rule: &'a RuleStatus) -> Self {
        let is_open = |one: &&Change| one.outcome == Outcome::InProgress;
        let in_rollout = rule.changes.iter().filter(is_open).find(|one| has(one, StepName::Act));
        let is_on_disk = |one: &&Change| one.digest.is_none() || one.digest == rule.digest_on_disk;
        let change = match rule.state {
            State::Idle => rule.changes.first().filter(is_on_disk),
            _ => in_rollout.or(rule.changes.first()),
        };
        let going_on = change.map_or(Mark::Open, going_on);
        let was_sent = change.is_none_or(|change| has(change, StepName::Verify));
        let (step, mark) = match rule.state {
            State::Starting | State::WaitingForVolume | State::Settling | State::Scanning => {
                (WRITTEN, Mark::Open)
            }
            State::Checking => (CHECKED, Mark::Open),
            State::Rejected => (CHECKED, Mark::Bad),
            State::Publishing => (PUBLISHED, going_on),
            State::Waiting | State::Held | State::WaitingForTarget => match rule.digest_published {
                Some(published) if Some(published) != rule.digest_on_disk => (PUBLISHED, going_on),
                _ => (SENT, going_on),
            },
            State::Draining | State::Acting => (SENT, going_on),
            State::Backoff | State::Failed if was_sent => (PROVEN, Mark::Bad),
            State::Backoff | State::Failed | State::Refused => (SENT, Mark::Bad),
            State::Verifying | State::Stopped => (PROVEN, going_on),
            State::Tripped | State::RollingBack | State::RolledBack => (PROVEN, Mark::Bad),
            State::Idle => match rule.in_sync {
                InSync::Yes => (PROVEN, Mark::Good),
                InSync::No => (PROVEN, Mark::Bad),
                InSync::Unknown => (PROVEN, Mark::Open),
            },
        };
        Self { step, mark, change }
    }

    /// `attempt 2 of 3`, if one has failed.
    pub(super) fn attempt(self) -> Option<String> {
        self.change.filter(|_| self.mark == Mark::Bad).and_then(attempt)
    }

    /// Appends the strip.
    pub(super) fn strip(
        self,
        html: &mut Html,
        rule: &RuleStatus,
        eager: Option<&EagerSyncStatus>,
        now: UnixTime,
    ) {
        let class = if self.mark == Mark::Good { "strip good" } else { "strip" };
        html.put("<ol class=\"%\">", &[class]);
        for (n, name) in STEPS.iter().enumerate() {
            let words = self.words(n, rule, eager, now);
            match (n.cmp(&self.step), &words) {
                (Ordering::Less, Some(_)) => _ = html.put("<li class=\"done\">✓ ", &[]),
                (Ordering::Less, None) => _ = html.put("<li>– ", &[]),
                (Ordering::Equal, _) => {
                    let (class, sign) = (self.mark.class(), self.mark.sign());
                    html.put("<li class=\"%\" aria-current=\"step\">%", &[class, sign]);
                }
                (Ordering::Greater, _) => _ = html.put("<li>○ ", &[]),
            }
            let is_known = self.change.is_some() && rule.digest_on_disk.is_some();
            let none = match n < self.step {
                true if is_known => "none",
                true => "no record",
                false => "",
            };
            html.put("% <small>%</small></li>", &[name, words.as_deref().unwrap_or(none)]);
        }
        html.put("</ol>\n", &[]);
    }

    /// What is known of a step: when it was, how long it took, or what goes on.
    fn words(
        self,
        step: usize,
        rule: &RuleStatus,
        eager: Option<&EagerSyncStatus>,
        now: UnixTime,
    ) -> Option<String> {
        let change = self.change;
        let took =
            |name| change.filter(|one| has(one, name)).map(|one| duration(time_in(one, name)));
        match step {
            PROVEN if rule.state == State::Idle && rule.evidence != Evidence::None => {
                Some(rule.evidence.name().to_owned())
            }
            _ if step == self.step => Some(self.attempt().unwrap_or_else(|| words(rule))),
            _ if step > self.step => None,
            WRITTEN => rule.committed_at.map(|at| duration(now.since(at)) + " ago"),
            CHECKED => took(StepName::Check),
            PUBLISHED => rule.digest_published.map(|_| String::new()),
            SENT => took(StepName::Act),
            _ => {
                Some(edit(rule, eager).map_or_else(String::new, |took| duration(took) + " before"))
            }
        }
    }
}

/// How long after the edit the content was written, where podnudge sees edits.
fn edit(rule: &RuleStatus, eager: Option<&EagerSyncStatus>) -> Option<Duration> {
    let committed = rule.committed_at?;
    eager?.objects.iter().find_map(|object| {
        let took = Duration::try_from_secs_f64(object.edit_to_commit_seconds?).ok()?;
        // The objects of other rules were edited at other times.
        let error = committed.since(object.edited_at?).abs_diff(took);
        (error < Duration::from_secs(1)).then_some(took)
    })
}

/// `attempt 2 of 3`, if one has failed.
pub(super) fn attempt(change: &Change) -> Option<String> {
    let of = change.attempts_allowed.map(|most| format!(" of {most}")).unwrap_or_default();
    (going_on(change) == Mark::Bad).then(|| format!("attempt {}{of}", change.attempts))
}

/// The mark of a change that goes on: bad once an attempt has failed, until another one succeeds.
pub(super) fn going_on(change: &Change) -> Mark {
    let has_failed = change.attempts > 1 || change.attempts_allowed.is_some();
    if has_failed { Mark::Bad } else { Mark::Open }
}

/// The state. That there is nothing to do does not tell whether all is well.
pub(super) fn words(rule: &RuleStatus) -> String {
    let known = match rule.in_sync {
        InSync::Yes => "in sync",
        InSync::No => "not in sync",
        InSync::Unknown => "not known to be in sync",
    };
    if rule.state == State::Idle {
        return known.to_owned();
    }
    // The name in the status.
    let name = serde_json::to_value(rule.state).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().replace('-', " ")
}

fn has(change: &Change, name: StepName) -> bool {
    change.steps.iter().any(|step| step.step == name)
}

/// How long the steps of this name have taken.
fn time_in(change: &Change, name: StepName) -> Duration {
    let ends = change.steps.iter().skip(1).map(|next| next.began_at).chain(change.ended_at);
    let steps = change.steps.iter().zip(ends).filter(|(step, _)| step.step == name);
    steps.map(|(step, end)| end.since(step.began_at)).sum()
}
