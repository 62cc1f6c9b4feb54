//! Events about podnudge's own Pod: passes facts to `cluster/events.rs`, and sends what that says. Nothing waits for
//! them. Does nothing unless `[cluster]` has `events`.

use std::time::Duration;

use super::ApiAnswer;
use super::access::ApiAccess;
use super::rights::Withheld;
use crate::cluster::{self, EventsFact, Feature, PodEvents};
use crate::exchange::kept::Kept;
use crate::report;
use crate::run::agent::{Agent, Done};
use crate::run::clock;
use crate::system::surroundings::Surroundings;
use podnudge_config::Config;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::event::{RuleId, SlotState};
use podnudge_core::fact::Fact;
use podnudge_core::reason::Reason;

/// How long to wait for the answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The Events, if they are configured.
pub(super) struct EventSending(Option<Active>);

struct Active {
    machine: PodEvents,
    access: ApiAccess,
    withheld: Withheld,
}

impl EventSending {
    /// Says at once what is missing.
    pub(super) fn new(config: &Config, (surroundings, kept): (Surroundings, Kept)) -> Self {
        let Some(settings) = config.cluster.clone().filter(|cluster| cluster.events) else {
            return Self(None);
        };
        let access = ApiAccess::new(settings, surroundings, kept);
        let mut machine = PodEvents::default();
        let is_known = access.pod.is_named && access.pod.uid.is_some();
        let missing = access.api.examine().err().or_else(|| (!is_known).then(pod_unknown));
        if let Some(fact) = missing.and_then(|reason| machine.failed(reason)) {
            report::events(&fact);
        }
        // The token may be there later, but the environment of a process does not change.
        Self(is_known.then_some(Active { machine, access, withheld: Withheld::default() }))
    }

    /// Something happened to this rule.
    fn occurred(&mut self, rule: RuleId, event: Option<(cluster::EventReason, String)>) {
        if let (Some(active), Some(event)) = (&mut self.0, event) {
            active.machine.occurred(clock::now(), rule, event);
        }
    }

    /// When to send the next one, if nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        self.0.as_ref()?.machine.next_wakeup()
    }

    /// podnudge is asked to stop: it does not wait for an answer.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }
}

fn pod_unknown() -> Reason {
    Reason::new("the name and the UID of podnudge's own pod are not known, so there are no Events").hint(
        "set PODNUDGE_POD_NAME and PODNUDGE_POD_UID from the fields metadata.name and metadata.uid (downward API)",
    )
}

impl Agent {
    /// Takes a fact of a rule.
    pub(in crate::run) fn event_of_fact(&mut self, rule: RuleId, fact: &Fact) {
        let Some(state) = self.rules.get(rule.0) else { return };
        let event = cluster::of_fact(&state.config.name, fact, state.digests.are_public);
        self.api.events.occurred(rule, event);
    }

    /// Takes what is known of the slot of a rule.
    pub(in crate::run) fn event_of_slot(&mut self, rule: RuleId, slot: &SlotState) {
        let Some(state) = self.rules.get(rule.0) else { return };
        let event = cluster::of_slot(&state.config.name, slot, state.digests.are_public);
        self.api.events.occurred(rule, event);
    }

    /// Takes the answer to one of them.
    pub(in crate::run) fn event_answered(&mut self, answer: Result<(), ApiError>) {
        let Some(active) = &mut self.api.events.0 else { return };
        if let Err(error) = &answer {
            active.withheld.update(error.reason());
        }
        match active.machine.answered(clock::now().mono, answer) {
            Some(EventsFact::Unavailable(reason)) => active.withheld.hold(reason),
            Some(EventsFact::Available) if active.withheld.end() => {
                report::events(&EventsFact::Available);
            }
            _ => {}
        }
    }

    /// Reports why Events cannot be created. Of a missing right, the preflight tells alone.
    fn report_events(&mut self) {
        let Some(active) = &mut self.api.events.0 else { return };
        if let Some(reason) = active.withheld.take_due(self.api.rights.lacks(Feature::Events)) {
            report::events(&EventsFact::Unavailable(reason));
        }
    }

    /// Sends what is due.
    pub(in crate::run) fn advance_events(&mut self) {
        self.report_events();
        while let Some(active) = &mut self.api.events.0
            && let Some(event) = active.machine.next_event(clock::now().mono)
        {
            let (api, pod) = active.access.parts();
            let request = self.start_task(async move {
                let answer = api.create_event(&pod, &event, LIMIT).await;
                Done::Api(ApiAnswer::Event(answer))
            });
            if let Some(active) = &mut self.api.events.0 {
                active.access.begun(request);
            }
        }
    }
}
