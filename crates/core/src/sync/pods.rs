//! Which pods have to be annotated: those that mount an object whose content was edited. Pure.
//!
//! A pod is read, compared and forgotten. Its annotation names the edits for which it was annotated last, so that
//! whoever lists the pods again, also another podnudge, leaves out what is done.

use std::time::Duration;

use serde_json::Value;

use super::edits::{Edit, Target};
use crate::clock::UnixTime;
use crate::collect;
use crate::objects::{ObjectKind, ObjectName};
use crate::reason::Reason;

/// The annotation by which a pod is changed, so that its kubelet syncs it.
pub const ANNOTATION: &str = "podnudge.io/sync";
/// A pod that was created so long after an edit has read it at its start. The kubelet's own view may be later.
const FRESH: Duration = Duration::from_secs(5);
/// Stands between the edits in the annotation.
const BETWEEN: &str = ", ";

/// The edits for which pods are looked for.
pub type Targets = Vec<Target>;

/// A pod to annotate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePod {
    /// The name of the pod.
    pub name: String,
    /// The value of the annotation.
    pub value: String,
    /// How often it was refused.
    pub(super) refusals: u32,
}

/// The due pods of a part of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodsPage {
    /// The pods to annotate.
    pub due: Vec<DuePod>,
    /// How many pods this part had.
    pub read: u64,
    /// With this parameter, the next part follows.
    pub next: Option<String>,
}

impl DuePod {
    /// Reads a pod; `None` if it need not be annotated for these edits.
    ///
    /// # Errors
    /// If it is no Pod.
    pub fn of(item: &[u8], targets: &Targets) -> Result<Option<Self>, Reason> {
        let pod = serde_json::from_slice::<Value>(item).unwrap_or_default();
        let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        if name.is_empty() {
            return Err(Reason::new("an item of the list is not a Pod"));
        }
        // No kubelet has it, or none syncs it any more.
        let is_over = !text("/metadata/deletionTimestamp").is_empty()
            || matches!(text("/status/phase"), "Succeeded" | "Failed");
        if is_over || text("/spec/nodeName").is_empty() {
            return Ok(None);
        }
        let annotation = text("/metadata/annotations/podnudge.io~1sync");
        let is_done = |mark: &str| annotation.split(BETWEEN).any(|done| done == mark);
        let created = UnixTime::parse(text("/metadata/creationTimestamp"));
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        let volumes = volumes.map(Vec::as_slice).unwrap_or_default();
        let objects = collect::set(volumes.iter().flat_map(objects));
        let target = |object: &ObjectName| targets.iter().find(|target| target.object == *object);
        let edited = objects.iter().filter_map(target);
        let edited = edited.filter(|target| !is_fresh(created, &target.edit));
        let marks: Vec<String> = edited.map(|it| it.edit.mark(&it.object)).collect();
        if marks.iter().all(|mark| is_done(mark)) {
            return Ok(None);
        }
        Ok(Some(Self { name: name.to_owned(), value: marks.join(BETWEEN), refusals: 0 }))
    }
}

fn is_fresh(created: Option<UnixTime>, edit: &Edit) -> bool {
    edit.is_dated
        && created.zip(edit.content_at).is_some_and(|(created, at)| created.since(at) >= FRESH)
}

