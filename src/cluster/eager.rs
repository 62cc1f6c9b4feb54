//! Eager sync: sees an edit of the ConfigMaps and Secrets behind the watched volumes at once, and has the
//! kubelet write the volumes at once. Pure: the loop sends the requests and returns the answers
//! (`run/api/eager.rs`).
//!
//! - The objects are named in the configuration, or found in podnudge's own Pod, once.
//! - Each is followed by a watch of its metadata (`follow.rs`).
//! - After a change of the content, the pod is annotated (`syncs.rs`): the kubelet syncs a pod whose object has changed.
//!
//! Nothing depends on it: without the API server, the kubelet syncs the pod every 60 to 90 s, as ever.
//!
//! It is one machine for the whole podnudge. It knows nothing of rules, and the core nothing of it: the loop tells it
//! of each commit that a scan finds. A watch is an answer that goes on for minutes (`exchange/lines.rs`); its task
//! passes each event to the loop.

mod bucket;
mod follow;
mod spread;
mod syncs;

use std::collections::VecDeque;
use std::time::Duration;

use super::sources::Source;
use follow::{Follow, News, Next};
use podnudge_core::api_error::{ApiError, api_server};
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::event::{ApiServer, Expected, VolumeId};
use podnudge_core::failing::Failing;
use podnudge_core::objects::{ObjectName, ObjectsPage, WatchEvent};
use podnudge_core::pace::Pace;
use podnudge_core::reason::Reason;
use podnudge_core::status::{EagerSyncStatus, Histogram, ObjectStatus};
pub use spread::Spread;
use syncs::{Ask, End, Syncs};

/// A request, to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EagerRequest {
    /// Read podnudge's own Pod: which objects are behind the watched paths.
    Find,
    /// List this object, which has this number.
    List(usize, ObjectName),
    /// Watch it from this version, for this time.
    Watch(usize, ObjectName, String, Duration),
    /// Annotate the pod with this value.
    Annotate(String),
    /// Ask whether the pod could be annotated.
    TryAnnotate,
}

/// What has come of a request. A watch begins, tells of events, and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EagerAnswer {
    /// The objects behind the watched paths.
    Found(Result<Vec<Source>, ApiError>),
    /// The state of the object with this number.
    Listed(usize, Result<ObjectsPage, ApiError>),
    /// The watch of the object with this number has begun.
    Opened(usize),
    /// A line of that object's watch.
    Event(usize, WatchEvent),
    /// The end of that object's watch.
    Ended(usize, Result<(), ApiError>),
    /// The pod was annotated, or would have been.
    Annotated(Result<(), ApiError>),
}

impl EagerAnswer {
    /// What it says of the API server, if anything. A watch may break off on the way; the list that follows tells.
    #[must_use]
    pub fn api_server(&self) -> Option<ApiServer> {
        match self {
            Self::Found(answer) => api_server(answer),
            Self::Listed(_, answer) => api_server(answer),
            Self::Annotated(answer) => api_server(answer),
            Self::Opened(_) | Self::Event(..) => Some(ApiServer::Answers),
            Self::Ended(..) => None,
        }
    }
}

/// What people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EagerFact {
    /// The objects behind the watched volumes are known.
    Objects(Vec<ObjectName>),
    /// An object was changed, or deleted, at this time.
    Edited(ObjectName, UnixTime, Change),
    /// Something else of an object was changed, such as a label.
    NotContent(ObjectName),
    /// A volume has new content, so long after the edit.
    Committed(ObjectName, Duration),
    /// No volume had new content after so many requests.
    GivenUp(ObjectName, usize),
    /// Why edits are not seen, or the kubelet is not asked.
    Unavailable(Reason),
    /// Edits are seen and the kubelet is asked again.
    Available,
}

/// What has happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The object was created or changed.
    Present,
    /// The object was deleted.
    Deleted,
}

/// The machine of eager sync.
#[derive(Debug)]
pub struct EagerSync {
    search: Option<Search>,
    follows: Vec<Follow>,
    syncs: Syncs,
    seed: u64,
    facts: VecDeque<EagerFact>,
    /// The problem that was reported last and is not over.
    reported: Option<Reason>,
    took: Histogram,
}

/// The search for the objects.
#[derive(Debug)]
struct Search {
    at: Moment,
    is_under_way: bool,
    pace: Pace,
    failing: Option<Failing>,
}

