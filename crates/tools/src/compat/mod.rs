//! What other reloaders are started with, translated to podnudge's own options and configuration.
//!
//! `podnudge compat prometheus-config-reloader` runs podnudge with a translation: the text of a file, which `podnudge_config`
//! reads like any other. Problems name the option that a part of the text comes from (`podnudge_config::Origin`). For the
//! others, a command line or an environment that podnudge does not know ends it with one, to be used instead, and with
//! what podnudge refuses in it (`src/cli/compat.rs`). Pure: who calls it reads the `--web-config-file` of
//! prometheus-config-reloader.

mod command;
mod draft;
mod options;
mod peers;
mod prometheus_config_reloader;
mod web_config;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use command::PROMETHEUS_CONFIG_RELOADER;
pub use command::{COMMAND, Read, Run};
pub use peers::{Instead, Translation};
use podnudge_core::collect;
use podnudge_core::reason::Reason;

/// What podnudge is to do if its arguments, the program's name first, are those of prometheus-config-reloader:
/// below `compat`, or by the name of the program. `None` if they are not. An error if one of them is not
/// supported, with its name.
pub fn run(arguments: &[OsString], read: Read<'_>) -> Option<Result<Run, Reason>> {
    let name = arguments.first().and_then(|path| Path::new(path).file_name());
    if name == Some(OsStr::new(PROMETHEUS_CONFIG_RELOADER)) {
        return Some(prometheus_config_reloader::translate(&texts(arguments.get(1..)?), read));
    }
    let texts = texts(arguments.get(1..)?);
    let mut words = texts.iter().map(String::as_str);
    if words.next() != Some(COMMAND) {
        return None;
    }
    let (print, program) = match words.next() {
        Some("--print") => (true, words.next()),
        word => (false, word),
    };
    if program? != PROMETHEUS_CONFIG_RELOADER {
        return None;
    }
    let options: Vec<String> = words.map(str::to_owned).collect();
    let run = prometheus_config_reloader::translate(&options, read);
    Some(match run {
        Ok(Run::Always(config) | Run::Once(config)) if print => Ok(Run::Print(config.text)),
        run => run,
    })
}

/// The translation of a command line, the program's name first, or of an environment of another reloader. `None` if it
/// is of none.
pub fn translated(
    arguments: &[OsString],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<Translation> {
    let arguments = texts(arguments.get(1..).unwrap_or_default());
    let text = |text: OsString| text.into_string().ok();
    let environment = environment
        .into_iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .filter(|(_, value)| !value.is_empty());
    peers::translate(&arguments, &collect::map(environment))
}

fn texts(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}
