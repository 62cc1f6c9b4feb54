//! `podnudge once`: fills the publish directories and exits, for an init container.
//!
//! Content that the checks reject is not published. If an earlier start has published something
//! that passed, the application gets that; otherwise the pod waits for content that passes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::{clock, digests, locks, queues};
use crate::checks::{self, Attempts, LocalResult};
use crate::publish::{self, Publisher};
use crate::report;
use crate::system::exit::Exit;
use crate::system::os_signals::OsSignals;
use crate::volume::scan;
use podnudge_config::{Condition, Config, Rule};
use podnudge_core::clock::Moment;
use podnudge_core::event::{Checked, Current, Interrupted, Publication, Published, Standing};
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::{self, Digest};

/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

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
enum NotPublished {
    /// An error that may pass.
    Retry(Reason),
    /// An error that stays as long as the volumes hold this content.
    Rejected(Reason),
}

/// Publishes the content of every rule that has a publish directory. Waits up to `wait` for missing
/// volumes and for errors to pass.
///
/// # Errors
/// If a directory could not be filled and holds no earlier content.
pub async fn once(config: &Config, wait: Duration) -> Result<(), OnceError> {
    let deadline = clock::now().mono.after(wait);
    let expands = |rule: &Rule| cfg!(feature = "compat") && rule.settings.expand.is_some();
    let fills = |rule: &&Rule| rule.settings.publish.is_some() || expands(rule);
    let mut publishing = config.rules.iter().filter(fills).peekable();
    if publishing.peek().is_none() {
        let reason = Reason::new("no rule publishes or writes a file, so `once` has nothing to do");
        let hint = "add `[rule.publish]` with `dir = \"/config\"`, or `--publish /config`";
        return Err(OnceError { reason: reason.hint(hint), exit: Exit::Config });
    }
    // First: as pid 1 of an init container, podnudge gets no signal without a handler.
    let mut signals = OsSignals::register().map_err(|error| {
        let reason = Reason::new(format!("cannot install signal handlers: {error}"));
        OnceError { reason, exit: Exit::Unavailable }
    })?;
    let locks = tokio::select! {
        biased;
        () = signals.stopped() => return Err(stopped_by_signal()),
        locks = locks::acquire(&config.rules, Some(deadline)) => locks,
    };
    let locks =
        locks.map_err(|error| OnceError { reason: error.reason().clone(), exit: Exit::Config })?;
    for rule in publishing {
        report::warn_secret_on_disk(rule, &config.agent.work_dir);
        checks::remove_leftover_copies(rule, &config.agent.work_dir);
        let (attempts, left) = Attempts::open(rule, &config.agent);
        tokio::select! {
            biased;
            () = signals.stopped() => {
                // A check that is running does not count.
                attempts.close();
                return Err(stopped_by_signal());
            }
            filled = fill(rule, config, deadline, &attempts, &left.known) => filled?,
        }
    }
    drop(locks);
    Ok(())
}

fn stopped_by_signal() -> OnceError {
    OnceError { reason: Reason::new("stopped by a signal"), exit: Exit::Unavailable }
}

async fn fill(
    rule: &Rule,
    config: &Config,
    deadline: Moment,
    attempts: &Attempts,
    interrupted: &[Interrupted],
) -> Result<(), OnceError> {
    let Some(publisher) = publish::publisher(rule) else {
        #[cfg(feature = "compat")]
        expand(rule, config, deadline, attempts, interrupted).await?;
        return Ok(());
    };
    let open =
        || publisher.open(clock::now()).map_err(|reason| OnceError { reason, exit: Exit::Config });
    let found = open()?;
    let publish = async || publish(rule, publisher, config, &found, attempts, interrupted).await;
    let Err(error) = retry(rule, config, &publisher.publish.dir, deadline, publish).await else {
        return Ok(());
    };
    let found = open()?;
    let mut kept = found.current.map(|current| current.digest);
    let bad = found.quarantined.iter().find(|(bad, _)| Some(*bad) == kept);
    if let (Some(bad), Some(good)) = (bad, found.good) {
        if let Publication::Failed(reason, _) = publisher.roll_back(good, bad) {
            return Err(OnceError { reason, exit: Exit::Unavailable });
        }
        kept = Some(good);
    }
    match kept {
        Some(digest) => {
            warn!(
                event = "kept",
                rule = rule.name,
                digest = digests::plain(rule, &config.agent, digest),
                reason = error.reason.message,
                hint = error.reason.hint,
                "the application starts with the content that was published before"
            );
            Ok(())
        }
        None => Err(error),
    }
}

