//! The decisions, as a pure machine: events and times in, commands out.
//!
//! [`Core::handle`] takes an event, [`Core::next_command`] gives what is to be done,
//! [`Core::next_wakeup`] says when to call [`Core::tick`] if nothing happens before, and
//! [`Core::status`] shows everything. Nothing in here reads a clock, a file, a socket, the
//! environment or a random source, so that every behaviour can be tested at any speed.

pub mod backoff;
mod changed;
mod delivery;
pub mod event;
pub mod fact;
mod hold;
pub mod jitter;
mod look;
mod outcome;
mod policy;
mod publishing;
mod reading;
mod restart;
mod rule;
mod seen;
pub mod settle;
mod showing;
pub mod status;
mod turn;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use event::{Command, Event, Memory, Published, RuleId, VolumeId, Watch};
use jitter::Replica;
pub use policy::{Policy, PolicyVolume};
use rule::Rule;
use status::Status;

/// How often volumes are looked at without a hint.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Every volume, to find what the watch missed.
    pub audit: Duration,
    /// Volumes that inotify does not serve.
    pub poll: Duration,
}

/// All rules, and the rounds of audit and poll.
#[derive(Debug)]
pub struct Core {
    rules: Vec<Rule>,
    rule_of_volume: BTreeMap<VolumeId, RuleId>,
    commands: VecDeque<Command>,
    rounds: Rounds,
    next_audit: Moment,
    next_poll: Moment,
    /// When the last audit that was asked for is overdue.
    audit_overdue: Option<Moment>,
    started: UnixTime,
}

impl Core {
    /// Starts at `now`: every rule looks at its volumes at once. `known` gives what the state
    /// directory holds for each rule, where missing ones are unknown, and what lies in its publish
    /// directory, if it has one.
    #[must_use]
    pub fn new(
        policies: Vec<Policy>,
        known: (&BTreeMap<RuleId, Memory>, &BTreeMap<RuleId, Published>),
        replica: &Replica,
        rounds: Rounds,
        now: Now,
    ) -> Self {
        let (remembered, published) = known;
        let rule_of_volume = policies
            .iter()
            .enumerate()
            .flat_map(|(n, policy)| policy.volumes.iter().map(move |v| (v.id, RuleId(n))))
            .collect();
        let rules = policies.into_iter().enumerate().map(|(n, policy)| {
            let id = RuleId(n);
            let published = published.get(&id).cloned().unwrap_or_default();
            let known = (remembered.get(&id).copied(), published);
            Rule::new(id, policy, known, replica.clone(), now.mono)
        });
        let mut core = Self {
            rules: rules.collect(),
            rule_of_volume,
            commands: VecDeque::new(),
            rounds,
            next_audit: now.mono.after(rounds.audit),
            next_poll: now.mono.after(rounds.poll),
            audit_overdue: None,
            started: now.wall,
        };
        core.tick(now);
        core
    }

