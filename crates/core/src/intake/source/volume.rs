//! One watched volume, as known from hints and scans.

use crate::clock::{Moment, Now};
use crate::event::{Scan, VolumeId, Watch};
use crate::fact::Fact;
use crate::policy::PolicyVolume;
use crate::reason::Reason;
use crate::snapshot::{Digest, Generation, Snapshot};
use crate::status::VolumeStatus;

/// The number of consecutive commits found only by the resync after which the volume is polled.
const MISSES_BEFORE_POLLING: u32 = 3;

/// The state of a volume.
#[derive(Debug)]
pub(crate) struct Volume {
    id: VolumeId,
    path: String,
    watch: Option<Watch>,
    /// Whether the volume has to be scanned.
    dirty: bool,
    /// Whether a scan of the volume is in progress.
    is_being_scanned: bool,
    /// The number of commits that the watch has counted since the last scan that was used began.
    new_commits: u32,
    /// The last content that a scan found; kept while the volume is missing.
    snapshot: Option<Snapshot>,
    digest: Option<Digest>,
    /// The time of that content's commit; may be too late, but never too early.
    committed_at: Moment,
    /// When a scan or a resync last confirmed this state.
    confirmed_at: Moment,
    gap: Option<Gap>,
    /// Commits counted by the watch minus generations found by scans. If it is not zero, a
    /// generation existed that no scan found, or a hint is still to arrive.
    unmatched_commits: i64,
    /// If the last swap was assumed to be between equal contents with nothing in between: its
    /// earliest time. A commit that is counted later refutes the assumption.
    assumed_equal_since: Option<Moment>,
    /// Whether the last scan found the volume; `None` before the first scan.
    present: Option<bool>,
    /// Why the last scan failed, if it did.
    unreadable: Option<Reason>,
    /// The resync found another generation, and no hint has arrived since.
    found_by_resync: bool,
    /// The number of consecutive commits that only the resync found.
    misses: u32,
    commits: u64,
    commits_missed: u64,
    read_errors: u64,
}

/// A period in which the volume may have held content that no scan found. An application that read
/// the volume in this period may run that content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    since: Moment,
    /// The watch did not count the commits in this period.
    events_lost: bool,
    /// Whether a scan confirmed a change in this period. Until then it is only possible.
    changed: bool,
}

impl Volume {
    pub(crate) fn new(volume: &PolicyVolume, now: Moment) -> Self {
        Self {
            id: volume.id,
            path: volume.path.clone(),
            watch: None,
            dirty: true,
            is_being_scanned: false,
            new_commits: 0,
            snapshot: None,
            digest: None,
            committed_at: Moment::default(),
            confirmed_at: now,
            gap: None,
            unmatched_commits: 0,
            assumed_equal_since: None,
            present: None,
            unreadable: None,
            found_by_resync: false,
            misses: 0,
            commits: 0,
            commits_missed: 0,
            read_errors: 0,
        }
    }

    pub(crate) fn id(&self) -> VolumeId {
        self.id
    }

    /// Whether it is polled: inotify does not work for it, or is not to be used.
    pub(crate) fn is_polled(&self) -> bool {
        self.is_watch_silent() || matches!(self.watch, Some(Watch::Polling(_) | Watch::Polled))
    }

    /// Whether inotify reports nothing although it watches the volume, as on some file systems.
    /// Ends with the next hint.
    fn is_watch_silent(&self) -> bool {
        self.misses >= MISSES_BEFORE_POLLING
    }

    /// Handles a hint, with the number of commits that the watch counted.
    pub(crate) fn hint(&mut self, now: Moment, commits: u32) {
        self.misses = 0;
        self.unmatched_commits = self.unmatched_commits.saturating_add(i64::from(commits));
        self.new_commits = self.new_commits.saturating_add(commits);
        self.mark(now, false);
    }

    /// Handles a possible change at any time since the last confirmation, without an event.
    pub(crate) fn hint_lost(&mut self) {
        self.mark(self.confirmed_at, true);
    }

    fn mark(&mut self, since: Moment, events_lost: bool) {
        self.dirty = true;
        self.found_by_resync = false;
        let gap = self.gap.get_or_insert(Gap { since, events_lost, changed: false });
        gap.events_lost |= events_lost;
    }

