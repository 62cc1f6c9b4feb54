//! One rule: its volumes, the candidate that waits for the gate, the rollout in progress, and the
//! content that the application is known to run.
//!
//! Each part owns its data and its queries have no side effects; only this file and `rule/` combine
//! the parts. This file is what a rule is, and what all of `rule/` asks it. Above it, each file calls only those that
//! are named before it:
//!
//! 1. `permit`, `content`, `lasting`, `halts`, `sharing`: what the parts say together, and what is saved of them.
//! 2. `progress` and `outcome`, the only two that call each other: a rollout begins in `progress`, goes on there, and ends
//!    in `outcome`, which may begin another one.
//! 3. `trial` and `crashes` (what follows a rollout), `pod_end`, `inputs` (what an event does), `candidate`, `drain`, `slots`.
//! 4. `status`: what is shown. `step`: the order in which due work is done.

mod candidate;
mod content;
mod crashes;
mod drain;
mod halts;
mod inputs;
mod lasting;
mod outcome;
mod permit;
mod pod_end;
mod problems;
mod progress;
mod sharing;
mod slots;
mod status;
mod step;
mod trial;

use std::collections::VecDeque;

use super::application::{Application, Rate, Save, Unfinished};
use super::command::Command;
use super::event::{Found, RuleId};
use super::fact::Fact;
use super::intake::{Checks, Intake, Runs, Source};
use super::jitter::Replica;
use super::memory::{Known, Memory};
use super::neighbours::Neighbours;
use super::permit::{Permit, Use};
use super::policy::Policy;
use super::preflight::Preflight;
use super::rollout::{Direction, Outcome, Rollout};
use super::status::Counters;
use crate::clock::{Moment, Now};

/// What is saved across a restart of podnudge, besides what the owners save.
#[derive(Debug, Default)]
struct Saved {
    /// What the application ran, to be saved.
    known: Known,
    /// What was saved last.
    last: Memory,
    /// The UID of podnudge's pod, if the rule evicts it.
    pod: Option<String>,
}

/// What a rule counts as soon as podnudge is to end for it, as it was before.
#[derive(Debug)]
struct BeforeEnd {
    rate: Rate,
    /// What the slot was kept for.
    used: Use,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// No new action begins; one in progress may finish.
    Stopping,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Rule {
    id: RuleId,
    policy: Policy,
    replica: Replica,
    /// When podnudge started.
    started: Moment,
    intake: Intake,
    rollout: Option<Rollout>,
    application: Application,
    permit: Permit,
    saved: Saved,
    neighbours: Neighbours,
    /// What was counted for the end of podnudge that was commanded last.
    before_end: Option<BeforeEnd>,
    life: Life,
    preflight: Preflight,
    counters: Counters,
}

impl Rule {
    /// A rule that has not taken over yet what an earlier podnudge has left.
    fn before_restore(
        id: RuleId,
        policy: Policy,
        found: &mut Found,
        replica: Replica,
        now: Now,
    ) -> Self {
        let application = Application::new(&policy, found);
        Self {
            id,
            replica,
            started: now.mono,
            intake: Intake::new(&policy, std::mem::take(&mut found.interrupted), now.mono),
            policy,
            rollout: None,
            application,
            permit: Permit::default(),
            saved: Saved { pod: found.pod.take(), ..Saved::default() },
            neighbours: Neighbours::default(),
            before_end: None,
            life: Life::Running,
            preflight: Preflight::default(),
            counters: Counters::default(),
        }
    }

    /// What the application runs, and what is being brought to it.
    fn runs(&self) -> Runs {
        self.application.runs(self.rollout.as_ref().map(Rollout::digest))
    }

    pub(super) fn name(&self) -> &str {
        &self.policy.name
    }

    /// Whether the rule is publishing, acting on its target, or waiting for the proof, or for why
    /// the target has ended.
    pub(super) fn is_busy(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_busy) || self.application.is_polling()
    }

    pub(super) fn checks(&self) -> &Checks {
        self.intake.checks()
    }

    pub(super) fn source(&self) -> &Source {
        self.intake.source()
    }

    /// For events about volumes that precede a scan.
    pub(super) fn source_mut(&mut self) -> &mut Source {
        self.intake.source_mut()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.life == Life::Stopped
    }

    fn is_stopping(&self) -> bool {
        self.life != Life::Running
    }

    fn report(&mut self, fact: Fact, out: &mut VecDeque<Command>) {
        self.counters.count(&fact);
        out.push_back(Command::Report(self.id, fact));
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.intake
            .source()
            .digest()
            .is_some_and(|disk| self.application.verdicts().quarantine_reason(disk).is_some())
    }

    /// Whether the target ends again and again with the content that it runs.
    pub(super) fn keeps_ending(&self) -> bool {
        self.application.keeps_ending().is_some()
    }

    /// Whether podnudge is to end for this rule: the others begin nothing.
    pub(crate) fn ends_pod(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::ends_pod)
    }

    pub(super) fn save(&mut self, save: Save, out: &mut VecDeque<Command>) {
        match save {
            Save::Nothing => {}
            Save::Known(known) => self.saved.known = known,
            Save::Good(digest, evidence) => {
                out.push_back(Command::Approve(self.id, digest, evidence));
            }
        }
    }
}
