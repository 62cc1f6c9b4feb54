//! A small Kubernetes API server: objects in memory, with resource versions, over real sockets, and faults
//! that a test injects.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::access::{self, Access};
use super::http::request;
use super::pages;
use super::watches::{self, History, Watch};

pub(crate) use super::store::Refusal;

/// The objects, and what watches are told of them.
pub(crate) type Store = super::store::Store<History>;

impl Store {
    /// How many objects there are whose path begins so, and some of them.
    pub(crate) fn page(&self, path: &str, first: usize, most: usize) -> (usize, Vec<Value>) {
        let is_below = |(other, _): &(&String, &Value)| other.starts_with(path);
        let below = || self.objects.iter().filter(is_below);
        let page = below().skip(first).take(most).map(|(_, object)| object.clone());
        (below().count(), page.collect())
    }

    /// The objects of a collection with the label that the query asks for, or the next of them.
    fn list(&self, collection: &str, line: &str) -> Value {
        let query = |key| watches::parameter(line, key).unwrap_or_default();
        let selector = query("labelSelector").replace("%2F", "/").replace("%3D", "=");
        let (key, value) = selector.split_once('=').expect("a label and its value");
        let mut items = self.below(&format!("{collection}/"));
        items.retain(|object| object["metadata"]["labels"][key] == value);
        let (first, most) = (query("continue").parse().unwrap_or(0), query("limit").parse());
        let end = (first + most.unwrap_or(usize::MAX)).min(items.len());
        let next = if end < items.len() { end.to_string() } else { String::new() };
        let kind = "EndpointSliceList";
        json!({"kind": kind, "metadata": {"continue": next}, "items": items[first..end]})
    }

    /// Begins to delete a pod. `path` is that of its eviction.
    fn evict(&mut self, path: &str, eviction: &Value) -> Result<Value, Refusal> {
        let path = path.trim_end_matches("/eviction");
        let pod = self.get(path)?;
        let uid = &eviction["deleteOptions"]["preconditions"]["uid"];
        if !uid.is_null() && *uid != pod["metadata"]["uid"] {
            return Err((409, "Conflict"));
        }
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        self.patch(path, &deleted)?;
        Ok(json!({"kind": "Status", "status": "Success"}))
    }

    /// Tells all watches the present version.
    pub(crate) fn bookmark(&mut self) {
        self.version += 1;
        self.history.bookmark(self.version);
    }

