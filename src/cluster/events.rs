//! Kubernetes Events about podnudge's own Pod (`kubectl describe pod`): which facts become one, and what it says.
//! Pure: `pace.rs` says when it is sent, and `run/api/events.rs` sends it. Nothing waits for that.
//!
//! Whoever may read the Events of the namespace may not be allowed to read its Secrets. So a message has no
//! reason of a failure, which can quote the output of a checker or the answer of an application, and the digest
//! only where the metrics show it, too.

mod pace;

use serde_json::json;

use crate::system::surroundings::Pod;
pub use pace::{EventsFact, PodEvents};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::SlotState;
use podnudge_core::evidence::Evidence;
use podnudge_core::fact::Fact;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

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
    /// Why the Event was created.
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
            let verb = if *evidence == Evidence::Accepted { "accepted" } else { "runs" };
            let (content, evidence) = (content(digest), evidence.name());
            (EventReason::ConfigApplied, format!("the application {verb} {content} ({evidence})"))
        }
        Fact::Delivered(digest, Evidence::Unread, _) => (
            EventReason::ConfigDelivered,
            format!("nothing has opened {} since the action; {WHY}", content(digest)),
        ),
        Fact::Delivered(digest, ..) => (
            EventReason::ConfigDelivered,
            format!("{} was delivered; not verified: no proof is configured", content(digest)),
        ),
        Fact::Rejected(digest, _) => (
            EventReason::ConfigRejected,
            format!("the checks rejected {}; nothing is sent; {WHY}", content(digest)),
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
    use std::time::Duration;

    use super::*;
    use podnudge_core::reason::Reason;

    const DIGEST: Digest = Digest([0xab; 32]);

    #[test]
    fn no_message_has_a_reason_and_a_digest_is_shown_only_where_the_metrics_show_it() {
        let secret = || Reason::new("unexpected `hunter2`").hint("hunter2");
        let facts = [
            Fact::Applied(DIGEST, Evidence::Verified, Duration::ZERO),
            Fact::Delivered(DIGEST, Evidence::Delivered, Duration::ZERO),
            Fact::Delivered(DIGEST, Evidence::Unread, Duration::ZERO),
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
        assert_eq!((all(true).len(), all(false).len()), (8, 8));
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
    fn an_event_is_about_the_pod_and_names_podnudge() {
        let at = |seconds| UnixTime(Duration::from_secs(seconds));
        let (first, last) = (at(3600), at(3630));
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
