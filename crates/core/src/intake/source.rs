//! The volumes of a rule: turns hints, by settling and scanning, into the content on disk.
//!
//! Level-triggered: a hint only marks a volume for a scan. Lost, duplicated or reordered hints do
//! not change the final result.
//!
//! The kubelet puts a whole content in place by one rename, a commit. Once each volume of the rule has had one, the
//! scan follows at once. If it is known which volumes the kubelet is about to write, only these have to. All else
//! settles: commits that follow each other, so that they cause few actions; commits that add or remove keys, because
//! the kubelet makes and removes the links to these after the commit; and whatever a scan finds that is no commit
//! after all.

mod settle;
mod volume;

use std::time::Duration;

use super::changed::Keys;
use crate::backoff;
use crate::clock::{Moment, Now, UnixTime};
use crate::event::{Expected, Scan, VolumeId, Watch};
use crate::fact::Fact;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::snapshot::{self, Digest, Generation};
use crate::status::VolumeStatus;
use settle::Settle;
use volume::{Gap, Volume};

/// The wait after the first failed scan.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest wait between failed scans.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// A commit so soon after a scan or an action may be one of many.
const BURST: Duration = Duration::from_secs(1);

/// The content of a rule's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnDisk {
    pub(crate) digest: Digest,
    /// The newest commit of all volumes by the wall clock, for reports.
    pub(crate) committed: UnixTime,
    /// The newest commit by the monotonic clock, for decisions; may be too late, but never too early.
    pub(crate) committed_at: Moment,
}

/// The gaps of the volumes at the time at which their content was taken as known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gaps(Vec<(VolumeId, Gap)>);

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) begun: Moment,
    pub(crate) facts: Vec<Fact>,
    /// The content on disk, if this scan read a volume and every volume was found at least once.
    pub(crate) on_disk: Option<OnDisk>,
}

#[derive(Debug)]
pub(crate) struct Source {
    settle: Duration,
    settle_max: Duration,
    /// Whether commits of the kubelet settle like any other change.
    settles_commits: bool,
    volumes: Vec<Volume>,
    /// Which of them the kubelet is about to write, if that is known.
    expected: Option<Expected>,
    activity: Activity,
    /// The end of the last scan.
    scanned_at: Option<Moment>,
    /// The last action.
    acted_at: Option<Moment>,
    on_disk: Option<OnDisk>,
}

/// The current step of observing the volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Quiet,
    Settling(Settle),
    Scanning { begun: Moment, failures: u32, is_at_commit: bool },
    Backoff { at: Moment, failures: u32 },
}

impl Source {
    pub(crate) fn new(policy: &Policy, now: Moment) -> Self {
        Self {
            settle: policy.intake.settle,
            settle_max: policy.intake.settle_max,
            settles_commits: policy.intake.settles_commits,
            volumes: policy.intake.volumes.iter().map(|volume| Volume::new(volume, now)).collect(),
            expected: None,
            activity: Activity::Settling(Settle::begin(now, Duration::ZERO, Duration::ZERO)),
            scanned_at: None,
            acted_at: None,
            on_disk: None,
        }
    }

    pub(crate) fn hint(&mut self, now: Moment, id: VolumeId, commits: u32) {
        let mut is_burst = commits > 1 || self.has_just_acted(now);
        self.update(id, |volume| {
            is_burst |= volume.has_committed();
            volume.hint(now, commits);
        });
        self.begin_settling(now);
        let is_whole = !self.settles_commits && self.has_all_commits();
        let settles = matches!(self.activity, Activity::Settling(_));
        if commits > 0 && is_whole && settles && !is_burst {
            self.activity = Activity::Settling(Settle::at_commit(now));
        }
    }

    /// Which volumes of all rules the kubelet is about to write.
    pub(crate) fn expect(&mut self, expected: Option<&Expected>) {
        self.expected = expected.cloned();
    }

    /// Whether each volume that the kubelet is about to write has had its commit.
    fn has_all_commits(&self) -> bool {
        let Some(Expected { volumes, others }) = &self.expected else {
            return self.volumes.iter().all(Volume::has_committed);
        };
        let mut found = 0;
        for volume in &self.volumes {
            if volumes.contains(&volume.id()) {
                if !volume.has_committed() {
                    return false;
                }
            } else {
                found += usize::from(volume.has_committed());
            }
        }
        found >= *others
    }

    /// An action took place: commits soon after it settle.
    pub(crate) fn acted(&mut self, now: Moment) {
        self.acted_at = Some(now);
    }

