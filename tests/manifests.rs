//! The packaging for Kubernetes: the Kustomize components and the Helm chart, rendered by the real kustomize and helm,
//! give each kind of workload what podnudge needs and change nothing else; all manifests are valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use podnudge_config::{self as config, Overrides};
use serde_json::{Value, json};

use crate::support::manifests::{
    WORKLOADS, admit, as_texts, assert_starts, by_name, chart, documents, kustomized, object,
    output_of, remove, root, shipped, take_podnudge, templated, texts, tool, violations,
};

const PODNUDGE_TOML: &str =
    "configMapGenerator:\n  - name: podnudge\n    literals: [podnudge.toml=x]\n";
const ACCESS: [&str; 6] = [
    "access",
    "access/lease",
    "access/services",
    "access/eager-sync",
    "access/evict",
    "access/events",
];

/// The pod of this workload.
fn pod(documents: &[Value], kind: &str, name: &str) -> Value {
    object(documents, kind, name)["spec"]["template"].clone()
}

/// podnudge's container with the parts that each form has.
fn assert_is_complete(container: &Value) {
    assert_eq!(container["image"], "podnudge:0.1.0");
    assert_starts(container);
    let variable = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let wanted = [
        // The probe needs it.
        json!({"name": "PODNUDGE_LISTEN", "value": ":9533"}),
        json!({"name": "PODNUDGE_LOG", "value": "json"}),
        variable("PODNUDGE_POD_NAME", "metadata.name"),
        variable("PODNUDGE_POD_UID", "metadata.uid"),
        variable("PODNUDGE_POD_NAMESPACE", "metadata.namespace"),
        variable("PODNUDGE_NODE_NAME", "spec.nodeName"),
    ];
    assert_eq!(container["env"].as_array().unwrap()[..6], wanted);
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/livez", "port": "podnudge"}})
    );
    assert_eq!(container["ports"], json!([{"name": "podnudge", "containerPort": "9533"}]));
    let resources =
        json!({"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}});
    assert_eq!(container["resources"], resources);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], "true");
}

/// Names and mount paths, with `(rw)` for what is not read-only.
fn mounts(container: &Value) -> Vec<String> {
    let mount = |one: &Value| {
        let right = if one["readOnly"] == "true" { "" } else { " (rw)" };
        format!("{} {}{right}", one["name"].as_str().unwrap(), one["mountPath"].as_str().unwrap())
    };
    let mut all: Vec<String> =
        container["volumeMounts"].as_array().unwrap().iter().map(mount).collect();
    all.sort();
    all
}

#[test]
fn the_component_adds_a_native_sidecar_to_each_kind_and_changes_nothing_else() {
    let before = documents(&kustomized(&[], "").unwrap());
    let after = documents(&kustomized(&["component"], "").unwrap());
    for (kind, name) in WORKLOADS {
        let mut pod = pod(&after, kind, name);
        let container = take_podnudge(&mut pod["spec"], "initContainers");
        assert_is_complete(&container);
        assert_eq!(container["restartPolicy"], "Always");
        assert_eq!(mounts(&container), ["config /watched/config"]);
        assert!(texts(&container["args"]).contains(&"--watch=/watched/config".to_owned()));
        assert_eq!(violations(&pod["spec"]), <[String; 0]>::default());
        // The generated name, so that a new option rolls out the pods.
        let options = container["envFrom"][0]["configMapRef"]["name"].as_str().unwrap();
        assert!(options.starts_with("podnudge-options-"), "{options}");
        object(&after, "ConfigMap", options);
        assert_eq!(remove(&mut pod["spec"], "initContainers"), json!([]));
        assert_eq!(remove(&mut pod["spec"], "shareProcessNamespace"), "true");
        assert_eq!(remove(&mut pod["metadata"]["labels"], "podnudge.io/inject"), "true");
        assert_eq!(pod, self::pod(&before, kind, name), "{kind}");
    }
    assert_eq!(object(&after, "Deployment", "other"), object(&before, "Deployment", "other"));
}

