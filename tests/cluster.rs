//! podnudge's access to the Kubernetes API over real sockets: what it sends, what it makes of each answer, and
//! the protocol of the slots through all kinds of faults. `crates/core/tests/slots.rs` has the protocol in virtual time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use podnudge::cluster::Api;
use podnudge::system::surroundings::Server;
use podnudge_config::{self as config, Overrides};
use podnudge_core::api_error::ApiError;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::command::Intent;
use podnudge_core::event::SlotState;
use podnudge_core::reason::Reason;
use podnudge_core::slots::{Lease, LeaseRequest, Slots, SlotsSettings};
use podnudge_core::snapshot::Digest;
use serde_json::{Value, json};

use crate::support::http::{self, wait};
use crate::support::{
    Agent, ApiServer, Application, Fault, ROLLED_OUT, Scene, podnudge, wait_until,
};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/test/leases";
const LIMIT: Duration = Duration::from_secs(20);
const DIGEST: Digest = Digest([7; 32]);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The client of a pod with this token.
fn api(folder: &Path, url: &str, token: &str) -> Api {
    let file = folder.join("token");
    if !file.exists() {
        fs::write(file, format!("{token}\n")).unwrap();
    }
    client(folder, &format!("url = \"{url}\"\n"), None)
}

fn client(folder: &Path, settings: &str, server: Option<Server>) -> Api {
    let folder = folder.display();
    let file = format!(
        "[cluster]\n{settings}namespace = \"test\"\ntoken-file = \"{folder}/token\"\nca-file = \"{folder}/ca.crt\"\n\
         [[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n"
    );
    let (config, warnings) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
    assert_eq!(warnings, []);
    Api::new(config.cluster.unwrap(), server)
}

fn read(name: &str) -> LeaseRequest {
    LeaseRequest::Read(name.to_owned())
}

#[test]
fn a_lease_is_created_read_and_replaced_unless_it_has_changed() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ApiServer::start());
    let api = api(folder.path(), &server.url(), "first");
    wait(async {
        let missing = api.lease(read("web-0"), LIMIT).await.unwrap_err();
        assert!(matches!(missing, ApiError::NotFound(_)), "{missing:?}");
        let made = Lease::new("web-0").held_by("me", secs(15), UnixTime(secs(1)));
        let made = api.lease(made.write(), LIMIT).await.unwrap();
        assert_eq!((made.holder(), made.version()), (Some("me"), "1"));
        // The token is renewed.
        fs::write(folder.path().join("token"), "second").unwrap();
        let read = api.lease(read("web-0"), LIMIT).await.unwrap();
        assert_eq!(read, made);
        let twice = api.lease(Lease::new("web-0").write(), LIMIT).await.unwrap_err();
        assert!(matches!(twice, ApiError::Conflict(_)), "{twice:?}");
        let back = made.clone().given_back(UnixTime(secs(2)));
        assert_eq!(api.lease(back.write(), LIMIT).await.unwrap().holder(), None);
        let stale = api.lease(made.given_back(UnixTime(secs(3))).write(), LIMIT).await.unwrap_err();
        assert!(matches!(stale, ApiError::Conflict(_)), "{stale:?}");
    });
    let seen = server.seen();
    let lines: Vec<&str> = seen.iter().map(|request| request.split(" {").next().unwrap()).collect();
    let (one, all) = (format!("{LEASES}/web-0"), LEASES);
    let [get, put, post] = [format!("GET {one}"), format!("PUT {one}"), format!("POST {all}")];
    assert_eq!(lines, [&get, &post, &get, &post, &put, &put]);
    let heads = server.heads();
    let has =
        |n: usize, header: &str| assert!(heads[n].to_lowercase().contains(header), "{}", heads[n]);
    has(0, "authorization: bearer first\r\n");
    has(2, "authorization: bearer second\r\n");
    has(1, "content-type: application/json\r\n");
    has(0, "accept: application/json\r\n");
    has(0, &format!("user-agent: podnudge/{}\r\n", env!("CARGO_PKG_VERSION")));
    assert!(!heads[0].to_lowercase().contains("content-type"));
}

