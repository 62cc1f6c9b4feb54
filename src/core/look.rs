//! Looking at a rule's volumes: from a hint, by way of settling and reading, to what is on disk.
//!
//! Level-triggered: a hint only marks a volume as worth a look. Lost, doubled or reordered hints
//! do not change what is seen in the end.

use std::collections::VecDeque;
use std::time::Duration;

use super::event::{Command, Moment, Now, Reason, RuleId, Scan, UnixTime, VolumeId, Watch};
use super::fact::Fact;
use super::policy::Policy;
use super::settle::Settle;
use super::status::{Counters, VolumeStatus};
use super::{backend_name, backoff};
use crate::volume::snapshot::{self, Digest, Generation, Snapshot};

/// After the first failed look.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Between failed looks, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// What the volumes of a rule hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnDisk {
    pub(super) digest: Digest,
    /// The commit of the newest volume.
    pub(super) committed: UnixTime,
}

#[derive(Debug)]
pub(super) struct Look {
    rule: RuleId,
    settle: Duration,
    settle_max: Duration,
    volumes: Vec<Volume>,
    phase: Phase,
    on_disk: Option<OnDisk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Quiet,
    Settling(Settle),
    Scanning { failures: u32 },
    Backoff { at: Moment, failures: u32 },
}

#[derive(Debug)]
struct Volume {
    id: VolumeId,
    path: String,
    watch: Option<Watch>,
    /// Worth a look.
    dirty: bool,
    /// The last content seen; kept while the volume is away.
    snapshot: Option<Snapshot>,
    /// Of that content.
    digest: Option<Digest>,
    /// Whether the last look found something; `None` before the first.
    present: Option<bool>,
    unreadable: Option<Reason>,
    /// The audit saw another generation and no hint has come since.
    suspect: bool,
    /// Commits in a row that only the audit found.
    misses: u32,
}

impl Look {
    pub(super) fn new(rule: RuleId, policy: &Policy, now: Moment) -> Self {
        let volumes = policy.volumes.iter().map(|volume| Volume {
            id: volume.id,
            path: volume.path.clone(),
            watch: None,
            dirty: true,
            snapshot: None,
            digest: None,
            present: None,
            unreadable: None,
            suspect: false,
            misses: 0,
        });
        Self {
            rule,
            settle: policy.settle,
            settle_max: policy.settle_max,
            volumes: volumes.collect(),
            phase: Phase::Settling(Settle::begin(now, Duration::ZERO, Duration::ZERO)),
            on_disk: None,
        }
    }

    pub(super) fn touched(&mut self, now: Moment, id: VolumeId) {
        for volume in self.volumes.iter_mut().filter(|volume| volume.id == id) {
            volume.dirty = true;
            volume.suspect = false;
            volume.misses = 0;
        }
        self.settle(now);
    }

    pub(super) fn touched_all(&mut self, now: Moment) {
        for volume in &mut self.volumes {
            volume.dirty = true;
            volume.suspect = false;
        }
        self.settle(now);
    }

    /// Looks at everything without waiting for quiet.
    pub(super) fn look_now(&mut self, now: Moment) {
        self.touched_all(now);
        if !matches!(self.phase, Phase::Scanning { .. }) {
            self.phase = Phase::Settling(Settle::begin(now, Duration::ZERO, Duration::ZERO));
        }
    }

    /// Takes what the audit or the poll saw.
    pub(super) fn audited(&mut self, now: Moment, id: VolumeId, seen: Option<&Generation>) {
        if matches!(self.phase, Phase::Scanning { .. }) {
            return; // the look that is going on knows better
        }
        let mut differs = false;
        for volume in self.volumes.iter_mut().filter(|volume| volume.id == id && !volume.dirty) {
            let known = volume.snapshot.as_ref().map(|snapshot| &snapshot.generation);
            let known = known.filter(|_| volume.present == Some(true));
            if known != seen {
                volume.dirty = true;
                volume.suspect = volume.watch == Some(Watch::Inotify);
                differs = true;
            }
        }
        if differs {
            self.settle(now);
        }
    }

    pub(super) fn watched(&mut self, id: VolumeId, watch: &Watch, out: &mut VecDeque<Command>) {
        for volume in self.volumes.iter_mut().filter(|volume| volume.id == id) {
            match (&volume.watch, watch) {
                (Some(Watch::Polling(known)), Watch::Polling(reason)) if known == reason => {}
                (_, Watch::Polling(reason)) => {
                    let fact = Fact::Polling(id, reason.clone());
                    out.push_back(Command::Report(self.rule, fact));
                }
                (Some(Watch::Polling(_)), Watch::Inotify) => {
                    out.push_back(Command::Report(self.rule, Fact::WatchedAgain(id)));
                }
                (_, Watch::Inotify) => {}
            }
            volume.watch = Some(watch.clone());
        }
    }

    /// Asks for a look that is due.
    pub(super) fn advance(&mut self, now: Moment, out: &mut VecDeque<Command>) {
        let failures = match self.phase {
            Phase::Settling(settle) if now >= settle.until() => 0,
            Phase::Backoff { at, failures } if now >= at => failures,
            _ => return,
        };
        let mut volumes = Vec::new();
        for volume in self.volumes.iter_mut().filter(|volume| volume.dirty) {
            volume.dirty = false;
            volumes.push(volume.id);
        }
        self.phase = Phase::Scanning { failures };
        out.push_back(Command::Scan(self.rule, volumes));
    }