#[test]
fn each_further_component_adds_what_its_feature_needs() {
    let base = documents(&kustomized(&["component"], "").unwrap());
    let with = |components: &[&str], more: &str| {
        let all = [&["component"], components].concat();
        documents(&kustomized(&all, more).unwrap_or_else(|error| panic!("{all:?}: {error}")))
    };
    for (kind, name) in WORKLOADS {
        let of = |documents: &[Value]| pod(documents, kind, name)["spec"].clone();
        let before = take_podnudge(&mut of(&base), "initContainers");
        let sidecar = |documents: &[Value]| take_podnudge(&mut of(documents), "initContainers");

        let file = with(&["component/file"], PODNUDGE_TOML);
        assert_eq!(
            mounts(&sidecar(&file)),
            ["config /watched/config", "podnudge-file /etc/podnudge"]
        );
        assert_eq!(texts(&sidecar(&file)["args"])[0], "--config=/etc/podnudge/podnudge.toml");
        assert!(!sidecar(&file)["args"].to_string().contains("--watch"));
        let volumes = of(&file)["volumes"].clone();
        let [.., (_, volume), _] = &by_name(&volumes, "name")[..] else { panic!("{volumes}") };
        object(&file, "ConfigMap", volume["configMap"]["name"].as_str().unwrap());

        let mut drain = sidecar(&with(&["component/drain"], ""));
        let probe = remove(&mut drain, "readinessProbe");
        let wanted = json!({"httpGet": {"path": "/serving", "port": "podnudge"}, "periodSeconds": "1", "failureThreshold": "1"});
        assert_eq!((probe, &drain), (wanted, &before));

        let restart = with(&["component/state", "component/restart-pod"], "");
        let container = sidecar(&restart);
        assert_eq!(
            mounts(&container),
            ["config /watched/config", "podnudge-state /var/lib/podnudge (rw)"]
        );
        assert_eq!(
            container["env"][6],
            json!({"name": "PODNUDGE_STATE_DIR", "value": "/var/lib/podnudge"})
        );
        let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": ["88"]}}]);
        assert_eq!(container["restartPolicyRules"], rule);
        let state = json!({"name": "podnudge-state", "emptyDir": {"sizeLimit": "16Mi"}});
        assert!(of(&restart)["volumes"].as_array().unwrap().contains(&state));

        // The one that gives up "restricted", for what it says.
        let root = of(&with(&["component/root"], ""));
        let wanted =
            ["runAsNonRoot", "runAsUser", "capabilities"].map(|it| format!("podnudge: {it}"));
        assert_eq!(violations(&root), wanted);
        let podnudge = take_podnudge(&mut root.clone(), "initContainers");
        assert_eq!(
            podnudge["securityContext"]["capabilities"],
            json!({"drop": ["ALL"], "add": ["KILL"]})
        );

        let access = with(&ACCESS, "");
        let pod = of(&access);
        assert_eq!(
            (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
            (&"podnudge".into(), &"false".into())
        );
        let token = "podnudge-token /var/run/secrets/kubernetes.io/serviceaccount";
        assert_eq!(mounts(&sidecar(&access)), ["config /watched/config", token]);
        assert!(
            !pod["containers"].to_string().contains("podnudge-token"),
            "the application gets none"
        );
        object(&access, "ServiceAccount", "podnudge");
        for role in &ACCESS[1..] {
            let name = role.replace("access/", "podnudge-");
            object(&access, "Role", &name);
            let binding = object(&access, "RoleBinding", &name);
            assert_eq!(binding["roleRef"]["name"].as_str(), Some(&*name));
            assert_eq!(binding["subjects"][0]["name"], "podnudge");
        }
    }
}

#[test]
fn classic_makes_an_ordinary_container_of_whatever_the_other_components_made() {
    let components =
        ["component", "component/file", "component/state", "component/drain", "access"];
    let native = documents(&kustomized(&components, PODNUDGE_TOML).unwrap());
    let all = [&components[..], &["component/classic"]].concat();
    let classic = documents(&kustomized(&all, PODNUDGE_TOML).unwrap());
    for (kind, name) in WORKLOADS {
        let (mut native, mut classic) = (pod(&native, kind, name), pod(&classic, kind, name));
        let mut sidecar = take_podnudge(&mut native["spec"], "initContainers");
        assert_eq!(remove(&mut sidecar, "restartPolicy"), "Always");
        assert_eq!(take_podnudge(&mut classic["spec"], "containers"), sidecar);
        assert_eq!(classic, native, "the rest is the same");
    }
    let wrong = kustomized(&["component", "component/classic", "component/drain"], "").unwrap_err();
    assert!(wrong.contains("initContainers/0"), "another order is refused: {wrong}");
}

/// What the documentation says for a volume with another name, and for the image.
#[test]
fn the_name_of_the_volume_and_the_image_can_be_changed_by_the_usual_means() {
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let (_, rest) = page.split_once("patches:\n").unwrap();
    let patch = format!("patches:\n{}", rest.split("```").next().unwrap());
    assert!(patch.contains("value: web-config"), "{patch}");
    let more = format!(
        "{patch}images: [{{name: podnudge, newName: registry.example/podnudge, newTag: \"1\"}}]\n"
    );
    let made = documents(&kustomized(&["component", "component/state"], &more).unwrap());
    for (kind, name) in WORKLOADS {
        let podnudge = take_podnudge(&mut pod(&made, kind, name)["spec"], "initContainers");
        assert_eq!(podnudge["image"], "registry.example/podnudge:1");
        assert_eq!(mounts(&podnudge)[1], "web-config /watched/config");
    }
}

#[test]
fn the_chart_adds_the_same_container_as_the_component() {
    let chart = chart();
    let helm = |values: &[&str]| {
        let text = templated(chart.path(), values);
        documents(&text.unwrap_or_else(|error| panic!("{values:?}: {error}")))
    };
    let components =
        ["component", "component/state", "component/drain", "access", "component/file"];
    let component = documents(&kustomized(&components, PODNUDGE_TOML).unwrap());
    let values = [
        "podnudge.options=[]",
        "podnudge.state=true",
        "podnudge.drain=true",
        "podnudge.access.events=true",
        "podnudge.config=\"[[rule]]\\nwatch = \\\"/etc/web\\\"\\n\"",
        "podnudge.watch={\"config\": \"/watched/config\"}",
    ];
    let native = helm(&values);
    let classic = helm(&[&values[..], &["classic=true"]].concat());
    for (kind, name) in WORKLOADS {
        let mut wanted = pod(&component, kind, name)["spec"].clone();
        let mut podnudge = take_podnudge(&mut wanted, "initContainers");
        remove(&mut podnudge, "envFrom");
        let sorted = |container: &mut Value| {
            let mut args = texts(&remove(container, "args"));
            args.sort();
            (args, mounts(container), remove(container, "volumeMounts"))
        };
        let (args, mounts, _) = sorted(&mut podnudge);
        let mut made = pod(&native, kind, name)["spec"].clone();
        let mut container = take_podnudge(&mut made, "initContainers");
        assert_is_complete(&container);
        let (made_args, made_mounts, _) = sorted(&mut container);
        assert_eq!((made_args, made_mounts), (args.clone(), mounts.clone()));
        assert_eq!(container, podnudge);
        let names = |volumes: &Value| {
            by_name(volumes, "name").into_iter().map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(names(&made["volumes"]), names(&wanted["volumes"]));
        assert_eq!(violations(&made), <[String; 0]>::default());

        let mut made = pod(&classic, kind, name)["spec"].clone();
        let mut container = take_podnudge(&mut made, "containers");
        sorted(&mut container);
        remove(&mut podnudge, "restartPolicy");
        assert_eq!(container, podnudge);
    }
    let file = object(&native, "ConfigMap", "release-podnudge")["data"]["podnudge.toml"].clone();
    let (_, warnings) =
        config::parse("podnudge.toml", file.as_str().unwrap(), &Overrides::default(), None)
            .unwrap();
    assert_eq!(warnings, []);
    object(&native, "ServiceAccount", "release-podnudge");

    let as_root = helm(&["podnudge.runAsUser=0", "podnudge.restartPod=true"]);
    let mut spec = pod(&as_root, "Deployment", "site")["spec"].clone();
    let wanted = ["runAsNonRoot", "runAsUser", "capabilities"].map(|it| format!("podnudge: {it}"));
    assert_eq!(violations(&spec), wanted);
    let podnudge = take_podnudge(&mut spec, "initContainers");
    assert_eq!(
        podnudge["securityContext"]["capabilities"],
        json!({"drop": ["ALL"], "add": ["KILL"]})
    );
    assert_eq!(podnudge["restartPolicyRules"][0]["action"], "RestartAllContainers");
    assert_eq!(texts(&podnudge["args"]), ["--watch=/etc/web", "--jitter=30s"]);

    for (option, port) in [
        ("--listen=:9600", Some("9600")),
        ("--listen=[::]:80", Some("80")),
        ("--log=json", Some("9533")),
        ("--state-dir=/tmp", Some("9533")),
        ("--listen=127.0.0.1:9600", None),
        ("--listen=[::1]:9600", None),
        ("--listen=off", None),
    ] {
        let made = helm(&[&format!("podnudge.options=[\"{option}\"]"), "podnudge.state=true"]);
        let mut spec = pod(&made, "Deployment", "site")["spec"].clone();
        let podnudge = take_podnudge(&mut spec, "initContainers");
        assert_starts(&podnudge);
        let ports = port.map(|port| json!([{"name": "podnudge", "containerPort": port}]));
        assert_eq!(podnudge.get("ports"), ports.as_ref(), "{option}");
        assert_eq!(podnudge.get("livenessProbe").is_some(), port.is_some(), "{option}");
    }
}

#[test]
fn the_chart_installs_nothing_unasked_and_refuses_wrong_values() {
    let own = root().join("k8s/chart");
    assert_eq!(documents(&templated(&own, &[]).unwrap()), Vec::<Value>::new());
    let lint = ["lint", "--strict", "--quiet", own.to_str().unwrap()];
    let mut helm = tool("helm");
    helm.args(lint);
    output_of(helm).unwrap();

    let values = [
        "injection=true",
        "accessPolicy=true",
        "monitoringNamespace=\"watchers\"",
        "otherPorts=\"closed\"",
        "image={\"registry\": \"registry.example\", \"repository\": \"p\", \"tag\": \"1\"}",
    ];
    let text = templated(&own, &values).unwrap();
    assert!(
        text.contains("\"'registry.example/p:1'\"") && !text.contains("podnudge:0.1.0"),
        "{text}"
    );
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let policy =
        read("k8s/network-policy.yaml").replace("name: podnudge\n", "name: release-podnudge\n");
    let policy = policy.replace("name: monitoring", "name: watchers");
    let injection =
        read("k8s/injection/policy.yaml").replace("podnudge:0.1.0", "registry.example/p:1");
    let sources = [policy, injection, read("k8s/access/policy.yaml")];
    let names = |documents: Vec<Value>| -> BTreeMap<String, Value> {
        let key = |one: &Value| format!("{} {}", one["kind"], one["metadata"]["name"]);
        let unlabelled = |mut one: Value| {
            one["metadata"].as_object_mut().unwrap().remove("labels");
            one
        };
        documents.into_iter().map(|one| (key(&one), unlabelled(one))).collect()
    };
    assert_eq!(
        names(documents(&text)),
        names(sources.iter().flat_map(|text| documents(text)).collect())
    );

    let chart = chart();
    for (values, part) in [
        (["podnudge.drain=true", "podnudge.options=[\"--listen=off\"]"], "`drain` needs a port"),
        (["podnudge.config=\"a\"", "podnudge.options=[\"--config=/a\"]"], "cannot be combined"),
    ] {
        let error = templated(chart.path(), &values).unwrap_err();
        assert!(error.contains(part), "{values:?}: {error}");
    }
    for (value, part) in [
        ("podnudge.watch={\"config\": \"etc\"}", "does not match pattern"),
        ("podnudge.watch=null", "nothing to watch; set `watch`"),
        ("podnudge.options=[\"HUP\"]", "does not match pattern"),
        ("podnudge.options=[\"--signal=HUP\\n--log=text\"]", "does not match pattern"),
        ("podnudge.acess={}", "'acess' not allowed"),
        ("podnudge.access={\"lease\": {\"name\": \"web\", \"slots\": 0}}", "minimum"),
        ("podnudge.watch={\"config\": \"/etc/a: b\"}", "does not match pattern"),
        ("podnudge.watch={\"config\": \"/etc/x,readOnly: false\"}", "does not match pattern"),
        ("podnudge.watch={\"con_fig\": \"/etc\"}", "does not match pattern"),
        ("podnudge.image=\"podnudge:0.1.0\"", "got string, want object"),
        ("podnudge.image={\"repository\": \"a\\\\b\"}", "does not match pattern"),
        ("podnudge.image={\"registry\": \"a'b\"}", "does not match pattern"),
        ("podnudge.image={\"tag\": \"a b\"}", "does not match pattern"),
        ("podnudge.image={\"digest\": \"sha256:1\"}", "does not match pattern"),
        ("podnudge.image={\"pullPolicy\": \"Often\"}", "value must be one of"),
        ("podnudge.imagePullSecrets=[\"registry\"]", "got string, want object"),
        ("podnudge.labels={\"a\": 1}", "got number, want string"),
        ("podnudge.env=[{\"name\": \"A=B\"}]", "does not match pattern"),
        ("podnudge.env=[{\"name\": \"PODNUDGE_LISTEN\"}]", "`env` cannot set PODNUDGE_LISTEN"),
        ("podnudge.resources={\"limit\": {}}", "'limit' not allowed"),
        ("podnudge.podMonitor={\"interval\": \"30\"}", "does not match pattern"),
        ("podnudge.access={\"lease\": {\"name\": \"a, b\"}}", "does not match pattern"),
        ("podnudge.access={\"eagerSync\": {\"secrets\": [\"a/b\"]}}", "does not match pattern"),
        ("podnudge.access={\"serviceAccountName\": \"Web\"}", "does not match pattern"),
        ("podnudge.monitoringNamespace=\"a.b\"", "does not match pattern"),
        ("podnudge.runAsUser=\"root\"", "got string, want null or integer"),
        ("podnudge.monitoringNamespace=\"m\"", "set it to `closed` if other NetworkPolicies"),
    ] {
        let error = templated(chart.path(), &[value]).expect_err(value);
        assert!(error.contains(part), "{value}: {error}");
    }
}

/// Names may look like numbers, and the file may begin with blanks.
#[test]
fn the_chart_renders_texts_as_texts_whatever_they_look_like() {
    let chart = chart();
    for config in [
        "  [[rule]]\n  watch = \"/a\"\n",
        "\n\n\t[[rule]]",
        " # {{ \"a\" }}: b\n[[rule]]\n\n\n",
        "[[rule]]\r\nwatch = \"/\u{e4}\"\r\n",
        "- a: |\n--- \n...\n",
        "null",
        "12",
    ] {
        let value = format!("podnudge.config={}", json!(config));
        let made = documents(&templated(chart.path(), &[&value]).unwrap());
        let data = &object(&made, "ConfigMap", "release-podnudge")["data"];
        // With one line break at the end.
        let wanted = format!("{}\n", config.trim_end_matches('\n'));
        assert_eq!(data, &json!({"podnudge.toml": wanted}));
    }
    let text = templated(
        chart.path(),
        &[
            "podnudge.watch={\"123\": \"/etc/a, b # c\", \"null\": \"/etc/~\"}",
            "podnudge.access={\"lease\": {\"name\": \"1e3\"}, \"serviceAccountName\": \"1234\"}",
            "podnudge.access.eagerSync={\"configMaps\": [\"123\", \"1e3\", \"null\"], \"secrets\": [\"true\"]}",
            "podnudge.accessPolicyAccounts=[\"1234\"]",
            "podnudge.monitoringNamespace=\"123\"",
            "podnudge.otherPorts=\"closed\"",
        ],
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.yaml");
    fs::write(&path, &text).unwrap();
    let mut python = tool("python");
    python.arg("tests/kubernetes/validate.py").arg(&path);
    let found: Value = serde_json::from_str(&output_of(python).unwrap()).unwrap();
    assert_eq!(found, json!({path.to_str().unwrap(): "1.29"}));
    for part in [
        // The API server also takes this for a number, the validation does not.
        "resourceNames: [\"123\",\"1e3\",\"null\"]",
        "{name: \"123\", mountPath: \"/etc/a, b # c\", readOnly: true}",
        "- \"--watch=/etc/a, b # c\"",
        "{kubernetes.io/metadata.name: \"123\"}",
        "subjects: [{kind: ServiceAccount, name: \"1234\"}]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Two releases in one namespace must not make the same service account, and the admission policy must hold each.
#[test]
fn the_chart_makes_a_service_account_that_the_admission_policy_holds() {
    let own = root().join("k8s/chart");
    let helm = |values: &[&str]| {
        let text = templated(&own, values);
        documents(&text.unwrap_or_else(|error| panic!("{values:?}: {error}")))
    };
    let evict = "access.evict=true";
    let made = helm(&[evict]);
    object(&made, "ServiceAccount", "release-podnudge");
    let subject = json!([{"kind": "ServiceAccount", "name": "release-podnudge"}]);
    assert_eq!(object(&made, "RoleBinding", "release-podnudge")["subjects"], subject);

    let existing = helm(&[
        "access.events=true",
        "access.createServiceAccount=false",
        "access.serviceAccountName=\"web\"",
    ]);
    assert!(existing.iter().all(|one| one["kind"] != "ServiceAccount"), "{existing:?}");
    let subject = &object(&existing, "RoleBinding", "release-podnudge")["subjects"][0];
    assert_eq!(subject["name"], "web");

    let eager = "access.eagerSync={\"secrets\": [\"a\"]}";
    let web = "access.serviceAccountName=\"web\"";
    for feature in [evict, eager] {
        let error = templated(&own, &[feature, web]).unwrap_err();
        assert!(error.contains("the admission policy does not hold a service account"), "{error}");
        for name in ["podnudge", "web-podnudge"] {
            helm(&[feature, &format!("access.serviceAccountName=\"{name}\"")]);
        }
        helm(&[feature, web, "accessPolicyAccounts=[\"web\"]"]);
    }
    let ends_in_policy = |values: &[&str]| {
        let policies = helm(&[values, &["accessPolicy=true"]].concat());
        let policies: Vec<&Value> =
            policies.iter().filter(|it| it["kind"] == "ValidatingAdmissionPolicy").collect();
        assert_eq!(policies.len(), 4);
        let conditions = policies.iter().map(|it| &it["spec"]["matchConditions"][0]["expression"]);
        let ends = |text: &Value| {
            let (_, rest) = text.as_str().unwrap().split_once('[').unwrap();
            rest.split(']').next().unwrap().to_owned()
        };
        let all: BTreeSet<String> = conditions.map(ends).collect();
        let [one] = &all.into_iter().collect::<Vec<_>>()[..] else { panic!("{policies:?}") };
        one.clone()
    };
    assert_eq!(ends_in_policy(&[evict]), "':podnudge', '-podnudge'");
    assert_eq!(ends_in_policy(&[evict, web]), "':podnudge', '-podnudge', ':test:web'");
    let more = "accessPolicyAccounts=[\"a.b\", \"web\"]";
    assert_eq!(
        ends_in_policy(&[eager, web, more]),
        "':podnudge', '-podnudge', ':a.b', ':web', ':test:web'"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, templated(&own, &[evict, web, "accessPolicy=true"]).unwrap()).unwrap();
    let pod = json!({"metadata": {"name": "other"}});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    for (namespace, name, is_held) in [
        ("test", "web", true),
        ("other", "web", false),
        ("test", "release-podnudge", true),
        ("other", "release-podnudge", true),
        ("test", "shop", false),
    ] {
        let user = json!({"username": format!("system:serviceaccount:{namespace}:{name}")});
        let request = json!({
            "operation": "CREATE", "namespace": namespace, "userInfo": user, "name": "other", "resource": resource,
            "subResource": "eviction",
        });
        let input = json!({"request": request, "object": pod, "oldObject": null});
        let denied = admit(&[file.to_str().unwrap()], &input).denied;
        assert_eq!(!denied.is_empty(), is_held, "{name}: {denied:?}");
    }
}

/// What helm says after the installation.
#[test]
fn the_chart_says_that_nothing_limits_the_rights_without_the_admission_policy() {
    let notes = |values: &[&str]| {
        let mut helm = tool("helm");
        // It needs no cluster.
        helm.env("KUBECONFIG", "/dev/null");
        helm.args(["install", "release", "k8s/chart", "--dry-run=client"]);
        helm.args(values.iter().flat_map(|value| ["--set-json", value]));
        output_of(helm).unwrap().split_once("NOTES:").unwrap().1.to_owned()
    };
    let warning = "the service account release-podnudge may patch or evict every pod";
    let eager = "access.eagerSync={\"configMaps\": [\"a\"]}";
    for feature in ["access.evict=true", eager] {
        assert!(notes(&[feature]).contains(warning));
        assert!(!notes(&[feature, "accessPolicy=true"]).contains("WARNING"));
    }
    assert!(!notes(&["access.events=true"]).contains("WARNING"));
}

/// Whether one of these `NetworkPolicies`, which all select the pod, allows a client of a namespace to connect: what one
/// allows, no other one can deny.
fn is_reachable(policies: &[&Value], namespace: &str, protocol: &str, port: u32) -> bool {
    let number = |value: &Value| value.as_str().map(|text| text.parse::<u32>().unwrap());
    let has_port = |one: &Value| {
        let first = number(&one["port"]).unwrap();
        let last = number(&one["endPort"]).unwrap_or(first);
        one["protocol"] == protocol && (first..=last).contains(&port)
    };
    let is_from = |one: &Value| {
        one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] == namespace
    };
    let mut rules =
        policies.iter().flat_map(|it| it["spec"]["ingress"].as_array().into_iter().flatten());
    rules.any(|rule| {
        let from = rule["from"].as_array();
        rule["ports"].as_array().unwrap().iter().any(has_port)
            && from.is_none_or(|from| from.iter().any(is_from))
    })
}

/// Where ingress is denied by default, this must not open the ports of the application.
#[test]
fn the_network_policies_close_the_port_of_podnudge_and_open_others_only_where_asked_for() {
    let own = root().join("k8s/chart");
    let chart = |other: &str| {
        let values = ["monitoringNamespace=\"monitoring\"", &format!("otherPorts=\"{other}\"")];
        documents(&templated(&own, &values).unwrap()).remove(0)
    };
    let file = |name: &str| documents(&fs::read_to_string(root().join(name)).unwrap()).remove(0);
    let denies = json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    for (policies, is_open) in [
        ([file("k8s/network-policy.yaml"), chart("closed")], false),
        ([file("k8s/network-policy-open.yaml"), chart("open")], true),
    ] {
        for policy in policies {
            let reachable = |namespace: &str, protocol: &str, port: u32| {
                is_reachable(&[&denies, &policy], namespace, protocol, port)
            };
            assert!(reachable("monitoring", "TCP", 9533) && !reachable("shop", "TCP", 9533));
            for (protocol, port) in [
                ("TCP", 1),
                ("TCP", 9532),
                ("TCP", 9534),
                ("TCP", 65535),
                ("UDP", 53),
                ("SCTP", 9533),
            ] {
                assert_eq!(
                    reachable("shop", protocol, port),
                    is_open,
                    "{protocol} {port} {policy}"
                );
            }
        }
    }
}

/// The resources with a later version are those that an older cluster does not have.
#[test]
fn all_manifests_are_valid_from_their_first_version_to_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let all = [&["component", "component/file", "component/state", "component/drain"], &ACCESS[..]]
        .concat();
    let classic = [&all[..], &["component/classic"]].concat();
    let restart = [&all[..], &["component/restart-pod"]].concat();
    let chart = chart();
    let helm = |values: &[&str]| templated(chart.path(), values).unwrap();
    let access = "podnudge.access={\"lease\": {\"name\": \"web\", \"slots\": 2}, \"services\": true, \"eagerSync\": {\"configMaps\": [\"a\"], \"secrets\": [\"b\"]}, \"evict\": true, \"events\": true}";
    let mut files = vec![
        (rendered("component", kustomized(&all, PODNUDGE_TOML).unwrap()), "1.29"),
        (rendered("classic", kustomized(&classic, PODNUDGE_TOML).unwrap()), "1.29"),
        (
            rendered("installed", kustomized(&["component", "component/installed"], "").unwrap()),
            "1.29",
        ),
        (rendered("root", kustomized(&["component", "component/root"], "").unwrap()), "1.29"),
        (rendered("restart", kustomized(&restart, PODNUDGE_TOML).unwrap()), "1.34"),
        (
            rendered(
                "chart",
                helm(&[
                    access,
                    "podnudge.state=true",
                    "podnudge.monitoringNamespace=\"m\"",
                    "podnudge.otherPorts=\"open\"",
                ]),
            ),
            "1.29",
        ),
        (rendered("chart-classic", helm(&["classic=true", "podnudge.config=\"a\""])), "1.29"),
        (
            rendered("chart-installed", helm(&["podnudge.installed={\"image\": \"nginx:1.29\"}"])),
            "1.29",
        ),
        (
            rendered(
                "chart-injection",
                helm(&["podnudge.injection=true", "podnudge.accessPolicy=true"]),
            ),
            "1.36",
        ),
        (
            rendered(
                "chart-sync",
                helm(&[
                    "podnudge.sync.enabled=true",
                    "podnudge.sync.env=[{\"name\": \"A\", \"value\": \"1\"}]",
                    "podnudge.image.pullPolicy=\"Always\"",
                    "podnudge.imagePullSecrets=[{\"name\": \"registry\"}]",
                    "podnudge.labels={\"team\": \"web\"}",
                    "podnudge.annotations={\"a\": \"b\"}",
                    "podnudge.env=[{\"name\": \"NODE\", \"valueFrom\": {\"fieldRef\": {\"fieldPath\": \"spec.nodeName\"}}}]",
                    "podnudge.resources={\"limits\": {\"cpu\": \"100m\"}}",
                ]),
            ),
            "1.29",
        ),
    ];
    for path in shipped() {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        // Kubernetes has no schemas of these. .ci/monitoring and tests/kyverno.rs check the last two.
        let is_custom = |document: &&str| {
            ["cert-manager.io/v1", "monitoring.coreos.com/v1", "policies.kyverno.io/v1"]
                .iter()
                .any(|group| document.contains(&format!("apiVersion: {group}\n")))
        };
        let (custom, others): (Vec<&str>, Vec<&str>) = text.split("---\n").partition(is_custom);
        if !custom.is_empty() {
            let is_all = others.iter().all(|one| one.trim().is_empty());
            if !is_all {
                let name = path.file_name().unwrap().to_str().unwrap();
                let first = if name == "kyverno.yaml" { "1.30" } else { "1.29" };
                files.push((rendered(name, others.join("---\n")), first));
            }
            continue;
        }
        let first = match path.to_str().unwrap() {
            "k8s/injection/policy.yaml" => "1.36",
            // The field is older than its action RestartAllContainers, which the schema does not list.
            "k8s/restart-pod.yaml" => "1.34",
            "k8s/access/policy.yaml" | "k8s/eager-sync.yaml" | "k8s/sync/policy.yaml" => "1.30",
            _ => "1.29",
        };
        files.push((path, first));
    }
    assert!(files.len() >= 20, "{files:?}");
    let mut python = tool("python");
    python.arg("tests/kubernetes/validate.py").args(files.iter().map(|(path, _)| path));
    let found: BTreeMap<String, Value> = serde_json::from_str(&output_of(python).unwrap()).unwrap();
    let wanted: BTreeMap<String, Value> =
        files.iter().map(|(path, first)| (path.display().to_string(), (*first).into())).collect();
    assert_eq!(found, wanted);
}

/// What the manifests, the components and the chart give a token and rights.
fn with_access() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = shipped()
        .iter()
        .map(|path| (path.display().to_string(), fs::read_to_string(root().join(path)).unwrap()))
        .collect();
    let native = [&["component"], &ACCESS[..]].concat();
    let classic = [&native[..], &["component/classic"]].concat();
    for components in [native, classic] {
        all.push((components.join(" "), kustomized(&components, "").unwrap()));
    }
    let chart = chart();
    let access = "podnudge.access={\"lease\": {\"name\": \"web\", \"slots\": 2}, \"services\": true, \"eagerSync\": {\"configMaps\": [\"a\"]}, \"evict\": true, \"events\": true}";
    for classic in ["classic=false", "classic=true"] {
        let name = format!("the chart with {classic}");
        all.push((name, templated(chart.path(), &[access, classic]).unwrap()));
    }
    all
}

/// A neighbour with podnudge's token may do what podnudge may.
#[test]
fn no_container_but_podnudge_has_a_token() {
    let (mut failed, mut tokens) = (Vec::new(), 0);
    for (file, text) in with_access() {
        for one in documents(&text) {
            let spec =
                if one["kind"] == "Pod" { &one["spec"] } else { &one["spec"]["template"]["spec"] };
            // The tests bring workloads without an account.
            let is_ours = file.starts_with("k8s/") || spec["serviceAccountName"].is_string();
            if !spec.is_object() || !is_ours {
                continue;
            }
            let name = one["metadata"]["name"].as_str().unwrap();
            if spec["automountServiceAccountToken"] != "false" {
                failed.push(format!("{file}: {name}: each container has the token"));
            }
            let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
            let has_token = |volume: &&Value| volume.to_string().contains("serviceAccountToken");
            let volumes = list(spec, "volumes");
            for volume in volumes.iter().filter(has_token) {
                let containers =
                    ["initContainers", "containers"].map(|key| list(spec, key)).concat();
                let mounts = |container: &&Value| {
                    list(container, "volumeMounts")
                        .iter()
                        .any(|mount| mount["name"] == volume["name"])
                };
                let holders: Vec<&Value> =
                    containers.iter().filter(mounts).map(|container| &container["name"]).collect();
                if holders != ["podnudge"] {
                    failed.push(format!("{file}: {name}: {holders:?} have the token"));
                }
                tokens += 1;
            }
        }
    }
    assert_eq!(failed, <[String; 0]>::default());
    assert!(tokens >= 9, "only {tokens} pods with a token");
}

/// A Role cannot limit its rights to the own pod.
#[test]
fn the_admission_policy_holds_each_account_with_rights() {
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let pod = json!({"metadata": {"name": "other"}});
    let mut accounts = BTreeMap::new();
    for (file, text) in with_access() {
        for binding in documents(&text).iter().filter(|it| it["kind"] == "RoleBinding") {
            for subject in binding["subjects"].as_array().unwrap() {
                assert_eq!(subject["kind"], "ServiceAccount", "{file}");
                accounts.insert(subject["name"].as_str().unwrap().to_owned(), file.clone());
            }
        }
    }
    assert!(accounts.len() >= 5, "{accounts:?}");
    // It has no pod of its own to change: tests/admission_sync.rs.
    assert!(accounts.remove("podnudge-sync").is_some());
    accounts.retain(|account, _| {
        let user = json!({"username": format!("system:serviceaccount:test:{account}")});
        let request = json!({
            "operation": "CREATE", "namespace": "test", "userInfo": user, "name": "other", "resource": resource,
            "subResource": "eviction",
        });
        let input = json!({"request": request, "object": pod, "oldObject": null});
        admit(&["k8s/access/policy.yaml"], &input).denied.is_empty()
    });
    assert!(accounts.is_empty(), "not held: {accounts:?}");
}

/// Each pod of `k8s/` conforms to the Pod Security Standard "restricted".
#[test]
fn every_pod_of_the_manifests_is_restricted() {
    let mut count = 0;
    for path in shipped() {
        for one in documents(&fs::read_to_string(root().join(&path)).unwrap()) {
            let spec = &one["spec"]["template"]["spec"];
            if spec.is_object() {
                // Aliases are not resolved.
                let text = spec.to_string().replace(
                    "null",
                    r#"{"allowPrivilegeEscalation":"false","capabilities":{"drop":["ALL"]}}"#,
                );
                let spec = as_texts(serde_json::from_str(&text).unwrap());
                assert_eq!(violations(&spec), <[String; 0]>::default(), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 6, "only {count} pods");
}
