//! Checking content before it is used: first what podnudge can tell by itself, then what programs
//! say of a private copy and what URLs say of each key, in their order.
//!
//! Reads the rule's volumes; makes and removes a copy below `agent.work-dir`; runs the programs
//! and sends the requests that the rule names. What is sent is the content that the digest is of.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::action::{exec, http};
use crate::clock::UnixTime;
use crate::config::{Condition, HttpCheck, Program, Rule};
use crate::core::event::Checked;
use crate::volume::check::{self, Post};
use crate::volume::copy::PrivateCopy;
use crate::volume::snapshot::Digest;

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
    let volumes = rule.watch.iter().map(PathBuf::as_path);
    let posts = match check::check(volumes, &rule.keys, asked, &rule.checks, now) {
        Ok(posts) => posts,
        Err(checked) => return Begun::Judged(checked),
    };
    if !has_programs(rule) && posts.iter().all(Vec::is_empty) {
        return Begun::Judged(Checked::Passed);
    }
    if !has_programs(rule) {
        return Begun::Open(Open { copy: None, posts });
    }
    match PrivateCopy::make(&rule.watch, &rule.keys, asked, root(rule, work_dir)) {
        Ok(copy) => Begun::Open(Open { copy: Some(copy), posts }),
        Err(checked) => Begun::Judged(checked),
    }
}

/// When the first of the certificates that the rule checks expires, if what counts of the volumes
/// has this digest.
pub(crate) fn expiry(rule: &Rule, asked: Digest, now: UnixTime) -> Option<UnixTime> {
    let volumes = rule.watch.iter().map(PathBuf::as_path);
    check::expiry(volumes, &rule.keys, asked, &rule.checks, now)
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
            (Condition::Exec(program), Some(copy)) => ask_program(rule, program, asked, copy).await,
            (Condition::Http(http), _) => ask_url(http, posts).await,
            _ => Checked::Passed,
        };
        if checked != Checked::Passed {
            return checked;
        }
    }
    Checked::Passed
}

/// One key after the other.
async fn ask_url(check: &HttpCheck, posts: Vec<Post>) -> Checked {
    for Post { key, content } in posts {
        match http::ask(check, &key.to_string(), content).await {
            Checked::Passed => {}
            other => return other,
        }
    }
    Checked::Passed
}

async fn ask_program(rule: &Rule, program: &Program, asked: Digest, copy: &PrivateCopy) -> Checked {
    let (dir, root) = (copy.first().to_string_lossy(), copy.root().to_string_lossy());
    let fill = |argument: &String| argument.replace("{dir}", &dir).replace("{root}", &root);
    let arguments: Vec<String> = program.arguments.iter().map(fill).collect();
    let digest = asked.to_string();
    let environment = [
        ("PODNUDGE_RULE", OsStr::new(&rule.name)),
        ("PODNUDGE_DIGEST", OsStr::new(&digest)),
        ("PODNUDGE_DIR", copy.first().as_os_str()),
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
