//! What a podnudge built without TLS says to what needs it.

#![cfg(not(feature = "tls"))] // with: tests/config.rs

use podnudge::config::{self, Overrides};

#[test]
fn https_is_refused_with_the_reason() {
    let file = "[[rule]]\nwatch = \"/a\"\nhttp = { url = \"https://localhost/\" }\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:3:16: this podnudge was built without TLS, and the URL is https\n  \
         hint: use the image with TLS, or an http URL within the pod"
    );
}

#[test]
fn checks_that_need_tls_are_refused_with_the_reason() {
    let file = "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n\
                [[rule.check]]\nsyntax = \"pem\"\n\
                [[rule.check]]\nhttp = \"https://localhost/\"\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:5:10: this podnudge was built without TLS, and cannot read PEM\n  \
         hint: use the image with TLS\n\
         c.toml:7:8: this podnudge was built without TLS, and the URL is https\n  \
         hint: use the image with TLS, or an http URL within the pod"
    );
}

#[test]
fn a_proof_by_a_certificate_is_refused_with_the_reason() {
    let file = "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\nverify.tls = \"127.0.0.1:443\"\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:4:14: this podnudge was built without TLS, and cannot make a handshake\n  \
         hint: use the image with TLS"
    );
}

#[test]
fn slots_by_lease_are_refused_with_the_reason() {
    let file = "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\nlimit = { lease = \"web\" }\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:4:11: this podnudge was built without access to the Kubernetes API\n  \
         hint: use the image with TLS"
    );
    let file = "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\nlimit.slot = { every = \"9s\", of = 2 }\n";
    assert!(config::parse("c.toml", file, &Overrides::default(), None).is_ok());
}

#[test]
fn events_are_refused_with_the_reason() {
    let file = "[cluster]\nevents = true\n[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:2:1: this podnudge was built without access to the Kubernetes API\n  \
         hint: use the image with TLS"
    );
}

#[cfg(not(feature = "compat"))]
#[test]
fn files_to_expand_are_refused_with_the_reason() {
    let file = "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\nexpand = { file = \"/a/b\", to = \"/c/d\" }\n";
    let problems = config::parse("c.toml", file, &Overrides::default(), None).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "c.toml:4:1: this podnudge was built without `[rule.expand]`\n  \
         hint: use one with the default features"
    );
}
