//! Follows the ConfigMaps of the namespace, or one Secret: lists their metadata part by part, then watches them. Pure.
//!
//! A watch that the server ends by itself is continued from the last version that it told. After anything else the
//! objects are listed again, and compared with what was known. Versions are compared for equality only.
//!
//! A change that a watch tells is one request, and `objects/writers.rs` says whether it was one for the content. Between
//! two lists there may have been several: another version counts as an edit of the content.

use std::time::Duration;

use crate::api_error::ApiError;
use crate::clock::Moment;
use crate::failing::Failing;
use crate::objects::{Metadata, ObjectsPage, State, WatchEvent};
use crate::pace::{LONGEST_RETRY, Pace};

/// How long the server is asked to keep a watch: between this and twice as long.
const WATCH_TIME: Duration = Duration::from_mins(5);
/// A watch that ends earlier has failed, however it ended.
const SHORTEST_WATCH: Duration = Duration::from_secs(10);
/// The first wait after a failed watch is between half of it and all of it.
const AFTER_FAILURE: Duration = Duration::from_secs(4);
/// The most objects that are known: each needs some 250 bytes.
const MOST_OBJECTS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Follow {
    step: Step,
    /// By their names.
    known: Vec<Known>,
    /// The number of the list under way, by which deleted objects are found.
    round: u32,
    /// Whether a list was complete since this podnudge leads.
    pub(super) is_known: bool,
    pace: Pace,
    pub(super) failing: Option<Failing>,
    /// Whether there are more objects than can be followed.
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct Known {
    name: String,
    state: State,
    /// When its content was learnt.
    content_at: Moment,
    round: u32,
}

#[derive(Debug)]
enum Step {
    /// List the next part then, with this parameter.
    List(Moment, Option<String>),
    Listing,
    /// Watch then, from this version.
    Watch(Moment, String),
    Opening(Moment, String),
    Watching(Moment, String),
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// A part of the list: the first one, or the one with this parameter.
    List(Option<String>),
    /// From this version, for this time.
    Watch(String, Duration),
}

/// What was learnt of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Learnt {
    /// The object was there already when this podnudge became the leader.
    Found(Metadata),
    /// The object's content was edited, or it was created.
    Edited(Metadata, Dated),
    /// The object was deleted.
    Deleted(String),
}

/// What has told a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    List,
    Watch,
}

/// Whether the API server has recorded the time of an edit, or only an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dated {
    Yes,
    No,
}

impl Follow {
    pub(super) fn new(now: Moment, seed: u64) -> Self {
        Self {
            step: Step::List(now, None),
            known: Vec::new(),
            round: 1,
            is_known: false,
            pace: Pace::new(seed),
            failing: None,
            is_full: false,
        }
    }

    pub(super) fn next(&mut self, now: Moment) -> Option<Next> {
        match &mut self.step {
            Step::List(at, next) if *at <= now => {
                let next = next.take();
                self.step = Step::Listing;
                Some(Next::List(next))
            }
            Step::Watch(at, version) if *at <= now => {
                let version = version.clone();
                self.step = Step::Opening(now, version.clone());
                let time = self.pace.jittered(WATCH_TIME * 2);
                Some(Next::Watch(version, time))
            }
            _ => None,
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        match &self.step {
            Step::List(at, _) | Step::Watch(at, _) => Some(*at),
            Step::Listing | Step::Opening(..) | Step::Watching(..) => None,
        }
    }

    /// Whether an edit would be seen at once.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.step, Step::Watching(..))
    }

    pub(super) fn objects(&self) -> usize {
        self.known.len()
    }

    pub(super) fn listed(
        &mut self,
        now: Moment,
        answer: Result<ObjectsPage, ApiError>,
    ) -> Vec<Learnt> {
        let page = match answer {
            Ok(page) => page,
            Err(error) => {
                // The list begins anew: the parameter may be what is wrong.
                self.failed(now, &error);
                return Vec::new();
            }
        };
        let found = page.objects.into_iter();
        let mut learnt: Vec<Learnt> =
            found.filter_map(|object| self.learn(now, object, By::List)).collect();
        if let Some(next) = page.end.next {
            self.step = Step::List(now, Some(next));
            return learnt;
        }
        let round = self.round;
        let gone = self.known.extract_if(.., |known| known.round != round);
        learnt.extend(gone.map(|known| Learnt::Deleted(known.name)));
        self.is_known = true;
        self.is_full &= self.known.len() >= MOST_OBJECTS;
        self.step = Step::Watch(now, page.end.version);
        learnt
    }

