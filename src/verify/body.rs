//! Checks the body of an HTTP response against the proofs of a rule. Pure.

use super::json::{JsonValue, equals_number};
use crate::exchange::AnswerEnd;
use podnudge_config::{BodyProof, Scalar};
use podnudge_core::reason::Reason;
use podnudge_core::shown::{self, literal};

/// The most bytes of a body that are read: a page of metrics may be long.
pub(super) const MAX_BODY: usize = 1024 * 1024;

/// The most samples that a hint names.
const MOST_SAMPLES: usize = 3;
/// How much of two names must be equal to be similar.
const LIKE_PERCENT: usize = 60;

/// A response body.
#[derive(Debug)]
pub struct Page {
    /// The origin of the body, for messages: `GET http://127.0.0.1/metrics`.
    pub what: String,
    /// The text of the body.
    pub text: String,
    /// Whether the body is complete.
    pub end: AnswerEnd,
}

/// Advice for those who choose the value of a proof.
pub(super) const MUST_CHANGE: &str =
    "the value must change on every reload, even if the content is the same; a hash does not";

/// The value before the action, with which a proof compares.
#[derive(Debug)]
pub enum ValueBefore {
    /// Not needed, or unknown.
    Unknown,
    /// The process is a new one: any value counts as grown and changed.
    NewProcess,
    /// The number that must grow.
    Number(f64),
    /// The value that must change.
    Value(JsonValue),
}

/// Whether the proof compares with a value from before the action.
#[must_use]
pub fn needs_value_before(proof: &BodyProof) -> bool {
    match proof {
        BodyProof::JsonGrew(_) | BodyProof::JsonChanged(_) | BodyProof::MetricGrew(_) => true,
        BodyProof::Matches(_)
        | BodyProof::JsonEquals(..)
        | BodyProof::JsonContains(..)
        | BodyProof::MetricEquals(..) => false,
    }
}

/// Reads the value that the proof compares with, from the page before the action.
///
/// # Errors
/// If the page does not contain it.
pub fn value_before(proof: &BodyProof, page: &Page) -> Result<ValueBefore, Reason> {
    match proof {
        BodyProof::JsonGrew(pointer) => page.json_number(pointer).map(ValueBefore::Number),
        BodyProof::MetricGrew(sample) => page.metric(sample).map(ValueBefore::Number),
        BodyProof::JsonChanged(pointer) => page.json(pointer, None).map(ValueBefore::Value),
        _ => Ok(ValueBefore::Unknown),
    }
}

/// Checks one proof against the page.
///
/// # Errors
/// If the page does not contain the proof, with the reason.
pub fn check(proof: &BodyProof, before: &ValueBefore, page: &Page) -> Result<(), Reason> {
    match proof {
        BodyProof::Matches(regex) => {
            let refused = || page.reason(format_args!("the body does not match `{regex}`"));
            regex.is_match(&page.text).then_some(()).ok_or_else(refused)
        }
        BodyProof::JsonGrew(pointer) => {
            let what = format!("the number at `{pointer}`");
            page.has_grown(&what, page.json_number(pointer)?, before)
        }
        BodyProof::MetricGrew(sample) => {
            page.has_grown(&format!("the sample `{sample}`"), page.metric(sample)?, before)
        }
        BodyProof::JsonChanged(pointer) => {
            let now = page.json(pointer, None)?;
            let what = format!("the value at `{pointer}`");
            match before {
                ValueBefore::NewProcess => Ok(()),
                ValueBefore::Value(before) if *before != now => Ok(()),
                ValueBefore::Value(_) => {
                    let same = format_args!("{what} has not changed: it is {}", summary(&now));
                    Err(page.reason(same).hint(MUST_CHANGE))
                }
                _ => Err(page.unknown_before(&what)),
            }
        }
        BodyProof::JsonEquals(pointer, wanted) => {
            let now = page.json(pointer, None)?;
            if now.equals(wanted) {
                return Ok(());
            }
            let (now, wanted) = (summary(&now), as_configured(wanted));
            Err(page.reason(format_args!("the value at `{pointer}` is {now}, not {wanted}")))
        }
        BodyProof::JsonContains(pointer, wanted) => {
            let now = page.json(pointer, Some(wanted))?;
            let (kind, is_contained) = match (&now, wanted) {
                (JsonValue::List { contains, .. }, _) => ("list", *contains),
                (JsonValue::Text(text), Scalar::Text(part)) => ("text", text.contains(part)),
                _ => {
                    let (now, wanted) = (summary(&now), as_configured(wanted));
                    return Err(page.reason(format_args!(
                        "the value at `{pointer}` is {now}, which cannot contain {wanted}"
                    )));
                }
            };
            let wanted = as_configured(wanted);
            let missing = || page.reason(format_args!("the {kind} at `{pointer}` has no {wanted}"));
            is_contained.then_some(()).ok_or_else(missing)
        }
        BodyProof::MetricEquals(sample, wanted) => {
            let now = page.metric(sample)?;
            let other =
                || page.reason(format_args!("the sample `{sample}` is {now}, not {wanted}"));
            equals_number(now, *wanted).then_some(()).ok_or_else(other)
        }
    }
}

