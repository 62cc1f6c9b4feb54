//! The format of a state file: JSON with a version, in which the memory of a rule stands as the core has it. Pure.
//!
//! A later version may add fields, which this one ignores; a higher number says that they must not be ignored.
//!
//! A neighbour may have written the file: nothing in it is longer, or more, than what podnudge writes, and
//! texts are harmless where they are shown. Times are milliseconds since the boot of the machine. If it was
//! booted since, they are translated by the wall clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::memory::Memory;
use podnudge_core::shown;

/// The version that is written, and the highest that is read.
pub(super) const VERSION: u32 = 3;

/// The longest message and the longest hint of a reason, in bytes.
const MAX_MESSAGE: usize = 1000;
const MAX_HINT: usize = 500;
/// The longest UID of a pod, in bytes; that of Kubernetes has 36.
const MAX_UID: usize = 100;

/// Why a file is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// No podnudge wrote it, or one from before the first release.
    Invalid,
    /// A podnudge with a newer format wrote it.
    Newer(u32),
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    clock: Clock,
    memory: Memory,
}

/// Both clocks when the file was written, and which boot of the machine that was.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Clock {
    /// Milliseconds since the Unix epoch.
    wall: u64,
    since_boot: Moment,
    boot: Option<String>,
}

/// The text of a state file. `boot` is the machine's boot id, if it is known.
pub(super) fn text(memory: &Memory, now: Now, boot: Option<&str>) -> Vec<u8> {
    let wall = u64::try_from(now.wall.0.as_millis()).unwrap_or(u64::MAX);
    let clock = Clock { wall, since_boot: now.mono, boot: boot.map(str::to_owned) };
    let record = Record { version: VERSION, clock, memory: bounded(memory.clone()) };
    serde_json::to_vec(&record).unwrap_or_default()
}

/// Parses a state file, which another process may have written.
pub(super) fn parse(text: &[u8], now: Now, boot: Option<&str>) -> Result<Memory, Unusable> {
    let invalid = |_| Unusable::Invalid;
    let version = serde_json::from_slice::<Version>(text).map_err(invalid)?.version;
    if version > VERSION {
        return Err(Unusable::Newer(version));
    }
    let Record { clock, memory, .. } = serde_json::from_slice(text).map_err(invalid)?;
    let mut memory = bounded(memory);
    for at in memory.moments_mut() {
        *at = clock.moment(*at, now, boot);
    }
    // By a clock that may have been changed, no process can be dated for certain.
    if boot.is_none()
        && let Some(rollout) = &mut memory.rollout
    {
        rollout.restart_began = rollout.restart_began.map(|_| now.mono);
    }
    Ok(memory)
}

/// The memory without what is longer, or more, than what podnudge writes.
fn bounded(mut memory: Memory) -> Memory {
    // Not by `drain` and `truncate`: they keep the memory of what another process may have written.
    let surplus = memory.restarts.len().saturating_sub(Memory::MOST_RESTARTS);
    memory.restarts = memory.restarts.split_off(surplus);
    memory.halts = memory.halts.into_iter().take(Memory::MOST_HALTS).collect();
    memory.pod = memory.pod.filter(|uid| uid.len() <= MAX_UID);
    for reason in memory.reasons_mut() {
        reason.message = shown::block(&reason.message, MAX_MESSAGE);
        reason.hint = reason.hint.as_ref().map(|hint| shown::block(hint, MAX_HINT));
    }
    memory
}

