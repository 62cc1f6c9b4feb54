//! 500 replicas of one rule, one edit and a modelled kubelet: the distribution of the actions.
//!
//! The kubelet's delay is random, with `PODNUDGE_FLEET_SEED` or a fixed number as the seed; a
//! failure prints it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::policies;
use crate::support::random::Random;
use crate::support::world::{self, World};
use podnudge_core::event::{Event, VolumeId};
use podnudge_core::evidence::InSync;
use podnudge_core::jitter::Replica;
use podnudge_core::jitter::{Jitter, JitterBy};

const REPLICAS: u32 = 500;
const WINDOW: Duration = Duration::from_mins(1);
const EDIT: Duration = Duration::from_secs(100);

/// When each kubelet swaps the volume after the edit.
#[derive(Clone, Copy)]
enum Kubelet {
    /// Each pod is synchronized every 60 to 90 s, independently of the others.
    Resync,
    /// All pods are synchronized at once: their annotations changed, or all kubelets restarted.
    AtOnce,
}

/// Simulates one edit on all replicas, and returns the times of their actions, sorted.
fn fleet(by: JitterBy, kubelet: Kubelet) -> Vec<Duration> {
    let mut random = Random::from_environment();
    let mut actions: Vec<Duration> = (0..REPLICAS)
        .map(|n| {
            let identity = format!("web-{n}");
            let replica = Replica { identity, ordinal: Some(n), seed: u64::from(n) };
            let mut policy = policies::policy_settling();
            policy.gate.jitter = Jitter { window: WINDOW, by };
            let delay = match kubelet {
                Kubelet::Resync => random.below(Duration::from_secs(90)),
                Kubelet::AtOnce => random.below(Duration::from_millis(100)),
            };
            one_edit(World::new(policy, &replica, None), EDIT + delay)
        })
        .collect();
    actions.sort();
    actions
}

/// The time of the single action that an edit at `at` causes.
fn one_edit(mut world: World, at: Duration) -> Duration {
    world::watched_by_inotify(&mut world);
    world.run_until(at);
    world.put(0, Some(BTreeMap::from([("a".to_owned(), "2".to_owned())])));
    world.tell(Event::Hint(VolumeId(0), 1));
    world.run_for(Duration::from_mins(5));
    assert!(!world.actions_overlapped);
    let status = world.status();
    assert_ne!(status.rules[0].in_sync, InSync::No);
    let acts: Vec<_> = world.acts().collect();
    assert_eq!(acts.len(), 1, "one edit causes one action");
    acts[0].0
}

/// The largest number of actions within any `span`.
fn busiest(actions: &[Duration], span: Duration) -> usize {
    let within = |start: &Duration| {
        actions.iter().filter(|at| **at >= *start && **at < *start + span).count()
    };
    actions.iter().map(within).max().unwrap_or(0)
}

/// Asserts that each tenth of the window has between half and twice the mean.
fn assert_even(actions: &[Duration], start: Duration) {
    let mut tenths = [0usize; 10];
    for at in actions {
        let place = (*at - start).as_secs_f64() / WINDOW.as_secs_f64() * 10.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10")]
        let place = (place as usize).min(9);
        tenths[place] += 1;
    }
    let mean = REPLICAS as usize / 10;
    assert!(tenths.iter().all(|n| (mean / 2..=mean * 2).contains(n)), "uneven: {tenths:?}");
}

#[test]
fn jitter_spreads_simultaneous_updates_over_its_window() {
    for by in [JitterBy::Pod, JitterBy::Random] {
        let actions = fleet(by, Kubelet::AtOnce);
        let first = actions[0];
        let last = actions[actions.len() - 1];
        assert!(first >= EDIT && last < EDIT + WINDOW + Duration::from_millis(301));
        assert_even(&actions, EDIT);
        // 500 actions over 60 s are 8.3 per second; the randomness puts more into some seconds.
        let busiest = busiest(&actions, Duration::from_secs(1));
        assert!(busiest <= 30, "{busiest} actions within one second, {by:?}");
    }
}

#[test]
fn jitter_by_ordinal_spaces_the_replicas_evenly() {
    let actions = fleet(JitterBy::Ordinal, Kubelet::AtOnce);
    assert_even(&actions, EDIT);
    // 500 places in a window of 60 s are at least 0.117 s (60 s / 512) apart, plus or minus the
    // kubelets' 0.1 s.
    let busiest = busiest(&actions, Duration::from_secs(1));
    assert!((8..=11).contains(&busiest), "{busiest} actions within one second");
}

#[test]
fn without_jitter_simultaneous_updates_cause_simultaneous_actions() {
    // The contrast: without it, the tests above would not prove that the jitter has an effect.
    let mut random = Random::from_environment();
    let mut together = (0..REPLICAS).map(|n| {
        let replica = Replica { identity: format!("web-{n}"), ordinal: Some(n), seed: 0 };
        let delay = random.below(Duration::from_millis(100));
        one_edit(World::new(policies::policy_settling(), &replica, None), EDIT + delay)
    });
    assert!(together.all(|at| at < EDIT + Duration::from_millis(301)));
}

#[test]
fn the_resync_delay_of_the_kubelet_and_the_jitter_add_up() {
    let actions = fleet(JitterBy::Pod, Kubelet::Resync);
    let last = actions[actions.len() - 1];
    assert!(last > EDIT + Duration::from_secs(90) && last < EDIT + Duration::from_secs(151));
    assert!(busiest(&actions, Duration::from_secs(1)) <= 20);
}

#[test]
fn the_order_of_the_pods_changes_with_each_edit() {
    let place = |content: &str, pod: u32| {
        let identity = format!("web-{pod}");
        let replica = Replica { identity, ordinal: None, seed: 0 };
        let mut policy = policies::policy();
        policy.gate.jitter = Jitter { window: WINDOW, by: JitterBy::Pod };
        let mut world = World::new(policy, &replica, None);
        world.put(0, Some(BTreeMap::from([("a".to_owned(), content.to_owned())])));
        world.tell(Event::Hint(VolumeId(0), 1));
        world.status().rules[0].next_action_at.expect("it waits")
    };
    let first = |content: &str| (0..20).min_by_key(|pod| place(content, *pod));
    let firsts: std::collections::BTreeSet<_> =
        (0..20).map(|n| first(&format!("edit {n}"))).collect();
    assert!(firsts.len() > 5, "the same few pods are always first: {firsts:?}");
}
