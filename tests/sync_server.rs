//! `podnudge sync` of the real binary: a small API server, which enforces the shipped Role.

use std::fs;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rights::granted;
use crate::support::api_server::Store;
use crate::support::{Agent, ApiServer, Fault, is_within, podnudge, wait_until, yaml};

const MAPS: &str = "/api/v1/namespaces/test/configmaps";
const SECRETS: &str = "/api/v1/namespaces/test/secrets";
const PODS: &str = "/api/v1/namespaces/test/pods";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases/podnudge-sync";

/// The managers of an object, as `kubectl apply` in this second leaves them.
fn managers(second: u64) -> Value {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
    let fields = json!({"f:data": {".": {}, "f:a.conf": {}}});
    json!([{"manager": "kubectl", "operation": "Apply", "time": time, "fieldsV1": fields}])
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "managedFields": managers(0)}, "data": {"a.conf": "0"}})
}

/// A pod with the volumes that the number says, and with as much text as real ones have.
fn pod(number: usize, volumes: &Value) -> Value {
    let env: Vec<Value> = (0..20)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x".repeat(100)}))
        .collect();
    json!({
        "metadata": {
            "name": format!("web-{number:04}"),
            "creationTimestamp": "2025-12-31T00:00:00Z",
            "annotations": {"other": "kept"},
        },
        "spec": {"nodeName": "node", "volumes": volumes, "containers": [{"name": "web", "env": env}]},
        "status": {"phase": "Running"},
    })
}

