//! Several `podnudge sync` of one namespace, with an API server that refuses a share of the requests, and kubelets that
//! are not modelled: a pod is right when its annotation names the last edit of what it mounts.

use std::time::Duration;

use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::objects::{Metadata, ObjectsPage, PageEnd, WatchEvent};
use podnudge_core::random::Random;
use podnudge_core::reason::Reason;
use podnudge_core::status::Histogram;
use podnudge_core::sync::{
    ANNOTATION, Answer, DuePod, LeaseAsk, PodsPage, Request, Settings, Sync, SyncFact, SyncLease,
    SyncStatus, Targets,
};
use proptest::prelude::*;
use serde_json::json;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MAPS: usize = 3;

/// The namespace, with its requests on the way.
struct World {
    now: Duration,
    replicas: Vec<Option<Sync>>,
    lease: Option<SyncLease>,
    version: u64,
    /// The second and the version of the last edit of each ConfigMap, and the version of its last change.
    maps: Vec<(u64, u64, u64)>,
    /// How often each of them was labelled.
    labels: [u64; MAPS],
    /// What each pod mounts, and its annotation.
    pods: Vec<(usize, String)>,
    watches: Vec<Vec<u32>>,
    /// When an answer arrives, at which replica, and which.
    on_the_way: Vec<(Duration, usize, u32, Answer)>,
    random: Random,
    /// The share of the requests that is refused with 429.
    refused: f64,
    /// The pods of which a policy forbids every change.
    forbidden: Vec<usize>,
    /// When pods were annotated, and which.
    patches: Vec<(Duration, usize)>,
    lists: usize,
    requests: usize,
    facts: Vec<SyncFact>,
}

fn settings(replica: usize) -> Settings {
    Settings {
        secrets: Vec::new(),
        rate: 50,
        lease: "podnudge-sync".to_owned(),
        lease_duration: 15 * SECOND,
        holder: format!("replica-{replica}"),
    }
}

impl World {
    fn new(replicas: usize, pods: usize, seed: u64) -> Self {
        let mut world = Self {
            now: 1000 * SECOND,
            replicas: Vec::new(),
            lease: None,
            version: 10,
            maps: vec![(900, 1, 1); MAPS],
            labels: [0; MAPS],
            pods: (0..pods).map(|pod| (pod % MAPS, String::new())).collect(),
            watches: vec![Vec::new(); replicas],
            on_the_way: Vec::new(),
            random: Random::new(seed),
            refused: 0.0,
            forbidden: Vec::new(),
            patches: Vec::new(),
            lists: 0,
            requests: 0,
            facts: Vec::new(),
        };
        for replica in 0..replicas {
            world.start(replica);
        }
        world
    }

    fn start(&mut self, replica: usize) {
        let seed = self.random.bits();
        let sync = Sync::new(settings(replica), self.clock(), seed);
        if self.replicas.len() <= replica {
            self.replicas.push(None);
        }
        self.on_the_way.retain(|(_, of, ..)| *of != replica);
        self.watches[replica].clear();
        self.replicas[replica] = Some(sync);
    }

    fn kill(&mut self, replica: usize) {
        self.replicas[replica] = None;
        self.on_the_way.retain(|(_, of, ..)| *of != replica);
        self.watches[replica].clear();
    }

    fn clock(&self) -> Now {
        Now { mono: Moment(self.now), wall: UnixTime(self.now) }
    }

    /// The status of the first replica.
    fn status(&self) -> SyncStatus {
        self.replicas[0].as_ref().expect("it runs").status(self.clock())
    }

    fn leader(&self) -> Option<usize> {
        let is_leading =
            |it: &Option<Sync>| it.as_ref().is_some_and(|it| it.status(self.clock()).leading);
        self.replicas.iter().position(is_leading)
    }

    fn state(&self, map: usize) -> Metadata {
        let (second, _, change) = self.maps[map];
        let entry = |fields: &str, second: u64| {
            let time = UnixTime(Duration::from_secs(second)).to_string();
            json!({"manager": fields, "time": time, "fieldsV1": {fields: {}}})
        };
        let labelled = self.labels[map];
        let label = (labelled > 0).then(|| entry("f:metadata", labelled));
        let entries: Vec<_> = label.into_iter().chain([entry("f:data", second)]).collect();
        let object = json!({"metadata": {
            "name": format!("map-{map}"), "uid": format!("u{map}"),
            "resourceVersion": change.to_string(), "managedFields": entries,
        }});
        Metadata::parse(object.to_string().as_bytes()).expect("it is an object")
    }

