//! The log lines of `podnudge sync`.

use tracing::{info, warn};

use super::fields::time;
use podnudge_core::sync::SyncFact;

/// Logs a fact of `podnudge sync`.
pub(crate) fn sync(fact: &SyncFact) {
    match fact {
        SyncFact::Leading => {
            info!(event = "leading", "this replica annotates the pods of the namespace");
        }
        SyncFact::NotLeading => warn!(
            event = "not-leading",
            "the Lease was not renewed in time, or another replica holds it: that one annotates the pods"
        ),
        SyncFact::Following(objects) => {
            info!(event = "watching-objects", objects, "edits of their content are seen at once");
        }
        SyncFact::TooManyObjects => warn!(
            event = "too-many-objects",
            "the namespace has more ConfigMaps than podnudge follows: edits of the others reach the volumes when the kubelets sync the pods by themselves"
        ),
        SyncFact::Edited(object, at) => {
            info!(event = "edited", %object, edited_at = %at, "the content of an object has changed");
        }
        SyncFact::Done(objects, counts, took) => {
            info!(
                event = "pods-annotated",
                objects,
                pods = counts.annotated,
                read = counts.read,
                after = time(*took),
                "the kubelets of all pods that mount the objects were asked to sync them"
            );
        }
        SyncFact::Refused(pods) => warn!(
            event = "pods-refused",
            pods,
            "the API server did not let podnudge annotate some pods: their kubelets sync them by themselves"
        ),
        SyncFact::Unavailable(reason) => warn!(
            event = "sync-unavailable",
            reason = reason.message,
            hint = reason.hint,
            "edits reach the volumes when the kubelets sync the pods by themselves"
        ),
        SyncFact::Available => {
            info!(event = "sync-available", "edits are seen at once again");
        }
    }
}