impl Page {
    fn has_grown(&self, what: &str, now: f64, before: &ValueBefore) -> Result<(), Reason> {
        match before {
            ValueBefore::NewProcess => Ok(()),
            ValueBefore::Number(before) if now > *before => Ok(()),
            ValueBefore::Number(before) => {
                Err(self.reason(format_args!("{what} has not grown: it was {before} and is {now}")))
            }
            _ => Err(self.unknown_before(what)),
        }
    }

    /// The value at a JSON pointer (RFC 6901). Truncated JSON is an error.
    fn json(&self, pointer: &str, item: Option<&Scalar>) -> Result<JsonValue, Reason> {
        let value = JsonValue::at(&self.text, pointer, item).map_err(|_| {
            self.reason(format_args!("the body is not JSON{}", self.truncation_note()))
        })?;
        value.ok_or_else(|| self.reason(format_args!("there is no value at `{pointer}`")))
    }

    /// The number at a JSON pointer; it may be written as a string.
    fn json_number(&self, pointer: &str) -> Result<f64, Reason> {
        let value = self.json(pointer, None)?;
        let number = match &value {
            JsonValue::Number(number) => number.as_f64(),
            JsonValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            let value = summary(&value);
            self.reason(format_args!("the value at `{pointer}` is {value}, which is not a number"))
        })
    }

    /// The value of a sample in the Prometheus text format, with its labels as they are printed.
    fn metric(&self, sample: &str) -> Result<f64, Reason> {
        let value = self.complete_lines().lines().find_map(|line| {
            line.strip_prefix(sample).filter(|rest| rest.starts_with([' ', '\t']))
        });
        let number = value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok());
        number.ok_or_else(|| {
            let note = self.truncation_note();
            let reason = self.reason(format_args!("there is no sample `{sample}`{note}"));
            reason.hint(samples_like(sample, self.complete_lines()))
        })
    }

    /// The text without a truncated last line, which may hold half a number.
    fn complete_lines(&self) -> &str {
        match self.end {
            AnswerEnd::Complete => &self.text,
            AnswerEnd::Truncated | AnswerEnd::Aborted(_) => {
                self.text.rsplit_once('\n').map_or("", |(whole, _)| whole)
            }
        }
    }

    fn truncation_note(&self) -> String {
        match &self.end {
            AnswerEnd::Complete => String::new(),
            AnswerEnd::Truncated => format!(" in its first {} KiB", MAX_BODY / 1024),
            AnswerEnd::Aborted(how) => format!(" in the answer, which {how}"),
        }
    }

    fn unknown_before(&self, what: &str) -> Reason {
        self.reason(format_args!("{what} before the action is unknown"))
    }

    fn reason(&self, what: std::fmt::Arguments<'_>) -> Reason {
        Reason::new(format!("{}: {}", self.what, shown::text(&what.to_string())))
    }
}

/// For the hint: the samples of a page whose names are most like that of the missing one.
fn samples_like(missing: &str, page: &str) -> String {
    let mut similar: Vec<(usize, &str)> = Vec::new();
    let mut first = None;
    for sample in page.lines().filter_map(sample_of_line) {
        first.get_or_insert(sample);
        let likeness = likeness(name(missing), name(sample));
        if likeness >= LIKE_PERCENT && !similar.iter().any(|(_, known)| *known == sample) {
            // Of equals, the first of the page stay first.
            let place = similar.partition_point(|(other, _)| *other >= likeness);
            similar.insert(place, (likeness, sample));
            similar.truncate(MOST_SAMPLES);
        }
    }
    let similar: Vec<String> = similar.into_iter().map(|(_, sample)| literal(sample)).collect();
    match (similar.as_slice(), first) {
        ([], None) => "the page has no sample; is this the URL of the metrics?".to_owned(),
        ([], Some(first)) => {
            format!(
                "the page has no sample with a similar name; its first one is {}",
                literal(first)
            )
        }
        (similar, _) => format!("the page has {}", similar.join(", ")),
    }
}

/// The name of a sample with its labels, as the line prints it.
fn sample_of_line(line: &str) -> Option<&str> {
    let (sample, value) = match line.rfind('}') {
        // A label's value may contain blanks.
        Some(end) => line.split_at(end + 1),
        None => line.split_at(line.find([' ', '\t'])?),
    };
    let is_number = value.split_ascii_whitespace().next()?.parse::<f64>().is_ok();
    let is_name = sample.starts_with(|c: char| c.is_ascii_alphabetic() || "_:".contains(c));
    (is_name && is_number).then_some(sample)
}

/// The name of a sample without its labels.
fn name(sample: &str) -> &str {
    sample.split('{').next().unwrap_or_default()
}

/// How much of two names is equal at their beginning and at their end, in percent of both. An edit
/// distance would take too long for a large page, which is checked at each poll.
fn likeness(one: &str, other: &str) -> usize {
    let shorter = one.len().min(other.len());
    let equal = |pair: &(u8, u8)| pair.0 == pair.1;
    let head = one.bytes().zip(other.bytes()).take_while(equal).count();
    let tail = one.bytes().rev().zip(other.bytes().rev()).take_while(equal).count();
    200 * (head + tail).min(shorter) / (one.len() + other.len()).max(1)
}

