//! The eviction of podnudge's own pod, by the real binary against an API server of the test's own.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, ApiServer, Fault, Scene, podnudge, wait_until};

const PODS: &str = "/api/v1/namespaces/test/pods";
const EVICTION: &str = "POST /api/v1/namespaces/test/pods/web-1/eviction";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases/web-0";

/// A podnudge in a pod that the server knows.
struct Pod {
    agent: Agent,
    server: ApiServer,
    scene: Scene,
}

impl Pod {
    /// `settings` are further lines of the rule.
    fn start(settings: &str) -> Self {
        Self::start_as(Some("u-1"), settings)
    }

    /// `uid` is what podnudge is told of the pod's UID, if anything.
    fn start_as(uid: Option<&str>, settings: &str) -> Self {
        let scene = Scene::new();
        let server = ApiServer::start();
        let lease = json!({"metadata": {"name": "web-0"}, "spec": {}});
        server.with_store(|store| store.create(LEASE.trim_end_matches("/web-0"), lease)).unwrap();
        let text = format!(
            "[agent]\nstate-dir = \"FOLDER/state\"\nCLUSTER\n\
             [[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n{settings}\n",
        );
        let agent = start_podnudge(&scene, &server, &text, uid);
        agent.wait_for("baseline", 1);
        let pod = Self { agent, server, scene };
        pod.create("u-1");
        pod
    }

    fn create(&self, uid: &str) {
        let object = json!({"metadata": {"name": "web-1", "uid": uid}});
        self.server.with_store(|store| store.create(PODS, object).unwrap());
    }

    fn delete(&self) {
        self.server.with_store(|store| store.delete(&format!("{PODS}/web-1")).unwrap());
    }

    /// Ends podnudge, as the kubelet does, and starts that of the pod that replaces this one, with the same state
    /// directory.
    fn replace(mut self, uid: &str) -> Self {
        self.agent.signal(Signal::SIGTERM);
        assert_eq!(self.agent.exit_code(), Some(0));
        self.delete();
        self.create(uid);
        self.agent = self.again(uid);
        self
    }

    /// podnudge in a pod with this UID and the same configuration.
    fn again(&self, uid: &str) -> Agent {
        start_podnudge(&self.scene, &self.server, &self.scene.text("podnudge.toml"), Some(uid))
    }

    fn write(&mut self, content: &str) {
        self.scene.change(content);
    }

    fn evictions(&self) -> usize {
        self.server.seen().iter().filter(|request| request.starts_with(EVICTION)).count()
    }

    fn is_deleted(&self) -> bool {
        let pod = self.server.with_store(|store| store.get(&format!("{PODS}/web-1")));
        pod.is_ok_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }
}

fn start_podnudge(scene: &Scene, server: &ApiServer, text: &str, uid: Option<&str>) -> Agent {
    let mut podnudge = scene.in_cluster(server, "web-1", text);
    podnudge.envs(uid.map(|uid| ("PODNUDGE_POD_UID", uid)));
    scene.start(podnudge, "started")
}

#[test]
fn a_disruption_budget_is_waited_for_and_the_new_pod_is_not_evicted_again() {
    let mut pod = Pod::start("restart = \"evict\"");
    pod.server.inject("/eviction", Fault::Status(429, ""));
    pod.server.inject("/eviction", Fault::Status(429, "retry-after: 2\r\n"));
    pod.server.inject("/eviction", Fault::Status(429, ""));
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    assert!(pod.is_deleted());
    assert_eq!((pod.evictions(), pod.agent.count("held")), (4, 1), "{}", pod.agent.log());
    let hint = pod.agent.last("held", "hint");
    assert!(hint.contains("PodDisruptionBudget"), "{hint}");
    let seen = pod.server.seen();
    let body = seen.iter().find_map(|request| request.strip_prefix(EVICTION)).unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let wanted = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "test"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    });
    assert_eq!(body, wanted);
    // The kubelet ends the containers of the pod, and a new pod starts with this content, without what the old one
    // has saved.
    pod.agent.signal(Signal::SIGTERM);
    assert_eq!(pod.agent.exit_code(), Some(0));
    fs::remove_dir_all(pod.scene.path("state")).unwrap();
    let again = pod.again("u-2");
    again.wait_for("baseline", 1);
    again.signal(Signal::SIGUSR1);
    again.wait_for("status", 1);
    assert_eq!(pod.server.seen(), seen, "{}", again.log());
}

