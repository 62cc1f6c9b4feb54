//! What podnudge's service account must be allowed to do: the rights of each feature that uses the Kubernetes API, in
//! one table, and the preflight that asks the API server for them. Pure: `run/api/rights.rs` sends the requests, at the
//! start, and again after a failed one and while a right is missing. What is missing is a problem of the preflight
//! (`Event::Rights`).
//!
//! The Roles in `k8s/` and `docs/`, and what is requested, are compared with the table by `tests/rights.rs`. A new
//! feature is a variant of [`Feature`] and an arm of [`needs`].

use std::collections::BTreeSet;
use std::time::Duration;

use super::call::{
    ADD, CONFIG_MAPS, ENDPOINT_SLICES, EVENTS, EVICTIONS, Kind, LEASES, PODS, SECRETS, Verb,
    role_rule,
};
use podnudge_config::{Cluster, Config, Limit};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::Moment;
use podnudge_core::collect;
use podnudge_core::event::RuleId;
use podnudge_core::objects::{ObjectKind, ObjectName};
use podnudge_core::pace::Pace;
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;

/// How long after an answer the server is asked again while a right is missing, and the longest wait after a request
/// that it has not answered.
const AGAIN: Duration = Duration::from_mins(5);

/// What podnudge uses the Kubernetes API for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// `lease` in `[rule.limit]`: slots, held in Leases.
    Slots,
    /// Also `lease`: waiting for a slot by a watch, and in a line.
    WatchedSlots,
    /// Also `lease`: whether podnudge's own Pod is Ready again, or is being deleted.
    Readiness,
    /// `services` in `[rule.drain]`: whether they have the pod.
    EndpointSlices,
    /// A restart by eviction.
    Eviction,
    /// `eager-sync` in `[cluster]`.
    EagerSync,
    /// `events` in `[cluster]`.
    Events,
}

/// A right, as the rules of a Role grant it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource, such as `pods/eviction`.
    pub resource: &'static str,
    /// The name of the object; `None` where Kubernetes cannot limit the right to names, or the names of the pods
    /// are not known beforehand.
    pub name: Option<String>,
    /// What is done, such as `get`.
    pub verb: &'static str,
}

/// What the API server says about the rights that are needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// The rights that the service account lacks, and that are needed.
    pub missing: Vec<Right>,
    /// Whether it may do more with its pod than podnudge does: no policy limits it.
    pub is_unlimited: bool,
}

/// A feature that the configuration uses, and the rights that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The feature that needs the rights.
    pub feature: Feature,
    /// The rule that uses it; the first one for what is configured for all rules.
    pub rule: RuleId,
    /// The rights that the feature needs.
    pub rights: Vec<Right>,
}

/// The rights that a configuration needs.
#[must_use]
pub fn needs(config: &Config) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut add = |feature, rule, rights| needs.push(Need { feature, rule, rights });
    for (number, rule) in config.rules.iter().enumerate() {
        let limit = rule.settings.limit.as_ref();
        if let Some((limit, name)) = limit.and_then(|limit| Some((limit, limit.lease.as_ref()?))) {
            let mut rights = leases(limit, name, [Verb::Get, Verb::Update]);
            rights.push(right(LEASES, Verb::Create));
            add(Feature::Slots, RuleId(number), rights);
            let rights = leases(limit, name, [Verb::Patch, Verb::Watch]);
            add(Feature::WatchedSlots, RuleId(number), rights);
            add(Feature::Readiness, RuleId(number), vec![right(PODS, Verb::Get)]);
        }
        if rule.settings.drain.as_ref().is_some_and(|drain| !drain.services.is_empty()) {
            let rights = [right(ENDPOINT_SLICES, Verb::ListOfService), right(PODS, Verb::Get)];
            add(Feature::EndpointSlices, RuleId(number), rights.into());
        }
        if rule.settings.evicts() {
            add(
                Feature::Eviction,
                RuleId(number),
                vec![right(PODS, Verb::Get), right(EVICTIONS, Verb::Create)],
            );
        }
    }
    let cluster = config.cluster.as_ref();
    if let Some(cluster) = cluster.filter(|cluster| cluster.eager_sync) {
        add(Feature::EagerSync, RuleId(0), eager_sync(cluster));
    }
    if cluster.is_some_and(|cluster| cluster.events) {
        add(Feature::Events, RuleId(0), vec![right(EVENTS, Verb::Create)]);
    }
    needs
}

/// The rights to the Leases of all slots.
fn leases(limit: &Limit, name: &str, verbs: [Verb; 2]) -> Vec<Right> {
    let one = |number: u32| verbs.map(|verb| right(LEASES, verb).of(&format!("{name}-{number}")));
    (0..limit.slots()).flat_map(one).collect()
}

