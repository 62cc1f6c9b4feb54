//! An HTTP request as an action: what its answer means for the reload.
//!
//! Reads the files that the request names; changes what the request changes.

use crate::config::HttpAction;
use crate::core::event::{Absence, Acted};
use crate::exchange::ExchangeError;
use crate::exchange::http::{
    SHORT_ANSWER, exchange, is_about_content, is_expected, name, unexpected,
};

/// Sends the request of an action once. The status decides: it is what the application has to say
/// of the reload, and a body that breaks off behind it does not take it back.
pub async fn send(action: &HttpAction) -> Acted {
    let what = name(&action.method, &action.endpoint);
    match exchange(&action.endpoint, action.method.clone(), &action.body, SHORT_ANSWER).await {
        Ok(answer) if is_expected(answer.status, &action.expect) => {
            Acted::Accepted(format!("{what} answered {}", answer.status))
        }
        Ok(answer) if is_about_content(answer.status) => {
            Acted::Declined(unexpected(&what, &answer))
        }
        Ok(answer) => Acted::Failed(unexpected(&what, &answer)),
        Err(ExchangeError::NotThere(reason)) => Acted::Absent(Absence::unread(reason)),
        Err(ExchangeError::Failed(reason)) => Acted::Failed(reason),
    }
}
