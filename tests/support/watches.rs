//! The part of the small API server that lists and watches the metadata of one object.

use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::api_server::{ApiServer, Store};
use super::store::Notes;

/// What watches are told: the version, the path of the object (none for a bookmark), and the line.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    events: Vec<(u64, Option<String>, Value)>,
    /// Watches from before this version are refused.
    oldest: u64,
    /// Watches that began before have to end: how often, and whether without a word.
    ends: u64,
    is_cut: bool,
    changed: Arc<(Mutex<()>, Condvar)>,
}

impl Notes for History {
    fn add(&mut self, version: u64, path: &str, kind: &str, object: &Value) {
        let is_lease = path.contains("/leases/");
        let object = if is_lease { object.clone() } else { metadata(object) };
        self.push(version, Some(path), json!({"type": kind, "object": object}));
    }
}

impl History {
    pub(crate) fn bookmark(&mut self, version: u64) {
        let metadata = json!({"resourceVersion": version.to_string()});
        let object = json!({"kind": "PartialObjectMetadata", "metadata": metadata});
        self.push(version, None, json!({"type": "BOOKMARK", "object": object}));
    }

    /// Whatever refers to an earlier version is refused.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn compact(&mut self, version: u64) {
        self.oldest = version;
    }

    /// Replaces the last line that watches were told by one of the test's own.
    pub(crate) fn say(&mut self, line: Value) {
        self.events.last_mut().unwrap().2 = line;
    }

    /// Ends all watches, as at the end of their time, or by breaking off the connections.
    pub(crate) fn end_watches(&mut self, is_cut: bool) {
        (self.ends, self.is_cut) = (self.ends + 1, is_cut);
        self.changed.1.notify_all();
    }

    fn push(&mut self, version: u64, path: Option<&str>, line: Value) {
        self.events.push((version, path.map(str::to_owned), line));
        self.changed.1.notify_all();
    }
}

/// Only the metadata, as it was asked for.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

pub(crate) fn parameter<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let query = line.split([' ', '?']).nth(2)?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// The path of the one object that is listed or watched, or that of the collection with a slash at its end.
fn object(line: &str) -> String {
    let collection = line.split([' ', '?']).nth(1).unwrap_or_default();
    let Some(selector) = parameter(line, "fieldSelector") else { return format!("{collection}/") };
    let name = selector.strip_prefix("metadata.name%3D").expect("one object is selected");
    format!("{collection}/{name}")
}

/// The list of one object's metadata. Nothing else may be asked for: the content is none of podnudge's business.
pub(crate) fn list(store: &Store, line: &str, text: &str) -> Value {
    assert!(text.contains("as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), "{text}");
    let items: Vec<Value> = store.get(&object(line)).iter().map(metadata).collect();
    json!({"metadata": {"resourceVersion": store.version().to_string()}, "items": items})
}

/// A watch.
pub(crate) struct Watch {
    path: String,
    /// The version from which it goes on; `None` if it begins with the present state.
    from: Option<u64>,
}

impl Watch {
    /// If this request is one.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let line = text.lines().next()?;
        parameter(line, "watch").filter(|watch| *watch == "true")?;
        let seconds: u64 = parameter(line, "timeoutSeconds")?.parse().unwrap();
        assert!((300..=600).contains(&seconds), "{line}");
        let path = object(line);
        // Of anything but a Lease, nothing else may be asked for.
        if !path.contains("/leases/") {
            assert_eq!(parameter(line, "allowWatchBookmarks"), Some("true"), "{line}");
            assert!(text.contains("as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), "{text}");
        }
        let from = parameter(line, "resourceVersion").map(|version| version.parse().unwrap());
        Some(Self { path, from })
    }

    /// Tells what happens, until the watch is to end or the client has gone.
    pub(crate) fn serve(self, server: &ApiServer, mut stream: impl Read + Write) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        let (begun, state, version) = server
            .with_store(|store| (store.history.ends, store.get(&self.path).ok(), store.version()));
        let state = state.filter(|_| self.from.is_none());
        let mut first = state.map(|object| json!({"type": "ADDED", "object": object}));
        let mut told = self.from.unwrap_or(version);
        loop {
            let (lines, ends, is_cut, changed) = server.with_store(|store| {
                let history = &store.history;
                let lines = self.lines(history, &mut told);
                (lines, history.ends, history.is_cut, Arc::clone(&history.changed))
            });
            for line in first.take().into_iter().chain(lines) {
                let text = format!("{line}\n");
                // A line need not come in one piece, nor end with one.
                let (first, rest) = text.split_at(text.len() / 2);
                for piece in [first, rest] {
                    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                    if stream.write_all(chunk.as_bytes()).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
            }
            if ends > begun {
                if !is_cut {
                    drop(stream.write_all(b"0\r\n\r\n"));
                    drop(stream.flush());
                }
                return;
            }
            let (lock, changed) = &*changed;
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            // A change between the look and this wait is seen after it.
            drop(changed.wait_timeout(guard, Duration::from_millis(10)));
        }
    }

    fn lines(&self, history: &History, told: &mut u64) -> Vec<Value> {
        if *told < history.oldest {
            *told = u64::MAX;
            let status = json!({"kind": "Status", "code": 410, "message": "too old"});
            return vec![json!({"type": "ERROR", "object": status})];
        }
        let is_mine = |path: &Option<String>| {
            path.as_ref().is_none_or(|path| {
                *path == self.path || (self.path.ends_with('/') && path.starts_with(&self.path))
            })
        };
        let news =
            history.events.iter().filter(|(version, path, _)| version > told && is_mine(path));
        let lines: Vec<Value> = news.map(|(.., line)| line.clone()).collect();
        *told = (*told).max(history.events.last().map_or(0, |(version, ..)| *version));
        lines
    }
}