    fn edit(&mut self, map: usize) {
        self.version += 1;
        self.maps[map] = (self.now.as_secs(), self.version, self.version);
        self.tell(map);
    }

    fn label(&mut self, map: usize) {
        self.version += 1;
        self.maps[map].2 = self.version;
        self.labels[map] += 1;
        self.tell(map);
    }

    fn tell(&mut self, map: usize) {
        let event = WatchEvent::Present(self.state(map));
        for replica in 0..self.watches.len() {
            for epoch in self.watches[replica].clone() {
                let delay = self.now + self.random.below(20 * MILLI);
                // The lines of one watch come in order.
                let last = self.on_the_way.iter().filter(|it| it.1 == replica).map(|it| it.0).max();
                let at = delay.max(last.unwrap_or_default());
                self.on_the_way.push((at, replica, epoch, Answer::Event(0, event.clone())));
            }
        }
    }

    /// Lets this time pass.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send_all();
            let arrival = self.on_the_way.iter().map(|it| it.0).min();
            let wakeup = self.replicas.iter().flatten().filter_map(Sync::next_wakeup);
            let next = wakeup.map(|at| at.0).chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let is_due = |it: &mut (Duration, usize, u32, Answer)| it.0 <= next;
            let due: Vec<_> = self.on_the_way.extract_if(.., is_due).collect();
            let clock = self.clock();
            for (_, replica, epoch, answer) in due {
                if let Some(sync) = &mut self.replicas[replica] {
                    sync.handle(clock, epoch, answer);
                }
            }
        }
    }

    fn send_all(&mut self) {
        for replica in 0..self.replicas.len() {
            let mut sent = 0;
            while let Some(sync) = &mut self.replicas[replica]
                && let Some((epoch, request)) = {
                    let now = Now { mono: Moment(self.now), wall: UnixTime(self.now) };
                    sync.next_request(now)
                }
            {
                sent += 1;
                assert!(sent < 100, "it asks again and again: {request:?}");
                self.requests += 1;
                let at = self.now + 2 * MILLI + self.random.below(20 * MILLI);
                let is_refused = self.random.part() < self.refused;
                for answer in self.carry_out(replica, epoch, request, is_refused) {
                    self.on_the_way.push((at, replica, epoch, answer));
                }
            }
            if let Some(sync) = &mut self.replicas[replica] {
                self.facts.extend(std::iter::from_fn(|| sync.next_fact()));
            }
        }
    }

    fn carry_out(
        &mut self,
        replica: usize,
        epoch: u32,
        request: Request,
        is_refused: bool,
    ) -> Vec<Answer> {
        let throttled = || ApiError::Throttled(Reason::new("429"), None);
        match request {
            Request::Lease(_) if is_refused => vec![Answer::Lease(Err(throttled()))],
            Request::Lease(ask) => vec![Answer::Lease(self.lease(ask))],
            Request::List(..) if is_refused => vec![Answer::Listed(0, Err(throttled()))],
            Request::List(..) => {
                let objects = (0..MAPS).map(|map| self.state(map)).collect();
                let end = PageEnd { version: self.version.to_string(), next: None };
                vec![Answer::Listed(0, Ok(ObjectsPage { objects, end }))]
            }
            Request::Watch(..) if is_refused => vec![Answer::Ended(0, Err(throttled()))],
            Request::Watch(_, version, _) => {
                self.watches[replica].retain(|other| *other != epoch);
                self.watches[replica].push(epoch);
                let since: u64 = version.parse().expect("a version");
                let missed = (0..MAPS).filter(|map| self.maps[*map].2 > since);
                let missed =
                    missed.map(|map| Answer::Event(0, WatchEvent::Present(self.state(map))));
                std::iter::once(Answer::Opened(0)).chain(missed).collect()
            }
            Request::Pods(..) if is_refused => vec![Answer::Pods(Err(throttled()))],
            Request::Pods(next, targets) => {
                self.lists += 1;
                vec![Answer::Pods(Ok(self.page(next.as_deref(), &targets)))]
            }
            Request::Annotate(pod) => {
                let sent = Moment(self.now);
                if is_refused {
                    return vec![Answer::Annotated(pod, sent, Err(throttled()))];
                }
                let number: usize = pod.name.parse().expect("a number");
                if self.forbidden.contains(&number) {
                    let forbidden = ApiError::Refused(Reason::new("403"));
                    return vec![Answer::Annotated(pod, sent, Err(forbidden))];
                }
                self.pods[number].1.clone_from(&pod.value);
                self.patches.push((self.now, number));
                vec![Answer::Annotated(pod, sent, Ok(()))]
            }
        }
    }

    fn lease(&mut self, ask: LeaseAsk) -> Result<SyncLease, ApiError> {
        match ask {
            LeaseAsk::Read(_) => {
                self.lease.clone().ok_or_else(|| ApiError::NotFound(Reason::new("404")))
            }
            LeaseAsk::Write(lease) => {
                let version = self.lease.as_ref().map_or("", SyncLease::version);
                if version != lease.version() {
                    return Err(ApiError::Conflict(Reason::new("409")));
                }
                self.version += 1;
                let mut object: serde_json::Value =
                    serde_json::from_slice(&lease.body()).expect("it is JSON");
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                let lease = SyncLease::parse(object.to_string().as_bytes()).expect("a Lease");
                self.lease = Some(lease.clone());
                Ok(lease)
            }
        }
    }

    /// Seven pods a page.
    fn page(&self, next: Option<&str>, targets: &Targets) -> PodsPage {
        let first: usize = next.map_or(0, |next| next.parse().expect("a number"));
        let end = (first + 7).min(self.pods.len());
        let pod = |number: usize| {
            let (map, annotation) = &self.pods[number];
            let pod = json!({
                "metadata": {"name": number.to_string(), "annotations": {ANNOTATION: annotation}},
                "spec": {"nodeName": "n", "volumes": [{"configMap": {"name": format!("map-{map}")}}]},
            });
            DuePod::of(pod.to_string().as_bytes(), targets).expect("a pod")
        };
        PodsPage {
            due: (first..end).filter_map(pod).collect(),
            read: u64::try_from(end - first).unwrap_or_default(),
            next: (end < self.pods.len()).then(|| end.to_string()),
        }
    }

    /// The pods of a ConfigMap whose annotation does not name an edit of it that was seen since this version.
    fn left(&self, map: usize, since: u64) -> usize {
        let of = self.pods.iter().filter(|(mounted, _)| *mounted == map);
        let is_done = |annotation: &str| {
            let id = annotation.strip_prefix(&format!("configmap/map-{map} "));
            id.and_then(|id| id.parse().ok()).is_some_and(|id: u64| id >= since)
        };
        of.filter(|(_, annotation)| !is_done(annotation)).count()
    }
}

