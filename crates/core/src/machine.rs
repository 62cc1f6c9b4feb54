//! All rules of one podnudge, and the schedule of resyncs and polls.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Moment, Now, UnixTime};
use crate::command::Command;
use crate::event::{Alive, ApiServer, Event, Expected, Found, RuleId, Verified, VolumeId};
use crate::intake::{OtherChecks, Source};
use crate::jitter::Replica;
use crate::mounts::MountChanges;
use crate::neighbours::Neighbours;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::rollout::Input;
use crate::rule::Rule;
use crate::snapshot::Digest;
use crate::status::Status;

/// How often podnudge reads volumes without a hint.
#[derive(Debug, Clone, Copy)]
pub struct Intervals {
    /// For every volume, to find changes that the watch missed.
    pub resync: Duration,
    /// For volumes on which inotify does not work.
    pub poll: Duration,
}

/// All rules, and the schedule of resyncs and polls.
#[derive(Debug)]
pub struct Core {
    rules: Vec<Rule>,
    /// Indexed by [`VolumeId`].
    rule_of_volume: Vec<RuleId>,
    commands: VecDeque<Command>,
    intervals: Intervals,
    next_resync: Moment,
    next_poll: Moment,
    mounts: MountChanges,
    /// The deadline of the pending resync.
    resync_overdue: Option<Moment>,
    started: UnixTime,
    /// The time of the last event or tick.
    now: Now,
    /// The rule that the last tick processed first.
    first_rule: usize,
}

impl Core {
    /// Starts at `now`: every rule scans its volumes at once. Volumes are numbered from 0, in the
    /// order of the rules.
    #[must_use]
    pub fn new(
        rules: Vec<(Policy, Found)>,
        replica: &Replica,
        intervals: Intervals,
        now: Now,
    ) -> Self {
        let of_volumes = |(n, (policy, _)): (usize, &(Policy, Found))| {
            std::iter::repeat_n(RuleId(n), policy.intake.volumes.len())
        };
        let rule_of_volume = rules.iter().enumerate().flat_map(of_volumes).collect();
        let rule = |(n, (policy, found))| Rule::new(RuleId(n), policy, found, replica.clone(), now);
        let mut core = Self {
            rules: rules.into_iter().enumerate().map(rule).collect(),
            rule_of_volume,
            commands: VecDeque::new(),
            intervals,
            next_resync: now.mono.after(intervals.resync),
            next_poll: now.mono.after(intervals.poll),
            mounts: MountChanges::default(),
            resync_overdue: None,
            started: now.wall,
            now,
            // The first tick processes the rules in the order of the configuration.
            first_rule: usize::MAX,
        };
        core.tick(now);
        core
    }