/// Which objects are behind the volumes is only known when podnudge has read its Pod: it lists them at once then,
/// and eager sync itself says if it must not.
fn eager_sync(cluster: &Cluster) -> Vec<Right> {
    let of_objects = cluster.objects.iter().flat_map(object_rights);
    let own_pod = cluster.objects.is_empty().then(|| right(PODS, Verb::Get));
    of_objects.chain(own_pod).chain([right(PODS, Verb::Patch)]).collect()
}

/// The rights to follow an object behind the volumes.
#[must_use]
pub fn object_rights(object: &ObjectName) -> [Right; 2] {
    let kind = match object.kind {
        ObjectKind::ConfigMap => CONFIG_MAPS,
        ObjectKind::Secret => SECRETS,
    };
    [Verb::List, Verb::Watch].map(|verb| right(kind, verb).of(&object.name))
}

fn right(kind: Kind, verb: Verb) -> Right {
    Right { group: kind.group, resource: kind.resource, name: None, verb: verb.name() }
}

impl Right {
    fn of(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Whether a Role that grants the other one grants this, too: the Leases of a rule are in one list of names.
    fn is_granted_with(&self, other: &Self) -> bool {
        let is_same = (self.resource, self.verb) == (other.resource, other.verb);
        let base = |right: &Self| {
            let name = right.name.as_deref()?;
            let slot = name.rsplit_once('-').filter(|_| right.resource == LEASES.resource);
            Some(slot.map_or(name, |(base, _)| base).to_owned())
        };
        is_same && base(self) == base(other)
    }

    /// Whether it is for this verb and kind, whatever the name.
    pub(super) fn is(&self, kind: Kind, verb: Verb) -> bool {
        (self.group, self.resource, self.verb) == (kind.group, kind.resource, verb.name())
    }

    /// The name in a request that needs the right: that of podnudge's own pod, unless the right says it.
    pub(super) fn name_in_request<'a>(&'a self, pod: &'a str) -> Option<&'a str> {
        let is_of_pod = self.resource == PODS.resource || self.resource == EVICTIONS.resource;
        self.name.as_deref().or(is_of_pod.then_some(pod))
    }
}

impl Feature {
    /// What is missing, for people.
    fn problem(self) -> (ProblemKind, &'static str) {
        match self {
            Self::Slots => (
                ProblemKind::SlotsForbidden,
                "the service account may not read and write the Leases that hold the slots",
            ),
            Self::WatchedSlots => (
                ProblemKind::SlotsUnwatched,
                "the service account may not watch the Leases and say in them who is next, so free slots are found late, and by more requests",
            ),
            Self::Readiness => (
                ProblemKind::ReadinessForbidden,
                "the service account may not read podnudge's own Pod, so slots are given back without knowing whether it is Ready",
            ),
            Self::EndpointSlices => (
                ProblemKind::EndpointSlicesForbidden,
                "the service account may not list EndpointSlices, so a drain cannot find out when the pod has left its Services",
            ),
            Self::Eviction => (
                ProblemKind::EvictionForbidden,
                "the service account may not evict podnudge's own pod",
            ),
            Self::EagerSync => (
                ProblemKind::EagerSyncForbidden,
                "the service account may not do what `eager-sync` needs, so edits wait for the kubelet",
            ),
            Self::Events => {
                (ProblemKind::EventsForbidden, "the service account may not create Events")
            }
        }
    }
}

impl Need {
    /// The rights of this feature that are missing.
    fn missing(&self, missing: &BTreeSet<Right>) -> Vec<&Right> {
        let is_missing = |right: &&Right| missing.iter().any(|other| right.is_granted_with(other));
        self.rights.iter().filter(is_missing).collect()
    }

    /// The problem, if some of these rights are missing.
    fn problem(&self, missing: &BTreeSet<Right>) -> Option<Problem> {
        let missing = self.missing(missing);
        if missing.is_empty() {
            return None;
        }
        let (kind, message) = self.feature.problem();
        let hint = format!("{ADD}: {}", role_rules(&missing).join("; and "));
        Some(Problem::new(kind, Reason::new(message).hint(hint)))
    }

    /// The problem, if no policy limits the rights of this feature.
    fn unlimited(&self) -> Option<Problem> {
        let message = "podnudge may change more of its pod than an annotation, such as its labels and images, because no ValidatingAdmissionPolicy limits its service account";
        let hint = "apply k8s/access/policy.yaml, which needs Kubernetes 1.30 and holds the accounts with the name `podnudge` or a name that ends with `-podnudge`; or set accept = \"rights-unlimited\"";
        let problem =
            || Problem::new(ProblemKind::RightsUnlimited, Reason::new(message).hint(hint));
        (self.feature == Feature::EagerSync).then(problem)
    }
}

/// A rule of a Role.
struct RoleRule<'a> {
    group: &'a str,
    resource: &'a str,
    names: Vec<&'a str>,
    verbs: Vec<&'a str>,
}

