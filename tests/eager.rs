//! Eager sync: the protocol in virtual time, and the real podnudge with a small API server.

use std::time::Duration;

use serde_json::json;

use podnudge::cluster::{EagerAnswer, EagerFact, EagerRequest, EagerSync, Source, Spread};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::event::{Expected, VolumeId};
use podnudge_core::objects::{
    Metadata, ObjectKind, ObjectName, ObjectsPage, PageEnd, State, WatchEvent,
};
use podnudge_core::reason::Reason;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn named(kind: ObjectKind, name: &str) -> ObjectName {
    ObjectName { kind, name: name.to_owned() }
}

fn app() -> ObjectName {
    named(ObjectKind::ConfigMap, "app")
}

fn metadata(uid: &str, version: &str) -> Metadata {
    let (uid, version) = (uid.to_owned(), version.to_owned());
    // An API server that tells nothing of the writers: each change may be one of the content.
    Metadata { name: "app".to_owned(), state: State { uid, version, writers: None } }
}

fn listing(version: &str, object: Option<Metadata>) -> ObjectsPage {
    let end = PageEnd { version: version.to_owned(), next: None };
    ObjectsPage { objects: object.into_iter().collect(), end }
}

fn unavailable() -> ApiError {
    ApiError::Unanswered(Reason::new("nobody answers"))
}

fn refused() -> ApiError {
    ApiError::Refused(Reason::new("not allowed"))
}

/// The machine, with a clock of its own. The wall clock is far from the monotonic one.
struct Machine {
    sync: EagerSync,
    now: Duration,
    facts: Vec<EagerFact>,
}

impl Machine {
    fn new(names: &[ObjectName]) -> Self {
        Self::spread(names, Duration::ZERO)
    }

    fn spread(names: &[ObjectName], spread: Duration) -> Self {
        let now = secs(1000);
        let spread = Spread::new(Some(spread), None, "web-0");
        let sync = EagerSync::new(names.to_vec(), spread, at(now), 7);
        Self { sync, now, facts: Vec::new() }
    }

    /// One object, which is watched; the trial of the annotation was accepted.
    fn watching() -> Self {
        Self::new(&[app()]).watch()
    }

    fn watch(self) -> Self {
        let mut machine = self;
        assert_eq!(machine.next(), [EagerRequest::List(0, app()), EagerRequest::TryAnnotate]);
        machine.answer(EagerAnswer::Annotated(Ok(())));
        machine.listed("10", Some(metadata("u", "7")));
        let [EagerRequest::Watch(0, _, version, time)] = &machine.next()[..] else { panic!() };
        assert_eq!(version, "10");
        assert!((secs(300)..=secs(450)).contains(time));
        machine.answer(EagerAnswer::Opened(0));
        assert_eq!(machine.next(), []);
        machine
    }

    /// The first two objects are listed, and their watches begin.
    fn watch_both(&mut self) {
        for number in [0, 1] {
            let listed = listing("10", Some(metadata("u", "7")));
            self.answer(EagerAnswer::Listed(number, Ok(listed)));
            self.next();
            self.answer(EagerAnswer::Opened(number));
        }
    }

    fn now(&self) -> Now {
        at(self.now)
    }

    fn answer(&mut self, answer: EagerAnswer) {
        let now = self.now();
        self.sync.handle(now, answer);
        self.facts.extend(std::iter::from_fn(|| self.sync.next_fact()));
    }

    fn listed(&mut self, version: &str, object: Option<Metadata>) {
        self.answer(EagerAnswer::Listed(0, Ok(listing(version, object))));
    }

    fn event(&mut self, event: WatchEvent) {
        self.answer(EagerAnswer::Event(0, event));
    }

    fn committed(&mut self, path: usize) {
        let at = self.now().wall;
        self.sync.committed(path, at);
        self.facts.extend(std::iter::from_fn(|| self.sync.next_fact()));
    }

    /// All that is to be sent now.
    fn next(&mut self) -> Vec<EagerRequest> {
        let now = self.now();
        let requests = std::iter::from_fn(|| self.sync.next_request(now)).take(100).collect();
        self.facts.extend(std::iter::from_fn(|| self.sync.next_fact()));
        requests
    }