    /// Processes an event.
    pub fn handle(&mut self, now: Now, event: Event) {
        match event {
            Event::Hint(volume, commits) => {
                self.with_source(volume, |source| source.hint(now.mono, volume, commits));
            }
            Event::HintLost(volume) => {
                self.with_source(volume, |source| source.hint_lost(now.mono, volume));
            }
            Event::HintsLost => self.hints_lost(now),
            Event::MountsChanged => self.mounts.changed(now.mono),
            Event::Resynced(volume, begun, generation) => {
                self.resync_overdue = None;
                let found = generation.as_ref();
                self.with_source(volume, |source| source.resynced(now.mono, volume, begun, found));
            }
            Event::ResyncFailed(volume) => {
                self.resync_overdue = None;
                // The scan that follows reports the cause.
                self.with_source(volume, |source| source.hint_lost(now.mono, volume));
            }
            Event::Watched(volume, watch) => {
                if let Some(rule) = self.rule_of_volume.get(volume.0).copied() {
                    self.with_rule(rule, |rule, out| rule.watched(volume, &watch, out));
                }
            }
            Event::Scanned(rule, scans) => {
                self.with_rule(rule, |rule, out| rule.scanned(now, scans, out));
            }
            Event::Inspected(rule, target) => {
                self.with_rule(rule, |rule, out| rule.inspected(now, target, out));
            }
            Event::PolicyChanged(rule, policy, accepted) => {
                self.with_rule(rule, |rule, _| rule.policy_changed(*policy, accepted));
            }
            Event::Preflight(rule, problems) => {
                self.with_rule(rule, |rule, out| rule.preflight(now, problems, out));
            }
            Event::Rights(rule, missing) => {
                self.with_rule(rule, |rule, out| rule.rights(missing, out));
            }
            Event::Checked(rule, digest, checked) => {
                self.with_rule(rule, |rule, out| rule.checked(now, digest, checked, out));
            }
            Event::Expires(rule, digest, at) => {
                self.with_rule(rule, |rule, _| rule.expires(digest, at));
            }
            Event::Probed(rule, probe, reason) => {
                self.with_rule(rule, |rule, _| rule.probed(now, probe, reason));
            }
            Event::Published(rule, publication) => {
                self.with_rule(rule, |rule, out| rule.published(now, publication, out));
            }
            Event::FoundPublished(rule, digest) => {
                self.with_rule(rule, |rule, out| rule.found_published(digest, out));
            }
            Event::Acted(rule, acted) => {
                self.with_rule(rule, |rule, out| rule.handle(now, Input::Acted(acted), out));
            }
            Event::Ended(rule) => {
                self.with_rule(rule, |rule, out| rule.handle(now, Input::Ended, out));
            }
            Event::Verified(rule, verified) => self.verified(now, rule, verified),
            Event::Slot(rule, state) => {
                self.with_rule(rule, |rule, out| rule.slot_told(state, out));
            }
            Event::HaltWritten(rule, digest) => {
                self.with_rule(rule, |rule, _| rule.halt_written(digest));
            }
            Event::PodLooked(rule, number, look) => {
                if let Some(server) = look.api_server() {
                    self.api_server_seen(now, server);
                }
                self.with_rule(rule, |rule, out| rule.pod_looked(now, number, look, out));
            }
            Event::ApiServer(server) => self.api_server_seen(now, server),
            Event::Expected(expected) => self.expect(expected.as_ref()),
            Event::Trigger(Some(rule)) => {
                self.with_rule(rule, |rule, out| rule.trigger(now, out));
            }
            Event::Trigger(None) => {
                for rule in &mut self.rules {
                    rule.trigger(now, &mut self.commands);
                }
            }
            Event::Pause(Some(rule), time) => {
                self.with_rule(rule, |rule, out| rule.pause(now, time, out));
            }
            Event::Pause(None, time) => {
                for rule in &mut self.rules {
                    rule.pause(now, time, &mut self.commands);
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

    fn expect(&mut self, expected: Option<&Expected>) {
        self.rules.iter_mut().for_each(|rule| rule.source_mut().expect(expected));
    }

    fn api_server_seen(&mut self, now: Now, server: ApiServer) {
        self.rules.iter_mut().for_each(|rule| rule.api_server_seen(now.mono, server));
    }

    fn hints_lost(&mut self, now: Now) {
        for rule in &mut self.rules {
            rule.source_mut().hints_lost(now.mono);
        }
    }

    /// Attributes the end of a target to the rule that delivered content to it last.
    fn verified(&mut self, now: Now, id: RuleId, verified: Verified) {
        let suspect = match &verified.alive {
            Alive::Gone(reason) => self.newer_rule(id.0).map(|suspect| (suspect, reason.clone())),
            _ => None,
        };
        self.with_rule(id, |rule, out| rule.handle(now, Input::Verified(verified), out));
        if let Some((suspect, reason)) = suspect {
            let ended = Input::EndedElsewhere(reason);
            self.with_rule(RuleId(suspect), |rule, out| rule.handle(now, ended, out));
        }
    }

    /// Starts everything that is due.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        if self.mounts.take_due(now.mono) {
            self.commands.push_back(Command::RenewWatches);
            self.hints_lost(now);
        }
        // Rotate, so that no rule always precedes another rule with the same target.
        self.first_rule = self.first_rule.wrapping_add(1) % self.rules.len().max(1);
        for index in (self.first_rule..self.rules.len()).chain(0..self.first_rule) {
            let neighbours = self.neighbours(index);
            self.with_rule(RuleId(index), |rule, out| rule.advance(now, neighbours, out));
        }
        if self.is_stopped() {
            return;
        }
        if now.mono >= self.next_resync {
            self.next_resync = now.mono.after(self.intervals.resync);
            self.resync_overdue.get_or_insert(now.mono.after(self.intervals.resync * 2));
            let all = (0..self.rule_of_volume.len()).map(VolumeId).collect();
            self.commands.push_back(Command::Resync(all));
            self.commands
                .extend((0..self.rules.len()).map(|rule| Command::Preflight(RuleId(rule))));
            for rule in &mut self.rules {
                rule.resynced(now, &mut self.commands);
            }
        }
        if now.mono >= self.next_poll {
            self.next_poll = now.mono.after(self.intervals.poll);
            let polled: Vec<_> =
                self.rules.iter().flat_map(|rule| rule.source().polled_volumes()).collect();
            if !polled.is_empty() {
                self.commands.push_back(Command::Resync(polled));
            }
        }
    }

    /// The state of the other rules: of those that may act on the same target, and the checks of all.
    fn neighbours(&self, index: usize) -> Neighbours {
        let waits = |other: &Rule, activity: &str| {
            Reason::new(format!("waits for rule `{}`, which {activity}", other.name()))
        };
        let waits_for = |is_blocking: fn(&Rule) -> bool, activity: &str| {
            let mut sharing = self.sharing(index).map(|(_, other)| other);
            sharing.find(|other| is_blocking(other)).map(|other| waits(other, activity))
        };
        let first_other = |is_so: fn(&Rule) -> bool| {
            let mut rules = self.rules.iter().enumerate();
            rules.find(|(other, rule)| *other != index && is_so(rule)).map(|(_, rule)| rule)
        };
        let checked_before = |is_so: fn(&Rule) -> bool| {
            let wait = |rule: &Rule| format!("waits for the check of rule `{}`", rule.name());
            first_other(is_so).map(|rule| Reason::new(wait(rule)))
        };
        let ends_pod = || first_other(Rule::ends_pod).map(|rule| waits(rule, "restarts the pod"));
        let acts = |other: &Rule| other.is_busy() && !other.ends_pod();
        Neighbours {
            acts: first_other(acts).map(|rule| waits(rule, "has not finished")),
            checks: OtherChecks {
                any: checked_before(|rule| rule.checks().is_running()),
                alone: checked_before(|rule| rule.checks().is_running_alone()),
            },
            busy: waits_for(Rule::is_busy, "acts on the same target").or_else(ends_pod),
            unproven: waits_for(Rule::is_unproven, "has not finished with the same target"),
            newer: self.newer_rule(index).is_some(),
        }
    }

    /// The last other rule to expose content to the same target, if it did so after this rule.
    fn newer_rule(&self, index: usize) -> Option<usize> {
        let exposed_at = self.rules.get(index)?.own_exposed_at();
        let sharing = self.sharing(index);
        let exposed = sharing.filter_map(|(other, rule)| Some((rule.exposed_at()?, other)));
        exposed.max().filter(|(at, _)| Some(*at) > exposed_at).map(|(_, other)| other)
    }

    fn sharing(&self, index: usize) -> impl Iterator<Item = (usize, &Rule)> {
        let this = self.rules.get(index);
        self.rules.iter().enumerate().filter(move |(other, rule)| {
            *other != index && this.is_some_and(|this| this.may_share_target(rule))
        })
    }

    /// The next command to execute. Call it until it returns `None`, after every event and tick.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The latest time to call [`Core::tick`]. Only the resync, and volumes that are polled, wake an idle core.
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
            .chain(self.mounts.next_wakeup())
            .chain(polls.then_some(self.next_poll))
            .min()
    }

    /// Whether podnudge was told to stop and every rule has finished.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.rules.iter().all(Rule::is_stopped)
    }

