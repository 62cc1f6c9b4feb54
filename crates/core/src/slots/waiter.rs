//! A replica in the line of a Lease: an annotation for each, so that none of them writes over another one. Pure.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What the keys of the annotations begin with that say who is in the line: one for each.
const WAITS: &str = "podnudge.io/waits-";
/// The most replicas that are read: with more, somebody else has written them.
const LONGEST_LINE: usize = 64;

/// A replica in the line of those that wait for a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Who it is.
    pub holder: String,
    /// Which of its requests says so. Sorts behind those that were there before.
    pub token: String,
    /// The number of another slot that it is offered: then it does not wait here any more.
    pub offered: Option<usize>,
}

/// The line that the annotations tell, in its order.
pub(super) fn line(annotations: &Map<String, Value>) -> Vec<Waiter> {
    let mut line = Vec::new();
    let entries = annotations.iter().filter(|(key, _)| key.starts_with(WAITS));
    for (key, text) in entries.take(LONGEST_LINE) {
        let waiter = text.as_str().and_then(Waiter::parse);
        if let Some(waiter) = waiter.filter(|waiter| waiter.key() == *key) {
            waiter.enter(&mut line);
        }
    }
    line
}

/// The token of one that comes behind all of this line. `number` is a random one.
pub(super) fn last_token(line: &[Waiter], number: u32) -> String {
    let place = |waiter: &Waiter| u32::from_str_radix(waiter.token.get(..8)?, 16).ok();
    let last = line.iter().filter_map(place).max().unwrap_or(0);
    format!("{:08x}{number:08x}", last.saturating_add(1))
}

impl Waiter {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ').map(ToOwned::to_owned);
        let (holder, token) = (parts.next()?, parts.next()?);
        Some(Self { holder, token, offered: parts.next().and_then(|slot| slot.parse().ok()) })
    }

    /// The body of a merge patch that says so.
    #[must_use]
    pub fn patch(&self) -> Vec<u8> {
        json!({"metadata": {"annotations": {self.key(): self.text()}}}).to_string().into_bytes()
    }

    /// Takes its place in the line.
    pub(super) fn enter(self, line: &mut Vec<Self>) {
        let place = line.partition_point(|it| it.token <= self.token);
        line.insert(place, self);
    }

    /// The key of its annotation: the same for all its requests.
    pub(super) fn key(&self) -> String {
        let hash = Sha256::digest(self.holder.as_bytes());
        hash.iter().take(8).fold(WAITS.to_owned(), |key, byte| key + &format!("{byte:02x}"))
    }

    /// What its annotation says.
    pub(super) fn text(&self) -> String {
        let Self { holder, token, offered } = self;
        match offered {
            Some(slot) => format!("{holder} {token} {slot}"),
            None => format!("{holder} {token}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(holder: &str, token: &str) -> Waiter {
        Waiter { holder: holder.to_owned(), token: token.to_owned(), offered: None }
    }

    #[test]
    fn a_line_is_read_in_its_order_and_without_what_podnudge_has_not_written() {
        let (first, second) = (waiter("a", "0000000100000009"), waiter("b", "0000000200000001"));
        let second = Waiter { offered: Some(3), ..second };
        let entry = |waiter: &Waiter| (waiter.key(), Value::from(waiter.text()));
        let others = [
            // Of another replica than the key says, and no text.
            ("podnudge.io/waits-0123456789abcdef".to_owned(), Value::from("c 1")),
            (waiter("d", "1").key(), Value::from(1)),
            ("example.com/a".to_owned(), Value::from("e 1")),
        ];
        let all = others.into_iter().chain([entry(&second), entry(&first)]).collect();
        let line = line(&all);
        assert_eq!(line, [first, second]);
        assert_eq!(last_token(&line, 7), "0000000300000007");
        assert_eq!(last_token(&[], 7), "0000000100000007");
        let many = (0..1000).map(|n| entry(&waiter(&n.to_string(), "1"))).collect();
        assert_eq!(super::line(&many).len(), LONGEST_LINE);
    }
}