    /// Lets this time pass, and carries out each annotation. Returns them, with the time since the beginning.
    fn annotations(&mut self, time: Duration) -> Vec<(Duration, String)> {
        let (begin, end) = (self.now, self.now + time);
        let mut sent = Vec::new();
        loop {
            for request in self.next() {
                let EagerRequest::Annotate(value) = request else { panic!("{request:?}") };
                sent.push((self.now - begin, value));
                self.answer(EagerAnswer::Annotated(Ok(())));
            }
            match self.sync.next_wakeup() {
                Some(Moment(at)) if at <= end => {
                    assert!(at > self.now || sent.len() < 1000, "it does not rest");
                    self.now = at.max(self.now + Duration::from_nanos(1));
                }
                _ => break,
            }
        }
        self.now = end;
        sent
    }

    fn took(&self) -> Vec<Duration> {
        let took = |fact: &EagerFact| match fact {
            EagerFact::Committed(_, took) => Some(*took),
            _ => None,
        };
        self.facts.iter().filter_map(took).collect()
    }
}

fn at(now: Duration) -> Now {
    Now { mono: Moment(now), wall: UnixTime(now + secs(1_700_000_000)) }
}

fn values(sent: &[(Duration, String)]) -> Vec<&str> {
    sent.iter().map(|(_, value)| value.as_str()).collect()
}

#[test]
fn an_edit_is_announced_at_once_and_the_commit_ends_it() {
    let mut machine = Machine::watching();
    machine.now += secs(20);
    machine.event(WatchEvent::Present(metadata("u", "12")));
    assert_eq!(values(&machine.annotations(millis(300))), ["configmap/app 12"]);
    machine.committed(3);
    assert_eq!(machine.took(), [millis(300)]);
    assert_eq!(machine.annotations(secs(200)), []);
    let status = machine.sync.status(machine.now().mono);
    assert_eq!(status.syncs_requested, 1);
    assert_eq!(status.objects[0].edit_to_commit_seconds, Some(0.3));
    assert!(status.objects[0].watched);
}

#[test]
fn the_annotation_is_repeated_three_times_with_longer_waits() {
    let mut machine = Machine::watching();
    machine.event(WatchEvent::Present(metadata("u", "12")));
    let sent = machine.annotations(secs(600));
    let at: Vec<u64> = sent.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(at, [0, 2, 10, 40]);
    assert_eq!(sent[3].1, "configmap/app 12 4");
    assert_eq!(machine.facts.last(), Some(&EagerFact::GivenUp(app(), 4)));
}

#[test]
fn the_volumes_of_an_edit_are_expected_to_be_written_until_they_are() {
    let secret = named(ObjectKind::Secret, "tls");
    let found = |paths: Option<Vec<usize>>, object: &ObjectName| {
        let named = Source::named(object.clone());
        Source { paths, ..named }
    };
    let mut machine = Machine::new(&[]);
    machine.next();
    assert_eq!(machine.sync.expected(), None, "they are not known");
    let sources = vec![found(Some(vec![0, 2]), &app()), found(None, &secret)];
    machine.answer(EagerAnswer::Found(Ok(sources)));
    machine.next();
    assert_eq!(machine.sync.expected(), None, "an edit would not be seen");
    machine.watch_both();
    assert_eq!(machine.sync.expected(), Some(Expected::default()));
    machine.event(WatchEvent::Present(metadata("u", "12")));
    let volumes = vec![VolumeId(0), VolumeId(2)];
    assert_eq!(machine.sync.expected(), Some(Expected { volumes: volumes.clone(), others: 0 }));
    machine.answer(EagerAnswer::Event(1, WatchEvent::Present(metadata("u", "13"))));
    assert_eq!(machine.sync.expected(), Some(Expected { volumes, others: 1 }));
    machine.committed(0);
    assert_eq!(machine.sync.expected(), Some(Expected { volumes: Vec::new(), others: 1 }));
    machine.answer(EagerAnswer::Ended(0, Ok(())));
    assert_eq!(machine.sync.expected(), None);
}

/// Such as edits of an object whose volume podnudge reads through a subPath mount.
#[test]
fn after_two_edits_without_a_commit_there_is_one_request_a_minute_until_a_volume_follows() {
    let mut machine = Machine::watching();
    let edit = |machine: &mut Machine, version: u64, time| {
        machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
        machine.annotations(time)
    };
    assert_eq!(edit(&mut machine, 10, secs(60)).len(), 4);
    assert_eq!(edit(&mut machine, 11, secs(60)).len(), 4);
    let sent: usize = (12..612).map(|version| edit(&mut machine, version, secs(1)).len()).sum();
    assert!((10..=12).contains(&sent), "{sent} in ten minutes");
    assert_eq!(edit(&mut machine, 700, secs(60)).len(), 1);
    machine.committed(0);
    assert_eq!(machine.took().len(), 1);
    for version in 800..830 {
        assert_eq!(edit(&mut machine, version, secs(1)).len(), 1, "{version}");
        machine.committed(0);
    }
}

