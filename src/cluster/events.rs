//! Kubernetes Events about podnudge's own Pod (`kubectl describe pod`): which facts become one, and how often.
//! Pure: `run/events.rs` sends them.
//!
//! Whoever may read the Events of the namespace may not be allowed to read its Secrets. So a message has no
//! reason of a failure, which can quote the output of a checker or the answer of an application, and the digest
//! only where the metrics show it, too.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;

use super::error::ApiError;
use crate::clock::{Moment, Now, UnixTime};
use crate::core::event::{RuleId, SlotState};
use crate::core::fact::Fact;
use crate::reason::Reason;
use crate::shown;
use crate::surroundings::Pod;
use crate::volume::snapshot::Digest;

/// At most one Event for a reason of a rule is created in this time. What comes in between is counted.
const INTERVAL: Duration = Duration::from_mins(1);
/// The longest pause that the API server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The longest message, in bytes: that of `events.k8s.io/v1`.
const LONGEST_MESSAGE: usize = 1024;
/// Who reports the Events.
const COMPONENT: &str = "podnudge";
/// Where the reasons are.
const WHY: &str = "`podnudge status` in the pod says why";

/// Why there is an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventReason {
    /// There is evidence that the application runs new content.
    ConfigApplied,
    /// New content was delivered to the application, and no proof is configured.
    ConfigDelivered,
    /// New content failed a check, and is not used.
    ConfigRejected,
    /// The application runs the last good content again.
    ConfigRolledBack,
    /// New content is not rolled out further, because it failed here or on another replica.
    RolloutHalted,
}

/// An Event that stands for one occurrence or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// Why.
    pub reason: EventReason,
    /// What happened last.
    pub message: String,
    /// How often something with this reason has happened since the last Event with it.
    pub count: u32,
    /// The first time.
    pub first: UnixTime,
    /// The last time.
    pub last: UnixTime,
}

/// What people are told about the Events themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsFact {
    /// Why no Event can be created.
    Unavailable(Reason),
    /// That is over.
    Available,
}

/// Limits how often Events are created. One is sent at a time.
#[derive(Debug, Default)]
pub struct PodEvents {
    /// For each reason of a rule that has occurred.
    series: Vec<Series>,
    /// Those that have something to send, in the order in which they occurred.
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

impl EventReason {
    /// The name in the Event.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigApplied => "ConfigApplied",
            Self::ConfigDelivered => "ConfigDelivered",
            Self::ConfigRejected => "ConfigRejected",
            Self::ConfigRolledBack => "ConfigRolledBack",
            Self::RolloutHalted => "RolloutHalted",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::ConfigApplied | Self::ConfigDelivered => "Normal",
            Self::ConfigRejected | Self::ConfigRolledBack | Self::RolloutHalted => "Warning",
        }
    }
}

/// The Event of a fact about this rule, if it is one that people ask the cluster for. `shows_digests`: whether
/// the digests of the rule may be seen outside of the pod.
#[must_use]
pub fn of_fact(rule: &str, fact: &Fact, shows_digests: bool) -> Option<(EventReason, String)> {
    let content = |digest: &Digest| shown_content(digest, shows_digests);
    let (reason, what) = match fact {
        Fact::Applied(digest, evidence, _) => {
            let (content, evidence) = (content(digest), evidence.name());
            (EventReason::ConfigApplied, format!("the application runs {content} ({evidence})"))
        }
        Fact::Delivered(digest, _) => (
            EventReason::ConfigDelivered,
            format!("{} was delivered; not verified: no proof is configured", content(digest)),
        ),
        Fact::Rejected(digest, _) => (
            EventReason::ConfigRejected,
            format!("the checks rejected {}, and it is not used; {WHY}", content(digest)),
        ),
        Fact::RolledBack(_) => (
            EventReason::ConfigRolledBack,
            format!(
                "the new content did not work, and the last good content was rolled out again; {WHY}"
            ),
        ),
        Fact::GaveUp(digest, _, attempts) => (
            EventReason::RolloutHalted,
            format!(
                "{} does not work, and is not tried again (attempts: {attempts}); {WHY}",
                content(digest)
            ),
        ),
        Fact::Tripped(digest, _) => (
            EventReason::RolloutHalted,
            format!("the application ended just after it was given {}; {WHY}", content(digest)),
        ),
        Fact::PodNotRestarted(digest, _) => (
            EventReason::RolloutHalted,
            format!("the kubelet has not restarted the pod for {}; {WHY}", content(digest)),
        ),
        _ => return None,
    };
    Some((reason, of_rule(rule, &what)))
}

