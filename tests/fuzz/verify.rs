//! Fuzzes the proofs in the body of an answer: JSON, metrics and regular expressions (`src/verify/`).

use serde_json::Value;

use super::body::{Page, ValueBefore, check, value_before};
use super::json::JsonValue;
use crate::exchange::AnswerEnd;
use crate::fuzz::{Target, assert_reason, exposition, first_line, fuzz, text, words};
use podnudge_config::{BodyProof, Scalar};

const JSON: &[&str] = &[
    "/a/1\n{\"a\": [1, {\"b/c\": \"x\", \"~\": 2.5}, [true, null]], \"\": {\"z\": 1}}",
    "\n[1, 2, \"3\"]",
    "/a/b/c\n{\"a\": {\"b\": {\"c\": 18446744073709551615}}, \"a\": {\"b\": {}}}",
    "/~0~1/0\n{\"~/\": [1e3]}",
    "/0\n[\"\\u00e9\\ud83d\\ude00\"]",
];

fn target(name: &'static str, seeds: &[&str], dictionary: &'static [&'static str]) -> Target {
    Target { dictionary, ..Target::new(name, seeds) }
}

fn page(text: &str) -> Page {
    Page { what: "GET /".to_owned(), text: text.to_owned(), end: AnswerEnd::Complete }
}

/// The outcome of a proof, with a message that can be shown.
fn outcome(proof: &BodyProof, page: &Page) -> String {
    let before = value_before(proof, page).unwrap_or(ValueBefore::Unknown);
    match check(proof, &before, page) {
        Ok(()) => "proved".to_owned(),
        Err(reason) => {
            assert_reason(&reason);
            reason.message
        }
    }
}

#[test]
fn a_json_pointer_finds_what_it_finds_in_a_tree() {
    fuzz(target("json pointer", JSON, words("json pointer")), |input| {
        let (pointer, json) = first_line(input);
        // As the configuration asks for.
        let pointer = if pointer.starts_with('/') { pointer } else { String::new() };
        let json = text(json);
        let found = JsonValue::at(&json, &pointer, None);
        let Ok(tree) = serde_json::from_str::<Value>(&json) else {
            // What is beside the pointer's path is only skipped: it may not fit into a tree.
            return format!("no tree {}", found.is_ok());
        };
        let found = found.expect("it is JSON");
        match (&found, tree.pointer(&pointer)) {
            (Some(JsonValue::Text(text)), Some(Value::String(wanted))) => assert_eq!(text, wanted),
            (Some(JsonValue::Number(number)), Some(Value::Number(wanted))) => {
                assert_eq!(number, wanted);
            }
            (Some(JsonValue::Bool(truth)), Some(Value::Bool(wanted))) => assert_eq!(truth, wanted),
            (Some(JsonValue::Null), Some(Value::Null))
            | (Some(JsonValue::Object(_)), Some(Value::Object(_)))
            | (Some(JsonValue::List { .. }), Some(Value::Array(_)))
            | (None, None) => {}
            (found, wanted) => panic!("{found:?}, and in a tree {wanted:?}"),
        }
        // Printed anew it is the same value, unless a member is there twice. Fractions and long numbers are rounded.
        let again = JsonValue::at(&tree.to_string(), &pointer, None).expect("it is JSON");
        let is_long = |digits: &str| digits.len() > 18;
        let has_long = json.split(|c: char| !c.is_ascii_digit()).any(is_long);
        let is_whole = !has_long && !json.contains(['.', 'e', 'E']);
        assert!(
            again == found || !is_whole || has_twice(&json, &tree),
            "{again:?}, before {found:?}"
        );
        let kind = format!("{found:?}");
        kind.split(['(', '{']).next().unwrap_or_default().to_owned()
    });
}

/// Whether an object has a member twice: the tree has fewer.
fn has_twice(json: &str, tree: &Value) -> bool {
    let colons = |text: &str| text.matches(':').count();
    colons(&tree.to_string()) < colons(json)
}

#[test]
fn an_item_is_in_a_list_if_it_is_in_the_tree() {
    fuzz(target("json contains", JSON, words("json pointer")), |input| {
        let (wanted, json) = first_line(input);
        let json = text(json);
        // It is configured, so it is not long.
        let wanted: String = wanted.chars().take(100).collect();
        let wanted = wanted.parse().map_or(Scalar::Text(wanted), Scalar::Number);
        let mut seen = String::new();
        if let Ok(Value::Array(items)) = serde_json::from_str(&json) {
            let is_there = items.iter().any(|item| match (&wanted, item) {
                (Scalar::Text(wanted), Value::String(text)) => wanted == text,
                (Scalar::Number(wanted), Value::Number(number)) => {
                    let float = number.as_f64().filter(|_| number.is_f64());
                    #[expect(
                        clippy::cast_precision_loss,
                        clippy::float_cmp,
                        reason = "as podnudge compares"
                    )]
                    let is_equal = float.is_some_and(|float| float == *wanted as f64);
                    number.as_i64() == Some(*wanted) || is_equal
                }
                _ => false,
            });
            let found = JsonValue::at(&json, "", Some(&wanted)).expect("it is JSON");
            assert!(
                matches!(found, Some(JsonValue::List { contains, .. }) if contains == is_there)
            );
            seen = is_there.to_string();
        }
        let pointer = || String::new();
        let proofs = [
            BodyProof::JsonContains(pointer(), wanted.clone()),
            BodyProof::JsonEquals(pointer(), wanted),
            BodyProof::JsonGrew(pointer()),
            BodyProof::JsonChanged(pointer()),
        ];
        let page = page(&json);
        for proof in &proofs {
            seen += &outcome(proof, &page);
        }
        seen
    });
}