/// The rules of a Role with these rights: the verbs for one object together, and objects with the same verbs.
fn role_rules(rights: &[&Right]) -> Vec<String> {
    let mut rules: Vec<RoleRule<'_>> = Vec::new();
    for Right { group, resource, name, verb } in rights {
        let names: Vec<&str> = name.iter().map(String::as_str).collect();
        let is_same =
            |rule: &&mut RoleRule<'_>| (rule.resource, &rule.names) == (*resource, &names);
        match rules.iter_mut().find(is_same) {
            Some(rule) => rule.verbs.push(verb),
            None => rules.push(RoleRule { group, resource, names, verbs: vec![verb] }),
        }
    }
    let mut merged: Vec<RoleRule<'_>> = Vec::new();
    for mut rule in rules {
        let is_same = |other: &&mut RoleRule<'_>| {
            (other.resource, &other.verbs) == (rule.resource, &rule.verbs)
                && !other.names.is_empty()
                && !rule.names.is_empty()
        };
        match merged.iter_mut().find(is_same) {
            Some(other) => other.names.append(&mut rule.names),
            None => merged.push(rule),
        }
    }
    let text = |RoleRule { group, resource, names, verbs }| {
        role_rule(group, resource, &names.join(", "), &verbs.join(", "))
    };
    merged.into_iter().map(text).collect()
}

/// The preflight: asks the API server at the start whether the rights are there, and again while one is missing.
#[derive(Debug)]
pub struct RightsPreflight {
    needs: Vec<Need>,
    /// When to ask; `None` while that is done, or if it need not be done again.
    at: Option<Moment>,
    pace: Pace,
    /// Which features lack a right, as far as the server has said; `None` before the first answer.
    lacking: Option<BTreeSet<Feature>>,
}

impl RightsPreflight {
    /// Nothing is asked if nothing is needed. `seed` differs between replicas.
    #[must_use]
    pub fn new(needs: Vec<Need>, now: Moment, seed: u64) -> Self {
        let at = (!needs.is_empty()).then_some(now);
        Self { needs, at, pace: Pace::new(seed), lacking: None }
    }

    /// The rights to ask for now, each once: for the Leases of a rule, those for the last one. Whoever adds a slot may forget
    /// its name.
    pub fn next_request(&mut self, now: Moment) -> Option<Vec<Right>> {
        self.at.take_if(|at| *at <= now)?;
        let mut asked: Vec<&Right> = Vec::new();
        for right in self.needs.iter().flat_map(|need| &need.rights) {
            match asked.iter_mut().find(|other| right.is_granted_with(other)) {
                Some(other) => *other = right,
                None => asked.push(right),
            }
        }
        Some(collect::set(asked).into_iter().cloned().collect())
    }

