//! Kubernetes Events about podnudge's own Pod, by the real binary against an API server of the test's own.

use serde_json::{Value, json};

use crate::support::{Agent, ApiServer, Application, Fault, ROLLED_OUT, Scene, wait_until};

const EVENTS: &str = "/api/v1/namespaces/test/events";

/// A podnudge in a pod, and its application, which rejects what contains `broken`.
struct Pod {
    agent: Agent,
    server: ApiServer,
    application: Application,
    scene: Scene,
}

impl Pod {
    /// `cluster` and `rule` are further settings.
    fn start(cluster: &str, rule: &str) -> Self {
        Self::with(&ApiServer::start(), "web-1", cluster, rule)
    }

    fn with(server: &ApiServer, name: &str, cluster: &str, rule: &str) -> Self {
        let scene = Scene::with(&[("a.conf", "0")]);
        let publishes = rule.contains("publish");
        let read = if publishes { scene.path("published") } else { scene.kubelet.volume.clone() };
        let start = if publishes { "" } else { "on-start = \"never\"\n" };
        let application = Application::start(&read, "a.conf");
        let text = format!(
            "[agent]\ndigests-in-metrics = \"all\"\nCLUSTER\n{cluster}\n\
             [[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n{start}\
             retry = {{ attempts = 1 }}\nhttp.url = \"{}\"\n{rule}\n",
            application.url(),
        );
        let mut podnudge = scene.in_cluster(server, name, &text);
        if cluster.contains("# unknown") {
            podnudge.env_remove("PODNUDGE_POD_NAME");
        } else {
            podnudge.env("PODNUDGE_POD_UID", format!("uid-of-{name}"));
        }
        let agent = scene.start(podnudge, "baseline|published");
        Self { agent, server: server.clone(), application, scene }
    }

    fn write(&mut self, content: &str) {
        self.scene.change(content);
    }

    /// The Events with this reason.
    fn events(&self, reason: &str) -> Vec<Value> {
        let mut events = self.server.with_store(|store| store.below(EVENTS));
        events.retain(|event| event["reason"] == reason);
        events
    }

    fn wait_for_event(&self, reason: &str) -> Value {
        wait_until(&format!("an Event {reason}"), || !self.events(reason).is_empty());
        self.events(reason)[0].clone()
    }

    fn requests(&self) -> usize {
        self.server.seen().iter().filter(|request| request.contains("/events")).count()
    }
}

#[test]
fn applied_and_rejected_content_has_an_event_on_the_pod_without_the_content() {
    let mut pod = Pod::start("events = true", "check = [{ syntax = \"json\" }]");
    pod.write("\"hunter2\"");
    let applied = pod.wait_for_event("ConfigApplied");
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "web-1", "namespace": "test", "uid": "uid-of-web-1",
    });
    assert_eq!((&applied["involvedObject"], &applied["type"]), (&object, &"Normal".into()));
    assert_eq!((&applied["count"], &applied["metadata"]["namespace"]), (&1.into(), &"test".into()));
    let (message, digest) = (&applied["message"], pod.agent.last("applied", "digest"));
    let wanted =
        format!("rule `web`: the application accepted the new content {digest} (accepted)");
    assert_eq!(message, &wanted);
    pod.write("hunter2 {");
    let rejected = pod.wait_for_event("ConfigRejected");
    assert_eq!(rejected["type"], "Warning");
    assert!(rejected["message"].as_str().unwrap().contains(&pod.agent.last("rejected", "digest")));
    assert!(!format!("{:?}", pod.server.seen()).contains("hunter2"));
}

