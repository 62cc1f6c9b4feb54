//! Why the API server has not done what was asked. Pure.

use std::time::Duration;

use crate::event::ApiServer;
use crate::reason::Reason;

/// Why there is no object in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// 404: there is no such object, or no such namespace.
    NotFound(Reason),
    /// 409: the object has changed since it was read, or exists already.
    Conflict(Reason),
    /// 410: what the request refers to is too old.
    Gone(Reason),
    /// 429: the server asks for a pause, of this length if it said one. It has not done anything.
    Throttled(Reason, Option<Duration>),
    /// The server refuses the request: 401, 403 and others.
    Refused(Reason),
    /// There is no answer, or one of 5xx, perhaps with the time after which to try again; or the answer
    /// cannot be read. The request may have been carried out.
    Unavailable(Reason, Option<Duration>),
}

impl ApiError {
    /// The message and its hint.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        match self {
            Self::NotFound(reason)
            | Self::Conflict(reason)
            | Self::Gone(reason)
            | Self::Throttled(reason, _)
            | Self::Refused(reason)
            | Self::Unavailable(reason, _) => reason,
        }
    }

    /// The pause that the server asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled(_, pause) | Self::Unavailable(_, pause) => *pause,
            _ => None,
        }
    }
}

/// What an answer says of the API server, if anything: a request may be refused before it is sent, and a server that
/// asks for a pause may serve the nodes or not.
#[must_use]
pub fn api_server<T>(answer: &Result<T, ApiError>) -> Option<ApiServer> {
    match answer {
        Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_) | ApiError::Gone(_)) => {
            Some(ApiServer::Answers)
        }
        Err(ApiError::Unavailable(..)) => Some(ApiServer::Away),
        Err(ApiError::Throttled(..) | ApiError::Refused(_)) => None,
    }
}