    /// The server has begun to answer the watch.
    pub(super) fn opened(&mut self, now: Moment) {
        if let Step::Opening(_, version) = &self.step {
            self.step = Step::Watching(now, version.clone());
            self.failing = None;
        }
    }

    pub(super) fn event(&mut self, now: Moment, event: WatchEvent) -> Option<Learnt> {
        let Step::Watching(since, version) = &mut self.step else { return None };
        if now.since(*since) >= SHORTEST_WATCH {
            self.pace.answered();
        }
        match event {
            WatchEvent::Bookmark(seen) => {
                *version = seen;
                None
            }
            WatchEvent::Present(object) => {
                version.clone_from(&object.state.version);
                self.learn(now, object, By::Watch)
            }
            WatchEvent::Deleted(Metadata { name, state }) => {
                *version = state.version;
                let place = self.place(&name).ok()?;
                self.known.remove(place);
                Some(Learnt::Deleted(name))
            }
        }
    }

    /// The watch has ended.
    pub(super) fn ended(&mut self, now: Moment, how: &Result<(), ApiError>) {
        let (since, version) = match &self.step {
            Step::Watching(since, version) | Step::Opening(since, version) => {
                (*since, version.clone())
            }
            Step::List(..) | Step::Listing | Step::Watch(..) => return,
        };
        let has_lasted = now.since(since) >= SHORTEST_WATCH;
        if has_lasted {
            self.pace.answered();
        }
        match how {
            Ok(()) if has_lasted => self.step = Step::Watch(now, version),
            Ok(()) => {
                let wait = self.pace.failed(WATCH_TIME, None);
                self.step =
                    Step::Watch(now.after(wait.max(self.pace.jittered(AFTER_FAILURE))), version);
            }
            // What is too old is listed at once.
            Err(ApiError::Gone(_)) if has_lasted => self.list_again(now),
            Err(error) => self.failed(now, error),
        }
    }

    fn failed(&mut self, now: Moment, error: &ApiError) {
        Failing::record(&mut self.failing, now, error);
        let wait = self.pace.after(error, LONGEST_RETRY);
        let wait = wait.max(self.pace.jittered(AFTER_FAILURE));
        self.list_again(now.after(wait));
    }

    fn list_again(&mut self, at: Moment) {
        self.round = self.round.wrapping_add(1);
        self.step = Step::List(at, None);
    }

