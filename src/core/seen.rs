//! One watched volume, as far as the looks at it tell.

use std::collections::VecDeque;

use super::backend_name;
use super::event::{Command, RuleId, Scan, VolumeId, Watch};
use super::fact::Fact;
use super::policy::PolicyVolume;
use super::status::{Counters, VolumeStatus};
use crate::clock::{Moment, Now};
use crate::reason::Reason;
use crate::volume::snapshot::{Digest, Generation, Snapshot};

/// Commits in a row that only the audit found, until the volume is polled.
const MISSES_BEFORE_DEAF: u32 = 3;

/// What is known of a volume.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) id: VolumeId,
    path: String,
    pub(super) watch: Option<Watch>,
    /// Worth a look.
    pub(super) dirty: bool,
    /// The last content seen; kept while the volume is away.
    pub(super) snapshot: Option<Snapshot>,
    /// Of that content.
    pub(super) digest: Option<Digest>,
    /// When it was committed; rather too late than too early.
    pub(super) committed_at: Moment,
    /// When a look or an audit last found it as it is known.
    steady: Moment,
    doubt: Option<Doubt>,
    /// Whether the last look found something; `None` before the first.
    pub(super) present: Option<bool>,
    /// Why the last look failed, if it did.
    pub(super) unreadable: Option<Reason>,
    /// The audit saw another generation and no hint has come since.
    suspect: bool,
    /// Commits in a row that only the audit found.
    misses: u32,
}

/// A time in which the volume may have held something that no look saw: an application that read
/// meanwhile may run that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    since: Moment,
    /// Whether a look since then found another generation, or none; otherwise nothing was there.
    moved: bool,
}

impl Volume {
    pub(super) fn new(volume: &PolicyVolume, now: Moment) -> Self {
        Self {
            id: volume.id,
            path: volume.path.clone(),
            watch: None,
            dirty: true,
            snapshot: None,
            digest: None,
            committed_at: Moment::default(),
            steady: now,
            doubt: None,
            present: None,
            unreadable: None,
            suspect: false,
            misses: 0,
        }
    }

    /// Whether it is looked at from time to time, because nobody tells of it.
    pub(super) fn is_polled(&self) -> bool {
        self.is_deaf() || matches!(self.watch, Some(Watch::Polling(_)))
    }

    /// Whether inotify watches it and tells nothing, as some file systems have it. A hint mends it.
    fn is_deaf(&self) -> bool {
        self.misses >= MISSES_BEFORE_DEAF
    }

    /// Takes a hint.
    pub(super) fn touched(&mut self, now: Moment) {
        self.misses = 0;
        self.doubt_since(now);
    }

    /// Nobody told of it: something may have happened at any time since all was seen to be well.
    pub(super) fn lost(&mut self) {
        self.doubt_since(self.steady);
    }

    fn doubt_since(&mut self, moment: Moment) {
        self.dirty = true;
        self.suspect = false;
        self.doubt.get_or_insert(Doubt { since: moment, moved: false });
    }

    /// Takes what the audit or the poll saw that began at `begun`; says whether that is news.
    pub(super) fn audited(&mut self, begun: Moment, seen: Option<&Generation>) -> bool {
        if self.dirty {
            return false;
        }
        let known = self.snapshot.as_ref().map(|snapshot| &snapshot.generation);
        if known.filter(|_| self.present == Some(true)) == seen {
            self.steady = begun;
            return false;
        }
        self.lost();
        self.suspect = self.watch == Some(Watch::Inotify);
        true
    }

    /// Takes how the volume is watched from now on.
    pub(super) fn watched(&mut self, rule: RuleId, watch: &Watch, out: &mut VecDeque<Command>) {
        let fact = match (&self.watch, watch) {
            (Some(Watch::Polling(known)), Watch::Polling(reason)) if known == reason => None,
            (_, Watch::Polling(reason)) => Some(Fact::Polling(self.id, reason.clone())),
            (Some(Watch::Polling(_)), Watch::Inotify) => Some(Fact::WatchedAgain(self.id)),
            (_, Watch::Inotify) => None,
        };
        out.extend(fact.map(|fact| Command::Report(rule, fact)));
        self.watch = Some(watch.clone());
    }