    /// When to call [`RightsPreflight::next_request`].
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.at
    }

    /// Whether a problem says that this feature lacks a right; `None` before the first answer.
    #[must_use]
    pub fn lacks(&self, feature: Feature) -> Option<bool> {
        Some(self.lacking.as_ref()?.contains(&feature))
    }

    /// Takes what the server says about the rights. Returns the problems of each rule that needs any right; nothing if the
    /// server does not say.
    pub fn answered(
        &mut self,
        now: Moment,
        rights: Result<Rights, ApiError>,
    ) -> Vec<(RuleId, Vec<Problem>)> {
        let Rights { missing, is_unlimited } = match rights {
            Ok(rights) => rights,
            // Also of a refusal: the token may be about to be renewed, or the Roles are not loaded yet.
            Err(error) => {
                let asked_for = error.retry_after().unwrap_or_default();
                self.at = Some(now.after(self.pace.refused().max(asked_for).min(AGAIN)));
                self.lacking.get_or_insert_default();
                return Vec::new();
            }
        };
        self.pace.answered();
        let missing = collect::set(missing);
        let lacking = self.needs.iter().filter(|need| !need.missing(&missing).is_empty());
        self.lacking = Some(collect::set(lacking.map(|need| need.feature)));
        if !missing.is_empty() || is_unlimited {
            self.at = Some(now.after(AGAIN));
        }
        let rules = collect::set(self.needs.iter().map(|need| need.rule));
        let problems = |rule| {
            let needs = self.needs.iter().filter(|need| need.rule == rule);
            let of = |need: &Need| {
                let unlimited = is_unlimited.then(|| need.unlimited()).flatten();
                need.problem(&missing).into_iter().chain(unlimited)
            };
            (rule, needs.flat_map(of).collect())
        };
        rules.into_iter().map(problems).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podnudge_config::{self as config, Overrides};

    fn needs_of(text: &str) -> Vec<Need> {
        let text = format!(
            "[[rule]]\nname = \"web\"\nwatch = \"/a\"\nhttp.url = \"http://127.0.0.1/\"\n{text}"
        );
        let parsed = config::parse("c.toml", &text, &Overrides::default(), None);
        needs(&parsed.expect("it is valid").0)
    }

    fn now(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    const SLOTS: &str = "limit = { lease = \"web\", max-concurrent = 2 }";

    #[test]
    fn nothing_is_asked_without_a_feature_and_each_right_is_asked_for_once() {
        let mut preflight = RightsPreflight::new(needs_of(""), now(0), 7);
        assert_eq!((preflight.next_request(now(0)), preflight.next_wakeup()), (None, None));
        let all = format!("{SLOTS}\n[cluster]\neager-sync = true\nevents = true");
        let mut preflight = RightsPreflight::new(needs_of(&all), now(0), 7);
        let asked: Vec<String> = preflight
            .next_request(now(0))
            .expect("it is due")
            .iter()
            .map(|right| format!("{} {} {:?}", right.verb, right.resource, right.name))
            .collect();
        let wanted = [
            "create events None",
            "get pods None",
            "patch pods None",
            "create leases None",
            "get leases Some(\"web-1\")",
            "patch leases Some(\"web-1\")",
            "update leases Some(\"web-1\")",
            "watch leases Some(\"web-1\")",
        ];
        assert_eq!(asked, wanted);
        assert_eq!(preflight.next_request(now(0)), None, "it is under way");
        let problems = preflight.answered(now(1), Ok(Rights::default()));
        assert_eq!(problems, [(RuleId(0), Vec::new())]);
        assert_eq!(preflight.next_wakeup(), None, "nothing is missing");
    }

    #[test]
    fn a_problem_for_each_feature_has_the_rules_that_the_role_lacks() {
        let all = format!(
            "{SLOTS}\n[cluster]\neager-sync = true\nobjects = [\"configmap/app\", \"configmap/more\"]"
        );
        let mut preflight = RightsPreflight::new(needs_of(&all), now(0), 7);
        let mut missing = preflight.next_request(now(0)).expect("it is due");
        missing.retain(|right| right.verb != "get");
        let [(RuleId(0), problems)] =
            &preflight.answered(now(1), Ok(Rights { missing, is_unlimited: false }))[..]
        else {
            unreachable!("one rule needs rights")
        };
        let said: Vec<String> = problems
            .iter()
            .map(|problem| {
                let hint = problem.reason.hint.as_deref().unwrap_or_default();
                format!("{}: {}", problem.kind.name(), hint.replace(ADD, "add"))
            })
            .collect();
        let wanted = [
            "slots-forbidden: add: apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [web-0, web-1], verbs: [update]; and apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]",
            "slots-unwatched: add: apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [web-0, web-1], verbs: [patch, watch]",
            "eager-sync-forbidden: add: apiGroups: [\"\"], resources: [configmaps], resourceNames: [app, more], verbs: [list, watch]; and apiGroups: [\"\"], resources: [pods], verbs: [patch]",
        ];
        assert_eq!(said, wanted);
        assert_eq!(preflight.next_wakeup(), Some(now(1).after(AGAIN)), "until nothing is missing");
    }

    #[test]
    fn a_server_that_does_not_say_causes_no_problem() {
        let reason = || Reason::new("x");
        for error in [
            ApiError::Refused(reason()),
            ApiError::NotFound(reason()),
            ApiError::Unanswered(reason()),
        ] {
            let mut preflight = RightsPreflight::new(needs_of(SLOTS), now(0), 7);
            let mut at = now(0);
            let mut ask = || {
                assert!(preflight.next_request(at).is_some());
                assert_eq!(preflight.answered(at, Err(error.clone())), []);
                let next = preflight.next_wakeup().expect("it asks again");
                let wait = next.since(at);
                at = next;
                wait
            };
            let waits: Vec<Duration> = (0..20).map(|_| ask()).collect();
            assert!(waits[0] <= Duration::from_secs(1), "the token may be renewed: {waits:?}");
            assert!(waits[19] >= AGAIN / 2 && waits.iter().all(|wait| *wait <= AGAIN), "{waits:?}");
        }
    }

    #[test]
    fn the_server_gets_the_pause_that_it_asks_for() {
        let mut preflight = RightsPreflight::new(needs_of(SLOTS), now(0), 7);
        let mut asks = |pause| {
            assert!(preflight.next_request(now(10_000)).is_some());
            let busy = ApiError::Throttled(Reason::new("x"), Some(pause));
            assert_eq!(preflight.answered(now(0), Err(busy)), []);
            preflight.next_wakeup()
        };
        assert_eq!(asks(Duration::from_secs(90)), Some(now(90)));
        assert_eq!(asks(Duration::from_hours(9)), Some(now(0).after(AGAIN)));
    }
}