/// A value for messages, truncated if long.
fn summary(value: &JsonValue) -> String {
    match value {
        JsonValue::Null => "null".to_owned(),
        JsonValue::Bool(truth) => truth.to_string(),
        JsonValue::Number(number) => number.to_string(),
        JsonValue::Text(text) => shown::one_line(format!("{text:?}").as_bytes()),
        JsonValue::List { .. } => "a list".to_owned(),
        JsonValue::Object(_) => "an object".to_owned(),
    }
}

fn as_configured(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => format!("{text:?}"),
        Scalar::Number(number) => number.to_string(),
        Scalar::Bool(truth) => truth.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { what: "GET /".to_owned(), text: text.to_owned(), end: AnswerEnd::Complete }
    }

    #[test]
    fn a_sample_is_found_by_its_whole_name_with_labels() {
        let page =
            page("# HELP reloads Reloads\nreloads_total{kind=\"a\"} 3\nreloads 1.5e3 1700000000\n");
        assert_eq!(page.metric("reloads"), Ok(1500.0));
        assert_eq!(page.metric("reloads_total{kind=\"a\"}"), Ok(3.0));
        assert!(page.metric("reloads_total").is_err());
    }

    #[test]
    fn the_hint_about_a_missing_sample_names_the_most_similar_ones() {
        let text = "# HELP config_last_reload_successful Whether it was\n\
                    # TYPE config_last_reload_successful gauge\n\
                    app_config_last_reload_successful 1\n\
                    app_config_last_reload_success_timestamp_seconds 1.7e9\n\
                    reloads_total{kind=\"a b\",\u{1b}=\"} 2\"} 3 1700000000\n\
                    reloads_total{kind=\"c\"} 4\nup 1\n";
        let hint = |sample: &str| page(text).metric(sample).unwrap_err().hint.unwrap();
        assert_eq!(
            hint("app_config_last_reload_sucessful"),
            "the page has `app_config_last_reload_successful`, \
             `app_config_last_reload_success_timestamp_seconds`"
        );
        assert_eq!(
            hint("config_last_reload_successful"),
            "the page has `app_config_last_reload_successful`"
        );
        let labels = "the page has `reloads_total{kind=\"a b\",\\u{1b}=\"} 2\"}`, \
                      `reloads_total{kind=\"c\"}`";
        assert_eq!(hint("reloads_total"), labels);
        assert_eq!(hint("relods_total"), labels);
        let none = "the page has no sample with a similar name; its first one is \
                    `app_config_last_reload_successful`";
        assert_eq!(hint("requests"), none);
        let html = page("<html>\nthis is 5\n</html>").metric("up").unwrap_err();
        let is_url = "the page has no sample; is this the URL of the metrics?";
        assert_eq!(html.hint.as_deref(), Some(is_url));
    }

    /// A page is checked at each poll, on the thread of the loop.
    #[test]
    fn the_hint_about_a_missing_sample_is_bounded() {
        let line = |n: usize| format!("reloads_total{{kind=\"{}{n}\"}} 1\n", "x".repeat(500));
        let large: String = (0..2000).map(line).collect();
        let hint = page(&large).metric("reloads_total").unwrap_err().hint.unwrap();
        assert!(hint.len() < 300, "{hint}");
        assert_eq!(hint.matches("reloads_total{").count(), MOST_SAMPLES);
    }

    #[test]
    fn a_json_number_may_be_a_string() {
        let page = page(r#"{"a": {"b": [1, "2.5", "x"]}}"#);
        assert_eq!(page.json_number("/a/b/0"), Ok(1.0));
        assert_eq!(page.json_number("/a/b/1"), Ok(2.5));
        assert!(page.json_number("/a/b/2").is_err());
        assert!(page.json_number("/a/c").is_err());
    }

    #[test]
    fn a_value_only_equals_one_of_the_same_type() {
        let text = |text: &str| Scalar::Text(text.to_owned());
        let equal = |json: &str, wanted: &Scalar| {
            JsonValue::at(json, "", None).unwrap().unwrap().equals(wanted)
        };
        assert!(equal("true", &Scalar::Bool(true)));
        assert!(!equal("\"true\"", &Scalar::Bool(true)));
        assert!(!equal("1", &Scalar::Bool(true)));
        assert!(!equal("null", &Scalar::Bool(false)));
        assert!(equal("\"a\"", &text("a")));
        assert!(!equal("1", &text("1")));
        for two in ["2", "2.0", "2e0", "20e-1"] {
            assert!(equal(two, &Scalar::Number(2)), "{two}");
        }
        assert!(!equal("2.5", &Scalar::Number(2)));
        assert!(!equal("\"2\"", &Scalar::Number(2)));
        // An `f64` cannot distinguish these.
        assert!(!equal("9007199254740992", &Scalar::Number(9_007_199_254_740_993)));
        assert!(!equal("9223372036854775808", &Scalar::Number(i64::MAX)));
    }
}
