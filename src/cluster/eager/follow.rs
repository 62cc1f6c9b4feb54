//! Follows one object: lists it, then watches it from the version of the list. Pure.
//!
//! A watch that the server ends by itself is continued from the last version that it told. After anything
//! else (410 Gone, a connection that broke off, a line that is no event) the object is listed again, and
//! compared with what was known. Versions are compared for equality only, as Kubernetes requires.
//!
//! A change that a watch tells is one request, and the core (`objects.rs` there) says whether it was one for the content.
//! Between two lists there may have been several: another version counts as an edit of the content.

use std::time::Duration;

use crate::cluster::sources::Source;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::failing::Failing;
use podnudge_core::objects::{Metadata, ObjectsPage, State, WatchEvent};
use podnudge_core::pace::Pace;

/// How long the server is asked to keep a watch: between this and half as long again, so that the watches of
/// replicas do not end together.
const WATCH_TIME: Duration = Duration::from_mins(5);
/// A watch that ends earlier has failed, however it ended.
const SHORTEST_WATCH: Duration = Duration::from_secs(10);

/// One object that is followed.
#[derive(Debug)]
pub(super) struct Follow {
    pub(super) source: Source,
    step: Doing,
    known: Known,
    /// When what is known was the present state.
    current_at: Now,
    /// When the content that is known was learned.
    content_at: Moment,
    pace: Pace,
    pub(super) failing: Option<Failing>,
    /// The edit that was seen last.
    pub(super) edited_at: Option<UnixTime>,
    pub(super) took: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// The object was not listed yet.
    Nothing,
    Missing,
    Present(State),
}

#[derive(Debug)]
enum Doing {
    /// List it then.
    List(Moment),
    Listing,
    /// Watch it then, from this version.
    Watch(Moment, String),
    /// The request was sent then.
    Opening(Moment, String),
    Watching(Moment, String),
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    List,
    /// From this version, for this time.
    Watch(String, Duration),
}

/// What a list or an event has told, if it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// The content may have changed.
    Edit(Edit),
    /// Something else, such as a label.
    NotContent,
}

/// A change of an object's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) version: String,
    /// When it was made, as far as that is known.
    pub(super) edited_at: UnixTime,
    pub(super) is_deletion: bool,
}

impl Follow {
    pub(super) fn new(source: Source, now: Now, seed: u64) -> Self {
        Self {
            source,
            step: Doing::List(now.mono),
            known: Known::Nothing,
            current_at: now,
            content_at: now.mono,
            pace: Pace::new(seed),
            failing: None,
            edited_at: None,
            took: None,
        }
    }

    /// What to send now, if anything.
    pub(super) fn next(&mut self, now: Moment) -> Option<Next> {
        match &self.step {
            Doing::List(at) if *at <= now => {
                self.step = Doing::Listing;
                Some(Next::List)
            }
            Doing::Watch(at, version) if *at <= now => {
                let version = version.clone();
                self.step = Doing::Opening(now, version.clone());
                let time = WATCH_TIME / 2 + self.pace.jittered(WATCH_TIME);
                Some(Next::Watch(version, time))
            }
            _ => None,
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match &self.step {
            Doing::List(at) | Doing::Watch(at, _) => Some(*at),
            Doing::Listing | Doing::Opening(..) | Doing::Watching(..) => None,
        }
    }

    /// Whether a change would be seen.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.step, Doing::Watching(..))
    }

