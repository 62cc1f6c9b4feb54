//! The protocol by which replicas share slots: the pure machines against a model of the API server, in virtual
//! time. `tests/cluster.rs` of podnudge has the same with real sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use podnudge_core::agenda::Agenda;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::slots::{Halt, Lease, LeaseRequest, Slots, SlotsSettings, Waiter};

use podnudge_core::command::Intent;
use podnudge_core::event::SlotState;
use podnudge_core::reason::Reason;
use podnudge_core::slots::LONGEST_LEASE;
use podnudge_core::snapshot::Digest;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};

use crate::support::random::Random;
use crate::support::store::{Refusal, Store};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases";
const DURATION: Duration = Duration::from_secs(15);
const A: Digest = Digest([1; 32]);
const B: Digest = Digest([2; 32]);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Carries out a request.
fn perform(store: &mut Store, request: &LeaseRequest) -> Result<Lease, ApiError> {
    let path = format!("{LEASES}/{}", request.name());
    let object = |lease: &Lease| serde_json::from_slice(&lease.body()).unwrap();
    let done = match request {
        LeaseRequest::Read(_) => store.get(&path),
        LeaseRequest::Create(lease) => store.create(LEASES, object(lease)),
        LeaseRequest::Update(lease) => store.replace(&path, object(lease)),
        LeaseRequest::LineUp(_, next) => {
            store.patch(&path, &serde_json::from_slice(&next.patch()).unwrap())
        }
        LeaseRequest::PassOn(pass) => {
            let before = store.get(&path);
            let done = store.patch_if(&path, &serde_json::from_slice(&pass.patch()).unwrap());
            // That is what the model of `podnudge plan` does.
            let modelled = before.ok().and_then(|before| pass.applied_to(parsed(&before)));
            assert_eq!(modelled.is_some(), done.is_ok(), "{done:?} {pass:?}");
            done
        }
    };
    done.map(|object| parsed(&object)).map_err(refused)
}

fn parsed(object: &serde_json::Value) -> Lease {
    Lease::parse(object.to_string().as_bytes()).unwrap()
}

fn refused((status, reason): Refusal) -> ApiError {
    let reason = Reason::new(format!("{status} {reason}"));
    match status {
        404 => ApiError::NotFound(reason),
        409 | 422 => ApiError::Conflict(reason),
        410 => ApiError::Gone(reason),
        429 => ApiError::Throttled(reason, Some(secs(2))),
        403 => ApiError::Refused(reason),
        _ => ApiError::Failed(reason, None),
    }
}

fn unanswered() -> ApiError {
    ApiError::Unanswered(Reason::new("no route"))
}

/// The Leases of this many slots, which nobody holds.
fn shipped(count: u32) -> Store {
    let mut store = Store::default();
    for n in 0..count {
        let lease = serde_json::json!({"metadata": {"name": format!("web-{n}")}, "spec": {}});
        store.create(LEASES, lease).unwrap();
    }
    store
}

fn holders(store: &Store) -> Vec<String> {
    let leases = store.below(LEASES);
    leases
        .iter()
        .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned())
        .collect()
}

fn halted(store: &Store) -> Vec<Digest> {
    let lease = store.get(&format!("{LEASES}/web-0")).unwrap();
    let halts = Lease::parse(lease.to_string().as_bytes()).unwrap().halts();
    halts.into_iter().map(|halt| halt.digest).collect()
}

fn request_has_halts(request: &LeaseRequest) -> bool {
    match request {
        LeaseRequest::Read(_) | LeaseRequest::LineUp(..) | LeaseRequest::PassOn(_) => false,
        LeaseRequest::Create(lease) | LeaseRequest::Update(lease) => !lease.halts().is_empty(),
    }
}

fn settings(holder: &str, count: u32, seed: u64) -> SlotsSettings {
    SlotsSettings {
        name: "web".to_owned(),
        count,
        duration: DURATION,
        cover: DURATION,
        holder: holder.to_owned(),
        seed,
    }
}

/// One replica, whose requests are answered at once.
struct Replica {
    slots: Slots,
    now: Duration,
}

impl Replica {
    fn new(holder: &str, count: u32, seed: u64) -> Self {
        let slots = Slots::new(settings(holder, count, seed), Moment(secs(1000)));
        Self { slots, now: secs(1000) }
    }

    fn now(&self) -> Now {
        Now { mono: Moment(self.now), wall: UnixTime(self.now) }
    }

    fn claim(&mut self, digest: Digest) {
        self.slots.claim(self.now(), digest, Intent::Act);
    }

    fn keep(&mut self, digest: Digest) {
        self.slots.claim(self.now(), digest, Intent::Keep);
    }

    fn state(&self) -> SlotState {
        self.slots.state(Moment(self.now))
    }

    /// Sends what is due within a moment, as long as a replica leaves a slot to others at first, and returns how many
    /// requests that were.
    fn run(&mut self, store: &mut Store) -> usize {
        self.run_by(|request| perform(store, request))
    }

    fn run_by(&mut self, perform: impl FnMut(&LeaseRequest) -> Result<Lease, ApiError>) -> usize {
        self.play(ms(1100), perform)
    }

    /// Plays until it knows that another one has its slot, at most as long as that stays taken.
    fn play_until_lost(&mut self, store: &mut Store) -> Reason {
        let end = self.now + DURATION + secs(1);
        while self.now < end {
            self.play(ms(100), |request| perform(store, request));
            if let SlotState::Lost(reason) = self.state()
                && reason.message.contains("taken")
            {
                return reason;
            }
        }
        panic!("{:?}", self.state());
    }

    /// The next request, at its time.
    fn next_request(&mut self) -> LeaseRequest {
        loop {
            self.refuse_watch();
            if let Some(request) = self.slots.next_request(self.now()) {
                return request;
            }
            let Moment(at) = self.slots.next_wakeup(Moment(self.now)).expect("it has more to do");
            self.now = at.max(self.now + Duration::from_nanos(1));
        }
    }

    /// A replica that has an old Role looks for slots instead.
    fn refuse_watch(&mut self) {
        if let Some((_, true)) = self.slots.watched(Moment(self.now)) {
            let refused = Err(ApiError::Refused(Reason::new("it may not watch")));
            self.slots.watch_ended(Moment(self.now), &refused);
        }
    }

    fn send_due(
        &mut self,
        mut perform: impl FnMut(&LeaseRequest) -> Result<Lease, ApiError>,
    ) -> usize {
        let mut sent = 0;
        loop {
            self.refuse_watch();
            let Some(request) = self.slots.next_request(self.now()) else { break };
            self.now += ms(1);
            self.slots.handle(self.now(), perform(&request));
            sent += 1;
            assert!(sent < 100, "it does not stop");
        }
        sent
    }

    /// Plays this time.
    fn play(
        &mut self,
        time: Duration,
        mut perform: impl FnMut(&LeaseRequest) -> Result<Lease, ApiError>,
    ) -> usize {
        let end = self.now + time;
        let mut sent = 0;
        loop {
            sent += self.send_due(&mut perform);
            match self.slots.next_wakeup(Moment(self.now)) {
                Some(Moment(at)) if at < end => {
                    self.now = at.max(self.now + Duration::from_nanos(1));
                }
                _ => {
                    self.now = end;
                    return sent;
                }
            }
        }
    }