#[test]
fn content_that_is_rolled_back_and_content_that_halts_has_an_event() {
    let server = ApiServer::start();
    let publish = "[rule.publish]\ndir = \"FOLDER/published\"";
    let mut pod = Pod::with(&server, "web-1", "events = true", publish);
    wait_until("the first content is good", || !pod.application.reloads().is_empty());
    pod.write("broken");
    let event = pod.wait_for_event("ConfigRolledBack");
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("the last good content was rolled out again"), "{message}");
    // Nothing is published here, so there is nothing to go back to.
    let other = ApiServer::start();
    let limit = "limit = { lease = \"web\" }";
    let mut pods = ["a", "b"].map(|name| Pod::with(&other, name, "events = true", limit));
    for pod in &mut pods {
        pod.write("broken");
    }
    let has = |text: &str| {
        let events = pods[0].events("RolloutHalted");
        let messages = events.iter().filter_map(|event| event["message"].as_str());
        messages.into_iter().filter(|message| message.contains(text)).count()
    };
    wait_until("one has failed, and the other one is held", || {
        (has("does not work, and is not tried again"), has("failed on another replica")) == (1, 1)
    });
    let answer = format!("{:?}", pods[0].events("RolloutHalted"));
    assert!(!answer.contains("400"), "the answer of the application is not quoted: {answer}");
}

#[test]
fn what_happens_again_within_a_minute_is_counted_and_not_sent() {
    let mut pod = Pod::start("events = true", "");
    for number in 1..=4 {
        pod.write(&number.to_string());
        pod.agent.wait_for(ROLLED_OUT, number);
    }
    pod.wait_for_event("ConfigApplied");
    assert!(pod.requests() < 4, "{:?}", pod.server.seen());
}

#[test]
fn without_the_setting_nothing_is_sent() {
    let mut pod = Pod::start("", "");
    pod.write("1");
    pod.agent.wait_for(ROLLED_OUT, 1);
    assert_eq!((pod.server.seen(), pod.server.reviews()), (Vec::new(), Vec::new()));
}

#[test]
fn a_missing_right_and_a_server_that_is_away_are_said_once_and_delay_nothing() {
    let faults = [Fault::Status(403, ""), Fault::Closed, Fault::NoAnswer];
    for fault in faults {
        let server = ApiServer::start();
        server.partition("/events", fault.clone());
        let mut pod =
            Pod::with(&server, "web-1", "events = true", "check = [{ syntax = \"json\" }]");
        pod.write("1");
        pod.agent.wait_for(ROLLED_OUT, 1);
        if fault == Fault::NoAnswer {
            // It is not waited for, neither by the next change nor by the end.
            pod.write("2");
            pod.agent.wait_for(ROLLED_OUT, 2);
            assert_eq!(pod.agent.count("events-unavailable"), 0);
            assert!(pod.agent.stop().success());
            continue;
        }
        pod.agent.wait_for("events-unavailable", 1);
        let hint = pod.agent.last("events-unavailable", "hint");
        let wanted = match fault {
            Fault::Closed => "check that no NetworkPolicy forbids podnudge to reach the API server",
            _ => {
                "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [events], verbs: [create]"
            }
        };
        assert_eq!(hint, wanted);
        pod.write("{");
        wait_until("the next one is sent", || pod.requests() == 2);
        assert_eq!(pod.agent.count("events-unavailable"), 1, "{}", pod.agent.log());
    }
}

#[test]
fn that_events_can_be_created_again_is_said() {
    let server = ApiServer::start();
    server.inject("/events", Fault::Status(403, ""));
    let mut pod = Pod::with(&server, "web-1", "events = true", "check = [{ syntax = \"json\" }]");
    pod.write("1");
    pod.agent.wait_for("events-unavailable", 1);
    pod.write("{");
    pod.agent.wait_for("events-available", 1);
    pod.wait_for_event("ConfigRejected");
}

#[test]
fn a_pod_whose_name_is_not_known_is_told_how_to_give_it() {
    let mut pod = Pod::start("events = true # unknown", "");
    pod.agent.wait_for("events-unavailable", 1);
    let hint = pod.agent.last("events-unavailable", "hint");
    assert!(hint.starts_with("set PODNUDGE_POD_NAME and PODNUDGE_POD_UID"), "{hint}");
    pod.write("1");
    pod.agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(pod.requests(), 0);
}