    /// Takes the answer to a look. Gives what is on disk now, if any volume
    /// was read and every one was seen once.
    pub(super) fn scanned(
        &mut self,
        now: Now,
        scans: Vec<(VolumeId, Scan)>,
        counters: &mut Counters,
        out: &mut VecDeque<Command>,
    ) -> Option<OnDisk> {
        let Phase::Scanning { failures } = self.phase else { return None };
        let (mut seen, mut unreadable) = (false, false);
        let mut say = |fact| out.push_back(Command::Report(self.rule, fact));
        for (id, scan) in scans {
            let Some(volume) = self.volumes.iter_mut().find(|volume| volume.id == id) else {
                continue;
            };
            match scan {
                Scan::Present(snapshot) => {
                    seen = true;
                    volume.saw(snapshot, counters, &mut say);
                }
                Scan::Absent => {
                    if volume.present != Some(false) {
                        say(Fact::VolumeMissing(id));
                    }
                    volume.present = Some(false);
                    volume.unreadable = None;
                    volume.suspect = false;
                }
                Scan::Unreadable(reason) => {
                    counters.read_errors += 1;
                    unreadable = true;
                    volume.dirty = true;
                    if volume.unreadable.as_ref() != Some(&reason) {
                        say(Fact::Unreadable(id, reason.clone()));
                    }
                    volume.unreadable = Some(reason);
                }
            }
        }
        self.phase = if unreadable {
            let wait = backoff::doubled(FIRST_RETRY, failures, LONGEST_RETRY);
            Phase::Backoff { at: now.mono.after(wait), failures: failures.saturating_add(1) }
        } else {
            Phase::Quiet
        };
        if !unreadable && self.volumes.iter().any(|volume| volume.dirty) {
            self.settle(now.mono);
        }
        self.on_disk = self.combine();
        self.on_disk.filter(|_| seen)
    }

    pub(super) fn on_disk(&self) -> Option<OnDisk> {
        self.on_disk
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether a look is under way, so that what is on disk may be known better soon.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Settling(_) | Phase::Scanning { .. })
    }

    /// Whether a volume was not there at the last look.
    pub(super) fn is_missing_a_volume(&self) -> bool {
        self.volumes.iter().any(|volume| volume.present == Some(false))
    }

    /// Why a volume could not be read at the last look.
    pub(super) fn unreadable(&self) -> Option<&Reason> {
        self.volumes.iter().find_map(|volume| volume.unreadable.as_ref())
    }

    pub(super) fn polled_volumes(&self) -> impl Iterator<Item = VolumeId> {
        let polled = |volume: &&Volume| matches!(volume.watch, Some(Watch::Polling(_)));
        self.volumes.iter().filter(polled).map(|volume| volume.id)
    }

    pub(super) fn misses_in_a_row(&self) -> u32 {
        self.volumes.iter().map(|volume| volume.misses).max().unwrap_or(0)
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match self.phase {
            Phase::Settling(settle) => Some(settle.until()),
            Phase::Backoff { at, .. } => Some(at),
            Phase::Quiet | Phase::Scanning { .. } => None,
        }
    }

    pub(super) fn status(&self) -> Vec<VolumeStatus> {
        let status = |volume: &Volume| VolumeStatus {
            path: volume.path.clone(),
            present: volume.present == Some(true),
            backend: backend_name(volume.watch.as_ref()),
            reason: volume.unreadable.clone().or_else(|| match &volume.watch {
                Some(Watch::Polling(reason)) => Some(reason.clone()),
                _ => None,
            }),
        };
        self.volumes.iter().map(status).collect()
    }

    fn settle(&mut self, now: Moment) {
        self.phase = match self.phase {
            Phase::Quiet | Phase::Backoff { .. } => {
                Phase::Settling(Settle::begin(now, self.settle, self.settle_max))
            }
            Phase::Settling(settle) => Phase::Settling(settle.prolong(now, self.settle)),
            scanning @ Phase::Scanning { .. } => scanning,
        };
    }

    /// The digest over all volumes; `None` until each was seen once.
    fn combine(&self) -> Option<OnDisk> {
        let digests: Option<Vec<Digest>> =
            self.volumes.iter().map(|volume| volume.digest).collect();
        let snapshots = self.volumes.iter().filter_map(|volume| volume.snapshot.as_ref());
        let committed = snapshots.map(|snapshot| snapshot.committed).max()?;
        Some(OnDisk { digest: snapshot::digest(digests?), committed })
    }
}

impl Volume {
    fn saw(&mut self, snapshot: Snapshot, counters: &mut Counters, say: &mut impl FnMut(Fact)) {
        if self.present == Some(false) {
            say(Fact::VolumeBack(self.id));
        }
        if let Some(known) = &self.snapshot {
            if known.generation != snapshot.generation {
                counters.commits += 1;
                if self.suspect {
                    counters.missed_by_watch += 1;
                    self.misses += 1;
                    say(Fact::MissedByWatch(self.id));
                }
            }
            let changes = known.changes(&snapshot);
            if !changes.is_empty() {
                say(Fact::KeysChanged(self.id, changes));
            }
        }
        self.suspect = false;
        self.present = Some(true);
        self.unreadable = None;
        self.digest = Some(snapshot.digest());
        self.snapshot = Some(snapshot);
    }
}
