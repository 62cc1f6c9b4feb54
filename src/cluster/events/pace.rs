//! How often Kubernetes Events are created. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::{EventReason, PodEvent};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now};
use podnudge_core::event::RuleId;
use podnudge_core::reason::Reason;

/// At most one Event for a reason of a rule is created in this time. What comes in between is counted.
const INTERVAL: Duration = Duration::from_mins(1);
/// The longest pause that the API server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// What people are told about the Events themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsFact {
    /// Why no Event can be created.
    Unavailable(Reason),
    /// Events can be created again.
    Available,
}

/// Limits how often Events are created. One is sent at a time.
#[derive(Debug, Default)]
pub struct PodEvents {
    /// For each reason of a rule that has occurred.
    series: Vec<Series>,
    /// The series that have something to send, in the order in which they occurred.
    waiting: VecDeque<usize>,
    is_under_way: bool,
    /// The server asks for a pause until then.
    not_before: Moment,
    /// Whether the last request has failed.
    is_failing: bool,
}

#[derive(Debug)]
struct Series {
    rule: RuleId,
    reason: EventReason,
    /// No Event before this.
    not_before: Moment,
    pending: Option<PodEvent>,
}

impl PodEvents {
    /// Something happened to a rule.
    pub fn occurred(&mut self, now: Now, rule: RuleId, (reason, message): (EventReason, String)) {
        let is_same = |series: &Series| (series.rule, series.reason) == (rule, reason);
        let number = self.series.iter().position(is_same).unwrap_or(self.series.len());
        if number == self.series.len() {
            let not_before = Moment::default();
            self.series.push(Series { rule, reason, not_before, pending: None });
        }
        let Some(series) = self.series.get_mut(number) else { return };
        let last = now.wall;
        let before = series.pending.take();
        if before.is_none() {
            self.waiting.push_back(number);
        }
        let (count, first) = before.map_or((0, last), |before| (before.count, before.first));
        let count = count.saturating_add(1);
        series.pending = Some(PodEvent { reason, message, count, first, last });
    }

    /// The next Event to create now. Call it until it returns `None`, after everything that has occurred and at the
    /// time of [`PodEvents::next_wakeup`].
    pub fn next_event(&mut self, now: Moment) -> Option<PodEvent> {
        if self.is_under_way || self.not_before > now {
            return None;
        }
        let is_due = |number: &usize| {
            self.series.get(*number).is_some_and(|series| series.not_before <= now)
        };
        let place = self.waiting.iter().position(is_due)?;
        let number = self.waiting.remove(place)?;
        let series = self.series.get_mut(number)?;
        let event = series.pending.take()?;
        series.not_before = now.after(INTERVAL);
        self.is_under_way = true;
        Some(event)
    }