fn map_volume(name: &str) -> Value {
    json!([{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": name}}])
}

struct Namespace {
    server: ApiServer,
    folder: TempDir,
    second: u64,
}

impl Namespace {
    /// Two ConfigMaps and a Secret, and so many pods that mount `app`.
    fn new(pods: usize) -> Self {
        let server = ApiServer::start();
        server.with_store(|store| {
            for name in ["app", "other", "unused"] {
                store.create(MAPS, object(name)).unwrap();
            }
            store.create(SECRETS, object("tls")).unwrap();
            store.create(SECRETS, object("private")).unwrap();
            for number in 0..pods {
                store.create(PODS, pod(number, &map_volume("app"))).unwrap();
            }
        });
        let role = fs::read_to_string("k8s/sync/role.yaml").unwrap();
        let role = yaml::documents(&role).into_iter().find(|it| it["kind"] == "Role").unwrap();
        server.grant(granted(&role["rules"]));
        let secret = fs::read_to_string("k8s/sync/secret/role.yaml").unwrap();
        let role = yaml::documents(&secret).into_iter().find(|it| it["kind"] == "Role").unwrap();
        let named = role["rules"].to_string().replace("web-tls", "tls");
        server.grant(granted(&serde_json::from_str(&named).unwrap()));
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("token"), "token").unwrap();
        Self { server, folder, second: 1 }
    }

    fn spawn(&self, replica: &str, options: &[&str]) -> Agent {
        self.spawn_as(podnudge(), replica, options)
    }

    fn spawn_as(&self, mut command: Command, replica: &str, options: &[&str]) -> Agent {
        command
            .args(["sync", "--log", "json", "--log-level", "debug", "--namespace", "test"])
            .args(["--listen", "127.0.0.1:0", "--lease-duration", "5s"])
            .args(["--url", &self.server.url(), "--token-file"])
            .arg(self.folder.path().join("token"))
            .args(options)
            .env("PODNUDGE_POD_NAME", replica);
        Agent::spawn_until("started", self.folder.path(), command)
    }

    /// One that leads and watches.
    fn start(&self, options: &[&str]) -> Agent {
        let agent = self.spawn("one", options);
        agent.wait_for("watching-objects", 1);
        agent
    }

    /// An edit of the content, in a second of its own.
    fn edit(&mut self, path: &str) {
        self.second += 10;
        let edit = json!({
            "metadata": {"managedFields": managers(self.second)},
            "data": {"a.conf": self.second.to_string()},
        });
        self.server.with_store(|store| store.patch(path, &edit).unwrap());
    }

    fn patched(&self) -> Vec<String> {
        let seen = self.server.seen();
        let patches = seen.iter().filter(|request| request.starts_with("PATCH"));
        patches.map(|it| it.split([' ', '/', '?']).nth(7).unwrap().to_owned()).collect()
    }

    fn requests(&self, text: &str) -> usize {
        self.server.seen().iter().filter(|request| request.contains(text)).count()
    }

    /// How many pods have the annotation of an edit of this object.
    fn annotated(&self, object: &str) -> usize {
        let pods = self.server.with_store(|store| store.below(&format!("{PODS}/")));
        let is = |pod: &&Value| {
            let value = pod["metadata"]["annotations"]["podnudge.io/sync"].as_str();
            value.is_some_and(|value| value.contains(object))
        };
        pods.iter().filter(is).count()
    }
}

fn status(agent: &Agent) -> Value {
    serde_json::from_str(&agent.get("/status")).unwrap()
}

#[test]
fn only_an_edit_of_content_annotates_pods_and_only_those_that_mount_it() {
    let mut namespace = Namespace::new(3);
    let volumes = [
        json!([{"name": "a", "projected": {"sources": [{"configMap": {"name": "app"}}]}}]),
        map_volume("other"),
        json!([{"name": "a", "secret": {"secretName": "tls"}}]),
        json!([{"name": "a", "secret": {"secretName": "app"}}]),
        Value::Null,
    ];
    namespace.server.with_store(|store| {
        for (number, volumes) in volumes.iter().enumerate() {
            store.create(PODS, pod(10 + number, volumes)).unwrap();
        }
        let mut over = pod(20, &map_volume("app"));
        over["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        store.create(PODS, over).unwrap();
        let mut done = pod(21, &map_volume("app"));
        done["status"]["phase"] = "Succeeded".into();
        store.create(PODS, done).unwrap();
    });
    let agent = namespace.start(&["--secret", "tls"]);
    let app = format!("{MAPS}/app");
    let label =
        json!({"manager": "label", "time": "2026-01-01T00:00:09Z", "fieldsV1": {"f:metadata": {}}});
    let mut with_label = managers(0);
    with_label.as_array_mut().unwrap().push(label);
    let label = json!({"metadata": {"labels": {"a": "b"}, "managedFields": with_label}});
    namespace.server.with_store(|store| store.patch(&app, &label).unwrap());
    namespace.edit(&format!("{SECRETS}/private"));
    namespace.edit(&format!("{SECRETS}/tls"));
    agent.wait_for("pods-annotated", 1);
    assert_eq!(namespace.patched(), ["web-0012"], "a label, and a Secret that was not named");

    namespace.edit(&app);
    agent.wait_for("pods-annotated", 2);
    let mut patched = namespace.patched().split_off(1);
    patched.sort();
    assert_eq!(patched, ["web-0000", "web-0001", "web-0002", "web-0010"]);
    let pod = namespace.server.with_store(|store| store.get(&format!("{PODS}/web-0000")).unwrap());
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["other"], "kept");
    let value = annotations["podnudge.io/sync"].as_str().unwrap();
    assert!(value.starts_with("configmap/app "), "{value}");
    assert_eq!(pod["spec"]["nodeName"], "node");

    namespace.edit(&format!("{MAPS}/unused"));
    agent.wait_for("pods-annotated", 3);
    assert_eq!(namespace.patched().len(), 5);
    let status = status(&agent);
    let numbers = ["edits", "passes", "annotated", "refused"].map(|key| status[key].clone());
    assert_eq!(numbers, [3, 3, 5, 0].map(Value::from));
    assert_eq!((&status["leading"], &status["watched"]), (&json!(true), &json!(true)));
    let metrics = agent.get("/metrics");
    for line in [
        "podnudge_sync_leading 1",
        "podnudge_sync_objects 4",
        "podnudge_sync_edits_total 3",
        "podnudge_sync_pods_annotated_total 5",
        "podnudge_sync_lag_seconds 0",
        "podnudge_sync_edit_to_annotated_seconds_count 3",
    ] {
        assert!(
            metrics.lines().any(|other| other.trim_end_matches(".0") == line),
            "{line}: {metrics}"
        );
    }
    assert_eq!([agent.get("/livez"), agent.get("/healthz"), agent.get("/readyz")], ["ok\n"; 3]);
    assert!(agent.stop().success());
    let lease = namespace.server.with_store(|store| store.get(LEASE).unwrap());
    assert_eq!(lease["spec"]["holderIdentity"], "", "it was given back");
}

#[test]
fn a_leader_that_is_killed_in_the_middle_of_its_pods_is_replaced_by_one_that_finishes() {
    let mut namespace = Namespace::new(300);
    let mut first = namespace.start(&[]);
    let second = namespace.spawn("two", &[]);
    wait_until("the second one waits", || status(&second)["leader"] == "one_sync");
    assert_eq!(second.get("/readyz"), "ok\n");
    namespace.edit(&format!("{MAPS}/app"));
    wait_until("it is in the middle", || namespace.annotated("configmap/app") >= 80);
    first.kill();
    let done = namespace.annotated("configmap/app");
    assert!(done < 250, "{done} of 300");
    second.wait_for("pods-annotated", 1);
    assert_eq!(namespace.annotated("configmap/app"), 300);
    let patched = namespace.patched().len();
    assert!(patched <= 300 + 8, "{patched} requests: those that were done are left out");
    assert_eq!(status(&second)["leading"], true);
}

#[test]
fn the_rate_is_held_from_the_first_pod_on() {
    let mut namespace = Namespace::new(40);
    let agent = namespace.start(&["--rate", "20"]);
    namespace.edit(&format!("{MAPS}/app"));
    agent.wait_for("pods-annotated", 1);
    let took = agent.last("pods-annotated", "after");
    let took: f64 = took.parse().unwrap();
    // The list, and 39 pods after the first one; and the wait for other edits.
    assert!(took >= 2.0, "{took} s for 40 pods");
}

#[test]
fn a_server_that_refuses_half_of_the_requests_gets_all_pods_annotated() {
    let mut namespace = Namespace::new(40);
    let agent = namespace.start(&[]);
    namespace.server.refuse_every_second(Fault::Status(429, ""));
    namespace.server.inject("PATCH", Fault::Status(503, "retry-after: 1\r\n"));
    namespace.edit(&format!("{MAPS}/app"));
    agent.wait_for("pods-annotated", 1);
    assert_eq!(namespace.annotated("configmap/app"), 40);
    let refused = namespace.patched().len() - 40;
    assert!((20..120).contains(&refused), "{refused} were refused");
    assert_eq!(agent.count("pods-refused"), 0);
    assert_eq!(agent.count("not-leading"), 0);
}

#[test]
fn pods_that_go_and_pods_that_a_policy_protects_do_not_hold_up_the_others() {
    let mut namespace = Namespace::new(20);
    let agent = namespace.start(&[]);
    namespace.server.inject("PATCH /api/v1/namespaces/test/pods/web-0003", Fault::Status(404, ""));
    let protected = "PATCH /api/v1/namespaces/test/pods/web-0005";
    namespace.server.partition(protected, Fault::Status(403, ""));
    namespace.edit(&format!("{MAPS}/app"));
    agent.wait_for("pods-annotated", 1);
    assert_eq!(namespace.annotated("configmap/app"), 18);
    assert_eq!(agent.last("pods-refused", "pods"), "1");
    assert_eq!(status(&agent)["refused"], 1);
}

#[test]
fn a_missing_right_is_reported_with_the_rule_that_the_role_lacks() {
    let mut namespace = Namespace::new(3);
    namespace.server.revoke("patch", "pods");
    let agent = namespace.start(&[]);
    namespace.edit(&format!("{MAPS}/app"));
    agent.wait_for("sync-unavailable", 1);
    let hint = agent.last("sync-unavailable", "hint");
    assert!(hint.ends_with("apiGroups: [\"\"], resources: [pods], verbs: [patch]"), "{hint}");
    agent.wait_for("pods-refused", 1);
    let role = fs::read_to_string("k8s/sync/role.yaml").unwrap();
    let role = yaml::documents(&role).into_iter().find(|it| it["kind"] == "Role").unwrap();
    namespace.server.grant(granted(&role["rules"]));
    namespace.edit(&format!("{MAPS}/app"));
    agent.wait_for("sync-available", 1);
    wait_until("all are annotated", || namespace.annotated("configmap/app") == 3);
}

#[test]
fn a_watch_that_is_too_old_is_followed_by_a_list_that_finds_the_edit() {
    let mut namespace = Namespace::new(3);
    let agent = namespace.start(&[]);
    namespace.server.with_store(|store| store.history.end_watches(true));
    namespace.edit(&format!("{MAPS}/app"));
    namespace.server.with_store(Store::compact);
    agent.wait_for("pods-annotated", 1);
    assert_eq!(namespace.annotated("configmap/app"), 3);
    assert!(namespace.requests("configmaps?limit=500") >= 2);
    agent.signal(Signal::SIGUSR1);
    agent.wait_for("status", 1);
}

#[test]
fn wrong_options_are_refused_with_a_remedy() {
    let refused = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = podnudge();
        command.arg("sync").args(arguments).envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refused(&["--rate", "0"], &[]),
        "podnudge: --rate: `0` is not a number of requests a second\n  hint: write a whole number from 1 to 1000\n"
    );
    assert_eq!(
        refused(&[], &[("PODNUDGE_SECRET", "a:B")]),
        "podnudge: PODNUDGE_SECRET: `B` is not the name of a Secret\n  hint: write the name alone, in lower case, such as `web-tls`\n"
    );
    assert!(refused(&["--watch", "/etc/app"], &[]).contains("unknown option `--watch`"));
}

mod shipped {
    use super::*;
    use crate::shipped::{FULL, binary};
    use crate::support::command;

    /// The binary is the one that ships.
    #[test]
    fn the_memory_does_not_depend_on_the_number_of_pods() {
        let mut namespace = Namespace::new(3000);
        let agent = namespace.spawn_as(command(binary(FULL)), "one", &["--rate", "500"]);
        agent.wait_for("watching-objects", 1);
        namespace.edit(&format!("{MAPS}/app"));
        let limit = Duration::from_mins(1);
        assert!(is_within(limit, || agent.count("pods-annotated") == 1), "{}", agent.log());
        assert_eq!(namespace.annotated("configmap/app"), 3000);
        assert_eq!(namespace.requests("pods?limit=500"), 6, "they are listed page by page");
        let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        println!("podnudge sync with 3,000 pods: at most {peak} KiB");
        assert!(peak < 16 * 1024, "{peak} KiB");
    }
}
