//! The part of the small API server that lists all objects of a collection, page by page.

use serde_json::{Value, json};

use super::api_server::{Refusal, Store};
use super::watches::{metadata, parameter};

/// The answer to a request for a page; `None` if it asks for one object.
pub(crate) fn list(store: &Store, line: &str, text: &str) -> Option<Result<Value, Refusal>> {
    let limit: usize = parameter(line, "limit")?.parse().unwrap();
    let selector = parameter(line, "fieldSelector").unwrap_or_default();
    if selector.starts_with("metadata.name") || line.contains("labelSelector") {
        return None;
    }
    assert_eq!(limit, 500, "{line}");
    let collection = line.split([' ', '?']).nth(1).unwrap_or_default();
    let is_metadata = text.contains("as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    // The content of an object is none of podnudge's business.
    assert_eq!(is_metadata, !collection.ends_with("/pods"), "{text}");
    let (version, first) = match parameter(line, "continue") {
        Some(next) => {
            let (version, first) = next.split_once('-').unwrap();
            (version.parse().unwrap(), first.parse().unwrap())
        }
        None => (store.version(), 0),
    };
    if version < store.history.oldest() {
        return Some(Err((410, "Expired")));
    }
    let (count, page) = store.page(&format!("{collection}/"), first, limit);
    let items: Vec<Value> = if is_metadata { page.iter().map(metadata).collect() } else { page };
    let end = first + items.len();
    let next = if end < count { format!("{version}-{end}") } else { String::new() };
    let list = json!({"resourceVersion": version.to_string(), "continue": next});
    Some(Ok(json!({"kind": "List", "items": items, "metadata": list})))
}
