//! The admission policies, evaluated by Google's implementation of CEL: injection adds what the Kustomize component
//! adds, and says what is wrong with annotations; the policy for the service account holds it to its own pod.

use serde_json::{Value, json};

use crate::support::manifests::{
    Admission, WORKLOADS, admit, as_texts, assert_starts, by_name, documents, kustomized, object,
    remove, take_podnudge, texts, violations,
};

const INJECTION: [&str; 1] = ["k8s/injection/policy.yaml"];
const ACCESS: [&str; 1] = ["k8s/access/policy.yaml"];

/// A pod with the label, of an application that mounts a ConfigMap, a Secret, a file of another Secret, a directory,
/// and its token.
fn pod(annotations: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "labels": {"podnudge.io/inject": "true"}},
        "spec": {
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 101, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "web", "image": "nginx:1.29",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/nginx"},
                        {"name": "tls", "mountPath": "/etc/tls", "readOnly": true},
                        {"name": "file", "mountPath": "/etc/file", "subPath": "file"},
                        {"name": "tmp", "mountPath": "/tmp"},
                        {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
                    ],
                },
                {
                    "name": "other", "image": "other:1",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "both", "mountPath": "/etc/both"}],
                },
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": "web"}},
                {"name": "tls", "secret": {"secretName": "web"}},
                {"name": "file", "secret": {"secretName": "file"}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "both", "projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "b"}}]}},
                {"name": "kube-api-access-x", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}},
                ]}},
            ],
        },
    });
    if annotations != json!({}) {
        pod["metadata"]["annotations"] = annotations;
    }
    pod
}

fn created(pod: &Value) -> Admission {
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let request =
        json!({"operation": "CREATE", "resource": resource, "namespace": "test", "name": ""});
    admit(&INJECTION, &json!({"request": request, "object": pod, "oldObject": null}))
}

fn injected(pod: &Value) -> Value {
    let admission = created(pod);
    assert!(admission.is_mutated);
    assert_eq!(admission.denied, <[String; 0]>::default());
    admission.object
}

/// podnudge's container in the pod, and the pod without it.
fn parts(pod: Value) -> (Value, Value) {
    let mut pod = as_texts(pod);
    let podnudge = take_podnudge(&mut pod["spec"], "initContainers");
    (podnudge, pod)
}

#[test]
fn injection_adds_the_container_of_the_component_and_changes_nothing_else() {
    let before = pod(json!({}));
    let after = injected(&before);
    assert_eq!(violations(&after["spec"]), <[String; 0]>::default());
    let (mut podnudge, mut rest) = parts(after);
    assert_eq!(remove(&mut rest["spec"], "initContainers"), json!([]));
    assert_eq!(remove(&mut rest["spec"], "shareProcessNamespace"), "true");
    assert_eq!(rest, as_texts(before));

    let component = documents(&kustomized(&["component"], "").unwrap());
    let mut wanted = object(&component, "Deployment", "site")["spec"]["template"]["spec"].clone();
    let mut wanted = take_podnudge(&mut wanted, "initContainers");
    remove(&mut wanted, "envFrom");
    for container in [&mut wanted, &mut podnudge] {
        container["args"]
            .as_array_mut()
            .unwrap()
            .retain(|arg| !arg.as_str().unwrap().starts_with("--watch"));
    }
    wanted["securityContext"]["runAsUser"] = "101".into();
    wanted["volumeMounts"] = json!([
        {"name": "config", "mountPath": "/etc/nginx", "readOnly": "true"},
        {"name": "tls", "mountPath": "/etc/tls", "readOnly": "true"},
    ]);
    assert_eq!(podnudge, wanted);
}

