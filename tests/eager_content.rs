//! Which changes of an object count as edits of its content: with an API server that keeps `managedFields` as
//! Kubernetes does, since 1.25 and before. An edit is never missed, and a label of another writer is never one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Follow, News};
use crate::cluster::sources::Source;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::objects::{ObjectKind, ObjectName, ObjectsPage, WatchEvent};

/// A key of the content, or a label.
type Field = (&'static str, u8);

/// A field that a request changes: to this value, or it is removed.
type Write = (Field, Option<u8>);

/// One request of a writer, so long after the one before.
#[derive(Debug, Clone)]
struct Request {
    writer: u8,
    after: Duration,
    writes: Vec<Write>,
}

#[derive(Debug, Default)]
struct Server {
    fields: BTreeMap<Field, u8>,
    /// The fields and the time of each writer.
    writers: BTreeMap<u8, (BTreeSet<Field>, u64)>,
    version: u64,
    /// Whether a new value without a new field changes the time of its writer: since Kubernetes 1.25.
    follows_values: bool,
}

/// What a request has done.
#[derive(Debug, Default)]
struct Done {
    changes_content: bool,
    changes_anything: bool,
    /// It has left a time, of a writer without content, later than those of all others without content.
    is_of_other_writer: bool,
}

impl Server {
    fn carry_out(&mut self, now: Duration, request: &Request) -> Done {
        let before = self.fields.clone();
        for (field, value) in &request.writes {
            match value {
                Some(value) => drop(self.fields.insert(*field, *value)),
                None => drop(self.fields.remove(field)),
            }
        }
        let fields = before.keys().chain(self.fields.keys());
        let is_changed = |field: &&Field| before.get(field) != self.fields.get(field);
        let changed: BTreeSet<Field> = fields.filter(is_changed).copied().collect();
        // Without any entry before, nothing is known.
        let (newest_before, is_known) = (self.newest_other(), !self.writers.is_empty());
        self.own(request.writer, &changed, now.as_secs());
        self.version += u64::from(!changed.is_empty());
        Done {
            changes_content: changed.iter().any(|(kind, _)| *kind == "f:data"),
            changes_anything: !changed.is_empty(),
            is_of_other_writer: is_known && self.newest_other() > newest_before,
        }
    }

    /// Whatever has changed belongs to this writer alone, if it is still there.
    fn own(&mut self, writer: u8, changed: &BTreeSet<Field>, time: u64) {
        for (other, (fields, _)) in &mut self.writers {
            fields.retain(|field| {
                !changed.contains(field) || (*other == writer && self.fields.contains_key(field))
            });
        }
        let written: BTreeSet<Field> =
            changed.iter().filter(|field| self.fields.contains_key(*field)).copied().collect();
        if !written.is_empty() {
            let (fields, at) = self.writers.entry(writer).or_insert((BTreeSet::new(), time));
            let count = fields.len();
            fields.extend(written);
            if self.follows_values || fields.len() != count {
                *at = time;
            }
        }
        self.writers.retain(|_, (fields, _)| !fields.is_empty());
    }

    /// The newest time of a writer that owns no content.
    fn newest_other(&self) -> Option<u64> {
        let others = self
            .writers
            .values()
            .filter(|(fields, _)| fields.iter().all(|(kind, _)| *kind != "f:data"));
        others.map(|(_, time)| *time).max()
    }

    fn metadata(&self) -> Value {
        let entries = self.writers.iter().map(|(writer, (fields, time))| {
            let named = |wanted: &str| -> Map<String, Value> {
                let fields = fields.iter().filter(|(kind, _)| *kind == wanted);
                fields.map(|(_, name)| (format!("f:{name}"), json!({}))).collect()
            };
            let mut owned = Map::new();
            if !named("f:data").is_empty() {
                owned.insert("f:data".to_owned(), named("f:data").into());
            }
            if !named("f:labels").is_empty() {
                owned.insert("f:metadata".to_owned(), json!({"f:labels": named("f:labels")}));
            }
            let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(*time);
            json!({
                "manager": format!("writer-{writer}"), "operation": "Update", "apiVersion": "v1",
                "time": humantime::format_rfc3339_seconds(at).to_string(),
                "fieldsType": "FieldsV1", "fieldsV1": owned,
            })
        });
        let entries: Vec<Value> = entries.collect();
        json!({
            "name": "app", "uid": "u", "resourceVersion": self.version.to_string(),
            "managedFields": entries,
        })
    }
}

fn at(now: Duration) -> Now {
    Now { mono: Moment(now), wall: UnixTime(now) }
}

/// Follows the object through the requests. What is told comes with a delay.
fn follow(follows_values: bool, requests: &[Request]) {
    let object = ObjectName { kind: ObjectKind::ConfigMap, name: "app".to_owned() };
    let mut server = Server { version: 1, follows_values, ..Server::default() };
    let mut now = Duration::from_secs(1_700_000_000);
    let first =
        Request { writer: 0, after: Duration::ZERO, writes: vec![(("f:data", 0), Some(0))] };
    server.carry_out(now, &first);
    let mut follow = Follow::new(Source::named(object), at(now), 7);
    let list =
        json!({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": server.metadata()}]});
    let listing = ObjectsPage::parse(list.to_string().as_bytes()).unwrap();
    assert_eq!(follow.listed(at(now), Ok(listing)), None);
    assert!(follow.next(at(now).mono).is_some());
    follow.opened(at(now).mono);
    for request in requests {
        now += request.after;
        let done = server.carry_out(now, request);
        if !done.changes_anything {
            continue;
        }
        let line = json!({"type": "MODIFIED", "object": {"metadata": server.metadata()}});
        let event = WatchEvent::parse(line.to_string().as_bytes()).unwrap().unwrap();
        let news = follow.event(at(now), event.clone());
        let is_edit = matches!(news, Some(News::Edit(_)));
        if done.changes_content {
            assert!(is_edit, "missed: {request:?}, {server:?}");
        } else if done.is_of_other_writer {
            assert_eq!(news, Some(News::NotContent), "{request:?}, {server:?}");
        }
        let WatchEvent::Present(_) = event else { panic!("{event:?}") };
        assert_eq!(follow.event(at(now), event), None, "it is told twice");
    }
}

fn write() -> impl Strategy<Value = Write> {
    let field = (prop::sample::select(&["f:data", "f:labels"][..]), 0..3_u8);
    (field, prop::option::weighted(0.8, 0..3_u8))
}

fn requests(writes: impl Strategy<Value = Vec<Write>>) -> impl Strategy<Value = Vec<Request>> {
    let after = prop::sample::select(&[0, 1, 300, 700, 1000, 2500, 60_000][..]);
    let request = (0..4_u8, after, writes).prop_map(|(writer, after, writes)| Request {
        writer,
        after: Duration::from_millis(after),
        writes,
    });
    prop::collection::vec(request, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_edit_of_the_content_is_missed(requests in requests(prop::collection::vec(write(), 1..4))) {
        follow(true, &requests);
    }

    /// Where a request changes one field: one that removes the label of another writer, and changes a value of its own,
    /// leaves no trace of that before Kubernetes 1.25.
    #[test]
    fn no_edit_is_missed_where_times_do_not_follow_values(
        requests in requests(prop::collection::vec(write(), 1..2)),
    ) {
        follow(false, &requests);
    }
}
