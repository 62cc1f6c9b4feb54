//! What of a status not everybody may see: digests, by which a short secret can be guessed, reasons, which may quote a
//! checker or the application, and the names of keys.
//!
//! The patterns name all fields, so that the compiler asks about each new one.

#[cfg(feature = "page")]
use super::{Change, ChangedKeys};
use super::{EagerSyncStatus, ObjectStatus, RuleStatus, SlotStatus, Status, VolumeStatus};
use crate::preflight::Problem;
use crate::reason::Reason;
use crate::snapshot::Digest;

impl Status {
    /// The status without them.
    #[must_use]
    pub fn for_anybody(mut self) -> Self {
        let Self {
            version: _,
            #[cfg(feature = "page")]
                pod: _,
            now: _,
            started: _,
            ready: _,
            serving: _,
            unhealthy,
            rules,
            log_lines_dropped: _,
            eager_sync,
            reloads: _,
        } = &mut self;
        let eager_sync = eager_sync.iter_mut().flat_map(EagerSyncStatus::reasons_mut);
        unhealthy.iter_mut().chain(eager_sync).for_each(hide);
        for rule in rules {
            let (digests, reasons) = rule.confidential();
            for digest in digests {
                *digest = None;
            }
            reasons.into_iter().for_each(hide);
            #[cfg(feature = "page")]
            for change in &mut rule.changes {
                *change.confidential().1 = None;
            }
        }
        self
    }
}

fn hide(reason: &mut Reason) {
    let hint = "run `podnudge status` in the pod, or send the token";
    *reason = Reason::new("only shown to the pod itself").hint(hint);
}

impl EagerSyncStatus {
    fn reasons_mut(&mut self) -> impl Iterator<Item = &mut Reason> {
        let Self { objects, reason, syncs_requested: _, edit_to_commit: _ } = self;
        reason.iter_mut().chain(objects.iter_mut().filter_map(ObjectStatus::reason_mut))
    }
}

impl ObjectStatus {
    fn reason_mut(&mut self) -> Option<&mut Reason> {
        let Self { name: _, watched: _, edited_at: _, edit_to_commit_seconds: _, reason } = self;
        reason.as_mut()
    }
}

impl RuleStatus {
    /// All digests that are known.
    pub fn digests_mut(&mut self) -> impl Iterator<Item = &mut Digest> {
        self.confidential().0.into_iter().flatten()
    }

    fn confidential(&mut self) -> (Vec<&mut Option<Digest>>, Vec<&mut Reason>) {
        let Self {
            name: _,
            state: _,
            reason,
            not_ready,
            in_sync: _,
            evidence: _,
            digest_on_disk,
            digest_applied,
            digest_running,
            digest_published,
            shows_digests: _,
            committed_at: _,
            applied_at: _,
            succeeded_at: _,
            certificates_expire_at: _,
            next_action_at: _,
            paused_until: _,
            slot,
            start_expected_at: _,
            start_delay_seconds: _,
            action: _,
            proof: _,
            targets: _,
            preflight,
            volumes,
            #[cfg(feature = "page")]
            changes,
            counters: _,
        } = self;
        let mut digests = vec![digest_on_disk, digest_published];
        digests.extend([digest_applied, digest_running]);
        let mut reasons: Vec<&mut Reason> = reason.iter_mut().chain(not_ready).collect();
        reasons.extend(slot.iter_mut().flat_map(|SlotStatus { held: _, reason }| reason));
        reasons.extend(preflight.iter_mut().map(|Problem { kind: _, reason }| reason));
        for volume in volumes {
            let VolumeStatus { path: _, present: _, committed_at: _, backend: _, reason } = volume;
            reasons.extend(reason);
        }
        #[cfg(feature = "page")]
        for change in changes {
            let (digest, _, reason) = change.confidential();
            digests.push(digest);
            reasons.extend(reason);
        }
        (digests, reasons)
    }
}

#[cfg(feature = "page")]
impl Change {
    fn confidential(
        &mut self,
    ) -> (&mut Option<Digest>, &mut Option<ChangedKeys>, &mut Option<Reason>) {
        let Self {
            digest,
            triggered: _,
            keys,
            committed_at: _,
            ended_at: _,
            outcome: _,
            evidence: _,
            reason,
            attempts: _,
            attempts_allowed: _,
            steps: _,
        } = self;
        (digest, keys, reason)
    }
}
