//! `[rule.expand]`: has the file written before the actions of a rule, and by `podnudge once`.

use super::queues;
use crate::publish;
use podnudge_config::Rule;
use podnudge_core::command::{Act, Extent};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// Writes the file of a rule, if it has one, before an action that is sent.
///
/// # Errors
/// If the file could not be written: then nothing must be sent.
pub(super) async fn before(rule: &Rule, act: &mut Act) -> Result<(), Reason> {
    if rule.settings.expand.is_none() || !matches!(act.extent, Extent::Send | Extent::Prepare) {
        return Ok(());
    }
    // A target that started after the commit has read what was written before this.
    act.fresh_after = None;
    if act.extent == Extent::Prepare { Ok(()) } else { write(rule, act.digest).await }
}

/// Writes the file of a rule with the content of this digest, on a thread of its own.
///
/// # Errors
/// If it could not be written.
pub(super) async fn write(rule: &Rule, digest: Digest) -> Result<(), Reason> {
    let rule = rule.clone();
    let write = move || match &rule.settings.expand {
        Some(expand) => publish::expand::write(&rule, expand, digest),
        None => Ok(()),
    };
    queues::thread().await.run(write).await
}