    /// The page has this object, if it exists.
    pub(super) fn listed(
        &mut self,
        now: Now,
        answer: Result<ObjectsPage, ApiError>,
    ) -> Option<News> {
        match answer {
            Ok(ObjectsPage { objects, end }) => {
                let (version, object) = (end.version, objects.into_iter().next());
                self.step = Doing::Watch(now.mono, version.clone());
                // It was changed at some time since it was known; the server knows when.
                let since = self.current_at.wall;
                let edited_at = object.as_ref().and_then(|object| object.state.content_at());
                let edited_at = edited_at.filter(|at| (since..=now.wall).contains(at));
                let known = object.map_or(Known::Missing, Known::of);
                self.current_at = now;
                if known.is(&self.known) {
                    return None;
                }
                self.learn(now, known, &version, edited_at)
            }
            Err(error) => {
                Failing::record(&mut self.failing, now.mono, &error);
                let wait = self.pace.after_watch(&error);
                self.step = Doing::List(now.mono.after(wait));
                None
            }
        }
    }

    /// The server has begun to answer the watch.
    pub(super) fn opened(&mut self, now: Moment) {
        if let Doing::Opening(_, version) = &self.step {
            self.step = Doing::Watching(now, version.clone());
            self.failing = None;
        }
    }

    pub(super) fn event(&mut self, now: Now, event: WatchEvent) -> Option<News> {
        let Doing::Watching(since, version) = &mut self.step else { return None };
        // What a watch tells just before it breaks is no success.
        if now.mono.since(*since) >= SHORTEST_WATCH {
            self.pace.answered();
        }
        let (seen, known) = match event {
            WatchEvent::Bookmark(seen) => {
                *version = seen;
                self.current_at = now;
                return None;
            }
            WatchEvent::Present(object) => (object.state.version.clone(), Known::of(object)),
            WatchEvent::Deleted(object) => (object.state.version, Known::Missing),
        };
        version.clone_from(&seen);
        self.current_at = now;
        if known.is(&self.known) {
            return None;
        }
        if known.keeps_content(&self.known, now.mono.since(self.content_at)) {
            self.known = known;
            return Some(News::NotContent);
        }
        self.learn(now, known, &seen, None)
    }

    /// The watch has ended.
    pub(super) fn ended(&mut self, now: Now, how: &Result<(), ApiError>) {
        let (since, version) = match &self.step {
            Doing::Watching(since, version) | Doing::Opening(since, version) => {
                (*since, version.clone())
            }
            Doing::List(_) | Doing::Listing | Doing::Watch(..) => return,
        };
        let has_lasted = now.mono.since(since) >= SHORTEST_WATCH;
        if has_lasted {
            self.pace.answered();
        }
        self.step = match how {
            Ok(()) if has_lasted => {
                self.current_at = now;
                Doing::Watch(now.mono, version)
            }
            Ok(()) => Doing::Watch(now.mono.after(self.pace.broken_off(WATCH_TIME, None)), version),
            Err(error) => {
                Failing::record(&mut self.failing, now.mono, error);
                Doing::List(now.mono.after(self.pace.after_watch(error)))
            }
        };
    }

    /// Takes over a state with other content, and returns the change if the volumes follow it.
    fn learn(
        &mut self,
        now: Now,
        known: Known,
        version: &str,
        edited_at: Option<UnixTime>,
    ) -> Option<News> {
        self.content_at = now.mono;
        let is_deletion = known == Known::Missing;
        let is_first = std::mem::replace(&mut self.known, known) == Known::Nothing;
        // Nothing changes in a volume whose object must exist.
        if is_first || (is_deletion && self.source.is_required) {
            return None;
        }
        let edited_at = edited_at.unwrap_or(now.wall);
        self.edited_at = Some(edited_at);
        Some(News::Edit(Edit { version: version.to_owned(), edited_at, is_deletion }))
    }
}

impl Known {
    fn of(object: Metadata) -> Self {
        Self::Present(object.state)
    }

    /// Whether it is the same state.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Present(state), Self::Present(other)) => state.is(other),
            _ => self == other,
        }
    }

    /// Whether the one request that has made this state out of the one before has surely left the content as it was. That
    /// content was learned so long ago.
    fn keeps_content(&self, before: &Self, age: Duration) -> bool {
        match (self, before) {
            (Self::Present(state), Self::Present(before)) => state.keeps_content(before, age),
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/eager_content.rs"]
mod content;
