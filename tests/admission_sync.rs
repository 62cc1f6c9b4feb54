//! The admission policy of `podnudge sync`, evaluated by Google's implementation of CEL: it holds the service account to
//! one annotation of pods, and to its Lease.

use serde_json::{Value, json};

use crate::support::manifests::admit;

const POLICY: [&str; 1] = ["k8s/sync/policy.yaml"];

/// What is denied to a service account whose token is bound to the pod `sync-1`.
fn denied_to(
    account: &str,
    operation: &str,
    resource: &str,
    object: &Value,
    old: &Value,
) -> Vec<String> {
    let group = if resource == "leases" { "coordination.k8s.io" } else { "" };
    let user = json!({
        "username": format!("system:serviceaccount:{account}"),
        "extra": {"authentication.kubernetes.io/pod-name": ["sync-1"]},
    });
    let request = json!({
        "operation": operation, "namespace": "test", "userInfo": user, "name": object["metadata"]["name"],
        "resource": {"group": group, "version": "v1", "resource": resource},
    });
    admit(&POLICY, &json!({"request": request, "object": object, "oldObject": old})).denied
}

fn denied(operation: &str, resource: &str, object: &Value, old: &Value) -> Vec<String> {
    denied_to("test:podnudge-sync", operation, resource, object, old)
}

#[test]
fn one_annotation_of_any_pod_may_be_changed_and_nothing_else() {
    let old = json!({
        "metadata": {"name": "web-1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
    });
    let with = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        new
    };
    let annotated =
        with("/metadata/annotations", json!({"c": "d", "podnudge.io/sync": "configmap/a 1"}));
    assert_eq!(denied("UPDATE", "pods", &annotated, &old), <[String; 0]>::default());
    let annotation = "podnudge sync may change the annotation podnudge.io/sync of pods only";
    let image = with("/spec/containers/0/image", "other:1".into());
    for (new, message) in [
        (with("/metadata/annotations", json!({"c": "x"})), annotation),
        (with("/metadata/annotations", json!({"c": "d", "e": "f"})), annotation),
        (with("/metadata/annotations", json!({})), annotation),
        (with("/metadata/labels", json!({})), "podnudge sync may not change the labels of pods"),
        (image.clone(), "podnudge sync may not change the specification of pods"),
        (
            with(
                "/metadata",
                json!({"name": "web-1", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x"]}),
            ),
            "podnudge sync may not change the owners and finalizers of pods",
        ),
    ] {
        assert_eq!(denied("UPDATE", "pods", &new, &old), [message]);
    }
    for other in ["test:podnudge", "test:podnudge-syncs", "other:podnudge-sync"] {
        assert_eq!(denied_to(other, "UPDATE", "pods", &image, &old), <[String; 0]>::default());
    }
    assert_eq!(denied_to("test:web-podnudge-sync", "UPDATE", "pods", &image, &old).len(), 1);
}

#[test]
fn only_its_lease_may_be_written_and_for_its_own_pod() {
    let lease = |name: &str, holder: &str, annotations: Value| {
        json!({
            "metadata": {"name": name, "annotations": annotations, "labels": {"a": "b"}},
            "spec": {"holderIdentity": holder},
        })
    };
    let (name, own) = ("podnudge-sync", "sync-1_u_sync");
    let edits = json!({"podnudge.io/sync-edits": "{}"});
    let new = json!({"metadata": {"name": name}, "spec": {"holderIdentity": own}});
    assert_eq!(denied("CREATE", "leases", &new, &Value::Null), <[String; 0]>::default());
    let held = lease(name, "sync-2_u_sync", json!({}));
    for good in [lease(name, own, edits.clone()), lease(name, "", edits)] {
        assert_eq!(denied("UPDATE", "leases", &good, &held), <[String; 0]>::default());
    }
    let long = json!({"podnudge.io/sync-edits": "x".repeat(131_073)});
    let annotation = "podnudge sync may change one annotation of the Lease only";
    let mut unlabelled = lease(name, own, json!({}));
    unlabelled["metadata"]["labels"] = json!({});
    for (bad, message) in [
        (lease("other", own, json!({})), "podnudge sync may write its own Lease only"),
        (
            lease(name, "sync-3_u_sync", json!({})),
            "podnudge sync may hold the Lease for its own pod only",
        ),
        (lease(name, own, json!({"a": "b"})), annotation),
        (lease(name, own, long), annotation),
        (unlabelled, "podnudge sync may not change the labels, owners and finalizers of the Lease"),
    ] {
        assert_eq!(denied("UPDATE", "leases", &bad, &held), [message]);
    }
}