fn objects(volume: &Value) -> Vec<ObjectName> {
    let object = |part: &Value, kind, path: &str| {
        let name = part.pointer(path)?.as_str()?.to_owned();
        Some(ObjectName { kind, name })
    };
    let mut objects: Vec<ObjectName> = Vec::new();
    objects.extend(object(volume, ObjectKind::ConfigMap, "/configMap/name"));
    objects.extend(object(volume, ObjectKind::Secret, "/secret/secretName"));
    let sources = volume.pointer("/projected/sources").and_then(Value::as_array);
    for source in sources.into_iter().flatten() {
        objects.extend(object(source, ObjectKind::ConfigMap, "/configMap/name"));
        objects.extend(object(source, ObjectKind::Secret, "/secret/name"));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"web-0","creationTimestamp":"2026-01-01T00:00:00Z"},
        "spec":{"nodeName":"n","volumes":[VOLUMES]},"status":{"phase":"Running"}}"#;
    const MAP: &str = r#"{"name":"v","configMap":{"name":"app"}}"#;

    fn targets() -> Targets {
        let at = UnixTime::parse("2026-01-01T00:01:00Z");
        let edit = |id: &str| Edit { id: id.to_owned(), content_at: at, is_dated: true };
        let object = |kind, name: &str| ObjectName { kind, name: name.to_owned() };
        let targets = [
            (object(ObjectKind::ConfigMap, "app"), edit("7")),
            (object(ObjectKind::Secret, "tls"), edit("8")),
        ];
        let target = |(object, edit)| Target { object, edit, late_since: UnixTime::default() };
        targets.into_iter().map(target).collect()
    }

    fn due(pod: &str) -> Option<String> {
        let pod = DuePod::of(pod.as_bytes(), &targets()).expect("it is a pod");
        pod.map(|pod| pod.value)
    }

    fn with(volumes: &str) -> String {
        POD.replace("VOLUMES", volumes)
    }

    #[test]
    fn the_pods_are_those_whose_volumes_have_an_edited_object() {
        let map = Some("configmap/app 7".to_owned());
        assert_eq!(due(&with(MAP)), map);
        assert_eq!(due(&with(&format!("{MAP},{MAP}"))), map);
        let secret = r#"{"secret":{"secretName":"tls"}}"#;
        assert_eq!(due(&with(secret)), Some("secret/tls 8".to_owned()));
        let projected = r#"{"projected":{"sources":[{"serviceAccountToken":{}},{"configMap":{"name":"app"}},{"secret":{"name":"tls"}}]}}"#;
        let both = Some("configmap/app 7, secret/tls 8".to_owned());
        assert_eq!(
            [due(&with(projected)), due(&with(&format!("{MAP},{secret}")))],
            [both.clone(), both]
        );
        for other in [
            "",
            r#"{"configMap":{"name":"tls"}}"#,
            r#"{"secret":{"secretName":"app"}}"#,
            r#"{"emptyDir":{}}"#,
        ] {
            assert_eq!(due(&with(other)), None, "{other}");
        }
        let none = POD.replace("[VOLUMES]", "null");
        assert_eq!(due(&none), None);
        assert!(DuePod::of(b"{}", &targets()).is_err());
    }

    #[test]
    fn pods_that_are_done_over_or_new_are_left_out() {
        let pod = with(MAP);
        let annotated = |value: &str| {
            let annotations =
                format!(r#"{{"metadata":{{"annotations":{{"podnudge.io/sync":"{value}"}},"#);
            pod.replacen(r#"{"metadata":{"#, &annotations, 1)
        };
        assert_eq!(due(&annotated("secret/x 1, configmap/app 7")), None);
        assert!(due(&annotated("configmap/app 71")).is_some());
        assert!(due(&annotated("configmap/app 6")).is_some());
        let deleted =
            pod.replacen("{\"metadata\":{", r#"{"metadata":{"deletionTimestamp":"x","#, 1);
        assert_eq!(due(&deleted), None);
        assert_eq!(due(&pod.replace("Running", "Succeeded")), None);
        assert_eq!(due(&pod.replace("Running", "Failed")), None);
        assert!(due(&pod.replace("Running", "Pending")).is_some());
        assert_eq!(due(&pod.replace(r#""nodeName":"n","#, "")), None, "no kubelet has it");
        assert!(due(&pod.replace("00:00:00Z", "00:01:04Z")).is_some());
        assert_eq!(due(&pod.replace("00:00:00Z", "00:01:05Z")), None);
    }
}
