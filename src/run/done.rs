//! Handles the results of tasks.

use super::agent::{Agent, Done};
use crate::checks::{self, LocalResult};
use crate::report;
use crate::state::StateDir;
use crate::verify::Baseline;
use podnudge_core::event::{Event, RuleId};
use podnudge_core::preflight::{Problem, ProblemKind};

impl Agent {
    /// Handles the result of a task.
    pub(super) fn handle_done(&mut self, done: Done) {
        match done {
            Done::Scanned(rule, readings) => self.scanned(rule, readings),
            Done::Resynced(begun, seen) => {
                for (volume, generation) in seen {
                    match generation {
                        Ok(generation) => {
                            self.handle_event(Event::Resynced(volume, begun, generation));
                        }
                        Err(_) => self.handle_event(Event::ResyncFailed(volume)),
                    }
                }
            }
            Done::CheckedLocally(rule, digest, LocalResult::Decided(checked)) => {
                self.handle_event(Event::Checked(rule, digest, checked));
            }
            Done::CheckedLocally(rule, digest, LocalResult::NeedsExternal(external)) => {
                let Some(config) = self.rule(rule) else { return };
                let is_stopped = self.core.is_stopped();
                let Some(state) = self.rules.get_mut(rule.0) else { return };
                // The result would no longer be used; dropping `external` removes the copy.
                if is_stopped || state.checked_digest != Some(digest) {
                    return;
                }
                state.full_digest = external.full_digest();
                let task = self.start_task(async move {
                    let (checked, _) = checks::run_external(&config, digest, external).await;
                    Done::Event(Event::Checked(rule, digest, checked))
                });
                if let Some(state) = self.rules.get_mut(rule.0) {
                    state.check_task = task;
                }
            }
            // A check is not begun for a podnudge that ends, and its result is of no use to it.
            Done::PresetCheckBegun(..) | Done::PresetChecked(..) if self.core.is_stopped() => {}
            Done::PresetCheckBegun(rule, digest, begun) => {
                if let Some(checked) = self.preset_check_begun(rule, digest, begun) {
                    self.handle_done(Done::PresetChecked(rule, digest, checked));
                }
            }
            Done::PresetChecked(rule, digest, checked) => {
                self.preset_checked(rule, digest, checked);
                self.look_for_problems(rule);
            }
            Done::MayAct(act) => self.act(act),
            Done::MayEnd(rule, code, before) => self.end_with(rule, code, before),
            Done::Acted(rule, acted, baseline) => {
                #[cfg(any(feature = "compat", feature = "page"))]
                self.note_attempt(rule, &acted);
                self.handle_with(rule, baseline, Event::Acted(rule, acted));
            }
            Done::Verified(rule, verified, baseline) => {
                self.handle_with(rule, baseline, Event::Verified(rule, verified));
            }
            Done::Preflight(rule, mut problems, addresses) => {
                let failure = self.state.as_ref().and_then(StateDir::failure);
                problems
                    .extend(failure.map(|why| Problem::new(ProblemKind::StateDirUnusable, why)));
                let unknown = self.why_not_evict(rule);
                problems.extend(unknown.map(|why| Problem::new(ProblemKind::PodUnknown, why)));
                if let Some(state) = self.rules.get_mut(rule.0) {
                    state.addresses = addresses;
                }
                self.handle_event(Event::Preflight(rule, problems));
            }
            Done::Event(event) => self.handle_event(event),
            #[cfg(feature = "cluster")]
            Done::Api(answer) => self.api_answered(answer),
            Done::Written(Err((rule, reason))) => {
                if let Some(config) = self.rule(rule) {
                    report::state_unwritable(&config.name, &reason);
                }
            }
            Done::Abandoned => self.has_abandoned = true,
            Done::Written(Ok(())) | Done::Nothing => {}
        }
    }

    /// Handles what an action or a verification has found about these processes.
    fn handle_with(&mut self, rule: RuleId, baseline: Baseline, found: Event) {
        let before = self.rules.get(rule.0).map(|state| &state.baseline.processes);
        // A verification finds others after a restart.
        let are_new = matches!(found, Event::Acted(..)) || before != Some(&baseline.processes);
        if are_new {
            self.exits.watch(rule, baseline.exit_watches());
        }
        // They may have ended before the exit watch was set up.
        let have_ended = are_new && baseline.has_ended();
        if let Some(state) = self.rules.get_mut(rule.0) {
            state.baseline = baseline;
        }
        self.handle_event(found);
        if have_ended {
            self.handle_event(Event::Ended(rule));
        }
        // Only a verification looks whether the content is read.
        let is_over = !self.core.is_verifying(rule);
        if let Some(state) = self.rules.get_mut(rule.0).filter(|_| is_over) {
            state.baseline.reads = None;
        }
    }
}
