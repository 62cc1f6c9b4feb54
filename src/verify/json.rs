//! Reads one value of a JSON text, without holding the others. Pure.
//!
//! A page of 1 MiB would take a hundred times as much memory as a tree of values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use sha2::{Digest as _, Sha256};

use podnudge_config::Scalar;

/// A value of a JSON text. Lists and objects are only known by their digests.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonValue {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// A list.
    List {
        /// Of its items, in their order.
        digest: u128,
        /// Whether one of the items is the one that was asked for.
        contains: bool,
    },
    /// An object, with the digest of its members.
    Object(u128),
}

impl JsonValue {
    /// The value at a JSON pointer (RFC 6901), if there is one. `item` is an item to look for if the
    /// value is a list.
    ///
    /// # Errors
    /// If the text is not JSON.
    pub fn at(
        text: &str,
        pointer: &str,
        item: Option<&Scalar>,
    ) -> Result<Option<Self>, serde_json::Error> {
        let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
        let path: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
        let mut json = serde_json::Deserializer::from_str(text);
        let value = At { path: &path, item }.deserialize(&mut json)?;
        json.end()?;
        Ok(value)
    }

    /// Whether it is this value.
    pub fn equals(&self, wanted: &Scalar) -> bool {
        match (self, wanted) {
            (Self::Text(text), Scalar::Text(wanted)) => text == wanted,
            (Self::Bool(truth), Scalar::Bool(wanted)) => truth == wanted,
            (Self::Number(number), Scalar::Number(wanted)) => {
                // `2.0` and `2e0` equal 2, too (RFC 8259); beyond 64 bits nothing is equal.
                let float = number.as_f64().filter(|_| number.is_f64());
                number.as_i64() == Some(*wanted)
                    || float.is_some_and(|float| equals_number(float, *wanted))
            }
            _ => false,
        }
    }

    fn digest(&self) -> u128 {
        match self {
            Self::Null => hash(&[b"null"]),
            Self::Bool(truth) => hash(&[b"bool", &[u8::from(*truth)]]),
            Self::Number(number) => hash(&[b"number", number.to_string().as_bytes()]),
            Self::Text(text) => hash(&[b"text", text.as_bytes()]),
            Self::List { digest, .. } => hash(&[b"list", &digest.to_le_bytes()]),
            Self::Object(digest) => hash(&[b"object", &digest.to_le_bytes()]),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "the configured number is whole, and metrics have this precision"
)]
pub(super) fn equals_number(number: f64, wanted: i64) -> bool {
    number == wanted as f64
}

fn hash(parts: &[&[u8]]) -> u128 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// Reads the value below a path.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a [String],
    item: Option<&'a Scalar>,
}

impl At<'_> {
    /// A value that has none below it.
    fn leaf(self, value: JsonValue) -> Option<JsonValue> {
        self.path.is_empty().then_some(value)
    }
}

