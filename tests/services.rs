//! A drain that follows the EndpointSlices of the pod's Services, by the real binary against an API server of
//! the test's own.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::supervisor::Supervisor;
use crate::support::{Agent, ApiServer, Fault, ROLLED_OUT, Scene, in_namespace, wait_until};

const PODS: &str = "/api/v1/namespaces/test/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices";
const BETA_SLICES: &str = "/apis/discovery.k8s.io/v1beta1/namespaces/test/endpointslices";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases/web-0";
const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

/// A podnudge in a pod of the Service `web`, which has so many pods that its list comes in two parts.
struct Replica {
    agent: Agent,
    application: Supervisor,
    server: ApiServer,
    scene: Scene,
}

impl Replica {
    fn start(slices: &str, settings: &str) -> Self {
        Self::with(slices, "", settings, |_| {})
    }

    /// `cluster` is further settings of `[cluster]`.
    fn with(slices: &str, cluster: &str, settings: &str, before: impl FnOnce(&ApiServer)) -> Self {
        let scene = Scene::new();
        let application = scene.supervised(RUNS);
        let server = ApiServer::start();
        let text = format!(
            "[agent]\nlisten = \"127.0.0.1:0\"\ngrace = \"2s\"\nCLUSTER\n{cluster}\n\
             [[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\n\
             restart = {{ grace = \"10s\" }}\nretry = {{ first = \"50ms\", max = \"100ms\" }}\n\
             target = {{ cmdline = \"^(ba)?sh -c .* FOLDER$\" }}\nverify = {{ alive-for = \"100ms\" }}\n\
             {settings}\n",
        );
        let mut podnudge = scene.in_cluster(&server, "web-1", &text);
        podnudge.env("PODNUDGE_POD_UID", "u-1");
        server.with_store(|store| {
            store.create(PODS, pod(true)).unwrap();
            for n in 0..4 {
                store.create(slices, slice(&format!("web-{n}"), "web-9", true)).unwrap();
            }
            store.create(slices, slice("web-4", "web-1", true)).unwrap();
            // Another Service does not count.
            let mut other = slice("other-0", "web-1", true);
            other["metadata"]["labels"] = json!({"kubernetes.io/service-name": "other"});
            store.create(slices, other).unwrap();
        });
        before(&server);
        let agent = scene.start(podnudge, "baseline");
        Self { agent, application, server, scene }
    }

    fn write(&mut self, content: &str) {
        self.scene.change(content);
    }

    /// The kubelet has noticed what `/serving` answers.
    fn is_ready(&self, is_ready: bool) {
        let pod = pod(is_ready);
        self.server.with_store(|store| store.replace(&format!("{PODS}/web-1"), pod)).unwrap();
    }

    /// The endpoint controller takes the pod out of the Service, or back in.
    fn is_in_service(&self, slices: &str, is_ready: bool) {
        let slice = slice("web-4", "web-1", is_ready);
        self.server.with_store(|store| store.replace(&format!("{slices}/web-4"), slice)).unwrap();
    }

    /// Waits until podnudge has looked at the whole list so often once more.
    fn wait_for_looks(&self, slices: &str, looks: usize) {
        let parts = || {
            let is_part = |request: &&String| request.starts_with(&format!("GET {slices}?"));
            self.server.seen().iter().filter(is_part).count()
        };
        let before = parts();
        wait_until("podnudge looks again", || parts() >= before + looks * 2);
    }

    /// Why the rule waits, by its status.
    fn waits_because(&self) -> String {
        let status = self.agent.status();
        status["rules"][0]["reason"]["message"].as_str().unwrap_or_default().to_owned()
    }

    fn holds_slot(&self) -> bool {
        let lease = self.server.with_store(|store| store.get(LEASE));
        lease.is_ok_and(|lease| {
            lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
        })
    }
}

fn pod(is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    let conditions = json!([{"type": "Ready", "status": ready}]);
    json!({"metadata": {"name": "web-1", "uid": "u-1"}, "status": {"conditions": conditions}})
}

fn slice(name: &str, pod: &str, is_ready: bool) -> Value {
    let uid = format!("u-{}", pod.rsplit('-').next().unwrap());
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["127.0.0.1"],
            "conditions": {"ready": is_ready, "serving": is_ready},
            "targetRef": {"kind": "Pod", "namespace": "test", "name": pod, "uid": uid},
        }],
    })
}

#[test]
fn a_restart_follows_the_endpoints_and_the_slot_is_kept_until_they_are_back() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"] }\nlimit.lease = \"web\"";
    let mut replica = Replica::start(SLICES, settings);
    replica.write("2");
    replica.agent.wait_for("draining", 1);
    replica.is_ready(false);
    replica.wait_for_looks(SLICES, 2);
    assert_eq!(replica.application.starts(), 1);
    replica.is_in_service(SLICES, false);
    replica.agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(replica.application.starts(), 2);
    replica.is_ready(true);
    replica.wait_for_looks(SLICES, 2);
    assert!(replica.holds_slot());
    replica.is_in_service(SLICES, true);
    wait_until("the slot is given back", || !replica.holds_slot());
}