/// What an answer means, without the text.
fn kind(error: &ApiError) -> String {
    let pause = error.retry_after().map(|pause| format!(" {pause:?}")).unwrap_or_default();
    let name = format!("{error:?}");
    name.split('(').next().unwrap_or_default().to_owned() + &pause
}

/// To connect costs more than a request. The server, or a proxy, may close what is idle at any time.
#[test]
fn requests_in_short_order_share_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let plain = ApiServer::start();
    let (encrypted, port, ca) = crate::support::tls_server::start("localhost");
    let api_of = |url: &str| api(folder.path(), url, "token");
    let (open, safe) = (api_of(&plain.url()), api_of(&format!("https://localhost:{port}")));
    fs::write(folder.path().join("ca.crt"), ca).unwrap();
    for (api, server, with_other_certificates) in [(open, plain, 4), (safe, encrypted, 5)] {
        wait(async {
            let made = Lease::new("web-0").held_by("me", secs(15), UnixTime(secs(1)));
            let made = api.lease(made.write(), LIMIT).await.unwrap();
            for _ in 0..5 {
                assert_eq!(api.lease(read("web-0"), LIMIT).await.unwrap(), made);
            }
            api.lease(read("other"), LIMIT).await.unwrap_err();
            assert_eq!(server.connections(), 1);
            let two =
                tokio::join!(api.lease(read("web-0"), LIMIT), api.lease(read("web-0"), LIMIT));
            assert_eq!(two, (Ok(made.clone()), Ok(made.clone())));
            assert_eq!(server.connections(), 2);
            // It is not known whether a write arrived.
            server.inject("", Fault::Closed);
            assert_eq!(api.lease(read("web-0"), LIMIT).await, Ok(made.clone()));
            assert_eq!(server.connections(), 3);
            server.inject("", Fault::Closed);
            let written = made.given_back(UnixTime(secs(2))).write();
            let unknown = api.lease(written, LIMIT).await.unwrap_err();
            assert!(matches!(unknown, ApiError::Unanswered(_)), "{unknown:?}");
            api.lease(read("web-0"), LIMIT).await.unwrap();
            assert_eq!(server.connections(), 4);
            // Other CA certificates.
            let file = folder.path().join("ca.crt");
            let more = format!("{}\n", fs::read_to_string(&file).unwrap());
            fs::write(&file, more).unwrap();
            api.lease(read("web-0"), LIMIT).await.unwrap();
            assert_eq!(server.connections(), with_other_certificates);
        });
    }
}

