//! Eager sync of the real podnudge: a small API server, real volumes, and a stand-in for the kubelet, which
//! writes the volume when the pod is annotated.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::Signal;
use podnudge::cluster::object_rights;
use serde_json::{Value, json};

use podnudge_core::objects::{ObjectKind, ObjectName};

use crate::support::api_server::Store;
use crate::support::managed_fields::patch_as;
use crate::support::rights::access;
use crate::support::{
    Agent, ApiServer, Fault, Kubelet, MemoryLimit, payload, rights_of, wait_until,
};
use crate::support::{Scene, http};

const MAPS: &str = "/api/v1/namespaces/test/configmaps";
const SECRETS: &str = "/api/v1/namespaces/test/secrets";
const PODS: &str = "/api/v1/namespaces/test/pods";

/// An edit of an object, as a person makes it.
fn object(name: &str, content: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a.conf": content}})
}

/// The pod `web-0`, whose podnudge watches the volume of the ConfigMap `app` at this path.
fn pod(volume: &Path) -> Value {
    let mounts = json!([{"name": "config", "mountPath": volume}]);
    json!({
        "metadata": {"name": "web-0"},
        "spec": {
            "volumes": [{"name": "config", "configMap": {"name": "app"}}],
            "containers": [{"name": "podnudge", "volumeMounts": mounts}]
        }
    })
}

struct Pod {
    server: ApiServer,
    agent: Agent,
    kubelet: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    _scene: Scene,
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.kubelet.take().map(JoinHandle::join));
    }
}

/// Writes the volume whenever the pod's annotation has changed.
fn follow(mut kubelet: Kubelet, server: ApiServer, is_over: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut synced = Value::Null;
        wait_until("the end of the test", || {
            let annotation = server.with_store(|store| store.get(&format!("{PODS}/web-0")));
            let annotation = annotation.map(|pod| pod["metadata"]["annotations"].clone());
            let annotation = annotation.unwrap_or_default();
            if annotation != synced {
                synced = annotation;
                let map = server.with_store(|store| store.get(&format!("{MAPS}/app")));
                if let Some(content) =
                    map.ok().as_ref().and_then(|map| map["data"]["a.conf"].as_str())
                {
                    kubelet.write(&payload(&[("a.conf", content)]));
                }
            }
            is_over.load(Ordering::Relaxed)
        });
    })
}

impl Pod {
    /// `cluster` are more settings of `[cluster]`.
    fn start(cluster: &str) -> Self {
        Self::with(cluster, |_| {})
    }

    fn with(cluster: &str, before: impl FnOnce(&ApiServer)) -> Self {
        let scene = Scene::with(&[("a.conf", "0")]);
        let server = ApiServer::start();
        server.with_store(|store| {
            store.create(MAPS, object("app", "0")).unwrap();
            store.create(MAPS, object("other", "0")).unwrap();
            store.create(SECRETS, object("tls", "0")).unwrap();
            store.create(PODS, pod(&scene.kubelet.volume)).unwrap();
        });
        before(&server);
        let spread = if cluster.is_empty() { "" } else { "eager-sync-spread = \"0s\"" };
        let text = format!(
            "[agent]\nlog-level = \"debug\"\nCLUSTER\n{cluster}\n{spread}\n\
             [[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\nhttp.url = \"{}\"\n",
            scene.application().url(),
        );
        let podnudge = scene.in_cluster(&server, "web-0", &text);
        // Without `objects`, it finds this one.
        let app = ObjectName { kind: ObjectKind::ConfigMap, name: "app".to_owned() };
        let rights = rights_of(&scene.text("podnudge.toml"));
        server.grant(rights.into_iter().chain(object_rights(&app).map(access)));
        let agent = scene.start(podnudge, "baseline");
        let is_over = Arc::default();
        let kubelet = Kubelet::new(&scene.kubelet.volume);
        let kubelet = follow(kubelet, server.clone(), Arc::clone(&is_over));
        Self { server, agent, kubelet: Some(kubelet), is_over, _scene: scene }
    }

    fn edit(&self, content: &str) {
        let path = format!("{MAPS}/app");
        self.server.with_store(|store| {
            store.patch(&path, &json!({"data": {"a.conf": content}})).unwrap();
        });
    }

    /// A change by this manager, with its trace in `managedFields`.
    fn change_as(&self, manager: &str, object: &str, change: &Value) {
        self.server.with_store(|store| patch_as(store, manager, object, change));
    }

