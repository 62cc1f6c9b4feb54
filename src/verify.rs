//! The proof that the application took a change: one look at a URL, and what it must say.

use crate::action::http::{self, Answer, BodyEnd};
use crate::config::{Body, BodyProof, ProofRequest};
use crate::core::event::{Proof, Reason};

/// How much of an answer is read: a page of metrics may be long.
const PROOF_BODY: usize = 1024 * 1024;

/// What one look saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    answer: Answer,
    what: String,
}

/// The number that must grow, before the action; `None` where no growth is asked for.
///
/// # Errors
/// If it cannot be read. Without it growth could not be told, so the action should wait.
pub async fn before(request: &ProofRequest) -> Result<Option<f64>, Reason> {
    if !matches!(request.body, BodyProof::JsonGrew(_) | BodyProof::MetricGrew(_)) {
        return Ok(None);
    }
    let seen = probe(request).await?;
    if !http::is_expected(seen.answer.status, &request.expect) {
        return Err(http::unexpected(&seen.what, &seen.answer));
    }
    number(request, &seen).map(Some)
}

/// Looks once.
///
/// # Errors
/// If there is no answer.
pub async fn probe(request: &ProofRequest) -> Result<Seen, Reason> {
    let method = reqwest::Method::GET;
    let what = http::name(&method, &request.endpoint);
    let answer = http::exchange(&request.endpoint, method, &Body::Empty, PROOF_BODY).await;
    Ok(Seen { answer: answer.map_err(http::ExchangeError::into_reason)?, what })
}

/// Whether what was seen is the proof.
#[must_use]
pub fn judge(request: &ProofRequest, before: Option<f64>, seen: &Seen) -> Proof {
    if !http::is_expected(seen.answer.status, &request.expect) {
        return Proof::Pending(http::unexpected(&seen.what, &seen.answer));
    }
    match &request.body {
        BodyProof::Any => Proof::Given,
        BodyProof::Matches(regex) => {
            if regex.is_match(&String::from_utf8_lossy(&seen.answer.body)) {
                return Proof::Given;
            }
            Proof::Pending(Reason::new(format!("{}: the body does not match `{regex}`", seen.what)))
        }
        BodyProof::JsonGrew(_) | BodyProof::MetricGrew(_) => {
            match (number(request, seen), before) {
                (Ok(now), Some(before)) if now > before => Proof::Given,
                (Ok(now), Some(before)) => Proof::Pending(Reason::new(format!(
                    "{}: {} has not grown: it was {before} and is {now}",
                    seen.what,
                    place(&request.body)
                ))),
                (Ok(_), None) => Proof::Pending(Reason::new(format!(
                    "{}: {} was not known before the action",
                    seen.what,
                    place(&request.body)
                ))),
                (Err(reason), _) => Proof::Pending(reason),
            }
        }
    }
}

fn place(body: &BodyProof) -> String {
    match body {
        BodyProof::JsonGrew(pointer) => format!("the number at `{pointer}`"),
        BodyProof::MetricGrew(sample) => format!("the sample `{sample}`"),
        BodyProof::Any | BodyProof::Matches(_) => "the body".to_owned(),
    }
}

fn number(request: &ProofRequest, seen: &Seen) -> Result<f64, Reason> {
    let Answer { body, end, .. } = &seen.answer;
    let text = String::from_utf8_lossy(body);
    let number = match &request.body {
        BodyProof::JsonGrew(pointer) => json_number(&text, pointer),
        BodyProof::MetricGrew(sample) => metric(whole_lines(&text, end), sample),
        BodyProof::Any | BodyProof::Matches(_) => None,
    };
    let missing = || {
        let why = match end {
            BodyEnd::Whole => String::new(),
            BodyEnd::Cut => format!(" in its first {} KiB", PROOF_BODY / 1024),
            BodyEnd::BrokeOff(how) => format!(" in the answer, which {how}"),
        };
        Reason::new(format!("{}: {} is not there{why}", seen.what, place(&request.body)))
    };
    number.ok_or_else(missing)
}

/// The text without the line at which the body ended early, and which may hold half a number.
fn whole_lines<'a>(text: &'a str, end: &BodyEnd) -> &'a str {
    match end {
        BodyEnd::Whole => text,
        BodyEnd::Cut | BodyEnd::BrokeOff(_) => {
            text.rsplit_once('\n').map_or("", |(whole, _)| whole)
        }
    }
}

/// The number at a JSON pointer (RFC 6901), also where it is written as a string. JSON that was
/// cut is none.
fn json_number(text: &str, pointer: &str) -> Option<f64> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let value = json.pointer(pointer)?;
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// The value of a sample in the Prometheus text format, its labels written as they are printed.
fn metric(text: &str, sample: &str) -> Option<f64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(sample).filter(|rest| rest.starts_with([' ', '\t'])))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_found_by_its_whole_name_with_labels() {
        let text =
            "# HELP reloads Reloads\nreloads_total{kind=\"a\"} 3\nreloads 1.5e3 1700000000\n";
        assert_eq!(metric(text, "reloads"), Some(1500.0));
        assert_eq!(metric(text, "reloads_total{kind=\"a\"}"), Some(3.0));
        assert_eq!(metric(text, "reloads_total"), None);
    }

    #[test]
    fn a_json_number_may_be_a_string() {
        let text = r#"{"a": {"b": [1, "2.5"]}}"#;
        assert_eq!(json_number(text, "/a/b/0"), Some(1.0));
        assert_eq!(json_number(text, "/a/b/1"), Some(2.5));
        assert_eq!(json_number(text, "/a/c"), None);
    }
}