/// The Event of what is known of a rule's slot: content that failed on another replica is not used on this one.
#[must_use]
pub fn of_slot(rule: &str, slot: &SlotState, shows_digests: bool) -> Option<(EventReason, String)> {
    let SlotState::Halted(digest, _) = slot else { return None };
    let content = shown_content(digest, shows_digests);
    let what = format!("{content} failed on another replica, and is not rolled out here; {WHY}");
    Some((EventReason::RolloutHalted, of_rule(rule, &what)))
}

fn shown_content(digest: &Digest, shows_digests: bool) -> String {
    if shows_digests {
        format!("the new content {digest:.12}")
    } else {
        "the new content".to_owned()
    }
}

fn of_rule(rule: &str, what: &str) -> String {
    shown::block(&format!("rule `{rule}`: {what}"), LONGEST_MESSAGE)
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

impl PodEvent {
    /// The object (`v1`). `kubectl describe pod` finds it by the UID of the pod.
    pub(super) fn body(&self, pod: &Pod, namespace: &str) -> Vec<u8> {
        let Self { reason, message, count, first, last } = self;
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}-", pod.name), "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.name,
                "namespace": namespace,
                "uid": pod.uid,
            },
            "type": reason.kind(),
            "reason": reason.name(),
            "message": message,
            "count": count,
            "firstTimestamp": first.to_string(),
            "lastTimestamp": last.to_string(),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": pod.name,
        });
        event.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::evidence::Evidence;

    const DIGEST: Digest = Digest([0xab; 32]);
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
    fn no_message_has_a_reason_and_a_digest_is_shown_only_where_the_metrics_show_it() {
        let secret = || Reason::new("unexpected `hunter2`").hint("hunter2");
        let facts = [
            Fact::Applied(DIGEST, Evidence::Verified, Duration::ZERO),
            Fact::Delivered(DIGEST, Duration::ZERO),
            Fact::Rejected(DIGEST, secret()),
            Fact::GaveUp(DIGEST, secret(), 3),
            Fact::Tripped(DIGEST, secret()),
            Fact::PodNotRestarted(DIGEST, secret()),
        ];
        let slot = SlotState::Halted(DIGEST, secret());
        let all = |shows_digests| {
            let of_facts = facts.iter().filter_map(move |it| of_fact("web", it, shows_digests));
            of_facts.chain(of_slot("web", &slot, shows_digests)).collect::<Vec<_>>()
        };
        assert_eq!((all(true).len(), all(false).len()), (7, 7));
        for (_, message) in all(true).iter().chain(&all(false)) {
            assert!(
                message.starts_with("rule `web`: ") && !message.contains("hunter2"),
                "{message}"
            );
        }
        assert!(all(true).iter().all(|(_, message)| message.contains(" abababababab")));
        assert!(all(false).iter().all(|(_, message)| !message.contains("abab")));
        let rolled_back = of_fact("web", &Fact::RolledBack(DIGEST), true);
        assert_eq!(rolled_back.map(|(reason, _)| reason.name()), Some("ConfigRolledBack"));
        assert_eq!(of_fact("web", &Fact::Triggered, true), None);
        assert_eq!(of_slot("web", &SlotState::Free, true), None);
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

    #[test]
    fn an_event_is_about_the_pod_and_names_podnudge() {
        let (first, last) = (at(0).wall, at(30).wall);
        let message = "m".to_owned();
        let event = PodEvent { reason: EventReason::RolloutHalted, message, count: 2, first, last };
        let pod = Pod { name: "web-0".to_owned(), uid: Some("u".to_owned()), is_named: true };
        let body = event.body(&pod, "ns");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
        let wanted = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": "web-0-", "namespace": "ns"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "name": "web-0", "namespace": "ns", "uid": "u",
            },
            "type": "Warning", "reason": "RolloutHalted", "message": "m", "count": 2,
            "firstTimestamp": "1970-01-01T01:00:00.000Z",
            "lastTimestamp": "1970-01-01T01:00:30.000Z",
            "source": {"component": "podnudge"},
            "reportingComponent": "podnudge", "reportingInstance": "web-0",
        });
        assert_eq!(body, wanted);
    }
}
