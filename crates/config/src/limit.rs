//! `[rule.limit]`: how many replicas act at the same time. Pure.

use super::prelude::*;
use podnudge_core::slots::LONGEST_LEASE;

settings! {
    /// How many replicas act at the same time: by slots that they share.
    #[derive(PartialEq, Eq)]
    pub struct Limit = "[rule.limit]",
        &[
            Relation::AtMostOne(&["lease", "turn"]),
            Relation::AtLeastOne(
                &["lease", "turn"],
                "`[rule.limit]` needs the slots that the replicas share",
                "add `lease = \"NAME\"`, the same for all replicas and for nothing else; or without the Kubernetes API, `turn = \"20s\"` and `replicas = 3`",
            ),
            Relation::Needs(&["max-concurrent", "lease-duration", "bake", "on-unreachable"], &["lease"]),
            Relation::Needs(&["turn"], &["replicas"]),
        ];
        validated
    {
        /// Hold one of the Leases `NAME-0`, `NAME-1` and so on, in the pod's namespace, to act: this is their `NAME`. Replicas with the same name share the slots.
        lease: Option<String> = optional("", checked("a name", lease_name));
        /// The number of slots: of replicas that act at the same time. Or that part of `replicas`, such as `25%`, rounded down, but at least 1.
        max_concurrent: Share = default("1", share());
        /// The number of replicas, or more: for `max-concurrent` in percent, and for `turn`.
        replicas: Option<u32> = optional("", number(1, 100_000));
        /// How long a slot stays taken if the podnudge that holds it disappears. The same for all replicas. It is renewed at a third of this.
        lease_duration: Duration = default("15s", duration(SECOND, LONGEST_LEASE));
        /// How long the application must stay healthy before the next replica gets the slot.
        bake: Duration = default("0s", duration(ZERO, DAY));
        /// What to do while the API server is not reachable: `wait` for it, or `act` without a slot.
        on_unreachable: Option<OnUnreachable> = optional("`wait` for rules that may restart the application, or have `drain`, or evict the pod; `act` for others", choice()).resolved();
        /// Without the Kubernetes API: act only in this replica's turn, which is so long. The `replicas` have turns one after the other, by their ordinals in the StatefulSet and the wall clock. It must be longer than an action and the difference of the nodes' clocks together.
        turn: Option<Duration> = optional("", duration(SECOND, HOUR));
    }
}

words! {
    /// What to do while the API server is not reachable.
    pub enum OnUnreachable {
        /// Wait for it.
        Wait = "wait",
        /// Act without a slot.
        Act = "act",
    }
}

/// How many replicas may act at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// A number of replicas.
    Count(u32),
    /// A part of all replicas, in percent.
    Percent(u32),
}

/// The most slots: each is a Lease that every replica reads while it waits.
const MOST_SLOTS: u32 = 100;
/// A Lease is named like a DNS subdomain; `-` and the number of the slot follow.
const LONGEST_NAME: usize = 60;

impl Limit {
    /// The number of Leases.
    #[must_use]
    pub fn slots(&self) -> u32 {
        match self.max_concurrent {
            Share::Count(count) => count,
            Share::Percent(percent) => {
                let replicas = u64::from(self.replicas.unwrap_or(1));
                let part = replicas * u64::from(percent) / 100;
                u32::try_from(part).unwrap_or(MOST_SLOTS).clamp(1, MOST_SLOTS)
            }
        }
    }

    /// Fills in what depends on the rule.
    pub(super) fn resolve(&mut self, on_unreachable: OnUnreachable) {
        if self.lease.is_some() {
            self.on_unreachable.get_or_insert(on_unreachable);
        }
    }

    /// Why a slot may be given back too early after a restart without a proof. `place` says where the target
    /// runs.
    pub(super) fn unproven(&self, place: &str) -> Option<Reason> {
        if self.lease.is_none() || !self.bake.is_zero() {
            return None;
        }
        let message = format!(
            "{place} below `podnudge supervise`, the slot is given back before the application has started: \
             the kubelet sees no restart, the pod stays Ready, and the rule has no proof"
        );
        let hint = "add a proof, such as `http = \"http://127.0.0.1:8080/\"` in `[rule.verify]`, or a `bake` \
                    that is longer than the start of the application";
        Some(Reason::new(message).hint(hint))
    }

    fn validate(&mut self, place: &Place<'_>) {
        let is_percent = matches!(self.max_concurrent, Share::Percent(_));
        if is_percent && self.replicas.is_none() {
            let reason = Reason::new("`max-concurrent` in percent needs `replicas`");
            let hint = "for example `replicas = 4`: the number of the Deployment or StatefulSet";
            place.problem(Value("max-concurrent"), reason.hint(hint));
        }
        if !is_percent && self.replicas.is_some() && self.turn.is_none() {
            let reason =
                Reason::new("`replicas` has no effect: `max-concurrent` is not in percent");
            place.warn(Key("replicas"), reason.hint("leave it out, or write a part such as `25%`"));
        }
    }
}

const fn share() -> Type<Share> {
    let print = |share: &Share| match share {
        Share::Count(count) => count.to_string(),
        Share::Percent(percent) => format!("{percent}%"),
    };
    Type { form: Form::TextOrNumber("a number or a percentage"), parse: parse_share, print }
}

fn parse_share(text: &str) -> Result<Share, Reason> {
    let number = |text: &str, most: u32| {
        text.trim().parse::<u32>().ok().filter(|number| (1..=most).contains(number))
    };
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent, 100).map(Share::Percent),
        None => number(text, MOST_SLOTS).map(Share::Count),
    };
    share.ok_or_else(|| {
        is_not(text, "a number of replicas")
            .hint(format!("from 1 to {MOST_SLOTS}, or from `1%` to `100%` of `replicas`"))
    })
}

/// The name of the Leases, without the number.
fn lease_name(text: &str) -> Result<String, Reason> {
    match parsers::rule_name(text) {
        Ok(name) if name.len() <= LONGEST_NAME => Ok(name),
        _ => Err(is_not(text, "a name for Leases").hint(format!(
            "use 1 to {LONGEST_NAME} of `a` to `z`, `0` to `9` and `-`, with a letter or digit first and last"
        ))),
    }
}

/// Rules that share Leases must agree on them.
pub(super) fn validate_all<'a>(limits: impl Iterator<Item = (Place<'a>, &'a Limit)>) {
    let mut others: Vec<(Place<'_>, &Limit)> = Vec::new();
    for (place, limit) in limits.filter(|(_, limit)| limit.lease.is_some()) {
        let same = |limit: &Limit| (limit.slots(), limit.lease_duration);
        let shares = |(_, other): &&(Place<'_>, &Limit)| other.lease == limit.lease;
        if let Some((other, _)) =
            others.iter().filter(shares).find(|(_, other)| same(other) != same(limit))
        {
            let at = place.report.place(&other.at(Value("lease")));
            let reason = Reason::new("another rule shares these Leases with other settings");
            let hint = format!(
                "give both the same `max-concurrent` and `lease-duration`, or another name; see {at}"
            );
            place.problem(Value("lease"), reason.hint(hint));
        }
        others.push((place, limit));
    }
}
