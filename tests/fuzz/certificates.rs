//! Fuzzes the readers of PEM, of DER and of certificates (`src/checks/certificates/`).

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::certificate::Certificate;
use super::served::Leaf;
use super::{File, block, check, expiry};
use crate::fuzz::{Target, assert_reason, fuzz, words};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::snapshot::Key;

const NOW: UnixTime = UnixTime(Duration::from_secs(1_795_255_580));

/// A certificate in PEM and in DER, and its key in PEM.
fn certificate(is_ca: bool) -> (String, Vec<u8>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["example.com".to_owned()]).unwrap();
    if is_ca {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), certificate.der().to_vec(), key.serialize_pem())
}

#[test]
fn pem_has_the_blocks_that_another_parser_finds() {
    let (leaf, _, key) = certificate(false);
    let (authority, _, _) = certificate(true);
    let seeds = [
        leaf.clone(),
        format!("{leaf}{key}"),
        format!("# comment\n{leaf}\ntext\n{authority}"),
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned(),
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n-----END RSA PRIVATE KEY-----\n".to_owned(),
    ];
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let dictionary = words("pem");
    let target = Target { dictionary, longest: 8192, ..Target::new("pem", &seeds) };
    fuzz(target, |input| {
        let key = Key(b"tls.pem".to_vec());
        let other = <(SectionKind, Vec<u8>)>::pem_slice_iter(input).collect::<Result<Vec<_>, _>>();
        let mut seen = String::new();
        match (block::parse_blocks(&key, input), other) {
            (Ok(blocks), Ok(other)) => {
                // It knows fewer labels.
                let certificates = |kind: &SectionKind| matches!(kind, SectionKind::Certificate);
                let other = other.iter().filter(|(kind, _)| certificates(kind));
                let other: Vec<&[u8]> = other.map(|(_, der)| der.as_slice()).collect();
                let ours = blocks.iter().filter(|block| block.kind == block::Kind::Certificate);
                let ours: Vec<&[u8]> = ours.map(|block| block.der.as_slice()).collect();
                assert_eq!(ours, other);
                assert!(blocks.iter().all(|block| block.line <= input.len() + 1));
                seen = format!("{} blocks", "x".repeat(blocks.len().min(5)));
            }
            (Ok(_), Err(error)) => panic!("another parser refuses it: {error:?}"),
            (Err(reason), _) => seen += &assert_reason(&reason),
        }
        let checked = verdict(input);
        // Line ends are of no importance.
        if !input.contains(&b'\r') {
            let text = input.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
            assert_eq!(verdict(&text), checked);
        }
        format!("{seen} {checked:?}")
    });
}

fn file<'a>(key: &'a Key, content: &'a [u8]) -> std::iter::Once<File<'a>> {
    std::iter::once(File { path: PathBuf::from("/etc/tls/tls.pem"), key, content })
}

/// The verdict about a file, which expires after it is valid.
fn verdict(content: &[u8]) -> Result<(), String> {
    let key = Key(b"tls.pem".to_vec());
    let expires = expiry(file(&key, content), NOW);
    match check(file(&key, content), NOW) {
        Ok(()) => {
            assert!(expires.is_none_or(|at| at >= NOW), "it is valid, and expired at {expires:?}");
            Ok(())
        }
        Err(Checked::Rejected(reason)) => Err(assert_reason(&reason)),
        Err(Checked::NotBefore(at, reason)) => {
            assert!(at > NOW, "it is valid since {at:?}");
            Err(assert_reason(&reason))
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_is_read_from_any_der_or_refused() {
    let (_, leaf, _) = certificate(false);
    let (_, authority, _) = certificate(true);
    let dictionary = words("der");
    let seeds = vec![leaf, authority];
    let target = Target { seeds, dictionary, inputs: 10_000, ..Target::new("der", &[]) };
    fuzz(target, |input| match Certificate::read(input) {
        Ok(certificate) => {
            // All of it was in the text.
            for part in [&certificate.issuer, &certificate.subject, &certificate.public_key] {
                assert!(input.windows(part.len().max(1)).any(|window| window == part.as_slice()));
            }
            let shown = Leaf::read(input).expect("it is a certificate").to_string();
            assert!(shown.len() <= 43 && shown.chars().all(|c| c.is_ascii_hexdigit() || c == '…'));
            let pem = format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                base64(input)
            );
            format!("{} {:?}", certificate.is_ca, verdict(pem.as_bytes()))
        }
        Err(error) => error.to_string(),
    });
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | usize::from(*chunk.get(n).unwrap_or(&0)));
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            let shown = DIGITS[bits >> (18 - 6 * digit) & 63];
            text.push(if is_there { char::from(shown) } else { '=' });
        }
    }
    text
}
