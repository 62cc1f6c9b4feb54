//! The preflight of the service account's rights: sends what `cluster/rights.rs` asks, and passes the problems on to
//! the core. Does nothing unless a feature that uses the Kubernetes API is configured.

use std::time::Duration;

use super::ApiAnswer;
use super::access::ApiAccess;
use crate::cluster::{self, Feature, RightsPreflight};
use crate::exchange::kept::Kept;
use crate::run::agent::{Agent, Done};
use crate::run::clock;
use crate::system::surroundings::Surroundings;
use podnudge_config::Config;
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::event::Event;
use podnudge_core::reason::Reason;

/// How long to wait for each answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The preflight, if there is anything to ask.
pub(super) struct Rights(Option<Active>);

struct Active {
    preflight: RightsPreflight,
    access: ApiAccess,
}

/// Why a feature does not work, while the preflight may say the same, or says that a right is missing.
#[derive(Default)]
pub(super) struct Withheld(Option<Reason>);

impl Withheld {
    /// The feature does not work, for this reason.
    pub(super) fn hold(&mut self, reason: Reason) {
        self.0 = Some(reason);
    }

    /// Another attempt has failed: it may be for another reason by now.
    pub(super) fn update(&mut self, reason: &Reason) {
        self.0.iter_mut().for_each(|held| held.clone_from(reason));
    }

    /// The feature works again. Returns whether to say so, because its failure was said.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_none()
    }

    /// What to say now. `lacks_right`: whether the preflight says that the feature lacks a right.
    pub(super) fn take_due(&mut self, lacks_right: Option<bool>) -> Option<Reason> {
        self.0.take_if(|_| lacks_right == Some(false))
    }
}

impl Rights {
    pub(super) fn new(
        config: &Config,
        (surroundings, kept): (Surroundings, Kept),
        seed: u64,
    ) -> Self {
        let needs = cluster::needs(config);
        let Some(settings) = config.cluster.clone().filter(|_| !needs.is_empty()) else {
            return Self(None);
        };
        let preflight = RightsPreflight::new(needs, clock::now().mono, seed);
        Self(Some(Active { preflight, access: ApiAccess::new(settings, surroundings, kept) }))
    }

    /// When to ask, if nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        self.0.as_ref()?.preflight.next_wakeup()
    }

    /// Whether a problem says that this feature lacks a right, so that its own log line need not; `None` before the
    /// first answer.
    pub(super) fn lacks(&self, feature: Feature) -> Option<bool> {
        self.0.as_ref().map_or(Some(false), |active| active.preflight.lacks(feature))
    }

    /// podnudge is asked to stop: it does not wait for an answer.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }
}

impl Agent {
    /// Asks for the rights, if that is due.
    pub(in crate::run) fn advance_rights(&mut self) {
        let Some(active) = &mut self.api.rights.0 else { return };
        let Some(rights) = active.preflight.next_request(clock::now().mono) else { return };
        let (api, pod) = active.access.parts();
        let request = self.start_task(async move {
            let rights = api.ask_for_rights(rights, &pod.name, LIMIT).await;
            Done::Api(ApiAnswer::Rights(rights))
        });
        if let Some(active) = &mut self.api.rights.0 {
            active.access.begun(request);
        }
    }

    pub(in crate::run) fn rights_answered(&mut self, rights: Result<cluster::Rights, ApiError>) {
        let Some(active) = &mut self.api.rights.0 else { return };
        for (rule, mut problems) in active.preflight.answered(clock::now().mono, rights) {
            if let Some(config) = self.rule(rule) {
                problems.retain(|problem| !config.accepts(problem.kind.name()));
            }
            self.handle_event(Event::Rights(rule, problems));
        }
    }
}
