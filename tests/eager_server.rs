//! Eager sync of the real podnudge: a small API server, real volumes, and a stand-in for the kubelet, which
//! writes the volume when the pod is annotated.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::Signal;
use podnudge::cluster::object_rights;
use podnudge::config::{ObjectKind, ObjectName};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::api_server::{ApiServer, Fault, Store};
use crate::support::application::Application;
use crate::support::http;
use crate::support::kubelet::{Kubelet, payload, temporary_volume};
use crate::support::memory::MemoryLimit;
use crate::support::program::podnudge;
use crate::support::rights::{access, rights_of};
use crate::support::wait::wait_until;

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

struct Scene {
    server: ApiServer,
    agent: Agent,
    kubelet: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    _folder: TempDir,
}

impl Drop for Scene {
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

impl Scene {
    /// `cluster` are more settings of `[cluster]`.
    fn start(cluster: &str) -> Self {
        Self::with(cluster, |_| {})
    }

    fn with(cluster: &str, before: impl FnOnce(&ApiServer)) -> Self {
        let (folder, kubelet) = temporary_volume(&[("a.conf", "0")]);
        let server = ApiServer::start();
        server.with_store(|store| {
            store.create(MAPS, object("app", "0")).unwrap();
            store.create(MAPS, object("other", "0")).unwrap();
            store.create(SECRETS, object("tls", "0")).unwrap();
            store.create(PODS, pod(&kubelet.volume)).unwrap();
        });
        before(&server);
        let url = Application::start(&kubelet.volume, "a.conf").url();
        let (token, config) = (folder.path().join("token"), folder.path().join("podnudge.toml"));
        fs::write(&token, "token").unwrap();
        let text = format!(
            "[agent]\nlog = \"json\"\nlisten = \"off\"\nlog-level = \"debug\"\n\
             [cluster]\nurl = \"{}\"\nnamespace = \"test\"\ntoken-file = \"{}\"\n{cluster}\n\
             [[rule]]\nwatch = \"{}\"\nsettle = \"0s\"\non-start = \"never\"\nhttp.url = \"{url}\"\n",
            server.url(),
            token.display(),
            kubelet.volume.display(),
        );
        fs::write(&config, &text).unwrap();
        // Without `objects`, it finds this one.
        let app = ObjectName { kind: ObjectKind::ConfigMap, name: "app".to_owned() };
        server.grant(rights_of(&text).into_iter().chain(object_rights(&app).map(access)));
        let mut command = podnudge();
        command.arg("--config").arg(config).env("PODNUDGE_POD_NAME", "web-0");
        let agent = Agent::spawn(folder.path(), command);
        agent.wait_for("baseline", 1);
        let is_over = Arc::default();
        let kubelet = follow(kubelet, server.clone(), Arc::clone(&is_over));
        Self { server, agent, kubelet: Some(kubelet), is_over, _folder: folder }
    }

