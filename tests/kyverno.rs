//! The injection by Kyverno, for clusters whose API server has no `MutatingAdmissionPolicy`: the same policy in another
//! form, made from that one. It conforms to Kyverno's own schema, and makes the same pods, as far as Google's
//! implementation of CEL tells. Kyverno itself is not run.

use std::fs;

use serde_json::{Value, json};

use crate::support::manifests::{admit, documents, output_of, root, templated, tool};

const NATIVE: &str = "k8s/injection/policy.yaml";
const KYVERNO: &str = "k8s/injection/kyverno.yaml";

const HEAD: &str = "\
# The injection of policy.yaml by Kyverno 1.17 or later, for Kubernetes 1.30 or later. policy.yaml explains the annotations.
# Made from policy.yaml: UPDATE=1 cargo test --test all kyverno
";
/// A condition of a policy is one of Kyverno's webhook, too. Its selector is none.
const CONDITION: &str = "
    # Also in the webhook: pods without the label are created while Kyverno does not answer.
    - name: has-label
      expression: >-
        has(object.metadata.labels) && 'podnudge.io/inject' in object.metadata.labels &&
        object.metadata.labels['podnudge.io/inject'] == 'true'
";

/// The policy for Kyverno.
fn made() -> String {
    let native = fs::read_to_string(root().join(NATIVE)).unwrap();
    let start = native.find("apiVersion: ").unwrap();
    let [policy, binding, others] = native[start..].splitn(3, "---\n").collect::<Vec<_>>()[..]
    else {
        panic!("{native}")
    };
    assert!(binding.contains("kind: MutatingAdmissionPolicyBinding\n"), "{binding}");
    let mut made = format!("{HEAD}{policy}---\n{others}");
    for (native, kyverno) in [
        (
            "admissionregistration.k8s.io/v1\nkind: MutatingAdmission",
            "policies.kyverno.io/v1\nkind: Mutating",
        ),
        ("  reinvocationPolicy: Never\n", ""),
        ("  matchConditions:\n", &format!("  matchConditions:{CONDITION}")),
        (
            "the MutatingAdmissionPolicy podnudge-injection and its binding\n        are missing or do not apply to this namespace",
            "the MutatingPolicy podnudge-injection is missing, or Kyverno does\n        not handle this namespace",
        ),
    ] {
        assert_eq!(made.matches(native).count(), 1, "{native}");
        made = made.replace(native, kyverno);
    }
    made
}

#[test]
fn the_policy_for_kyverno_is_the_other_one_in_another_form() {
    let (path, made) = (root().join(KYVERNO), made());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, made).unwrap();
    } else {
        let is_same = fs::read_to_string(path).unwrap() == made;
        assert!(is_same, "{KYVERNO} is out of date: run `UPDATE=1 cargo test --test all kyverno`");
    }
}

/// What is wrong with these policies by Kyverno's schema.
fn problems(text: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, text).unwrap();
    let mut python = tool("python");
    python.arg("tests/kubernetes/kyverno.py").arg(file);
    serde_json::from_str(&output_of(python).unwrap()).unwrap()
}

#[test]
fn the_policy_for_kyverno_conforms_to_its_schema() {
    let text = fs::read_to_string(root().join(KYVERNO)).unwrap();
    assert_eq!(problems(&text), json!([]));
    for (part, wrong, message) in [
        ("patchType: JSONPatch", "patch: JSONPatch", "'patch' was unexpected"),
        (
            "failurePolicy: Fail",
            "failurePolicy: Refuse",
            "'Refuse' is not one of ['Ignore', 'Fail']",
        ),
        ("- name: has-label", "- label: has-label", "'name' is a required property"),
        ("operations: [CREATE]", "operations: CREATE", "'CREATE' is not of type 'array'"),
    ] {
        let found = problems(&text.replacen(part, wrong, 1)).to_string();
        assert!(found.contains(message), "{wrong}: {found}");
    }
}

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"podnudge.io/inject": "true"}, "annotations": annotations},
        "spec": {
            "containers": [{
                "name": "web", "image": "nginx:1.29", "securityContext": {"runAsUser": 101},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/nginx"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
        },
    })
}

#[test]
fn kyverno_makes_the_pods_that_the_api_server_makes() {
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let request = json!({"operation": "CREATE", "resource": resource, "namespace": "test"});
    let with = |policy: &str, pod: &Value| {
        let admission =
            admit(&[policy], &json!({"request": request, "object": pod, "oldObject": null}));
        (admission.is_mutated, admission.object, admission.denied)
    };
    let folder = tempfile::tempdir().unwrap();
    let of_chart = folder.path().join("chart.yaml");
    let text = templated(&root().join("k8s/chart"), &["injection=\"kyverno\""]).unwrap();
    assert!(documents(&text).iter().all(|one| one["kind"] != "MutatingAdmissionPolicy"));
    fs::write(&of_chart, text).unwrap();
    for annotations in [
        json!({}),
        json!({"podnudge.io/options": "--signal=HUP --listen=:9600", "podnudge.io/uid": "0"}),
        json!({"podnudge.io/config": "settings", "podnudge.io/drain": "true"}),
        json!({"podnudge.io/installed": "true"}),
        json!({"podnudge.io/volumes": "tls"}),
    ] {
        let pod = pod(&annotations);
        let wanted = with(NATIVE, &pod);
        assert!(wanted.0);
        assert_eq!(with(KYVERNO, &pod), wanted, "{annotations}");
        assert_eq!(with(of_chart.to_str().unwrap(), &pod), wanted, "{annotations}");
    }
    let mut unlabelled = pod(&json!({}));
    unlabelled["metadata"]["labels"] = json!({"app": "web"});
    assert_eq!(with(KYVERNO, &unlabelled), (false, unlabelled.clone(), Vec::new()));
}
