//! Passes inputs to the rule's rollout, and performs its effects.

use std::collections::VecDeque;

use super::Rule;
use crate::cause::Cause;
use crate::clock::{CLOCK_MARGIN, Now};
use crate::command::{Act, Command, Extent, RollBack};
use crate::intake::OnDisk;
use crate::rollout::{Context, Direction, Effect, Input, Progress, Rollout};

impl Rule {
    /// Begins a rollout, superseding the one in progress. The only way to begin one.
    pub(super) fn begin(
        &mut self,
        now: Now,
        content: OnDisk,
        direction: Direction,
        cause: Cause,
        out: &mut VecDeque<Command>,
    ) {
        self.application.rollout_begins();
        let goes_back = self.goes_back(cause, content.digest);
        let mut rollout = Rollout::new(content, direction, cause, goes_back);
        let before = self.rollout.take();
        self.permit.taken_over(now.mono);
        let progress = rollout.begin(before, &self.context(now, &rollout));
        self.rollout = Some(rollout);
        self.apply(now, progress, out);
    }

    /// Continues the rollout that was in progress when podnudge started, as soon as no other rule
    /// acts on the same target.
    pub(super) fn resume(&mut self, content: OnDisk, direction: Direction) {
        let is_known_good = self.application.is_known_good(content.digest);
        self.rollout = Some(Rollout::resumed(content, direction, is_known_good));
    }

    pub(super) fn progress(&mut self, now: Now, input: Input, out: &mut VecDeque<Command>) {
        let Some(mut rollout) = self.rollout.take() else { return };
        let progress = rollout.handle(input, &self.context(now, &rollout));
        self.rollout = Some(rollout);
        self.apply(now, progress, out);
    }

    pub(super) fn context(&self, now: Now, rollout: &Rollout) -> Context<'_> {
        // Begin no rollback while stopping: podnudge continues unproven rollouts at its next
        // start.
        let is_stopping = self.is_stopping();
        let good = self.application.roll_back_to(rollout.digest());
        Context {
            now,
            policy: &self.policy,
            needs_publish: self.application.needs_publish(rollout.digest()),
            reads_volumes: self.application.reads_volumes(),
            readable_since: self.application.readable_since(rollout.content()),
            roll_back_to: good.filter(|_| !is_stopping),
            rolls_back_later: is_stopping && good.is_some(),
            next_action: self.application.rate().next_action(&self.policy),
            restart_at: self.application.rate().next_restart(now.mono, &self.policy),
            drain: self.permit.drain(),
            late_until: self.permit.late_until(now.mono),
            permit: self.answer_for_rollout(now, rollout),
            may_go_back: self.may_go_back(),
            has_interrupted: self.permit.acted_with() == Some(rollout.digest()),
            start_delay: self.application.rate().last_delay(),
            may_be_at_fault: !self.neighbours.newer,
        }
    }

    /// Performs the effects, and ends the rollout if it has an outcome.
    pub(super) fn apply(&mut self, now: Now, progress: Progress, out: &mut VecDeque<Command>) {
        for effect in progress.effects {
            self.perform(now, effect, out);
        }
        if let Some(outcome) = progress.outcome {
            self.finish(now, outcome, out);
        }
    }

    pub(super) fn perform(&mut self, now: Now, effect: Effect, out: &mut VecDeque<Command>) {
        match effect {
            Effect::Report(fact) => self.report(fact, out),
            Effect::Publish => self.publish(out),
            Effect::Act => self.act(now, out),
            Effect::AskServices => self.permit.ask_services(now.mono),
            Effect::Drain { is_watched } => self.permit.begin_drain(now.mono, is_watched),
            Effect::Verify => out.push_back(Command::Verify(self.id)),
            Effect::Inspect => out.push_back(Command::Inspect(self.id)),
            Effect::NotSent => {
                self.intake.action_not_sent();
                self.rollout.iter_mut().for_each(Rollout::restarted_nothing);
            }
            Effect::Interrupted => {
                if let Some(rollout) = &self.rollout {
                    self.interrupted(rollout.digest(), self.needs_permit(rollout));
                }
            }
            Effect::Delivered => {
                self.application.rate_mut().acted(now.mono);
                self.intake.source_mut().acted(now.mono);
                self.counters.actions_delivered += 1;
                self.application.delivered(now.mono.after(self.policy.rollout.alive_for));
            }
            Effect::Fresh => {
                self.application.delivered(now.mono.after(self.policy.rollout.alive_for));
            }
            Effect::PodRestarted => self.counters.restarts += 1,
            Effect::Restarted => {
                self.counters.restarts += 1;
                if let Some(rollout) = &self.rollout {
                    self.application.rate_mut().restarted(now.mono, rollout, &self.policy);
                }
            }
            Effect::Unknown => self.application.invalidate(),
            Effect::Retried => {
                self.application.invalidate();
                self.counters.actions_retried += 1;
            }
            Effect::Failed => {
                self.application.invalidate();
                self.counters.actions_failed += 1;
            }
            Effect::Refused => self.counters.actions_refused += 1,
            Effect::Tripped => self.counters.actions_tripped += 1,
            Effect::Halt(digest, reason) => self.halt(digest, &reason),
        }
    }

    pub(super) fn publish(&mut self, out: &mut VecDeque<Command>) {
        let Some(rollout) = &self.rollout else { return };
        let (to, failed) = (rollout.digest(), rollout.failed_digest());
        let Some(failed) = failed else {
            out.push_back(Command::Publish(self.id, to));
            return;
        };
        let reason = self.why_rolled_back(failed);
        self.remember(out);
        out.push_back(Command::RollBack(self.id, RollBack { to, failed, reason }));
    }

    pub(super) fn act(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(rollout) = &mut self.rollout else { return };
        let is_sent = rollout.extent() == Extent::Send;
        let ends_target = is_sent && rollout.ends_target(&self.policy.rollout);
        if ends_target {
            rollout.begin_target_restart(now.mono);
        }
        let Some(rollout) = &self.rollout else { return };
        let ctx = self.context(now, rollout);
        let is_required = rollout.is_triggered() || self.application.must_act();
        let since = ctx.readable_since.after(CLOCK_MARGIN);
        let content = rollout.failed_digest().unwrap_or(rollout.digest());
        let mut act = Act {
            rule: self.id,
            at: now.mono,
            digest: rollout.digest(),
            // What an earlier podnudge has restarted for this content has read it, too.
            fresh_after: match rollout.restarted_by_earlier() {
                began if is_required => began,
                began => Some(began.map_or(since, |began| began.min(since))),
            },
            extent: rollout.extent(),
            before: self.act_before(rollout),
            lenient: rollout.failed_digest().is_some() || rollout.has_waited_for_target(&ctx),
            attempt: rollout.attempt(),
            restart: rollout.is_restart(),
            changed: Vec::new(),
        };
        act.changed = self.intake.changed_keys(content, self.application.running(), &self.policy);
        // A target that has read the content at its start has read it by now.
        self.intake.action_begins();
        if !act.is_preparation() {
            self.action_begun(now, out);
        }
        if ends_target || (is_sent && self.policy.rollout.evict_wait.is_some()) {
            self.remember(out);
        }
        out.push_back(Command::Act(act));
    }

    /// Records that the application may run something else from now on.
    fn action_begun(&mut self, now: Now, out: &mut VecDeque<Command>) {
        if self.application.reads_volumes() {
            self.application.exposed(now.mono);
        }
        let save = self.application.action_started(now.wall);
        self.save(save, out);
    }
}
