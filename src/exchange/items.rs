//! One HTTP request whose answer is a list of the Kubernetes API, read item by item, or a watch, read line by line: the
//! memory that it needs does not depend on their number. Limited in time, in the length of an item or a line, and in what
//! is around the items.

use std::time::Duration;

use super::http::{self, Answer};
use super::{AnswerEnd, ExchangeError};
use podnudge_config::Endpoint;

/// The most bytes of an answer without its items, and of one that is an error.
const MOST_AROUND: usize = 64 * 1024;
/// The memory that is kept for the next item.
const KEPT: usize = 64 * 1024;

/// What an answer is cut into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The items of a list.
    #[default]
    Items,
    /// Lines. Before them, an empty one says that the answer has begun.
    Lines,
}

/// Cuts a list into its items.
#[derive(Debug, Default)]
struct Cutter {
    cut: Cut,
    /// The item that has begun.
    item: Vec<u8>,
    /// What is around the items.
    around: Vec<u8>,
    /// The text that began last at the top of the list: perhaps a key.
    word: Vec<u8>,
    depth: usize,
    place: Place,
    text: Text,
    /// Whether the item that has begun is longer than it may be.
    is_too_long: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Around,
    /// After the key `items`.
    AtKey,
    /// After that and its colon.
    AtItems,
    /// Between two items.
    Between,
    Item,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

impl Cutter {
    /// Takes a piece, and passes each item that ends in it to `take`. Items longer than `longest` are left out. Returns
    /// whether there is room for what is around the items, and `take` wants more.
    fn feed(&mut self, piece: &[u8], longest: usize, take: &mut Take<'_>) -> bool {
        let mut goes_on = true;
        for byte in piece {
            if self.cut == Cut::Lines {
                if *byte == b'\n' {
                    goes_on &= self.end(take);
                } else {
                    self.keep(*byte, longest);
                }
                continue;
            }
            match self.place {
                Place::Item => {
                    self.keep(*byte, longest);
                    self.follow(*byte);
                    if self.depth == 2 && self.text == Text::Outside {
                        goes_on &= self.end(take);
                        self.place = Place::Between;
                    }
                }
                Place::Between => {
                    self.follow(*byte);
                    if *byte == b'{' {
                        self.place = Place::Item;
                        self.keep(*byte, longest);
                    } else if *byte == b']' {
                        self.place = Place::Around;
                        self.around.push(*byte);
                    }
                }
                Place::Around | Place::AtKey | Place::AtItems => {
                    self.around.push(*byte);
                    self.look(*byte);
                }
            }
        }
        goes_on && self.around.len() <= MOST_AROUND
    }

    /// The item has ended. Returns whether more are wanted.
    fn end(&mut self, take: &mut Take<'_>) -> bool {
        let is_too_long = std::mem::take(&mut self.is_too_long);
        let goes_on = is_too_long || take(&self.item);
        self.item.clear();
        self.item.shrink_to(KEPT);
        goes_on
    }

    fn keep(&mut self, byte: u8, longest: usize) {
        if self.item.len() >= longest {
            self.is_too_long = true;
            self.item.clear();
        }
        if !self.is_too_long {
            self.item.push(byte);
        }
    }

    /// Looks for the beginning of the items.
    fn look(&mut self, byte: u8) {
        let was = self.text;
        self.follow(byte);
        if self.depth == 1 && was != Text::Outside && self.text == Text::Inside {
            self.word.push(byte);
        }
        let is_blank = byte.is_ascii_whitespace();
        self.place = match (self.place, byte) {
            // A text has begun.
            (Place::Around, b'"') if was == Text::Outside => {
                self.word.clear();
                Place::Around
            }
            // It has ended.
            (Place::Around, b'"') if self.text == Text::Outside && self.depth == 1 => {
                if self.word == b"items" { Place::AtKey } else { Place::Around }
            }
            (Place::AtKey, b':') => Place::AtItems,
            (Place::AtItems, b'[') => Place::Between,
            (place, _) if is_blank => place,
            _ => Place::Around,
        };
    }

