//! `[rule.hold]`: when not to begin a rollout. Pure.

use super::prelude::*;
use crate::week::{self, Window};

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
        /// Begin only after `podnudge trigger`, `POST /reload` or a HUP to podnudge.
        approve: bool = default("false", boolean());
        /// The parsed window.
        schedule: Option<Window> = computed();
    }
}

impl Hold {
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
