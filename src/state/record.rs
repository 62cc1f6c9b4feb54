//! The format of a state file: JSON with a version. Pure.
//!
//! Version 1, from before the first release, has only what the application ran, and no number. A later version
//! may add fields, which this one ignores; a higher number says that they must not be ignored.
//!
//! A neighbour may have written the file: nothing in it is longer, or more, than what podnudge writes, and
//! texts are harmless where they are shown. Times are milliseconds since the boot of the machine. If it was
//! booted since, they are translated by the wall clock.

mod slot;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::evidence::Evidence;
use podnudge_core::kubelet::Ends;
use podnudge_core::memory::{Failed, Known, Memory, SavedHalt, SavedRollback, SavedRollout};
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;
use slot::SlotRecord;

/// The version that is written, and the highest that is read.
pub(super) const VERSION: u32 = 2;

/// The longest message and the longest hint of a reason, in bytes.
const MAX_MESSAGE: usize = 1000;
const MAX_HINT: usize = 500;
/// The longest UID of a pod, in bytes; that of Kubernetes has 36.
const MAX_UID: usize = 100;

/// Why a file is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// podnudge did not write it.
    Invalid,
    /// A podnudge with a newer format wrote it.
    Newer(u32),
}

#[derive(Deserialize)]
struct Version {
    #[serde(default = "first_version")]
    version: u32,
}

fn first_version() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: Option<u32>,
    /// `None` while it is unknown what the application runs.
    digest: Option<Digest>,
    /// How podnudge knew that.
    #[serde(default)]
    evidence: Evidence,
    /// Seconds since the Unix epoch.
    at: f64,
    #[serde(default)]
    lasting: Option<Lasting>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Lasting {
    clock: Clock,
    #[serde(default)]
    restarts: Vec<u64>,
    #[serde(default)]
    last_action: Option<u64>,
    #[serde(default)]
    failed: Option<FailedRecord>,
    #[serde(default)]
    rollout: Option<RolloutRecord>,
    #[serde(default)]
    ends: Option<EndsRecord>,
    #[serde(default)]
    slot: Option<SlotRecord>,
    #[serde(default)]
    halts: Vec<HaltRecord>,
    #[serde(default)]
    drained_since: Option<u64>,
    #[serde(default)]
    pod: Option<String>,
}

