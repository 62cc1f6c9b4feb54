//! What the log says about access to the Kubernetes API, outside of what the core decides.

use tracing::{info, warn};

use crate::cluster::EventsFact;
use podnudge_core::reason::Reason;

/// What a request to the Kubernetes API needs is missing. Said at start, before anything needs it.
pub(crate) fn api_unusable(reason: &Reason) {
    warn!(event = "api-unusable", hint = reason.hint, "{}", reason.message);
}

/// Whether Events about podnudge's own Pod can be created.
pub(crate) fn events(fact: &EventsFact) {
    match fact {
        EventsFact::Unavailable(reason) => warn!(
            event = "events-unavailable",
            reason = reason.message,
            hint = reason.hint,
            "Kubernetes gets no Events from podnudge"
        ),
        EventsFact::Available => {
            info!(event = "events-available", "Events can be created again");
        }
    }
}
