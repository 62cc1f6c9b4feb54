//! Asking a program whether the content of a private copy is good.
//!
//! Runs the program in the copy.

use std::ffi::OsStr;

use super::copy::PrivateCopy;
use crate::config::{Program, Rule};
use crate::core::event::Checked;
use crate::exchange::program;
use crate::volume::snapshot::Digest;

/// Runs the program. Its success is the answer; what it prints is the reason of a refusal.
pub(super) async fn ask(
    rule: &Rule,
    check: &Program,
    asked: Digest,
    copy: &PrivateCopy,
) -> Checked {
    let (dir, root) = (copy.first().to_string_lossy(), copy.root().to_string_lossy());
    let fill = |argument: &String| argument.replace("{dir}", &dir).replace("{root}", &root);
    let arguments: Vec<String> = check.arguments.iter().map(fill).collect();
    let digest = asked.to_string();
    let environment = [
        ("PODNUDGE_RULE", OsStr::new(&rule.name)),
        ("PODNUDGE_DIGEST", OsStr::new(&digest)),
        ("PODNUDGE_DIR", copy.first().as_os_str()),
    ];
    let ended = program::run(&arguments, &environment, Some(copy.first()), check.timeout).await;
    match ended {
        Ok(ended) if ended.is_success => Checked::Passed,
        Ok(ended) => {
            // As the configuration has it: the place of the copy tells nobody anything.
            let said = ended.output.replace(&*dir, "{dir}").replace(&*root, "{root}");
            let reason = program::failure(&check.arguments, &ended.how, &said);
            // A program that was stopped, by its time or by the node, has said nothing of the content.
            if ended.is_exit { Checked::Rejected(reason) } else { Checked::Failed(reason) }
        }
        Err(reason) => Checked::Failed(reason),
    }
}
