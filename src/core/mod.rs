//! The decisions, as a pure machine: events and times in, commands out.
//!
//! [`Core::handle`] takes an event, [`Core::next_command`] gives what is to be done,
//! [`Core::next_wakeup`] says when to call [`Core::tick`] if nothing happens before, and
//! [`Core::status`] shows everything. Nothing in here reads a clock, a file, a socket, the
//! environment or a random source, so that every behaviour can be tested at any speed.

pub mod backoff;
mod belief;
mod budget;
mod candidate;
mod changed;
mod checks;
pub mod command;
pub mod event;
pub mod fact;
mod gate;
mod generations;
pub mod jitter;
mod known;
mod policy;
mod rollout;
mod rule;
mod source;
pub mod status;

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
pub(crate) use belief::LONGEST_START;
use command::Command;
use event::{Alive, Event, Found, RuleId, Verified, VolumeId};
use jitter::Replica;
pub use policy::{Policy, PolicyVolume, TargetName};
use rollout::Input;
use rule::{Neighbours, Rule};
use source::Source;
use status::Status;

/// How often volumes are read without a hint.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Every volume, to find what the watch missed.
    pub resync: Duration,
    /// Volumes that inotify does not serve.
    pub poll: Duration,
}

/// All rules, and the rounds of resync and poll.
#[derive(Debug)]
pub struct Core {
    rules: Vec<Rule>,
    /// By the volume's number.
    rule_of_volume: Vec<RuleId>,
    commands: VecDeque<Command>,
    rounds: Rounds,
    next_resync: Moment,
    next_poll: Moment,
    /// When the last resync that was asked for is overdue.
    resync_overdue: Option<Moment>,
    started: UnixTime,
    /// The instant of the last event or tick.
    now: Now,
    /// The rule that was first in the last tick.
    first: usize,
}

impl Core {
    /// Starts at `now`: every rule scans its volumes at once. The volumes are numbered from 0, in the
    /// order of the rules.
    #[must_use]
    pub fn new(rules: Vec<(Policy, Found)>, replica: &Replica, rounds: Rounds, now: Now) -> Self {
        let of_volumes = |(n, (policy, _)): (usize, &(Policy, Found))| {
            std::iter::repeat_n(RuleId(n), policy.volumes.len())
        };
        let rule_of_volume = rules.iter().enumerate().flat_map(of_volumes).collect();
        let rules = rules
            .into_iter()
            .enumerate()
            .map(|(n, (policy, found))| Rule::new(RuleId(n), policy, found, replica.clone(), now));
        let mut core = Self {
            rules: rules.collect(),
            rule_of_volume,
            commands: VecDeque::new(),
            rounds,
            next_resync: now.mono.after(rounds.resync),
            next_poll: now.mono.after(rounds.poll),
            resync_overdue: None,
            started: now.wall,
            now,
            // At start they are read in the order of the configuration.
            first: usize::MAX,
        };
        core.tick(now);
        core
    }