/// Both clocks when the file was written, and which boot of the machine that was.
#[derive(Serialize, Deserialize)]
struct Clock {
    /// Milliseconds since the Unix epoch.
    wall: u64,
    since_boot: u64,
    boot: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ReasonRecord {
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FailedRecord {
    digest: Digest,
    rolled_out: Digest,
    reason: ReasonRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "as in the memory of the core")]
struct RolloutRecord {
    digest: Digest,
    #[serde(default)]
    back: Option<BackRecord>,
    attempt: u32,
    #[serde(default)]
    is_triggered: bool,
    #[serde(default)]
    is_restart: bool,
    #[serde(default)]
    is_suspect: bool,
    #[serde(default)]
    restart_began: Option<u64>,
    #[serde(default)]
    pod_ends: u32,
    #[serde(default)]
    is_in_new_pod: bool,
    #[serde(default)]
    retry_at: Option<u64>,
    #[serde(default)]
    tripped: Option<ReasonRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BackRecord {
    failed: Digest,
    after_restart: bool,
    reason: ReasonRecord,
}

#[derive(Serialize, Deserialize)]
struct HaltRecord {
    digest: Digest,
    reason: ReasonRecord,
}

#[derive(Serialize, Deserialize)]
struct EndsRecord {
    count: u32,
    start: u64,
}

/// The text of a state file. `boot` is the machine's boot id, if it is known.
pub(super) fn text(memory: &Memory, now: Now, boot: Option<&str>) -> Vec<u8> {
    let Known { running, evidence, at } = memory.known;
    let surplus = memory.restarts.len().saturating_sub(Memory::MOST_RESTARTS);
    let lasting = Lasting {
        clock: Clock {
            wall: millis(now.wall.0),
            since_boot: millis(now.mono.0),
            boot: boot.map(str::to_owned),
        },
        restarts: memory.restarts.iter().skip(surplus).map(|at| millis(at.0)).collect(),
        last_action: memory.last_action.map(|at| millis(at.0)),
        failed: memory.failed.as_ref().map(|failed| FailedRecord {
            digest: failed.digest,
            rolled_out: failed.rolled_out,
            reason: ReasonRecord::of(&failed.reason),
        }),
        rollout: memory.rollout.as_ref().map(|rollout| RolloutRecord {
            digest: rollout.digest,
            back: rollout.back.as_ref().map(|back| BackRecord {
                failed: back.failed,
                after_restart: back.after_restart,
                reason: ReasonRecord::of(&back.reason),
            }),
            attempt: rollout.attempt,
            is_triggered: rollout.is_triggered,
            is_restart: rollout.is_restart,
            is_suspect: rollout.is_suspect,
            restart_began: rollout.restart_began.map(|at| millis(at.0)),
            pod_ends: rollout.pod_ends,
            is_in_new_pod: rollout.is_in_new_pod,
            retry_at: rollout.retry_at.map(|at| millis(at.0)),
            tripped: rollout.tripped.as_ref().map(ReasonRecord::of),
        }),
        ends: (memory.ends.count > 0)
            .then(|| EndsRecord { count: memory.ends.count, start: millis(memory.ends.start.0) }),
        slot: memory.slot.map(SlotRecord::of),
        halts: memory.halts.iter().map(HaltRecord::of).collect(),
        drained_since: memory.drained_since.map(|at| millis(at.0)),
        pod: memory.pod.clone(),
    };
    let record = Record {
        version: Some(VERSION),
        digest: running,
        evidence,
        at: at.0.as_secs_f64(),
        lasting: Some(lasting),
    };
    serde_json::to_vec(&record).unwrap_or_default()
}

/// Parses a state file, which another process may have written.
pub(super) fn parse(text: &[u8], now: Now, boot: Option<&str>) -> Result<Memory, Unusable> {
    let invalid = |_| Unusable::Invalid;
    let version = serde_json::from_slice::<Version>(text).map_err(invalid)?.version;
    if version > VERSION {
        return Err(Unusable::Newer(version));
    }
    let record = serde_json::from_slice::<Record>(text).map_err(invalid)?;
    let at = Duration::try_from_secs_f64(record.at).map_err(|_| Unusable::Invalid)?;
    let known = Known { running: record.digest, evidence: record.evidence, at: UnixTime(at) };
    Ok(match record.lasting {
        Some(lasting) => lasting.memory(known, now, boot),
        None => Memory { known, ..Memory::default() },
    })
}

impl Lasting {
    fn memory(self, known: Known, now: Now, boot: Option<&str>) -> Memory {
        let Self {
            clock,
            restarts,
            last_action,
            failed,
            rollout,
            ends,
            slot,
            halts,
            drained_since,
            pod,
        } = self;
        let moment = |at: u64| clock.moment(at, now, boot);
        let surplus = restarts.len().saturating_sub(Memory::MOST_RESTARTS);
        Memory {
            known,
            restarts: restarts.into_iter().skip(surplus).map(moment).collect(),
            last_action: last_action.map(moment),
            failed: failed.map(|failed| Failed {
                digest: failed.digest,
                rolled_out: failed.rolled_out,
                reason: failed.reason.into_reason(),
            }),
            rollout: rollout.map(|rollout| SavedRollout {
                digest: rollout.digest,
                back: rollout.back.map(|back| SavedRollback {
                    failed: back.failed,
                    after_restart: back.after_restart,
                    reason: back.reason.into_reason(),
                }),
                attempt: rollout.attempt,
                is_triggered: rollout.is_triggered,
                is_restart: rollout.is_restart,
                is_suspect: rollout.is_suspect,
                // By a clock that may have been changed, no process can be dated for certain.
                restart_began: rollout
                    .restart_began
                    .map(|at| if boot.is_some() { moment(at) } else { now.mono }),
                pod_ends: rollout.pod_ends,
                is_in_new_pod: rollout.is_in_new_pod,
                retry_at: rollout.retry_at.map(moment),
                tripped: rollout.tripped.map(ReasonRecord::into_reason),
            }),
            ends: ends
                .map(|ends| Ends { count: ends.count, start: moment(ends.start) })
                .unwrap_or_default(),
            slot: slot.map(|slot| slot.into_saved(moment)),
            halts: halts.into_iter().take(Memory::MOST_HALTS).map(HaltRecord::into_halt).collect(),
            drained_since: drained_since.map(moment),
            pod: pod.filter(|uid| uid.len() <= MAX_UID),
        }
    }
}

impl Clock {
    /// The moment of a time in the file. In another boot of the machine, as the wall clock tells.
    fn moment(&self, at: u64, now: Now, boot: Option<&str>) -> Moment {
        let at = Duration::from_millis(at);
        if boot.is_some() && self.boot.as_deref() == boot {
            return Moment(at);
        }
        let booted =
            Duration::from_millis(self.wall).saturating_sub(Duration::from_millis(self.since_boot));
        let wall = UnixTime(booted.saturating_add(at));
        now.moment_of(wall).after(wall.since(now.wall))
    }
}

impl HaltRecord {
    fn of(halt: &SavedHalt) -> Self {
        Self { digest: halt.digest, reason: ReasonRecord::of(&halt.reason) }
    }