    fn holds(&self) -> Option<String> {
        match self.state() {
            SlotState::Held { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

/// Of two slots, this replica holds the second, to act with A.
fn holder_of_the_second_slot() -> (Store, Replica) {
    let mut store = shipped(2);
    let mut one = Replica::new("web-1_u_r", 2, 1);
    one.claim(A);
    one.run(&mut store);
    assert_eq!(one.holds().as_deref(), Some("web-1"));
    (store, one)
}

fn waiting(state: &SlotState) -> String {
    match state {
        SlotState::Waiting(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slot_is_taken_renewed_and_given_back_and_nothing_is_sent_without_a_claim() {
    let (mut store, mut one, mut other) =
        (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
    // It looks once whether there is a Lease.
    assert_eq!(one.play(secs(4), |request| perform(&mut store, request)), 1);
    assert_eq!((one.run(&mut store), one.slots.next_wakeup(Moment(one.now))), (0, None));
    assert_eq!(one.state(), SlotState::Free);
    one.claim(A);
    assert_eq!(one.state(), SlotState::Free, "it is asked for the first time");
    assert_eq!(one.run(&mut store), 2);
    assert_eq!(one.holds().as_deref(), Some("web-0"));
    other.claim(A);
    other.run(&mut store);
    assert_eq!(waiting(&other.state()), "waits for a slot: pod a holds `web-0`");
    // Held for much longer than the duration of the Lease.
    for _ in 0..100 {
        one.play(ms(1500), |request| perform(&mut store, request));
        other.play(ms(1500), |request| perform(&mut store, request));
        assert!(one.holds().is_some() && other.holds().is_none());
    }
    let lease = store.get(&format!("{LEASES}/web-0")).unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    one.slots.release();
    // Another one may be next by now.
    assert_eq!((one.run(&mut store), holders(&store)), (2, vec![String::new()]));
    assert_eq!((one.state(), one.slots.next_wakeup(Moment(one.now))), (SlotState::Free, None));
    other.play(DURATION, |request| perform(&mut store, request));
    assert_eq!(other.holds().as_deref(), Some("web-0"));
}

#[test]
fn a_slot_that_is_not_wanted_any_more_when_the_answer_arrives_is_given_back() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    let mut sent = Vec::new();
    for _ in 0..2 {
        sent.push(one.next_request());
        if let [_, _] = sent.as_slice() {
            one.slots.release();
        }
        let answer = perform(&mut store, sent.last().unwrap());
        one.slots.handle(one.now(), answer);
    }
    assert!(matches!(sent[1], LeaseRequest::Update(_)));
    assert_eq!(holders(&store), ["a"]);
    assert_eq!((one.run(&mut store), holders(&store)), (1, vec![String::new()]));
    // Also if the answer is lost: podnudge looks whether it has got it.
    one.claim(A);
    let read = one.next_request();
    one.slots.handle(one.now(), perform(&mut store, &read));
    let take = one.next_request();
    perform(&mut store, &take).unwrap();
    one.slots.release();
    one.slots.handle(one.now(), Err(ApiError::Unanswered(Reason::new("cut"))));
    assert_eq!(holders(&store), ["a"]);
    one.play(secs(2), |request| perform(&mut store, request));
    assert_eq!(holders(&store), [""]);
    assert_eq!(one.slots.next_wakeup(Moment(one.now)), None);
}

/// By the own clock, from the sending of the last request that succeeded; another replica needs the whole
/// duration.
#[test]
fn a_holder_that_cannot_renew_stops_before_another_replica_can_take_the_slot() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    let SlotState::Held { until: Moment(until), .. } = one.state() else {
        panic!("{:?}", one.state())
    };
    let taken = until - DURATION / 5 * 4;
    let down = |_: &LeaseRequest| Err(ApiError::Unanswered(Reason::new("no route")));
    one.play(until - ms(10) - one.now, down);
    assert_eq!(one.holds().as_deref(), Some("web-0"));
    one.play(ms(10), down);
    let SlotState::Lost(reason) = one.state() else { panic!("{:?}", one.state()) };
    assert_eq!(reason.to_string(), "the slot `web-0` could not be renewed in time: no route");
    assert!(one.now - taken < DURATION);
    // Nobody has taken it meanwhile: it is held again.
    one.play(secs(5), |request| perform(&mut store, request));
    assert!(one.holds().is_some());
    // Another replica takes it; the first one says who, and waits for its end.
    one.play(DURATION, down);
    let mut other = Replica::new("b_uid_rule", 1, 2);
    other.claim(A);
    other.play(DURATION + secs(1), |request| perform(&mut store, request));
    assert!(other.holds().is_some());
    let reason = one.play_until_lost(&mut store);
    assert_eq!(reason.to_string(), "the slot `web-0` was taken by pod b");
    other.slots.release();
    other.run(&mut store);
    one.play(DURATION, |request| perform(&mut store, request));
    assert!(one.holds().is_some());
}

/// Also after it has lost a slot: `on-unreachable = "act"` is about that.
#[test]
fn a_replica_that_has_lost_its_slot_says_that_the_server_is_unreachable_and_then_waits_again() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    let down = |_: &LeaseRequest| Err(ApiError::Unanswered(Reason::new("no route")));
    one.play(DURATION / 5 * 4 + secs(1), down);
    assert!(matches!(one.state(), SlotState::Lost(_)), "{:?}", one.state());
    // A whole duration without an answer.
    one.play(DURATION, down);
    assert_eq!(one.state(), SlotState::Unreachable(Reason::new("no route")));
    // Another replica has taken it meanwhile.
    let mut other = Replica::new("b", 1, 2);
    other.claim(A);
    other.play(DURATION + secs(1), |request| perform(&mut store, request));
    assert!(other.holds().is_some());
    let reason = one.play_until_lost(&mut store);
    assert_eq!(reason.to_string(), "the slot `web-0` was taken by pod b");
    one.play(DURATION * 2, down);
    assert_eq!(one.state(), SlotState::Unreachable(Reason::new("no route")));
}

#[test]
fn the_time_of_a_slot_counts_from_the_sending_of_the_request() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    let read = one.next_request();
    one.slots.handle(one.now(), perform(&mut store, &read));
    let (take, sent) = (one.next_request(), one.now);
    let answer = perform(&mut store, &take);
    one.now += secs(3);
    one.slots.handle(one.now(), answer);
    assert!(one.holds().is_some());
    let until = sent + DURATION / 5 * 4;
    let state = |at| one.slots.state(Moment(at));
    assert!(matches!(state(until - ms(1)), SlotState::Held { .. }));
    assert!(matches!(state(until), SlotState::Lost(_)));
}

/// The times in a Lease say that it has expired long ago, or is held for another hour.
#[test]
fn a_slot_expires_by_observation_and_not_by_the_times_in_it() {
    for skew in [secs(0), secs(3600)] {
        let (mut store, mut one, mut other) =
            (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
        one.now = skew;
        one.claim(A);
        one.run(&mut store);
        other.claim(A);
        other.play(DURATION - ms(1), |request| perform(&mut store, request));
        assert_eq!(other.holds(), None);
        other.play(ms(1100), |request| perform(&mut store, request));
        assert!(other.holds().is_some());
    }
}

/// Any client that may write the Lease may give it any duration.
#[test]
fn a_slot_of_another_holder_expires_after_the_longest_duration_that_can_be_set() {
    let (mut store, mut one, mut other) =
        (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
    one.claim(A);
    one.run(&mut store);
    let mut lease = store.get(&format!("{LEASES}/web-0")).unwrap();
    lease["spec"]["leaseDurationSeconds"] = i32::MAX.into();
    perform(&mut store, &LeaseRequest::Update(Lease::parse(lease.to_string().as_bytes()).unwrap()))
        .unwrap();
    other.claim(A);
    other.play(LONGEST_LEASE - ms(1), |request| perform(&mut store, request));
    assert_eq!(other.holds(), None);
    other.play(ms(1100), |request| perform(&mut store, request));
    assert!(other.holds().is_some());
}

/// A proxy may keep a watch open that tells nothing any more.
#[test]
fn a_watch_that_falls_silent_is_noticed_at_the_first_write_that_it_should_have_told_about() {
    let (mut store, mut one, mut other) =
        (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
    one.claim(A);
    one.run(&mut store);
    for n in 0..8 {
        let next = Waiter { holder: format!("c{n}"), token: n.to_string(), offered: None };
        perform(&mut store, &LeaseRequest::LineUp("web-0".to_owned(), next)).unwrap();
    }
    other.claim(A);
    other.now += secs(1);
    assert_eq!(other.slots.watched(Moment(other.now)), Some(("web-0", true)));
    let lease = store.get(&format!("{LEASES}/web-0")).unwrap();
    let lease = Arc::new(Lease::parse(lease.to_string().as_bytes()).unwrap());
    other.slots.watch_opened(Moment(other.now));
    other.slots.watch_seen(Moment(other.now), Some(&lease));
    // It is renewed, which the watch does not tell.
    one.play(secs(9), |request| perform(&mut store, request));
    let mut conflicts = 0;
    let sent = other.play(DURATION + secs(5), |request| {
        let answer = perform(&mut store, request);
        conflicts += usize::from(matches!(answer, Err(ApiError::Conflict(_))));
        answer
    });
    assert_eq!(conflicts, 1);
    assert_eq!(waiting(&other.state()), "waits for a slot: pod a holds `web-0`");
    assert_eq!(sent, 2);
}

/// While the API server is away, the holder cannot renew: it gets the time to do so afterwards.
#[test]
fn after_an_outage_of_the_server_a_holder_has_its_whole_time_to_renew() {
    let (mut store, mut one, mut other) =
        (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
    one.claim(A);
    one.run(&mut store);
    other.claim(A);
    other.run(&mut store);
    let down = |_: &LeaseRequest| Err(ApiError::Unanswered(Reason::new("down")));
    one.play(secs(60), down);
    other.play(secs(60), down);
    assert!(matches!(other.state(), SlotState::Unreachable(_)), "{:?}", other.state());
    // The other one is first, and sees that nothing has changed for a minute.
    other.play(DURATION - secs(1), |request| perform(&mut store, request));
    assert_eq!(other.holds(), None);
    one.play(secs(5), |request| perform(&mut store, request));
    assert!(one.holds().is_some());
}

#[test]
fn a_restarted_podnudge_takes_over_its_own_slot_at_once_and_another_pod_of_the_same_name_does_not()
{
    for count in 1..=3 {
        let mut store = shipped(count);
        for n in 0..count {
            let mut one = Replica::new(&format!("web-{n}_uid_rule"), count, u64::from(n) * 7);
            one.claim(A);
            one.play(DURATION * 2, |request| perform(&mut store, request));
            assert!(one.holds().is_some());
        }
        let mut again = Replica::new("web-0_uid_rule", count, 5);
        again.claim(A);
        again.run(&mut store);
        assert!(again.holds().is_some(), "{count}");
        let mut other = Replica::new("web-0_other_rule", count, 5);
        other.claim(A);
        other.run(&mut store);
        assert_eq!(other.holds(), None);
    }
}

/// Wherever its search begins: not another one that is free.
#[test]
fn a_restarted_podnudge_takes_its_own_slot_also_where_others_are_free() {
    for seed in 0..3 {
        let (mut store, mut one) = (shipped(3), Replica::new("a", 3, 0));
        one.claim(A);
        one.run(&mut store);
        let mut again = Replica::new("a", 3, seed);
        again.claim(A);
        again.run(&mut store);
        assert_eq!(again.holds(), one.holds());
        assert_eq!(holders(&store).concat(), "a");
    }
}

#[test]
fn the_slot_that_is_tried_first_is_spread_over_the_replicas() {
    let first = |n| {
        let mut one = Replica::new(&format!("web-7d9f-{n}"), 4, 1);
        one.claim(A);
        one.next_request().name().to_owned()
    };
    assert_eq!((0..30).map(first).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn a_digest_that_failed_on_a_replica_is_halted_on_the_others_until_it_is_cleared() {
    for count in [1, 2] {
        let mut store = shipped(count);
        // The second slot, if there is one: the digests are with the first.
        let mut failed = Replica::new("web-1_u_r", count, 1);
        let mut other = Replica::new("b", count, 0);
        failed.claim(A);
        failed.run(&mut store);
        assert!(failed.holds().is_some());
        failed.slots.halt(failed.now(), A, &Reason::new("the target\nended").hint("no"));
        let slot = failed.holds().unwrap();
        failed.slots.release();
        let mut sent = Vec::new();
        failed.run_by(|request| {
            sent.push(request.clone());
            perform(&mut store, request)
        });
        // Whoever gets the slot next knows of it.
        let told = |request: &LeaseRequest| matches!(request, LeaseRequest::Update(it) | LeaseRequest::Create(it) if !it.halts().is_empty());
        let given_back = |request: &LeaseRequest| match request {
            LeaseRequest::Update(it) => it.name() == slot && it.holder().is_none(),
            _ => false,
        };
        let at = |is: &dyn Fn(&LeaseRequest) -> bool| sent.iter().position(is).unwrap();
        assert!(at(&told) < at(&given_back), "{sent:?}");
        assert!(holders(&store).iter().all(String::is_empty));
        other.claim(A);
        other.run(&mut store);
        let SlotState::Halted(digest, reason) = other.state() else {
            panic!("{:?}", other.state())
        };
        assert_eq!(digest, A);
        let message =
            "this content failed on pod web-1 at 1970-01-01T00:16:40.002000Z: the target ended";
        assert!(
            reason.message.starts_with(&message[..35])
                && reason.message.ends_with("the target ended")
        );
        // It does not keep the slot.
        assert!(holders(&store).iter().all(String::is_empty), "{:?}", holders(&store));
        // Other content is not halted.
        other.claim(B);
        other.run(&mut store);
        assert!(other.holds().is_some());
        other.claim(A);
        other.run(&mut store);
        assert!(matches!(other.state(), SlotState::Halted(..)));
        // A person triggers it there: for the others it stays halted.
        other.slots.try_halted(other.now(), A);
        assert!(!matches!(other.state(), SlotState::Halted(..)), "{:?}", other.state());
        other.run(&mut store);
        assert!(other.holds().is_some(), "{:?}", other.state());
        assert_eq!(halted(&store), [A]);
        // It works.
        other.slots.clear_halt(A);
        other.slots.release();
        other.run(&mut store);
        assert_eq!((halted(&store), holders(&store).concat()), (Vec::new(), String::new()));
        failed.claim(A);
        failed.run(&mut store);
        assert!(failed.holds().is_some(), "{:?}", failed.state());
    }
}

#[test]
fn what_failed_is_reported_as_written_once_the_lease_has_it() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.slots.halt(one.now(), A, &Reason::new("x"));
    one.run_by(|_| Err(ApiError::Unanswered(Reason::new("no route"))));
    assert_eq!((one.slots.take_written(), one.slots.is_telling()), (Vec::new(), false));
    one.play(DURATION, |request| perform(&mut store, request));
    assert_eq!((one.slots.take_written(), halted(&store)), (vec![A], vec![A]));
    assert_eq!(one.slots.take_written(), []);
    // Another podnudge has written it, and was killed before it knew.
    let mut again = Replica::new("a", 1, 1);
    again.slots.halt(again.now(), A, &Reason::new("x"));
    assert!(again.slots.is_telling());
    again.run(&mut store);
    assert_eq!((again.slots.take_written(), again.slots.is_telling()), (vec![A], false));
    // What works after all is not written.
    again.claim(B);
    again.slots.halt(again.now(), B, &Reason::new("y"));
    again.slots.clear_halt(B);
    again.run(&mut store);
    assert_eq!((again.slots.take_written(), halted(&store)), (Vec::new(), vec![A]));
}

/// A webhook, or a proxy, that drops the annotation and answers 200.
#[test]
fn what_failed_is_written_ever_more_rarely_if_the_server_does_not_keep_it() {
    let keeps_no_halts = |store: &mut Store, request: &LeaseRequest| {
        let request = match request.clone() {
            LeaseRequest::Create(lease) => LeaseRequest::Create(lease.with_halts(&[])),
            LeaseRequest::Update(lease) => LeaseRequest::Update(lease.with_halts(&[])),
            other => other,
        };
        perform(store, &request)
    };
    // Also while a slot is held, whose renewals succeed.
    for claimed in [None, Some(B)] {
        let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
        if let Some(digest) = claimed {
            one.claim(digest);
        }
        one.play(secs(1), |request| perform(&mut store, request));
        one.slots.halt(one.now(), A, &Reason::new("x"));
        let mut told = 0;
        one.play(secs(600), |request| {
            told += usize::from(request_has_halts(request));
            keeps_no_halts(&mut store, request)
        });
        assert!((5..30).contains(&told), "{told} requests in ten minutes");
        assert_eq!((one.slots.take_written(), one.slots.is_telling()), (Vec::new(), false));
        assert_eq!(one.holds().is_some(), claimed.is_some());
        // The slot can be given back, and taken by others, meanwhile.
        one.slots.release();
        one.play(secs(1), |request| keeps_no_halts(&mut store, request));
        assert!(holders(&store).iter().all(String::is_empty));
        assert!(!one.slots.is_busy(Moment(one.now)));
        // What fails next is written at once.
        one.slots.halt(one.now(), B, &Reason::new("x"));
        one.run(&mut store);
        assert_eq!((one.slots.take_written(), halted(&store)), (vec![A, B], vec![A, B]));
    }
}

#[test]
fn a_slot_that_stays_in_the_own_name_is_given_back_ever_more_rarely() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    one.slots.release();
    let mut sent = 0;
    one.play(secs(10), |request| {
        sent += 1;
        perform(&mut store, &LeaseRequest::Read(request.name().to_owned()))
    });
    assert!((2..20).contains(&sent), "{sent} requests in ten seconds");
}

/// The application has not recovered from an action with content that failed here, or elsewhere meanwhile: another
/// replica must not act.
#[test]
fn a_slot_that_is_only_kept_is_not_refused_because_the_content_failed() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    one.slots.halt(one.now(), A, &Reason::new("the target ended"));
    one.run(&mut store);
    // podnudge is killed. The next one knows of the action, and not of the halt.
    let mut again = Replica::new("a", 1, 1);
    again.keep(A);
    again.run(&mut store);
    assert_eq!((again.holds().as_deref(), halted(&store)), (Some("web-0"), vec![A]));
    // It is lost, and taken again.
    let down = |_: &LeaseRequest| Err(ApiError::Unanswered(Reason::new("no route")));
    again.play(DURATION, down);
    assert_eq!(again.holds(), None);
    again.play(secs(5), |request| perform(&mut store, request));
    assert!(again.holds().is_some(), "{:?}", again.state());
    // To act with it again is refused. That does not cost the slot, which is still needed.
    again.claim(A);
    let read = again.slots.next_request(again.now()).unwrap();
    again.slots.handle(again.now(), perform(&mut store, &read));
    assert!(matches!(again.state(), SlotState::Halted(..)), "{:?}", again.state());
    again.keep(A);
    again.run_by(|request| {
        let holder = match request {
            LeaseRequest::Update(lease) => lease.holder(),
            request => panic!("{request:?}"),
        };
        assert_eq!(holder, Some("a"));
        perform(&mut store, request)
    });
    assert!(again.holds().is_some(), "{:?}", again.state());
}

/// Content that works on one of them, and fails on another one that has tried it, too.
#[test]
fn content_that_works_on_one_replica_stays_halted_if_it_has_failed_again_on_another_one() {
    let (mut store, mut one, mut other) =
        (shipped(2), Replica::new("a", 2, 0), Replica::new("b", 2, 1));
    one.slots.halt(one.now(), A, &Reason::new("x"));
    one.run(&mut store);
    // Its own failure is no reason for it to forget what it has seen.
    for replica in [&mut one, &mut other] {
        replica.claim(A);
        replica.slots.try_halted(replica.now(), A);
        replica.run(&mut store);
        assert!(replica.holds().is_some(), "{:?}", replica.state());
    }
    other.now += secs(1);
    other.slots.halt(other.now(), A, &Reason::new("y"));
    other.slots.release();
    other.run(&mut store);
    one.slots.clear_halt(A);
    one.slots.release();
    one.run(&mut store);
    assert_eq!(halted(&store), [A]);
    // The trigger was for that one time.
    one.claim(A);
    one.play(secs(5), |request| perform(&mut store, request));
    assert!(matches!(one.state(), SlotState::Halted(..)), "{:?}", one.state());
}

#[test]
fn a_replica_that_waits_because_of_a_halt_goes_on_when_it_works_on_another_one() {
    let (mut store, mut one, mut other) =
        (shipped(1), Replica::new("a", 1, 1), Replica::new("b", 1, 2));
    one.slots.halt(one.now(), A, &Reason::new("x"));
    one.run(&mut store);
    other.claim(A);
    other.run(&mut store);
    let mut sent = 0;
    other.play(secs(600), |request| {
        sent += 1;
        perform(&mut store, request)
    });
    assert!((10..=30).contains(&sent), "{sent} looks in ten minutes");
    one.claim(A);
    one.slots.try_halted(one.now(), A);
    one.run(&mut store);
    one.slots.clear_halt(A);
    one.slots.release();
    one.run(&mut store);
    other.play(secs(60), |request| perform(&mut store, request));
    assert!(other.holds().is_some());
}

/// What every replica has is broken: only as many are hurt as may act at the same time.
#[test]
fn a_digest_that_breaks_the_application_reaches_as_many_replicas_as_there_are_slots() {
    for count in [1, 2] {
        let mut store = shipped(count);
        let mut replicas: Vec<Replica> =
            (0..50).map(|n| Replica::new(&format!("web-{n}"), count, n * 3)).collect();
        let mut hurt = BTreeMap::new();
        for one in &mut replicas {
            one.claim(A);
        }
        for step in 0..600_u64 {
            for (n, one) in replicas.iter_mut().enumerate() {
                one.play(ms(200), |request| perform(&mut store, request));
                if one.holds().is_some() && step - *hurt.entry(n).or_insert(step) == 10 {
                    one.slots.halt(one.now(), A, &Reason::new("the target ended"));
                    one.slots.release();
                }
            }
        }
        assert_eq!(hurt.len(), usize::try_from(count).unwrap());
        assert!(holders(&store).iter().all(String::is_empty));
        // New content reaches all.
        let mut done = BTreeSet::new();
        for one in &mut replicas {
            one.claim(B);
        }
        for _ in 0..2500 {
            for (n, one) in replicas.iter_mut().enumerate() {
                one.play(ms(100), |request| perform(&mut store, request));
                if one.holds().is_some() {
                    done.insert(n);
                    one.slots.release();
                }
            }
        }
        assert_eq!(done.len(), 50);
    }
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it_and_is_not_unreachable() {
    let mut one = Replica::new("a", 1, 1);
    one.claim(A);
    let mut sent = 0;
    one.play(secs(60), |_| {
        sent += 1;
        Err(ApiError::Throttled(Reason::new("429"), Some(secs(10))))
    });
    assert!((5..=7).contains(&sent), "{sent} requests in a minute");
    assert_eq!(waiting(&one.state()), "429");
}

/// A replica may read, but not write: that it can read must not hide it, nor make it try all the time.
#[test]
fn a_right_that_is_missing_is_said_and_asked_for_ever_more_rarely() {
    let mut one = Replica::new("a", 1, 1);
    one.claim(A);
    let mut sent = 0;
    let mut perform = |request: &LeaseRequest| {
        sent += 1;
        Err(match request {
            LeaseRequest::Read(_) => ApiError::NotFound(Reason::new("404")),
            _ => ApiError::Refused(Reason::new("403")),
        })
    };
    one.play(DURATION - secs(1), &mut perform);
    assert_eq!(waiting(&one.state()), "403");
    one.play(secs(600), &mut perform);
    // An answer is no outage: `on-unreachable = "act"` does not apply.
    assert_eq!(waiting(&one.state()), "403");
    assert!(sent < 120, "{sent} requests in ten minutes");
}

#[test]
fn another_lease_than_the_one_that_was_asked_for_is_no_slot() {
    let mut one = Replica::new("a", 1, 1);
    one.claim(A);
    let mut other = Store::default();
    other.create(LEASES, serde_json::json!({"metadata": {"name": "x"}, "spec": {}})).unwrap();
    one.play(secs(20), |_| perform(&mut other, &LeaseRequest::Read("x".to_owned())));
    assert!(waiting(&one.state()).starts_with("the API server has answered with another Lease"));
}

/// The Lease with this name, as the server has it.
fn stored(store: &Store, name: &str) -> Arc<Lease> {
    let lease = store.get(&format!("{LEASES}/{name}")).unwrap();
    Arc::new(Lease::parse(lease.to_string().as_bytes()).unwrap())
}

impl Replica {
    /// Opens the watch of its home, which tells its state, and returns the name.
    fn watch(&mut self, store: &Store) -> String {
        while self.slots.watched(Moment(self.now)).is_none() {
            let Moment(at) = self.slots.next_wakeup(Moment(self.now)).expect("it waits");
            self.now = at.max(self.now + Duration::from_nanos(1));
        }
        let name = self.slots.watched(Moment(self.now)).unwrap().0.to_owned();
        self.slots.watch_opened(Moment(self.now));
        self.told(store, &name);
        name
    }

    /// Plays with a watch of the second Lease.
    fn play_watched(&mut self, store: &mut Store, time: Duration) -> usize {
        let mut sent = 0;
        let end = self.now + time;
        while self.now < end {
            if self.slots.watched(Moment(self.now)).is_some_and(|(_, is_new)| is_new) {
                self.slots.watch_opened(Moment(self.now));
            }
            self.told(store, "web-1");
            if let Some(request) = self.slots.next_request(self.now()) {
                self.slots.handle(self.now(), perform(store, &request));
                sent += 1;
            }
            self.now += ms(10);
        }
        sent
    }

    /// The watch of this replica tells the present state.
    fn told(&mut self, store: &Store, name: &str) {
        self.slots.watch_seen(Moment(self.now), Some(&stored(store, name)));
    }
}

/// The watch of the one that is next has fallen silent: it is not told that the slot was passed on.
#[test]
fn whoever_is_next_finds_out_without_its_watch_that_the_slot_was_passed_on() {
    let (mut store, mut next) = passed_on_unseen();
    let sent = next.play(DURATION + secs(1), |request| perform(&mut store, request));
    assert_eq!(next.holds().as_deref(), Some("web-0"));
    assert!(sent <= 3, "{sent}");
}

/// The slot was passed on to the replica that is returned, which has not been told so.
fn passed_on_unseen() -> (Store, Replica) {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    let mut next = Replica::new("b", 1, 2);
    next.claim(A);
    next.watch(&store);
    next.play(secs(1), |request| perform(&mut store, request));
    one.now = next.now;
    one.slots.release();
    one.run(&mut store);
    assert_eq!((holders(&store), next.holds()), (vec!["b".to_owned()], None));
    (store, next)
}

/// The replica that is returned has the slot, needs it no more, and is about to pass it on to `b`.
fn released_while_another_waits() -> (Store, Replica) {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.watch(&store);
    one.play(secs(1), |request| perform(&mut store, request));
    let mut next = Replica::new("b", 1, 2);
    next.now = one.now;
    next.claim(A);
    next.watch(&store);
    next.play(secs(1), |request| perform(&mut store, request));
    one.now = next.now;
    one.told(&store, "web-0");
    one.slots.release();
    (store, one)
}

/// A request that arrives late must not pass on a slot that is used again, and renewed.
#[test]
fn a_slot_that_is_claimed_again_is_not_passed_on_by_a_request_that_arrives_late() {
    let (mut store, mut one) = released_while_another_waits();
    let late = one.next_request();
    assert!(matches!(late, LeaseRequest::PassOn(_)), "{late:?}");
    one.slots.handle(one.now(), Err(unanswered()));
    one.claim(A);
    one.play(secs(4), |request| perform(&mut store, request));
    assert_eq!((holders(&store), one.holds().as_deref()), (vec!["a".to_owned()], Some("web-0")));
    assert!(matches!(perform(&mut store, &late), Err(ApiError::Conflict(_))));
    assert_eq!(holders(&store), ["a"]);
}

/// The first look for the Lease comes soon after the start.
#[test]
fn a_look_that_is_not_answered_does_not_delay_the_end_of_podnudge() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.now += secs(5);
    assert!(matches!(one.next_request(), LeaseRequest::Read(_)));
    assert!(!one.slots.is_busy(Moment(one.now)));
    one.slots.handle(one.now(), Err(unanswered()));
    one.claim(A);
    one.play(secs(30), |request| perform(&mut store, request));
    one.slots.release();
    assert!(one.slots.is_busy(Moment(one.now)), "the slot is to be given back");
}

/// The API server gives the same answer, 422, if a condition of the patch does not hold.
#[test]
fn an_admission_policy_that_refuses_the_patch_does_not_keep_a_slot_taken() {
    let (mut store, mut one) = released_while_another_waits();
    let mut patches = 0;
    one.play(secs(2), |request| match request {
        LeaseRequest::PassOn(_) => {
            patches += 1;
            Err(refused((422, "Invalid")))
        }
        request => perform(&mut store, request),
    });
    assert_eq!((holders(&store), patches), (vec!["b".to_owned()], 1));
}

/// A busy API server ends the watches that it cannot serve in time, of all replicas at once.
#[test]
fn whoever_is_next_finds_out_within_a_second_of_the_end_of_its_watch_that_the_slot_was_passed_on() {
    let (mut store, mut next) = passed_on_unseen();
    next.slots.watch_ended(Moment(next.now), &Ok(()));
    next.play(secs(1), |request| perform(&mut store, request));
    assert_eq!(next.holds().as_deref(), Some("web-0"));
}

/// The Role names the first Lease only.
#[test]
fn a_replica_whose_lease_the_role_does_not_name_takes_another_slot() {
    let mut store = shipped(3);
    let mut one = Replica::new("web-1_u_r", 3, 1);
    one.claim(A);
    one.play(secs(60), |request| match request.name() {
        "web-0" => perform(&mut store, request),
        _ => Err(refused((403, "Forbidden"))),
    });
    assert_eq!(one.holds().as_deref(), Some("web-0"));
}

/// Whoever holds it has a longer duration than the replica that creates it again.
#[test]
fn a_lease_that_was_deleted_stays_taken_for_as_long_as_its_last_holder_may_hold_it() {
    let (mut store, mut other) = (shipped(1), Replica::new("b", 1, 2));
    let lease = stored(&store, "web-0").as_ref().clone();
    let longer = lease.held_by("a", secs(60), UnixTime::default());
    perform(&mut store, &longer.write()).unwrap();
    other.claim(A);
    other.run(&mut store);
    store.delete(&format!("{LEASES}/web-0")).unwrap();
    let end = other.now + secs(60);
    while other.now < end {
        other.play(ms(500), |request| perform(&mut store, request));
        assert_eq!(other.holds(), None);
    }
    other.play(secs(30), |request| perform(&mut store, request));
    assert_eq!(other.holds().as_deref(), Some("web-0"));
}

/// A new configuration with a longer duration is rolled out: whoever passes the slot on writes the shorter one.
#[test]
fn a_slot_that_was_passed_on_for_a_shorter_time_than_the_own_one_is_not_held_for_longer() {
    let mut store = shipped(1);
    let (mut one, mut third) = (Replica::new("a", 1, 1), Replica::new("c", 1, 3));
    one.claim(A);
    one.run(&mut store);
    let mut next = Replica::new("b", 1, 2);
    let longer = SlotsSettings { duration: secs(60), cover: secs(60), ..settings("b", 1, 2) };
    next.slots = Slots::new(longer, Moment(next.now));
    next.claim(A);
    let name = next.watch(&store);
    next.play(secs(1), |request| perform(&mut store, request));
    one.now = next.now;
    one.slots.release();
    one.run(&mut store);
    assert_eq!(holders(&store), ["b"]);
    next.told(&store, &name);
    third.now = next.now;
    third.claim(A);
    // The next one is cut off from now on.
    let down = |_: &LeaseRequest| Err(unanswered());
    for _ in 0..400 {
        next.play(ms(100), down);
        third.play(ms(100), |request| perform(&mut store, request));
        assert!(next.holds().is_none() || third.holds().is_none(), "two of one");
    }
    assert!(third.holds().is_some());
}

/// podnudge stood still meanwhile, as on a node without memory, and its watch tells first what has become of the slot.
#[test]
fn a_renewal_that_is_answered_late_does_not_take_the_slot_from_whoever_has_it_now() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    let name = one.watch(&store);
    one.run(&mut store);
    one.told(&store, &name);
    assert!(one.holds().is_some());
    let renewal = one.next_request();
    let answer = perform(&mut store, &renewal);
    let mut other = Replica::new("b", 1, 2);
    other.now = one.now;
    other.claim(A);
    other.play(DURATION + secs(1), |request| perform(&mut store, request));
    assert!(other.holds().is_some());
    one.now = other.now;
    one.told(&store, &name);
    one.slots.handle(one.now(), answer);
    assert!(matches!(one.state(), SlotState::Lost(_)), "{:?}", one.state());
    for _ in 0..100 {
        one.play(ms(100), |request| perform(&mut store, request));
        other.play(ms(100), |request| perform(&mut store, request));
        assert_eq!((one.holds(), other.holds().is_some()), (None, true), "two of one");
        one.told(&store, &name);
    }
}

/// Another one that had the slot meanwhile may have failed.
#[test]
fn what_failed_is_read_again_after_a_slot_was_lost() {
    let (mut store, mut one) = holder_of_the_second_slot();
    let write = |store: &mut Store, lease: Lease| perform(store, &lease.write()).unwrap();
    let wall = UnixTime::default();
    let first = stored(&store, "web-0").as_ref().clone();
    write(&mut store, first.held_by("web-2_u_r", LONGEST_LEASE, wall));
    let lease = stored(&store, "web-1").as_ref().clone();
    write(&mut store, lease.held_by("web-3_u_r", DURATION, wall));
    assert!(one.play_until_lost(&mut store).message.contains("taken"));
    one.play_watched(&mut store, ms(500));
    // That one fails.
    let halt = Halt::new(A, "web-3_u_r", wall, &Reason::new("bad"));
    let first = stored(&store, "web-0").as_ref().clone();
    write(&mut store, first.with_halts(&[halt]));
    let lease = stored(&store, "web-1").as_ref().clone();
    write(&mut store, lease.given_back(wall));
    let end = one.now + DURATION * 2;
    while !matches!(one.state(), SlotState::Halted(..)) {
        one.play_watched(&mut store, ms(100));
        assert_eq!(one.holds(), None, "it acts with what has failed");
        assert!(one.now < end, "{:?}", one.state());
    }
}

/// The slot could not be renewed in time, and is still in the own name.
#[test]
fn what_failed_is_read_again_when_a_slot_that_expired_is_renewed() {
    let (mut store, mut one) = holder_of_the_second_slot();
    let unreachable = |_: &LeaseRequest| Err(unanswered());
    one.play(DURATION, unreachable);
    assert!(matches!(one.state(), SlotState::Lost(_)), "{:?}", one.state());
    let halt = Halt::new(A, "web-3_u_r", UnixTime::default(), &Reason::new("bad"));
    let first = stored(&store, "web-0").as_ref().clone();
    perform(&mut store, &first.with_halts(&[halt]).write()).unwrap();
    let end = one.now + DURATION;
    while !matches!(one.state(), SlotState::Halted(..)) {
        one.play(ms(1), |request| perform(&mut store, request));
        assert_eq!(one.holds(), None, "it acts with what has failed");
        assert!(one.now < end, "{:?}", one.state());
    }
}

/// A look at the first Lease was carried out before the slot was passed on: its answer says nothing of what whoever had
/// it has found out since.
#[test]
fn what_failed_is_not_taken_from_a_look_that_began_before_the_slot_was_passed_on() {
    let (mut store, mut one) = holder_of_the_second_slot();
    let mut next = Replica::new("web-3_u_r", 2, 2);
    next.claim(A);
    let name = next.watch(&store);
    assert_eq!(name, "web-1");
    // It is next, and looks at the other Lease.
    let look = loop {
        let request = next.next_request();
        if matches!(&request, LeaseRequest::Read(name) if name == "web-0") {
            break request;
        }
        next.slots.handle(next.now(), perform(&mut store, &request));
        next.told(&store, &name);
    };
    let answer = perform(&mut store, &look);
    one.now = next.now;
    one.slots.halt(one.now(), A, &Reason::new("bad"));
    one.slots.release();
    one.run(&mut store);
    assert_eq!(halted(&store), [A]);
    assert_eq!(holders(&store)[1], "web-3_u_r");
    next.now = one.now;
    next.told(&store, &name);
    next.slots.handle(next.now(), answer);
    assert_eq!(next.holds(), None, "it acts with what has failed");
    next.play(secs(1), |request| perform(&mut store, request));
    assert!(matches!(next.state(), SlotState::Halted(..)), "{:?}", next.state());
}

/// Such as by a load balancer before the API server that ends idle connections: the server answers.
#[test]
fn a_slot_of_a_dead_holder_is_taken_although_watches_break_off_again_and_again() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.claim(A);
    one.run(&mut store);
    let mut other = Replica::new("b", 1, 2);
    other.claim(A);
    let end = other.now + DURATION * 4;
    while other.now < end && other.holds().is_none() {
        if other.slots.watched(Moment(other.now)).is_some_and(|(_, is_new)| is_new) {
            other.slots.watch_opened(Moment(other.now));
            other.told(&store, "web-0");
        }
        for _ in 0..50 {
            while let Some(request) = other.slots.next_request(other.now()) {
                other.slots.handle(other.now(), perform(&mut store, &request));
                other.told(&store, "web-0");
            }
            other.now += ms(100);
        }
        other.slots.watch_ended(Moment(other.now), &Err(unanswered()));
        other.play(ms(100), |request| perform(&mut store, request));
    }
    assert!(other.holds().is_some(), "{:?}", other.state());
}

/// The watch may tell that a slot was passed on long before the answer to the request to be next arrives.
#[test]
fn an_answer_that_is_older_than_what_the_watch_told_meanwhile_takes_no_slot_away() {
    let longer = |holder, seed| SlotsSettings {
        duration: secs(60),
        cover: secs(60),
        ..settings(holder, 1, seed)
    };
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    one.slots = Slots::new(longer("a", 1), Moment(one.now));
    one.claim(A);
    one.run(&mut store);
    let mut next = Replica::new("b", 1, 2);
    next.slots = Slots::new(longer("b", 2), Moment(next.now));
    next.claim(A);
    let name = next.watch(&store);
    let line_up = next.next_request();
    assert!(matches!(line_up, LeaseRequest::LineUp(..)));
    let answer = perform(&mut store, &line_up);
    one.now = next.now;
    one.slots.release();
    one.run(&mut store);
    next.now = one.now;
    next.told(&store, &name);
    next.now += secs(8);
    next.slots.handle(next.now(), answer);
    assert!(!matches!(next.state(), SlotState::Lost(_)), "{:?}", next.state());
    next.play(secs(100), |request| {
        assert!(matches!(request, LeaseRequest::Update(_)), "{request:?}");
        perform(&mut store, request)
    });
    assert!(next.holds().is_some());
}

/// The answer to the request to be next may come after that was used already.
#[test]
fn a_replica_that_is_offered_a_slot_before_it_knows_that_it_is_next_lines_up_again_later() {
    let mut store = shipped(2);
    for n in 0..2 {
        let lease = stored(&store, &format!("web-{n}")).as_ref().clone();
        let taken = lease.held_by("a", DURATION * 9, UnixTime::default());
        perform(&mut store, &taken.write()).unwrap();
    }
    let mut one = Replica::new("web-0_u_r", 2, 1);
    one.claim(A);
    let name = one.watch(&store);
    let line_up = one.next_request();
    assert!(matches!(line_up, LeaseRequest::LineUp(..)));
    let answer = perform(&mut store, &line_up);
    let offered = stored(&store, &name).as_ref().clone().offered(1);
    perform(&mut store, &offered.write()).unwrap();
    one.now += ms(10);
    one.told(&store, &name);
    one.slots.handle(one.now(), answer);
    let mut is_next = false;
    for _ in 0..300 {
        is_next |= stored(&store, "web-1").waiting().next().is_some();
        one.play_watched(&mut store, ms(10));
    }
    assert!(is_next);
}

/// What the Lease says of the replica that was offered the same slot before stays there until the Lease is written anew.
#[test]
fn a_slot_is_offered_to_a_replica_that_waits_and_not_to_one_that_was_offered_it_before() {
    let mut store = shipped(2);
    let held = |store: &Store, n: u32, holder: &str| {
        let lease = stored(store, &format!("web-{n}")).as_ref().clone();
        lease.held_by(holder, DURATION * 9, UnixTime::default())
    };
    let before = Waiter { offered: Some(0), ..waiter("before", "0000000100000001") };
    let crowded = held(&store, 1, "y").lined_up(before);
    let crowded = crowded.lined_up(waiter("waits", "0000000200000001"));
    for lease in [held(&store, 0, "x"), crowded] {
        write(&mut store, lease);
    }
    let mut one = Replica::new("web-0_u_r", 2, 1);
    one.claim(A);
    one.watch(&store);
    let to = one.line_up(&mut store);
    pass_on(&mut store, "web-0", &to);
    one.told(&store, "web-0");
    assert_eq!(one.holds().as_deref(), Some("web-0"));
    one.slots.release();
    one.run(&mut store);
    assert_eq!(holders(&store), ["waits", "y"]);
}

fn waiter(holder: &str, token: &str) -> Waiter {
    Waiter { holder: holder.to_owned(), token: token.to_owned(), offered: None }
}

fn write(store: &mut Store, lease: Lease) {
    perform(store, &lease.write()).unwrap();
}

/// `web-1_u_r` waits in the line of the second Lease, behind `waits`. All but the free slots are held by others.
fn in_line_at_the_second(count: u32, free: &[&str]) -> (Store, Replica, Waiter) {
    let mut store = shipped(count);
    for n in 0..count {
        let name = format!("web-{n}");
        if !free.contains(&name.as_str()) {
            let lease = stored(&store, &name).as_ref().clone();
            let lease = lease.held_by(&format!("x{n}"), DURATION * 9, UnixTime::default());
            write(&mut store, lease);
        }
    }
    let first = waiter("waits", "0000000100000001");
    perform(&mut store, &LeaseRequest::LineUp("web-1".to_owned(), first)).unwrap();
    let mut one = Replica::new("web-1_u_r", count, 1);
    one.claim(A);
    assert_eq!(one.watch(&store), "web-1");
    let to = one.line_up(&mut store);
    one.told(&store, "web-1");
    (store, one, to)
}

/// `b` watches the only Lease, which `a` holds for long.
fn watching_a_slot_of_another() -> (Store, Replica) {
    let (mut store, mut one) = (shipped(1), Replica::new("b", 1, 2));
    let lease = stored(&store, "web-0").as_ref().clone();
    write(&mut store, lease.held_by("a", LONGEST_LEASE * 9, UnixTime::default()));
    one.claim(A);
    one.watch(&store);
    (store, one)
}

/// The last in the line of the second Lease is offered the first slot.
fn offer_the_first(store: &mut Store) {
    let lease = stored(store, "web-1").as_ref().clone().offered(0);
    write(store, lease);
}

fn pass_on(store: &mut Store, name: &str, to: &Waiter) {
    let lease = stored(store, name).as_ref().clone();
    write(store, lease.passed_on_to(to.clone(), DURATION, UnixTime::default()));
}

/// The last answer that it waits for says that another slot is on its way to it.
#[test]
fn a_replica_that_ends_while_a_slot_is_on_its_way_to_it_gives_that_back() {
    let (mut store, mut one, to) = in_line_at_the_second(2, &[]);
    offer_the_first(&mut store);
    one.told(&store, "web-1");
    one.slots.release();
    one.play(ms(50), |request| perform(&mut store, request));
    let mut played = 0;
    while one.slots.is_busy(Moment(one.now)) && played < 100 {
        if played == 1 {
            pass_on(&mut store, "web-0", &to);
        }
        one.play(ms(100), |request| perform(&mut store, request));
        played += 1;
    }
    if played < 2 {
        pass_on(&mut store, "web-0", &to);
    }
    assert_eq!(holders(&store)[0], "", "it has ended, and has the slot");
}

/// The watch of the one that was offered a slot has ended before, or it needs no slot any more.
#[test]
fn an_offer_can_be_read_after_the_slot_in_whose_line_it_was_made_was_passed_on() {
    for given_back in [false, true] {
        let (mut store, mut one, to) = in_line_at_the_second(2, &[]);
        one.slots.release();
        offer_the_first(&mut store);
        if given_back {
            let lease = stored(&store, "web-1").as_ref().clone().left_by("waits");
            write(&mut store, lease);
            let lease = stored(&store, "web-1").as_ref().clone();
            write(&mut store, lease.given_back(UnixTime::default()));
        } else {
            pass_on(&mut store, "web-1", &waiter("waits", "0000000100000001"));
        }
        pass_on(&mut store, "web-0", &to);
        one.play(secs(5), |request| perform(&mut store, request));
        assert_eq!(holders(&store)[0], "", "{given_back}");
    }
}

/// The replica reads what failed at the same time.
#[test]
fn a_look_that_began_before_the_slot_has_arrived_does_not_end_the_wait_for_it() {
    let (mut store, mut one, to) = in_line_at_the_second(3, &["web-2"]);
    let take = loop {
        let request = one.next_request();
        if matches!(&request, LeaseRequest::Update(lease) if lease.name() == "web-2") {
            break request;
        }
        one.slots.handle(one.now(), perform(&mut store, &request));
    };
    offer_the_first(&mut store);
    one.told(&store, "web-1");
    one.slots.handle(one.now(), perform(&mut store, &take));
    let look = one.next_request();
    assert!(matches!(&look, LeaseRequest::Read(name) if name == "web-0"), "{look:?}");
    let answer = perform(&mut store, &look);
    pass_on(&mut store, "web-0", &to);
    one.now += ms(20);
    one.slots.handle(one.now(), answer);
    assert_eq!(one.holds().as_deref(), Some("web-2"));
    one.slots.release();
    one.play(secs(8), |request| perform(&mut store, request));
    assert_eq!(holders(&store), ["", "x1", "waits"]);
}

impl Replica {
    /// Lines up by its next request. Returns what that says.
    fn line_up(&mut self, store: &mut Store) -> Waiter {
        let line_up = self.next_request();
        self.slots.handle(self.now(), perform(store, &line_up));
        let LeaseRequest::LineUp(_, waiter) = line_up else { panic!("{line_up:?}") };
        waiter
    }

    /// Plays with a watch, which tells at once, of whatever it wants to watch.
    fn play_told(&mut self, store: &mut Store, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let watched = self.slots.watched(Moment(self.now));
            if let Some((name, is_new)) = watched.map(|(name, is_new)| (name.to_owned(), is_new)) {
                if is_new {
                    self.slots.watch_opened(Moment(self.now));
                }
                self.told(store, &name);
            }
            if let Some(request) = self.slots.next_request(self.now()) {
                self.slots.handle(self.now(), perform(store, &request));
            }
            self.now += ms(10);
        }
    }
}

/// What the earlier process has written is still there.
#[test]
fn a_podnudge_that_was_restarted_while_it_was_in_a_line_is_offered_a_slot_as_well() {
    let (mut store, one, to) = in_line_at_the_second(4, &[]);
    let mut again = Replica::new("web-1_u_r", 4, 7);
    again.now = one.now;
    again.claim(A);
    again.play_told(&mut store, secs(1));
    let to = stored(&store, "web-1").entry_of(&to.holder).cloned().unwrap();
    offer_the_first(&mut store);
    again.play_told(&mut store, ms(20));
    pass_on(&mut store, "web-0", &to);
    again.play_told(&mut store, ms(500));
    assert_eq!(again.holds().as_deref(), Some("web-0"), "{:?}", again.state());
}

/// If it needs no slot any more.
#[test]
fn what_a_podnudge_has_written_before_its_restart_is_removed() {
    let (mut store, one, to) = in_line_at_the_second(2, &[]);
    let mut again = Replica::new("web-1_u_r", 2, 7);
    again.now = one.now;
    again.play(secs(5), |request| perform(&mut store, request));
    assert_eq!(stored(&store, "web-1").entry_of(&to.holder), None);
}

#[test]
fn an_event_that_comes_late_does_not_hide_that_a_slot_is_to_be_given_back() {
    let (mut store, mut one) = (shipped(1), Replica::new("a", 1, 1));
    let old = stored(&store, "web-0");
    one.claim(A);
    one.watch(&store);
    one.play(secs(1), |request| perform(&mut store, request));
    one.told(&store, "web-0");
    assert!(one.holds().is_some());
    one.slots.release();
    let back = one.next_request();
    let next = waiter("c", "0000000100000001");
    perform(&mut store, &LeaseRequest::LineUp("web-0".to_owned(), next)).unwrap();
    let conflict = perform(&mut store, &back);
    assert!(matches!(conflict, Err(ApiError::Conflict(_))), "{conflict:?}");
    one.slots.handle(one.now(), conflict);
    // The watch is late.
    one.slots.watch_seen(Moment(one.now), Some(&old));
    one.play(secs(5), |request| perform(&mut store, request));
    assert_eq!(holders(&store), ["c"]);
}

/// The slot was passed on to a replica that has waited for too long to hold it without a request.
#[test]
fn a_slot_in_the_own_name_is_taken_although_others_line_up_and_the_watch_is_late() {
    let (mut store, mut one) = watching_a_slot_of_another();
    let to = one.line_up(&mut store);
    one.told(&store, "web-0");
    one.now += secs(10);
    one.told(&store, "web-0");
    pass_on(&mut store, "web-0", &to);
    let (begin, mut events, mut sent) = (one.now, BTreeMap::new(), 0);
    events.insert(one.now + ms(600), stored(&store, "web-0"));
    let mut n = 0;
    while one.holds().is_none() && one.now < begin + secs(10) {
        if (one.now - begin).as_millis() % 400 == 390 {
            n += 1;
            let next = waiter(&format!("c{n}"), &format!("000000{n:02x}00000001"));
            perform(&mut store, &LeaseRequest::LineUp("web-0".to_owned(), next)).unwrap();
            events.insert(one.now + ms(600), stored(&store, "web-0"));
        }
        while let Some(event) = events.first_entry().filter(|event| *event.key() <= one.now) {
            let lease = event.remove();
            one.slots.watch_seen(Moment(one.now), Some(&lease));
        }
        if let Some(request) = one.slots.next_request(one.now()) {
            sent += 1;
            one.now += ms(10);
            one.slots.handle(one.now(), perform(&mut store, &request));
        } else {
            one.now += ms(10);
        }
    }
    let took = one.now - begin;
    assert!(took < secs(3), "{sent} requests, {took:?}");
}

/// Such as 401 while the API server starts.
#[test]
fn a_replica_lines_up_again_after_that_was_refused_once() {
    let (mut store, mut one) = watching_a_slot_of_another();
    let line_up = one.next_request();
    assert!(matches!(line_up, LeaseRequest::LineUp(..)));
    one.slots.handle(one.now(), Err(refused((403, "Forbidden"))));
    one.slots.release();
    for digest in [A, B] {
        one.play_told(&mut store, secs(600));
        one.claim(digest);
        one.play_told(&mut store, secs(600));
        let is_in_line = stored(&store, "web-0").entry_of("b").is_some();
        assert!(is_in_line, "it never lines up again");
        one.slots.release();
    }
}

/// Such as one that removes what it does not know.
#[test]
fn somebody_who_removes_who_is_next_again_and_again_causes_few_requests() {
    let (mut store, mut one) = (shipped(2), Replica::new("web-1_u_r", 2, 1));
    let lease = stored(&store, "web-1").as_ref().clone();
    perform(&mut store, &lease.held_by("a", LONGEST_LEASE, UnixTime::default()).write()).unwrap();
    let first = stored(&store, "web-0").as_ref().clone();
    perform(&mut store, &first.held_by("a", LONGEST_LEASE, UnixTime::default()).write()).unwrap();
    one.claim(A);
    let mut sent = 0;
    for _ in 0..600 {
        sent += one.play_watched(&mut store, secs(1));
        let lease = stored(&store, "web-1").as_ref().clone();
        perform(&mut store, &lease.left_by("web-1_u_r").write()).unwrap();
    }
    assert!(sent < 60, "{sent} requests in ten minutes");
}

/// What happens to a request on its way.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Normal,
    /// The request does not arrive.
    Lost,
    /// The request is carried out, and its answer does not arrive.
    NoAnswer,
    /// The request arrives long after its time limit.
    Late,
    /// The request is answered with this status, and not carried out.
    Refused(u16),
    /// The request is carried out, and answered with 500.
    DoneAndFailed,
}

/// What a replica does.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Claim(u8, Intent),
    Release,
    /// The replica is killed, and starts anew at once.
    Restart,
    /// The replica is killed, and never comes back, but a pod of the same name does.
    Replace,
    /// For this many seconds nothing gets through.
    Partition(u8),
    Halt(u8),
    Try(u8),
    Clear(u8),
    /// Somebody deletes the first or the last Lease.
    Delete(bool),
}

enum Happening {
    Arrive(usize, u64, LeaseRequest, Fate),
    Answer(usize, u64, Result<Lease, ApiError>),
    Wake(usize, u64),
    Do(usize, Deed),
    /// The watch with this number arrives at the server.
    Watch(usize, u64, Fate),
    /// The watch tells this version of its Lease, or its deletion.
    Told(usize, u64, Option<Arc<Lease>>),
    /// The watch ends.
    Ended(usize, u64, Result<(), ApiError>),
}

/// The watch of a player.
#[derive(Default)]
struct Watch {
    /// 0 if there is none.
    number: u64,
    path: String,
    is_open: bool,
    /// When its last event arrives: they arrive in order.
    last: Duration,
}

struct Player {
    slots: Slots,
    generation: u32,
    /// The request under way; those of earlier ones are ignored.
    request: u64,
    wake: u64,
    mono: Duration,
    wall: Duration,
    cut_until: Duration,
    was_held: bool,
    /// Whether it only keeps a slot.
    keeps: bool,
    /// Whether it may watch.
    watches: bool,
    watch: Watch,
    /// What it wants a slot for, to act.
    wants: Option<Digest>,
    /// What it may use although it failed.
    doubts: BTreeSet<Digest>,
    /// The slot that it has, and the digest that it may use with that.
    acts_with: Option<(String, Digest)>,
    settings: SlotsSettings,
}

struct World {
    store: Store,
    players: Vec<Player>,
    events: Agenda<Happening>,
    number: u64,
    now: Duration,
    count: u32,
    random: Random,
    /// How many of 16 requests have a fate.
    trouble: u64,
    fates: Vec<Fate>,
    /// Whether a Lease may stay in the name of a replica that does not know it, or cannot give it back in
    /// time. It expires.
    may_be_left: bool,
    /// How many requests were sent, and watches begun.
    sent: u32,
    /// Since when the first Lease names these digests.
    halted_since: BTreeMap<Digest, Duration>,
    /// Who has each Lease, and since when.
    holders: BTreeMap<String, (String, Duration)>,
}

impl World {
    fn new(players: usize, count: u32, seed: u64, trouble: u64, fates: Vec<Fate>) -> Self {
        let mut random = Random::new(seed);
        let player = |n: usize| {
            let skew = random.below(secs(600));
            let mono = random.below(secs(100_000));
            let settings = settings(&format!("web-{n}_0_r"), count, seed ^ (n as u64 * 0x9E37));
            let player_settings = settings.clone();
            Player {
                slots: Slots::new(settings, Moment(mono)),
                generation: 0,
                request: 0,
                wake: 0,
                mono,
                // One in four has an old Role.
                watches: !random.number().is_multiple_of(4),
                watch: Watch::default(),
                wall: secs(1_800_000_000) + skew - secs(300),
                cut_until: Duration::ZERO,
                was_held: false,
                keeps: false,
                wants: None,
                doubts: BTreeSet::new(),
                acts_with: None,
                settings: player_settings,
            }
        };
        Self {
            store: Store::default(),
            players: (0..players).map(player).collect(),
            events: Agenda::default(),
            number: 0,
            now: Duration::ZERO,
            count,
            random: Random::new(seed.wrapping_add(1)),
            trouble,
            fates,
            may_be_left: trouble > 0,
            sent: 0,
            halted_since: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }

    fn at(&mut self, at: Duration, what: Happening) -> u64 {
        self.number += 1;
        self.events.plan(Moment(at), what);
        self.number
    }

    fn clocks(&self, n: usize) -> Now {
        let player = &self.players[n];
        Now { mono: Moment(self.now + player.mono), wall: UnixTime(self.now + player.wall) }
    }

    fn play_until(&mut self, end: Duration) {
        while let Some((Moment(at), what)) = self.events.pop(Moment(end)) {
            self.now = at;
            self.happen(what);
            let held = (0..self.players.len()).filter(|n| self.holds(*n)).count();
            assert!(held <= usize::try_from(self.count).unwrap(), "{held} hold a slot at {at:?}");
            let is_refused = (0..self.players.len()).any(|n| self.is_refused_to_keep(n));
            assert!(!is_refused, "what is only kept is refused at {at:?}");
            (0..self.players.len()).for_each(|n| self.acts(n));
        }
        self.now = end;
    }

    /// With a new configuration of this one.
    fn with_longer(mut self, n: usize, duration: Duration, cover: Duration) -> Self {
        let now = self.clocks(n).mono;
        let player = &mut self.players[n];
        (player.settings.duration, player.settings.cover) = (duration, cover);
        player.slots = Slots::new(player.settings.clone(), now);
        self
    }

    /// Remembers what the store says now.
    fn remember(&mut self) {
        let leases = self.store.below(LEASES);
        let named =
            |lease: &serde_json::Value| lease["metadata"]["name"].as_str().unwrap().to_owned();
        self.holders.retain(|name, _| leases.iter().any(|lease| named(lease) == *name));
        for lease in &leases {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned();
            let known = self.holders.entry(named(lease)).or_default();
            if known.0 != holder {
                *known = (holder, self.now);
            }
        }
        let is_there = leases.iter().any(|lease| named(lease) == "web-0");
        let halted = if is_there { halted(&self.store) } else { Vec::new() };
        self.halted_since.retain(|digest, _| halted.contains(digest));
        for digest in halted {
            self.halted_since.entry(digest).or_insert(self.now);
        }
    }

    /// Whoever gets a slot to act knows what had failed until then.
    fn acts(&mut self, n: usize) {
        let now = self.clocks(n).mono;
        let player = &mut self.players[n];
        let acts_with = match player.slots.state(now) {
            SlotState::Held { slot, .. } => player.wants.map(|digest| (slot, digest)),
            _ => None,
        };
        if acts_with == player.acts_with {
            return;
        }
        player.acts_with.clone_from(&acts_with);
        let Some((slot, digest)) = acts_with.filter(|(_, digest)| !player.doubts.contains(digest))
        else {
            return;
        };
        let since = self.holders.get(&slot).map(|(_, since)| *since);
        let failed = self.halted_since.get(&digest);
        let knows = failed.zip(since).is_none_or(|(failed, since)| *failed >= since);
        assert!(
            knows,
            "{n} acts with what failed at {failed:?}, with {slot} since {since:?}, at {:?}",
            self.now
        );
    }

    fn holds(&self, n: usize) -> bool {
        matches!(self.players[n].slots.state(self.clocks(n).mono), SlotState::Held { .. })
    }

    /// Whether what failed is held against a slot that is only kept.
    fn is_refused_to_keep(&self, n: usize) -> bool {
        let player = &self.players[n];
        let state = player.slots.state(self.clocks(n).mono);
        player.keeps && matches!(state, SlotState::Halted(..))
    }

    fn happen(&mut self, what: Happening) {
        let n = match what {
            Happening::Arrive(n, id, request, fate) => {
                let answer = match fate {
                    Fate::Refused(status) => Err(refused((status, "injected"))),
                    _ => perform(&mut self.store, &request),
                };
                self.remember();
                if !matches!(fate, Fate::Refused(_) | Fate::Lost) {
                    self.tell_watches(request.name());
                }
                let answer = match fate {
                    Fate::NoAnswer => return,
                    Fate::DoneAndFailed => Err(refused((500, "injected"))),
                    _ => answer,
                };
                let later = self.now + ms(1) + self.random.below(ms(100));
                self.at(later, Happening::Answer(n, id, answer));
                return;
            }
            Happening::Answer(n, id, answer) => {
                if self.players[n].request != id {
                    return;
                }
                self.players[n].request = 0;
                let now = self.clocks(n);
                self.players[n].slots.handle(now, answer);
                n
            }
            Happening::Wake(n, id) if self.players[n].wake == id => n,
            Happening::Do(n, deed) => {
                self.perform(n, deed);
                n
            }
            Happening::Watch(n, number, fate) if self.players[n].watch.number == number => {
                self.watch_arrives(n, number, fate);
                return;
            }
            Happening::Told(n, number, lease) if self.players[n].watch.number == number => {
                let now = self.clocks(n).mono;
                let player = &mut self.players[n];
                if self.now < player.cut_until {
                    // The connection is dead, which is found out some time.
                    self.at(self.now + secs(10), Happening::Ended(n, number, Err(unanswered())));
                    player_is_deaf(&mut self.players[n]);
                    return;
                }
                if !std::mem::replace(&mut player.watch.is_open, true) {
                    player.slots.watch_opened(now);
                }
                player.slots.watch_seen(now, lease.as_ref());
                n
            }
            Happening::Ended(n, number, how) if self.players[n].watch.number == number => {
                let now = self.clocks(n).mono;
                let player = &mut self.players[n];
                player.watch = Watch::default();
                player.slots.watch_ended(now, &how);
                n
            }
            Happening::Wake(..)
            | Happening::Watch(..)
            | Happening::Told(..)
            | Happening::Ended(..) => return,
        };
        self.advance(n);
    }

    /// The server begins to answer a watch with the state of the Lease, if there is one.
    fn watch_arrives(&mut self, n: usize, number: u64, fate: Fate) {
        let end = match fate {
            Fate::Normal | Fate::NoAnswer | Fate::DoneAndFailed | Fate::Late => None,
            Fate::Lost => Some((secs(10), unanswered())),
            Fate::Refused(status) => Some((ms(20), refused((status, "injected")))),
        };
        let end = match end {
            _ if !self.players[n].watches => Some((ms(20), refused((403, "Forbidden")))),
            end => end,
        };
        if let Some((after, how)) = end {
            self.at(self.now + after, Happening::Ended(n, number, Err(how)));
            return;
        }
        let path = self.players[n].watch.path.clone();
        self.players[n].watch.last = self.now;
        if let Ok(object) = self.store.get(&path) {
            let lease = Lease::parse(object.to_string().as_bytes()).unwrap();
            self.tell_watch(n, Some(Arc::new(lease)));
        }
        let lasts = secs(60) + self.random.below(secs(60));
        let how = match fate {
            Fate::NoAnswer => Err(unanswered()),
            Fate::DoneAndFailed => Err(refused((500, "injected"))),
            _ => Ok(()),
        };
        let lasts = if how.is_ok() { lasts } else { lasts / 20 };
        self.at(self.now + lasts, Happening::Ended(n, number, how));
    }

    /// A Lease may have changed.
    fn tell_watches(&mut self, name: &str) {
        let path = format!("{LEASES}/{name}");
        let lease = self.store.get(&path).ok();
        let lease = lease.map(|it| Arc::new(Lease::parse(it.to_string().as_bytes()).unwrap()));
        let watches = |n: &usize| {
            let watch = &self.players[*n].watch;
            watch.path == path && watch.last > Duration::ZERO
        };
        let watching: Vec<usize> = (0..self.players.len()).filter(watches).collect();
        for n in watching {
            self.tell_watch(n, lease.clone());
        }
    }

    fn tell_watch(&mut self, n: usize, lease: Option<Arc<Lease>>) {
        let late = if self.random.number().is_multiple_of(8) { ms(500) } else { ms(30) };
        let at = self.now + ms(1) + self.random.below(late);
        let watch = &mut self.players[n].watch;
        watch.last = at.max(watch.last);
        let (at, number) = (watch.last, watch.number);
        self.at(at, Happening::Told(n, number, lease));
    }

    fn perform(&mut self, n: usize, deed: Deed) {
        let now = self.clocks(n);
        let digest = |which| Digest([which; 32]);
        let cut = self.now;
        if let Deed::Delete(is_first) = deed {
            let name = format!("web-{}", if is_first { 0 } else { self.count - 1 });
            // It may be missing already.
            drop(self.store.delete(&format!("{LEASES}/{name}")));
            self.remember();
            self.may_be_left = true;
            return self.tell_watches(&name);
        }
        let player = &mut self.players[n];
        if !matches!(deed, Deed::Partition(_) | Deed::Halt(_) | Deed::Try(_) | Deed::Clear(_)) {
            player.keeps = matches!(deed, Deed::Claim(_, Intent::Keep));
        }
        player.wants = match deed {
            Deed::Claim(which, Intent::Act) => Some(digest(which)),
            Deed::Claim(..) | Deed::Release | Deed::Restart | Deed::Replace => None,
            _ => player.wants,
        };
        match deed {
            Deed::Halt(which) | Deed::Try(which) | Deed::Clear(which) => {
                player.doubts.insert(digest(which));
            }
            Deed::Claim(which, _) => player.doubts.retain(|doubted| *doubted == digest(which)),
            Deed::Release | Deed::Restart | Deed::Replace => player.doubts.clear(),
            Deed::Partition(_) | Deed::Delete(_) => {}
        }
        match deed {
            Deed::Claim(which, intent) => drop(player.slots.claim(now, digest(which), intent)),
            Deed::Release => player.slots.release(),
            Deed::Halt(which) => player.slots.halt(now, digest(which), &Reason::new("it failed")),
            Deed::Try(which) => player.slots.try_halted(now, digest(which)),
            Deed::Clear(which) => player.slots.clear_halt(digest(which)),
            Deed::Delete(_) => {}
            Deed::Partition(seconds) => {
                player.cut_until = cut + secs(seconds.into());
                self.may_be_left = true;
            }
            Deed::Restart | Deed::Replace => {
                player.generation += u32::from(matches!(deed, Deed::Replace));
                let holder = format!("web-{n}_{}_r", player.generation);
                player.settings.holder = holder;
                player.settings.seed = self.number;
                player.slots = Slots::new(player.settings.clone(), now.mono);
                player.watch = Watch::default();
                // The new process knows nothing of a slot that the old one has got at another Lease than its home's;
                // and what that has sent may still arrive, but no answer does.
                self.may_be_left = true;
                player.request = 0;
            }
        }
    }

    /// Sends what is due, and sets the alarm.
    fn advance(&mut self, n: usize) {
        let now = self.clocks(n);
        match self.players[n].slots.watched(now.mono) {
            None => self.players[n].watch = Watch::default(),
            Some((_, false)) => {}
            Some((name, true)) => {
                let path = format!("{LEASES}/{name}");
                let fate = self.fate(n);
                self.sent += 1;
                let number = self.number + 1;
                let at = self.now + ms(1) + self.random.below(ms(100));
                self.at(at, Happening::Watch(n, number, fate));
                self.players[n].watch = Watch { number, path, ..Watch::default() };
            }
        }
        if let Some(request) = self.players[n].slots.next_request(now) {
            let limit = self.players[n].slots.time_limit();
            let timed_out = Err(ApiError::Unanswered(Reason::new("time limit")));
            let fate = self.fate(n);
            self.sent += 1;
            let id = self.number + 1;
            self.at(self.now + limit, Happening::Answer(n, id, timed_out));
            self.players[n].request = id;
            let mut delay = ms(1) + self.random.below(ms(100));
            if matches!(fate, Fate::Late) {
                delay += limit + self.random.below(DURATION * 2);
            }
            if !matches!(fate, Fate::Lost) {
                self.at(self.now + delay, Happening::Arrive(n, id, request, fate));
            }
        }
        let wakeup = self.players[n].slots.next_wakeup(now.mono);
        self.players[n].wake = 0;
        if let Some(Moment(at)) = wakeup {
            let at =
                at.saturating_sub(self.players[n].mono).max(self.now + Duration::from_nanos(1));
            let id = self.number + 1;
            self.at(at, Happening::Wake(n, id));
            self.players[n].wake = id;
        }
    }

    fn fate(&mut self, n: usize) -> Fate {
        if self.now < self.players[n].cut_until {
            return Fate::Lost;
        }
        let drawn = self.random.number();
        if drawn % 16 >= self.trouble || self.fates.is_empty() {
            return Fate::Normal;
        }
        let index = usize::try_from(drawn / 16 % self.fates.len() as u64).unwrap();
        self.fates[index]
    }
}

/// The watch of this player hears nothing more, until it ends.
fn player_is_deaf(player: &mut Player) {
    player.watch.path.clear();
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Lost),
        Just(Fate::NoAnswer),
        Just(Fate::Late),
        Just(Fate::DoneAndFailed),
        proptest::sample::select(vec![403_u16, 409, 410, 429, 500, 503]).prop_map(Fate::Refused),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (1_u8..4).prop_map(|digest| Deed::Claim(digest, Intent::Act)),
        2 => (1_u8..4).prop_map(|digest| Deed::Claim(digest, Intent::Keep)),
        4 => Just(Deed::Release),
        2 => Just(Deed::Restart),
        1 => Just(Deed::Replace),
        1 => (1_u8..40).prop_map(Deed::Partition),
        1 => (1_u8..4).prop_map(Deed::Halt),
        1 => (1_u8..4).prop_map(Deed::Try),
        1 => (1_u8..4).prop_map(Deed::Clear),
        1 => any::<bool>().prop_map(Deed::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Replicas with wrong clocks, requests that are lost, late, refused or answered wrongly, replicas that are
    /// killed or cut off: never more of them hold a slot than there are slots; afterwards each gets one in
    /// turn, also those of replicas that were killed; and in the end nothing is held, and nothing is sent.
    #[test]
    fn never_more_replicas_hold_a_slot_than_there_are_and_each_gets_one_when_the_faults_end(
        players in 2_usize..=6,
        count in 1_u32..=2,
        seed in any::<u64>(),
        trouble in 0_u64..=8,
        fates in proptest::collection::vec(fate(), 0..4),
        deeds in proptest::collection::vec((0_u64..90_000, 0_usize..6, deed()), 0..40),
    ) {
        let mut world = World::new(players, count, seed, trouble, fates);
        for (at, player, deed) in deeds {
            world.at(ms(at), Happening::Do(player % players, deed));
        }
        world.play_until(secs(90));

        // The faults end. A digest that was not there yet is in all replicas.
        world.trouble = 0;
        for n in 0..players {
            world.players[n].cut_until = Duration::ZERO;
            world.at(world.now, Happening::Do(n, Deed::Claim(9, Intent::Act)));
        }
        let limit = world.now + DURATION * 30;
        while world.now < limit && !world.players.iter().all(|player| player.was_held) {
            let next = world.now + ms(500);
            world.play_until(next);
            for n in 0..players {
                if world.holds(n) && !world.players[n].was_held {
                    world.players[n].was_held = true;
                    world.at(world.now + secs(1), Happening::Do(n, Deed::Release));
                }
            }
        }
        let waiting: Vec<_> = world.players.iter().map(|player| player.was_held).collect();
        assert!(waiting.iter().all(|was_held| *was_held), "who got a slot: {waiting:?}");

        // All is given back.
        let end = world.now + DURATION * 5;
        world.play_until(end);
        for n in 0..players {
            let now = world.clocks(n).mono;
            let player = &world.players[n];
            assert_eq!((player.slots.state(now), player.slots.next_wakeup(now)), (SlotState::Free, None));
            assert_eq!(player.watch.number, 0, "it watches for nothing");
        }
        if !world.may_be_left {
            let left = holders(&world.store);
            let alive = |holder: &String| world.players.iter().enumerate().any(|(n, player)| {
                *holder == format!("web-{n}_{}_r", player.generation)
            });
            assert!(!left.iter().any(alive), "{left:?}");
        }
        // Whatever was left, as many new replicas as there are slots get them.
        for n in 0..usize::try_from(count).unwrap() {
            world.at(world.now, Happening::Do(n, Deed::Replace));
            world.at(world.now, Happening::Do(n, Deed::Claim(8, Intent::Act)));
        }
        // A slot that was left expires first; and if both replicas have the same home, one finds the other slot by looks
        // that get rarer.
        let end = world.now + DURATION * 14;
        world.play_until(end);
        let held = (0..players).filter(|n| world.holds(*n)).count();
        assert_eq!(held, usize::try_from(count).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// A server that refuses a share of the requests, up to nine in ten, with 429 or 503: the slots of dead holders are taken,
    /// and the replicas do not ask more often because of that.
    #[test]
    fn refusals_neither_keep_the_slots_of_dead_holders_taken_nor_cause_requests(
        count in 1_u32..=2,
        seed in any::<u64>(),
        share in 0_u64..=14,
        status in proptest::sample::select(vec![429_u16, 503]),
    ) {
        let dead = usize::try_from(count).unwrap();
        let players = dead + 4;
        let mut world = World::new(players, count, seed, 0, vec![Fate::Refused(status)]);
        world.store = shipped(count);
        for n in 0..dead {
            world.at(secs(5), Happening::Do(n, Deed::Claim(1, Intent::Act)));
            // A pod of the same name comes, and wants nothing.
            world.at(secs(60), Happening::Do(n, Deed::Replace));
        }
        world.play_until(secs(61));
        prop_assert!(holders(&world.store).iter().any(|holder| holder.ends_with("_0_r")));
        (world.trouble, world.sent) = (share, 0);
        for n in dead..players {
            world.at(secs(62), Happening::Do(n, Deed::Claim(1, Intent::Act)));
        }
        let time = secs(1200);
        world.play_until(secs(62) + time);
        // With nine refusals in ten, a holder may fail to renew it in time, too: then another one takes it.
        let left = holders(&world.store);
        for holder in &left {
            let is_waiting = (dead..players).any(|n| *holder == format!("web-{n}_0_r"));
            prop_assert!(is_waiting || holder.is_empty(), "{:?}", left);
        }
        prop_assert!(left.iter().any(|holder| !holder.is_empty()), "{:?}", left);
        // A holder that is refused tries again each second, to keep its slot; each of the others looks at most once in the
        // time in which it renews that.
        let seconds = usize::try_from(time.as_secs()).unwrap();
        let most = dead * seconds + (players - dead) * seconds / 5;
        prop_assert!(world.sent < u32::try_from(most).unwrap(), "{} requests", world.sent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// A new configuration with longer times is rolled out.
    #[test]
    fn never_more_replicas_hold_a_slot_than_there_are_while_they_have_different_durations(
        players in 2_usize..=6,
        count in 1_u32..=2,
        seed in any::<u64>(),
        trouble in 0_u64..=8,
        fates in proptest::collection::vec(fate(), 0..4),
        deeds in proptest::collection::vec((0_u64..200_000, 0_usize..6, deed()), 0..60),
        longer in (15_u64..=90, 0_u64..=60),
    ) {
        let mut world = World::new(players, count, seed, trouble, fates);
        for n in (0..players).filter(|n| n % 2 == 1) {
            world = world.with_longer(n, secs(longer.0), secs(longer.0 + longer.1));
        }
        // Who creates a Lease that was deleted does not know for how long its holder has it.
        let deeds = deeds.into_iter().filter(|(.., deed)| !matches!(deed, Deed::Delete(_)));
        for (at, player, deed) in deeds {
            world.at(ms(at), Happening::Do(player % players, deed));
        }
        world.play_until(secs(300));
    }
}
