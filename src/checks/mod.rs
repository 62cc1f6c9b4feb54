//! Performs `Check` and `Expiry`: checks content before it is used. First the local checks of
//! podnudge itself, then in their order the external ones: programs, which check a private copy,
//! and URLs, which check each key.
//!
//! Reads the rule's volumes; creates and removes a copy below `agent.work-dir`; runs the rule's
//! programs and sends its requests. Programs and URLs get exactly the content of the digest.

pub mod alone;
mod answer;
mod attempts;
#[cfg(feature = "tls")]
pub(crate) mod certificates;
pub mod contents;
pub mod copy;
#[cfg(test)]
#[path = "../../tests/fuzz/checks.rs"]
mod fuzz;
mod json;
mod program;
mod refusal;
mod syntax;
mod toml;
pub mod url;
mod yaml;

use std::path::{Path, PathBuf};

use tracing::warn;

use crate::system::folder::Folder;
use crate::volume::contents::ContentsError;
pub(crate) use attempts::{Attempt, Attempts, Left};
use contents::Post;
use copy::PrivateCopy;
use podnudge_config::{Check, Condition, Rule};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// The result of the local checks.
#[derive(Debug)]
pub(crate) enum LocalResult {
    /// The verdict; no external checks are needed.
    Decided(Checked),
    /// The local checks passed; external ones must follow.
    NeedsExternal(ExternalChecks),
}

/// The input of the external checks.
#[derive(Debug)]
pub(crate) struct ExternalChecks {
    /// The copy for programs, if there are any.
    copy: Option<PrivateCopy>,
    /// The contents for URLs: a list for each check.
    posts: Vec<Vec<Post>>,
    /// Forgotten when the checks end.
    attempt: Attempt,
}

impl ExternalChecks {
    /// The digest over all keys that programs check, including ignored ones. Publishing compares
    /// it, so that exactly the checked content is published.
    pub(crate) fn full_digest(&self) -> Option<Digest> {
        self.copy.as_ref().map(PrivateCopy::full_digest)
    }
}

/// Runs the local checks, and prepares the external ones. Takes a while if the volumes are on a
/// slow file system.
pub(crate) fn run_local(
    rule: &Rule,
    expected: Digest,
    work_dir: &Path,
    attempts: &Attempts,
    now: UnixTime,
) -> LocalResult {
    let attempt = attempts.begin(expected);
    let decided = |attempt: Attempt, checked| {
        attempt.ended(&checked);
        LocalResult::Decided(checked)
    };
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    let posts = match contents::check(volumes, &rule.keys, expected, &rule.checks, now) {
        Ok(posts) => posts,
        Err(checked) => return decided(attempt, checked),
    };
    if !has_programs(rule) && posts.iter().all(Vec::is_empty) {
        return decided(attempt, Checked::Passed);
    }
    if !has_programs(rule) {
        return LocalResult::NeedsExternal(ExternalChecks { copy: None, posts, attempt });
    }
    let (volumes, prefix) = (&rule.settings.watch, prefix(rule));
    match PrivateCopy::make(volumes, &rule.keys, expected, work_dir, &prefix) {
        Ok(copy) => match rule.file_of_check() {
            // The program would reject all content.
            Some((key, reason))
                if rule.asks_for_check_of_preset() && !copy.first().join(key).exists() =>
            {
                decided(attempt, Checked::Failed(reason))
            }
            _ => LocalResult::NeedsExternal(ExternalChecks { copy: Some(copy), posts, attempt }),
        },
        Err(checked) => decided(attempt, checked),
    }
}

/// When the first certificate that the rule checks expires, if there is one. Fails unless the volumes have this digest.
pub(crate) fn expiry(
    rule: &Rule,
    expected: Digest,
    attempts: &Attempts,
    now: UnixTime,
) -> Result<Option<UnixTime>, Checked> {
    // It reads the same certificates as their check.
    let attempt = attempts.begin_reading(expected, false);
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    let expiry = contents::expiry(volumes, &rule.keys, expected, &rule.checks, now);
    drop(attempt);
    expiry
}

/// Removes the copies of a podnudge that was killed during a check: they may contain secrets.
pub(crate) fn remove_leftover_copies(rule: &Rule, work_dir: &Path) {
    if !has_programs(rule) {
        return;
    }
    // If it cannot be opened, the check says so.
    let Ok(folder) = Folder::open(work_dir) else { return };
    let prefix = prefix(rule);
    // Without the random end: the name that earlier versions used.
    let earlier = folder.remove_own(prefix.trim_end_matches('-'));
    if let Err(error) = folder.remove_own_leftovers(&prefix).and(earlier) {
        let path = shown::path(work_dir);
        warn!(event = "left-over", rule = rule.name, path, %error, "cannot remove a copy");
    }
}

/// How the names of the copies of a rule begin.
fn prefix(rule: &Rule) -> String {
    format!("podnudge-check-{}-", rule.name)
}

/// Whether a rule has checks by programs, for which copies are made.
pub(crate) fn has_programs(rule: &Rule) -> bool {
    rule.checks.iter().any(|check| matches!(check.condition, Condition::Exec(_)))
}

/// Runs the external checks; the first that does not pass decides, and is returned, too.
pub(crate) async fn run_external(
    rule: &Rule,
    expected: Digest,
    external: ExternalChecks,
) -> (Checked, Option<&Check>) {
    let ExternalChecks { copy, posts, attempt } = external;
    let (mut checked, mut by) = (Checked::Passed, None);
    for (check, posts) in rule.checks.iter().zip(posts) {
        checked = match (&check.condition, &copy) {
            (Condition::Exec(program), Some(copy)) => {
                program::check(rule, program, expected, copy).await
            }
            (Condition::Http(http), _) => url::check_each(http, posts).await,
            _ => Checked::Passed,
        };
        if checked != Checked::Passed {
            by = Some(check);
            break;
        }
    }
    attempt.ended(&checked);
    (checked, by)
}

impl From<ContentsError> for Checked {
    fn from(error: ContentsError) -> Self {
        match error {
            ContentsError::Moved => Self::Moved,
            ContentsError::TooLarge(reason) => Self::Rejected(reason),
            ContentsError::Failed(reason) => Self::Failed(reason),
        }
    }
}