    /// Where the object with this name is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.known.binary_search_by(|known| known.name.as_str().cmp(name))
    }

    /// Takes over a state.
    fn learn(&mut self, now: Moment, object: Metadata, by: By) -> Option<Learnt> {
        let (round, state) = (self.round, &object.state);
        let place = self.place(&object.name);
        if let Some(known) = place.ok().and_then(|place| self.known.get_mut(place)) {
            known.round = round;
            if state.is(&known.state) {
                return None;
            }
            let age = now.since(known.content_at);
            let is_edit = by == By::List || !state.keeps_content(&known.state, age);
            let before = std::mem::replace(&mut known.state, state.clone());
            if !is_edit {
                return None;
            }
            known.content_at = now;
            let is_dated = before.uid != state.uid || before.content_at() != state.content_at();
            return Some(Learnt::Edited(object, if is_dated { Dated::Yes } else { Dated::No }));
        }
        if self.known.len() >= MOST_OBJECTS {
            self.is_full = true;
            return None;
        }
        let Metadata { name, state } = object.clone();
        let place = place.unwrap_or_else(|place| place);
        self.known.insert(place, Known { name, state, content_at: now, round });
        Some(if self.is_known { Learnt::Edited(object, Dated::Yes) } else { Learnt::Found(object) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::UnixTime;
    use crate::objects::PageEnd;
    use crate::reason::Reason;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(100 + seconds))
    }

    /// The content was edited in this second, and a label in that one, if it has any.
    fn state(name: &str, version: &str, edited: u64, label: u64) -> Metadata {
        let entry = |fields: &str, second: u64| {
            let time = UnixTime(Duration::from_secs(second)).to_string();
            json!({"manager": fields, "time": time, "fieldsV1": {fields: {}}})
        };
        let mut entries = vec![entry("f:data", edited)];
        entries.extend((label > 0).then(|| entry("f:metadata", label)));
        let object = json!({"metadata":
            {"name": name, "uid": "u", "resourceVersion": version, "managedFields": entries}});
        Metadata::parse(object.to_string().as_bytes()).expect("it is an object")
    }

    fn page(objects: Vec<Metadata>, next: Option<&str>) -> ObjectsPage {
        let end = PageEnd { version: "50".to_owned(), next: next.map(str::to_owned) };
        ObjectsPage { objects, end }
    }

    fn watched() -> Follow {
        let mut follow = Follow::new(at(0), 1);
        assert_eq!(follow.next(at(0)), Some(Next::List(None)));
        let first = follow.listed(at(0), Ok(page(vec![state("a", "1", 5, 0)], Some("more"))));
        assert_eq!(first, [Learnt::Found(state("a", "1", 5, 0))]);
        assert_eq!(follow.next(at(0)), Some(Next::List(Some("more".to_owned()))));
        let second = follow.listed(at(0), Ok(page(vec![state("b", "2", 5, 0)], None)));
        assert_eq!(second, [Learnt::Found(state("b", "2", 5, 0))]);
        assert!(matches!(follow.next(at(0)), Some(Next::Watch(version, time))
            if version == "50" && (WATCH_TIME..=2 * WATCH_TIME).contains(&time)));
        follow.opened(at(0));
        assert!(follow.is_watched());
        follow
    }

    #[test]
    fn only_edits_of_content_are_told() {
        let mut follow = watched();
        let mut tell = |state: Metadata| match follow.event(at(20), WatchEvent::Present(state)) {
            Some(Learnt::Edited(_, dated)) => Some(dated),
            _ => None,
        };
        assert_eq!(tell(state("a", "51", 5, 1)), None, "a label");
        assert_eq!(tell(state("a", "52", 5, 0)), None, "the label was removed");
        assert_eq!(tell(state("a", "53", 9, 0)), Some(Dated::Yes));
        assert_eq!(tell(state("a", "54", 9, 0)), Some(Dated::No), "twice within a second");
        assert_eq!(tell(state("a", "54", 9, 0)), None, "told twice");
        assert_eq!(tell(state("new", "57", 9, 0)), Some(Dated::Yes));
        let gone = WatchEvent::Deleted(state("new", "58", 9, 0));
        assert_eq!(follow.event(at(32), gone), Some(Learnt::Deleted("new".to_owned())));
    }

    #[test]
    fn what_happened_while_nobody_watched_is_found_by_a_list() {
        let mut follow = watched();
        let broken = Err(ApiError::Unanswered(Reason::new("cut")));
        follow.ended(at(60), &broken);
        assert!(!follow.is_watched());
        let due = follow.next_wakeup().expect("it is listed again");
        assert!((2..=4).contains(&due.since(at(60)).as_secs()), "{due:?}");
        assert_eq!(follow.next(due), Some(Next::List(None)));
        let learnt = follow
            .listed(due, Ok(page(vec![state("b", "60", 7, 0), state("c", "61", 8, 0)], None)));
        let wanted = [
            Learnt::Edited(state("b", "60", 7, 0), Dated::Yes),
            Learnt::Edited(state("c", "61", 8, 0), Dated::Yes),
            Learnt::Deleted("a".to_owned()),
        ];
        assert_eq!(learnt, wanted);
    }

    #[test]
    fn a_watch_that_ends_by_itself_goes_on_from_the_last_version() {
        let mut follow = watched();
        follow.event(at(30), WatchEvent::Bookmark("90".to_owned()));
        follow.ended(at(60), &Ok(()));
        assert!(matches!(follow.next(at(60)), Some(Next::Watch(version, _)) if version == "90"));
        follow.opened(at(60));
        follow.ended(at(61), &Ok(()));
        assert_eq!(follow.next(at(61)), None, "too early: a pause");
        let gone = Err(ApiError::Gone(Reason::new("too old")));
        follow.next(at(70));
        follow.ended(at(90), &gone);
        assert_eq!(follow.next(at(90)), Some(Next::List(None)));
    }

    #[test]
    fn the_number_of_objects_has_a_bound() {
        assert!(!Follow::new(at(0), 1).is_full);
        let mut follow = watched();
        for n in 0..=MOST_OBJECTS {
            let state = state(&format!("x{n}"), "70", 9, 0);
            follow.event(at(20), WatchEvent::Present(state));
        }
        assert_eq!((follow.objects(), follow.is_full), (MOST_OBJECTS, true));
    }
}