/// Writes the file of `[rule.expand]`.
#[cfg(feature = "compat")]
async fn expand(
    rule: &Rule,
    config: &Config,
    deadline: Moment,
    attempts: &Attempts,
    interrupted: &[Interrupted],
) -> Result<(), OnceError> {
    let Some(expand) = &rule.settings.expand else { return Ok(()) };
    retry(rule, config, &expand.to, deadline, async || {
        let (digest, _) = checked_digest(rule, config, attempts, interrupted, None).await?;
        super::expand::write(rule, digest).await.map_err(NotPublished::Retry)?;
        Ok(digest)
    })
    .await
}

/// Tries until the application has at `path` what it needs to start, or until that cannot be reached.
async fn retry(
    rule: &Rule,
    config: &Config,
    path: &Path,
    deadline: Moment,
    attempt: impl AsyncFn() -> Result<Digest, NotPublished>,
) -> Result<(), OnceError> {
    let mut reported = None;
    loop {
        match attempt().await {
            Ok(digest) => {
                let path = shown::path(path);
                let digest = digests::plain(rule, &config.agent, digest);
                info!(
                    event = "published",
                    rule = rule.name,
                    digest,
                    path,
                    "the application can start"
                );
                return Ok(());
            }
            Err(NotPublished::Rejected(reason)) => {
                return Err(OnceError { reason, exit: Exit::Data });
            }
            Err(NotPublished::Retry(reason)) if clock::now().mono >= deadline => {
                return Err(OnceError { reason, exit: Exit::Unavailable });
            }
            Err(NotPublished::Retry(reason)) => {
                if reported.as_ref() != Some(&reason) {
                    info!(
                        event = "waiting",
                        rule = rule.name,
                        reason = reason.message,
                        hint = reason.hint,
                        "waiting"
                    );
                }
                reported = Some(reason);
            }
        }
        clock::sleep(RETRY_INTERVAL).await;
    }
}

async fn publish(
    rule: &Rule,
    publisher: Publisher<'_>,
    config: &Config,
    found: &Published,
    attempts: &Attempts,
    interrupted: &[Interrupted],
) -> Result<Digest, NotPublished> {
    let (digest, full_digest) =
        checked_digest(rule, config, attempts, interrupted, Some(found)).await?;
    match publisher.publish(digest, full_digest, clock::now().wall) {
        Publication::Done if is_unproven(found, digest) => Ok(digest),
        // The application starts after this and reads it, so no action is due.
        Publication::Done => {
            publisher.record_for_start(digest).map(|()| digest).map_err(NotPublished::Retry)
        }
        Publication::Moved => Err(NotPublished::Retry(changed_during_read())),
        Publication::Failed(reason, _) => Err(NotPublished::Retry(reason)),
    }
}

