//! The eviction of podnudge's own pod, by the real binary against an API server of the test's own.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::api_server::{ApiServer, Fault};
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::program::podnudge;
use crate::support::wait::wait_until;

const PODS: &str = "/api/v1/namespaces/test/pods";
const EVICTION: &str = "POST /api/v1/namespaces/test/pods/web-1/eviction";

/// A podnudge in a pod that the server knows.
struct Pod {
    agent: Agent,
    kubelet: Kubelet,
    server: ApiServer,
    folder: TempDir,
}

impl Pod {
    /// `settings` are further lines of the rule.
    fn start(settings: &str) -> Self {
        let (folder, kubelet) = temporary_volume(&[("a.conf", "1")]);
        let server = ApiServer::start();
        let path = folder.path().display();
        let text = format!(
            "[agent]\nlog = \"json\"\nlisten = \"off\"\n\
             [cluster]\nurl = \"{}\"\nnamespace = \"test\"\ntoken-file = \"{path}/token\"\n\
             [[rule]]\nwatch = \"{path}/volume\"\nsettle = \"0s\"\n{settings}\n",
            server.url()
        );
        fs::write(folder.path().join("token"), "token").unwrap();
        fs::write(folder.path().join("podnudge.toml"), text).unwrap();
        let agent = start_podnudge(&folder);
        agent.wait_for("baseline", 1);
        server.with_store(|store| {
            store.create(PODS, json!({"metadata": {"name": "web-1", "uid": "u-1"}})).unwrap()
        });
        Self { agent, kubelet, server, folder }
    }

    fn write(&mut self, content: &str) {
        self.kubelet.write(&payload(&[("a.conf", content)]));
    }

    fn evictions(&self) -> usize {
        self.server.seen().iter().filter(|request| request.starts_with(EVICTION)).count()
    }

    fn is_deleted(&self) -> bool {
        let pod = self.server.with_store(|store| store.get(&format!("{PODS}/web-1")));
        pod.is_ok_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }
}

fn start_podnudge(folder: &TempDir) -> Agent {
    let mut command = podnudge();
    command.arg("--config").arg(folder.path().join("podnudge.toml"));
    command.env("PODNUDGE_POD_NAME", "web-1").env("PODNUDGE_POD_UID", "u-1");
    Agent::spawn(folder.path(), command)
}

#[test]
fn a_disruption_budget_is_waited_for_and_the_new_pod_is_not_evicted_again() {
    let mut pod = Pod::start("evict = {}");
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
    let body: Value = serde_json::from_str(seen[0].strip_prefix(EVICTION).unwrap()).unwrap();
    let wanted = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "test"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    });
    assert_eq!(body, wanted);
    // The kubelet ends the containers of the pod, and a new pod starts with this content.
    assert!(pod.agent.stop().success());
    let again = start_podnudge(&pod.folder);
    again.wait_for("baseline", 1);
    again.signal(Signal::SIGUSR1);
    again.wait_for("status", 1);
    assert_eq!(pod.server.seen().len(), 4, "{}", again.log());
}

#[test]
fn a_missing_right_is_named_and_a_failure_of_the_server_passes() {
    let mut pod = Pod::start("evict = {}");
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
    assert!(said(1, "reason").contains("500 Internal Server Error"), "{refused:?}");
    assert!(said(2, "hint").contains("NetworkPolicy"), "{refused:?}");
    assert_eq!((pod.evictions(), pod.is_deleted()), (5, true), "{}", pod.agent.log());
}

#[test]
fn a_pod_that_is_gone_already_needs_no_eviction() {
    let mut pod = Pod::start("evict = {}");
    pod.server.with_store(|store| store.delete(&format!("{PODS}/web-1")).unwrap());
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    assert_eq!(pod.evictions(), 1);
}

#[test]
fn another_pod_of_the_same_name_is_not_evicted() {
    let mut pod = Pod::start("evict = {}");
    pod.server.with_store(|store| {
        store.patch(&format!("{PODS}/web-1"), &json!({"metadata": {"uid": "u-2"}})).unwrap()
    });
    pod.write("2");
    pod.agent.wait_for("refused", 1);
    assert!(pod.agent.last("refused", "reason").contains("409"), "{}", pod.agent.log());
    assert!(!pod.is_deleted());
}

#[test]
fn evictions_without_effect_are_bounded_and_reported() {
    let mut pod = Pod::start(
        "evict = { wait = \"1s\" }\nretry = { attempts = 2, first = \"100ms\" }\nlimit = { lease = \"web\" }",
    );
    pod.write("2");
    pod.agent.wait_for("gave-up", 1);
    let reason = pod.agent.last("gave-up", "reason");
    assert!(reason.contains("evicted, and has not ended within 1s"), "{reason}");
    assert_eq!(pod.evictions(), 2, "{}", pod.agent.log());
    // It says nothing about the content.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/test/leases/web-0";
    let lease = pod.server.with_store(|store| store.get(leases)).unwrap();
    assert!(lease["metadata"]["annotations"].get("podnudge.io/halted").is_none(), "{lease}");
}

#[test]
fn the_slot_of_an_evicted_pod_is_not_given_back_before_the_pod_has_ended() {
    let mut pod = Pod::start("evict = {}\nlimit = { lease = \"web\" }");
    pod.write("2");
    pod.agent.wait_for("evicted", 1);
    assert!(pod.agent.stop().success());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/test/leases/web-0";
    wait_until("the slot is held", || {
        let lease = pod.server.with_store(|store| store.get(leases)).unwrap();
        lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| holder.contains("web-1"))
    });
}
