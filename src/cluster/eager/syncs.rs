//! Asks the kubelet to sync the pod, by an annotation of the pod: after an edit, spread over a moment
//! (`spread.rs`), and again with increasing waits until a volume was committed. Pure.
//!
//! The kubelet's own watch of the object may be later than that of podnudge: then its first sync still finds
//! the old content. An edit that leaves the content as it is causes no commit, so there are at most three
//! repetitions; then the kubelet syncs by itself. After two edits to which no commit has followed, there is one request a
//! minute, and one for each edit again after a commit. However often objects change, the requests are limited.

use std::time::Duration;

use super::bucket::Bucket;
use super::follow::Edit;
use super::spread::Spread;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::failing::Failing;
use podnudge_core::pace::{LONGEST_RETRY, Pace};

/// The waits between the requests for one change.
const WAITS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(8), Duration::from_secs(30)];
/// After a deletion: whoever replaces an object so creates it again, and a sync before that fails.
const AFTER_DELETION: Duration = Duration::from_secs(2);
/// When the kubelet has synced the pod by itself.
const LONGEST: Duration = Duration::from_mins(2);
/// Requests are sent at most at this rate in the long run …
const INTERVAL: Duration = Duration::from_secs(1);
/// … those after which no volume is committed at this one …
const USELESS_INTERVAL: Duration = Duration::from_mins(1);
/// … and at most this many at once: all of two changes.
const BURST: u32 = 8;
/// The times of files are those of the kernel's last tick.
const TICK: Duration = Duration::from_millis(20);

/// The requests for syncs.
#[derive(Debug)]
pub(super) struct Syncs {
    changes: Vec<Change>,
    /// The changes that the request under way is for.
    in_flight: Option<Vec<String>>,
    /// No request before this.
    not_before: Moment,
    /// How many requests may be sent.
    all: Bucket,
    /// How many may be sent without a commit.
    without_commit: Bucket,
    /// The requests since the last commit.
    useless: u32,
    spread: Spread,
    pace: Pace,
    pub(super) failing: Option<Failing>,
    /// Whether the server was asked at the start if it would accept the annotation.
    pub(super) is_tried: bool,
    /// The number of requests that were carried out.
    pub(super) done: u64,
}

/// A change that the volumes may not show yet.
#[derive(Debug)]
struct Change {
    /// The number of the object.
    object: usize,
    version: String,
    edited_at: UnixTime,
    arrived: Now,
    is_deletion: bool,
    /// The requests for it that were carried out.
    requests: usize,
    due: Moment,
    /// When a volume was committed that may have its content, before it was asked for.
    committed_at: Option<UnixTime>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// Only whether it would be accepted.
    Trial,
    /// For the object with this number, in this version, for the nth time.
    Sync(usize, String, usize),
}

/// A change that is not waited for any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// A volume was committed, so long after the edit.
    Committed(usize, Duration),
    /// No volume was, after so many requests.
    GivenUp(usize, usize),
}

impl Syncs {
    pub(super) fn new(seed: u64, spread: Spread) -> Self {
        Self {
            changes: Vec::new(),
            in_flight: None,
            not_before: Moment::default(),
            all: Bucket::new(INTERVAL, BURST),
            without_commit: Bucket::new(USELESS_INTERVAL, BURST),
            useless: 0,
            spread,
            pace: Pace::new(seed),
            failing: None,
            is_tried: false,
            done: 0,
        }
    }

    /// A newer change of the same object takes the place of an older one. If no request was sent for that, its turn
    /// stays: an object that changes all the time would never have one.
    pub(super) fn changed(&mut self, now: Now, object: usize, edit: &Edit) {
        let older = self.changes.extract_if(.., |change| change.object == object);
        let turn = older.filter(|change| change.requests == 0 && !change.is_deletion);
        let turn = turn.map(|change| change.due).min();
        let wait = if edit.is_deletion { AFTER_DELETION } else { self.spread.wait(&edit.version) };
        let due = now.mono.after(wait);
        self.changes.push(Change {
            object,
            version: edit.version.clone(),
            edited_at: edit.edited_at,
            arrived: now,
            is_deletion: edit.is_deletion,
            requests: 0,
            due: turn.filter(|_| !edit.is_deletion).map_or(due, |turn| turn.min(due)),
            committed_at: None,
        });
    }

