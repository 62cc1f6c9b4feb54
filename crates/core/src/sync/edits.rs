//! The edits of objects, and which of them are done, as the Lease of `podnudge sync` keeps them: so that another
//! podnudge that takes over goes on where the last one has stopped. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::UnixTime;
use crate::objects::ObjectName;

/// The most edits that are kept, so that the record stays below 64 KiB.
const MOST: usize = 200;
/// The longest record that is read.
const LONGEST: usize = 128 * 1024;
/// The kubelet has synced all pods so long after an edit, whatever happened to podnudge.
pub(super) const OLD: Duration = Duration::from_mins(10);

/// An edit of the content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The version of the object by which the edit was noticed first.
    pub id: String,
    /// When it was made, by the clock of the API server, if that is known.
    pub content_at: Option<UnixTime>,
    /// Whether that is the time of this edit, and not of an earlier one.
    pub is_dated: bool,
}

impl Edit {
    /// What a pod's annotation says when it was annotated for this edit.
    #[must_use]
    pub(super) fn mark(&self, object: &ObjectName) -> String {
        format!("{object} {}", self.id)
    }
}

/// An edit for which pods are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Of which object.
    pub object: ObjectName,
    /// The newest one.
    pub edit: Edit,
    /// When the first one was made for which not all pods were annotated.
    pub late_since: UnixTime,
}

/// The newest edit of each object. Those that are done and old are forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edits {
    /// All edits before this time are done, unless they are among these.
    since: UnixTime,
    /// In no order. There are few: a map costs more of the binary than it saves of time.
    edits: Vec<(ObjectName, Edit, Is)>,
}

/// Whether all pods were annotated for an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Open,
    Done,
}

impl Edits {
    /// At the first start of all: what was edited before is left to the kubelets.
    pub(super) fn new(now: UnixTime) -> Self {
        Self { since: UnixTime(Duration::from_secs(now.0.as_secs())), edits: Vec::new() }
    }

