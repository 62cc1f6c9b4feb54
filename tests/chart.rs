//! The values of the Helm chart that are about packaging: the image, labels, resources, environment and monitoring. They
//! reach each object that they are for, by each way in which podnudge is added to a pod.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::support::manifests::{
    admit, as_texts, chart, documents, object, output_of, remove, root, take_podnudge, templated,
    tool,
};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What helm makes of the chart itself.
fn helm(values: &[&str]) -> Vec<Value> {
    let text = templated(&root().join("k8s/chart"), values);
    documents(&text.unwrap_or_else(|error| panic!("{values:?}: {error}")))
}

/// podnudge's container beside an application, that of `podnudge sync`, and the one that the injection adds.
fn containers(values: &[&str]) -> [Value; 3] {
    let own: Vec<&str> = [values, &["sync.enabled=true", "injection=true"]].concat();
    let sync = object(&helm(&own), "Deployment", "release-podnudge-sync");
    let sync = sync["spec"]["template"]["spec"]["containers"][0].clone();

    let of_dependency: Vec<String> =
        values.iter().map(|value| format!("podnudge.{value}")).collect();
    let of_dependency: Vec<&str> = of_dependency.iter().map(String::as_str).collect();
    let made = documents(&templated(chart().path(), &of_dependency).unwrap());
    let mut pod = object(&made, "Deployment", "site")["spec"]["template"]["spec"].clone();
    let sidecar = take_podnudge(&mut pod, "initContainers");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("injection.yaml");
    fs::write(&file, templated(&root().join("k8s/chart"), &own).unwrap()).unwrap();
    let pod = json!({
        "metadata": {"labels": {"podnudge.io/inject": "true"}},
        "spec": {
            "containers": [{"name": "web", "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}]}],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
        },
    });
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let request = json!({"operation": "CREATE", "resource": resource, "namespace": "test"});
    let input = json!({"request": request, "object": pod, "oldObject": null});
    let admission = admit(&[file.to_str().unwrap()], &input);
    assert_eq!(admission.denied, <[String; 0]>::default());
    let mut pod = as_texts(admission.object);
    let injected = take_podnudge(&mut pod["spec"], "initContainers");
    [sidecar, sync, injected]
}

#[test]
fn the_image_is_put_together_from_its_parts_wherever_it_is_used() {
    let digest = format!("image.digest=\"{DIGEST}\"");
    let registry = "image.registry=\"registry.example:5000/team\"";
    let by_digest = format!("registry.example:5000/team/podnudge@{DIGEST}");
    for (values, wanted) in [
        (&[][..], "podnudge:0.1.0"),
        (&["image.tag=\"1.2\"", "image.repository=\"tools/podnudge\""], "tools/podnudge:1.2"),
        (&[registry], "registry.example:5000/team/podnudge:0.1.0"),
        (&[registry, "image.tag=\"1.2\"", &digest], &by_digest),
    ] {
        for container in containers(values) {
            assert_eq!(container["image"], wanted);
            assert_eq!(container.get("imagePullPolicy"), None);
        }
    }
    for container in containers(&["image.pullPolicy=\"Always\""]) {
        assert_eq!(container["imagePullPolicy"], "Always");
    }
    let secrets = ["sync.enabled=true", "imagePullSecrets=[{\"name\": \"registry\"}]"];
    let sync = object(&helm(&secrets), "Deployment", "release-podnudge-sync");
    assert_eq!(sync["spec"]["template"]["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
}

#[test]
fn resources_and_further_variables_reach_the_container_of_each_form() {
    let [sidecar, sync, injected] = containers(&[]);
    let own = |container: &Value| container["env"].as_array().unwrap().len();
    assert_eq!([own(&sidecar), own(&sync), own(&injected)], [6, 4, 6]);
    let env = "[{\"name\": \"PODNUDGE_JITTER\", \"value\": \"30s\"}, {\"name\": \"A\", \"value\": \"\\\"<'\\\\\"}]";
    let resources = "{\"limits\": {\"memory\": \"48Mi\", \"cpu\": 1}}";
    let values = [
        format!("env={env}"),
        format!("sync.env={env}"),
        format!("resources={resources}"),
        format!("sync.resources={resources}"),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for (container, requested) in containers(&values).iter().zip(["8Mi", "16Mi", "8Mi"]) {
        let all = container["env"].as_array().unwrap();
        for variable in [
            json!({"name": "PODNUDGE_JITTER", "value": "30s"}),
            json!({"name": "A", "value": "\"<'\\"}),
        ] {
            assert!(all.contains(&variable), "{variable}: {all:?}");
        }
        let wanted = json!({
            "requests": {"cpu": "1m", "memory": requested}, "limits": {"cpu": "1", "memory": "48Mi"},
        });
        assert_eq!(container["resources"], wanted);
    }
    let node = "env=[{\"name\": \"NODE\", \"valueFrom\": {\"fieldRef\": {\"fieldPath\": \"spec.nodeName\"}}}]";
    let error = templated(&root().join("k8s/chart"), &[node, "injection=true"]).unwrap_err();
    assert!(error.contains("`injection` takes no `valueFrom` in `env`; leave out NODE"), "{error}");
}

/// All that the chart can make.
const ALL: [&str; 8] = [
    "config=\"a\"",
    "access.evict=true",
    "accessPolicy=true",
    "syncPolicy=true",
    "injection=true",
    "sync.enabled=true",
    "podMonitor.enabled=true",
    "monitoringNamespace=\"monitoring\"",
];

#[test]
fn each_object_of_the_chart_has_the_recommended_labels_and_those_of_the_values() {
    let values = [
        &ALL[..],
        &[
            "otherPorts=\"closed\"",
            "labels={\"team\": \"web\", \"app.kubernetes.io/name\": \"other\"}",
            "annotations={\"owner\": \"1\"}",
        ],
    ];
    let made = helm(&values.concat());
    let kinds: BTreeSet<&str> = made.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert!(kinds.len() >= 10, "{kinds:?}");
    let is_complete = |metadata: &Value| {
        let labels = &metadata["labels"];
        let name = labels["app.kubernetes.io/name"].as_str().unwrap();
        assert!(["podnudge", "podnudge-sync"].contains(&name), "{metadata}");
        for (key, value) in [
            ("app.kubernetes.io/instance", "release"),
            ("app.kubernetes.io/version", "0.1.0"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("helm.sh/chart", "podnudge-0.1.0"),
            ("team", "web"),
        ] {
            assert_eq!(labels[key], value, "{metadata}");
        }
        assert_eq!(metadata["annotations"]["owner"], "1", "{metadata}");
    };
    for one in &made {
        is_complete(&one["metadata"]);
    }
    let sync = object(&made, "Deployment", "release-podnudge-sync");
    is_complete(&sync["spec"]["template"]["metadata"]);
    // A selector cannot be changed, and a version would be a change.
    let selected =
        json!({"app.kubernetes.io/name": "podnudge-sync", "app.kubernetes.io/instance": "release"});
    assert_eq!(sync["spec"]["selector"]["matchLabels"], selected);
}

#[test]
fn the_pod_monitor_of_the_chart_is_that_of_the_manifests() {
    let file = fs::read_to_string(root().join("k8s/monitoring/podmonitor.yaml")).unwrap();
    let mut wanted = documents(&file).remove(0)["spec"].clone();
    let monitor = |values: &[&str]| {
        let made = helm(&[values, &["podMonitor.enabled=true"]].concat());
        object(&made, "PodMonitor", "release-podnudge")
    };
    assert_eq!(monitor(&["podMonitor.anyNamespace=true"])["spec"], wanted);
    remove(&mut wanted, "namespaceSelector");
    wanted["podMetricsEndpoints"][0]["interval"] = "10s".into();
    let values = ["podMonitor.interval=\"10s\"", "podMonitor.labels={\"release\": \"prometheus\"}"];
    let made = monitor(&values);
    assert_eq!(made["spec"], wanted);
    assert_eq!(made["metadata"]["labels"]["release"], "prometheus");
}

/// Each value of the schema is in `values.yaml`, where users look for it.
#[test]
fn the_schema_and_the_values_have_the_same_keys() {
    let read = |file: &str| fs::read_to_string(root().join("k8s/chart").join(file)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values = documents(&read("values.yaml")).remove(0);
    let keys = |of: &Value| -> BTreeSet<String> {
        of.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let mut known = keys(&schema["properties"]);
    assert!(known.remove("global"), "helm adds it");
    assert_eq!(keys(&values), known);
    for name in ["image", "sync", "podMonitor", "access"] {
        assert_eq!(keys(&values[name]), keys(&schema["properties"][name]["properties"]), "{name}");
    }
}

#[test]
fn the_chart_says_what_it_is_and_which_clusters_it_needs() {
    let text = fs::read_to_string(root().join("k8s/chart/Chart.yaml")).unwrap();
    let chart = documents(&text).remove(0);
    for key in ["description", "home", "icon", "sources", "keywords"] {
        assert!(chart.get(key).is_some(), "{key}");
    }
    let version = chart["version"].as_str().unwrap();
    assert_eq!(chart["appVersion"], version);
    for link in text.split_whitespace().filter(|word| word.starts_with("https://")) {
        let link = link.trim_end_matches(']');
        let (_, path) = link.split_once("OWNER/podnudge").unwrap();
        if let Some(path) = path.strip_prefix(&format!("/blob/v{version}/")) {
            assert!(root().join(path.split('#').next().unwrap()).exists(), "{link}");
        } else if let Some(path) = path.strip_prefix(&format!("/raw/v{version}/")) {
            assert!(root().join(path).exists(), "{link}");
        } else {
            assert_eq!(path, "", "{link}");
        }
    }
    let images = chart["annotations"]["artifacthub.io/images"].as_str().unwrap();
    let [sidecar, ..] = containers(&[]);
    assert_eq!(documents(images)[0][0]["image"], sidecar["image"]);

    let with = |version: &str| {
        let mut helm = tool("helm");
        helm.args(["template", "release", "k8s/chart", "--kube-version", version]);
        output_of(helm)
    };
    for version in ["1.17.0", "1.29.3-gke.100", "1.37.0"] {
        with(version).unwrap();
    }
    assert!(with("1.16.15").unwrap_err().contains("incompatible"));
}