    fn edit(&self, content: &str) {
        let path = format!("{MAPS}/app");
        self.server.with_store(|store| {
            store.patch(&path, &json!({"data": {"a.conf": content}})).unwrap();
        });
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
    let scene = Scene::start("eager-sync = true");
    scene.wait_until_watched();
    assert_eq!(scene.agent.last("watching-objects", "objects"), "configmap/app");
    // The preflight tries whether a label may be changed.
    let patches = || {
        let mut patches = scene.requests("PATCH");
        patches.retain(|patch| !patch.contains("podnudge.io/trial"));
        patches
    };
    let [trial] = &patches()[..] else { panic!("{:?}", scene.server.seen()) };
    assert!(trial.starts_with(&format!("PATCH {PODS}/web-0?dryRun=All ")), "{trial}");
    for (number, content) in ["1", "2", "3"].into_iter().enumerate() {
        scene.edit(content);
        scene.wait_for_edit(number + 1);
    }
    let version = |request: &String| {
        request.contains(r#"{"metadata":{"annotations":{"podnudge.io/sync":"configmap/app "#)
    };
    assert!(patches().iter().skip(1).all(version), "{:?}", scene.server.seen());
    let patch = scene.server.heads().into_iter().rfind(|head| head.starts_with("PATCH")).unwrap();
    assert!(patch.contains("content-type: application/merge-patch+json\r\n"), "{patch}");
    let status = scene.status();
    assert_eq!(status["edit_to_commit"]["buckets"].as_array().unwrap().len(), 13, "{status}");
    assert!(status["objects"][0]["edit_to_commit_seconds"].as_f64().unwrap() < 5.0, "{status}");
    assert!(status["syncs_requested"].as_u64().unwrap() >= 3, "{status}");
    // Only the metadata, and only of the one object.
    assert!(scene.requests("/configmaps").iter().all(|it| it.contains("metadata.name%3Dapp")));
    assert_eq!(scene.requests("/secrets"), Vec::<String>::new());
}

#[test]
fn named_objects_need_no_right_to_read_pods_and_others_are_not_noticed() {
    let cluster = "eager-sync = true\nobjects = [\"configmap/app\", \"secret/tls\"]";
    let scene = Scene::start(cluster);
    scene.wait_until_watched();
    assert_eq!(scene.requests("GET /api/v1/namespaces/test/pods"), Vec::<String>::new());
    scene.edit("1");
    scene.wait_for_edit(1);
    scene.server.with_store(|store| {
        let other = json!({"data": {"a.conf": "x"}});
        store.patch(&format!("{MAPS}/other"), &other).unwrap();
        store.patch(&format!("{SECRETS}/tls"), &other).unwrap();
    });
    scene.agent.wait_for("edited", 2);
    assert_eq!(scene.agent.last("edited", "object"), "secret/tls");
    wait_until("the pod is annotated", || scene.annotations() == 2);
}

#[test]
fn a_watch_goes_on_after_bookmarks_its_end_errors_endless_lines_and_broken_connections() {
    let scene = Scene::start("eager-sync = true");
    scene.wait_until_watched();
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
        let before = scene.watches();
        change(&scene.server);
        if number > 0 {
            wait_until("it is watched again", || scene.watches() > before && scene.is_watched());
        }
        scene.edit(&format!("change {number}"));
        scene.wait_for_edit(number + 1);
    }
    assert_eq!(scene.agent.count("edited"), 5, "what is too long is not read");
    assert_eq!(scene.agent.count("eager-sync-unavailable"), 0, "{}", scene.agent.log());
}

#[test]
fn a_server_that_does_not_answer_is_asked_again() {
    let scene = Scene::with("eager-sync = true", |server| {
        server.inject("GET /api/v1/namespaces/test/configmaps", Fault::NoAnswer);
    });
    scene.edit("before it was listed");
    scene.wait_until_watched();
    scene.edit("1");
    scene.wait_for_edit(1);
}

#[test]
fn an_object_that_is_replaced_is_noticed_also_while_nobody_watches() {
    let scene = Scene::start("eager-sync = true");
    scene.wait_until_watched();
    let replace = |content: &str| {
        scene.server.with_store(|store| {
            store.delete(&format!("{MAPS}/app")).unwrap();
            store.create(MAPS, object("app", content)).unwrap();
        });
    };
    replace("1");
    scene.wait_for_edit(1);
    // The server is away: the connection is cut, and no new one succeeds.
    scene.server.partition("configmaps", Fault::Closed);
    scene.server.with_store(|store| store.history.end_watches(true));
    wait_until("it is not watched", || !scene.is_watched());
    replace("2");
    scene.server.heal();
    scene.wait_for_edit(2);
}

#[test]
fn without_a_right_everything_else_works_and_it_is_said_once() {
    let scene = Scene::with("eager-sync = true\nobjects = [\"secret/tls\"]", |server| {
        server.partition("/secrets", Fault::Status(403, ""));
    });
    scene.agent.wait_for("eager-sync-unavailable", 1);
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [secrets], resourceNames: [tls], verbs: [list, watch]";
    assert_eq!(scene.agent.last("eager-sync-unavailable", "hint"), hint);
    // The kubelet's own sync.
    scene.edit("1");
    scene.annotate_pod();
    scene.agent.wait_for("applied", 1);
    assert_eq!(scene.status()["objects"][0]["watched"], false);
    scene.server.heal();
    scene.agent.wait_for("eager-sync-available", 1);
    assert_eq!(scene.agent.count("eager-sync-unavailable"), 1);
}

#[test]
fn an_annotation_that_is_not_allowed_is_found_at_the_start() {
    let scene = Scene::with("eager-sync = true", |server| {
        server.partition("PATCH", Fault::Status(403, ""));
    });
    scene.agent.wait_for("eager-sync-unavailable", 1);
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [pods], verbs: [patch]";
    assert_eq!(scene.agent.last("eager-sync-unavailable", "hint"), hint);
    scene.edit("1");
    scene.agent.wait_for("edited", 1);
}

#[test]
fn podnudge_stops_at_once_although_it_watches() {
    let mut scene = Scene::start("eager-sync = true");
    scene.wait_until_watched();
    scene.agent.signal(Signal::SIGTERM);
    wait_until("it has ended", || scene.agent.has_ended());
    scene.agent.wait_for("stopped", 1);
    assert_eq!(scene.agent.count("grace-over"), 0);
}

#[test]
fn without_eager_sync_there_is_not_one_request() {
    let scene = Scene::start("");
    scene.edit("1");
    scene.annotate_pod();
    scene.agent.wait_for("applied", 1);
    assert_eq!(scene.status(), Value::Null);
    assert_eq!(scene.server.seen(), Vec::<String>::new());
    assert_eq!(scene.server.reviews(), Vec::<Value>::new());
}

/// An API server whose watches send the beginning of a line, and nothing more: 16 of just under 1 MiB are more than
/// podnudge may hold. The binary is the one that ships.
#[test]
fn unfinished_lines_of_many_watches_are_bounded_under_the_memory_limit() {
    const OBJECTS: usize = 16;
    let binary = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = binary.join("target/x86_64-unknown-linux-gnu/release/podnudge");
    assert!(binary.exists(), "{} is not built: run ./test", binary.display());
    let (folder, kubelet) = temporary_volume(&[("a.conf", "0")]);
    let watches = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&watches);
    let server = http::server(move |stream| {
        let begun = Arc::clone(&begun);
        thread::spawn(move || begin_a_line(stream, &begun));
    });
    let server = server.strip_suffix("/-/reload").unwrap();
    let objects: Vec<String> = (0..OBJECTS).map(|n| format!("\"configmap/c{n}\"")).collect();
    let application = Application::start(&kubelet.volume, "a.conf");
    let config = folder.path().join("podnudge.toml");
    fs::write(folder.path().join("token"), "token").unwrap();
    let text = format!(
        "[cluster]\nurl = \"{server}\"\nnamespace = \"test\"\ntoken-file = \"{0}/token\"\n\
         eager-sync = true\nobjects = [{1}]\n\
         [[rule]]\nwatch = \"{0}/volume\"\nsettle = \"0s\"\non-start = \"never\"\nhttp.url = \"{2}\"\n",
        folder.path().display(),
        objects.join(", "),
        application.url(),
    );
    fs::write(&config, text).unwrap();
    let limit = MemoryLimit::new(32 << 20);
    let mut peak = limit.measure();
    let mut command = limit.command(&binary);
    command.args(["--log", "json", "--listen", "off", "--config"]).arg(&config);
    command.env("POD_NAME", "web-0");
    let mut agent = Agent::spawn(folder.path(), command);
    wait_until("each line was given up, and its object watched again", || {
        assert!(!agent.has_ended(), "podnudge ended: {}", agent.log());
        watches.load(Ordering::SeqCst) >= 3 * OBJECTS
    });
    println!("{OBJECTS} watches with unfinished lines: at most {} KiB", peak.read());
    assert_eq!(limit.ended(), 0, "the kernel has ended a process");
    assert!(agent.stop().success());
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
