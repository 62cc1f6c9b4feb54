//! Performs `Probe`: whether the file is there that pauses a rule.
//!
//! Reads the name only; changes nothing.

use std::path::Path;

use crate::reason::Reason;
use crate::shown;

/// Whether this file is there, and so pauses a rule.
pub(crate) fn by_file(file: &Path) -> Option<Reason> {
    let reason = Reason::new(format!("paused by the file `{}`", shown::path(file)));
    file.symlink_metadata().is_ok().then(|| reason.hint("remove it, or trigger the reload"))
}