#[test]
fn thirty_edits_that_the_volume_follows_cost_thirty_requests() {
    for spread in [Duration::ZERO, secs(1)] {
        let mut machine = Machine::spread(&[app()], spread).watch();
        let mut sent = 0;
        for version in 100..130 {
            machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
            sent += machine.annotations(millis(1500)).len();
            machine.committed(0);
            sent += machine.annotations(millis(3500)).len();
        }
        assert_eq!((sent, machine.took().len()), (30, 30), "{spread:?}");
    }
}

#[test]
fn the_first_annotation_waits_for_the_turn_of_the_pod_and_newer_edits_do_not_put_it_off() {
    let mut machine = Machine::spread(&[app()], secs(30)).watch();
    machine.event(WatchEvent::Present(metadata("u", "11")));
    let (first, _) = machine.annotations(secs(30))[0];
    assert!(first > secs(1) && first < secs(30), "{first:?}");
    machine.committed(0);
    let mut sent = Vec::new();
    for version in 12..42 {
        machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
        sent.extend(machine.annotations(secs(1)));
    }
    assert!(!sent.is_empty(), "an edit each second");
}

#[test]
fn a_commit_before_the_edit_does_not_end_it() {
    let mut machine = Machine::watching();
    let before = machine.now().wall;
    machine.now += millis(100);
    machine.event(WatchEvent::Present(metadata("u", "12")));
    assert_eq!(machine.annotations(millis(100)).len(), 1);
    machine.sync.committed(0, before);
    assert_eq!(machine.annotations(secs(3)).len(), 1);
}

/// As with `kubectl apply` of both, where the kubelet's first sync finds both.
#[test]
fn of_objects_whose_volumes_are_not_known_each_is_asked_for_once_and_any_commit_counts() {
    let mut machine = Machine::new(&[app(), named(ObjectKind::Secret, "tls")]);
    machine.next();
    machine.answer(EagerAnswer::Annotated(Ok(())));
    machine.watch_both();
    machine.answer(EagerAnswer::Event(0, WatchEvent::Present(metadata("u", "12"))));
    let first = EagerRequest::Annotate("configmap/app 12".to_owned());
    assert_eq!(machine.next(), [first]);
    machine.answer(EagerAnswer::Event(1, WatchEvent::Present(metadata("u", "13"))));
    machine.now += millis(100);
    // Before the answer: the kubelet is fast.
    machine.committed(0);
    assert_eq!(machine.took(), [millis(100)]);
    machine.answer(EagerAnswer::Annotated(Ok(())));
    assert_eq!(values(&machine.annotations(secs(600))), ["secret/tls 13"]);
    assert_eq!(machine.took(), [millis(100); 2]);
}

#[test]
fn an_object_that_changes_all_the_time_costs_few_requests() {
    let mut machine = Machine::watching();
    let mut sent = 0;
    for version in 100..1300 {
        machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
        sent += machine.annotations(millis(500)).len();
    }
    // Ten minutes: 10 at the rate of the long run, and those that may be sent at once.
    assert!((10..=18).contains(&sent), "{sent}");
}

#[test]
fn edits_that_reach_a_volume_are_announced_at_once_however_many_there_are() {
    let mut machine = Machine::watching();
    for version in 100..400 {
        machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
        assert_eq!(machine.annotations(millis(500)).len(), 1, "{version}");
        machine.committed(0);
        machine.annotations(millis(500));
    }
    // Ten a second cannot all be.
    let mut sent = 0;
    for version in 400..4400 {
        machine.event(WatchEvent::Present(metadata("u", &version.to_string())));
        sent += machine.annotations(millis(100)).len();
        machine.committed(0);
    }
    assert!((400..=408).contains(&sent), "{sent}");
}

#[test]
fn bookmarks_and_equal_states_are_no_edits_and_a_watch_goes_on_from_the_last_version() {
    let mut machine = Machine::watching();
    machine.event(WatchEvent::Bookmark("20".to_owned()));
    machine.event(WatchEvent::Present(metadata("u", "7")));
    machine.event(WatchEvent::Bookmark("30".to_owned()));
    machine.now += secs(400);
    machine.answer(EagerAnswer::Ended(0, Ok(())));
    let next = machine.next();
    assert!(matches!(&next[..], [EagerRequest::Watch(0, _, v, _)] if v == "30"), "{next:?}");
    assert_eq!(machine.facts, [EagerFact::Objects(vec![app()])]);
}