    fn into_halt(self) -> SavedHalt {
        SavedHalt { digest: self.digest, reason: self.reason.into_reason() }
    }
}

impl ReasonRecord {
    fn of(reason: &Reason) -> Self {
        Self {
            message: shown::block(&reason.message, MAX_MESSAGE),
            hint: reason.hint.as_ref().map(|hint| shown::block(hint, MAX_HINT)),
        }
    }

    fn into_reason(self) -> Reason {
        Reason {
            message: shown::block(&self.message, MAX_MESSAGE),
            hint: self.hint.map(|hint| shown::block(&hint, MAX_HINT)),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use podnudge_core::memory::{SavedSlot, SavedUse};

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
    fn a_file_of_a_podnudge_that_saved_no_slot_is_read() {
        let now = now(1_700_000_100, 100);
        let text = text(&full(), now, Some("boot-1"));
        let mut json: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        let lasting = json["lasting"].as_object_mut().expect("it is there");
        let removed = ["slot", "halts", "drained-since", "pod"].map(|field| lasting.remove(field));
        assert!(removed.iter().all(Option::is_some), "{removed:?}");
        let rollout = lasting["rollout"].as_object_mut().expect("it is there");
        let removed = ["is-suspect", "is-in-new-pod"].map(|field| rollout.remove(field));
        assert!(removed.iter().all(Option::is_some), "{removed:?}");
        let memory = parse(json.to_string().as_bytes(), now, Some("boot-1")).expect("it is valid");
        let older = |rollout| SavedRollout { is_suspect: false, is_in_new_pod: false, ..rollout };
        let rollout = full().rollout.map(older);
        let (slot, halts, drained_since, pod) = (None, Vec::new(), None, None);
        assert_eq!(memory, Memory { rollout, slot, halts, drained_since, pod, ..full() });
    }

    #[test]
    fn a_file_of_an_older_podnudge_is_read_and_one_of_a_newer_is_refused() {
        let digest = "07".repeat(32);
        let old = format!("{{\"digest\":\"{digest}\",\"evidence\":\"accepted\",\"at\":12.5}}");
        let memory = parse(old.as_bytes(), now(20, 20), None).expect("it is valid");
        assert_eq!(memory.known.running, Some(Digest([7; 32])));
        assert_eq!(memory, Memory { known: memory.known, ..Memory::default() });
        let newer = "{\"version\":3,\"digest\":[\"of\",\"another\",\"kind\"]}";
        assert_eq!(parse(newer.as_bytes(), now(20, 20), None), Err(Unusable::Newer(3)));
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