    fn follow(&mut self, byte: u8) {
        self.text = match (self.text, byte) {
            (Text::Outside, b'"') | (Text::AfterBackslash, _) => Text::Inside,
            (Text::Inside, b'\\') => Text::AfterBackslash,
            (Text::Inside, b'"') => Text::Outside,
            (text, _) => text,
        };
        if self.text == Text::Outside {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// Takes an item, and returns whether to go on.
type Take<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// Sends a GET request, and passes each item of a successful answer to `take`. Items longer than `longest` are left out.
/// The headers must come within `first`. Returns the answer without its items.
///
/// # Errors
/// If there is no answer.
pub(crate) async fn read_items(
    endpoint: &Endpoint,
    (cut, first, longest): (Cut, Duration, usize),
    take: &mut Take<'_>,
) -> Result<Answer, ExchangeError> {
    let mut response = http::open_within(endpoint, first).await?;
    let (status, retry_after) = (response.status, response.retry_after);
    let mut cutter = Cutter { cut, ..Cutter::default() };
    if cut == Cut::Lines && status.is_success() {
        take(&[]);
    }
    let end = loop {
        match response.chunk().await {
            Ok(Some(piece)) if status.is_success() => {
                if !cutter.feed(&piece, longest, take) {
                    break AnswerEnd::Truncated;
                }
            }
            Ok(Some(piece)) => {
                cutter.around.extend_from_slice(&piece);
                if cutter.around.len() > MOST_AROUND {
                    break AnswerEnd::Truncated;
                }
            }
            Ok(None) => break AnswerEnd::Complete,
            Err(how) => break AnswerEnd::Aborted(how),
        }
    };
    Ok(Answer { status, body: cutter.around, end, retry_after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn cut(list: &str, size: usize, longest: usize) -> (Vec<Value>, String) {
        let (mut items, mut cutter) = (Vec::new(), Cutter::default());
        for piece in list.as_bytes().chunks(size) {
            let mut take = |item: &[u8]| {
                items.push(serde_json::from_slice(item).unwrap());
                true
            };
            assert!(cutter.feed(piece, longest, &mut take));
        }
        (items, String::from_utf8(cutter.around).unwrap())
    }

    #[test]
    fn a_list_is_cut_into_its_items() {
        let items = [json!({"a": "]},{ \" \\"}), json!({"items": [{"b": [1, {}]}]}), json!({})];
        let list = json!({"items": items, "kind": "items", "metadata": {"items": [{}], "x": "y"}});
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for size in [1, 2, 7, 4096] {
                let (cut, around) = cut(&text, size, 1000);
                assert_eq!(cut, items);
                let around: Value = serde_json::from_str(&around).unwrap();
                let wanted = json!({"items": [], "kind": "items", "metadata": list["metadata"]});
                assert_eq!(around, wanted);
            }
        }
    }

    #[test]
    fn other_lists_are_left_as_they_are_and_long_items_are_left_out() {
        for text in
            [r#"{"items":null,"a":[{}]}"#, r#"{"items":[]}"#, r#"{"a":{"items":[{}]}}"#, "[{}]"]
        {
            assert_eq!(cut(text, 3, 1000), (Vec::new(), text.to_owned()));
        }
        let text = json!({"items": [{"a": "x".repeat(50)}, {"b": 1}, {"c": "y".repeat(50)}]});
        assert_eq!(cut(&text.to_string(), 5, 20).0, [json!({"b": 1})]);
        let mut cutter = Cutter::default();
        assert!(!cutter.feed(&vec![b' '; MOST_AROUND + 1], 10, &mut |_| true));
    }

    #[test]
    fn a_watch_is_cut_into_its_lines() {
        for size in [1, 4, 100] {
            let (mut lines, mut cutter) =
                (Vec::new(), Cutter { cut: Cut::Lines, ..Cutter::default() });
            for piece in b"{\"a\":1}\n{\"b\":[2]}\nlonger than it may be\n[3]\nrest".chunks(size) {
                assert!(cutter.feed(piece, 12, &mut |line| {
                    lines.push(String::from_utf8(line.to_vec()).unwrap());
                    true
                }));
            }
            assert_eq!(lines, ["{\"a\":1}", "{\"b\":[2]}", "[3]"]);
            assert!(!cutter.feed(b"\n", 12, &mut |_| false), "enough");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, size in 1..9_usize) {
            let mut cutter = Cutter::default();
            for piece in bytes.chunks(size) {
                cutter.feed(piece, 50, &mut |item| item.len() <= 50);
            }
        }

        #[test]
        fn texts_in_items_do_not_matter(texts in prop::collection::vec(any::<String>(), 0..5), size in 1..99_usize) {
            let items: Vec<Value> = texts.iter().map(|text| json!({"a": text, text: [text]})).collect();
            let list = json!({"metadata": {"continue": "c"}, "items": items}).to_string();
            prop_assert_eq!(cut(&list, size, 1_000_000).0, items);
        }
    }
}