#[test]
fn every_answer_that_is_no_success_says_what_could_not_be_done_and_how_to_fix_it() {
    let long: &'static str =
        Box::leak(format!("{{\"x\":\"{}\"}}", "y".repeat(2 * 1024 * 1024)).into_boxed_str());
    let cannot = "cannot get the Lease `web-0` in namespace `test`: ";
    let said = ": injected  [31m";
    let cases: [(Fault, &str, &str, &str); 18] = [
        (
            Fault::Status(401, ""),
            "Refused",
            "the API server answered 401 Unauthorized",
            "the pod needs a service account",
        ),
        (
            Fault::Status(403, ""),
            "Refused",
            "the API server answered 403 Forbidden",
            "add to the Role of podnudge's service account: apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [web-0], verbs: [get]",
        ),
        (
            Fault::Status(404, ""),
            "NotFound",
            "the API server answered 404 Not Found",
            "check the namespace",
        ),
        (Fault::Status(409, ""), "Conflict", "the API server answered 409 Conflict", ""),
        (Fault::Status(410, ""), "Gone", "the API server answered 410 Gone", ""),
        (Fault::Status(422, ""), "Refused", "the API server answered 422 Unprocessable Entity", ""),
        (
            Fault::Status(301, "location: http://x/\r\n"),
            "Refused",
            "the API server answered 301 Moved Permanently",
            "",
        ),
        (
            Fault::Status(429, "retry-after: 7\r\n"),
            "Throttled 7s",
            "the API server answered 429 Too Many Requests",
            "",
        ),
        (Fault::Status(429, "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n"), "Throttled", "", ""),
        (Fault::Status(500, ""), "Failed", "the API server answered 500 Internal Server Error", ""),
        (
            Fault::Status(503, "retry-after: 1\r\n"),
            "Failed 1s",
            "the API server answered 503 Service Unavailable",
            "",
        ),
        (Fault::Done(504), "Failed", "the API server answered 504 Gateway Timeout", ""),
        (Fault::Cut(20), "Unanswered", "GET http://", "check that no NetworkPolicy"),
        (Fault::Cut(120), "Unanswered", "the answer broke off", "check that no NetworkPolicy"),
        (Fault::NoAnswer, "Unanswered", "got no answer within 1s", "check that no NetworkPolicy"),
        (Fault::Closed, "Unanswered", "GET http://", "check that no NetworkPolicy"),
        (Fault::Body("<html>"), "Unusable", "the answer is not a Lease: expected value", ""),
        (Fault::Body(long), "Unusable", "the answer is longer than 2048 KiB", ""),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "token").unwrap();
    std::thread::scope(|scope| {
        for (fault, wanted, message, hint) in cases {
            let folder = folder.path();
            scope.spawn(move || {
                let server = ApiServer::start();
                server.with_store(|store| {
                    store
                        .create(LEASES, json!({"metadata": {"name": "web-0"}, "spec": {}}))
                        .unwrap();
                });
                server.inject("GET", fault.clone());
                let api = api(folder, &server.url(), "token");
                let error = wait(api.lease(read("web-0"), secs(1))).unwrap_err();
                assert_eq!(kind(&error), wanted, "{fault:?}");
                let reason = error.reason();
                assert!(reason.message.starts_with(cannot), "{reason}");
                assert!(reason.message.contains(message), "{reason}");
                if let Fault::Status(..) = fault {
                    assert!(reason.message.ends_with(said), "{reason}");
                }
                let shown = reason.hint.clone().unwrap_or_default();
                assert!(
                    shown.starts_with(hint) && shown.is_empty() == hint.is_empty(),
                    "{fault:?}: {shown}"
                );
                // The next request works again.
                wait(api.lease(read("web-0"), LIMIT)).unwrap();
            });
        }
    });
    // `create` cannot be limited to names.
    let server = ApiServer::start();
    server.inject("POST", Fault::Status(403, ""));
    let api = api(folder.path(), &server.url(), "token");
    let refused = wait(api.lease(Lease::new("web-0").write(), LIMIT)).unwrap_err();
    let hint = "add to the Role of podnudge's service account: apiGroups: [coordination.k8s.io], \
                resources: [leases], verbs: [create]";
    assert_eq!(refused.reason().hint.as_deref(), Some(hint));
}

#[test]
fn what_is_missing_in_the_pod_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let message = |settings: &str, server| {
        let error = wait(client(folder.path(), settings, server).lease(read("web-0"), LIMIT));
        let error = error.unwrap_err();
        assert!(matches!(error, ApiError::Unsent(_) | ApiError::Unanswered(_)), "{error:?}");
        error.reason().to_string()
    };
    let no_token = message("url = \"http://127.0.0.1:1\"\n", None);
    assert!(no_token.contains("/token`; hint: the pod needs a service account"), "{no_token}");
    fs::write(folder.path().join("token"), "\n").unwrap();
    let empty = message("url = \"http://127.0.0.1:1\"\n", None);
    assert!(empty.contains("/token` is empty; hint: the file must contain only"), "{empty}");
    fs::write(folder.path().join("token"), "a").unwrap();
    let refused = message("url = \"http://127.0.0.1:1\"\n", None);
    assert!(refused.contains("cannot connect: Connection refused"), "{refused}");
    let no_pod = message("", None);
    assert!(no_pod.starts_with("`KUBERNETES_SERVICE_HOST` and"), "{no_pod}");
}