#[test]
fn with_a_state_directory_that_outlives_it_the_pod_is_evicted_once() {
    let mut pod = Pod::start("restart = \"evict\"");
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    let pod = pod.replace("u-2");
    pod.agent.wait_for("delivered", 1);
    let pod = pod.replace("u-3");
    pod.agent.wait_for("baseline", 1);
    assert_eq!(pod.evictions(), 1, "{}", pod.agent.log());
}

#[test]
fn a_podnudge_that_does_not_know_its_pod_evicts_none() {
    let mut pod = Pod::start_as(None, "restart = \"evict\"");
    pod.agent.wait_for("preflight", 1);
    assert_eq!(pod.agent.last("preflight", "problem"), "pod-unknown");
    pod.write("2");
    pod.agent.wait_for("refused", 1);
    let hint = pod.agent.last("refused", "hint");
    assert!(hint.contains("PODNUDGE_POD_UID") && hint.contains("downward API"), "{hint}");
    assert_eq!(pod.server.seen(), Vec::<String>::new());
    let mut doctor = podnudge();
    doctor.arg("doctor").arg("--config").arg(pod.scene.path("podnudge.toml"));
    let found = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(found.contains("(pod-unknown)"), "{found}");
}

#[test]
fn an_eviction_whose_answer_is_lost_keeps_the_slot_until_it_is_known_what_became_of_it() {
    let mut pod = Pod::start("restart = \"evict\"\nlimit = { lease = \"web\" }");
    pod.server.inject("/eviction", Fault::Cut(10));
    pod.write("2");
    pod.agent.wait_for("held", 1);
    pod.server.partition("GET /api/v1/namespaces/test/pods", Fault::Status(500, ""));
    pod.agent.wait_for("refused", 1);
    let reason = pod.agent.last("held", "reason");
    assert!(reason.starts_with("it is not known whether the pod was evicted"), "{reason}");
    let lease = pod.server.with_store(|store| store.get(LEASE)).unwrap();
    assert!(lease["spec"]["holderIdentity"].as_str().unwrap().contains("web-1"), "{lease}");
    pod.server.heal();
    pod.agent.wait_for("evicted", 1);
    assert_eq!(pod.evictions(), 1, "{}", pod.agent.log());
}

#[test]
fn a_missing_right_is_named_and_a_failure_of_the_server_passes() {
    let mut pod = Pod::start("restart = \"evict\"");
    pod.server.inject("/eviction", Fault::Status(403, ""));
    pod.server.inject("/eviction", Fault::Status(500, ""));
    pod.server.inject("/eviction", Fault::Closed);
    pod.server.inject("/eviction", Fault::Status(503, "retry-after: 1\r\n"));
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    let refused = pod.agent.events("refused");
    let said = |n: usize, field: &str| refused[n][field].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        said(0, "hint"),
        "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [pods/eviction], verbs: [create]"
    );
    assert!(said(0, "reason").starts_with("cannot create the Eviction `web-1`"), "{refused:?}");
    let held = pod.agent.events("held");
    let said = |n: usize, field: &str| held[n][field].as_str().unwrap_or_default().to_owned();
    assert!(said(0, "reason").contains("500 Internal Server Error"), "{held:?}");
    assert!(said(1, "hint").contains("NetworkPolicy"), "{held:?}");
    assert_eq!((pod.evictions(), pod.is_deleted()), (5, true), "{}", pod.agent.log());
}

