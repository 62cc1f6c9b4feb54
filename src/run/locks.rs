//! Locks the publish directories before anything else uses them.

use std::pin::Pin;
use std::time::Duration;

use super::clock;
use crate::publish::{self, Lock, PublishError, Publisher};
use podnudge_config::Rule;
use podnudge_core::clock::Moment;

/// How long to wait for the holder of a lock to end: a pod that this one replaces, on a volume that
/// both mount.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Locks the directories of all rules until the locks are dropped. Boxed: its code would be in both of its callers.
///
/// # Errors
/// If one cannot be opened, or if another podnudge still holds it at `deadline`.
pub(super) fn acquire(
    rules: &[Rule],
    deadline: Option<Moment>,
) -> Pin<Box<dyn Future<Output = Result<Vec<Lock>, PublishError>> + '_>> {
    Box::pin(acquire_all(rules, deadline))
}

async fn acquire_all(rules: &[Rule], deadline: Option<Moment>) -> Result<Vec<Lock>, PublishError> {
    let timeout = clock::now().mono.after(LOCK_TIMEOUT);
    let until = deadline.unwrap_or(timeout);
    let mut locks = Vec::new();
    for publisher in rules.iter().filter_map(publish::publisher) {
        locks.push(lock_one(publisher, until).await?);
    }
    Ok(locks)
}

async fn lock_one(publisher: Publisher<'_>, until: Moment) -> Result<Lock, PublishError> {
    loop {
        match publisher.lock()? {
            Ok(lock) => return Ok(lock),
            Err(holder) if clock::now().mono >= until => {
                return Err(publisher.locked_by_another(&holder).into());
            }
            Err(_) => {}
        }
        clock::sleep(RETRY_INTERVAL).await;
    }
}