    /// When to call [`PodEvents::next_event`], if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        if self.is_under_way {
            return None;
        }
        let waiting = self.waiting.iter().filter_map(|number| self.series.get(*number));
        let next = waiting.map(|series| series.not_before).min()?;
        Some(next.max(self.not_before))
    }

    /// The Event was created, or not: then it is lost. Returns what to report.
    pub fn answered(&mut self, now: Moment, answer: Result<(), ApiError>) -> Option<EventsFact> {
        self.is_under_way = false;
        match answer {
            Ok(()) => std::mem::take(&mut self.is_failing).then_some(EventsFact::Available),
            Err(error) => {
                let pause = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
                self.not_before = now.after(pause);
                self.failed(error.reason().clone())
            }
        }
    }

    /// Events cannot be created, for this reason. Returns what to report.
    pub fn failed(&mut self, reason: Reason) -> Option<EventsFact> {
        let is_first = !std::mem::replace(&mut self.is_failing, true);
        is_first.then_some(EventsFact::Unavailable(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podnudge_core::clock::UnixTime;

    const WEB: RuleId = RuleId(0);

    fn at(seconds: u64) -> Now {
        let time = Duration::from_secs(seconds);
        Now { mono: Moment(time), wall: UnixTime(Duration::from_hours(1) + time) }
    }

    fn event(reason: EventReason, message: &str) -> (EventReason, String) {
        (reason, message.to_owned())
    }

    fn applied(message: &str) -> (EventReason, String) {
        event(EventReason::ConfigApplied, message)
    }

    #[test]
    fn at_most_one_event_a_minute_is_sent_for_a_reason_of_a_rule_and_counts_the_others() {
        let mut events = PodEvents::default();
        assert_eq!((events.next_event(at(0).mono), events.next_wakeup()), (None, None));
        events.occurred(at(0), WEB, applied("1"));
        let first = events.next_event(at(0).mono).expect("the first is sent at once");
        assert_eq!((first.count, first.first, first.last), (1, at(0).wall, at(0).wall));
        assert_eq!(events.answered(at(0).mono, Ok(())), None);
        for second in [10, 20, 30] {
            events.occurred(at(second), WEB, applied(&second.to_string()));
            assert_eq!(events.next_event(at(second).mono), None);
        }
        assert_eq!(events.next_wakeup(), Some(at(60).mono));
        let next = events.next_event(at(60).mono).expect("the minute is over");
        assert_eq!((next.count, next.message.as_str()), (3, "30"));
        assert_eq!((next.first, next.last), (at(10).wall, at(30).wall));
        events.answered(at(60).mono, Ok(()));
        assert_eq!(events.next_wakeup(), None, "nothing is left to say");
        events.occurred(at(61), WEB, applied("x"));
        assert_eq!(events.next_wakeup(), Some(at(120).mono));
    }

    #[test]
    fn other_reasons_and_rules_are_sent_one_after_the_other_in_the_order_of_their_occurrence() {
        let mut events = PodEvents::default();
        let rejected = || event(EventReason::ConfigRejected, "r");
        events.occurred(at(0), WEB, applied("1"));
        events.occurred(at(1), WEB, rejected());
        events.occurred(at(2), RuleId(1), applied("2"));
        events.occurred(at(3), WEB, applied("3"));
        let mut sent = Vec::new();
        while let Some(event) = events.next_event(at(5).mono) {
            assert_eq!((events.next_event(at(5).mono), events.next_wakeup()), (None, None));
            sent.push((event.message, event.count));
            events.answered(at(5).mono, Ok(()));
        }
        let wanted = [("3", 2), ("r", 1), ("2", 1)];
        assert_eq!(sent, wanted.map(|(message, count)| (message.to_owned(), count)));
    }

    #[test]
    fn a_failure_is_reported_once_until_it_is_over_and_a_pause_is_kept() {
        let mut events = PodEvents::default();
        let busy = |pause| Err(ApiError::Throttled(Reason::new("busy"), pause));
        let mut send = |second, answer| {
            events.occurred(at(second), WEB, applied("x"));
            events.next_event(at(second).mono).expect("it is due");
            (events.answered(at(second).mono, answer), events.next_wakeup())
        };
        let unavailable = Some(EventsFact::Unavailable(Reason::new("busy")));
        assert_eq!(send(0, busy(None)), (unavailable, None), "it is lost");
        assert_eq!(send(60, busy(Some(Duration::from_secs(90)))), (None, None));
        assert_eq!(send(150, Ok(())), (Some(EventsFact::Available), None));
        assert_eq!(send(210, Ok(())), (None, None));
        events.occurred(at(270), WEB, applied("x"));
        events.next_event(at(270).mono).expect("it is due");
        events.answered(at(270).mono, busy(Some(Duration::from_hours(9))));
        events.occurred(at(400), WEB, applied("x"));
        assert_eq!(events.next_event(at(400).mono), None, "the server has asked for a pause");
        assert_eq!(events.next_wakeup(), Some(at(270).mono.after(LONGEST_PAUSE)));
    }
}