    /// The request to send now, if any. It stands for all changes that are due.
    pub(super) fn next(&mut self, now: Moment) -> Option<Ask> {
        if self.in_flight.is_some() || self.allowed_at() > now {
            return None;
        }
        let due = || self.changes.iter().filter(|change| change.due <= now);
        let ask = match due().max_by_key(|change| change.arrived.mono) {
            Some(newest) => Ask::Sync(newest.object, newest.version.clone(), newest.requests),
            None if !self.is_tried => Ask::Trial,
            None => return None,
        };
        self.in_flight = Some(due().map(|change| change.version.clone()).collect());
        if ask != Ask::Trial {
            self.all.take(now);
            self.without_commit.take(now);
            self.useless = self.useless.saturating_add(1);
        }
        Some(ask)
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        if self.in_flight.is_some() {
            return None;
        }
        let trial = (!self.is_tried).then(Moment::default);
        let due = self.changes.iter().map(|change| change.due).chain(trial).min()?;
        Some(due.max(self.allowed_at()))
    }

    fn allowed_at(&self) -> Moment {
        self.all.next().max(self.without_commit.next()).max(self.not_before)
    }

    /// The request under way was carried out, or not.
    pub(super) fn answered(&mut self, now: Moment, answer: &Result<(), ApiError>) -> Vec<End> {
        let Some(asked) = self.in_flight.take() else { return Vec::new() };
        match answer {
            Ok(()) => {
                (self.failing, self.is_tried) = (None, true);
                self.pace.answered();
                self.done += u64::from(!asked.is_empty());
                let asked = |change: &&mut Change| asked.contains(&change.version);
                for change in self.changes.iter_mut().filter(asked) {
                    let wait = WAITS.get(change.requests).copied().unwrap_or(LONGEST);
                    change.requests += 1;
                    change.due = now.after(wait);
                }
            }
            Err(error) => {
                Failing::record(&mut self.failing, now, error);
                self.not_before = now.after(self.pace.after(error, LONGEST_RETRY));
            }
        }
        let mut ends = self.give_up(now);
        let is_done = |change: &mut Change| change.requests > 0 && change.committed_at.is_some();
        let done = self.changes.extract_if(.., is_done);
        ends.extend(done.filter_map(|change| Some(change.end(change.committed_at?))));
        ends
    }

    /// The objects that no volume shows yet.
    pub(super) fn awaited(&self) -> impl Iterator<Item = usize> {
        self.changes.iter().map(|change| change.object)
    }

    /// Ends the changes for which enough was done, or that are old.
    pub(super) fn give_up(&mut self, now: Moment) -> Vec<End> {
        let is_over = |change: &mut Change| {
            // The wait after the last request is for a commit.
            let most = if change.is_deletion { 1 } else { WAITS.len() + 1 };
            (change.requests >= most && change.due <= now)
                || now >= change.arrived.mono.after(LONGEST)
        };
        let over = self.changes.extract_if(.., is_over);
        over.map(|change| End::GivenUp(change.object, change.requests)).collect()
    }

    /// A volume has other content since this time. `shows` says whether it may have the content of an object.
    pub(super) fn committed(
        &mut self,
        at: UnixTime,
        shows: impl Fn(usize) -> Option<bool>,
    ) -> Vec<End> {
        let Self { changes, in_flight, .. } = self;
        let is_answer = |change: &mut Change| {
            if UnixTime(at.0.saturating_add(TICK)) < change.arrived.wall {
                return false;
            }
            if let Some(shows) = shows(change.object) {
                return shows;
            }
            // It may also have been the volume of another object: this one is asked for at least once.
            change.committed_at = Some(at);
            let is_under_way = in_flight.iter().flatten().any(|asked| *asked == change.version);
            change.requests > 0 || is_under_way
        };
        let ends: Vec<End> =
            changes.extract_if(.., is_answer).map(|change| change.end(at)).collect();
        if !ends.is_empty() {
            let useful = std::mem::take(&mut self.useless);
            self.without_commit.add(USELESS_INTERVAL * useful);
        }
        ends
    }
}

impl Change {
    fn end(&self, committed_at: UnixTime) -> End {
        End::Committed(self.object, committed_at.since(self.edited_at))
    }
}
