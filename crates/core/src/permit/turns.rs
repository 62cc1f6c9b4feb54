//! Turns by the wall clock, for replicas that share no slot: each begins only in its own part of a period.

use std::time::Duration;

use crate::clock::UnixTime;
use crate::jitter::Replica;
use crate::policy::Turns;
use crate::reason::Reason;

/// The part of a turn in which a rollout may begin; the rest is for its end, and for the error of the
/// clocks.
const BEGINNING: u32 = 4;

/// When the replica's next turn begins, and why to wait for it; `None` if a rollout may begin now.
///
/// A replica without an ordinal takes the turn that follows from its identity, which others may share.
pub(super) fn next(turns: Turns, replica: &Replica, now: UnixTime) -> Option<(UnixTime, Reason)> {
    let count = turns.of.max(1);
    let number = replica.ordinal.unwrap_or_else(|| replica.number()) % count;
    let period =
        turns.every.as_nanos().checked_mul(u128::from(count)).filter(|nanos| *nanos > 0)?;
    let begin = turns.every.as_nanos() * u128::from(number);
    let place = now.0.as_nanos() % period;
    if place >= begin && place - begin < turns.every.as_nanos() / u128::from(BEGINNING) {
        return None;
    }
    let wait = if place < begin { begin - place } else { period - place + begin };
    let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
    let every = humantime::format_duration(turns.every);
    let reason = format!("waits for its turn: {} of {count}, every {every}", number + 1);
    Some((UnixTime(now.0.saturating_add(wait)), Reason::new(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: Turns = Turns { every: Duration::from_secs(20), of: 3 };

    fn wait(ordinal: u32, at: u64) -> Option<u64> {
        let replica = Replica { ordinal: Some(ordinal), ..Replica::default() };
        let now = UnixTime(Duration::from_secs(at));
        next(TURNS, &replica, now).map(|(until, _)| until.since(now).as_secs())
    }

    #[test]
    fn a_replica_begins_only_at_the_beginning_of_its_turn() {
        assert_eq!(wait(0, 0), None);
        assert_eq!(wait(0, 4), None);
        assert_eq!(wait(0, 5), Some(55));
        assert_eq!(wait(1, 5), Some(15));
        assert_eq!(wait(2, 59), Some(41));
        assert_eq!(wait(4, 20), None, "the fifth replica shares the turn of the second");
    }

    #[test]
    fn at_most_one_of_as_many_replicas_as_turns_may_begin() {
        for second in 0..180 {
            let open = (0..3).filter(|ordinal| wait(*ordinal, second).is_none()).count();
            assert!(open <= 1, "{open} replicas may begin at second {second}");
        }
    }

    #[test]
    fn replicas_without_an_ordinal_have_a_turn_by_their_identity() {
        let replica = Replica { identity: "web-7d9f-abcde".to_owned(), ..Replica::default() };
        let now = UnixTime(Duration::from_secs(7));
        let (until, reason) = next(TURNS, &replica, now).expect("a turn has just begun");
        assert!(until.since(now) <= Duration::from_mins(1));
        assert!(reason.message.contains("of 3"), "{reason}");
    }
}
