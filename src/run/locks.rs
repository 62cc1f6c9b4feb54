//! Locks the publish directories before anything else uses them.

use std::time::Duration;

use super::clock;
use crate::clock::Moment;
use crate::config::Rule;
use crate::publish::{self, Lock, Place, PublishError};

/// How long to wait for the holder of a lock to end: a pod that this one replaces, on a volume that
/// both mount.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two attempts.
const POLL: Duration = Duration::from_millis(100);

/// Locks the directories of all rules until the locks are dropped.
///
/// # Errors
/// If one cannot be opened, or if another podnudge still holds it at `deadline`.
pub(super) async fn take(
    rules: &[Rule],
    deadline: Option<Moment>,
) -> Result<Vec<Lock>, PublishError> {
    let patience = clock::now().mono.after(PATIENCE);
    let until = deadline.unwrap_or(patience);
    let mut locks = Vec::new();
    for place in rules.iter().filter_map(publish::place) {
        locks.push(take_one(place, until).await?);
    }
    Ok(locks)
}

async fn take_one(place: Place<'_>, until: Moment) -> Result<Lock, PublishError> {
    loop {
        if let Some(lock) = place.lock()? {
            return Ok(lock);
        }
        if clock::now().mono >= until {
            return Err(place.is_taken().into());
        }
        clock::sleep(POLL).await;
    }
}