    fn has_just_acted(&self, now: Moment) -> bool {
        [self.scanned_at, self.acted_at].into_iter().flatten().any(|at| now < at.after(BURST))
    }

    /// Handles a possible change without an event.
    pub(crate) fn hint_lost(&mut self, now: Moment, id: VolumeId) {
        self.update(id, Volume::hint_lost);
        self.begin_settling(now);
    }

    pub(crate) fn hints_lost(&mut self, now: Moment) {
        self.volumes.iter_mut().for_each(Volume::hint_lost);
        self.begin_settling(now);
    }

    /// Scans all volumes without settling.
    pub(crate) fn scan_now(&mut self, now: Moment) {
        self.hints_lost(now);
        if !matches!(self.activity, Activity::Scanning { .. }) {
            self.activity = Activity::Settling(Settle::begin(now, Duration::ZERO, Duration::ZERO));
        }
    }

    /// Handles the result of a resync that began at `begun`.
    pub(crate) fn resynced(
        &mut self,
        now: Moment,
        id: VolumeId,
        begun: Moment,
        found: Option<&Generation>,
    ) {
        let mut is_new = false;
        self.update(id, |volume| is_new |= volume.resynced(begun, found));
        if is_new {
            self.begin_settling(now);
        }
    }

    pub(crate) fn watched(&mut self, id: VolumeId, watch: &Watch) -> Option<Fact> {
        let mut fact = None;
        self.update(id, |volume| fact = volume.watched(watch.clone()));
        fact
    }

    fn update(&mut self, id: VolumeId, apply: impl FnMut(&mut Volume)) {
        self.volumes.iter_mut().filter(|volume| volume.id() == id).for_each(apply);
    }

    /// Begins a scan if one is due, and returns the volumes to read.
    pub(crate) fn begin_due_scan(&mut self, now: Moment) -> Option<Vec<VolumeId>> {
        let (failures, is_at_commit) = match self.activity {
            Activity::Settling(settle) if now >= settle.until() => (0, settle.is_at_commit()),
            Activity::Backoff { at, failures } if now >= at => (failures, false),
            _ => return None,
        };
        self.activity = Activity::Scanning { begun: now, failures, is_at_commit };
        let to_scan = |volume: &mut Volume| volume.begin_scan().then(|| volume.id());
        Some(self.volumes.iter_mut().filter_map(to_scan).collect())
    }

    /// Handles the result of a scan. Returns `None` if no scan was in progress, or if its volumes have to
    /// settle after all.
    pub(crate) fn scanned(&mut self, now: Now, scans: Vec<(VolumeId, Scan)>) -> Option<Scanned> {
        let Activity::Scanning { begun, failures, is_at_commit } = self.activity else {
            return None;
        };
        let is_whole = |(id, scan): &(VolumeId, Scan)| {
            self.volumes.iter().any(|volume| volume.id() == *id && volume.is_whole_in(scan))
        };
        if is_at_commit && !scans.iter().all(is_whole) {
            self.volumes.iter_mut().for_each(Volume::discard_scan);
            self.activity = Activity::Quiet;
            self.begin_settling(now.mono);
            return None;
        }
        let (mut facts, mut found, mut unreadable) = (Vec::new(), false, false);
        for (id, scan) in scans {
            found |= matches!(scan, Scan::Present(_));
            unreadable |= matches!(scan, Scan::Unreadable(_));
            if let Some(volume) = self.volumes.iter_mut().find(|volume| volume.id() == id) {
                facts.extend(volume.scanned(begun, now, scan));
            }
        }
        self.activity = if unreadable {
            let wait = backoff::doubled(FIRST_RETRY, failures, LONGEST_RETRY);
            Activity::Backoff { at: now.mono.after(wait), failures: failures.saturating_add(1) }
        } else {
            Activity::Quiet
        };
        if !unreadable && self.volumes.iter().any(Volume::is_dirty) {
            self.begin_settling(now.mono);
        }
        self.scanned_at = Some(now.mono);
        self.on_disk = self.combined_content();
        Some(Scanned { begun, facts, on_disk: self.on_disk.filter(|_| found) })
    }

    /// Whether a process that read until `moment` may have read content that no scan found.
    pub(crate) fn has_gap_before(&self, moment: Moment) -> bool {
        self.volumes.iter().any(|volume| volume.has_gap_before(moment))
    }

