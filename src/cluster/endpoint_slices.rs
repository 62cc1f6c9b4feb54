//! Whether a Service sends requests to podnudge's own pod, as its EndpointSlices say. Pure.

use serde::Deserialize;

use crate::system::surroundings::Pod;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// What the EndpointSlices of a Service say of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// None of the EndpointSlices has the pod: the Service does not select it, or the endpoints are late.
    No,
    /// The EndpointSlices have the pod as not ready: it gets no requests.
    Unready,
    /// One of the EndpointSlices has the pod as ready.
    Ready,
}

/// A part of the EndpointSlices of a Service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) pod: Listed,
    /// Where the next part begins, if this is not the last.
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
struct EndpointSliceList {
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    /// `null` if the list is empty.
    items: Option<Vec<EndpointSlice>>,
}

#[derive(Deserialize, Default)]
struct ListMetadata {
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct EndpointSlice {
    /// `null` if the Service selects no pods.
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    conditions: Conditions,
    target_ref: Option<TargetRef>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    /// Not known counts as ready, as for those who send the requests.
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct TargetRef {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    uid: Option<String>,
}

impl Page {
    /// # Errors
    /// If the object is no list of EndpointSlices.
    pub(super) fn parse(body: &[u8], pod: &Pod) -> Result<Self, Reason> {
        let no_list = |why: &str| {
            let why = shown::one_line(why.as_bytes());
            Reason::new(format!("the answer is not a list of EndpointSlices: {why}"))
        };
        let list: EndpointSliceList =
            serde_json::from_slice(body).map_err(|error| no_list(&error.to_string()))?;
        if list.kind != "EndpointSliceList" {
            return Err(no_list(&format!("its kind is {}", shown::literal(&list.kind))));
        }
        let slices = list.items.into_iter().flatten();
        let endpoints = slices.flat_map(|slice| slice.endpoints.into_iter().flatten());
        let of_pod = endpoints.filter(|endpoint| endpoint.is_of(pod));
        let pod = of_pod.map(|endpoint| endpoint.listed()).max().unwrap_or(Listed::No);
        let next = Some(list.metadata.r#continue).filter(|next| !next.is_empty());
        Ok(Self { pod, next })
    }
}

impl Endpoint {
    fn listed(&self) -> Listed {
        if self.conditions.ready == Some(false) { Listed::Unready } else { Listed::Ready }
    }

    fn is_of(&self, pod: &Pod) -> bool {
        let Some(TargetRef { kind, name, uid }) = &self.target_ref else { return false };
        let is_same = uid.as_ref().zip(pod.uid.as_ref()).is_none_or(|(uid, own)| uid == own);
        kind == "Pod" && *name == pod.name && is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(items: &str) -> Result<Listed, Reason> {
        let pod = Pod { name: "web-0".to_owned(), uid: Some("1-a".to_owned()), is_named: true };
        let list = format!(r#"{{"kind":"EndpointSliceList","metadata":{{}},"items":{items}}}"#);
        Page::parse(list.as_bytes(), &pod).map(|page| page.pod)
    }

    fn endpoint(conditions: &str, target: &str) -> String {
        let other = r#"{"addresses":["10.0.0.9"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"web-1","uid":"2"}}"#;
        let own = format!(
            r#"{{"addresses":["10.0.0.8"],"conditions":{conditions},"targetRef":{target},"nodeName":"n"}}"#
        );
        format!(
            r#"[{{"endpoints":[{other}],"ports":[]}},{{"addressType":"IPv4","endpoints":[{own}]}}]"#
        )
    }

    #[test]
    fn a_service_has_the_pod_if_one_of_its_slices_does_not_say_that_it_is_unready() {
        let own = r#"{"kind":"Pod","namespace":"a","name":"web-0","uid":"1-a"}"#;
        let ready = |conditions| parse(&endpoint(conditions, own));
        assert_eq!(ready(r#"{"ready":true}"#), Ok(Listed::Ready));
        assert_eq!(ready("{}"), Ok(Listed::Ready));
        assert_eq!(ready(r#"{"ready":null}"#), Ok(Listed::Ready));
        let ends = r#"{"ready":false,"serving":true,"terminating":true}"#;
        assert_eq!(ready(ends), Ok(Listed::Unready));
    }

    #[test]
    fn another_pod_is_not_this_one() {
        let of = |target| parse(&endpoint(r#"{"ready":true}"#, target));
        assert_eq!(of(r#"{"kind":"Pod","name":"web-0"}"#), Ok(Listed::Ready));
        for other in [
            r#"{"kind":"Pod","name":"web-0","uid":"1-b"}"#,
            r#"{"kind":"Pod","name":"web-01","uid":"1-a"}"#,
            r#"{"kind":"Node","name":"web-0","uid":"1-a"}"#,
            "null",
        ] {
            assert_eq!(of(other), Ok(Listed::No), "{other}");
        }
    }

    #[test]
    fn a_service_without_endpoints_has_no_pod() {
        for none in ["null", "[]", r#"[{"endpoints":null}]"#, r#"[{"endpoints":[]}]"#] {
            assert_eq!(parse(none), Ok(Listed::No), "{none}");
        }
    }

    #[test]
    fn what_is_no_list_of_endpoint_slices_says_nothing_about_the_pod() {
        assert!(parse("1").is_err() && parse("[1]").is_err());
        let pod = Pod::default();
        for other in ["{}", "[]", "", r#"{"kind":"Status","status":"Success"}"#] {
            assert!(Page::parse(other.as_bytes(), &pod).is_err(), "{other}");
        }
        let long = format!(r#"{{"kind":"EndpointSliceList","items":"{}"}}"#, "a".repeat(100_000));
        let said = Page::parse(long.as_bytes(), &pod).expect_err("it is no list").message;
        assert!(said.len() < 1000, "{}", said.len());
    }

    #[test]
    fn a_long_list_comes_in_parts() {
        let pod = Pod { name: "web-0".to_owned(), uid: None, is_named: true };
        let part = br#"{"kind":"EndpointSliceList","metadata":{"continue":"e30","remainingItemCount":3},"items":[]}"#;
        let page = Page::parse(part, &pod).expect("it is a list");
        assert_eq!(page, Page { pod: Listed::No, next: Some("e30".to_owned()) });
    }
}
