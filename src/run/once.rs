//! `podnudge once`: fills the publish directories and exits, for an init container.
//!
//! Content that the checks reject is not published. If an earlier start has published something
//! that passed, the application gets that; otherwise the pod waits for content that passes.

use std::time::Duration;

use tracing::{info, warn};

use super::{clock, locks};
use crate::checks::{self, Begun};
use crate::clock::Moment;
use crate::config::{Check, Condition, Config, Rule};
use crate::core::event::{Checked, Publication, Published};
use crate::exchange::http;
use crate::exit::Exit;
use crate::publish::{self, Place};
use crate::reason::Reason;
use crate::report;
use crate::shown;
use crate::volume::scan;
use crate::volume::snapshot::{self, Digest};

/// The time between two attempts.
const POLL: Duration = Duration::from_millis(250);

/// Why a publish directory was not filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceError {
    reason: Reason,
    exit: Exit,
}

impl OnceError {
    /// The exit code of the process.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// What happened, and how to fix it.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

/// Why a rule's content was not published.
enum Not {
    /// It may work later.
    Yet(Reason),
    /// It fails as long as the volumes hold this content.
    WithThis(Reason),
}

/// Publishes the content of every rule that has a publish directory. Waits up to `wait` for missing
/// volumes and for errors to pass.
///
/// # Errors
/// If a directory could not be filled and holds no earlier content.
pub async fn once(config: &Config, wait: Duration) -> Result<(), OnceError> {
    let deadline = clock::now().mono.after(wait);
    let mut publishing =
        config.rules.iter().filter(|rule| rule.settings.publish.is_some()).peekable();
    if publishing.peek().is_none() {
        let reason = Reason::new("no rule publishes, so `once` has nothing to do");
        let hint = "add `[rule.settings.publish]` with `dir = \"/config\"`, or `--publish /config`";
        return Err(OnceError { reason: reason.hint(hint), exit: Exit::Config });
    }
    let locks = locks::take(&config.rules, Some(deadline)).await;
    let locks =
        locks.map_err(|error| OnceError { reason: error.reason().clone(), exit: Exit::Config })?;
    for rule in publishing {
        report::on_disk(rule, &config.agent.work_dir);
        checks::clean(rule, &config.agent.work_dir);
        fill(rule, config, deadline).await?;
    }
    drop(locks);
    Ok(())
}

async fn fill(rule: &Rule, config: &Config, deadline: Moment) -> Result<(), OnceError> {
    let Some(place) = publish::place(rule) else { return Ok(()) };
    let open =
        || place.open(clock::now()).map_err(|reason| OnceError { reason, exit: Exit::Config });
    let found = open()?;
    let mut said = None;
    let error = loop {
        match publish(rule, place, config, &found).await {
            Ok(digest) => {
                let path = shown::path(&place.publish.dir);
                let digest = format!("{digest:.12}");
                info!(
                    event = "published",
                    rule = rule.name,
                    digest,
                    path,
                    "the application can start"
                );
                return Ok(());
            }
            Err(Not::WithThis(reason)) => break OnceError { reason, exit: Exit::Data },
            Err(Not::Yet(reason)) if clock::now().mono >= deadline => {
                break OnceError { reason, exit: Exit::Unavailable };
            }
            Err(Not::Yet(reason)) => {
                if said.as_ref() != Some(&reason) {
                    info!(
                        event = "waiting",
                        rule = rule.name,
                        reason = reason.message,
                        hint = reason.hint,
                        "waiting"
                    );
                }
                said = Some(reason);
            }
        }
        clock::sleep(POLL).await;
    };
    let found = open()?;
    let mut kept = found.current.map(|current| current.digest);
    let bad = found.quarantined.iter().find(|(bad, _)| Some(*bad) == kept);
    if let (Some(bad), Some(good)) = (bad, found.good) {
        if let Publication::Failed(reason, _) = place.roll_back(good, bad) {
            return Err(OnceError { reason, exit: Exit::Unavailable });
        }
        kept = Some(good);
    }
    match kept {
        Some(digest) => {
            warn!(
                event = "kept",
                rule = rule.name,
                digest = format!("{digest:.12}"),
                reason = error.reason.message,
                hint = error.reason.hint,
                "the application starts with the content that was published before"
            );
            Ok(())
        }
        None => Err(error),
    }
}

async fn publish(
    rule: &Rule,
    place: Place<'_>,
    config: &Config,
    found: &Published,
) -> Result<Digest, Not> {
    let digest = settled(rule).await?;
    if let Some((_, reason)) = found.quarantined.iter().find(|(bad, _)| *bad == digest) {
        let message =
            format!("the content of the volumes was rolled back before: {}", reason.message);
        return Err(Not::WithThis(Reason { message, ..reason.clone() }));
    }
    let work_dir = &config.agent.work_dir;
    let (checked, whole) = match checks::begin(rule, digest, work_dir, clock::now().wall) {
        Begun::Judged(checked) => (checked, None),
        Begun::Open(open) => {
            let whole = open.whole();
            (checks::ask(rule, digest, open).await, whole)
        }
    };
    match checked {
        Checked::Passed => {}
        Checked::Rejected(reason) => return Err(Not::WithThis(reason)),
        Checked::Moved => return Err(Not::Yet(moved())),
        Checked::NotBefore(_, reason) => return Err(Not::Yet(reason)),
        Checked::Failed(reason) => return Err(Not::Yet(hinted(rule, reason))),
    }
    match place.publish(digest, whole, clock::now().wall) {
        // The application starts after this and reads it, so no action is due.
        Publication::Done => place.start_with(digest).map(|()| digest).map_err(Not::Yet),
        Publication::Moved => Err(Not::Yet(moved())),
        Publication::Failed(reason, _) => Err(Not::Yet(reason)),
    }
}

/// Adds a hint if a URL did not answer: in an init container the application does not run yet.
fn hinted(rule: &Rule, reason: Reason) -> Reason {
    let is_asked_by = |check: &Check| match &check.condition {
        Condition::Http(check) => {
            reason.message.contains(&http::name(&check.method, &check.endpoint))
        }
        _ => false,
    };
    if !rule.checks.iter().any(is_asked_by) {
        return reason;
    }
    let known = reason.hint.as_ref().map(|hint| format!("{hint}; ")).unwrap_or_default();
    reason.hint(format!(
        "{known}in an init container the application does not run yet: give `once` a configuration without the checks that send requests to it",
    ))
}

fn moved() -> Reason {
    Reason::new("the volumes changed while they were being read")
}

/// The digest of the volumes, after a plain directory has been unchanged for `settle`.
async fn settled(rule: &Rule) -> Result<Digest, Not> {
    let (digest, is_atomic) = look(rule)?;
    if !is_atomic {
        clock::sleep(rule.settings.settle).await;
        if look(rule)?.0 != digest {
            return Err(Not::Yet(moved()));
        }
    }
    Ok(digest)
}

/// Reads the volumes: their digest, and whether the kubelet swaps all of them atomically.
fn look(rule: &Rule) -> Result<(Digest, bool), Not> {
    let (mut digests, mut is_atomic) = (Vec::new(), true);
    for path in &rule.settings.watch {
        let reading = scan::read(path, &rule.keys).map_err(|error| Not::Yet(error.reason()))?;
        let Some(snapshot) = reading.snapshot else {
            let reason = Reason::new(format!("nothing exists at `{}`", shown::path(path)));
            return Err(Not::Yet(
                reason.hint("check that the volume is mounted in this container, too"),
            ));
        };
        if snapshot.keys.is_empty() && !snapshot.generation.is_link() {
            // Nothing was written yet; an empty optional volume of the kubelet does have a
            // generation.
            return Err(Not::Yet(Reason::new(format!("`{}` is empty", shown::path(path)))));
        }
        is_atomic &= snapshot.generation.is_link();
        digests.push(snapshot.digest());
    }
    Ok((snapshot::digest(digests), is_atomic))
}
