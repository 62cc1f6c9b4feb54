//! What a person asks for: triggers, approvals and pauses.

use super::Intake;
use super::candidate::{Candidate, Trigger};
use crate::clock::Moment;
use crate::policy::Policy;
use crate::snapshot::Digest;

impl Intake {
    /// Until when a person has paused the rule.
    pub(crate) fn paused_until(&self) -> Option<Moment> {
        self.paused_until
    }

    /// Sets or ends a pause. After it, the replicas that it held are spread anew.
    pub(crate) fn pause(&mut self, until: Option<Moment>) {
        self.paused_until = until;
        if let Some(candidate) = &mut self.candidate {
            candidate.unschedule();
        }
    }

    /// Ends a pause that is over. Returns whether there was one.
    pub(crate) fn end_pause(&mut self, now: Moment) -> bool {
        let is_over = self.paused_until.is_some_and(|until| until <= now);
        if is_over {
            self.pause(None);
        }
        is_over
    }

    /// A person asks for an action now.
    pub(crate) fn trigger(&mut self, now: Moment) {
        self.trigger = Trigger::Unbound(now);
        self.candidate.iter_mut().for_each(Candidate::retry_now);
        self.checks.permit_again();
        self.checks.forget();
        self.source.scan_now(now);
    }

    /// A scan that began at `begun` has found what is on disk. Returns the digest that a trigger applies to since then.
    pub(crate) fn bind_trigger(
        &mut self,
        begun: Moment,
        running: Option<Digest>,
        policy: &Policy,
    ) -> Option<Digest> {
        let digest = self.source.digest()?;
        let was_unbound = self.trigger.is_unbound();
        self.trigger = self.trigger.bound(begun, digest, running);
        (was_unbound && !self.trigger.is_unbound()).then(|| {
            self.approve(digest, policy);
            digest
        })
    }

    /// Remembers the content to which a trigger applies.
    fn approve(&mut self, content: Digest, policy: &Policy) {
        self.approved = Some(content);
        self.candidate.iter_mut().for_each(Candidate::release);
        if policy.intake.needs_approval_to_check {
            self.candidate.iter_mut().for_each(Candidate::approved);
        }
    }

    /// Whether a person has asked for an action with this content, even if the application runs it.
    pub(crate) fn is_triggered(&self, content: Digest, running: Option<Digest>) -> bool {
        self.trigger.applies_to(content, running)
    }

    /// The trigger is used by a rollout that begins.
    pub(crate) fn use_trigger(&mut self) {
        self.trigger = Trigger::None;
    }

    /// The trigger was not used by the rollout of this content.
    pub(crate) fn return_trigger(&mut self, content: Digest) {
        if self.trigger == Trigger::None {
            self.trigger = Trigger::For(content);
        }
    }

    /// The trigger ends because its content must not be used.
    pub(crate) fn end_trigger(&mut self) {
        self.trigger = self.trigger.ended();
    }
}
