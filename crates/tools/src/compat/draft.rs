//! A configuration in the making, with the option that each part of it comes from. Pure.

use podnudge_config::{Origin, Translated};

#[derive(Default)]
pub(super) struct Draft(Translated);

impl Draft {
    /// Adds text that no option determines.
    pub(super) fn add(&mut self, text: &str) {
        self.0.text.push_str(text);
    }

    /// Adds text that comes from this option, which is written without its dashes.
    pub(super) fn add_from(&mut self, option: &str, text: &str) {
        let start = self.0.text.len();
        self.add(text);
        let option = format!("--{option}");
        self.0.origins.push(Origin { bytes: start..self.0.text.len(), option });
    }

    /// Adds a setting that comes from this option.
    pub(super) fn set(&mut self, option: &str, key: &str, value: &str) {
        self.add_from(option, &format!("{key} = {value}\n"));
    }

    pub(super) fn finish(self) -> Translated {
        self.0
    }
}
