//! Gives a rule without an action the preset of its target's program, and a rule that says nothing of checks that of its
//! preset, such as `nginx -t`. podnudge tries it on the content on disk, at the preflight and when the application runs new
//! content: once it accepts that, all content has to pass it. What it rejects before may be good, and need what only the
//! application's container has.

use std::sync::Arc;

use super::agent::{Agent, Done};
use super::clock;
use crate::checks::{self, Left, LocalResult};
use crate::volume::mounts;
use crate::{preflight, process, report};
use podnudge_config::{NEEDS_ALL, Rule};
use podnudge_core::event::{Checked, Event, RuleId, VolumeId};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// What is known of the check.
#[derive(Debug, Default)]
pub(super) struct PresetCheck {
    /// The content on which it was tried last.
    tried: Option<Digest>,
    /// Whether that try goes on.
    is_trying: bool,
    /// What it has rejected when an earlier podnudge used it: that is not used after a restart either.
    rejected: Vec<Digest>,
    /// An earlier podnudge has ended during it.
    has_ended_podnudge: bool,
    /// Whether it was said why it is not used.
    is_said: bool,
}

impl PresetCheck {
    /// What earlier podnudges have left, if that is of this check.
    pub(super) fn restored(rule: &Rule, left: &mut Left) -> Self {
        if !rule.may_use_check_of_preset() {
            return Self::default();
        }
        let known = std::mem::take(left).known;
        let has_ended_podnudge = known.iter().any(|known| known.times > 0);
        let rejected = known.iter().map(|known| known.digest).collect();
        Self { rejected, has_ended_podnudge, ..Self::default() }
    }
}

impl Agent {
    /// Gives a rule without an action of its own the preset of its target's program.
    pub(super) fn choose_preset(&mut self, id: RuleId) {
        let Some(config) = self.rule(id) else { return };
        // The preflight reports why a preset cannot be used.
        if let Ok(Some((rule, target))) = process::choose_preset(&self.context, &config) {
            report::preset(&rule.name, &target, &rule.shown_actions().to_string());
            self.change_rule(id, rule, None);
            if let Some(state) = self.rules.get_mut(id.0) {
                (state.preset_check.tried, state.preset_check.is_said) = (None, false);
            }
        }
    }

    /// Replaces a rule by one with the same name and volumes, whose checks have accepted this content.
    fn change_rule(&mut self, id: RuleId, rule: Rule, accepted: Option<Digest>) {
        let policy = Box::new(rule.policy(VolumeId(0)));
        if let Some(state) = self.rules.get_mut(id.0) {
            state.config = Arc::new(rule);
        }
        self.handle_event(Event::PolicyChanged(id, policy, accepted));
    }

    /// Begins to try the check on the content on disk, if it was not tried on that, or says once why it cannot be used.
    /// Returns whether it has begun: what is left of the preflight follows then.
    pub(super) fn try_preset_check(&mut self, id: RuleId) -> bool {
        let Some(content) = self.core.content(id) else { return false };
        let Some(state) = self.rules.get(id.0) else { return false };
        let Some(rule) = state.config.with_check_of_preset() else { return false };
        let known = &state.preset_check;
        if known.is_trying
            || known.tried == Some(content)
            || known.has_ended_podnudge && known.is_said
        {
            return false;
        }
        if let Some(reason) = self.why_not_check(&rule, known) {
            self.preset_check_unused(id, &reason);
            return false;
        }
        if known.rejected.contains(&content) {
            self.use_preset_check(id, None);
            return false;
        }
        if let Some(problem) = preflight::missing_file_of_check(&rule) {
            self.preset_check_unused(id, &problem.reason);
            return false;
        }
        let Some(state) = self.rules.get_mut(id.0) else { return false };
        (state.preset_check.tried, state.preset_check.is_trying) = (Some(content), true);
        let attempts = state.attempts.of_trial();
        let work_dir = self.config.agent.work_dir.clone();
        let now = clock::now().wall;
        self.queue_read(id, move |_| {
            checks::remove_leftover_copies(&rule, &work_dir);
            let begun = checks::run_local(&rule, content, &work_dir, &attempts, now);
            Done::PresetCheckBegun(id, content, begun)
        });
        true
    }

