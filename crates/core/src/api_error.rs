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
    /// The server has failed: 5xx, perhaps with the time after which to try again. The request may have been carried
    /// out.
    Failed(Reason, Option<Duration>),
    /// The answer is too long, or is not what was asked for. The request may have been carried out.
    Unusable(Reason),
    /// There is no answer. The request may have been carried out.
    Unanswered(Reason),
    /// Nothing was sent, because something that a request needs is missing here.
    Unsent(Reason),
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
            | Self::Failed(reason, _)
            | Self::Unusable(reason)
            | Self::Unanswered(reason)
            | Self::Unsent(reason) => reason,
        }
    }

    /// The pause that the server asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled(_, pause) | Self::Failed(_, pause) => *pause,
            _ => None,
        }
    }

    /// Whether the server could not be asked. An answer, of whatever kind, is no outage.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::Unsent(_))
    }

    /// Whether it is not known whether the request was carried out.
    #[must_use]
    pub fn may_be_done(&self) -> bool {
        matches!(self, Self::Failed(..) | Self::Unusable(_) | Self::Unanswered(_))
    }

    /// Whether somebody has to change something, such as a Role, or create what is missing.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        self.is_refusal() || matches!(self, Self::NotFound(_))
    }

    /// Whether somebody has to change something before it can succeed.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unsent(_))
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
        Err(ApiError::Failed(..) | ApiError::Unanswered(_)) => Some(ApiServer::Away),
        Err(
            ApiError::Throttled(..)
            | ApiError::Refused(_)
            | ApiError::Unusable(_)
            | ApiError::Unsent(_),
        ) => None,
    }
}