#[test]
fn annotations_say_what_to_watch_and_how() {
    let args = |annotations: Value| {
        let (podnudge, _) = parts(injected(&pod(annotations)));
        texts(&podnudge["args"]).join(" ")
    };
    assert_eq!(args(json!({})), "--watch=/etc/nginx --watch=/etc/tls");
    assert_eq!(args(json!({"podnudge.io/volumes": "tls"})), "--watch=/etc/tls");
    assert_eq!(args(json!({"podnudge.io/volumes": " tmp, tls"})), "--watch=/etc/tls --watch=/tmp");
    assert_eq!(args(json!({"podnudge.io/container": "other"})), "--watch=/etc/both");
    let options = " --signal=HUP \t --jitter=30s\r\n";
    assert_eq!(
        args(json!({"podnudge.io/options": options, "podnudge.io/volumes": "config"})),
        "--watch=/etc/nginx --signal=HUP --jitter=30s"
    );
    assert_eq!(args(json!({"unrelated": "a", "podnudge.io/drain": "false"})), args(json!({})));

    let (podnudge, rest) = parts(injected(&pod(
        json!({"podnudge.io/config": "settings", "podnudge.io/drain": "true"}),
    )));
    assert_eq!(texts(&podnudge["args"]), ["--config=/etc/podnudge/podnudge.toml"]);
    let (_, mount) = &by_name(&podnudge["volumeMounts"], "name")[1];
    assert_eq!(
        mount,
        &json!({"name": "podnudge-file", "mountPath": "/etc/podnudge", "readOnly": "true"})
    );
    let volume = json!({"name": "podnudge-file", "configMap": {"name": "settings"}});
    assert!(rest["spec"]["volumes"].as_array().unwrap().contains(&volume));
    let probe = json!({"httpGet": {"path": "/serving", "port": "podnudge"}, "periodSeconds": "1", "failureThreshold": "1"});
    assert_eq!(podnudge["readinessProbe"], probe);
}

/// An option that is given twice ends podnudge, and a probe of a port that podnudge does not listen on restarts it.
#[test]
fn options_override_what_injection_sets_and_the_probes_follow_the_port() {
    let with = |options: &str| {
        let (podnudge, _) = parts(injected(&pod(json!({"podnudge.io/options": options}))));
        assert_starts(&podnudge);
        podnudge
    };
    let port = |podnudge: &Value| podnudge["ports"][0]["containerPort"].as_str().map(str::to_owned);
    for (options, wanted) in [
        ("--log=text", Some("9533")),
        ("--listen=:9534 --log=json", Some("9534")),
        ("--log=text\n--listen=0.0.0.0:9600\n", Some("9600")),
        ("--listen=[::]:80", Some("80")),
        ("--listen=127.0.0.1:9533", None),
        ("--listen=[::1]:9533", None),
        ("--listen=off", None),
    ] {
        let podnudge = with(options);
        assert_eq!(port(&podnudge).as_deref(), wanted, "{options}");
        let probe = json!({"httpGet": {"path": "/livez", "port": "podnudge"}});
        assert_eq!(podnudge.get("livenessProbe"), wanted.map(|_| &probe), "{options}");
    }
    let denied = |annotations: Value| created(&pod(annotations)).denied;
    let drain = "podnudge.io/drain: the kubelet has to reach podnudge; leave out the option --listen, or write a port, such as --listen=:9600";
    let unreachable = json!({"podnudge.io/drain": "true", "podnudge.io/options": "--listen=off"});
    assert_eq!(denied(unreachable), [drain]);
    let reachable = json!({"podnudge.io/drain": "true", "podnudge.io/options": "--listen=:9600"});
    assert_eq!(denied(reachable), <[String; 0]>::default());
    let twice =
        json!({"podnudge.io/config": "a", "podnudge.io/options": "--log=text\n--config=/b"});
    let message = "podnudge.io/options: --config cannot be combined with the annotation podnudge.io/config; leave one of them out";
    assert_eq!(denied(twice), [message]);
}