#[test]
fn after_410_the_object_is_listed_again_and_compared() {
    let gone = || EagerAnswer::Ended(0, Err(ApiError::Gone(Reason::new("too old"))));
    for (object, is_edit) in [
        (Some(metadata("u", "7")), false),
        (Some(metadata("u", "8")), true),
        (Some(metadata("new", "7")), true),
        (None, true),
    ] {
        let mut machine = Machine::watching();
        machine.answer(gone());
        assert_eq!(machine.next(), [], "not in a hot loop");
        machine.now += millis(999);
        assert_eq!(machine.next(), [], "nor at once in all replicas");
        machine.now += millis(4001);
        assert_eq!(machine.next(), [EagerRequest::List(0, app())]);
        machine.listed("40", object.clone());
        let next = machine.next();
        assert!(matches!(&next[0], EagerRequest::Watch(0, _, v, _) if v == "40"), "{next:?}");
        let edits = machine.facts.iter().filter(|fact| matches!(fact, EagerFact::Edited(..)));
        assert_eq!(edits.count() == 1, is_edit, "{object:?}");
    }
}

#[test]
fn an_object_that_is_deleted_and_made_anew_is_announced_when_it_is_there() {
    let mut machine = Machine::watching();
    machine.event(WatchEvent::Deleted(metadata("u", "12")));
    assert_eq!(machine.annotations(secs(1)), []);
    machine.event(WatchEvent::Present(metadata("v", "13")));
    assert_eq!(values(&machine.annotations(secs(1))), ["configmap/app 13"]);
    machine.committed(0);
    // If it stays away, the volume of an optional object becomes empty.
    machine.event(WatchEvent::Deleted(metadata("v", "14")));
    let sent = machine.annotations(secs(300));
    assert_eq!(sent, [(secs(2), "configmap/app 14".to_owned())]);
}

#[test]
fn the_edit_of_a_time_without_a_watch_is_that_of_the_server_if_it_fits() {
    for (age, expected) in [(5, Some(5)), (60, None), (0, Some(0))] {
        let mut machine = Machine::watching();
        machine.answer(EagerAnswer::Ended(0, Err(unavailable())));
        machine.now += secs(30);
        machine.next();
        let now = machine.now().wall.0;
        let edited_at = UnixTime(now.checked_sub(secs(age)).unwrap()).to_string();
        let object = json!({"metadata": {"name": "app", "uid": "u", "resourceVersion": "30",
            "managedFields": [{"time": edited_at, "fieldsV1": {"f:data": {}}}]}});
        machine.listed("40", Some(Metadata::parse(object.to_string().as_bytes()).unwrap()));
        let edited = machine.sync.status(machine.now().mono).objects[0].edited_at;
        // Otherwise the clocks differ, or an older Kubernetes has not kept the time.
        let expected = secs(expected.unwrap_or(0));
        assert_eq!(edited, Some(UnixTime(now.checked_sub(expected).unwrap())));
    }
}

#[test]
fn a_server_that_is_away_is_asked_ever_more_rarely_and_reported_once() {
    let mut machine = Machine::watching();
    machine.answer(EagerAnswer::Ended(0, Err(unavailable())));
    let mut requests = 0;
    while machine.now < secs(1600) {
        for request in machine.next() {
            assert_eq!(request, EagerRequest::List(0, app()));
            requests += 1;
            machine.answer(EagerAnswer::Listed(0, Err(unavailable())));
        }
        machine.now = machine.sync.next_wakeup().unwrap().0.max(machine.now + millis(1));
    }
    assert!((20..60).contains(&requests), "{requests}");
    let told = |machine: &Machine| {
        machine.facts.iter().filter(|fact| !matches!(fact, EagerFact::Objects(_))).count()
    };
    assert_eq!(told(&machine), 1, "{:?}", machine.facts);
    machine.now += secs(60);
    machine.next();
    machine.listed("50", Some(metadata("u", "45")));
    machine.next();
    machine.answer(EagerAnswer::Opened(0));
    assert!(machine.facts.contains(&EagerFact::Available));
    assert_eq!(told(&machine), 3, "{:?}", machine.facts);
}

