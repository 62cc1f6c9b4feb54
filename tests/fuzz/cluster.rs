//! Fuzzes the answers of the API server: a Lease, and the halted digests in it (`src/cluster/`).

use std::time::Duration;

use super::lease::Lease;
use crate::clock::UnixTime;
use crate::fuzz::{Target, assert_harmless, assert_reason, fuzz};

const LEASES: &[&str] = &[
    r#"{"kind":"Lease","metadata":{"name":"web-0","resourceVersion":"7"},"spec":{"holderIdentity":"a_b_c","leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":"2026-01-01T00:00:00.000000Z","acquireTime":"2026-01-01T00:00:00.000000Z"}}"#,
    r#"{"metadata":{"name":"web-0","resourceVersion":"7","annotations":{"a":"b","podnudge.io/halted":"[{\"digest\":\"0101010101010101010101010101010101010101010101010101010101010101\",\"pod\":\"w\\u001b\",\"at\":\"\",\"reason\":\"\u202e\"}]"}}}"#,
    r#"{"kind":"Status","code":409}"#,
];

const WORDS: &[&str] = &[
    "\"holderIdentity\":",
    "\"resourceVersion\":",
    "\"leaseDurationSeconds\":",
    "\"leaseTransitions\":",
    "\"spec\":{}",
    "\"spec\":null",
    "\"annotations\":[]",
    "null",
    "18446744073709551615",
    "-1",
    "1e9",
    "\"\"",
    "[",
    "{",
    "\"podnudge.io/halted\":\"[]\"",
];

/// Whatever is accepted as a Lease can be taken and given back, keeps what podnudge does not know, and is
/// read as the same again.
#[test]
fn a_lease_goes_back_as_it_came() {
    let target = Target { dictionary: WORDS, ..Target::new("leases", LEASES) };
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