/// The digest of content that has passed its checks, and the one over all keys that programs have checked.
async fn checked_digest(
    rule: &Rule,
    config: &Config,
    attempts: &Attempts,
    interrupted: &[Interrupted],
    found: Option<&Published>,
) -> Result<(Digest, Option<Digest>), NotPublished> {
    let digest = settled_digest(rule).await?;
    let mut quarantined = found.iter().flat_map(|found| &found.quarantined);
    if let Some((_, reason)) = quarantined.find(|(bad, _)| *bad == digest) {
        let message =
            format!("the content of the volumes was rolled back before: {}", reason.message);
        return Err(NotPublished::Rejected(Reason { message, ..reason.clone() }));
    }
    if let Some(reason) = Interrupted::rejection(interrupted, digest) {
        return Err(NotPublished::Rejected(reason));
    }
    if rule.needs_approval_to_check() && found.and_then(|found| found.good) != Some(digest) {
        let reason = Reason::new("the content needs an approval before its checks");
        let hint = "`podnudge once` cannot wait for one: give it a configuration without `approve-before = \"check\"`, or start without it";
        return Err(NotPublished::Rejected(reason.hint(hint)));
    }
    let (checked, by, full_digest) = match run_local(rule, digest, config, attempts).await {
        LocalResult::Decided(checked) => (checked, None, None),
        LocalResult::NeedsExternal(external) => {
            let full_digest = external.full_digest();
            let (checked, by) = checks::run_external(rule, digest, external).await;
            (checked, by, full_digest)
        }
    };
    match checked {
        Checked::Passed => Ok((digest, full_digest)),
        Checked::Rejected(reason) => Err(NotPublished::Rejected(reason)),
        Checked::Moved => Err(NotPublished::Retry(changed_during_read())),
        Checked::NotBefore(_, reason) => Err(NotPublished::Retry(reason)),
        Checked::Failed(reason) => Err(NotPublished::Retry(match by.map(|by| &by.condition) {
            Some(Condition::Http(_)) => with_init_hint(reason),
            _ => reason,
        })),
    }
}

/// Whether an earlier podnudge has published this content and not verified it, such as when it restarts the pod:
/// the next one goes on with that.
fn is_unproven(found: &Published, digest: Digest) -> bool {
    let is_current = |one: &Current| one.digest == digest && one.standing == Standing::Unproven;
    found.good.is_some() && found.current.as_ref().is_some_and(is_current)
}

/// Runs the local checks on a thread of their own, so that podnudge can be stopped meanwhile.
async fn run_local(
    rule: &Rule,
    digest: Digest,
    config: &Config,
    attempts: &Attempts,
) -> LocalResult {
    let (rule, attempts) = (rule.clone(), attempts.clone());
    let (work_dir, now) = (config.agent.work_dir.clone(), clock::now().wall);
    let run = move || checks::run_local(&rule, digest, &work_dir, &attempts, now);
    queues::thread().await.run(run).await
}

/// Adds a hint for a URL that did not answer: in an init container the application does not run yet.
fn with_init_hint(reason: Reason) -> Reason {
    let known = reason.hint.as_ref().map(|hint| format!("{hint}; ")).unwrap_or_default();
    reason.hint(format!(
        "{known}in an init container the application does not run yet: give `once` a configuration without the checks that send requests to it",
    ))
}

fn changed_during_read() -> Reason {
    Reason::new("the volumes changed while they were being read")
}

/// The digest of the volumes, after a plain directory has been unchanged for `settle`.
async fn settled_digest(rule: &Rule) -> Result<Digest, NotPublished> {
    let rule = Arc::new(rule.clone());
    // On a thread of its own, so that podnudge can be stopped while a volume hangs.
    let read = async || {
        let rule = Arc::clone(&rule);
        queues::thread().await.run(move || read_volumes(&rule)).await
    };
    let (digest, is_atomic) = read().await?;
    if !is_atomic {
        clock::sleep(rule.settle()).await;
        if read().await?.0 != digest {
            return Err(NotPublished::Retry(changed_during_read()));
        }
    }
    Ok(digest)
}

/// Reads the volumes: their digest, and whether the kubelet swaps all of them atomically.
fn read_volumes(rule: &Rule) -> Result<(Digest, bool), NotPublished> {
    let (mut digests, mut is_atomic) = (Vec::new(), true);
    for path in &rule.settings.watch {
        let reading =
            scan::read(path, &rule.keys).map_err(|error| NotPublished::Retry(error.reason()))?;
        let Some(snapshot) = reading.snapshot else {
            let reason = Reason::new(format!("nothing exists at `{}`", shown::path(path)));
            return Err(NotPublished::Retry(
                reason.hint("check that the volume is mounted in this container, too"),
            ));
        };
        if snapshot.keys.is_empty() && !snapshot.generation.is_link() {
            // Nothing was written yet; an empty optional volume of the kubelet does have a
            // generation.
            return Err(NotPublished::Retry(Reason::new(format!(
                "`{}` is empty",
                shown::path(path)
            ))));
        }
        is_atomic &= snapshot.generation.is_link();
        digests.push(snapshot.digest());
    }
    Ok((snapshot::digest(digests), is_atomic))
}