/// As if two disruption budgets selected the pod.
#[test]
fn the_slot_is_given_back_while_the_server_fails_at_every_eviction() {
    let mut pod = Pod::start("restart = \"evict\"\nlimit = { lease = \"web\" }");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    pod.server.with_store(|store| store.patch(&format!("{PODS}/web-1"), &ready).unwrap());
    pod.server.partition("/eviction", Fault::Status(500, ""));
    pod.write("2");
    wait_until("two evictions have failed", || pod.evictions() > 1);
    let holder = || {
        let lease = pod.server.with_store(|store| store.get(LEASE)).unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("the slot is given back", || holder().is_empty());
    pod.agent.wait_for("held", 2);
    let said = |field: &str| pod.agent.last("held", field);
    assert!(
        said("reason").starts_with("the pod was not evicted: cannot create"),
        "{said:?}",
        said = said("reason")
    );
    assert!(said("hint").contains("several PodDisruptionBudgets"), "{}", said("hint"));
    pod.server.heal();
    pod.agent.wait_for("evicted", 1);
}

#[test]
fn a_pod_that_is_gone_after_it_was_seen_needs_no_eviction() {
    for uid in [None, Some("u-2")] {
        let mut pod = Pod::start("restart = \"evict\"");
        pod.server.inject("/eviction", Fault::Status(429, ""));
        pod.write("2");
        pod.agent.wait_for("held", 1);
        pod.delete();
        if let Some(uid) = uid {
            pod.create(uid);
        }
        pod.agent.wait_for("evicted", 1);
        assert_eq!(pod.evictions(), 1);
    }
}

#[test]
fn a_pod_that_was_never_seen_may_be_looked_for_in_the_wrong_namespace() {
    let mut pod = Pod::start("restart = \"evict\"");
    pod.delete();
    pod.write("2");
    pod.agent.wait_for("refused", 1);
    let hint = pod.agent.last("refused", "hint");
    assert!(hint.contains("`namespace` in `[cluster]`"), "{hint}");
    assert_eq!((pod.evictions(), pod.agent.count("evicted")), (0, 0));
}

#[test]
fn another_pod_of_the_same_name_is_not_evicted() {
    let mut pod = Pod::start("restart = \"evict\"");
    pod.server.with_store(|store| {
        store.patch(&format!("{PODS}/web-1"), &json!({"metadata": {"uid": "u-2"}})).unwrap()
    });
    pod.write("2");
    pod.agent.wait_for("refused", 1);
    assert!(pod.agent.last("refused", "reason").contains("another UID"), "{}", pod.agent.log());
    assert!(!pod.is_deleted());
}

#[test]
fn evictions_without_effect_are_bounded_and_reported() {
    let mut pod = Pod::start(
        "restart = { what = \"evict\", grace = \"1s\" }\nretry = { attempts = 2, first = \"100ms\" }\nlimit = { lease = \"web\" }",
    );
    pod.write("2");
    pod.agent.wait_for("gave-up", 1);
    let reason = pod.agent.last("gave-up", "reason");
    assert!(reason.contains("evicted, and has not ended within 1s"), "{reason}");
    // It is being deleted already when podnudge tries again.
    assert_eq!((pod.evictions(), pod.agent.count("evicted")), (1, 2), "{}", pod.agent.log());
    // It says nothing about the content.
    let lease = pod.server.with_store(|store| store.get(LEASE)).unwrap();
    assert!(lease["metadata"]["annotations"].get("podnudge.io/halted").is_none(), "{lease}");
}

#[test]
fn the_slot_of_an_evicted_pod_is_not_given_back_before_the_pod_has_ended() {
    let mut pod = Pod::start("restart = \"evict\"\nlimit = { lease = \"web\" }");
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    pod.agent.signal(Signal::SIGTERM);
    assert_eq!(pod.agent.exit_code(), Some(0));
    assert_eq!(pod.agent.count("grace-over"), 0, "{}", pod.agent.log());
    wait_until("the slot is held", || {
        let lease = pod.server.with_store(|store| store.get(LEASE)).unwrap();
        lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| holder.contains("web-1"))
    });
}