    fn watches(&self) -> usize {
        self.requests("watch=true").len()
    }

    fn requests(&self, text: &str) -> Vec<String> {
        self.server.seen().into_iter().filter(|request| request.contains(text)).collect()
    }

    fn annotations(&self) -> usize {
        let patches = self.requests("PATCH");
        patches.iter().filter(|request| !request.contains("dryRun")).count()
    }

    fn status(&self) -> Value {
        let status = self.agent.status();
        status["eager_sync"].clone()
    }

    fn is_watched(&self) -> bool {
        self.status()["objects"].as_array().is_some_and(|objects| {
            !objects.is_empty() && objects.iter().all(|object| object["watched"] == true)
        })
    }

    fn wait_until_watched(&self) {
        wait_until("the objects are watched", || self.is_watched());
    }

    /// Somebody else annotates the pod, so that the kubelet syncs it.
    fn annotate_pod(&self) {
        let annotation = json!({"metadata": {"annotations": {"x": "y"}}});
        let path = format!("{PODS}/web-0");
        self.server.with_store(|store| store.patch(&path, &annotation).unwrap());
    }

    /// Waits until the nth edit is on disk and rolled out.
    fn wait_for_edit(&self, number: usize) {
        self.agent.wait_for("edit-committed", number);
        self.agent.wait_for("applied", number);
    }
}

