//! Sends an HTTP request as an action, and maps the response to a result.
//!
//! Reads the files that the request names; has the effects of the request.

use crate::config::HttpAction;
use crate::core::event::{Absence, Acted};
use crate::exchange::ExchangeError;
use crate::exchange::http::{
    SHORT_ANSWER, describe, exchange, is_about_content, is_expected, unexpected_response,
};

/// Sends the request of an action once. The status decides: it is the application's answer to the
/// reload, even if the body is aborted after it.
pub async fn send(action: &HttpAction) -> Acted {
    let what = describe(&action.method, &action.endpoint);
    match exchange(&action.endpoint, action.method.clone(), &action.body, SHORT_ANSWER).await {
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
