//! Checks the constraints between the keys of a table. Pure.

use super::define::Relation;
use super::place::{Place, Spot};
use super::problem::At;
use podnudge_core::reason::Reason;

/// Reports keys that violate a constraint.
pub(super) fn check(place: &Place<'_>, relation: &Relation) {
    let has_none = |keys: &[&str]| !keys.iter().any(|key| place.has(key));
    let needs = |key: &str, others: &str| {
        if place.has(key) {
            let reason = Reason::new(format!("`{key}` is only valid with `{others}`"));
            place.problem(Spot::Key(key), reason.hint(format!("leave it out, or add `{others}`")));
        }
    };
    match relation {
        Relation::AtMostOne(keys) => at_most_one(place, keys),
        Relation::AtLeastOne(keys, message, hint) => {
            if has_none(keys) {
                place.problem(Spot::Table, Reason::new(*message).hint(*hint));
            }
        }
        Relation::Needs(keys, others) => {
            keys.iter()
                .filter(|_| has_none(others))
                .for_each(|key| needs(key, &others.join("` or `")));
        }
        Relation::Together(keys) => {
            let Some(first) = keys.iter().find(|key| place.has(key)) else { return };
            keys.iter().filter(|key| !place.has(key)).for_each(|missing| needs(first, missing));
        }
    }
}

/// Reports every key but the first.
fn at_most_one(place: &Place<'_>, keys: &[&str]) {
    let there = keys.iter().filter_map(|key| Some((place.key(key)?, *key)));
    let there: Vec<(At, &str)> = there.collect();
    let Some((first_at, first)) = there.iter().min() else { return };
    let shown = place.report.place(first_at);
    for (at, key) in there.iter().filter(|(_, key)| key != first) {
        let reason = match (at, first_at) {
            (At::File(_), At::File(_)) => {
                let hint = format!("keep one of them; `{first}` is at {shown}");
                Reason::new(format!("`{key}` cannot be combined with `{first}`")).hint(hint)
            }
            _ => Reason::new(format!("cannot be combined with `{first}`, from {shown}"))
                .hint("keep one of them"),
        };
        place.report.problem(at, reason);
    }
}