    /// Tries the check again on content that the application runs now: what it has rejected before may have been broken.
    pub(super) fn retry_preset_check(&mut self, id: RuleId) {
        let was_tried = self.rules.get(id.0).is_some_and(|one| one.preset_check.tried.is_some());
        if was_tried {
            self.try_preset_check(id);
        }
    }

    /// Why the program of this check must not get content.
    fn why_not_check(&self, rule: &Rule, known: &PresetCheck) -> Option<Reason> {
        let work_dir = &self.config.agent.work_dir;
        if known.has_ended_podnudge {
            let hint = "raise the memory limit of podnudge's container, and set check = \"preset\"";
            return Some(Reason::new("podnudge has ended during it").hint(hint));
        }
        if self.config.cluster.is_some() {
            let reason = "the program could run code of the content with podnudge's access to the Kubernetes API";
            let hint = "if those who edit the content may have that, set check = \"preset\"";
            return Some(Reason::new(reason).hint(hint));
        }
        if mounts::memory_volume_copied_to_disk(&rule.settings.watch, work_dir).is_some() {
            let reason = Reason::new(
                "a copy of the content, which is kept in memory, would be written to a disk",
            );
            return Some(reason.hint("set work-dir to an emptyDir with medium: Memory"));
        }
        preflight::of_programs(&self.context, rule, work_dir).map(|problem| problem.reason)
    }

    fn preset_check_unused(&mut self, id: RuleId, reason: &Reason) {
        let Some(state) = self.rules.get_mut(id.0) else { return };
        let is_said = std::mem::replace(&mut state.preset_check.is_said, true);
        if let Some(rule) = state.config.with_check_of_preset().filter(|_| !is_said) {
            report::preset_check(&rule, Some(reason));
        }
    }

    /// Runs the program on the copy of the content. Returns the result, if that is not needed.
    pub(super) fn preset_check_begun(
        &mut self,
        id: RuleId,
        content: Digest,
        begun: LocalResult,
    ) -> Option<Checked> {
        let rule = self.rule(id).and_then(|rule| rule.with_check_of_preset());
        match (begun, rule) {
            (LocalResult::NeedsExternal(external), Some(rule)) => {
                let task = self.start_task(async move {
                    let (checked, _) = checks::run_external(&rule, content, external).await;
                    Done::PresetChecked(id, content, checked)
                });
                if let Some(state) = self.rules.get_mut(id.0) {
                    state.check_task = task;
                }
                None
            }
            (LocalResult::Decided(checked), _) => Some(checked),
            (LocalResult::NeedsExternal(_), None) => Some(Checked::Moved),
        }
    }

    /// Uses the check from now on, if it has accepted this content.
    pub(super) fn preset_checked(&mut self, id: RuleId, content: Digest, checked: Checked) {
        if let Some(state) = self.rules.get_mut(id.0) {
            state.preset_check.is_trying = false;
        }
        match checked {
            Checked::Passed => self.use_preset_check(id, Some(content)),
            Checked::Rejected(reason) | Checked::NotBefore(_, reason) => {
                // Often it needs files of other directories, too.
                let hint = reason.hint.clone().unwrap_or_else(|| NEEDS_ALL.to_owned());
                self.preset_check_unused(id, &reason.hint(hint));
            }
            // It says nothing: it is tried again at the next preflight.
            Checked::Moved | Checked::Failed(_) => {
                if let Some(state) = self.rules.get_mut(id.0) {
                    state.preset_check.tried = None;
                }
            }
        }
    }

    /// Lets all content of the rule pass the check from now on.
    fn use_preset_check(&mut self, id: RuleId, accepted: Option<Digest>) {
        if let Some(rule) = self.rule(id).and_then(|rule| rule.with_check_of_preset()) {
            report::preset_check(&rule, None);
            self.change_rule(id, rule, accepted);
        }
    }

    /// Why an action must wait that was commanded before podnudge used the check again, which has rejected its content.
    pub(super) fn why_check_first(&self, id: RuleId, content: Digest) -> Option<Reason> {
        let state = self.rules.get(id.0).filter(|state| !state.config.checks.is_empty())?;
        let is_rejected = state.preset_check.rejected.contains(&content);
        is_rejected.then(|| Reason::new("the content is checked first, which was rejected before"))
    }

    /// The check has the last word from now on.
    pub(super) fn forget_rejected(&mut self, id: RuleId) {
        if let Some(state) = self.rules.get_mut(id.0) {
            state.preset_check.rejected.clear();
        }
    }
}
