//! The command `podnudge compat`, and what it can mean. Pure.

use std::path::Path;

use podnudge_config::Translated;
use podnudge_core::reason::Reason;

/// The command that runs podnudge with the options of another program.
pub const COMMAND: &str = "compat";

/// The program whose options podnudge takes.
pub(super) const PROMETHEUS_CONFIG_RELOADER: &str = "prometheus-config-reloader";

/// Reads a file that an option names, of at most so many bytes.
pub type Read<'a> = &'a dyn Fn(&Path, u64) -> Result<Vec<u8>, Reason>;

/// What podnudge is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// Run with this configuration.
    Always(Translated),
    /// Write what this configuration says, and end.
    Once(Translated),
    /// End: there is nothing to do.
    Nothing,
    /// Print a text.
    Print(String),
}
