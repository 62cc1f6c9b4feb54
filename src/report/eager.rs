//! The log lines of eager sync.

use tracing::{debug, info, warn};

use super::fields::time;
use crate::cluster::{Change, EagerFact};
use podnudge_core::objects::ObjectName;

/// Logs a fact of eager sync.
pub(crate) fn eager_sync(fact: &EagerFact) {
    match fact {
        EagerFact::Objects(objects) if objects.is_empty() => warn!(
            event = "watching-objects",
            hint = "eager-sync is for ConfigMap, Secret and projected volumes that podnudge's own container mounts without subPath; or name the objects with `objects`",
            "there are no ConfigMaps and Secrets behind the watched volumes"
        ),
        EagerFact::Objects(objects) => info!(
            event = "watching-objects",
            objects = objects.iter().map(ObjectName::to_string).collect::<Vec<_>>().join(", "),
            "the kubelet is asked to sync the pod when one of these changes"
        ),
        EagerFact::Edited(object, at, change) => info!(
            event = "edited",
            %object,
            edited_at = %at,
            "{}",
            match change {
                Change::Present => "an object behind the volumes has changed",
                Change::Deleted => "an object behind the volumes was deleted",
            }
        ),
        EagerFact::NotContent(object) => debug!(
            event = "edited-without-content",
            %object,
            "a label, an annotation or the like of an object has changed, and not its content"
        ),
        EagerFact::Committed(object, took) => info!(
            event = "edit-committed",
            %object,
            after = time(*took),
            "the kubelet has written a volume after the edit"
        ),
        EagerFact::GivenUp(object, requests) => debug!(
            event = "edit-not-committed",
            %object,
            requests,
            "the kubelet has not written the volume; the edit may have left the content as it is"
        ),
        EagerFact::Unavailable(reason) => warn!(
            event = "eager-sync-unavailable",
            reason = reason.message,
            hint = reason.hint,
            "edits reach the volumes when the kubelet syncs the pod by itself"
        ),
        EagerFact::Available => {
            info!(event = "eager-sync-available", "edits are seen at once again");
        }
    }
}
