//! Looking at a rule's volumes: from a hint, by way of settling and reading, to what is on disk.
//!
//! Level-triggered: a hint only marks a volume as worth a look. Lost, doubled or reordered hints
//! do not change what is seen in the end.

use std::collections::VecDeque;
use std::time::Duration;

use super::backoff;
use super::changed::Keys;
use super::event::{Command, RuleId, Scan, VolumeId, Watch};
use super::policy::Policy;
use super::seen::{Doubt, Volume};
use super::settle::Settle;
use super::status::{Counters, VolumeStatus};
use crate::clock::{Moment, Now, UnixTime};
use crate::reason::Reason;
use crate::volume::snapshot::{self, Digest, Generation};

/// After the first failed look.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Between failed looks, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// What the volumes of a rule hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnDisk {
    pub(super) digest: Digest,
    /// The commit of the newest volume, by the wall clock, for people.
    pub(super) committed: UnixTime,
    /// The same by the monotonic clock, for decisions; rather too late than too early.
    pub(super) committed_at: Moment,
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
    Scanning { begun: Moment, failures: u32 },
    Backoff { at: Moment, failures: u32 },
}

impl Look {
    pub(super) fn new(rule: RuleId, policy: &Policy, now: Moment) -> Self {
        let volumes = policy.volumes.iter().map(|volume| Volume::new(volume, now));
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
        self.each(id, |volume| volume.touched(now));
        self.settle(now);
    }

    /// Something may have happened that nobody told of.
    pub(super) fn untold(&mut self, now: Moment, id: VolumeId) {
        self.each(id, Volume::lost);
        self.settle(now);
    }

    pub(super) fn touched_all(&mut self, now: Moment) {
        self.volumes.iter_mut().for_each(Volume::lost);
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
    pub(super) fn audited(
        &mut self,
        now: Moment,
        id: VolumeId,
        begun: Moment,
        seen: Option<&Generation>,
    ) {
        if matches!(self.phase, Phase::Scanning { .. }) {
            return; // the look that is going on knows better
        }
        let mut is_news = false;
        self.each(id, |volume| is_news |= volume.audited(begun, seen));
        if is_news {
            self.settle(now);
        }
    }

    pub(super) fn watched(&mut self, id: VolumeId, watch: &Watch, out: &mut VecDeque<Command>) {
        let rule = self.rule;
        self.each(id, |volume| volume.watched(rule, watch, out));
    }

    fn each(&mut self, id: VolumeId, apply: impl FnMut(&mut Volume)) {
        self.volumes.iter_mut().filter(|volume| volume.id == id).for_each(apply);
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
        self.phase = Phase::Scanning { begun: now, failures };
        out.push_back(Command::Scan(self.rule, volumes));
    }

    /// Takes the answer to a look. Gives what is on disk now, if any volume was read and every one
    /// was seen once.
    pub(super) fn scanned(
        &mut self,
        now: Now,
        scans: Vec<(VolumeId, Scan)>,
        counters: &mut Counters,
        out: &mut VecDeque<Command>,
    ) -> Option<OnDisk> {
        let Phase::Scanning { begun, failures } = self.phase else { return None };
        let (mut seen, mut unreadable) = (false, false);
        let rule = self.rule;
        let mut say = |fact| out.push_back(Command::Report(rule, fact));
        for (id, scan) in scans {
            seen |= matches!(scan, Scan::Present(_));
            unreadable |= matches!(scan, Scan::Unreadable(_));
            let Some(volume) = self.volumes.iter_mut().find(|volume| volume.id == id) else {
                continue;
            };
            volume.scanned(begun, now, scan, counters, &mut say);
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

    /// Whether somebody who read until `moment` may have read something that no look saw.
    pub(super) fn leaves_open(&self, moment: Moment) -> bool {
        self.volumes.iter().any(|volume| volume.leaves_open(moment))
    }

    /// What is on disk counts as known from now on, but for volumes that are still to be looked
    /// at. Gives the doubts there were.
    pub(super) fn settle_doubts(&mut self) -> Vec<(VolumeId, Doubt)> {
        let settle = |volume: &mut Volume| Some((volume.id, volume.settle_doubt()?));
        self.volumes.iter_mut().filter_map(settle).collect()
    }

    /// Nobody has read after all: what was open before is open again.
    pub(super) fn doubt_again(&mut self, doubts: &[(VolumeId, Doubt)]) {
        for (id, before) in doubts {
            self.each(*id, |volume| volume.doubt_again(*before));
        }
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

    /// The keys of all volumes, as they are known.
    pub(super) fn keys(&self) -> Vec<Keys> {
        let keys = |volume: &Volume| volume.snapshot.as_ref().map(|snapshot| snapshot.keys.clone());
        self.volumes.iter().map(|volume| keys(volume).unwrap_or_default()).collect()
    }

    /// Whether a volume has the key that pauses the rule.
    pub(super) fn is_pausing(&self) -> bool {
        self.volumes.iter().any(|volume| volume.snapshot.as_ref().is_some_and(|one| one.pauses))
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
        self.volumes.iter().filter(|volume| volume.is_polled()).map(|volume| volume.id)
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match self.phase {
            Phase::Settling(settle) => Some(settle.until()),
            Phase::Backoff { at, .. } => Some(at),
            Phase::Quiet | Phase::Scanning { .. } => None,
        }
    }

    pub(super) fn status(&self) -> Vec<VolumeStatus> {
        self.volumes.iter().map(Volume::status).collect()
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
        let committed_at = self.volumes.iter().map(|volume| volume.committed_at).max()?;
        Some(OnDisk { digest: snapshot::digest(digests?), committed, committed_at })
    }
}