const METRICS: &[&str] = &[
    "reloads_total{kind=\"a b\"}\n# HELP reloads_total Reloads\n# TYPE reloads_total counter\nreloads_total{kind=\"a b\"} 3 1700000000\nup 1\n",
    "up\nup 1\nup2 NaN\nprocess_start_time_seconds 1.7e9\n",
    "a{b=\"c\\\"d\\\\e\\nf\",g=\"h\"}\na{b=\"c\\\"d\\\\e\\nf\",g=\"h\"} +Inf\n# EOF\n",
    "h_bucket{le=\"+Inf\"}\nh_bucket{le=\"1.0\"} 2 # {trace_id=\"x\"} 0.67\nh_bucket{le=\"+Inf\"} 17\n",
];

#[test]
fn a_sample_has_the_value_that_another_reader_finds() {
    fuzz(target("metrics", METRICS, words("metric")), |input| {
        let (name, rest) = first_line(input);
        // It is configured, so it is not long.
        let name: String = name.chars().take(100).collect();
        let text = text(rest);
        let page = page(&text);
        let equals = BodyProof::MetricEquals(name.clone(), 1);
        let mut seen = outcome(&equals, &page);
        let proof = BodyProof::MetricGrew(name.clone());
        let found = match value_before(&proof, &page) {
            Ok(ValueBefore::Number(value)) => Some(value),
            Ok(other) => panic!("{other:?}"),
            Err(reason) => {
                seen += &assert_reason(&reason);
                None
            }
        };
        // The first sample with this name and these labels, if it is written by the specification.
        let is_ours =
            |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with([' ', '\t']));
        let first = text.lines().find(|line| is_ours(line)).and_then(exposition::sample);
        if let Some(sample) = first.filter(|sample| sample.printed == name) {
            let value = found.expect("there is such a sample");
            assert!(value.to_bits() == sample.value.to_bits(), "{value}, not {sample:?}");
        }
        // A page that was cut gives the same value or none.
        for end in [AnswerEnd::Truncated, AnswerEnd::Aborted("broke off".to_owned())] {
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            let cut = Page { what: "GET /".to_owned(), text: half, end };
            if let Ok(ValueBefore::Number(value)) = value_before(&proof, &cut) {
                assert_eq!(
                    Some(value.to_bits()),
                    found.map(f64::to_bits),
                    "of a page that was cut"
                );
            }
        }
        format!("{seen} {}", found.is_some())
    });
}

#[test]
fn a_regular_expression_takes_linear_time() {
    let seeds = [
        "^ok$\nok",
        "(a|b)*c{2,5}\nababcc",
        "(?i)reload(ed)? [0-9]+\nreloaded 12",
        "[^\\s]+=.*$\na=b\nc",
        "(a*)*b\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];
    let dictionary = words("regular expression");
    let target = Target { longest: 600, ..target("regular expression", &seeds, dictionary) };
    fuzz(target, |input| {
        let (pattern, body) = first_line(input);
        match regex_lite::Regex::new(&pattern) {
            Ok(regex) => outcome(&BodyProof::Matches(regex), &page(&text(&body.repeat(8)))),
            Err(error) => error.to_string(),
        }
    });
}
