//! Performs `Check` and `Expiry`: checks content before it is used. First what podnudge can tell by
//! itself, then what programs say of a private copy and what URLs say of each key, in their order.
//!
//! Reads the rule's volumes; makes and removes a copy below `agent.work-dir`; runs the programs
//! and sends the requests that the rule names. What is sent is the content that the digest is of.

#[cfg(feature = "tls")]
mod certificates;
pub mod contents;
pub mod copy;
mod program;
mod syntax;
pub mod url;

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::clock::UnixTime;
use crate::config::{Condition, Rule};
use crate::core::event::Checked;
use crate::volume::contents::Unread;
use crate::volume::snapshot::Digest;
use contents::Post;
use copy::PrivateCopy;

/// What the first part comes to.
#[derive(Debug)]
pub(crate) enum Begun {
    /// There is no need for a second part.
    Judged(Checked),
    /// Others are still to be asked.
    Open(Open),
}

/// What others are asked about.
#[derive(Debug)]
pub(crate) struct Open {
    /// For the programs, if there are any.
    copy: Option<PrivateCopy>,
    /// For the URLs: a list for each check.
    posts: Vec<Vec<Post>>,
}

impl Open {
    /// The digest over all that programs are asked about, also over keys that do not count: without
    /// it, what is published might not be what they have seen.
    pub(crate) fn whole(&self) -> Option<Digest> {
        self.copy.as_ref().map(PrivateCopy::whole)
    }
}

/// What podnudge can tell by itself, and what the others need to know, if there are any. Takes a
/// while where the volumes are on a slow file system.
pub(crate) fn begin(rule: &Rule, asked: Digest, work_dir: &Path, now: UnixTime) -> Begun {
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    let posts = match contents::check(volumes, &rule.keys, asked, &rule.checks, now) {
        Ok(posts) => posts,
        Err(checked) => return Begun::Judged(checked),
    };
    if !has_programs(rule) && posts.iter().all(Vec::is_empty) {
        return Begun::Judged(Checked::Passed);
    }
    if !has_programs(rule) {
        return Begun::Open(Open { copy: None, posts });
    }
    match PrivateCopy::make(&rule.settings.watch, &rule.keys, asked, root(rule, work_dir)) {
        Ok(copy) => Begun::Open(Open { copy: Some(copy), posts }),
        Err(checked) => Begun::Judged(checked),
    }
}

/// When the first of the certificates that the rule checks expires, if what counts of the volumes
/// has this digest.
pub(crate) fn expiry(rule: &Rule, asked: Digest, now: UnixTime) -> Option<UnixTime> {
    let volumes = rule.settings.watch.iter().map(PathBuf::as_path);
    contents::expiry(volumes, &rule.keys, asked, &rule.checks, now)
}

/// Removes what a podnudge that was killed during a check has left: the copy may hold secrets.
pub(crate) fn clean(rule: &Rule, work_dir: &Path) {
    let root = root(rule, work_dir);
    if !has_programs(rule) || !root.exists() {
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

/// Whether copies are made for a rule.
pub(crate) fn has_programs(rule: &Rule) -> bool {
    rule.checks.iter().any(|check| matches!(check.condition, Condition::Exec(_)))
}

/// What the others say; the first that refuses decides.
pub(crate) async fn ask(rule: &Rule, asked: Digest, open: Open) -> Checked {
    for (check, posts) in rule.checks.iter().zip(open.posts) {
        let checked = match (&check.condition, &open.copy) {
            (Condition::Exec(program), Some(copy)) => {
                program::ask(rule, program, asked, copy).await
            }
            (Condition::Http(http), _) => url::ask_each(http, posts).await,
            _ => Checked::Passed,
        };
        if checked != Checked::Passed {
            return checked;
        }
    }
    Checked::Passed
}

impl From<Unread> for Checked {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Moved => Self::Moved,
            Unread::TooMuch(reason) => Self::Rejected(reason),
            Unread::Failed(reason) => Self::Failed(reason),
        }
    }
}