    /// Takes the content of the last scan as known from now on. Returns the gaps that this closes.
    pub(crate) fn clear_gaps(&mut self) -> Gaps {
        let clear = |volume: &mut Volume| Some((volume.id(), volume.clear_gap()?));
        Gaps(self.volumes.iter_mut().filter_map(clear).collect())
    }

    /// Restores these gaps, because nothing was read after all.
    pub(crate) fn restore_gaps(&mut self, Gaps(gaps): Gaps) {
        for (id, before) in gaps {
            self.update(id, |volume| volume.restore_gap(before));
        }
    }

    pub(crate) fn on_disk(&self) -> Option<OnDisk> {
        self.on_disk
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        self.on_disk.map(|disk| disk.digest)
    }

    pub(crate) fn activity(&self) -> Activity {
        self.activity
    }

    /// Whether a scan is in progress or due, so that the content on disk may be updated soon.
    /// `false` at the end of a scan, even if a new one is due: otherwise volumes that never settle
    /// would block the rule.
    pub(crate) fn is_update_pending(&self, now: Moment) -> bool {
        matches!(self.activity, Activity::Settling(_) | Activity::Scanning { .. })
            && self.scanned_at != Some(now)
    }

    /// Whether all volumes were read, and have no key that counts.
    pub(crate) fn has_no_keys(&self) -> bool {
        let is_empty = |volume: &Volume| volume.snapshot().is_some_and(|read| read.keys.is_empty());
        self.volumes.iter().all(is_empty)
    }

    /// The known keys of all volumes.
    pub(crate) fn keys(&self) -> Vec<Keys> {
        let keys = |volume: &Volume| volume.snapshot().map(|snapshot| snapshot.keys.clone());
        self.volumes.iter().map(|volume| keys(volume).unwrap_or_default()).collect()
    }

    /// Whether a volume contains the key that pauses the rule.
    pub(crate) fn is_paused_by_key(&self) -> bool {
        self.volumes.iter().any(|volume| volume.snapshot().is_some_and(|found| found.pauses))
    }

    /// Whether a volume may have content that no scan has found yet.
    pub(crate) fn may_have_new_content(&self) -> bool {
        self.volumes.iter().any(Volume::may_have_new_content)
    }

    /// Whether a volume was missing at the last scan.
    pub(crate) fn is_missing_a_volume(&self) -> bool {
        self.volumes.iter().any(Volume::is_missing)
    }

    /// Why a volume was unreadable at the last scan.
    pub(crate) fn unreadable(&self) -> Option<&Reason> {
        self.volumes.iter().find_map(Volume::unreadable)
    }

    pub(crate) fn polled_volumes(&self) -> impl Iterator<Item = VolumeId> {
        self.volumes.iter().filter(|volume| volume.is_polled()).map(Volume::id)
    }

    pub(crate) fn next_wakeup(&self) -> Option<Moment> {
        match self.activity {
            Activity::Settling(settle) => Some(settle.until()),
            Activity::Backoff { at, .. } => Some(at),
            Activity::Quiet | Activity::Scanning { .. } => None,
        }
    }

    /// The numbers of commits read, of commits that the watch missed, and of failed scans.
    pub(crate) fn counts(&self) -> [u64; 3] {
        self.volumes.iter().fold([0; 3], |[a, b, c], volume| {
            let [x, y, z] = volume.counts();
            [a + x, b + y, c + z]
        })
    }

    pub(crate) fn status(&self) -> Vec<VolumeStatus> {
        self.volumes.iter().map(Volume::status).collect()
    }

    fn begin_settling(&mut self, now: Moment) {
        self.activity = match self.activity {
            Activity::Quiet | Activity::Backoff { .. } => {
                Activity::Settling(Settle::begin(now, self.settle, self.settle_max))
            }
            Activity::Settling(settle) => Activity::Settling(settle.prolong(now, self.settle)),
            scanning @ Activity::Scanning { .. } => scanning,
        };
    }

    /// The digest over all volumes; `None` until each was found at least once.
    fn combined_content(&self) -> Option<OnDisk> {
        let digests: Option<Vec<Digest>> = self.volumes.iter().map(Volume::digest).collect();
        let committed = self.volumes.iter().filter_map(Volume::snapshot);
        let committed = committed.map(|found| found.committed).max()?;
        let committed_at = self.volumes.iter().map(Volume::committed_at).max()?;
        Some(OnDisk { digest: snapshot::digest(digests?), committed, committed_at })
    }
}