/// Such as one that a proxy cuts: what it has told before is no success.
#[test]
fn a_watch_that_breaks_after_each_bookmark_is_repeated_ever_more_rarely() {
    for end in [Ok(()), Err(unavailable())] {
        let mut machine = Machine::watching();
        let (begin, mut watches) = (machine.now, 0);
        while machine.now < begin + secs(600) {
            machine.event(WatchEvent::Bookmark("20".to_owned()));
            machine.answer(EagerAnswer::Ended(0, end.clone()));
            machine.now = machine.sync.next_wakeup().unwrap().0;
            let mut requests = machine.next();
            if requests == [EagerRequest::List(0, app())] {
                machine.listed("20", Some(metadata("u", "7")));
                requests = machine.next();
            }
            if matches!(&requests[..], [EagerRequest::Watch(..)]) {
                machine.answer(EagerAnswer::Opened(0));
                watches += 1;
            }
        }
        assert!((20..60).contains(&watches), "{watches} after {end:?}");
    }
}

#[test]
fn a_restart_of_the_server_is_not_worth_a_warning() {
    let mut machine = Machine::watching();
    machine.answer(EagerAnswer::Ended(0, Err(unavailable())));
    machine.now += secs(3);
    machine.next();
    machine.answer(EagerAnswer::Listed(0, Err(unavailable())));
    machine.now += secs(3);
    machine.next();
    machine.listed("50", Some(metadata("u", "7")));
    machine.next();
    machine.answer(EagerAnswer::Opened(0));
    machine.annotations(secs(100));
    assert_eq!(machine.facts, [EagerFact::Objects(vec![app()])]);
}

#[test]
fn what_is_not_allowed_is_said_at_the_start() {
    let mut machine = Machine::new(&[app()]);
    machine.next();
    machine.answer(EagerAnswer::Annotated(Err(refused())));
    let unavailable = EagerFact::Unavailable(Reason::new("not allowed"));
    assert_eq!(machine.facts, [EagerFact::Objects(vec![app()]), unavailable]);
    let status = machine.sync.status(machine.now().mono);
    assert_eq!(status.reason, Some(Reason::new("not allowed")));
    machine.listed("10", None);
    machine.next();
    machine.answer(EagerAnswer::Opened(0));
    machine.now += secs(1);
    assert_eq!(machine.next(), [EagerRequest::TryAnnotate]);
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it() {
    let mut machine = Machine::watching();
    machine.event(WatchEvent::Present(metadata("u", "12")));
    assert_eq!(machine.next().len(), 1);
    let pause = ApiError::Throttled(Reason::new("later"), Some(secs(20)));
    machine.answer(EagerAnswer::Annotated(Err(pause)));
    let sent = machine.annotations(secs(25));
    assert_eq!((sent[0].0, sent[0].1.as_str()), (secs(20), "configmap/app 12"));
}

#[test]
fn the_objects_are_found_once_and_a_commit_counts_for_those_that_the_volume_shows() {
    let mut machine = Machine::new(&[]);
    assert_eq!(machine.next(), [EagerRequest::Find]);
    machine.answer(EagerAnswer::Found(Err(unavailable())));
    assert_eq!(machine.next(), []);
    machine.now += secs(5);
    assert_eq!(machine.next(), [EagerRequest::Find]);
    let tls = named(ObjectKind::Secret, "tls");
    let source = |object: ObjectName, path| Source {
        object,
        paths: Some(vec![path]),
        is_required: path == 1,
    };
    machine.answer(EagerAnswer::Found(Ok(vec![source(tls.clone(), 1), source(app(), 0)])));
    let [app_list, tls_list] = [EagerRequest::List(0, app()), EagerRequest::List(1, tls)];
    assert_eq!(machine.next(), [app_list, tls_list, EagerRequest::TryAnnotate]);
    machine.answer(EagerAnswer::Annotated(Ok(())));
    machine.watch_both();
    // The pod needs it: the kubelet leaves the volume as it is.
    machine.answer(EagerAnswer::Event(1, WatchEvent::Deleted(metadata("u", "8"))));
    assert_eq!(machine.annotations(secs(100)), []);
    machine.answer(EagerAnswer::Event(1, WatchEvent::Present(metadata("v", "9"))));
    assert_eq!(machine.annotations(secs(1)).len(), 1);
    machine.committed(0);
    assert!(machine.took().is_empty());
    machine.committed(1);
    assert_eq!(machine.took(), [secs(1)]);
}
