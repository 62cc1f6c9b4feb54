//! A model of the application of one replica, and of the pod's endpoint: since when it is down.

use std::time::Duration;

use super::overlap::Span;
use super::scenario::Scenario;
use crate::plan_options::Restarts;
use podnudge_core::TargetName;
use podnudge_core::clock::Moment;
use podnudge_core::event::{Absence, Alive, Inspection, Proof, Reads, Verified};
use podnudge_core::kubelet::Ends;
use podnudge_core::reason::Reason;

#[derive(Debug)]
pub(super) struct Application<'a> {
    scenario: &'a Scenario,
    /// The ends of its container, for the kubelet's back-off.
    ends: Ends,
    /// When the application started last, or will start.
    started: Moment,
    /// When it is ready after that.
    ready: Moment,
    /// Since when `/serving` has answered 503.
    drained: Option<Moment>,
    /// When that ended last.
    served: Moment,
    downs: Vec<(Moment, Moment)>,
    failing: Duration,
}

impl<'a> Application<'a> {
    pub(super) fn new(scenario: &'a Scenario, started: Moment) -> Self {
        Self {
            scenario,
            ends: Ends::default(),
            started,
            ready: started,
            drained: None,
            served: started,
            downs: Vec::new(),
            failing: Duration::ZERO,
        }
    }

    /// Whether it has started after the last restart.
    pub(super) fn runs(&self, now: Moment) -> bool {
        self.started <= now
    }

    pub(super) fn started_after(&self, moment: Moment) -> bool {
        self.started > moment
    }

    /// When it answers requests again.
    pub(super) fn ready(&self) -> Moment {
        self.ready
    }

    /// podnudge ends it. Returns when it starts again.
    pub(super) fn restart(&mut self, now: Moment) -> Moment {
        self.started = match self.scenario.restarts {
            Restarts::Kubelet => {
                self.ends = self.ends.ended(now);
                self.ends.start
            }
            Restarts::Supervised => now,
        };
        self.ready = self.started.after(self.scenario.start_time);
        self.interrupt(now, self.ready);
        self.started
    }

    /// Records that the application answers no request meanwhile.
    pub(super) fn interrupt(&mut self, from: Moment, until: Moment) {
        self.downs.push((from, until));
        // Without a drain, its own readiness probe fails from then on.
        let leaves = self.drained.unwrap_or(from).after(self.scenario.endpoint_delay);
        self.failing += until.min(leaves).since(from);
    }

    /// The Service follows `/serving`.
    pub(super) fn serves(&mut self, now: Moment, is_serving: bool) {
        if !is_serving {
            self.drained.get_or_insert(now);
        } else if let Some(since) = self.drained.take() {
            self.downs.push((
                since.after(self.scenario.endpoint_delay),
                now.after(self.scenario.endpoint_delay),
            ));
            self.served = now;
        }
    }

    /// Whether the endpoints have followed `/serving`.
    pub(super) fn has_left(&self, now: Moment) -> bool {
        self.drained.is_some_and(|since| now >= since.after(self.scenario.endpoint_delay))
    }

    /// Whether the pod is Ready.
    pub(super) fn is_pod_ready(&self, now: Moment) -> bool {
        self.drained.is_none()
            && now >= self.ready.max(self.served).after(self.scenario.endpoint_delay)
    }

    pub(super) fn inspect(&self, now: Moment) -> Inspection {
        match self.scenario.policy.target {
            TargetName::None => Inspection::Unknown,
            _ if !self.runs(now) => Inspection::Absent,
            _ => Inspection::Running { first: self.started, last: self.started },
        }
    }

    /// As `verify/` does: a new process has to be old enough, and gives a proof when it is ready.
    pub(super) fn verify(&self, now: Moment) -> Verified {
        let policy = &self.scenario.policy;
        if !self.runs(now) {
            return Verified {
                alive: Alive::Absent(not_started()),
                proof: Proof::NotConfigured,
                reads: Reads::Unknown,
            };
        }
        let is_young = now.since(self.started) < policy.rollout.alive_for;
        let proof = if is_young || (policy.rollout.proof && now < self.ready) {
            Proof::Pending(Reason::new("the application starts"))
        } else if policy.rollout.proof {
            Proof::Given
        } else {
            Proof::NotConfigured
        };
        let has_process = policy.target != TargetName::None && !is_young;
        Verified {
            alive: if has_process { Alive::Yes } else { Alive::Unknown },
            proof,
            reads: Reads::Unknown,
        }
    }

    /// When the replica was down, counted from `first`, and how long requests failed.
    pub(super) fn end(mut self, first: Moment, now: Moment) -> (Vec<Span>, Duration) {
        self.serves(now, true);
        let span = |(from, until): &(Moment, Moment)| (from.since(first), until.since(first));
        (self.downs.iter().map(span).collect(), self.failing)
    }
}

pub(super) fn not_started() -> Absence {
    Absence::unread(Reason::new("the application has not started"))
}
