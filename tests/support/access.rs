//! What the small API server allows: which right a request needs, as the authorization of Kubernetes sees it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What a request does to which objects, or what a Role allows. The resource is written as in a Role:
/// `pods/eviction`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// In a Role, `None` is for all objects.
    pub(crate) name: Option<String>,
}

impl Access {
    /// That of a request with this first line; `None` for what everybody may do.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (method, url) = (words.next()?, words.next()?);
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = path.trim_start_matches('/').split('/');
        let group = match parts.next()? {
            "apis" => parts.next()?.to_owned(),
            _ => String::new(),
        };
        let (_version, _namespaces, _namespace) = (parts.next()?, parts.next()?, parts.next()?);
        let resource = parts.next()?;
        let name = parts.next();
        let resource = match parts.next() {
            Some(below) => format!("{resource}/{below}"),
            None => resource.to_owned(),
        };
        let selected =
            query.split('&').find_map(|it| it.strip_prefix("fieldSelector=metadata.name%3D"));
        let verb = match method {
            "GET" if query.contains("watch=true") => "watch",
            "GET" if name.is_none() => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            _ => "delete",
        };
        let name = name.or(selected).map(str::to_owned);
        Some(Self { group, resource, verb: verb.to_owned(), name })
    }

    /// That of an access review.
    pub(crate) fn of_review(review: &Value) -> Self {
        let attributes = &review["spec"]["resourceAttributes"];
        let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("namespace"), "test", "{review}");
        let resource = [text("resource"), text("subresource")].join("/");
        Self {
            group: text("group"),
            resource: resource.trim_end_matches('/').to_owned(),
            verb: text("verb"),
            name: Some(text("name")).filter(|name| !name.is_empty()),
        }
    }

    pub(crate) fn is_granted(&self, rights: &BTreeSet<Self>) -> bool {
        rights.contains(self) || rights.contains(&Self { name: None, ..self.clone() })
    }
}

/// The answer to an access review.
pub(crate) fn review(is_allowed: bool) -> Value {
    json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": is_allowed}})
}