    /// Handles the generation that a resync found. Returns whether the volume has changed.
    pub(crate) fn resynced(&mut self, begun: Moment, found: Option<&Generation>) -> bool {
        if self.dirty || self.is_being_scanned {
            return false; // the pending scan supersedes this result
        }
        let known = self.snapshot.as_ref().map(|snapshot| &snapshot.generation);
        if known.filter(|_| self.present == Some(true)) == found {
            self.confirmed_at = begun;
            return false;
        }
        self.hint_lost();
        self.found_by_resync = self.watch == Some(Watch::Inotify);
        true
    }

    /// Records how the volume is watched from now on.
    pub(crate) fn watched(&mut self, watch: Watch) -> Option<Fact> {
        let fact = match (&self.watch, &watch) {
            (Some(Watch::Polling(known)), Watch::Polling(reason)) if known == reason => None,
            (_, Watch::Polling(reason)) => Some(Fact::Polling(self.id, reason.clone())),
            (Some(Watch::Polling(_)), Watch::Inotify) => Some(Fact::WatchedAgain(self.id)),
            (_, Watch::Inotify | Watch::Polled) => None,
        };
        self.watch = Some(watch);
        fact
    }

    /// Begins a scan if one is needed. Returns whether it is.
    pub(crate) fn begin_scan(&mut self) -> bool {
        self.new_commits = 0;
        self.is_being_scanned = std::mem::take(&mut self.dirty);
        self.is_being_scanned
    }

    /// Whether something may have been written since the last scan began, or what it finds is not known yet.
    pub(crate) fn may_have_new_content(&self) -> bool {
        self.dirty || self.is_being_scanned
    }

    /// Whether the kubelet's commit has put a new content in place since the last scan began.
    pub(crate) fn has_committed(&self) -> bool {
        self.new_commits > 0 && self.present == Some(true) && self.unreadable.is_none()
    }

    /// Whether the scan found what one commit of the kubelet puts in place as a whole. Links to keys that
    /// it adds follow, and those to keys that it removes still exist.
    pub(crate) fn is_whole_in(&self, scan: &Scan) -> bool {
        let (Some(known), Scan::Present(found)) = (&self.snapshot, scan) else { return false };
        let are_links = known.generation.is_link() && found.generation.is_link();
        are_links && known.keys.keys().eq(found.keys.keys())
    }

    /// Forgets the scan in progress, for which it was too early.
    pub(crate) fn discard_scan(&mut self) {
        if std::mem::take(&mut self.is_being_scanned) {
            self.dirty = true;
            self.new_commits = self.new_commits.saturating_add(1);
        }
    }

    /// Handles the result of a scan that began at `begun`.
    pub(crate) fn scanned(&mut self, begun: Moment, now: Now, scan: Scan) -> Vec<Fact> {
        self.is_being_scanned = false;
        match scan {
            Scan::Present(snapshot) => self.found(begun, now, snapshot),
            Scan::Absent => self.found_nothing(Fact::VolumeMissing(self.id)),
            Scan::Unmounted => self.found_nothing(Fact::VolumeUnmounted(self.id)),
            Scan::Unreadable(reason) => {
                self.read_errors += 1;
                self.dirty = true;
                let is_new = self.unreadable.as_ref() != Some(&reason);
                self.unreadable = Some(reason.clone());
                is_new.then_some(Fact::Unreadable(self.id, reason)).into_iter().collect()
            }
        }
    }

    fn found_nothing(&mut self, fact: Fact) -> Vec<Fact> {
        let is_new = self.present != Some(false);
        self.present = Some(false);
        self.unreadable = None;
        self.found_by_resync = false;
        let since = self.confirmed_at;
        self.gap.get_or_insert(Gap { since, events_lost: true, changed: true }).changed = true;
        is_new.then_some(fact).into_iter().collect()
    }