    /// A version from before is too old for a watch from now on.
    pub(crate) fn compact(&mut self) {
        self.version += 1;
        self.history.compact(self.version);
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// It is answered with this status and these headers, and not carried out.
    Status(u16, &'static str),
    /// It is carried out, and answered with this status.
    Done(u16),
    /// It is carried out, and its answer ends after this many bytes.
    Cut(usize),
    /// It is carried out, and never answered.
    NoAnswer,
    /// The connection is closed, and it is not carried out.
    Closed,
    /// It is carried out, and answered with this body.
    Body(&'static str),
    /// It is carried out after [`ApiServer::heal`].
    Late,
}

/// A predicate on a request: its first line and its headers and body.
type Selects = Box<dyn Fn(&str) -> bool + Send>;

#[derive(Default)]
struct Shared {
    store: Store,
    /// The requests but access reviews, in order: the first line and the body.
    seen: Vec<String>,
    /// Their first lines and headers.
    heads: Vec<String>,
    connections: usize,
    /// The bodies of the access reviews.
    reviews: Vec<Value>,
    /// The rights of the service account; `None` if it may do everything.
    rights: Option<BTreeSet<Access>>,
    /// Whether no policy limits what a service account may do with its pod.
    is_unlimited: bool,
    /// Each is used once, for the first request that it selects.
    faults: VecDeque<(Selects, Fault)>,
    /// For all requests that it selects.
    partition: Option<(Selects, Fault)>,
}

/// A server on a port of the loopback interface.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub(crate) address: String,
    shared: Arc<Mutex<Shared>>,
    /// Notified when a partition ends.
    healed: Arc<Condvar>,
}

impl ApiServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Self { address, shared: Arc::default(), healed: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves the requests of a connection, which may be encrypted.
    pub(crate) fn serve(&self, mut stream: impl Read + Write) {
        self.shared.lock().unwrap().connections += 1;
        while self.serve_one(&mut stream) {}
    }

    /// Returns whether the connection stays open.
    fn serve_one(&self, mut stream: impl Read + Write) -> bool {
        let text = request(&mut stream);
        if text.is_empty() {
            return false;
        }
        self.record(&text);
        self.wait_if_late(&text);
        let (fault, answer) = self.answer(&text);
        if let (None, Ok(_), Some(watch)) = (&fault, &answer, Watch::of(&text)) {
            watch.serve(self, stream);
            return false;
        }
        let whole = match (&fault, answer) {
            (Some(Fault::Closed | Fault::NoAnswer), _) => String::new(),
            (Some(Fault::Status(status, headers)), _) => {
                let said =
                    json!({"kind": "Status", "code": status, "message": "injected \u{1b}[31m"});
                whole(*status, headers, &said.to_string())
            }
            (Some(Fault::Done(status)), _) => whole(*status, "", "{}"),
            (Some(Fault::Body(body)), _) => whole(200, "", body),
            (_, Ok(object)) => whole(200, "", &object.to_string()),
            (_, Err((status, reason))) => {
                let said =
                    json!({"kind": "Status", "code": status, "reason": reason, "message": reason});
                whole(status, "", &said.to_string())
            }
        };
        let end =
            if let Some(Fault::Cut(bytes)) = fault { bytes.min(whole.len()) } else { whole.len() };
        drop(stream.write_all(&whole.as_bytes()[..end]));
        drop(stream.flush());
        if fault == Some(Fault::NoAnswer) {
            // Until the client gives up.
            drop(stream.read(&mut [0]));
        }
        !matches!(fault, Some(Fault::Closed | Fault::NoAnswer | Fault::Cut(_)))
    }

    fn record(&self, text: &str) {
        let mut shared = self.shared.lock().unwrap();
        let (line, body) = parts(text);
        if is_review(line) {
            shared.reviews.push(serde_json::from_str(body).unwrap());
        } else {
            let line = line.trim_end_matches(" HTTP/1.1");
            shared.seen.push(format!("{line} {body}").trim_end().to_owned());
            shared.heads.push(text[..text.len() - body.len()].to_owned());
        }
    }

    fn wait_if_late(&self, text: &str) {
        let is_late = |shared: &mut Shared| {
            let partition = shared.partition.as_ref();
            partition.is_some_and(|(is, fault)| *fault == Fault::Late && is(text))
        };
        drop(self.healed.wait_while(self.shared.lock().unwrap(), is_late).unwrap());
    }

    /// Carries out a request, unless a fault prevents it.
    fn answer(&self, text: &str) -> (Option<Fault>, Result<Value, Refusal>) {
        let mut shared = self.shared.lock().unwrap();
        let (line, body) = parts(text);
        let mut fault =
            shared.partition.as_ref().filter(|(is, _)| is(text)).map(|(_, f)| f.clone());
        if fault.is_none()
            && let Some(n) = shared.faults.iter().position(|(is, _)| is(text))
        {
            fault = shared.faults.remove(n).map(|(_, fault)| fault);
        }
        if matches!(fault, Some(Fault::Status(..) | Fault::Closed)) {
            return (fault, Err((500, "")));
        }
        let may = |access: Access| shared.rights.as_ref().is_none_or(|it| access.is_granted(it));
        if is_review(line) {
            let review = serde_json::from_str(body).unwrap();
            let is_allowed = shared.rights.is_none() || may(Access::of_review(&review));
            return (fault, Ok(access::review(is_allowed)));
        }
        if !Access::of(line).is_none_or(may) {
            return (fault, Err((403, "Forbidden")));
        }
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default();
        let object = || serde_json::from_str(body).map_err(|_| (400, "BadRequest"));
        let is_unlimited = shared.is_unlimited;
        let store = &mut shared.store;
        let done = match method {
            "GET" if line.contains("watch=true") => Ok(Value::Null),
            "GET" if let Some(page) = pages::list(store, line, text) => page,
            "GET" if line.contains("fieldSelector") => Ok(watches::list(store, line, text)),
            "GET" if line.contains("labelSelector=") => Ok(store.list(path, line)),
            "GET" => store.get(path),
            "POST" if path.ends_with("/eviction") => {
                object().and_then(|eviction| store.evict(path, &eviction))
            }
            "POST" => object().and_then(|object| store.create(path, object)),
            "PUT" => object().and_then(|object| store.replace(path, object)),
            // As k8s/access/policy.yaml does.
            "PATCH" if body.contains("\"labels\"") && !is_unlimited => Err((422, "Invalid")),
            "PATCH" if line.contains("dryRun=All") => store.get(path),
            "PATCH" if text.contains("application/json-patch+json") => {
                object().and_then(|steps| store.patch_if(path, &steps))
            }
            "PATCH" => object().and_then(|patch| store.patch(path, &patch)),
            "DELETE" => store.delete(path),
            _ => Err((405, "MethodNotAllowed")),
        };
        (fault, done)
    }

    /// The requests so far: method, path and body.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.lock().unwrap().seen.clone()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.lock().unwrap().connections
    }

    /// The first lines and headers of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.lock().unwrap().heads.clone()
    }

