//! Checking content before it is used: first what podnudge can tell by itself, then what programs
//! say of a private copy.
//!
//! Reads the rule's volumes; makes and removes a copy below `agent.work-dir`; runs the programs
//! that the rule names.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::action::exec;
use crate::config::{Condition, ExecCheck, Rule};
use crate::core::event::Checked;
use crate::volume::check;
use crate::volume::copy::PrivateCopy;
use crate::volume::snapshot::Digest;

/// What the first part comes to.
#[derive(Debug)]
pub(crate) enum Begun {
    /// There is no need for a second part.
    Judged(Checked),
    /// The programs are still to be asked about this copy.
    Copied(PrivateCopy),
}

/// What podnudge can tell by itself, and a copy for the programs, if there are any. Takes a while
/// where the volumes are on a slow file system.
pub(crate) fn begin(rule: &Rule, asked: Digest, work_dir: &Path) -> Begun {
    let volumes = rule.watch.iter().map(PathBuf::as_path);
    match check::check(volumes, &rule.keys, asked, &rule.checks) {
        Checked::Passed if programs(rule).next().is_some() => {
            let root = root(rule, work_dir);
            match PrivateCopy::make(&rule.watch, &rule.keys, asked, root) {
                Ok(copy) => Begun::Copied(copy),
                Err(checked) => Begun::Judged(checked),
            }
        }
        checked => Begun::Judged(checked),
    }
}

/// Removes what a podnudge that was killed during a check has left: the copy may hold secrets.
pub(crate) fn clean(rule: &Rule, work_dir: &Path) {
    let root = root(rule, work_dir);
    if programs(rule).next().is_none() || !root.exists() {
        return;
    }
    if let Err(error) = fs::remove_dir_all(&root) {
        let path = root.display().to_string();
        warn!(event = "left-over", rule = rule.name, path, %error, "a copy cannot be removed");
    }
}

fn root(rule: &Rule, work_dir: &Path) -> PathBuf {
    work_dir.join(format!("podnudge-check-{}", rule.name))
}

/// What the programs say; the first that refuses decides.
pub(crate) async fn ask_programs(rule: &Rule, asked: Digest, copy: PrivateCopy) -> Checked {
    for program in programs(rule) {
        match ask(rule, program, asked, &copy).await {
            Checked::Passed => {}
            other => return other,
        }
    }
    Checked::Passed
}

fn programs(rule: &Rule) -> impl Iterator<Item = &ExecCheck> {
    rule.checks.iter().filter_map(|check| match &check.condition {
        Condition::Exec(exec) => Some(exec),
        _ => None,
    })
}

async fn ask(rule: &Rule, program: &ExecCheck, asked: Digest, copy: &PrivateCopy) -> Checked {
    let (dir, root) = (copy.first().to_string_lossy(), copy.root().to_string_lossy());
    let fill = |argument: &String| argument.replace("{dir}", &dir).replace("{root}", &root);
    let arguments: Vec<String> = program.arguments.iter().map(fill).collect();
    let digest = asked.to_string();
    let environment = [
        ("PODNUDGE_RULE", rule.name.as_str()),
        ("PODNUDGE_DIGEST", digest.as_str()),
        ("PODNUDGE_DIR", &dir),
    ];
    let ended = exec::run(&arguments, &environment, Some(copy.first()), program.timeout).await;
    match ended {
        Ok(ended) if ended.is_success => Checked::Passed,
        Ok(ended) => {
            // As the configuration has it: the place of the copy tells nobody anything.
            let said = ended.output.replace(&*dir, "{dir}").replace(&*root, "{root}");
            let reason = exec::failure(&program.arguments, &ended.how, &said);
            // A program that was stopped, by its time or by the node, has said nothing of the content.
            if ended.is_exit { Checked::Refused(reason) } else { Checked::Failed(reason) }
        }
        Err(reason) => Checked::Failed(reason),
    }
}
