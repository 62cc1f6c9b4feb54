//! Fuzzes the answers of the API server: a Lease, and the halted digests in it; a Pod, and the metadata of the
//! objects behind its volumes (`src/cluster/`).

use std::path::PathBuf;
use std::time::Duration;

use super::sources;
use crate::fuzz::{Target, assert_harmless, assert_reason, fuzz, words};
use podnudge_core::clock::UnixTime;
use podnudge_core::objects::{Metadata, ObjectsPage, WatchEvent};
use podnudge_core::slots::Lease;

const LEASES: &[&str] = &[
    r#"{"kind":"Lease","metadata":{"name":"web-0","resourceVersion":"7"},"spec":{"holderIdentity":"a_b_c","leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":"2026-01-01T00:00:00.000000Z","acquireTime":"2026-01-01T00:00:00.000000Z"}}"#,
    r#"{"metadata":{"name":"web-0","resourceVersion":"7","annotations":{"a":"b","podnudge.io/halted":"[{\"digest\":\"0101010101010101010101010101010101010101010101010101010101010101\",\"pod\":\"w\\u001b\",\"at\":\"\",\"reason\":\"\u202e\"}]"}}}"#,
    r#"{"kind":"Status","code":409}"#,
];

/// Whatever is accepted as a Lease can be taken and given back, keeps what podnudge does not know, and is
/// read as the same again.
#[test]
fn a_lease_goes_back_as_it_came() {
    let target = Target { dictionary: words("leases"), ..Target::new("leases", LEASES) };
    fuzz(target, |input| match Lease::parse(input) {
        Err(reason) => assert_reason(&reason).chars().filter(|c| !c.is_ascii_digit()).collect(),
        Ok(lease) => {
            assert_eq!(Lease::parse(&lease.body()).as_ref(), Ok(&lease));
            let taken = lease.clone().held_by("me", Duration::from_secs(15), UnixTime::default());
            let read = Lease::parse(&taken.body()).expect("a server would accept it");
            assert_eq!((read.holder(), read.version()), (Some("me"), lease.version()));
            assert_ne!(read.body(), lease.body(), "an update without a change is no renewal");
            let back = Lease::parse(&taken.given_back(UnixTime::default()).body());
            assert_eq!(back.expect("a server would accept it").holder(), None);
            let halts = lease.halts();
            assert!(halts.len() <= 8);
            for halt in &halts {
                assert_harmless(&halt.reason().message);
            }
            assert_eq!(lease.with_halts(&halts).halts(), halts);
            format!("{} {}", halts.len(), read.duration().is_some())
        }
    });
}

const OBJECTS: &[&str] = &[
    r#"{"type":"MODIFIED","object":{"kind":"PartialObjectMetadata","metadata":{"name":"app","uid":"u","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"time":"2026-01-01T00:00:01Z"}]}}}"#,
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","creationTimestamp":null}}}"#,
    r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#,
    r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"app","uid":"u","resourceVersion":"7"}}]}"#,
    r#"{"spec":{"volumes":[{"name":"a","configMap":{"name":"app"}},{"name":"b","projected":{"sources":[{"secret":{"name":"tls","optional":true}}]}}],"containers":[{"name":"c","volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/a/b"}]}]}}"#,
];

/// What is said of an object is short, and names are such as Kubernetes allows.
#[test]
fn what_is_read_of_objects_is_bounded_and_harmless() {
    let harmless = |metadata: &Metadata| {
        let Metadata { name, state } = metadata;
        for text in [name, &state.uid, &state.version] {
            assert!((1..=256).contains(&text.len()));
        }
    };
    let target = Target { dictionary: words("objects"), ..Target::new("objects", OBJECTS) };
    fuzz(target, move |input| {
        let event = match WatchEvent::parse(input) {
            Ok(event) => {
                match &event {
                    Some(WatchEvent::Present(it) | WatchEvent::Deleted(it)) => harmless(it),
                    Some(WatchEvent::Bookmark(version)) => assert!(!version.is_empty()),
                    None => {}
                }
                format!("{:?}", event.map(|event| std::mem::discriminant(&event)))
            }
            Err(error) => assert_reason(error.reason()),
        };
        let list = match ObjectsPage::parse(input) {
            Ok(list) => {
                list.objects.iter().for_each(harmless);
                (!list.objects.is_empty()).to_string()
            }
            Err(reason) => assert_reason(&reason),
        };
        let paths = ["/a", "/a/b/c"].map(PathBuf::from);
        let found = match sources::sources(input, Some("c"), &paths) {
            Ok(sources) => {
                for source in &sources {
                    assert_harmless(&source.object.to_string());
                    let paths = source.paths.as_ref().expect("they are known");
                    assert!(!paths.is_empty() && paths.len() <= 2);
                }
                sources.len().to_string()
            }
            Err(reason) => assert_reason(&reason),
        };
        let shown = format!("{event} {list} {found}");
        shown.chars().filter(|c| !c.is_ascii_digit()).collect()
    });
}
