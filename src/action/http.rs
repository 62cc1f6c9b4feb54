//! Sends an HTTP request as an action, and maps the response to a result.
//!
//! Reads the files that the request names, and the content that it sends; has the effects of the request.

use std::path::Path;

use crate::exchange::ExchangeError;
use crate::exchange::http::{
    SHORT_ANSWER, describe, exchange, is_about_content, is_expected, unexpected_response,
};
use crate::system::threads::Thread;
use crate::volume::contents::{self, Origin};
use podnudge_config::{Body, HttpAction, Rule};
use podnudge_core::event::{Absence, Acted};
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::Digest;

/// Sends the request of a rule's action once, for the content with this digest.
pub(super) async fn act(rule: &Rule, action: &HttpAction, digest: Digest) -> Acted {
    let body = match &action.body {
        Body::Empty => None,
        Body::Text(text) => Some(text.clone().into_bytes()),
        Body::Content(path) => match content(rule, path, digest).await {
            Ok(content) => Some(content),
            Err(acted) => return acted,
        },
    };
    if let Some((pattern, because)) = &action.reject
        && let Some(line) = body.as_deref().and_then(|body| {
            // What is not UTF-8 needs no copy: a body may have 8 MiB.
            let found = body.utf8_chunks().find_map(|text| pattern.find(text.valid()))?;
            Some(shown::one_line(found.as_str().as_bytes()))
        })
    {
        let message = format!("the body was not sent, because of `{line}` in it");
        return Acted::Declined(Reason::new(message).hint(because.clone()));
    }
    send(action, body).await
}

/// The content of a file of the rule, as the application reads it, if it is that with this digest.
async fn content(rule: &Rule, path: &Path, digest: Digest) -> Result<Vec<u8>, Acted> {
    let file = rule.settings.content_file(path).map_err(Acted::Refused)?;
    let (volumes, keys) = (rule.volumes_read(), rule.keys.clone());
    let (number, key) = (file.volume, file.key.clone());
    let thread = Thread::start().map_err(|error| {
        Acted::Failed(Reason::new(format!("cannot start a thread to read the body: {error}")))
    })?;
    let read = thread
        .run(move || contents::read_key(&volumes, &keys, Some(digest), &key, Origin::Volume))
        .await
        .map_err(|error| Acted::Failed(error.reason()))?;
    let contents = read.into_iter().nth(number).map(|volume| volume.contents.into_values());
    let content = contents.and_then(|mut contents| contents.next()).map(|content| content.bytes);
    content.ok_or_else(|| Acted::Refused(rule.settings.missing_content(path)))
}

/// Sends the request of an action once. The status decides: it is the application's answer to the
/// reload, even if the body is aborted after it.
pub async fn send(action: &HttpAction, body: Option<Vec<u8>>) -> Acted {
    let what = describe(&action.method, &action.endpoint);
    match exchange(&action.endpoint, action.method.clone(), body, SHORT_ANSWER).await {
        Ok(answer) if is_expected(answer.status, &action.expect) => {
            Acted::Accepted(format!("{what} answered {}", answer.status))
        }
        Ok(answer) if is_about_content(answer.status) => {
            Acted::Declined(unexpected_response(&what, &answer))
        }
        Ok(answer) => Acted::Failed(unexpected_response(&what, &answer)),
        Err(ExchangeError::NotListening(reason)) => Acted::Absent(Absence::unread(reason)),
        Err(ExchangeError::Failed(reason)) => Acted::Failed(reason),
    }
}
