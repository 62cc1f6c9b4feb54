//! What podnudge is to be started with instead of another reloader, and the message that says so. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::given::Remarks;
use crate::compat::words::argument;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The variables of another reloader, by their names.
pub(super) type Environment = BTreeMap<String, String>;

/// What to start instead of another reloader.
#[derive(Debug)]
pub struct Translation {
    /// The program whose options or variables these are.
    peer: &'static str,
    remarks: Remarks,
    /// What to start.
    pub instead: Instead,
}

/// What to start.
#[derive(Debug)]
pub enum Instead {
    /// podnudge with these arguments.
    Arguments(Vec<String>),
    /// podnudge with this file, for what options cannot express.
    File(String),
    /// Nothing is to be started.
    Nothing,
}

impl Translation {
    pub(super) fn new(peer: &'static str, remarks: Remarks, instead: Instead) -> Self {
        Self { peer, remarks, instead }
    }

    /// The message, with the problems that podnudge has with what it is to be started with.
    #[must_use]
    pub fn reason(self, is_environment: bool, problems: &[String]) -> Reason {
        let Self { peer, remarks, instead } = self;
        let what = if is_environment { "environment" } else { "command line" };
        let mut message = format!("this is the {what} of {peer}");
        for remark in remarks {
            _ = write!(message, "\n  {remark}");
        }
        for problem in problems {
            _ = write!(message, "\n  podnudge refuses in what follows: {problem}");
        }
        match instead {
            Instead::Arguments(arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|word| argument(word)).collect();
                _ = write!(
                    message,
                    "\n  for podnudge it is:\n    podnudge {}",
                    arguments.join(" ")
                );
            }
            Instead::File(file) => {
                _ = write!(
                    message,
                    "\n  for podnudge it is `podnudge --config FILE` with this file:"
                );
                for line in file.lines() {
                    let indent = if line.is_empty() { "" } else { "    " };
                    _ = write!(message, "\n{indent}{line}");
                }
            }
            Instead::Nothing => {}
        }
        let mut harmless = shown::message(&message);
        if harmless != message {
            harmless = harmless.replacen('\n', "\n  control characters are left out\n", 1);
        }
        Reason::new(harmless).hint(format!("docs/migration.md#{peer}"))
    }
}

/// An option of podnudge. A value that begins with a dash must not be taken for another option.
pub(super) fn option(name: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') {
        return vec![format!("{name}={value}")];
    }
    vec![name.to_owned(), value.to_owned()]
}

/// The options that name paths to watch.
pub(super) fn watch(paths: &[String]) -> Vec<String> {
    paths.iter().flat_map(|path| option("--watch", path)).collect()
}