    /// Takes an event.
    pub fn handle(&mut self, now: Now, event: Event) {
        match event {
            Event::Touched(volume) => self.on_volume(volume, |rule, _| rule.touched(now, volume)),
            Event::Untold(volume) => self.on_volume(volume, |rule, _| rule.untold(now, volume)),
            Event::TouchedAll => {
                for rule in &mut self.rules {
                    rule.touched_all(now);
                }
            }
            Event::Audited(volume, begun, generation) => {
                self.audit_overdue = None;
                let seen = generation.as_ref();
                self.on_volume(volume, |rule, _| rule.audited(now, volume, begun, seen));
            }
            Event::AuditFailed(volume) => {
                self.audit_overdue = None;
                // The look that follows says what is wrong.
                self.on_volume(volume, |rule, _| rule.untold(now, volume));
            }
            Event::Watched(volume, watch) => {
                self.on_volume(volume, |rule, out| rule.watched(volume, &watch, out));
            }
            Event::Scanned(rule, scans) => {
                self.on_rule(rule, |rule, out| rule.scanned(now, scans, out));
            }
            Event::Inspected(rule, started) => {
                self.on_rule(rule, |rule, out| rule.inspected(now, started, out));
            }
            Event::Checked(rule, checked) => {
                self.on_rule(rule, |rule, out| rule.checked(now, checked, out));
            }
            Event::Expires(rule, at) => self.on_rule(rule, |rule, _| rule.expires(at)),
            Event::Paused(rule, by) => {
                self.on_rule(rule, |rule, out| rule.paused(now, by, out));
            }
            Event::Published(rule, publication) => {
                self.on_rule(rule, |rule, out| rule.was_published(now, publication, out));
            }
            Event::Acted(rule, acted) => {
                self.on_rule(rule, |rule, out| rule.acted(now, acted, out));
            }
            Event::Ended(rule) => self.on_rule(rule, |rule, _| rule.target_ended(now)),
            Event::Verified(rule, verified) => {
                self.on_rule(rule, |rule, out| rule.verified(now, verified, out));
            }
            Event::Force(Some(rule)) => self.on_rule(rule, |rule, out| rule.force(now, out)),
            Event::Force(None) => {
                for rule in &mut self.rules {
                    rule.force(now, &mut self.commands);
                }
            }
            Event::Stop => {
                for rule in &mut self.rules {
                    rule.stop();
                }
            }
        }
        self.tick(now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Now) {
        for rule in &mut self.rules {
            rule.advance(now, &mut self.commands);
        }
        if self.is_stopped() {
            return;
        }
        if now.mono >= self.next_audit {
            self.next_audit = now.mono.after(self.rounds.audit);
            self.audit_overdue.get_or_insert(now.mono.after(self.rounds.audit * 2));
            self.commands.push_back(Command::Audit(self.rule_of_volume.keys().copied().collect()));
        }
        if now.mono >= self.next_poll {
            self.next_poll = now.mono.after(self.rounds.poll);
            let polled: Vec<_> =
                self.rules.iter().flat_map(|rule| rule.look().polled_volumes()).collect();
            if !polled.is_empty() {
                self.commands.push_back(Command::Audit(polled));
            }
        }
    }

    /// What is to be done next. Call until it gives nothing, after every event and tick.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When to call [`Core::tick`] at the latest. Nothing but the audit wakes an idle core.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        if self.is_stopped() {
            return None;
        }
        let polls = self.rules.iter().any(|rule| rule.look().polled_volumes().next().is_some());
        self.rules
            .iter()
            .filter_map(Rule::next_wakeup)
            .chain([self.next_audit])
            .chain(polls.then_some(self.next_poll))
            .min()
    }

    /// Whether podnudge was told to end and nothing runs any more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.rules.iter().all(Rule::is_stopped)
    }

    /// Everything that can be shown.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION"),
            now: now.wall,
            started: self.started,
            ready: self.rules.iter().all(|rule| rule.not_ready().is_none()),
            unhealthy: self.unhealthy(now.mono),
            rules: self.rules.iter().map(|rule| rule.status(now)).collect(),
        }
    }

    fn unhealthy(&self, now: Moment) -> Option<Reason> {
        self.audit_overdue.is_some_and(|overdue| now >= overdue).then(|| {
            Reason::new("the audit of the volumes does not come back")
                .hint("a watched path hangs, perhaps on a network file system; restart podnudge")
        })
    }

    fn on_rule(&mut self, id: RuleId, apply: impl FnOnce(&mut Rule, &mut VecDeque<Command>)) {
        if let Some(rule) = self.rules.get_mut(id.0) {
            apply(rule, &mut self.commands);
        }
    }

    fn on_volume(&mut self, id: VolumeId, apply: impl FnOnce(&mut Rule, &mut VecDeque<Command>)) {
        if let Some(rule) = self.rule_of_volume.get(&id).copied() {
            self.on_rule(rule, apply);
        }
    }
}

/// The name of a way of watching, for metrics and status.
fn backend_name(watch: Option<&Watch>) -> &'static str {
    match watch {
        None => "starting",
        Some(Watch::Inotify) => "inotify",
        Some(Watch::Polling(_)) => "polling",
    }
}
