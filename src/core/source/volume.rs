//! One watched volume, as far as hints and scans tell.

use crate::clock::{Moment, Now};
use crate::core::event::{Scan, VolumeId, Watch};
use crate::core::fact::Fact;
use crate::core::policy::PolicyVolume;
use crate::core::status::VolumeStatus;
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Generation, Snapshot};

/// Commits in a row that only the resync found, until the volume is polled.
const MISSES_BEFORE_POLLING: u32 = 3;

/// What is known of a volume.
#[derive(Debug)]
pub(super) struct Volume {
    id: VolumeId,
    path: String,
    watch: Option<Watch>,
    /// Worth a scan.
    dirty: bool,
    /// A scan of it is under way.
    is_being_scanned: bool,
    /// The last content that a scan found; kept while the volume is missing.
    snapshot: Option<Snapshot>,
    digest: Option<Digest>,
    /// When that content was committed; rather too late than too early.
    committed_at: Moment,
    /// When a scan or a resync last found the volume as it is known.
    confirmed_at: Moment,
    doubt: Option<Doubt>,
    /// Commits that the watch counted, less generations that scans found. Anything but zero means
    /// that a generation was there which no scan found, or that a hint is still to come.
    uncounted: i64,
    /// Since when the last swap may have been under way, if it was taken for one to equal content with
    /// nothing in between. A commit that is counted afterwards tells otherwise.
    taken_for_equal: Option<Moment>,
    /// Whether the last scan found something; `None` before the first.
    present: Option<bool>,
    /// Why the last scan failed, if it did.
    unreadable: Option<Reason>,
    /// The resync found another generation, and no hint has come since.
    suspect: bool,
    /// Commits in a row that only the resync found.
    misses: u32,
    commits: u64,
    commits_missed: u64,
    read_errors: u64,
}

/// A time in which the volume may have held something that no scan found: an application that read
/// meanwhile may run that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    since: Moment,
    /// Nothing counted the commits in this time.
    lost: bool,
    /// Whether something was there, as far as a scan can tell afterwards. Before that, nothing was.
    moved: bool,
}

impl Volume {
    pub(super) fn new(volume: &PolicyVolume, now: Moment) -> Self {
        Self {
            id: volume.id,
            path: volume.path.clone(),
            watch: None,
            dirty: true,
            is_being_scanned: false,
            snapshot: None,
            digest: None,
            committed_at: Moment::default(),
            confirmed_at: now,
            doubt: None,
            uncounted: 0,
            taken_for_equal: None,
            present: None,
            unreadable: None,
            suspect: false,
            misses: 0,
            commits: 0,
            commits_missed: 0,
            read_errors: 0,
        }
    }

    pub(super) fn id(&self) -> VolumeId {
        self.id
    }

    /// Whether it is compared from time to time, because inotify does not serve it.
    pub(super) fn is_polled(&self) -> bool {
        self.misses_commits() || matches!(self.watch, Some(Watch::Polling(_)))
    }

    /// Whether inotify watches it and tells nothing, as on some file systems. A hint ends it.
    fn misses_commits(&self) -> bool {
        self.misses >= MISSES_BEFORE_POLLING
    }

    /// Takes a hint, with the commits that the watch counted.
    pub(super) fn hint(&mut self, now: Moment, commits: u32) {
        self.misses = 0;
        self.uncounted = self.uncounted.saturating_add(i64::from(commits));
        self.mark(now, false);
    }

    /// No event told of it: something may have happened at any time since it was last confirmed.
    pub(super) fn hint_lost(&mut self) {
        self.mark(self.confirmed_at, true);
    }

    fn mark(&mut self, since: Moment, lost: bool) {
        self.dirty = true;
        self.suspect = false;
        self.doubt.get_or_insert(Doubt { since, lost, moved: false }).lost |= lost;
    }

    /// Takes the generation that a resync found, which began at `begun`. Says whether it is news.
    pub(super) fn resynced(&mut self, begun: Moment, found: Option<&Generation>) -> bool {
        if self.dirty || self.is_being_scanned {
            return false; // a scan knows better
        }
        let known = self.snapshot.as_ref().map(|snapshot| &snapshot.generation);
        if known.filter(|_| self.present == Some(true)) == found {
            self.confirmed_at = begun;
            return false;
        }
        self.hint_lost();
        self.suspect = self.watch == Some(Watch::Inotify);
        true
    }

    /// Takes how the volume is watched from now on.
    pub(super) fn watched(&mut self, watch: Watch) -> Option<Fact> {
        let fact = match (&self.watch, &watch) {
            (Some(Watch::Polling(known)), Watch::Polling(reason)) if known == reason => None,
            (_, Watch::Polling(reason)) => Some(Fact::Polling(self.id, reason.clone())),
            (Some(Watch::Polling(_)), Watch::Inotify) => Some(Fact::WatchedAgain(self.id)),
            (_, Watch::Inotify) => None,
        };
        self.watch = Some(watch);
        fact
    }

    /// Marks it as being scanned, if it is worth one.
    pub(super) fn begin_scan(&mut self) -> bool {
        self.is_being_scanned = std::mem::take(&mut self.dirty);
        self.is_being_scanned
    }