impl Clock {
    /// The moment of a time in the file. In another boot of the machine, as the wall clock tells.
    fn moment(&self, at: Moment, now: Now, boot: Option<&str>) -> Moment {
        if boot.is_some() && self.boot.as_deref() == boot {
            return at;
        }
        let booted = Duration::from_millis(self.wall).saturating_sub(self.since_boot.0);
        let wall = UnixTime(booted.saturating_add(at.0));
        now.moment_of(wall).after(wall.since(now.wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podnudge_core::evidence::Evidence;
    use podnudge_core::kubelet::Ends;
    use podnudge_core::memory::{
        Failed, Known, SavedHalt, SavedRollback, SavedRollout, SavedSlot, SavedUse,
    };
    use podnudge_core::reason::Reason;
    use podnudge_core::snapshot::Digest;

    fn now(wall: u64, mono: u64) -> Now {
        let seconds = Duration::from_secs;
        Now { mono: Moment(seconds(mono)), wall: UnixTime(seconds(wall)) }
    }

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn full() -> Memory {
        let reason = |text: &str| Reason::new(text).hint("look");
        let (one, two) = (Digest([1; 32]), Digest([2; 32]));
        Memory {
            known: Known {
                running: Some(one),
                evidence: Evidence::Verified,
                at: UnixTime(Duration::from_secs(1_700_000_000)),
            },
            restarts: vec![at(5), at(70)],
            last_action: Some(at(70)),
            failed: Some(Failed { digest: one, rolled_out: two, reason: reason("503") }),
            rollout: Some(SavedRollout {
                digest: two,
                back: Some(SavedRollback {
                    failed: one,
                    after_restart: true,
                    reason: reason("it ended"),
                }),
                attempt: 3,
                is_triggered: true,
                is_restart: true,
                is_suspect: true,
                restart_began: Some(at(69)),
                pod_ends: 1,
                is_in_new_pod: true,
                retry_at: Some(at(300)),
                tripped: Some(reason("it ended again")),
            }),
            ends: Ends { count: 2, start: at(80) },
            slot: Some(SavedSlot {
                digest: two,
                used: SavedUse::UntilBaked { is_on_trial: true, at: at(400) },
            }),
            halts: vec![SavedHalt { digest: one, reason: reason("it ended") }],
            drained_since: Some(at(65)),
            pod: Some("12-ab".to_owned()),
            paused_until: Some(at(500)),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_whatever_the_wall_clock_says_in_the_same_boot() {
        let text = text(&full(), now(1_700_000_100, 100), Some("boot-1"));
        for wall in [0, 1_700_000_200, 9_999_999_999] {
            assert_eq!(parse(&text, now(wall, 200), Some("boot-1")), Ok(full()));
        }
    }

    #[test]
    fn what_a_slot_is_kept_for_is_read_as_it_was_written() {
        for used in [
            SavedUse::Interrupted,
            SavedUse::UntilReady { is_on_trial: true },
            SavedUse::UntilServing,
            SavedUse::UntilBaked { is_on_trial: false, at: at(400) },
        ] {
            let slot = Some(SavedSlot { digest: Digest([2; 32]), used });
            let memory = Memory { slot, ..full() };
            let text = text(&memory, now(1_700_000_100, 100), Some("boot-1"));
            assert_eq!(parse(&text, now(1_700_000_100, 200), Some("boot-1")), Ok(memory));
        }
    }

    #[test]
    fn after_a_boot_of_the_machine_the_wall_clock_tells() {
        let text = text(&full(), now(1_700_000_100, 100), Some("boot-1"));
        // 40 s later, 20 s after the boot: what happened before the boot counts as the boot.
        for boot in [Some("boot-2"), None] {
            let memory = parse(&text, now(1_700_000_140, 20), boot).expect("it is valid");
            assert_eq!(memory.restarts, [at(0), at(0)]);
            assert_eq!(memory.rollout.expect("it is there").retry_at, Some(at(180)));
        }
        // The uptime is as long as before: 40 s later, 140 s after the boot.
        let memory = parse(&text, now(1_700_000_140, 140), Some("boot-2")).expect("it is valid");
        assert_eq!(memory, full());
    }

    #[test]
    fn a_file_without_some_fields_is_read() {
        let now = now(1_700_000_100, 100);
        let text = text(&full(), now, Some("boot-1"));
        let mut json: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        let memory = json["memory"].as_object_mut().expect("it is there");
        let removed = ["slot", "halts", "drained-since", "pod"].map(|field| memory.remove(field));
        assert!(removed.iter().all(Option::is_some), "{removed:?}");
        let rollout = memory["rollout"].as_object_mut().expect("it is there");
        let removed =
            ["is-suspect", "is-in-new-pod", "pod-ends"].map(|field| rollout.remove(field));
        assert!(removed.iter().all(Option::is_some), "{removed:?}");
        let memory = parse(json.to_string().as_bytes(), now, Some("boot-1")).expect("it is valid");
        let rollout = full().rollout.map(|rollout| SavedRollout {
            is_suspect: false,
            is_in_new_pod: false,
            pod_ends: 0,
            ..rollout
        });
        let (slot, halts, drained_since, pod) = (None, Vec::new(), None, None);
        assert_eq!(memory, Memory { rollout, slot, halts, drained_since, pod, ..full() });
    }

    #[test]
    fn a_file_of_a_newer_podnudge_is_refused() {
        let newer = "{\"version\":4,\"memory\":[\"of\",\"another\",\"kind\"]}";
        assert_eq!(parse(newer.as_bytes(), now(20, 20), None), Err(Unusable::Newer(4)));
    }

    #[test]
    fn a_file_stays_smaller_than_what_is_read() {
        let long = Reason::new("\"".repeat(9999)).hint("\u{1b}\\".repeat(9999));
        let mut memory = full();
        memory.restarts = vec![Moment(Duration::MAX); 5000];
        memory.pod = Some("x".repeat(MAX_UID));
        let halt = SavedHalt { digest: Digest([1; 32]), reason: long.clone() };
        memory.halts = vec![halt; Memory::MOST_HALTS];
        memory.failed.iter_mut().for_each(|failed| failed.reason = long.clone());
        if let Some(rollout) = &mut memory.rollout {
            rollout.tripped = Some(long.clone());
            rollout.back.iter_mut().for_each(|back| back.reason = long.clone());
        }
        let text = text(&memory, now(1, 1), Some("boot-1"));
        assert!(text.len() as u64 <= super::super::LARGEST, "{}", text.len());
        let read = parse(&text, now(1, 1), Some("boot-1")).expect("it is valid");
        assert_eq!(read.restarts.len(), Memory::MOST_RESTARTS);
        assert_eq!(read.halts.len(), Memory::MOST_HALTS);
    }
}
