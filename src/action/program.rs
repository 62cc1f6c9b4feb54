//! Runs a program as an action: passes the change to it, and maps its exit to a result.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use crate::exchange::program;
use crate::volume::contents::folder;
use crate::volume::reads::OwnRead;
use podnudge_config::{Program, Rule};
use podnudge_core::command::Act;
use podnudge_core::event::Acted;
use podnudge_core::snapshot::Key;

/// The longest list of changed keys that is passed to programs, in bytes.
const MOST_CHANGED: usize = 64 * 1024;

/// Runs a program of the rule: exit code 0 is success, any other exit code means that the
/// application declines the content.
pub(super) async fn run(rule: &Rule, program: &Program, act: &Act) -> Acted {
    let digest = act.digest.to_string();
    let (keys, are_all) = changed_keys(&act.changed);
    let volumes = rule.volumes_read();
    let dir = volumes.first().map_or(Path::new("/"), |volume| folder(volume));
    let mut environment = vec![
        ("PODNUDGE_DIR", dir.as_os_str()),
        ("PODNUDGE_RULE", OsStr::new(&rule.name)),
        ("PODNUDGE_DIGEST", OsStr::new(&digest)),
        ("PODNUDGE_CHANGED_KEYS", &keys),
    ];
    if !are_all {
        environment.push(("PODNUDGE_CHANGED_KEYS_CUT", OsStr::new("1")));
    }
    // Such programs read the volumes, too.
    let _own = OwnRead::begin();
    match program::run(
        &program.arguments,
        &environment,
        &rule.settings.pass_environment,
        None,
        program.timeout,
    )
    .await
    {
        Ok(ended) if ended.is_success => {
            Acted::Accepted(program::success_message(&program.arguments, &ended))
        }
        Ok(ended) => {
            let reason = program::failure(&program.arguments, &ended.how, &ended.output);
            if ended.is_exit { Acted::Declined(reason) } else { Acted::Failed(reason) }
        }
        // It did not start: that says nothing about the content.
        Err(reason) => Acted::Refused(reason),
    }
}

/// The changed keys, one per line, and whether the list is complete: a variable holds 128 KiB at
/// most.
fn changed_keys(changed: &[Key]) -> (OsString, bool) {
    let mut lines = Vec::new();
    for Key(key) in changed {
        if lines.len() + key.len() >= MOST_CHANGED {
            return (OsString::from_vec(lines), false);
        }
        if !lines.is_empty() {
            lines.push(b'\n');
        }
        lines.extend_from_slice(key);
    }
    (OsString::from_vec(lines), true)
}