#[test]
fn a_label_costs_nothing_and_an_edit_one_annotation_of_each_pod_that_mounts_the_object() {
    let mut world = World::new(2, 90, 1);
    world.run(60 * SECOND);
    assert_eq!((world.patches.len(), world.lists), (0, 0), "nothing was edited");
    world.label(1);
    world.run(60 * SECOND);
    assert_eq!((world.patches.len(), world.lists), (0, 0), "only a label");
    world.edit(1);
    let edited = world.now;
    world.run(60 * SECOND);
    let mut pods: Vec<usize> = world.patches.iter().map(|(_, pod)| *pod).collect();
    pods.sort_unstable();
    assert_eq!(pods, (0..90).filter(|pod| pod % MAPS == 1).collect::<Vec<_>>());
    let (first, last) = (world.patches[0].0, world.patches[29].0);
    assert!(
        first - edited < 400 * MILLI && last - edited < 2 * SECOND,
        "{edited:?} {first:?} {last:?}"
    );
    for pair in world.patches.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 20 * MILLI, "no burst");
    }
}

#[test]
fn pods_whose_change_is_forbidden_count_once_for_each_edit_and_keep_no_other_one_waiting() {
    let mut world = World::new(1, 90, 1);
    world.forbidden = vec![4, 7];
    world.run(60 * SECOND);
    let mut seen = vec![0];
    for edits in 1..=2 {
        world.edit(1);
        let edit = world.version;
        for _ in 0..10_000 {
            world.run(5 * MILLI);
            let status = world.status();
            seen.push(status.refused);
        }
        let status = world.status();
        assert_eq!((status.refused, status.annotated), (2 * edits, 28 * edits));
        assert_eq!(world.left(1, edit), 2);
    }
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 4], "also while a pass is under way");
}