#[test]
fn whether_the_pod_is_ready_is_read_from_its_object() {
    let (folder, server) = (tempfile::tempdir().unwrap(), ApiServer::start());
    let api = api(folder.path(), &server.url(), "token");
    let ask = || wait(api.not_ready("web-0", LIMIT));
    assert!(matches!(ask(), Err(ApiError::NotFound(_))));
    let pod = |status: &str| {
        let conditions = json!([{"type": "Ready", "status": status, "message": "not yet"}]);
        json!({"metadata": {"name": "web-0"}, "status": {"conditions": conditions}})
    };
    let pods = "/api/v1/namespaces/test/pods";
    server.with_store(|store| store.create(pods, pod("False")).unwrap());
    assert_eq!(ask().unwrap().unwrap().message, "not yet");
    server.with_store(|store| store.patch(&format!("{pods}/web-0"), &pod("True")).unwrap());
    assert_eq!(ask(), Ok(None));
    server.inject("GET", Fault::Status(403, ""));
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [pods], verbs: [get]";
    assert_eq!(ask().unwrap_err().reason().hint.as_deref(), Some(hint));
}

#[test]
fn what_is_missing_is_said_at_start_and_ends_nothing() {
    let scene = Scene::with(&[("a.conf", "0")]);
    let config = scene.path("podnudge.toml");
    let volume = scene.path("volume");
    let text = format!(
        "[agent]\nlog = \"json\"\nlisten = \"off\"\n[cluster]\nnamespace = \"test\"\n[[rule]]\n\
         watch = {volume:?}\nhttp.url = \"http://127.0.0.1:1/\"\nlimit.lease = \"web\"\n"
    );
    fs::write(&config, text).unwrap();
    let mut command = podnudge();
    command.arg("--config").arg(config);
    let agent = Agent::spawn(scene.folder.path(), command);
    agent.wait_for("api-unusable", 1);
    assert!(agent.last("api-unusable", "hint").contains("where it runs in a pod"));
    agent.wait_for("baseline|fresh|scheduled|volume-missing", 1);
}

/// A client of the protocol with real requests. Its clock is that of the machine, but waits are skipped.
struct Client {
    api: Api,
    slots: Slots,
    clock: Duration,
    skew: Duration,
}

impl Client {
    fn new(api: Api, holder: &str, skew: Duration) -> Self {
        let settings = SlotsSettings {
            name: "web".to_owned(),
            count: 1,
            duration: secs(3),
            cover: secs(3),
            holder: holder.to_owned(),
            seed: 1,
        };
        Self { api, slots: Slots::new(settings, Moment(secs(1000))), clock: secs(1000), skew }
    }

    fn now(&self) -> Now {
        Now { mono: Moment(self.clock), wall: UnixTime(self.clock + self.skew) }
    }

    fn claim(&mut self) {
        self.slots.claim(self.now(), DIGEST, Intent::Act);
    }

    /// Sends what is due within this time.
    fn play(&mut self, time: Duration) -> SlotState {
        let end = self.clock + time;
        loop {
            if let Some((_, true)) = self.slots.watched(Moment(self.clock)) {
                let refused = Err(ApiError::Refused(Reason::new("it may not watch")));
                self.slots.watch_ended(Moment(self.clock), &refused);
            }
            if let Some(request) = self.slots.next_request(self.now()) {
                let limit = self.slots.time_limit();
                #[expect(clippy::disallowed_methods, reason = "the time of a real request counts")]
                let sent = Instant::now();
                let answer = wait(self.api.lease(request, limit));
                self.clock += sent.elapsed();
                self.slots.handle(self.now(), answer);
                continue;
            }
            match self.slots.next_wakeup(Moment(self.clock)) {
                Some(Moment(at)) if at < end => {
                    self.clock = at.max(self.clock + Duration::from_nanos(1));
                }
                _ => break,
            }
        }
        self.clock = self.clock.max(end);
        self.slots.state(Moment(self.clock))
    }
}

fn holder(server: &ApiServer) -> Value {
    server.with_store(|store| {
        store.get(&format!("{LEASES}/web-0")).unwrap()["spec"]["holderIdentity"].clone()
    })
}

