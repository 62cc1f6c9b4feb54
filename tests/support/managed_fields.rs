//! The part of the small API server that records who has written the content and the labels of an object, and when, as
//! Kubernetes does since 1.25.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::api_server::Store;
use super::store::merge;

/// Where the fields of an object are, and what they are called in an entry.
const PARTS: [(&str, &str); 4] = [
    ("/data", "f:data"),
    ("/binaryData", "f:binaryData"),
    ("/metadata/labels", "f:metadata/f:labels"),
    ("/metadata/annotations", "f:metadata/f:annotations"),
];

/// A merge patch by this manager.
pub(crate) fn patch_as(store: &mut Store, manager: &str, path: &str, changes: &Value) {
    let before = store.get(path).unwrap();
    let mut object = before.clone();
    merge(&mut object, changes);
    keep(&before, &mut object, manager);
    store.replace(path, object).unwrap();
}

/// Brings the entries up to date after an update by this manager.
fn keep(before: &Value, object: &mut Value, manager: &str) {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut owned: BTreeMap<String, Value> = entries
        .into_iter()
        .map(|entry| (entry["manager"].as_str().unwrap_or_default().to_owned(), entry))
        .collect();
    for (place, name) in PARTS {
        let values = |object: &Value| object.pointer(place).and_then(Value::as_object).cloned();
        let (old, new) = (values(before).unwrap_or_default(), values(object).unwrap_or_default());
        let changed = |key: &&String| old.get(*key) != new.get(*key);
        for key in old.keys().chain(new.keys()).filter(changed) {
            for entry in owned.values_mut() {
                drop(part(entry, name).and_then(|fields| fields.remove(&format!("f:{key}"))));
            }
            if new.contains_key(key) {
                let entry = owned.entry(manager.to_owned()).or_insert_with(|| {
                    json!({"manager": manager, "operation": "Update", "apiVersion": "v1",
                        "fieldsType": "FieldsV1", "fieldsV1": {}})
                });
                entry["time"] = now().into();
                let fields =
                    name.split('/').fold(&mut entry["fieldsV1"], |fields, name| &mut fields[name]);
                fields[format!("f:{key}")] = json!({});
            }
        }
    }
    for entry in owned.values_mut() {
        for (_, name) in PARTS {
            if part(entry, name).is_some_and(|fields| fields.is_empty()) {
                let name = name.split('/').next().unwrap_or_default();
                entry["fieldsV1"].as_object_mut().unwrap().remove(name);
            }
        }
    }
    owned.retain(|_, entry| entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty()));
    object["metadata"]["managedFields"] = owned.into_values().collect();
}

fn now() -> String {
    let now = SystemTime::UNIX_EPOCH + SystemTime::UNIX_EPOCH.elapsed().unwrap();
    humantime::format_rfc3339_seconds(now).to_string()
}

/// The fields of an entry below this name.
fn part<'a>(entry: &'a mut Value, name: &str) -> Option<&'a mut serde_json::Map<String, Value>> {
    let fields =
        name.split('/').try_fold(&mut entry["fieldsV1"], |fields, name| fields.get_mut(name));
    fields?.as_object_mut()
}
