//! Where the volume is mounted, and the table of what podnudge says at each place.
//!
//! The parts of the tests run at different places, so that each application is tested at all of them.
//! `tests/applications/table` runs one part at all of them and prints a table.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use podnudge_config::Preset;

use super::subjects::Subject;

/// Where the application and podnudge mount the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where its preset or its package has it.
    Usual,
    Etc,
    Srv,
}

impl Place {
    pub(super) fn of(self, subject: &Subject) -> &str {
        match self {
            Self::Usual => &subject.dir,
            Self::Etc => "/etc/app",
            Self::Srv => "/srv/x/conf",
        }
    }

    /// The place that the table asks for.
    pub(super) fn asked_for() -> Option<Self> {
        match std::env::var_os("PODNUDGE_PLACE")?.to_str() {
            Some("usual") => Some(Self::Usual),
            Some("/etc/app") => Some(Self::Etc),
            Some("/srv/x/conf") => Some(Self::Srv),
            other => {
                panic!("PODNUDGE_PLACE is {other:?}, and not `usual`, /etc/app or /srv/x/conf")
            }
        }
    }
}

/// What was seen after an edit.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) edit: &'static str,
    /// How often the application has ended meanwhile.
    pub(super) ends: usize,
    /// Whether the application serves the version of the edit.
    pub(super) serves: bool,
    pub(super) in_sync: String,
    pub(super) evidence: String,
    pub(super) state: String,
    pub(super) message: String,
    /// Whether podnudge said that the application runs content that it does not run as a whole.
    pub(super) has_lied: bool,
}

impl Row {
    pub(super) fn is_true(&self) -> bool {
        !self.has_lied
    }

    /// Whether podnudge knows of a good edit what its preset promises.
    pub(super) fn is_as_promised(&self, preset: &Preset) -> bool {
        let in_sync = if preset.evidence == "read" { "unknown" } else { "yes" };
        self.state == "idle" && self.in_sync == in_sync && self.evidence == preset.evidence
    }
}

/// The table gives podnudge more time to say something that is not true.
pub(super) fn time_for_broken() -> Duration {
    let is_table = std::env::var_os("PODNUDGE_TABLE").is_some();
    Duration::from_secs(if is_table { 10 } else { 3 })
}

/// Appends the rows to the file of the table, if one is wanted.
pub(super) fn write_to_table(subject: &Subject, place: Place, rows: &[Row]) {
    for (number, row) in rows.iter().enumerate() {
        let serves = match (row.serves, row.edit) {
            (true, "broken") => "a part",
            (true, _) => "it",
            (false, "broken") => "no",
            (false, _) => "**no**",
        };
        let verdict = if row.has_lied { "**untrue**" } else { "true" };
        write_line(&format!(
            "| {} | {} | {} {} | {serves} | {} | {} | {} | {} | {} | {verdict} |",
            subject.preset,
            place.of(subject),
            number + 1,
            row.edit,
            row.ends,
            row.in_sync,
            row.evidence,
            row.state,
            row.message.replace('|', "/"),
        ));
    }
}

/// Appends a line to the file of the table, if one is wanted.
pub(super) fn write_line(line: &str) {
    let Some(file) = std::env::var_os("PODNUDGE_TABLE") else { return };
    let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}