/// Every fault, at each step of the protocol: creating the Lease, reading, taking, and giving it back.
#[test]
fn a_slot_is_taken_and_given_back_through_every_kind_of_fault() {
    let faults = [
        Fault::Status(409, ""),
        Fault::Status(410, ""),
        Fault::Status(429, "retry-after: 1\r\n"),
        Fault::Status(500, ""),
        Fault::Status(503, "retry-after: 1\r\n"),
        Fault::Done(500),
        Fault::Cut(30),
        Fault::Cut(150),
        Fault::NoAnswer,
        Fault::Closed,
        Fault::Body("{}"),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "token").unwrap();
    std::thread::scope(|scope| {
        for (n, fault) in faults.into_iter().enumerate() {
            let folder = folder.path();
            scope.spawn(move || {
                let server = ApiServer::start();
                for method in ["GET", "POST", "PUT"] {
                    server.inject(method, fault.clone());
                }
                // Clocks of up to five minutes before and after the truth.
                let skew = secs(60 * u64::try_from(n).unwrap());
                let mut client = Client::new(api(folder, &server.url(), "token"), "a_b_c", skew);
                client.claim();
                let held = client.play(secs(12));
                assert!(matches!(held, SlotState::Held { .. }), "{fault:?}: {held:?}");
                assert_eq!(holder(&server), "a_b_c");
                server.inject("PUT", fault.clone());
                client.slots.release();
                assert_eq!(client.play(secs(12)), SlotState::Free, "{fault:?}");
                assert_eq!(holder(&server), "", "{fault:?}");
                assert_eq!(client.slots.next_wakeup(Moment(client.clock)), None, "{fault:?}");
            });
        }
    });
}

#[test]
fn a_replica_that_is_cut_off_stops_before_another_one_takes_its_slot() {
    let (folders, server) = ([(); 2].map(|()| tempfile::tempdir().unwrap()), ApiServer::start());
    let [mut one, mut other] = [("one", 0), ("other", 600)].map(|(name, skew)| {
        let folder = folders[usize::from(skew > 0)].path();
        Client::new(api(folder, &server.url(), name), &format!("{name}_u_r"), secs(skew))
    });
    one.claim();
    other.claim();
    assert!(matches!(one.play(secs(10)), SlotState::Held { .. }));
    assert!(matches!(other.play(secs(1)), SlotState::Waiting(_)));
    server.partition("Bearer one\r\n", Fault::Closed);
    let lost = one.play(secs(3));
    assert!(matches!(lost, SlotState::Lost(_)), "{lost:?}");
    assert!(matches!(other.play(secs(6)), SlotState::Held { .. }));
    server.heal();
    let SlotState::Lost(reason) = one.play(secs(2)) else { panic!("it is not lost") };
    assert_eq!(reason.message, "the slot `web-0` was taken by pod other");
    other.slots.release();
    assert_eq!(other.play(secs(1)), SlotState::Free);
    assert!(matches!(one.play(secs(10)), SlotState::Held { .. }));
    let tokens: BTreeSet<bool> =
        server.heads().iter().map(|head| head.contains("Bearer one\r\n")).collect();
    assert_eq!(tokens.len(), 2);
}

/// A podnudge in a pod of its own, with the same content as the others.
struct Pod {
    agent: Agent,
    scene: Scene,
}

impl Pod {
    /// `rule` gives the URL to reload by, and further settings; it gets the pod's folder.
    fn start(name: &str, server: &ApiServer, rule: impl FnOnce(&Path) -> (String, String)) -> Self {
        Self::start_with(name, server, "off", "lease = \"web\"", rule)
    }

    /// `listen` is the address of its port, and `limit` has the settings of its slots.
    fn start_with(
        name: &str,
        server: &ApiServer,
        listen: &str,
        limit: &str,
        rule: impl FnOnce(&Path) -> (String, String),
    ) -> Self {
        let scene = Scene::with(&[("a.conf", "0")]);
        let (url, settings) = rule(scene.folder.path());
        let text = format!(
            "agent.listen = \"{listen}\"\nCLUSTER\n[[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\nretry = {{ attempts = 1 }}\n\
             limit = {{ {limit} }}\nhttp = {{ url = \"{url}\" }}\n{settings}",
        );
        let podnudge = scene.in_cluster(server, name, &text);
        let agent = scene.start(podnudge, "baseline|published");
        Self { agent, scene }
    }