#[test]
fn an_idle_pair_asks_for_its_lease_only() {
    let mut world = World::new(2, 3000, 1);
    world.run(60 * SECOND);
    let before = world.requests;
    world.run(600 * SECOND);
    let requests = world.requests - before;
    assert!((160..330).contains(&requests), "{requests} in 10 minutes");
}

#[test]
fn a_second_one_finishes_what_a_killed_one_has_begun() {
    for seed in 0..20 {
        let mut world = World::new(2, 900, seed);
        world.run(60 * SECOND);
        world.edit(0);
        let edit = world.version;
        let part = world.random.below(4 * SECOND);
        world.run(2 * SECOND + part);
        let leader = world.leader().expect("one leads");
        let done = world.patches.len();
        assert!((1..300).contains(&done), "it is in the middle: {done}");
        world.kill(leader);
        world.run(60 * SECOND);
        assert_eq!(world.left(0, edit), 0, "seed {seed}");
        // What was under way when it was killed may be done twice.
        assert!(world.patches.len() <= 300 + 8, "{} patches", world.patches.len());
    }
}

#[test]
fn what_is_edited_while_nobody_works_is_not_lost() {
    let mut world = World::new(1, 90, 3);
    world.run(60 * SECOND);
    world.kill(0);
    world.edit(2);
    let edit = world.version;
    world.run(60 * SECOND);
    world.start(0);
    world.run(60 * SECOND);
    assert_eq!((world.left(2, edit), world.patches.len()), (0, 30));
    world.kill(0);
    world.run(60 * SECOND);
    world.start(0);
    world.run(60 * SECOND);
    assert_eq!((world.patches.len(), world.leader()), (30, Some(0)), "it is done");
}

#[test]
fn one_that_stops_gives_the_lease_back() {
    let mut world = World::new(2, 9, 3);
    world.run(60 * SECOND);
    let leader = world.leader().expect("one leads");
    let now = world.clock().mono;
    if let Some(sync) = &mut world.replicas[leader] {
        sync.stop(now);
    }
    world.run(SECOND);
    assert!(world.replicas[leader].as_ref().is_some_and(Sync::is_stopped));
    world.kill(leader);
    world.run(8 * SECOND);
    assert_eq!(world.leader(), Some(1 - leader), "before the Lease would have expired");
}

/// What has become of the renewal is not known then.
#[test]
fn one_that_stops_while_it_renews_the_lease_gives_it_back_too() {
    let mut world = World::new(1, 9, 3);
    world.run(60 * SECOND);
    let is_renewal = |it: &(Duration, usize, u32, Answer)| matches!(it.3, Answer::Lease(_));
    while !world.on_the_way.iter().any(is_renewal) {
        world.run(MILLI);
    }
    world.on_the_way.clear();
    let now = world.clock().mono;
    if let Some(sync) = &mut world.replicas[0] {
        sync.stop(now);
    }
    world.run(SECOND);
    assert!(world.replicas[0].as_ref().is_some_and(Sync::is_stopped));
    assert_eq!(world.lease.as_ref().and_then(SyncLease::holder), None);
}

#[test]
fn an_edit_for_which_everything_is_refused_is_late_until_the_right_is_there() {
    let mut world = World::new(1, 90, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..90).collect();
    world.edit(1);
    let edit = world.version;
    let before = world.requests;
    world.run(70 * SECOND);
    let late = world.status();
    assert!(late.lag_seconds > 60.0, "{late:?}");
    assert_eq!((late.edit_to_annotated.clone(), late.annotated), (Histogram::default(), 0));
    assert!((20..=30).contains(&late.refused), "no pod counts twice: {late:?}");
    assert!(world.requests - before < 400, "{} requests", world.requests - before);
    world.forbidden.clear();
    world.run(15 * SECOND);
    assert_eq!(world.left(1, edit), 0);
    assert!(world.status().lag_seconds == 0.0);
    let said = |fact: &&SyncFact| matches!(fact, SyncFact::Unavailable(_) | SyncFact::Available);
    let said: Vec<_> = world.facts.iter().filter(said).collect();
    assert!(matches!(&said[..], [SyncFact::Unavailable(_), SyncFact::Available]), "{said:?}");
}