    fn found(&mut self, begun: Moment, now: Now, snapshot: Snapshot) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.present == Some(false) {
            facts.push(Fact::VolumeBack(self.id));
        }
        let is_link = snapshot.generation.is_link();
        let known = self.snapshot.as_ref();
        let moved = known.is_some_and(|known| known.generation != snapshot.generation);
        if self.present == Some(false) || (moved && !is_link) {
            // `mv` and `cp -p` keep older file times, but the files were not here at the last scan.
            self.committed_at = now.mono;
        } else if moved || known.is_none() {
            self.committed_at = now.moment_of(snapshot.committed);
        }
        // If the watch reported nothing and the content is equal, only modes or owners changed.
        let mut swapped = moved;
        let mut is_equal = false;
        if let Some(known) = known {
            let changes = known.changes(&snapshot);
            swapped &= is_link || !self.found_by_resync || !changes.is_empty();
            // A plain directory's generation also changes with modes and owners: that is no commit.
            if moved && (is_link || !changes.is_empty()) {
                self.commits += 1;
                if self.found_by_resync {
                    self.commits_missed += 1;
                    self.misses += 1;
                    facts.push(Fact::MissedByWatch(self.id));
                }
            }
            is_equal = changes.is_empty();
            if !changes.is_empty() {
                facts.push(Fact::KeysChanged(self.id, changes));
            }
        }
        if moved {
            self.unmatched_commits = self.unmatched_commits.saturating_sub(1);
            // Equal content, and the watch counted only this commit: nothing else was there.
            let is_counted = is_link && is_equal && self.unmatched_commits == 0;
            let since = self.gap.filter(|gap| is_counted && !gap.events_lost);
            self.assumed_equal_since = since.map(|gap| gap.since);
        } else {
            // A generation never returns: further counted commits belong to the last swap.
            let late = self.assumed_equal_since.take_if(|_| self.unmatched_commits > 0);
            if let Some(since) = late {
                self.gap = Some(Gap { since, events_lost: false, changed: true });
            }
            self.unmatched_commits = 0;
        }
        if let Some(gap) = &mut self.gap {
            gap.changed |= swapped && self.assumed_equal_since.is_none();
        }
        self.found_by_resync = false;
        self.present = Some(true);
        self.unreadable = None;
        self.digest = Some(snapshot.digest());
        self.snapshot = Some(snapshot);
        self.confirmed_at = begun;
        facts
    }

    /// Whether a process that read until `moment` may have read content that no scan found.
    pub(crate) fn has_gap_before(&self, moment: Moment) -> bool {
        self.gap.is_some_and(|gap| gap.changed && moment >= gap.since)
    }

    /// Takes the content of the last scan as known, and returns the gap that this closes. If
    /// another scan is needed, a gap since the last scan remains.
    pub(crate) fn clear_gap(&mut self) -> Option<Gap> {
        if self.unreadable.is_some() || self.present != Some(true) {
            return None;
        }
        if self.dirty || self.is_being_scanned {
            let since_scan = |gap: Gap| Gap { since: self.confirmed_at, changed: false, ..gap };
            let before = self.gap;
            self.gap = before.map(since_scan);
            return before;
        }
        self.unmatched_commits = 0;
        self.gap.take()
    }

    /// Restores the gap, because nothing was read after all.
    pub(crate) fn restore_gap(&mut self, before: Gap) {
        let changed = before.changed || self.gap.is_some_and(|gap| gap.changed);
        self.gap = Some(Gap { changed, ..before });
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    pub(crate) fn committed_at(&self) -> Moment {
        self.committed_at
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.present == Some(false)
    }

    pub(crate) fn unreadable(&self) -> Option<&Reason> {
        self.unreadable.as_ref()
    }

    /// The numbers of commits read, of commits that the watch missed, and of failed scans.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.commits, self.commits_missed, self.read_errors]
    }

    pub(crate) fn status(&self) -> VolumeStatus {
        VolumeStatus {
            path: self.path.clone(),
            present: self.present == Some(true),
            committed_at: self.snapshot.as_ref().map(|snapshot| snapshot.committed),
            backend: match &self.watch {
                _ if self.is_polled() => "polling",
                Some(_) => "inotify",
                None => "starting",
            },
            reason: self.unreadable.clone().or_else(|| match &self.watch {
                Some(Watch::Polling(reason)) => Some(reason.clone()),
                _ => self.is_watch_silent().then(|| {
                    let missed = self.misses;
                    Reason::new(format!("inotify missed {missed} commits in a row"))
                        .hint("this file system may send no events: set `watch = \"poll\"`")
                }),
            }),
        }
    }
}