#[test]
fn a_missing_right_is_named_and_an_older_cluster_has_the_endpoints_elsewhere() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"] }";
    let mut replica = Replica::start(BETA_SLICES, settings);
    replica.is_ready(false);
    replica.is_in_service(BETA_SLICES, false);
    replica.server.partition("/endpointslices", Fault::Status(403, ""));
    replica.write("2");
    replica.agent.wait_for("refused", 1);
    let hint = replica.agent.last("refused", "hint");
    assert_eq!(
        hint,
        "add to the Role of podnudge's service account: apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]"
    );
    assert_eq!((replica.agent.count("draining"), replica.application.starts()), (0, 1));
    replica.server.partition("/discovery.k8s.io/v1/", Fault::Status(404, ""));
    replica.agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(replica.application.starts(), 2);
}

#[test]
fn a_service_that_does_not_have_the_pod_is_no_proof_that_it_has_left() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"wbe\"] }";
    let mut replica = Replica::start(SLICES, settings);
    replica.write("2");
    replica.agent.wait_for("refused", 1);
    let said = replica.agent.last("refused", "reason");
    assert_eq!(said, "the EndpointSlices of `wbe` do not have the pod");
    assert_eq!((replica.agent.count("draining"), replica.application.starts()), (0, 1));
}

/// Of a proxy, for example.
#[test]
fn a_list_that_does_not_end_is_not_read_for_ever() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"] }";
    let mut replica = Replica::start(SLICES, settings);
    let part = r#"{"kind":"EndpointSliceList","metadata":{"continue":"1"},"items":[]}"#;
    replica.server.partition("/endpointslices", Fault::Body(part));
    replica.write("2");
    replica.agent.wait_for("refused", 1);
    let said = replica.agent.last("refused", "reason");
    assert!(said.ends_with("the list does not end"), "{said}");
}

#[test]
fn a_pod_that_its_service_keeps_is_not_restarted_and_serves_again() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"], timeout = \"1s\" }";
    let mut replica = Replica::start(SLICES, settings);
    replica.write("2");
    // The kubelet does not ask `/serving`.
    replica.agent.wait_for("refused", 1);
    let said = replica.agent.last("refused", "reason");
    assert_eq!(said, "the pod has not left its Services within 1s: the pod is still Ready");
    assert!(replica.agent.last("refused", "hint").contains("readinessProbe"));
    replica.is_ready(false);
    replica.agent.wait_for("refused", 2);
    let said = replica.agent.last("refused", "reason");
    assert!(said.contains("the EndpointSlices of `web` still have the pod as ready"), "{said}");
    assert_eq!(replica.application.starts(), 1);
    replica.is_in_service(SLICES, false);
    replica.agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(replica.application.starts(), 2);
}

/// The API server does not answer, and the looks would take longer than `grace`.
#[test]
fn a_look_at_the_pod_does_not_delay_the_end_of_podnudge() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"] }";
    let mut replica = Replica::start(SLICES, settings);
    replica.server.partition(PODS, Fault::Late);
    replica.write("2");
    wait_until("podnudge looks at its pod", || {
        replica.server.seen().iter().any(|request| request.contains(PODS))
    });
    replica.agent.signal(Signal::SIGTERM);
    assert_eq!(replica.agent.exit_code(), Some(0));
    assert_eq!(replica.agent.count("grace-over"), 0, "{}", replica.agent.log());
    replica.server.heal();
}

/// The rule has nothing to do during the outage, and no slot: eager sync, and the preflight of the rights, see it.
#[test]
fn a_drain_waits_for_the_nodes_after_an_outage_that_other_requests_have_seen() {
    in_namespace!();
    let settings = "drain = { wait = \"100ms\", services = [\"web\"] }";
    let eager_sync = "eager-sync = true\nobjects = [\"configmap/app\"]";
    for fault in [Fault::Status(503, ""), Fault::Closed] {
        let is_away = |server: &ApiServer| server.partition("", fault);
        let mut replica = Replica::with(SLICES, eager_sync, settings, is_away);
        let lists = |replica: &Replica| {
            let requests = replica.server.seen();
            requests.iter().filter(|request| request.contains("/configmaps?")).count()
        };
        wait_until("podnudge asks again", || lists(&replica) >= 2);
        replica.server.heal();
        let known = lists(&replica);
        wait_until("it is answered, and watches", || lists(&replica) >= known + 2);
        replica.write("2");
        let why = "the API server was away: the endpoints on the nodes may be old";
        wait_until("the rule waits", || replica.waits_because() == why);
        assert_eq!(replica.agent.count("draining"), 0);
    }
}