    /// Takes an event.
    pub fn handle(&mut self, now: Now, event: Event) {
        match event {
            Event::Hint(volume, commits) => {
                self.on_source(volume, |source| source.hint(now.mono, volume, commits));
            }
            Event::HintLost(volume) => {
                self.on_source(volume, |source| source.hint_lost(now.mono, volume));
            }
            Event::HintsLost => {
                for rule in &mut self.rules {
                    rule.source_mut().hints_lost(now.mono);
                }
            }
            Event::Resynced(volume, begun, generation) => {
                self.resync_overdue = None;
                let found = generation.as_ref();
                self.on_source(volume, |source| source.resynced(now.mono, volume, begun, found));
            }
            Event::ResyncFailed(volume) => {
                self.resync_overdue = None;
                // The scan that follows says what is wrong.
                self.on_source(volume, |source| source.hint_lost(now.mono, volume));
            }
            Event::Watched(volume, watch) => {
                if let Some(rule) = self.rule_of_volume.get(volume.0).copied() {
                    self.on_rule(rule, |rule, out| rule.watched(volume, &watch, out));
                }
            }
            Event::Scanned(rule, scans) => {
                self.on_rule(rule, |rule, out| rule.scanned(now, scans, out));
            }
            Event::Inspected(rule, target) => {
                self.on_rule(rule, |rule, out| rule.inspected(now, target, out));
            }
            Event::Checked(rule, digest, checked) => {
                self.on_rule(rule, |rule, out| rule.checked(now, digest, checked, out));
            }
            Event::Expires(rule, at) => self.on_rule(rule, |rule, _| rule.expires(at)),
            Event::Probed(rule, probe, reason) => {
                self.on_rule(rule, |rule, _| rule.probed(now, probe, reason));
            }
            Event::Published(rule, publication) => {
                self.on_rule(rule, |rule, out| rule.published(now, publication, out));
            }
            Event::FoundPublished(rule, digest) => {
                self.on_rule(rule, |rule, out| rule.found_published(digest, out));
            }
            Event::Acted(rule, acted) => {
                self.on_rule(rule, |rule, out| rule.told(now, Input::Acted(acted), out));
            }
            Event::Ended(rule) => {
                self.on_rule(rule, |rule, out| rule.told(now, Input::Ended, out));
            }
            Event::Verified(rule, verified) => self.verified(now, rule, verified),
            Event::Trigger(Some(rule)) => {
                self.on_rule(rule, |rule, out| rule.trigger(now, out));
            }
            Event::Trigger(None) => {
                for rule in &mut self.rules {
                    rule.trigger(now, &mut self.commands);
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

    /// The end of a target is held against the rule that has given it content last.
    fn verified(&mut self, now: Now, id: RuleId, verified: Verified) {
        let suspect = match &verified.alive {
            Alive::Gone(reason) => self.given_newer(id.0).map(|suspect| (suspect, reason.clone())),
            _ => None,
        };
        self.on_rule(id, |rule, out| rule.told(now, Input::Verified(verified), out));
        if let Some((suspect, reason)) = suspect {
            let ended = Input::EndedElsewhere(reason);
            self.on_rule(RuleId(suspect), |rule, out| rule.told(now, ended, out));
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        // Of rules that share a target, none is always the first.
        self.first = self.first.wrapping_add(1) % self.rules.len().max(1);
        for place in (self.first..self.rules.len()).chain(0..self.first) {
            let neighbours = self.neighbours(place);
            self.on_rule(RuleId(place), |rule, out| rule.advance(now, neighbours, out));
        }
        if self.is_stopped() {
            return;
        }
        if now.mono >= self.next_resync {
            self.next_resync = now.mono.after(self.rounds.resync);
            self.resync_overdue.get_or_insert(now.mono.after(self.rounds.resync * 2));
            let all = (0..self.rule_of_volume.len()).map(VolumeId).collect();
            self.commands.push_back(Command::Resync(all));
            let publishing = self.rules.iter().enumerate().filter(|(_, rule)| rule.publishes());
            let read = publishing.map(|(place, _)| Command::ReadPublished(RuleId(place)));
            self.commands.extend(read);
        }
        if now.mono >= self.next_poll {
            self.next_poll = now.mono.after(self.rounds.poll);
            let polled: Vec<_> =
                self.rules.iter().flat_map(|rule| rule.source().polled_volumes()).collect();
            if !polled.is_empty() {
                self.commands.push_back(Command::Resync(polled));
            }
        }
    }

    /// What a rule has to know of those that may act on the same target.
    fn neighbours(&self, place: usize) -> Neighbours {
        let rollout = |is: fn(&Rule) -> bool, what: &str| {
            let (_, other) = self.sharing(place).find(|(_, other)| is(other))?;
            Some(Reason::new(format!("waits for rule `{}`, which {what}", other.name())))
        };
        Neighbours {
            busy: rollout(Rule::is_busy, "acts on the same target"),
            unproven: rollout(Rule::is_unproven, "is not done with the same target"),
            newer: self.given_newer(place).is_some(),
        }
    }

    /// The rule that has given content to the same target last, if that was after this one.
    fn given_newer(&self, place: usize) -> Option<usize> {
        let given_at = self.rules.get(place)?.given_at();
        let others = self.sharing(place);
        let given = others.filter_map(|(other, rule)| Some((rule.given_at()?, other)));
        given.max().filter(|(at, _)| Some(*at) > given_at).map(|(_, other)| other)
    }

    fn sharing(&self, place: usize) -> impl Iterator<Item = (usize, &Rule)> {
        let this = self.rules.get(place);
        self.rules.iter().enumerate().filter(move |(other, rule)| {
            *other != place && this.is_some_and(|this| this.may_share_target(rule))
        })
    }

    /// What is to be done next. Call until it gives nothing, after every event and tick.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When to call [`Core::tick`] at the latest. Nothing but the resync wakes an idle core.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        if self.is_stopped() {
            return None;
        }
        let polls = self.rules.iter().any(|rule| rule.source().polled_volumes().next().is_some());
        self.rules
            .iter()
            .filter_map(|rule| rule.next_wakeup(self.now))
            .chain([self.next_resync])
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
        self.resync_overdue.is_some_and(|overdue| now >= overdue).then(|| {
            Reason::new("the resync of the volumes does not come back")
                .hint("a watched path hangs, perhaps on a network file system; restart podnudge")
        })
    }

    fn on_rule(&mut self, id: RuleId, apply: impl FnOnce(&mut Rule, &mut VecDeque<Command>)) {
        if let Some(rule) = self.rules.get_mut(id.0) {
            apply(rule, &mut self.commands);
        }
    }

    fn on_source(&mut self, id: VolumeId, apply: impl FnOnce(&mut Source)) {
        if let Some(rule) = self.rule_of_volume.get(id.0).copied() {
            self.on_rule(rule, |rule, _| apply(rule.source_mut()));
        }
    }
}