/// The whole value.
const WHOLE: At<'static> = At { path: &[], item: None };

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<JsonValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<JsonValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.leaf(JsonValue::Null))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(self.leaf(JsonValue::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(self.leaf(JsonValue::Number(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(self.leaf(JsonValue::Number(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        let number = Number::from_f64(number).map_or(JsonValue::Null, JsonValue::Number);
        Ok(self.leaf(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.leaf(JsonValue::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((first, rest)) = self.path.split_first() else {
            let (mut digest, mut contains) = (Sha256::new(), false);
            while let Some(item) = items.next_element_seed(WHOLE)? {
                let Some(item) = item else { continue };
                digest.update(item.digest().to_le_bytes());
                contains |= self.item.is_some_and(|wanted| item.equals(wanted));
            }
            let digest = hash(&[&digest.finalize()]);
            return Ok(Some(JsonValue::List { digest, contains }));
        };
        let is_index = first == "0" || !first.starts_with(['0', '+']);
        let index = first.parse::<usize>().ok().filter(|_| is_index);
        let (mut found, mut number) = (None, 0);
        loop {
            if Some(number) == index {
                match items.next_element_seed(At { path: rest, ..self })? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            number += 1;
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Some((first, rest)) = self.path.split_first() else {
            // Their order is of no importance.
            let mut digest = 0_u128;
            while let Some(name) = members.next_key::<String>()? {
                let value = members.next_value_seed(WHOLE)?;
                let value = value.map_or(0, |value| value.digest());
                let member = hash(&[name.as_bytes(), &value.to_le_bytes()]);
                digest = digest.wrapping_add(member);
            }
            return Ok(Some(JsonValue::Object(digest)));
        };
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            if name == *first {
                found = members.next_value_seed(At { path: rest, ..self })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const TEXT: &str = r#"{"a": [1, {"b/c": "x", "~": 2.5}, [true, null]], "": {"z": 1, "y": 2}}"#;

    fn at(pointer: &str) -> Option<JsonValue> {
        JsonValue::at(TEXT, pointer, Some(&Scalar::Bool(true))).unwrap()
    }

    #[test]
    fn a_value_is_found_where_a_tree_has_it() {
        let tree: Value = serde_json::from_str(TEXT).unwrap();
        for pointer in [
            "",
            "/a",
            "/a/0",
            "/a/1",
            "/a/1/b~1c",
            "/a/1/~0",
            "/a/2/0",
            "/a/2/1",
            "/a/3",
            "/a/01",
            "/a/+1",
            "/a/b",
            "/a/0/x",
            "/",
            "//z",
            "/x",
        ] {
            let found = at(pointer);
            let wanted = tree.pointer(pointer);
            assert_eq!(found.is_some(), wanted.is_some(), "{pointer}");
            match (found, wanted) {
                (Some(JsonValue::Text(text)), Some(Value::String(wanted))) => {
                    assert_eq!(text, *wanted);
                }
                (Some(JsonValue::Number(number)), Some(Value::Number(wanted))) => {
                    assert_eq!(number, *wanted);
                }
                (Some(JsonValue::Bool(truth)), Some(wanted)) => assert_eq!(*wanted, truth),
                (Some(JsonValue::List { .. }), wanted) => assert!(wanted.unwrap().is_array()),
                (Some(JsonValue::Object(_)), wanted) => assert!(wanted.unwrap().is_object()),
                (Some(JsonValue::Null), wanted) => assert!(wanted.unwrap().is_null()),
                (found, wanted) => assert_eq!((found, wanted), (None, None), "{pointer}"),
            }
        }
    }

    #[test]
    fn values_are_equal_whatever_the_order_of_their_members() {
        let value = |text: &str| JsonValue::at(text, "", None).unwrap();
        assert_eq!(value(r#"{"a": 1, "b": [2, 3]}"#), value(r#"{ "b":[2,3], "a":1 }"#));
        for other in [
            r#"{"a": 1, "b": [3, 2]}"#,
            r#"{"a": 1, "b": [2]}"#,
            r#"{"a": 1}"#,
            r#"{"b": 1, "a": [2, 3]}"#,
            r#"{"a": "1", "b": [2, 3]}"#,
        ] {
            assert_ne!(value(r#"{"a": 1, "b": [2, 3]}"#), value(other), "{other}");
        }
    }

    #[test]
    fn an_item_is_looked_for_in_the_list_itself() {
        let contains = |pointer| match at(pointer) {
            Some(JsonValue::List { contains, .. }) => contains,
            other => panic!("{other:?}"),
        };
        assert!(contains("/a/2"));
        assert!(!contains("/a"));
    }

    #[test]
    fn what_follows_the_value_must_be_json_too() {
        for text in ["{\"a\": 1", "{\"a\": 1} x", "", "{\"a\": 1, \"b\": tru}"] {
            assert!(JsonValue::at(text, "/a", None).is_err(), "{text}");
        }
    }
}