    /// Takes what a scan found that began at `begun`.
    pub(super) fn scanned(&mut self, begun: Moment, now: Now, scan: Scan) -> Vec<Fact> {
        self.is_being_scanned = false;
        match scan {
            Scan::Present(snapshot) => self.found(begun, now, snapshot),
            Scan::Absent => self.found_nothing(),
            Scan::Unreadable(reason) => {
                self.read_errors += 1;
                self.dirty = true;
                let is_news = self.unreadable.as_ref() != Some(&reason);
                self.unreadable = Some(reason.clone());
                is_news.then_some(Fact::Unreadable(self.id, reason)).into_iter().collect()
            }
        }
    }

    fn found_nothing(&mut self) -> Vec<Fact> {
        let is_news = self.present != Some(false);
        self.present = Some(false);
        self.unreadable = None;
        self.suspect = false;
        let since = self.confirmed_at;
        self.doubt.get_or_insert(Doubt { since, lost: true, moved: true }).moved = true;
        is_news.then_some(Fact::VolumeMissing(self.id)).into_iter().collect()
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
            // Files may be older than the moment they came here: `mv`, `cp -p`. That they were not
            // here at the last scan is certain.
            self.committed_at = now.mono;
        } else if moved || known.is_none() {
            self.committed_at = now.moment_of(snapshot.committed);
        }
        // What the watch told nothing of, and what left the content alone, was no swap but a
        // change of modes or owners.
        let mut swapped = moved;
        let mut is_equal = false;
        if let Some(known) = known {
            let changes = known.changes(&snapshot);
            swapped &= is_link || !self.suspect || !changes.is_empty();
            // The generation of a plain directory also moves with modes and owners: no commit.
            if moved && (is_link || !changes.is_empty()) {
                self.commits += 1;
                if self.suspect {
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
            self.uncounted = self.uncounted.saturating_sub(1);
            // Equal content, and no commit more than was found: nothing else was there.
            let is_counted = is_link && is_equal && self.uncounted == 0;
            let since = self.doubt.filter(|doubt| is_counted && !doubt.lost);
            self.taken_for_equal = since.map(|doubt| doubt.since);
        } else {
            // A generation never comes back: what was counted belongs to the last swap.
            let late = self.taken_for_equal.take_if(|_| self.uncounted > 0);
            if let Some(since) = late {
                self.doubt = Some(Doubt { since, lost: false, moved: true });
            }
            self.uncounted = 0;
        }
        if let Some(doubt) = &mut self.doubt {
            doubt.moved |= swapped && self.taken_for_equal.is_none();
        }
        self.suspect = false;
        self.present = Some(true);
        self.unreadable = None;
        self.digest = Some(snapshot.digest());
        self.snapshot = Some(snapshot);
        self.confirmed_at = begun;
        facts
    }

    /// Whether a reader until `moment` may have read something that no scan found.
    pub(super) fn leaves_open(&self, moment: Moment) -> bool {
        self.doubt.is_some_and(|doubt| doubt.moved && moment >= doubt.since)
    }

    /// What is there counts as known from now on. Where it is still to be scanned, as far as the last
    /// scan has found it: what may have come since then is open. Gives the doubt there was.
    pub(super) fn settle_doubt(&mut self) -> Option<Doubt> {
        if self.unreadable.is_some() || self.present != Some(true) {
            return None;
        }
        if self.dirty || self.is_being_scanned {
            let since_scan =
                |doubt: Doubt| Doubt { since: self.confirmed_at, moved: false, ..doubt };
            let before = self.doubt;
            self.doubt = before.map(since_scan);
            return before;
        }
        self.uncounted = 0;
        self.doubt.take()
    }

    /// Nothing was read after all: what was open before is open again.
    pub(super) fn restore_doubt(&mut self, before: Doubt) {
        let moved = before.moved || self.doubt.is_some_and(|doubt| doubt.moved);
        self.doubt = Some(Doubt { moved, ..before });
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    pub(super) fn committed_at(&self) -> Moment {
        self.committed_at
    }

    pub(super) fn is_missing(&self) -> bool {
        self.present == Some(false)
    }

    pub(super) fn unreadable(&self) -> Option<&Reason> {
        self.unreadable.as_ref()
    }

    /// Commits that were read, commits that the watch did not tell of, and failed scans.
    pub(super) fn counts(&self) -> [u64; 3] {
        [self.commits, self.commits_missed, self.read_errors]
    }

    pub(super) fn status(&self) -> VolumeStatus {
        VolumeStatus {
            path: self.path.clone(),
            present: self.present == Some(true),
            backend: match &self.watch {
                _ if self.is_polled() => "polling",
                Some(_) => "inotify",
                None => "starting",
            },
            reason: self.unreadable.clone().or_else(|| match &self.watch {
                Some(Watch::Polling(reason)) => Some(reason.clone()),
                _ => self.misses_commits().then(|| {
                    let missed = self.misses;
                    Reason::new(format!("inotify missed {missed} commits in a row"))
                        .hint("this file system may send no events: set `watch = \"poll\"`")
                }),
            }),
        }
    }
}
