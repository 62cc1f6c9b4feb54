//! Checks the content of keys by a request to a URL.
//!
//! Sends the content of keys, and reads the files that the request names; changes nothing.

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

use super::contents::Post;
use crate::exchange::http::{
    SHORT_ANSWER, describe, exchange, is_about_content, is_expected, response_reason,
};
use podnudge_config::HttpCheck;
use podnudge_core::event::Checked;

/// Checks one key after the other; the first that does not pass decides.
pub(super) async fn check_each(check: &HttpCheck, posts: Vec<Post>) -> Checked {
    for Post { key, content } in posts {
        match check_key(check, &key.to_string(), content).await {
            Checked::Passed => {}
            other => return other,
        }
    }
    Checked::Passed
}

/// Checks the content of one key. Only the response status decides; without a response the content
/// is neither accepted nor rejected.
pub async fn check_key(check: &HttpCheck, key: &str, content: Vec<u8>) -> Checked {
    let what = describe(&check.method, &check.endpoint);
    let mut endpoint = check.endpoint.clone();
    endpoint.headers.push((CONTENT_TYPE, check.content_type.clone()));
    if content.is_empty() {
        // hyper omits it for an empty body, and some servers require it (RFC 9110, 8.6).
        endpoint.headers.push((CONTENT_LENGTH, HeaderValue::from_static("0")));
    }
    match exchange(&endpoint, check.method.clone(), Some(content), SHORT_ANSWER).await {
        Ok(answer) if is_expected(answer.status, &check.expect) => Checked::Passed,
        Ok(answer) => {
            let reason = response_reason(&what, &format!(" for `{key}`"), &answer);
            if is_about_content(answer.status) {
                return Checked::Rejected(reason);
            }
            Checked::Failed(match answer.status.as_u16() {
                403..=405 => {
                    reason.hint("check the path and the method: they may not be those of the application's check")
                }
                415 => reason.hint("set `content-type` to what the application accepts"),
                _ => reason,
            })
        }
        Err(error) => Checked::Failed(error.into_reason()),
    }
}
