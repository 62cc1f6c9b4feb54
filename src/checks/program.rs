//! Checks content by a program that reads a private copy.
//!
//! Runs the program in the copy.

use std::ffi::OsStr;

use super::copy::PrivateCopy;
use crate::exchange::program;
use crate::volume::reads::OwnRead;
use podnudge_config::{Program, Rule};
use podnudge_core::event::Checked;
use podnudge_core::snapshot::Digest;

/// Runs the program. Exit code 0 accepts the content; its output is the reason of a rejection.
pub(super) async fn check(
    rule: &Rule,
    check: &Program,
    expected: Digest,
    copy: &PrivateCopy,
) -> Checked {
    let (dir, root) = (copy.first().to_string_lossy(), copy.root().to_string_lossy());
    let fill = |argument: &String| argument.replace("{dir}", &dir).replace("{root}", &root);
    let arguments: Vec<String> = check.arguments.iter().map(fill).collect();
    let digest = expected.to_string();
    let environment = [
        ("PODNUDGE_RULE", OsStr::new(&rule.name)),
        ("PODNUDGE_DIGEST", OsStr::new(&digest)),
        ("PODNUDGE_DIR", copy.first().as_os_str()),
    ];
    let _own = OwnRead::begin();
    let ended = program::run(
        &arguments,
        &environment,
        &rule.settings.pass_environment,
        Some(copy.first()),
        check.timeout,
    )
    .await;
    match ended {
        Ok(ended) if ended.is_success => Checked::Passed,
        Ok(ended) => {
            // Show the configured placeholders: the path of the copy means nothing to an operator.
            let said = ended.output.replace(&*dir, "{dir}").replace(&*root, "{root}");
            let reason = program::failure(&check.arguments, &ended.how, &said);
            // A program that was killed, by the time limit or the node, has not judged the content.
            if ended.is_exit { Checked::Rejected(reason) } else { Checked::Failed(reason) }
        }
        Err(reason) => Checked::Failed(reason),
    }
}