impl EagerSync {
    /// Follows the objects with these names; without names, it finds them first.
    #[must_use]
    pub fn new(names: Vec<ObjectName>, spread: Spread, now: Now, seed: u64) -> Self {
        let pace = Pace::new(seed);
        let search = Search { at: now.mono, is_under_way: false, pace, failing: None };
        let mut sync = Self {
            search: names.is_empty().then_some(search),
            follows: Vec::new(),
            syncs: Syncs::new(seed, spread),
            seed,
            facts: VecDeque::new(),
            reported: None,
            took: Histogram::default(),
        };
        if !names.is_empty() {
            sync.follow(now, names.into_iter().map(Source::named).collect());
        }
        sync
    }

    /// The next request to send. Call it until it returns `None`, after every answer and at the time of
    /// [`EagerSync::next_wakeup`].
    pub fn next_request(&mut self, now: Now) -> Option<EagerRequest> {
        let given_up = self.syncs.give_up(now.mono);
        self.end(given_up);
        self.report(now.mono);
        if let Some(search) = &mut self.search {
            let is_due = !search.is_under_way && search.at <= now.mono;
            search.is_under_way |= is_due;
            return is_due.then_some(EagerRequest::Find);
        }
        for (number, follow) in self.follows.iter_mut().enumerate() {
            match follow.next(now.mono) {
                Some(Next::List) => {
                    let object = follow.source.object.clone();
                    return Some(EagerRequest::List(number, object));
                }
                Some(Next::Watch(version, time)) => {
                    let object = follow.source.object.clone();
                    return Some(EagerRequest::Watch(number, object, version, time));
                }
                None => {}
            }
        }
        if self.follows.is_empty() {
            return None;
        }
        Some(match self.syncs.next(now.mono)? {
            Ask::Trial => EagerRequest::TryAnnotate,
            Ask::Sync(object, version, requests) => {
                let object = &self.follows.get(object)?.source.object;
                let again =
                    if requests == 0 { String::new() } else { format!(" {}", requests + 1) };
                EagerRequest::Annotate(format!("{object} {version}{again}"))
            }
        })
    }