    /// The access reviews so far.
    pub(crate) fn reviews(&self) -> Vec<Value> {
        self.shared.lock().unwrap().reviews.clone()
    }

    /// From now on, only what these rights allow is done, and what other calls of this have allowed; everything else is
    /// answered with 403.
    pub(crate) fn grant(&self, rights: impl IntoIterator<Item = Access>) {
        self.shared.lock().unwrap().rights.get_or_insert_default().extend(rights);
    }

    /// Takes a right away.
    pub(crate) fn revoke(&self, verb: &str, resource: &str) {
        let mut shared = self.shared.lock().unwrap();
        let rights = shared.rights.as_mut().expect("rights were granted");
        let before = rights.len();
        rights.retain(|right| (right.verb.as_str(), right.resource.as_str()) != (verb, resource));
        assert_ne!(rights.len(), before, "there was no such right");
    }

    /// From now on, a service account may do with its pod what its Role says.
    pub(crate) fn without_policy(&self, is_unlimited: bool) {
        self.shared.lock().unwrap().is_unlimited = is_unlimited;
    }

    /// Injects a fault for the next request that contains this text.
    pub(crate) fn inject(&self, text: &'static str, fault: Fault) {
        let is = move |request: &str| request.contains(text);
        self.shared.lock().unwrap().faults.push_back((Box::new(is), fault));
    }

    /// All requests that contain this text get this fault, until [`ApiServer::heal`].
    pub(crate) fn partition(&self, text: &str, fault: Fault) {
        let text = text.to_owned();
        let is = move |request: &str| request.contains(&text);
        self.shared.lock().unwrap().partition = Some((Box::new(is), fault));
    }

    /// Every second request gets this fault.
    pub(crate) fn refuse_every_second(&self, fault: Fault) {
        let count = AtomicUsize::new(0);
        let is = move |_: &str| count.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        self.shared.lock().unwrap().partition = Some((Box::new(is), fault));
    }

    pub(crate) fn heal(&self) {
        self.shared.lock().unwrap().partition = None;
        self.healed.notify_all();
    }

    /// Reads or changes the objects.
    pub(crate) fn with_store<T>(&self, with: impl FnOnce(&mut Store) -> T) -> T {
        with(&mut self.shared.lock().unwrap().store)
    }
}

/// The first line and the body of a request.
fn parts(text: &str) -> (&str, &str) {
    let body = text.split("\r\n").last().unwrap_or_default();
    let body = &body[body.find('{').unwrap_or(body.len())..];
    (text.lines().next().unwrap_or_default(), body)
}

fn is_review(line: &str) -> bool {
    line.starts_with("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews ")
}

fn whole(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         {headers}\r\n{body}"
    )
}
