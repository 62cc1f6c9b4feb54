//! Performs `Probe`: checks for the file that pauses a rule.
//!
//! Only checks that the file exists; changes nothing.

use std::path::Path;

use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The reason for a pause, if this file exists.
pub(crate) fn reason_from_file(file: &Path) -> Option<Reason> {
    let reason = Reason::new(format!("paused by the file `{}`", shown::path(file)));
    file.symlink_metadata().is_ok().then(|| reason.hint("remove it, or trigger the reload"))
}