    /// Whether the content of a rule waits for something that a person can end by a trigger.
    #[must_use]
    pub fn is_held(&self, rule: RuleId) -> bool {
        self.rules.get(rule.0).is_some_and(|rule| rule.is_held(self.now))
    }

    /// The content of a rule's volumes, if its last scan has found all of them.
    #[must_use]
    pub fn content(&self, rule: RuleId) -> Option<Digest> {
        self.rules.get(rule.0)?.source().digest()
    }

    /// Whether a rule looks for evidence that its application runs what was delivered.
    #[must_use]
    pub fn is_verifying(&self, rule: RuleId) -> bool {
        self.rules.get(rule.0).is_some_and(Rule::is_verifying)
    }

    /// Whether the pod is to get requests of its Services: no rule drains it.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.rules.iter().any(Rule::is_drained)
    }

    /// The complete state, for all outputs.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION"),
            #[cfg(feature = "page")]
            pod: None,
            now: now.wall,
            started: self.started,
            ready: self.rules.iter().all(|rule| rule.not_ready().is_none()),
            serving: self.is_serving(),
            unhealthy: self.unhealthy(now.mono),
            rules: self.rules.iter().map(|rule| rule.status(now)).collect(),
            log_lines_dropped: 0,
            eager_sync: None,
            reloads: None,
        }
    }

    fn unhealthy(&self, now: Moment) -> Option<Reason> {
        self.resync_overdue.is_some_and(|overdue| now >= overdue).then(|| {
            Reason::new("the resync of the volumes is overdue")
                .hint("a watched path hangs, perhaps on a network file system; restart podnudge")
        })
    }

    fn with_rule(&mut self, id: RuleId, apply: impl FnOnce(&mut Rule, &mut VecDeque<Command>)) {
        if let Some(rule) = self.rules.get_mut(id.0) {
            apply(rule, &mut self.commands);
        }
    }

    fn with_source(&mut self, id: VolumeId, apply: impl FnOnce(&mut Source)) {
        if let Some(rule) = self.rule_of_volume.get(id.0).copied() {
            self.with_rule(rule, |rule, _| apply(rule.source_mut()));
        }
    }
}