    fn change(&mut self, content: &str) {
        self.scene.change(content);
    }
}

/// The pods whose application was reloaded, each with the holder of the slot then.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// Serves reloads, and keeps who asked and who held the slot then.
fn application(server: &ApiServer) -> (String, Asked) {
    let (server, asked) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&asked);
    let url = http::server(move |stream| {
        let text = http::request(&stream);
        let name = text.split(['?', ' ']).nth(2).unwrap_or_default().to_owned();
        let holder = holder(&server).as_str().unwrap_or_default().to_owned();
        kept.lock().unwrap().push((name, holder));
        http::respond(stream, "200 OK", "", "");
    });
    (url, asked)
}

#[test]
fn real_podnudges_act_one_after_the_other_each_with_the_slot() {
    let server = ApiServer::start();
    let (url, asked) = application(&server);
    let names = ["web-0", "web-1", "web-2"];
    let mut pods = names.map(|name| {
        Pod::start(name, &server, |_| {
            (format!("{url}?{name}"), "on-start = \"never\"\n".to_owned())
        })
    });
    // The preflight of the rights at the start: five for the Leases, and one for the pod.
    wait_until("each has asked for its rights", || server.reviews().len() == 6 * names.len());
    // Each looks once whether there is a Lease.
    wait_until("the Lease is there", || server.seen().len() > names.len());
    let other: Vec<_> = server.seen().into_iter().filter(|it| !it.contains("/leases")).collect();
    assert_eq!(other, Vec::<String>::new(), "a request without a change");
    for round in 1..=2 {
        for pod in &mut pods {
            pod.change(&round.to_string());
        }
        for pod in &pods {
            pod.agent.wait_for(ROLLED_OUT, round);
        }
    }
    wait_until("the slot is given back", || holder(&server) == "");
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    let wanted = names.map(|name| (name.to_owned(), format!("{name}_default")));
    let wanted: Vec<_> = wanted.iter().flat_map(|pair| [pair.clone(), pair.clone()]).collect();
    assert_eq!(asked, wanted);
}

/// A suspended machine, a frozen container or a starved CPU: what podnudge last knew of its slot is old when it
/// goes on.
#[test]
fn a_podnudge_that_was_stopped_for_longer_than_its_slot_lasts_does_not_act_with_it() {
    let server = ApiServer::start();
    let (url, asked) = application(&server);
    let limit = "lease = \"web\", lease-duration = \"3s\", on-unreachable = \"wait\"";
    let [mut one, mut other] = ["web-0", "web-1"].map(|name| {
        Pod::start_with(name, &server, "127.0.0.1:0", limit, |_| {
            let drain = "drain = { before = \"action\", wait = \"2s\" }\n";
            (format!("{url}?{name}"), format!("on-start = \"never\"\n{drain}"))
        })
    });
    one.change("1");
    one.agent.wait_for("draining", 1);
    one.agent.signal(Signal::SIGSTOP);
    other.change("1");
    // Its slot and its drain have ended by then, and the other one drains.
    wait_until("the other one has the slot", || holder(&server) == "web-1_default");
    one.agent.signal(Signal::SIGCONT);
    one.agent.wait_for(ROLLED_OUT, 1);
    one.agent.wait_for("slot-lost", 1);
    let asked = asked.lock().unwrap().clone();
    let wanted = ["web-1", "web-0"].map(|name| (name.to_owned(), format!("{name}_default")));
    assert_eq!(asked, wanted);
}

