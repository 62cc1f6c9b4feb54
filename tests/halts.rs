//! Content that fails in one pod is reported to the other replicas also if podnudge ends or is killed before the
//! API server has it: the real binary, and an API server that answers late.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Agent, ApiServer, Fault, command, wait_until, wait_until_commit_is_past};
use crate::support::{Scene, http};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases/web-0";
const HALTED: &str = "podnudge.io/halted";
const OWN_POD: &str = "/api/v1/namespaces/test/pods/web-0";

/// A pod whose application rejects all content.
struct Pod {
    agent: Agent,
    scene: Scene,
}

impl Pod {
    fn start(server: &ApiServer, agent: &str, limit: &str, rules: &str) -> Self {
        let scene = Scene::with(&[("a.conf", "0")]);
        wait_until_commit_is_past(&scene.kubelet.volume);
        let url = http::server(|stream| {
            http::request(&stream);
            http::respond(stream, "400 Bad Request", "", "no such directive");
        });
        let text = format!(
            "[agent]\n{agent}\nCLUSTER\n\
             [[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n\
             on-start = \"never\"\nretry = {{ attempts = 1 }}\n\
             limit = {{ lease = \"web\"{limit} }}\nhttp = {{ url = \"{url}\" }}\n{rules}",
        );
        let agent = scene.start(scene.in_cluster(server, "web-0", &text), "baseline");
        Self { agent, scene }
    }

    /// Starts podnudge once more.
    fn start_again(&mut self, server: &ApiServer) {
        let podnudge = self.scene.in_cluster(server, "web-0", &self.scene.text("podnudge.toml"));
        self.agent = self.scene.start(podnudge, "started");
    }

    /// Content that the application rejects.
    fn fail(&mut self) {
        self.scene.change("broken");
        self.agent.wait_for("gave-up", 1);
    }
}

/// What the other replicas can read.
fn halted(server: &ApiServer) -> String {
    let lease = server.with_store(|store| store.get(LEASE).unwrap_or_default());
    lease["metadata"]["annotations"][HALTED].as_str().unwrap_or_default().to_owned()
}

fn has_seen(server: &ApiServer, text: &str) -> bool {
    server.seen().iter().any(|request| request.contains(text))
}

#[test]
fn a_podnudge_that_is_killed_reports_what_failed_when_it_runs_again() {
    let server = ApiServer::start();
    let mut pod = Pod::start(&server, "state-dir = \"FOLDER/state\"", "", "");
    server.partition(HALTED, Fault::Closed);
    pod.fail();
    let state = pod.scene.path("state/web.json");
    let halts = || {
        let state: Value = serde_json::from_slice(&fs::read(&state).unwrap_or_default()).ok()?;
        Some(state["memory"]["halts"].as_array()?.len())
    };
    wait_until("what failed is saved", || halts() == Some(1));
    wait_until("podnudge tries to report it", || has_seen(&server, HALTED));
    pod.agent.kill();
    assert_eq!(halted(&server), "");
    server.heal();
    pod.start_again(&server);
    wait_until("the others can read it", || halted(&server).contains("400 Bad Request"));
    wait_until("nothing is left to report", || halts() == Some(0));
}

/// The slot is kept for the bake, so that giving it back is nothing to wait for; and another replica writes to the
/// Lease at the same time.
#[test]
fn a_podnudge_that_is_stopped_first_reports_what_failed() {
    let server = ApiServer::start();
    let mut pod = Pod::start(&server, "", ", bake = \"10m\"", "");
    server.partition(OWN_POD, Fault::Late);
    server.inject(HALTED, Fault::Status(409, ""));
    server.inject(HALTED, Fault::Status(503, ""));
    pod.fail();
    wait_until("podnudge asks for its own pod", || has_seen(&server, OWN_POD));
    pod.agent.signal(Signal::SIGTERM);
    pod.agent.wait_for("ending", 1);
    server.heal();
    assert_eq!(pod.agent.exit_code(), Some(0));
    assert!(halted(&server).contains("400 Bad Request"), "{}", pod.agent.log());
    assert_eq!(pod.agent.count("grace-over"), 0, "{}", pod.agent.log());
}

#[test]
fn a_podnudge_that_ends_to_restart_its_pod_first_reports_what_failed() {
    let server = ApiServer::start();
    let mut other = Scene::with(&[("b.conf", "0")]);
    wait_until_commit_is_past(&other.kubelet.volume);
    let mut application =
        command("sleep").arg(format!("600.{}", std::process::id())).spawn().unwrap();
    let rules = format!(
        "[[rule]]\nname = \"pod\"\nwatch = \"{}\"\nsettle = \"0s\"\nmin-interval = \"0s\"\n\
         restart = \"pod\"\ntarget = {{ cmdline = \"^sleep 600.{}$\" }}\n",
        other.kubelet.volume.display(),
        std::process::id(),
    );
    let mut pod = Pod::start(&server, "state-dir = \"FOLDER/state\"", "", &rules);
    pod.agent.wait_for("baseline", 2);
    server.partition(OWN_POD, Fault::Late);
    pod.fail();
    wait_until("podnudge asks for its own pod", || has_seen(&server, OWN_POD));
    other.change("1");
    pod.agent.wait_for("ending-for-pod", 1);
    server.heal();
    assert_eq!(pod.agent.exit_code(), Some(88));
    assert!(halted(&server).contains("400 Bad Request"), "{}", pod.agent.log());
    application.kill().unwrap();
    application.wait().unwrap();
}