    /// Reads a record; `None` if there is none, or somebody else has written it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let record: Value = serde_json::from_str(text).ok()?;
        let seconds = |value: &Value| {
            let time = UnixTime(Duration::from_secs(value.as_u64()?));
            Some(time.min(UnixTime::LATEST))
        };
        let entry = |entry: &Value| {
            let object = ObjectName::parse(entry.get(0)?.as_str()?)?;
            let id = entry.get(1)?.as_str()?.to_owned();
            let content_at = entry.get(2).and_then(seconds);
            let is = if entry.get(3)?.as_bool()? { Is::Done } else { Is::Open };
            Some((object, Edit { id, content_at, is_dated: false }, is))
        };
        let edits = record.get("edits")?.as_array()?;
        Some(Self {
            since: seconds(record.get("since")?)?,
            edits: edits.iter().take(MOST).filter_map(entry).collect(),
        })
    }

    /// The text of the record.
    pub(super) fn text(&self) -> String {
        let entry = |(object, edit, is): &(ObjectName, Edit, Is)| {
            let at = edit.content_at.map(|at| at.0.as_secs());
            json!([object.to_string(), edit.id, at, *is == Is::Done])
        };
        let edits: Vec<Value> = self.edits.iter().take(MOST).map(entry).collect();
        json!({"since": self.since.0.as_secs(), "edits": edits}).to_string()
    }

    /// Notes an edit, in place of an earlier one of the same object.
    pub(super) fn add(&mut self, object: ObjectName, edit: Edit) {
        self.remove(&object);
        self.edits.push((object, edit, Is::Open));
    }

    /// Notes that all pods were annotated for this edit, unless there is a newer one.
    pub(super) fn done(&mut self, object: &ObjectName, edit: &Edit) {
        let newest = self.edits.iter_mut().find(|(of, newest, _)| of == object && newest == edit);
        if let Some((.., is)) = newest {
            *is = Is::Done;
        }
    }

    /// Whether this edit is not done. It may be over: its object was deleted, or has newer content.
    pub(super) fn is_open(&self, object: &ObjectName, edit: &Edit) -> bool {
        let is_it = |(of, newest, is): &(ObjectName, Edit, Is)| {
            of == object && newest == edit && *is == Is::Open
        };
        self.edits.iter().any(is_it)
    }

    /// The edits that are not done.
    #[cfg(test)]
    fn open(&self) -> impl Iterator<Item = (&ObjectName, &Edit)> {
        let open = self.edits.iter().filter(|(.., is)| *is == Is::Open);
        open.map(|(object, edit, _)| (object, edit))
    }

    /// All other open edits are over: their objects do not exist any more, or have other content.
    pub(super) fn keep_open(&mut self, is_open: impl Fn(&ObjectName) -> bool) {
        self.edits.retain(|(object, _, is)| *is == Is::Done || is_open(object));
    }

    /// The object does not exist any more.
    pub(super) fn remove(&mut self, object: &ObjectName) {
        self.edits.retain(|(of, ..)| of != object);
    }

    /// Whether this state, which a new leader finds in this version, has an edit that is not done: the edit, if so. Times are
    /// whole seconds: another version than the one that is known may be another edit in the same one.
    pub(super) fn find(
        &self,
        object: &ObjectName,
        content_at: Option<UnixTime>,
        version: &str,
        now: UnixTime,
    ) -> Option<Edit> {
        let found = |is_dated| Edit { id: version.to_owned(), content_at, is_dated };
        if let Some((_, edit, is)) = self.edits.iter().find(|(of, ..)| of == object)
            && (content_at.is_none() || edit.content_at == content_at)
        {
            let is_same = edit.id == version;
            return (!is_same || *is == Is::Open).then(|| found(false));
        }
        let at = content_at?;
        (at >= self.since && now.since(at) < OLD).then(|| found(true))
    }

    /// Forgets what is done and old, and what is done if there are too many.
    pub(super) fn forget(&mut self, now: UnixTime) {
        let age = |edit: &Edit| edit.content_at.map_or(OLD, |at| now.since(at));
        // The oldest first.
        self.edits.sort_by_key(|(_, edit, _)| edit.content_at);
        let mut surplus = self.edits.len().saturating_sub(MOST);
        let is_over = |(_, edit, is): &mut (ObjectName, Edit, Is)| {
            let is_over = *is == Is::Done && (surplus > 0 || age(edit) >= OLD);
            surplus = surplus.saturating_sub(usize::from(is_over));
            is_over
        };
        let gone: Vec<_> = self.edits.extract_if(.., is_over).collect();
        let after = gone.iter().filter_map(|(_, edit, _)| edit.content_at).max();
        if let Some(after) = after {
            let after = UnixTime(after.0 + Duration::from_secs(1));
            self.since = self.since.max(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::ObjectKind;
    use proptest::prelude::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime(Duration::from_secs(1_000_000 + seconds))
    }

    fn map(name: &str) -> ObjectName {
        ObjectName { kind: ObjectKind::ConfigMap, name: name.to_owned() }
    }

    fn edit(id: &str, seconds: u64) -> Edit {
        Edit { id: id.to_owned(), content_at: Some(at(seconds)), is_dated: false }
    }

    #[test]
    fn a_new_leader_finds_what_the_last_one_has_not_done() {
        let mut edits = Edits::new(at(0));
        edits.add(map("open"), edit("1", 10));
        edits.add(map("done"), edit("2", 20));
        edits.done(&map("done"), &edit("2", 20));
        let edits = Edits::parse(&edits.text()).expect("it is a record");
        let find = |name: &str, seconds, version: &str| {
            let found = edits.find(&map(name), Some(at(seconds)), version, at(60));
            found.map(|edit| edit.id)
        };
        let goes_on = find("open", 10, "1");
        assert_eq!(goes_on.as_deref(), Some("1"), "pods that have this mark are left out");
        assert_eq!(find("done", 20, "2"), None);
        assert_eq!(find("done", 21, "9").as_deref(), Some("9"), "edited while nobody watched");
        for (name, seconds) in [("open", 10), ("done", 20)] {
            let again = find(name, seconds, "9");
            assert_eq!(again.as_deref(), Some("9"), "perhaps edited again within the second");
        }
        assert_eq!(find("other", 30, "9").as_deref(), Some("9"));
        let before = UnixTime(Duration::from_secs(999_999));
        assert_eq!(edits.find(&map("other"), Some(before), "9", at(60)), None, "before all");
        assert_eq!(edits.find(&map("other"), Some(at(30)), "9", at(630)), None, "too old");
        assert!(edits.find(&map("open"), Some(at(10)), "9", at(9999)).is_some(), "begun");
        assert!(edits.find(&map("open"), None, "9", at(60)).is_some(), "its time is not known");
    }

    #[test]
    fn a_newer_edit_is_not_done_with_an_older_one() {
        let mut edits = Edits::new(at(0));
        edits.add(map("app"), edit("1", 10));
        edits.add(map("app"), edit("2", 11));
        edits.done(&map("app"), &edit("1", 10));
        assert_eq!(edits.open().map(|(_, edit)| edit.id.as_str()).collect::<Vec<_>>(), ["2"]);
        edits.done(&map("app"), &edit("2", 11));
        assert_eq!(edits.open().count(), 0);
        edits.forget(at(600));
        assert!(edits.find(&map("app"), Some(at(11)), "2", at(600)).is_none());
        edits.forget(at(700));
        assert_eq!(edits, Edits { since: at(12), edits: Vec::new() });
    }

    #[test]
    fn what_is_no_record_is_none() {
        for text in ["", "[]", "{}", r#"{"since":"x","edits":[]}"#, r#"{"since":1}"#] {
            assert_eq!(Edits::parse(text), None, "{text}");
        }
        let odd = r#"{"since":1,"edits":[1,["pod/a","1",1,true],["configmap/a","1",null,false]]}"#;
        assert_eq!(Edits::parse(odd).expect("it is a record").open().count(), 1);
    }

    #[test]
    fn a_time_after_all_others_is_no_harm() {
        let entry = |n: u64| json!([format!("configmap/a-{n}"), "1", u64::MAX, true]);
        let edits: Vec<Value> = (0..200).map(entry).collect();
        let forged = json!({"since": u64::MAX, "edits": edits}).to_string();
        let mut edits = Edits::parse(&forged).expect("it is a record");
        edits.add(map("app"), edit("1", 10));
        edits.forget(at(20));
        assert_eq!(edits.open().count(), 1);
        assert!(Edits::parse(&edits.text()).is_some());
    }

    proptest! {
        /// However many edits there are, the record has a bound, and no open edit is lost below it.
        #[test]
        fn a_record_has_a_bound(open in 0..150_usize, done in 0..400_usize) {
            let mut edits = Edits::new(at(0));
            for n in 0..open {
                edits.add(map(&format!("open-{n}")), edit("1", 10));
            }
            for (n, seconds) in (0..done).zip(20..) {
                let name = map(&format!("done-{n}"));
                edits.add(name.clone(), edit("1", seconds));
                edits.done(&name, &edit("1", seconds));
            }
            edits.forget(at(500));
            let read = Edits::parse(&edits.text()).expect("it is a record");
            prop_assert_eq!(&read, &edits);
            prop_assert_eq!(read.open().count(), open);
            prop_assert!(read.edits.len() <= MOST);
            for (n, seconds) in (0..done).zip(20..) {
                let found = read.find(&map(&format!("done-{n}")), Some(at(seconds)), "1", at(500));
                prop_assert_eq!(found, None);
            }
        }
    }
}
