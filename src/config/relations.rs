//! Checks the constraints between the keys of a table. Pure.

use super::define::Relation;
use super::place::Place;
use super::problem::At;
use crate::reason::Reason;

/// Reports keys that violate a constraint.
pub(super) fn check(place: &Place<'_>, relation: &Relation) {
    match relation {
        Relation::AtMostOne(keys) => at_most_one(place, keys),
        Relation::AtLeastOne(keys, message, hint) => {
            if !keys.iter().any(|key| place.has(key)) {
                place.report.problem(&place.at(), Reason::new(*message).hint(*hint));
            }
        }
        Relation::Needs(keys, others) => {
            let is_missing = !others.iter().any(|other| place.has(other));
            for key in keys.iter().filter(|key| is_missing && place.has(key)) {
                let others = others.join("` or `");
                let reason = Reason::new(format!("`{key}` is only valid with `{others}`"));
                place.problem(key, reason.hint(format!("leave it out, or add `{others}`")));
            }
        }
        Relation::Together(keys) => {
            let Some(first) = keys.iter().find(|key| place.has(key)) else { return };
            for missing in keys.iter().filter(|key| !place.has(key)) {
                place.problem(first, Reason::new(format!("`{first}` needs `{missing}` beside it")));
            }
        }
        Relation::Excludes(key, others) => {
            if let Some(other) = others.iter().find(|other| place.has(key) && place.has(other)) {
                let reason = Reason::new(format!("`{key}` cannot be combined with `{other}`"));
                place.problem(key, reason.hint("leave it out"));
            }
        }
    }
}

/// Reports every key but the first.
fn at_most_one(place: &Place<'_>, keys: &[&str]) {
    let there = keys.iter().filter_map(|key| Some((place.key(key)?, *key)));
    let there: Vec<(At, &str)> = there.collect();
    let Some((first_at, first)) = there.iter().min() else { return };
    let show = |at: &At| place.report.place(at);
    for (at, key) in there.iter().filter(|(_, key)| key != first) {
        let reason = match (at, first_at) {
            (At::File(_), At::File(_)) => {
                let hint = format!("keep one of them; `{first}` is at {}", show(first_at));
                Reason::new(format!("`{key}` cannot be combined with `{first}`")).hint(hint)
            }
            (_, first_at) => {
                let first = format!("`{first}`, from {}", show(first_at));
                Reason::new(format!("cannot be combined with {first}")).hint("keep one of them")
            }
        };
        place.report.problem(at, reason);
    }
}