#[test]
fn podnudge_runs_as_the_uid_of_the_application_with_no_more_than_that_needs() {
    let context = |pod: &Value| parts(injected(pod)).0["securityContext"].clone();
    let of = |pod: &Value| {
        let context = context(pod);
        let text = |key: &str| context[key].as_str().unwrap_or("none").to_owned();
        (text("runAsUser"), text("runAsNonRoot"), context["capabilities"].to_string())
    };
    let none = r#"{"drop":["ALL"]}"#;
    let wanted = |uid: &str, capabilities: &str| {
        (uid.to_owned(), (uid != "0").to_string(), capabilities.to_owned())
    };
    let mut pod = pod(json!({}));
    assert_eq!(of(&pod), wanted("101", none));
    pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = 102.into();
    assert_eq!(of(&pod), wanted("102", none));
    pod["metadata"]["annotations"] = json!({"podnudge.io/uid": "1000660000"});
    assert_eq!(of(&pod), wanted("1000660000", none));
    pod["metadata"]["annotations"] = json!({"podnudge.io/uid": "0"});
    assert_eq!(of(&pod), wanted("0", r#"{"add":["KILL"],"drop":["ALL"]}"#));
    remove(&mut pod["metadata"], "annotations");
    remove(&mut pod["spec"]["containers"][0], "securityContext");
    remove(&mut pod["spec"], "securityContext");
    assert_eq!(of(&pod), wanted("none", none), "that of podnudge's image");
}

#[test]
fn injection_goes_behind_other_init_containers_and_keeps_what_the_pod_says() {
    let mut pod = pod(json!({"podnudge.io/uid": "0"}));
    pod["spec"]["initContainers"] = json!([{"name": "first", "image": "first:1"}]);
    pod["spec"]["shareProcessNamespace"] = false.into();
    let after = injected(&pod);
    assert_eq!(after["spec"]["shareProcessNamespace"], false);
    let names: Vec<_> =
        after["spec"]["initContainers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["first", "podnudge"]);
    assert_eq!(after["spec"]["initContainers"][0], pod["spec"]["initContainers"][0]);
    assert_eq!(after["spec"]["initContainers"][1]["securityContext"]["runAsUser"], 0);

    // A pod that has podnudge, or not the label.
    for place in ["containers", "initContainers"] {
        let mut pod = pod.clone();
        let podnudge = json!({"name": "podnudge", "image": "p:1", "args": ["--watch=/a"]});
        pod["spec"][place].as_array_mut().unwrap().push(podnudge);
        let admission = created(&pod);
        assert_eq!(
            (admission.is_mutated, admission.object, admission.denied),
            (false, pod, Vec::new())
        );
    }
    remove(&mut pod["metadata"], "labels");
    let admission = created(&pod);
    assert_eq!(
        (admission.is_mutated, admission.object, admission.denied),
        (false, pod, Vec::new())
    );
}

/// Their pods have the label, too: it is what the `NetworkPolicy` selects.
#[test]
fn injection_leaves_pods_of_the_component_as_they_are() {
    let file = "configMapGenerator:\n  - name: podnudge\n    literals: [podnudge.toml=x]\n";
    for (components, more) in [
        (&["component"][..], ""),
        (&["component", "component/file", "component/drain"], file),
        (&["component", "component/root", "component/classic"], ""),
    ] {
        let made = documents(&kustomized(components, more).unwrap());
        for (kind, name) in WORKLOADS {
            let pod = object(&made, kind, name)["spec"]["template"].clone();
            let admission = created(&pod);
            assert_eq!(
                (admission.is_mutated, admission.denied),
                (false, Vec::new()),
                "{components:?}"
            );
            assert_eq!(admission.object, pod);
        }
    }
}

#[test]
fn wrong_annotations_are_refused_with_what_is_wrong() {
    for (annotations, message) in [
        (
            json!({"podnudge.io/volume": "config"}),
            "podnudge.io/inject: unknown annotation podnudge.io/volume; known are podnudge.io/container, \
             podnudge.io/volumes, podnudge.io/options, podnudge.io/config, podnudge.io/uid, podnudge.io/drain, \
             podnudge.io/installed, podnudge.io/sync",
        ),
        (
            json!({"podnudge.io/container": "wbe", "podnudge.io/config": "a"}),
            "podnudge.io/container: the pod has no container wbe; it has web, other",
        ),
        (
            json!({"podnudge.io/volumes": "config,tsl,file"}),
            "podnudge.io/volumes: the container of the application does not mount tsl, file as a whole; it mounts \
             config, tls, tmp, kube-api-access-x",
        ),
        (
            json!({"podnudge.io/uid": "nginx"}),
            "podnudge.io/uid: this is not a number; write the uid of the application, such as \"101\"",
        ),
        (json!({"podnudge.io/drain": "yes"}), "podnudge.io/drain: write \"true\" or \"false\""),
        (
            json!({"podnudge.io/options": "--signal HUP"}),
            "podnudge.io/options: each option begins with two dashes and has its value behind an equals sign, such as \
             --signal=HUP --jitter=30s",
        ),
    ] {
        let admission = created(&pod(annotations.clone()));
        assert_eq!(admission.denied, [message], "{annotations}");
    }
    let mut bare = pod(json!({}));
    remove(&mut bare["spec"]["containers"][0], "volumeMounts");
    remove(&mut bare["spec"], "volumes");
    let message = "podnudge.io/inject: nothing to watch; the container of the application mounts no ConfigMap or Secret \
                   as a whole; name its container in podnudge.io/container, or its volumes in podnudge.io/volumes";
    assert_eq!(created(&bare).denied, [message]);
}

/// A request of podnudge in the pod `web-1` with the UID `u-1`.
fn requested(operation: &str, resource: &str, object: &Value, old: &Value) -> Vec<String> {
    let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
    let group = if resource == "leases" { "coordination.k8s.io" } else { "" };
    let user = json!({
        "username": "system:serviceaccount:test:podnudge",
        "extra": {
            "authentication.kubernetes.io/pod-name": ["web-1"],
            "authentication.kubernetes.io/pod-uid": ["u-1"],
        },
    });
    let mut request = json!({
        "operation": operation, "namespace": "test", "userInfo": user, "name": object["metadata"]["name"],
        "resource": {"group": group, "version": "v1", "resource": resource},
    });
    if !sub.is_empty() {
        request["subResource"] = sub.into();
    }
    let input = |request: &Value| json!({"request": request, "object": object, "oldObject": old});
    let denied = admit(&ACCESS, &input(&request)).denied;
    // Nobody else is limited, and without the claims of a bound token nothing is allowed.
    let denied_to = |name: &str| {
        let mut other = request.clone();
        other["userInfo"]["username"] = format!("system:serviceaccount:{name}").into();
        admit(&ACCESS, &input(&other)).denied
    };
    for other in ["test:other", "test:podnudges", "other:podnudge", "test:podnudge-web"] {
        assert_eq!(denied_to(other), <[String; 0]>::default(), "{other}");
    }
    assert_eq!(denied_to("test:web-podnudge"), denied);
    let mut unbound = request;
    remove(&mut unbound["userInfo"], "extra");
    assert!(!admit(&ACCESS, &input(&unbound)).denied.is_empty(), "{operation} {resource}");
    denied
}

#[test]
fn podnudge_may_only_annotate_its_own_pod() {
    let old = json!({
        "metadata": {"name": "web-1", "uid": "u-1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
    });
    let with = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        requested("UPDATE", "pods", &new, &old)
    };
    assert_eq!(
        with("/metadata/annotations", json!({"c": "d", "podnudge.io/sync": "1"})),
        <[String; 0]>::default()
    );
    for (path, value, message) in [
        (
            "/metadata/annotations",
            json!({"c": "d", "e": "f"}),
            "podnudge may change the annotation podnudge.io/sync only",
        ),
        (
            "/metadata/annotations",
            json!({"c": "x"}),
            "podnudge may change the annotation podnudge.io/sync only",
        ),
        ("/metadata/annotations", json!({}), "podnudge may not remove annotations"),
        ("/metadata/labels", json!({}), "podnudge may not change the labels of its pod"),
        (
            "/spec/containers/0/image",
            json!("nginx:2"),
            "podnudge may not change the specification of its pod",
        ),
    ] {
        assert_eq!(with(path, value), [message], "{path}");
    }
    let mut finalized = old.clone();
    finalized["metadata"]["finalizers"] = json!(["a/b"]);
    let message = "podnudge may not change the owners and finalizers of its pod";
    assert_eq!(requested("UPDATE", "pods", &finalized, &old), [message]);
    let mut other = old.clone();
    other["metadata"]["uid"] = "u-2".into();
    assert_eq!(
        requested("UPDATE", "pods", &other, &other),
        ["podnudge may change its own pod only"]
    );
}

#[test]
fn podnudge_may_only_evict_its_own_pod_and_create_events_about_it() {
    let eviction = |pod: &str| {
        requested("CREATE", "pods/eviction", &json!({"metadata": {"name": pod}}), &Value::Null)
    };
    assert_eq!(eviction("web-1"), <[String; 0]>::default());
    assert_eq!(eviction("web-2"), ["podnudge may evict its own pod only"]);
    let event = |uid: &str| {
        let event = json!({"metadata": {"generateName": "web-1-"}, "involvedObject": {"kind": "Pod", "uid": uid}});
        requested("CREATE", "events", &event, &Value::Null)
    };
    assert_eq!(event("u-1"), <[String; 0]>::default());
    assert_eq!(event("u-2"), ["podnudge may create Events about its own pod only"]);
}

#[test]
fn podnudge_may_only_take_and_give_back_slots_for_its_own_pod() {
    let lease = |holder: Option<&str>| {
        let mut lease =
            json!({"metadata": {"name": "web-0"}, "spec": {"leaseDurationSeconds": 15}});
        if let Some(holder) = holder {
            lease["spec"]["holderIdentity"] = holder.into();
        }
        lease
    };
    let own = Some("web-1_u-1_app");
    let other = Some("web-2_u-2_app");
    let denied = ["podnudge may take, give back and pass on slots for its own pod only"];
    assert_eq!(requested("CREATE", "leases", &lease(own), &Value::Null), <[String; 0]>::default());
    assert_eq!(requested("CREATE", "leases", &lease(other), &Value::Null), denied);
    for (before, after, is_allowed) in [
        (None, own, true),
        // It has expired.
        (other, own, true),
        (own, Some(""), true),
        (other, Some(""), false),
        (other, None, false),
        (Some(""), other, false),
        (own, other, false),
    ] {
        let wanted: &[&str] = if is_allowed { &[] } else { &denied };
        assert_eq!(
            requested("UPDATE", "leases", &lease(after), &lease(before)),
            wanted,
            "{before:?} {after:?}"
        );
    }
    // One that nobody holds, and that is not free.
    let nobody = lease(Some("nobody"));
    assert_eq!(requested("CREATE", "leases", &nobody, &Value::Null), <[String; 0]>::default());
    assert_eq!(requested("UPDATE", "leases", &nobody, &lease(own)), denied);
    for free in [lease(None), lease(Some(""))] {
        assert_eq!(requested("CREATE", "leases", &free, &Value::Null), denied);
    }
    // Names that contain the own one, or that any pod could have made up.
    for holder in [
        "pb_u-1_r_u-2_",
        "web-2_u-1_app",
        "a_web-1_u-1_app",
        "web-1_u-2_web-1_u-1_",
        "web-1_u-1",
        "web-1",
    ] {
        let holder = Some(holder);
        assert_eq!(requested("CREATE", "leases", &lease(holder), &Value::Null), denied);
        assert_eq!(requested("UPDATE", "leases", &lease(holder), &lease(own)), denied);
        assert_eq!(requested("UPDATE", "leases", &lease(Some("")), &lease(holder)), denied);
    }
}

/// Replicas line up for a slot, and pass it on.
#[test]
fn podnudge_may_line_up_its_own_pod_and_pass_its_own_slot_on_to_the_next_one() {
    let lease = |holder: &str, next: &str| {
        let mut lease = json!({"metadata": {"name": "web-0"}, "spec": {"holderIdentity": holder}});
        for next in next.split(',').filter(|next| !next.is_empty()) {
            let key = format!("podnudge.io/waits-{}", next.split_once('_').unwrap().0);
            lease["metadata"]["annotations"][key] = json!(next);
        }
        lease
    };
    let (own, other, third) = ("web-1_u-1_app", "web-2_u-2_app", "web-3_u-3_app");
    let [mine, theirs, thirds] = [own, other, third].map(|holder| format!("{holder} 1f"));
    let next = "podnudge may let its own pod only wait for a slot";
    let slots = "podnudge may take, give back and pass on slots for its own pod only";
    let offered = format!("{theirs} 3");
    let (both, two) = (format!("{mine},{thirds}"), format!("{theirs},{thirds}"));
    for (before, after, denied) in [
        // It waits, also behind another one; and does not any more.
        ((other, ""), (other, &*mine), vec![]),
        ((other, &*thirds), (other, &*both), vec![]),
        ((other, &*both), (other, &*thirds), vec![]),
        ((other, ""), (other, &*thirds), vec![next]),
        // It passes its slot on, or another one that it has promised to whoever is next there.
        ((own, &*theirs), (other, &*theirs), vec![]),
        ((own, &*two), (other, &*two), vec![]),
        ((own, &*thirds), (other, &*two), vec![]),
        ((own, ""), (other, &*two), vec![next]),
        ((own, ""), (other, &*theirs), vec![]),
        ((third, &*theirs), (third, &*offered), vec![]),
        ((own, &*thirds), (other, &*thirds), vec![slots]),
        ((third, &*theirs), (other, &*theirs), vec![slots]),
    ] {
        let (old, new) = (lease(before.0, before.1), lease(after.0, after.1));
        assert_eq!(requested("UPDATE", "leases", &new, &old), denied, "{before:?} {after:?}");
    }
}

/// A Lease is read by all replicas, as often as it changes.
#[test]
fn podnudge_may_change_its_short_annotations_of_a_lease_only() {
    let lease = |annotations: Value| json!({"metadata": {"name": "web-0", "annotations": annotations}, "spec": {}});
    let denied = ["podnudge may change its own short annotations of a Lease only"];
    let old = lease(json!({"example.com/a": "1", "podnudge.io/halted": "x"}));
    for (new, is_allowed) in [
        (json!({"example.com/a": "1", "podnudge.io/halted": "y".repeat(8192)}), true),
        (json!({"example.com/a": "1"}), true),
        (json!({"example.com/a": "1", "podnudge.io/halted": "y".repeat(8193)}), false),
        (json!({"example.com/a": "2", "podnudge.io/halted": "x"}), false),
        (json!({"podnudge.io/halted": "x"}), false),
        (json!({"example.com/a": "1", "example.com/b": "", "podnudge.io/halted": "x"}), false),
    ] {
        let wanted: &[&str] = if is_allowed { &[] } else { &denied };
        assert_eq!(requested("UPDATE", "leases", &lease(new.clone()), &old), wanted, "{new:.100}");
    }
    let long = json!({"podnudge.io/waits-1": format!("web-1_u-1_app {}", "x".repeat(1024))});
    let entries = |count: u32| -> Value {
        let entry = |n| (format!("podnudge.io/waits-{n}"), "web-1_u-1_app 1f".into());
        Value::Object((0..count).map(entry).collect())
    };
    for (new, wanted) in [(long, &denied[..]), (entries(64), &[]), (entries(65), &denied)] {
        assert_eq!(requested("UPDATE", "leases", &lease(new), &lease(json!({}))), wanted);
    }
}

/// It reports content that failed in the annotations of a Lease that another pod holds, or that nobody holds.
#[test]
fn podnudge_may_annotate_the_lease_of_another_pod_and_change_nothing_else_of_it() {
    let denied = ["podnudge may not change a slot that another pod holds"];
    let lease = |holder: &str| {
        json!({
            "metadata": {"name": "web-0"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:09.000000Z"},
        })
    };
    let mut without = lease("");
    remove(&mut without["spec"], "holderIdentity");
    for (old, is_own) in [
        (lease("web-1_u-1_app"), true),
        (lease("web-2_u-2_app"), false),
        (lease(""), false),
        (without, false),
    ] {
        let mut halted = old.clone();
        halted["metadata"]["annotations"] = json!({"podnudge.io/halted": "x"});
        assert_eq!(requested("UPDATE", "leases", &halted, &old), <[String; 0]>::default());
        for (field, value) in [
            ("leaseDurationSeconds", json!(i32::MAX)),
            ("renewTime", json!("2026-01-01T00:00:19.000000Z")),
            ("acquireTime", json!("2026-01-01T00:00:00.000000Z")),
            ("strategy", json!("OldestEmulationVersion")),
        ] {
            let mut new = halted.clone();
            new["spec"][field] = value;
            let wanted: &[&str] = if is_own { &[] } else { &denied };
            assert_eq!(requested("UPDATE", "leases", &new, &old), wanted, "{field} {old}");
        }
        for (field, value) in [
            ("labels", json!({"a": "b"})),
            ("finalizers", json!(["example.com/a"])),
            ("ownerReferences", json!([{"kind": "Pod", "name": "a", "uid": "u"}])),
        ] {
            let mut new = halted.clone();
            new["metadata"][field] = value;
            let wanted = ["podnudge may not change the labels, owners and finalizers of a Lease"];
            assert_eq!(requested("UPDATE", "leases", &new, &old), wanted, "{field} {old}");
            let (old, mut new) = (new.clone(), new);
            new["metadata"]["annotations"] = json!({"podnudge.io/halted": "y"});
            assert_eq!(requested("UPDATE", "leases", &new, &old), <[String; 0]>::default());
        }
        let mut new = halted.clone();
        remove(&mut new, "spec");
        // That removes the holder, too.
        assert_eq!(requested("UPDATE", "leases", &new, &old).is_empty(), is_own, "{old}");
    }
    // One that does not exist yet.
    let mut made = json!({"metadata": {"name": "web-0"}, "spec": {"holderIdentity": "nobody"}});
    made["metadata"]["annotations"] = json!({"podnudge.io/halted": "x"});
    assert_eq!(requested("CREATE", "leases", &made, &Value::Null), <[String; 0]>::default());
    remove(&mut made, "spec");
    assert_eq!(requested("CREATE", "leases", &made, &Value::Null).len(), 1);
}