#[test]
fn an_edit_is_applied_without_waiting_for_the_period_of_the_kubelet() {
    let pod = Pod::start("eager-sync = true");
    pod.wait_until_watched();
    assert_eq!(pod.agent.last("watching-objects", "objects"), "configmap/app");
    // The preflight tries whether a label may be changed.
    let patches = || {
        let mut patches = pod.requests("PATCH");
        patches.retain(|patch| !patch.contains("podnudge.io/trial"));
        patches
    };
    let [trial] = &patches()[..] else { panic!("{:?}", pod.server.seen()) };
    assert!(trial.starts_with(&format!("PATCH {PODS}/web-0?dryRun=All ")), "{trial}");
    for (number, content) in ["1", "2", "3"].into_iter().enumerate() {
        pod.edit(content);
        pod.wait_for_edit(number + 1);
    }
    let version = |request: &String| {
        request.contains(r#"{"metadata":{"annotations":{"podnudge.io/sync":"configmap/app "#)
    };
    assert!(patches().iter().skip(1).all(version), "{:?}", pod.server.seen());
    let patch = pod.server.heads().into_iter().rfind(|head| head.starts_with("PATCH")).unwrap();
    assert!(patch.contains("content-type: application/merge-patch+json\r\n"), "{patch}");
    let status = pod.status();
    assert_eq!(status["edit_to_commit"]["buckets"].as_array().unwrap().len(), 13, "{status}");
    assert!(status["objects"][0]["edit_to_commit_seconds"].as_f64().unwrap() < 5.0, "{status}");
    assert!(status["syncs_requested"].as_u64().unwrap() >= 3, "{status}");
    // Only the metadata, and only of the one object.
    assert!(pod.requests("/configmaps").iter().all(|it| it.contains("metadata.name%3Dapp")));
    assert_eq!(pod.requests("/secrets"), Vec::<String>::new());
}

#[test]
fn a_label_or_an_annotation_of_an_object_costs_no_request() {
    let map = format!("{MAPS}/app");
    let content = |value: &str| json!({"data": {"a.conf": value}});
    let pod = Pod::with("eager-sync = true", |server| {
        let edit = content("first");
        server.with_store(|store| patch_as(store, "kubectl-edit", &map, &edit));
    });
    pod.wait_until_watched();
    pod.change_as("kubectl-label", &map, &json!({"metadata": {"labels": {"team": "a"}}}));
    pod.change_as("argocd", &map, &json!({"metadata": {"annotations": {"argocd/id": "b"}}}));
    pod.agent.wait_for("edited-without-content", 2);
    assert_eq!((pod.agent.count("edited"), pod.annotations()), (0, 0));
    // Each edit of the content, also of the same value in the same second, and by another manager.
    for (number, manager) in ["kubectl-edit", "kubectl-edit", "argocd"].into_iter().enumerate() {
        pod.change_as(manager, &map, &content(&format!("edit {number}")));
        pod.wait_for_edit(number + 1);
    }
    assert_eq!((pod.agent.count("edited"), pod.annotations()), (3, 3));
}

#[test]
fn named_objects_need_no_right_to_read_pods_and_others_are_not_noticed() {
    let cluster = "eager-sync = true\nobjects = [\"configmap/app\", \"secret/tls\"]";
    let pod = Pod::start(cluster);
    pod.wait_until_watched();
    assert_eq!(pod.requests("GET /api/v1/namespaces/test/pods"), Vec::<String>::new());
    pod.edit("1");
    pod.wait_for_edit(1);
    pod.server.with_store(|store| {
        let other = json!({"data": {"a.conf": "x"}});
        store.patch(&format!("{MAPS}/other"), &other).unwrap();
        store.patch(&format!("{SECRETS}/tls"), &other).unwrap();
    });
    pod.agent.wait_for("edited", 2);
    assert_eq!(pod.agent.last("edited", "object"), "secret/tls");
    wait_until("the pod is annotated", || pod.annotations() == 2);
}

#[test]
fn a_watch_goes_on_after_bookmarks_its_end_errors_endless_lines_and_broken_connections() {
    let pod = Pod::start("eager-sync = true");
    pod.wait_until_watched();
    let changes: [fn(&ApiServer); 5] = [
        |server| server.with_store(Store::bookmark),
        |server| server.with_store(|store| store.history.end_watches(true)),
        |server| {
            server.with_store(|store| {
                store.compact();
                store.history.end_watches(false);
            });
        },
        |server| {
            server.with_store(|store| {
                store.bookmark();
                store.history.say(json!({"type": "ERROR", "object": {"code": 500}}));
            });
        },
        |server| {
            server.with_store(|store| {
                store.bookmark();
                let metadata = json!({
                    "name": "app", "uid": "x", "resourceVersion": "x",
                    "annotations": {"a": "x".repeat(2 << 20)}
                });
                let object = json!({"metadata": metadata});
                store.history.say(json!({"type": "MODIFIED", "object": object}));
            });
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let before = pod.watches();
        change(&pod.server);
        if number > 0 {
            wait_until("it is watched again", || pod.watches() > before && pod.is_watched());
        }
        pod.edit(&format!("change {number}"));
        pod.wait_for_edit(number + 1);
    }
    assert_eq!(pod.agent.count("edited"), 5, "what is too long is not read");
    assert_eq!(pod.agent.count("eager-sync-unavailable"), 0, "{}", pod.agent.log());
}

#[test]
fn a_server_that_does_not_answer_is_asked_again() {
    let pod = Pod::with("eager-sync = true", |server| {
        server.inject("GET /api/v1/namespaces/test/configmaps", Fault::NoAnswer);
    });
    pod.edit("before it was listed");
    pod.wait_until_watched();
    pod.edit("1");
    pod.wait_for_edit(1);
}

#[test]
fn an_object_that_is_replaced_is_noticed_also_while_nobody_watches() {
    let pod = Pod::start("eager-sync = true");
    pod.wait_until_watched();
    let replace = |content: &str| {
        pod.server.with_store(|store| {
            store.delete(&format!("{MAPS}/app")).unwrap();
            store.create(MAPS, object("app", content)).unwrap();
        });
    };
    replace("1");
    pod.wait_for_edit(1);
    // The server is away: the connection is cut, and no new one succeeds.
    pod.server.partition("configmaps", Fault::Closed);
    pod.server.with_store(|store| store.history.end_watches(true));
    wait_until("it is not watched", || !pod.is_watched());
    replace("2");
    pod.server.heal();
    pod.wait_for_edit(2);
}

#[test]
fn without_a_right_everything_else_works_and_it_is_said_once() {
    let pod = Pod::with("eager-sync = true\nobjects = [\"secret/tls\"]", |server| {
        server.partition("/secrets", Fault::Status(403, ""));
    });
    pod.agent.wait_for("eager-sync-unavailable", 1);
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [secrets], resourceNames: [tls], verbs: [list, watch]";
    assert_eq!(pod.agent.last("eager-sync-unavailable", "hint"), hint);
    // The kubelet's own sync.
    pod.edit("1");
    pod.annotate_pod();
    pod.agent.wait_for("applied", 1);
    assert_eq!(pod.status()["objects"][0]["watched"], false);
    pod.server.heal();
    pod.agent.wait_for("eager-sync-available", 1);
    assert_eq!(pod.agent.count("eager-sync-unavailable"), 1);
}

#[test]
fn an_annotation_that_is_not_allowed_is_found_at_the_start() {
    let pod = Pod::with("eager-sync = true", |server| {
        server.partition("PATCH", Fault::Status(403, ""));
    });
    pod.agent.wait_for("eager-sync-unavailable", 1);
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [pods], verbs: [patch]";
    assert_eq!(pod.agent.last("eager-sync-unavailable", "hint"), hint);
    // What was edited before the first list is no edit.
    pod.wait_until_watched();
    pod.edit("1");
    pod.agent.wait_for("edited", 1);
}

#[test]
fn podnudge_stops_at_once_although_it_watches() {
    let mut pod = Pod::start("eager-sync = true");
    pod.wait_until_watched();
    pod.agent.signal(Signal::SIGTERM);
    wait_until("it has ended", || pod.agent.has_ended());
    pod.agent.wait_for("stopped", 1);
    assert_eq!(pod.agent.count("grace-over"), 0);
}

#[test]
fn without_eager_sync_there_is_not_one_request() {
    let pod = Pod::start("");
    pod.edit("1");
    pod.annotate_pod();
    pod.agent.wait_for("applied", 1);
    assert_eq!(pod.status(), Value::Null);
    assert_eq!(pod.server.seen(), Vec::<String>::new());
    assert_eq!(pod.server.reviews(), Vec::<Value>::new());
}

/// With the binary that ships.
mod shipped {
    use super::*;
    use crate::shipped::{FULL, binary};

    /// An API server whose watches send the beginning of a line, and nothing more: 16 of just under 1 MiB are more than
    /// podnudge may hold. The binary is the one that ships.
    #[test]
    fn unfinished_lines_of_many_watches_are_bounded_under_the_memory_limit() {
        const OBJECTS: usize = 16;
        let binary = binary(FULL);
        let scene = Scene::with(&[("a.conf", "0")]);
        let watches = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&watches);
        let server = http::server(move |stream| {
            let begun = Arc::clone(&begun);
            thread::spawn(move || begin_a_line(stream, &begun));
        });
        let server = server.strip_suffix("/-/reload").unwrap();
        let objects: Vec<String> = (0..OBJECTS).map(|n| format!("\"configmap/c{n}\"")).collect();
        let text = format!(
            "[cluster]\nurl = \"{server}\"\nnamespace = \"test\"\ntoken-file = \"FOLDER/token\"\n\
             eager-sync = true\nobjects = [{}]\n\
             [[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\non-start = \"never\"\nhttp.url = \"{}\"\n",
            objects.join(", "),
            scene.application().url(),
        );
        scene.write("token", "token");
        let limit = MemoryLimit::new(32 << 20);
        let mut peak = limit.measure();
        let mut command = limit.command(&binary);
        command.args(["--log", "json", "--listen", "off", "--config"]);
        command.arg(scene.write("podnudge.toml", &text)).env("POD_NAME", "web-0");
        let mut agent = Agent::spawn(scene.folder.path(), command);
        wait_until("each line was given up, and its object watched again", || {
            assert!(!agent.has_ended(), "podnudge ended: {}", agent.log());
            watches.load(Ordering::SeqCst) >= 3 * OBJECTS
        });
        println!("{OBJECTS} watches with unfinished lines: at most {} KiB", peak.read());
        assert_eq!(limit.ended(), 0, "the kernel has ended a process");
        assert!(agent.stop().success());
    }
}

/// Answers a list with its object, and a watch with the beginning of a line.
fn begin_a_line(mut stream: TcpStream, watches: &AtomicUsize) {
    let request = http::request(&stream);
    if request.contains("watch=true") {
        watches.fetch_add(1, Ordering::SeqCst);
        let line = "x".repeat((1 << 20) - 1);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        drop(stream.write_all(format!("{head}{:x}\r\n{line}\r\n", line.len()).as_bytes()));
        // Until podnudge has enough of it.
        drop(stream.read(&mut [0]));
        return;
    }
    let name = request.split("metadata.name%3D").nth(1).unwrap_or_default();
    let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
    let metadata = json!({"name": name, "uid": "x", "resourceVersion": "1"});
    let body = json!({
        "kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": metadata}],
        "status": {"allowed": true},
    });
    http::respond(stream, "200 OK", "content-type: application/json\r\n", &body.to_string());
}