/// What a proof compares with is read before the action, and that may take longer than the slot lasts.
#[test]
fn a_slot_that_expires_while_a_proof_is_prepared_is_not_acted_with() {
    let server = ApiServer::start();
    let (url, asked) = application(&server);
    let (requests, may_answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (counts, waits) = (Arc::clone(&requests), Arc::clone(&may_answer));
    let state = http::server(move |stream| {
        http::request(&stream);
        let number = counts.fetch_add(1, Ordering::Relaxed);
        wait_until("it may answer", || waits.load(Ordering::Relaxed));
        http::respond(stream, "200 OK", "", &format!("{{\"reloads\": {number}}}"));
    });
    let limit = "lease = \"web\", lease-duration = \"3s\", on-unreachable = \"wait\"";
    let start = |name: &str, settings: String| {
        Pod::start_with(name, &server, "127.0.0.1:0", limit, |_| {
            (format!("{url}?{name}"), format!("on-start = \"never\"\n{settings}"))
        })
    };
    let proof = format!("verify = {{ http = \"{state}\", json-grew = \"/reloads\" }}\n");
    let mut one = start("web-0", proof);
    // It holds its slot for a while.
    let mut other = start("web-1", "drain = { before = \"action\", wait = \"2s\" }\n".to_owned());
    wait_until("the preflight has looked at the proof", || requests.load(Ordering::Relaxed) == 1);
    may_answer.store(false, Ordering::Relaxed);
    one.change("1");
    one.agent.wait_for("slot-held", 1);
    wait_until("the proof is prepared", || requests.load(Ordering::Relaxed) == 2);
    one.agent.signal(Signal::SIGSTOP);
    other.change("1");
    wait_until("the other one has the slot", || holder(&server) == "web-1_default");
    may_answer.store(true, Ordering::Relaxed);
    one.agent.signal(Signal::SIGCONT);
    one.agent.wait_for(ROLLED_OUT, 1);
    let asked = asked.lock().unwrap().clone();
    let wanted = ["web-1", "web-0"].map(|name| (name.to_owned(), format!("{name}_default")));
    assert_eq!(asked, wanted);
}

/// The kubelet renews the token, and an API server that starts refuses what it will accept.
#[test]
fn a_single_refusal_of_the_own_pod_does_not_give_the_slot_back() {
    let server = ApiServer::start();
    let (url, _) = application(&server);
    let pods = "/api/v1/namespaces/test/pods";
    let pod = |ready: &str| {
        let conditions = json!([{"type": "Ready", "status": ready, "message": "it starts"}]);
        json!({"metadata": {"name": "web-0"}, "status": {"conditions": conditions}})
    };
    server.with_store(|store| store.create(pods, pod("False")).unwrap());
    server.inject("/pods/web-0", Fault::Status(401, ""));
    server.inject("/pods/web-0", Fault::Status(429, "retry-after: 2\r\n"));
    let mut one = Pod::start_with("web-0", &server, "127.0.0.1:0", "lease = \"web\"", |_| {
        let drain = "drain = { before = \"action\", wait = \"100ms\" }\n";
        (format!("{url}?web-0"), format!("on-start = \"never\"\n{drain}"))
    });
    let asked = || server.heads().iter().filter(|head| head.contains("/pods/web-0")).count();
    one.change("1");
    one.agent.wait_for(ROLLED_OUT, 1);
    wait_until("the pod is asked for again", || asked() > 2);
    assert_eq!(holder(&server), "web-0_default");
    assert_eq!(one.agent.count("readiness-unknown"), 0);
    server.with_store(|store| store.patch(&format!("{pods}/web-0"), &pod("True")).unwrap());
    wait_until("the slot is given back", || holder(&server) == "");
    // The right is missing.
    server.partition("/pods/web-0", Fault::Status(403, ""));
    one.change("2");
    one.agent.wait_for("readiness-unknown", 1);
    wait_until("the slot is given back", || holder(&server) == "");
    let hint = "add to the Role of podnudge's service account: apiGroups: [\"\"], resources: [pods], verbs: [get]";
    assert_eq!(one.agent.last("readiness-unknown", "hint"), hint);
}

/// Pods whose podnudges publish, each with its application.
fn publishing_pods(server: &ApiServer) -> ([Pod; 2], Vec<Application>) {
    let mut applications = Vec::new();
    let pods = ["web-0", "web-1"].map(|name| {
        Pod::start(name, server, |folder| {
            let directory = folder.join("published");
            let application = Application::start(&directory, "a.conf");
            let url = application.url();
            applications.push(application);
            (url, format!("[rule.publish]\ndir = \"{}\"\n", directory.display()))
        })
    });
    (pods, applications)
}

fn change_all(pods: &mut [Pod], content: &str) {
    for pod in pods {
        pod.change(content);
    }
}

/// How many applications run this content.
fn running(applications: &[Application], content: &str) -> usize {
    let last = |application: &&Application| application.reloads().last().cloned();
    applications.iter().filter(|it| last(it).as_deref() == Some(content)).count()
}

/// How many applications were asked to run this content.
fn asked_for(applications: &[Application], content: &str) -> usize {
    applications.iter().filter(|it| it.reloads().contains(&content.to_owned())).count()
}

#[test]
fn content_that_one_application_rejects_does_not_reach_the_others() {
    let server = ApiServer::start();
    let (mut pods, applications) = publishing_pods(&server);
    change_all(&mut pods, "good");
    wait_until("both have the first change", || running(&applications, "good") == 2);
    change_all(&mut pods, "broken");
    wait_until("one of them is held, and says why", || {
        pods.iter().any(|pod| pod.agent.last("held", "reason").contains("failed on pod web-"))
    });
    let annotations = server.with_store(|store| store.get(&format!("{LEASES}/web-0")).unwrap())
        ["metadata"]["annotations"]
        .clone();
    assert!(annotations["podnudge.io/halted"].as_str().unwrap().contains("400 Bad Request"));
    change_all(&mut pods, "better");
    wait_until("both have the next change", || running(&applications, "better") == 2);
    assert_eq!(asked_for(&applications, "broken"), 1);
}

/// The application of a pod that is being deleted ends, whatever it has read; beside a native sidecar it does so
/// before podnudge is asked to stop.
#[test]
fn what_fails_in_a_pod_that_is_being_deleted_says_nothing_about_the_content() {
    let server = ApiServer::start();
    let (mut pods, applications) = publishing_pods(&server);
    change_all(&mut pods, "good");
    wait_until("both have the first change", || running(&applications, "good") == 2);
    for name in ["web-0", "web-1"] {
        let pod = json!({"metadata": {"name": name, "deletionTimestamp": "2026-11-23T03:00:00Z"}});
        server.with_store(|store| store.create("/api/v1/namespaces/test/pods", pod).unwrap());
    }
    change_all(&mut pods, "broken");
    wait_until("the other one is not held", || asked_for(&applications, "broken") == 2);
    let lease = server.with_store(|store| store.get(&format!("{LEASES}/web-0")).unwrap());
    assert_eq!(lease["metadata"]["annotations"]["podnudge.io/halted"], json!(null));
}

mod tls {
    use super::*;
    use crate::support::tls_server::start;

    #[test]
    fn in_a_pod_the_server_is_found_and_trusted_only_with_a_certificate_of_the_mounted_ca() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "token").unwrap();
        let ask = |host: &str, port: &str| {
            let server = Server { host: host.to_owned(), port: port.to_owned() };
            wait(client(folder.path(), "", Some(server)).lease(read("web-0"), LIMIT)).unwrap_err()
        };
        let (server, port, ca) = start("127.0.0.1");
        let no_ca = ask("127.0.0.1", &port);
        assert!(no_ca.reason().message.ends_with("/ca.crt`"), "{no_ca:?}");
        fs::write(folder.path().join("ca.crt"), ca).unwrap();
        // The answer of the server itself.
        let found = ask("127.0.0.1", &port);
        assert!(matches!(found, ApiError::NotFound(_)), "{found:?}");
        // The certificate is for the address, and of this CA.
        let wrong_name = ask("localhost", &port);
        assert!(wrong_name.reason().message.contains("certificate"), "{wrong_name:?}");
        let (other, other_port, _) = start("127.0.0.1");
        let wrong_ca = ask("127.0.0.1", &other_port);
        assert!(wrong_ca.reason().message.contains("certificate"), "{wrong_ca:?}");
        assert_eq!((server.seen().len(), other.seen().len()), (1, 0));
    }
}
