//! `[rule.hold]`: when not to begin a rollout. Pure.

use super::check::CheckSettings;
use super::prelude::*;
use podnudge_core::week::{self, Window};

settings! {
    /// When not to begin a rollout. A trigger overrides it.
    #[derive(Default, PartialEq, Eq)]
    pub struct Hold = "[rule.hold]",
        &[Relation::Together(&["window", "time-zone"])];
        validated
    {
        /// Do not begin while this file exists.
        pause_file: Option<PathBuf> = optional("", path());
        /// Do not begin while a watched volume has this key.
        pause_key: Option<String> = optional("", checked("a key", parsers::key));
        /// Begin only in this time of the week, such as `Mon-Fri 09:00-17:00`.
        window: Option<String> = optional("", checked("days and hours", |text| week::times(text).map(|_| text.to_owned())));
        /// The time zone of the window: `UTC`, an offset such as `+02:00`, a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`, or a name such as `Europe/Berlin`.
        time_zone: Option<String> = optional("", string("a time zone"));
        /// Begin the rollout, or already the checks, only after `podnudge approve`.
        approve_before: Option<ApproveBefore> = optional("", choice());
        /// The parsed window.
        schedule: Option<Window> = computed();
    }
}

words! {
    /// What a person has to approve first.
    pub enum ApproveBefore {
        /// The rollout: checks run before, and a person approves what has passed them.
        Rollout = "rollout",
        /// The checks, too: a checker may run code of the content's author.
        Check = "check",
    }
}

impl Hold {
    /// Warns if an approval before the checks has no effect.
    pub(super) fn validate_with(&self, place: &Place<'_>, checks: &[CheckSettings]) {
        let Some(before) = self.approve_before else { return };
        if before == ApproveBefore::Check && !checks.iter().any(CheckSettings::is_external) {
            let reason = Reason::new(
                "`approve-before` with `check` has the effect of `rollout`: no check runs a program or sends content to a URL",
            );
            let hint = "write `approve-before = \"rollout\"`, or add a check with `exec` or `http`";
            place.warn(Value("approve-before"), reason.hint(hint));
        }
    }

    fn validate(&mut self, place: &Place<'_>) {
        let Some(zone) = &self.time_zone else { return };
        match week::zone(zone, place.report.zones) {
            Ok(zone) => {
                let window = self.window.as_ref();
                self.schedule = window.and_then(|text| Window::new(text, zone).ok());
            }
            Err(reason) => {
                let message = format!("`time-zone`: {}", reason.message);
                place.problem(Value("time-zone"), Reason { message, ..reason });
            }
        }
    }
}
