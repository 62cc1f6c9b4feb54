//! The objects of a small Kubernetes API server, with resource versions: what it does with requests. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What the server does not do: the status and the reason, as in `metav1.Status`.
pub(crate) type Refusal = (u16, &'static str);

/// What takes note of changes.
pub(crate) trait Notes {
    /// The object at this path was added, modified or deleted (`kind`).
    fn add(&mut self, version: u64, path: &str, kind: &str, object: &Value);
}

/// Notes of what nobody watches: none.
impl Notes for () {
    fn add(&mut self, _: u64, _: &str, _: &str, _: &Value) {}
}

/// The objects, by their path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store<N = ()> {
    pub(super) objects: BTreeMap<String, Value>,
    pub(super) version: u64,
    /// What watches are told.
    pub(crate) history: N,
}

impl<N: Notes> Store<N> {
    pub(crate) fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.objects.get(path).cloned().ok_or((404, "NotFound"))
    }

    /// All objects whose path begins so.
    pub(crate) fn below(&self, path: &str) -> Vec<Value> {
        let objects = self.objects.iter().filter(|(other, _)| other.starts_with(path));
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// `collection` is the path without the name.
    pub(crate) fn create(&mut self, collection: &str, mut object: Value) -> Result<Value, Refusal> {
        if let Some(begin) = object["metadata"]["generateName"].as_str() {
            object["metadata"]["name"] = format!("{begin}{:05}", self.version).into();
        }
        let name = object["metadata"]["name"].as_str().ok_or((422, "Invalid"))?;
        let path = format!("{collection}/{name}");
        if self.objects.contains_key(&path) {
            return Err((409, "AlreadyExists"));
        }
        Ok(self.store(&path, object))
    }

    /// Replaces an object that has not changed.
    pub(crate) fn replace(&mut self, path: &str, object: Value) -> Result<Value, Refusal> {
        let old = self.get(path)?;
        let version = &object["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err((409, "Conflict"));
        }
        // As etcd's store in Kubernetes: an update that changes nothing makes no new version.
        if object == old { Ok(old) } else { Ok(self.store(path, object)) }
    }

    /// A merge patch (RFC 7386).
    pub(crate) fn patch(&mut self, path: &str, changes: &Value) -> Result<Value, Refusal> {
        let mut object = self.get(path)?;
        merge(&mut object, changes);
        self.replace(path, object)
    }

    /// A JSON patch (RFC 6902) of members of objects: without arrays.
    pub(crate) fn patch_if(&mut self, path: &str, steps: &Value) -> Result<Value, Refusal> {
        let refusal = (422, "Invalid");
        let mut object = self.get(path)?;
        for step in steps.as_array().ok_or(refusal)? {
            let at = step["path"].as_str().ok_or(refusal)?;
            let (folder, key) = at.rsplit_once('/').ok_or(refusal)?;
            let key = key.replace("~1", "/").replace("~0", "~");
            let members = object.pointer_mut(folder).and_then(Value::as_object_mut);
            let members = members.ok_or(refusal)?;
            let is_done = match step["op"].as_str() {
                Some("test") => members.get(&key) == step.get("value"),
                Some("remove") => members.remove(&key).is_some(),
                Some("replace") => members.insert(key, step["value"].clone()).is_some(),
                _ => false,
            };
            if !is_done {
                return Err(refusal);
            }
        }
        self.replace(path, object)
    }

    pub(crate) fn delete(&mut self, path: &str) -> Result<Value, Refusal> {
        let mut object = self.objects.remove(path).ok_or((404, "NotFound"))?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.history.add(self.version, path, "DELETED", &object);
        Ok(object)
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() && !path.contains("/leases/") {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        let is_new = self.objects.insert(path.to_owned(), object.clone()).is_none();
        self.history.add(self.version, path, if is_new { "ADDED" } else { "MODIFIED" }, &object);
        object
    }
}

pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *object = patch.clone() };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(key)),
            value => merge(&mut object[key], value),
        }
    }
}