#[test]
fn an_edit_of_what_few_pods_mount_is_late_too_if_all_are_refused() {
    let mut world = World::new(1, 6, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..6).collect();
    world.edit(1);
    let edit = world.version;
    world.run(30 * SECOND);
    let status = world.status();
    assert!((status.lag_seconds > 29.0, status.refused) == (true, 2), "{status:?}");
    world.forbidden.clear();
    world.run(12 * SECOND);
    assert_eq!(world.left(1, edit), 0);
}

#[test]
fn what_is_refused_keeps_no_later_edit_waiting() {
    let mut world = World::new(1, 90, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..90).filter(|pod| pod % MAPS == 1).collect();
    world.edit(1);
    world.run(5 * SECOND);
    world.edit(2);
    let (edit, edited) = (world.version, world.now);
    world.run(8 * SECOND);
    assert_eq!(world.left(2, edit), 0, "its pods are not protected");
    assert!(world.patches[0].0 - edited < SECOND, "{:?}", world.patches[0].0 - edited);
}

/// A policy protects them.
#[test]
fn many_protected_pods_leave_no_other_one_out() {
    let mut world = World::new(1, 90, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..90).filter(|pod| pod % 6 == 1).collect();
    world.edit(1);
    let edit = world.version;
    world.run(30 * SECOND);
    let status = world.status();
    assert_eq!((world.left(1, edit), status.refused, status.lag_seconds), (15, 15, 0.0));
}

#[test]
fn an_object_that_is_deleted_while_all_is_refused_is_not_late() {
    let mut world = World::new(1, 6, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..6).collect();
    world.edit(1);
    world.run(5 * SECOND);
    let state = world.state(1);
    let deleted = Answer::Event(0, WatchEvent::Deleted(state));
    for epoch in world.watches[0].clone() {
        world.on_the_way.push((world.now + MILLI, 0, epoch, deleted.clone()));
    }
    world.run(15 * SECOND);
    let status = world.status();
    assert!(status.lag_seconds == 0.0, "{status:?}");
}

#[test]
fn an_edit_is_left_to_the_kubelets_after_ten_minutes_of_refusals() {
    let mut world = World::new(1, 90, 1);
    world.run(60 * SECOND);
    world.forbidden = (0..90).collect();
    world.edit(1);
    world.run(700 * SECOND);
    let requests = world.requests;
    let status = world.status();
    assert_eq!((status.lag_seconds, status.edit_to_annotated), (0.0, Histogram::default()));
    world.run(60 * SECOND);
    assert!(world.requests - requests < 20, "only its Lease");
}

/// Whoever may write the Lease could otherwise end all work for 68 years.
#[test]
fn the_duration_that_another_one_has_written_has_a_limit() {
    let mut world = World::new(1, 9, 3);
    let forged = json!({
        "kind": "Lease",
        "metadata": {"name": "podnudge-sync", "resourceVersion": "1"},
        "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": i32::MAX},
    });
    world.lease = Some(SyncLease::parse(forged.to_string().as_bytes()).unwrap());
    world.run(3500 * SECOND);
    assert_eq!(world.leader(), None);
    world.run(200 * SECOND);
    assert_eq!(world.leader(), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is edited, whoever is killed and whatever share of the requests is refused: in the end each pod is
    /// annotated for the last edit of what it mounts, and never faster than the rate.
    #[test]
    fn no_edit_is_lost(
        seed: u64,
        refused in 0.0..0.6_f64,
        steps in prop::collection::vec((0..6_u8, 0..MAPS, 0..8000_u64), 1..12),
    ) {
        let mut world = World::new(2, 60, seed);
        world.run(60 * SECOND);
        let first = world.version;
        world.refused = refused;
        let mut last = [None; MAPS];
        for (what, map, pause) in steps {
            match what {
                0 => world.label(map),
                1 => {
                    let replica = map % 2;
                    world.kill(replica);
                    world.run(Duration::from_millis(pause));
                    world.start(replica);
                }
                _ => {
                    world.edit(map);
                    last[map] = Some(world.version);
                }
            }
            world.run(Duration::from_millis(pause));
        }
        // Where more than half of the requests are refused, it asks ever more slowly.
        world.run(900 * SECOND);
        for (map, edit) in last.into_iter().enumerate() {
            if let Some(edit) = edit {
                prop_assert_eq!(world.left(map, edit.max(first)), 0, "of {}", map);
            }
        }
    }
}
