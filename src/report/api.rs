//! What the log says about access to the Kubernetes API, outside of what the core decides.

use tracing::warn;

use crate::reason::Reason;

/// What a request to the Kubernetes API needs is missing. Said at start, before anything needs it.
pub(crate) fn api_unusable(reason: &Reason) {
    warn!(event = "api-unusable", hint = reason.hint, "{}", reason.message);
}