    /// When to call [`EagerSync::next_request`], if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        let search = self.search.iter().filter(|search| !search.is_under_way);
        let follows = self.follows.iter().filter_map(Follow::next_wakeup);
        let syncs = self.syncs.next_wakeup().filter(|_| !self.follows.is_empty());
        let unreported = self.reported.is_none();
        let problems = self.failing().filter(|_| unreported).map(Failing::due);
        search.map(|search| search.at).chain(follows).chain(syncs).chain(problems).min()
    }

    /// Handles what has come of a request.
    pub fn handle(&mut self, now: Now, answer: EagerAnswer) {
        match answer {
            EagerAnswer::Found(found) => self.found(now, found),
            EagerAnswer::Listed(number, answer) => {
                let news = self.with(number, |follow| follow.listed(now, answer));
                self.learned(now, number, news);
            }
            EagerAnswer::Opened(number) => {
                self.with(number, |follow| {
                    follow.opened(now.mono);
                    None
                });
            }
            EagerAnswer::Event(number, event) => {
                let news = self.with(number, |follow| follow.event(now, event));
                self.learned(now, number, news);
            }
            EagerAnswer::Ended(number, how) => {
                self.with(number, |follow| {
                    follow.ended(now, &how);
                    None
                });
            }
            EagerAnswer::Annotated(answer) => {
                let ends = self.syncs.answered(now.mono, &answer);
                self.end(ends);
            }
        }
        self.report(now.mono);
    }

    /// Which watched paths will have other content soon, if every edit would be seen.
    #[must_use]
    pub fn expected(&self) -> Option<Expected> {
        let is_blind = self.follows.is_empty() || !self.follows.iter().all(Follow::is_watched);
        if self.search.is_some() || is_blind {
            return None;
        }
        let mut expected = Expected::default();
        for follow in self.syncs.awaited().filter_map(|object| self.follows.get(object)) {
            match &follow.source.paths {
                Some(paths) => expected.volumes.extend(paths.iter().copied().map(VolumeId)),
                None => expected.others += 1,
            }
        }
        Some(expected)
    }

    /// The watched path with this number has other content since this time.
    pub fn committed(&mut self, path: usize, at: UnixTime) {
        let follows = &self.follows;
        let shows = |object: usize| {
            let paths = follows.get(object)?.source.paths.as_ref()?;
            Some(paths.contains(&path))
        };
        let ends = self.syncs.committed(at, shows);
        self.end(ends);
    }

    /// The next fact to report.
    pub fn next_fact(&mut self) -> Option<EagerFact> {
        self.facts.pop_front()
    }

    /// The state, for all outputs.
    #[must_use]
    pub fn status(&self, now: Moment) -> EagerSyncStatus {
        let problem =
            |failing: &Option<Failing>| failing.as_ref().and_then(|it| it.problem(now)).cloned();
        let object = |follow: &Follow| ObjectStatus {
            name: follow.source.object.to_string(),
            watched: follow.is_watched(),
            edited_at: follow.edited_at,
            edit_to_commit_seconds: follow.took.map(|took| took.as_secs_f64()),
            reason: problem(&follow.failing),
        };
        let search = self.search.as_ref().and_then(|search| problem(&search.failing));
        EagerSyncStatus {
            objects: self.follows.iter().map(object).collect(),
            reason: search.or_else(|| problem(&self.syncs.failing)),
            syncs_requested: self.syncs.done,
            edit_to_commit: self.took.clone(),
        }
    }

    fn found(&mut self, now: Now, found: Result<Vec<Source>, ApiError>) {
        let Some(search) = &mut self.search else { return };
        match found {
            Ok(sources) => {
                self.search = None;
                self.follow(now, sources);
            }
            Err(error) => {
                search.is_under_way = false;
                Failing::record(&mut search.failing, now.mono, &error);
                search.at = now.mono.after(search.pace.after_watch(&error));
            }
        }
    }

    fn follow(&mut self, now: Now, mut sources: Vec<Source>) {
        sources.sort_by(|one, other| one.object.cmp(&other.object));
        sources.dedup_by(|one, other| one.object == other.object);
        sources.truncate(ObjectName::MOST);
        let names = sources.iter().map(|source| source.object.clone()).collect();
        self.facts.push_back(EagerFact::Objects(names));
        let seeds = (self.seed..=u64::MAX).chain(0..self.seed);
        let follow = |(source, seed)| Follow::new(source, now, seed);
        self.follows = sources.into_iter().zip(seeds).map(follow).collect();
    }

    fn with(
        &mut self,
        number: usize,
        apply: impl FnOnce(&mut Follow) -> Option<News>,
    ) -> Option<News> {
        self.follows.get_mut(number).and_then(apply)
    }

    fn learned(&mut self, now: Now, number: usize, news: Option<News>) {
        let Some((news, follow)) = news.zip(self.follows.get(number)) else { return };
        let object = follow.source.object.clone();
        let News::Edit(edit) = news else {
            return self.facts.push_back(EagerFact::NotContent(object));
        };
        let change = if edit.is_deletion { Change::Deleted } else { Change::Present };
        self.facts.push_back(EagerFact::Edited(object, edit.edited_at, change));
        self.syncs.changed(now, number, &edit);
    }

    fn end(&mut self, ends: Vec<End>) {
        for end in ends {
            let (End::Committed(number, _) | End::GivenUp(number, _)) = end;
            let Some(follow) = self.follows.get_mut(number) else { continue };
            let object = follow.source.object.clone();
            self.facts.push_back(match end {
                End::Committed(_, took) => {
                    follow.took = Some(took);
                    self.took.observe(took.as_secs_f64());
                    EagerFact::Committed(object, took)
                }
                End::GivenUp(_, requests) => EagerFact::GivenUp(object, requests),
            });
        }
    }

    fn failing(&self) -> impl Iterator<Item = &Failing> {
        let search = self.search.as_ref().and_then(|search| search.failing.as_ref());
        let follows = self.follows.iter().filter_map(|follow| follow.failing.as_ref());
        search.into_iter().chain(follows).chain(&self.syncs.failing)
    }

    /// Why edits are not seen, or the kubelet is not asked, if that lasts.
    #[must_use]
    pub fn problem(&self, now: Moment) -> Option<Reason> {
        self.failing().find_map(|failing| failing.problem(now)).cloned()
    }

    /// Reports a problem once, and that it is over.
    fn report(&mut self, now: Moment) {
        let problem = self.problem(now);
        match (&self.reported, problem) {
            (None, Some(reason)) => {
                self.facts.push_back(EagerFact::Unavailable(reason.clone()));
                self.reported = Some(reason);
            }
            (Some(_), None) if self.failing().next().is_none() => {
                self.facts.push_back(EagerFact::Available);
                self.reported = None;
            }
            _ => {}
        }
    }
}