    /// Takes what a look saw that began at `begun`.
    pub(super) fn scanned(
        &mut self,
        begun: Moment,
        now: Now,
        scan: Scan,
        counters: &mut Counters,
        say: &mut impl FnMut(Fact),
    ) {
        match scan {
            Scan::Present(snapshot) => self.saw(begun, now, snapshot, counters, say),
            Scan::Absent => {
                if self.present != Some(false) {
                    say(Fact::VolumeMissing(self.id));
                }
                self.present = Some(false);
                self.unreadable = None;
                self.suspect = false;
                self.doubt.get_or_insert(Doubt { since: self.steady, moved: true }).moved = true;
            }
            Scan::Unreadable(reason) => {
                counters.read_errors += 1;
                self.dirty = true;
                if self.unreadable.as_ref() != Some(&reason) {
                    say(Fact::Unreadable(self.id, reason.clone()));
                }
                self.unreadable = Some(reason);
            }
        }
    }

    fn saw(
        &mut self,
        begun: Moment,
        now: Now,
        snapshot: Snapshot,
        counters: &mut Counters,
        say: &mut impl FnMut(Fact),
    ) {
        if self.present == Some(false) {
            say(Fact::VolumeBack(self.id));
        }
        let is_link = snapshot.generation.is_link();
        let known = self.snapshot.as_ref();
        let moved = known.is_some_and(|known| known.generation != snapshot.generation);
        if self.present == Some(false) || (moved && !is_link) {
            // Files may be older than the moment they came here: `mv`, `cp -p`. That they were not
            // here at the last look is certain.
            self.committed_at = now.mono;
        } else if moved || known.is_none() {
            self.committed_at = now.moment_of(snapshot.committed);
        }
        // What the watch told nothing of, and what left the content alone, was no swap but a
        // change of modes or owners.
        let mut swapped = moved;
        if let Some(known) = known {
            let changes = known.changes(&snapshot);
            swapped &= is_link || !self.suspect || !changes.is_empty();
            // A fingerprint also moves with modes and owners, which are no commit.
            if moved && (is_link || !changes.is_empty()) {
                counters.commits += 1;
                if self.suspect {
                    counters.missed_by_watch += 1;
                    self.misses += 1;
                    say(Fact::MissedByWatch(self.id));
                }
            }
            if !changes.is_empty() {
                say(Fact::KeysChanged(self.id, changes));
            }
        }
        self.suspect = false;
        self.present = Some(true);
        self.unreadable = None;
        self.digest = Some(snapshot.digest());
        self.snapshot = Some(snapshot);
        self.steady = begun;
        if let Some(doubt) = &mut self.doubt {
            doubt.moved |= swapped;
        }
    }

    /// Whether somebody who read until `moment` may have read something that no look saw.
    pub(super) fn leaves_open(&self, moment: Moment) -> bool {
        self.doubt.is_some_and(|doubt| doubt.moved && moment >= doubt.since)
    }

    /// What is there counts as known from now on, unless it is still to be looked at. Gives the
    /// doubt there was.
    pub(super) fn settle_doubt(&mut self) -> Option<Doubt> {
        let is_known = !self.dirty && self.unreadable.is_none() && self.present == Some(true);
        self.doubt.take_if(|_| is_known)
    }

    /// Nobody has read after all: what was open before is open again.
    pub(super) fn doubt_again(&mut self, before: Doubt) {
        let moved = before.moved || self.doubt.is_some_and(|doubt| doubt.moved);
        self.doubt = Some(Doubt { moved, ..before });
    }

    pub(super) fn status(&self) -> VolumeStatus {
        VolumeStatus {
            path: self.path.clone(),
            present: self.present == Some(true),
            backend: if self.is_polled() { "polling" } else { backend_name(self.watch.as_ref()) },
            reason: self.unreadable.clone().or_else(|| match &self.watch {
                Some(Watch::Polling(reason)) => Some(reason.clone()),
                _ => self.is_deaf().then(|| {
                    let missed = self.misses;
                    Reason::new(format!("inotify missed {missed} commits in a row"))
                        .hint("this file system may tell of nothing: set `watch = \"poll\"`")
                }),
            }),
        }
    }
}
