//! What the rollout of a rule is told, and what is done for it.

use std::collections::VecDeque;

use super::Rule;
use crate::clock::Now;
use crate::core::belief::CLOCK_MARGIN;
use crate::core::command::{Act, Command, RollBack};
use crate::core::event::{Acted, Publication};
use crate::core::fact::Fact;
use crate::core::known::Keep;
use crate::core::rollout::{Context, Effect, Input, Progress, Rollout};
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

impl Rule {
    /// What was published.
    pub(in crate::core) fn published(
        &mut self,
        now: Now,
        publication: Publication,
        out: &mut VecDeque<Command>,
    ) {
        let Some(digest) = self.rollout.as_ref().map(Rollout::digest) else { return };
        let is_turned = match &publication {
            Publication::Failed(_, current) => {
                self.known.publication_failed(now.mono, digest, *current)
            }
            Publication::Done | Publication::Moved => false,
        };
        if publication == Publication::Done {
            self.known.published(now.mono, digest);
        }
        if publication == Publication::Done || is_turned {
            self.given_at = Some(now.mono);
        }
        self.progress(now, Input::Published { publication, is_turned }, out);
    }

    /// A resync found this published.
    pub(in crate::core) fn found_published(
        &mut self,
        digest: Option<Digest>,
        out: &mut VecDeque<Command>,
    ) {
        // What is being published now is another matter.
        if !self.is_busy() && self.known.found_published(digest) {
            self.given_up = None;
            self.say(Fact::PublicationLost(digest), out);
        }
    }

    /// What was done to the application, and what was seen of it.
    pub(in crate::core) fn told(&mut self, now: Now, input: Input, out: &mut VecDeque<Command>) {
        // A look for a process that has read the content by itself is no action.
        let is_action = !self.rollout.as_ref().is_some_and(Rollout::has_tripped);
        if is_action && matches!(&input, Input::Acted(Acted::Failed(_) | Acted::Declined(_))) {
            self.last_action = Some(now.mono);
        }
        if let Input::Acted(Acted::Sent(it) | Acted::Fresh(it) | Acted::Restarted(it)) = &input {
            self.target_names.clone_from(&it.names);
        }
        self.progress(now, input, out);
    }

    pub(super) fn progress(&mut self, now: Now, input: Input, out: &mut VecDeque<Command>) {
        let Some(mut rollout) = self.rollout.take() else { return };
        let progress = rollout.handle(input, &self.context(now, &rollout));
        self.rollout = Some(rollout);
        self.follow(now, progress, out);
    }

    pub(super) fn context(&self, now: Now, rollout: &Rollout) -> Context<'_> {
        let roll_back_to = self.known.to_roll_back_to(rollout.digest());
        Context {
            now,
            policy: &self.policy,
            lacks: self.known.lacks(rollout.digest()),
            follows_disk: self.known.follows_disk(),
            readable_since: self.known.readable_since(rollout.content()),
            // A podnudge that is ending begins nothing; the next one finds what is not proven.
            roll_back_to: roll_back_to.filter(|_| !self.stopping),
            last_action: self.last_action,
            restart_at: self.budget.next(now.mono, self.policy.restarts),
            is_stopping: self.stopping,
            is_suspect: !self.neighbours.newer,
        }
    }

    /// Does what the rollout needs, and ends it if it is at its end.
    pub(super) fn follow(&mut self, now: Now, progress: Progress, out: &mut VecDeque<Command>) {
        for effect in progress.effects {
            self.effect(now, effect, out);
        }
        if let Some(outcome) = progress.outcome {
            self.finish(now, outcome, out);
        }
    }

    pub(super) fn effect(&mut self, now: Now, effect: Effect, out: &mut VecDeque<Command>) {
        match effect {
            Effect::Report(fact) => self.say(fact, out),
            Effect::Publish => self.publish(out),
            Effect::Act => self.act(now, out),
            Effect::Verify => out.push_back(Command::Verify(self.id)),
            Effect::Inspect => out.push_back(Command::Inspect(self.id)),
            Effect::NotSent => self.source.restore_doubts(std::mem::take(&mut self.doubts)),
            Effect::Delivered(delivery) => {
                self.delivery = delivery;
                self.last_action = Some(now.mono);
                self.counters.actions_delivered += 1;
                self.known.delivered(now.mono.after(self.policy.alive_for));
            }
            Effect::Fresh => self.known.delivered(now.mono.after(self.policy.alive_for)),
            Effect::Restarted => {
                self.counters.restarts += 1;
                if !self.rollout.as_ref().is_some_and(Rollout::is_after_restart) {
                    self.budget.restarted(now.mono, self.policy.restarts);
                }
            }
            Effect::Failed => {
                self.known.uncertain();
                self.counters.actions_failed += 1;
            }
            Effect::Refused => self.counters.actions_refused += 1,
            Effect::Tripped => self.counters.actions_tripped += 1,
        }
    }

    pub(super) fn publish(&self, out: &mut VecDeque<Command>) {
        let Some(rollout) = &self.rollout else { return };
        let to = rollout.digest();
        out.push_back(match rollout.failed() {
            None => Command::Publish(self.id, to),
            Some(failed) => {
                let reason = self.known.why_quarantined(failed).cloned();
                let reason = reason.unwrap_or_else(|| Reason::new("it did not work"));
                Command::RollBack(self.id, RollBack { to, failed, reason })
            }
        });
    }

    pub(super) fn act(&mut self, now: Now, out: &mut VecDeque<Command>) {
        let Some(rollout) = &self.rollout else { return };
        let it = self.context(now, rollout);
        let in_any_case = rollout.is_triggered() || self.known.insists();
        let since = it.readable_since.after(CLOCK_MARGIN);
        let content = rollout.failed().unwrap_or(rollout.digest());
        let mut act = Act {
            rule: self.id,
            at: now.mono,
            digest: rollout.digest(),
            fresh_after: (!in_any_case).then_some(since),
            only_if_fresh: rollout.has_tripped(),
            lenient: rollout.failed().is_some() || rollout.has_waited(&it),
            attempt: rollout.attempt(),
            restart: rollout.is_restart(),
            changed: Vec::new(),
        };
        if self.policy.tells_changes {
            act.changed = self.changed.begin(content, self.known.running());
        }
        out.push_back(Command::Act(act));
        if self.known.follows_disk() {
            self.given_at = Some(now.mono);
        }
        self.doubts = self.source.settle_doubts();
        let keep = self.known.acting(now.wall);
        self.keep(keep, out);
    }

    pub(super) fn keep(&self, keep: Keep, out: &mut VecDeque<Command>) {
        match keep {
            Keep::Nothing => {}
            Keep::Memory(memory) => out.push_back(Command::Persist(self.id, memory)),
            Keep::Good(digest) => out.push_back(Command::Approve(self.id, digest)),
        }
    }
}
