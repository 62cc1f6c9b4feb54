//! Checks of certificates and private keys: what an application could serve with passes, and
//! anything else is rejected with its line and its dates.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use podnudge::checks::contents::{check, expiry};
use podnudge::volume::scan::read;
use podnudge_config::{Check, Condition, KeyFilter, Syntax};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::snapshot::digest;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::support::{Agent, Application, Kubelet, Payload, ROLLED_OUT, payload, wait_until};

/// 2030-01-01T00:00:00Z.
const NOW: UnixTime = UnixTime(Duration::from_hours(525_960));
/// 2031-01-01T00:00:00Z.
const IN_A_YEAR: UnixTime = UnixTime(Duration::from_hours(525_960 + 365 * 24));

// Made by OpenSSL: keys in its own formats, and certificates that are valid until 2100.
const RSA_CRT: &str = include_str!("pem/rsa.crt");
const RSA_KEY: &str = include_str!("pem/rsa.key");
const RSA_PKCS1_KEY: &str = include_str!("pem/rsa-pkcs1.key");
const EC_CRT: &str = include_str!("pem/ec.crt");
const EC_KEY: &str = include_str!("pem/ec.key");
const VERSION_1_CRT: &str = include_str!("pem/version1.crt");
const ENCRYPTED_PKCS8_KEY: &str = include_str!("pem/encrypted-pkcs8.key");
const ENCRYPTED_TRADITIONAL_KEY: &str = include_str!("pem/encrypted-traditional.key");

/// A key with its certificate, which can issue other certificates.
struct Party {
    crt: String,
    der: Vec<u8>,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The years in which a certificate becomes valid and expires.
type Years = (i32, i32);

const GOOD: Years = (2029, 2031);

fn issue(name: &str, ca: IsCa, years: Years, by: Option<&Party>, key: KeyPair) -> Party {
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = ca;
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    let certificate = match by {
        Some(by) => params.signed_by(&key, &by.issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let (crt, der) = (certificate.pem(), certificate.der().to_vec());
    Party { crt, der, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
}

fn authority(name: &str, years: Years, by: Option<&Party>) -> Party {
    let ca = IsCa::Ca(BasicConstraints::Unconstrained);
    issue(name, ca, years, by, KeyPair::generate().unwrap())
}

fn leaf(years: Years, by: &Party) -> Party {
    issue("leaf", IsCa::NoCa, years, Some(by), KeyPair::generate().unwrap())
}

/// A leaf whose CA is in none of the files.
fn server(years: Years) -> Party {
    leaf(years, &authority("hidden", GOOD, None))
}

fn pem(keys: &[&str]) -> Check {
    let keys = keys.iter().map(|keys| glob::Pattern::new(keys).unwrap()).collect();
    Check { keys, condition: Condition::Syntax(Syntax::Pem) }
}

/// The result of a check, and the expiry date that it found.
#[derive(Debug)]
struct Judgement {
    checked: Checked,
    expires: Option<UnixTime>,
}

fn judge_at(paths: &[PathBuf], one: Check) -> Judgement {
    let keys = KeyFilter::default();
    let digests = paths.iter().map(|path| read(path, &keys).unwrap().snapshot.unwrap().digest());
    let asked = digest(digests);
    let (paths, checks) = (|| paths.iter().map(PathBuf::as_path), [one]);
    let checked = check(paths(), &keys, asked, &checks, NOW).err().unwrap_or(Checked::Passed);
    Judgement { checked, expires: expiry(paths(), &keys, asked, &checks, NOW).unwrap_or_default() }
}

fn judge(content: &Payload, one: Check) -> Judgement {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    kubelet.write(content);
    judge_at(&[folder.path().to_owned()], one)
}

/// Asserts that these files pass, and returns their expiry date.
fn passes(files: &[(&str, &str)]) -> Option<UnixTime> {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let judgement = judge(&payload(files), pem(&[]));
    assert_eq!(judgement.checked, Checked::Passed, "{names:?}");
    judgement.expires
}

/// The reason why these files are rejected, and its hint.
fn rejection(files: &[(&str, &str)]) -> (String, String) {
    match judge(&payload(files), pem(&[])).checked {
        Checked::Rejected(reason) => {
            let texts = (reason.message, reason.hint.unwrap_or_default());
            let lines = files.iter().flat_map(|(_, content)| content.lines());
            for line in lines.filter(|line| line.len() > 20 && !line.starts_with('-')) {
                assert!(!texts.0.contains(line) && !texts.1.contains(line), "{texts:?}");
            }
            texts
        }
        other => panic!("not rejected: {other:?}"),
    }
}

fn rejected(files: &[(&str, &str)]) -> String {
    rejection(files).0
}

#[test]
fn a_certificate_and_its_key_pass_for_every_supported_key_type() {
    let hidden = authority("hidden", GOOD, None);
    for kind in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
    {
        let key = KeyPair::generate_for(kind).unwrap();
        let own = issue("leaf", IsCa::NoCa, GOOD, Some(&hidden), key);
        let expires = passes(&[("tls.crt", &own.crt), ("tls.key", &own.key)]);
        assert_eq!(expires, Some(IN_A_YEAR));
        let windows = own.key.replace('\n', "\r\n");
        passes(&[("tls.crt", &own.crt), ("tls.key", &windows)]);
    }
    passes(&[("tls.crt", RSA_CRT), ("tls.key", RSA_KEY)]);
    passes(&[("tls.crt", RSA_CRT), ("tls.key", RSA_PKCS1_KEY)]);
    passes(&[("tls.crt", EC_CRT), ("tls.key", EC_KEY)]);
    passes(&[("tls.crt", VERSION_1_CRT), ("tls.key", EC_KEY)]);
    // Text between the blocks is ignored.
    passes(&[("tls.crt", &format!("subject=CN = rsa.example\n{RSA_CRT}\n")), ("tls.key", RSA_KEY)]);
}

#[test]
fn a_certificate_is_matched_by_name_or_as_the_only_one_beside_the_key() {
    let (own, other) = (server(GOOD), server(GOOD));
    let ca = authority("ca", GOOD, None);
    let (crt, key) = (own.crt.as_str(), own.key.as_str());
    passes(&[("server.pem", crt), ("server-key.pem", key), ("other.crt", &other.crt)]);
    passes(&[("server-cert.pem", crt), ("server-key.pem", key), ("other.crt", &other.crt)]);
    passes(&[("server.crt.pem", crt), ("server.key.pem", key), ("other.crt", &other.crt)]);
    passes(&[("cert.pem", crt), ("key.pem", key), ("other.crt", &other.crt)]);
    passes(&[("web.crt", crt), ("private.pem", key), ("ca.crt", &ca.crt)]);
    passes(&[("haproxy.pem", &format!("{key}{crt}")), ("other.crt", &other.crt)]);
    passes(&[("a/tls.crt", crt), ("a/tls.key", key), ("b/tls.crt", &other.crt)]);
    // As certbot names them: two certificates beside the key, one of which is its own.
    let chain = format!("{crt}{}", ca.crt);
    let hidden = authority("hidden", GOOD, None);
    let full = format!("{crt}{}", hidden.crt);
    passes(&[("fullchain.pem", &full), ("cert.pem", crt), ("privkey.pem", key)]);
    assert!(rejected(&[("fullchain.pem", &chain)]).contains("is not issued by"));
    // A self-signed certificate as OpenSSL makes it: it is marked as a CA.
    passes(&[("tls.crt", &ca.crt), ("tls.key", &ca.key)]);
    passes(&[("fullchain.pem", &ca.crt), ("privkey.pem", &ca.key), ("ca.crt", &hidden.crt)]);
    // Two files of one directory, watched separately.
    let folder = tempfile::tempdir().unwrap();
    let paths = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
    fs::write(&paths[0], crt).unwrap();
    fs::write(&paths[1], key).unwrap();
    assert_eq!(judge_at(&paths, pem(&[])).checked, Checked::Passed);
    fs::write(&paths[0], &other.crt).unwrap();
    assert!(matches!(judge_at(&paths, pem(&[])).checked, Checked::Rejected(_)));
}

#[test]
fn a_key_that_belongs_to_another_certificate_is_rejected() {
    let (own, other) = (server(GOOD), server(GOOD));
    let (crt, key) = (other.crt.as_str(), own.key.as_str());
    assert_eq!(
        rejected(&[("tls.crt", crt), ("tls.key", key)]),
        "the key `tls.key` does not belong to the certificate in `tls.crt`"
    );
    assert_eq!(
        rejected(&[("a.crt", crt), ("b.crt", RSA_CRT), ("private.pem", key)]),
        "the key `private.pem` does not belong to the certificate in `a.crt` or `b.crt`"
    );
    assert_eq!(
        rejected(&[("all.pem", &format!("{crt}{key}")), ("own.crt", &own.crt)]),
        "the key `all.pem` does not belong to the certificate in `all.pem`"
    );
    assert!(rejected(&[("tls.crt", RSA_CRT), ("tls.key", key)]).contains("does not belong"));
    assert!(rejected(&[("tls.crt", &own.crt), ("tls.key", RSA_KEY)]).contains("does not belong"));
    // The issuer's certificate is not the leaf's.
    let ca = authority("ca", GOOD, None);
    let below = leaf(GOOD, &ca);
    let chain = format!("{}{}", below.crt, ca.crt);
    assert!(rejected(&[("tls.crt", &chain), ("tls.key", &ca.key)]).contains("does not belong"));
}

#[test]
fn a_key_without_a_certificate_is_rejected() {
    let own = server(GOOD);
    let ca = authority("ca", GOOD, None);
    let (crt, key) = (own.crt.as_str(), own.key.as_str());
    for files in [
        &[("tls.key", key)][..],
        &[("tls.key", key), ("ca.crt", &ca.crt)],
        &[("tls.key", key), ("a/tls.crt", crt)],
    ] {
        let (message, hint) = rejection(files);
        assert_eq!(message, "there is no certificate for the key in line 1 of `tls.key`");
        assert!(hint.contains("`keys`"), "{hint}");
    }
    let files = payload(&[("tls.key", key), ("tls.crt", crt)]);
    assert!(matches!(judge(&files, pem(&["*.key"])).checked, Checked::Rejected(_)));
    assert_eq!(judge(&files, pem(&["*.crt"])).checked, Checked::Passed);
    assert_eq!(judge(&files, pem(&["tls.*"])).checked, Checked::Passed);
    // Keys that do not match are not checked, and without a certificate there is no expiry.
    let none = judge(&files, pem(&["*.pem"]));
    assert_eq!((none.checked, none.expires), (Checked::Passed, None));
}

#[test]
fn an_expired_or_not_yet_valid_leaf_is_rejected_with_its_dates() {
    let old = server((2028, 2029));
    assert_eq!(
        rejected(&[("tls.crt", &old.crt), ("tls.key", &old.key)]),
        "the certificate in line 1 of `tls.crt` expired at 2029-01-01T00:00:00Z, and now it is \
         2030-01-01T00:00:00Z"
    );
    // The metric shows the past expiry date, too.
    let judged = judge(&payload(&[("tls.crt", &old.crt)]), pem(&[]));
    assert!(judged.expires.is_some_and(|at| at < NOW), "{judged:?}");
    let new = server((2031, 2060));
    let too_early = judge(&payload(&[("tls.crt", &format!("# new\n\n{}", new.crt))]), pem(&[]));
    let Checked::NotBefore(time, reason) = too_early.checked else { panic!("{too_early:?}") };
    assert_eq!(time, IN_A_YEAR);
    assert_eq!(
        reason.message,
        "the certificate in line 3 of `tls.crt` is not valid before 2031-01-01T00:00:00Z, and now \
         it is 2030-01-01T00:00:00Z"
    );
    // Content that will never be valid is rejected, and not held until a date.
    let other = server((2031, 2060));
    let mixed = rejected(&[("tls.crt", &new.crt), ("tls.key", &other.key)]);
    assert!(mixed.contains("does not belong"), "{mixed}");
    // The first and the last second are valid.
    passes(&[("tls.crt", &server((2030, 2031)).crt)]);
    assert_eq!(passes(&[("tls.crt", &server((2029, 2030)).crt)]), Some(NOW));
    // An expired issuer may be included for old clients.
    let ca = authority("ca", (2020, 2025), None);
    passes(&[("tls.crt", &format!("{}{}", leaf(GOOD, &ca).crt, ca.crt))]);
}

#[test]
fn a_chain_must_be_in_order_and_a_ca_bundle_need_not() {
    let root = authority("root", GOOD, None);
    let middle = authority("middle", GOOD, Some(&root));
    let own = leaf(GOOD, &middle);
    let chain = |parts: &[&Party]| parts.iter().map(|part| part.crt.as_str()).collect::<String>();
    passes(&[("tls.crt", &chain(&[&own, &middle])), ("tls.key", &own.key)]);
    passes(&[("tls.crt", &chain(&[&own, &middle, &root])), ("tls.key", &own.key)]);
    let second = 1 + own.crt.lines().count();
    let (message, hint) = rejection(&[("tls.crt", &chain(&[&own, &root, &middle]))]);
    let expected = format!(
        "the certificate in line 1 of `tls.crt` is not issued by the next one, in line {second}"
    );
    assert_eq!(message, expected);
    assert!(hint.contains("certificate first"), "{hint}");
    assert!(rejected(&[("tls.crt", &chain(&[&middle, &own]))]).contains("is not issued by"));
    assert!(rejected(&[("tls.crt", &chain(&[&own, &own]))]).contains("is not issued by"));
    // Trusted CAs, in any order, including those of version 1.
    passes(&[("ca.crt", &chain(&[&root, &middle]))]);
    passes(&[("ca.crt", &chain(&[&middle, &root]))]);
    passes(&[("ca.crt", &format!("{VERSION_1_CRT}{}", root.crt))]);
}

#[test]
fn a_ca_bundle_needs_at_least_one_valid_certificate() {
    let (old, good) = (authority("old", (2019, 2020), None), authority("good", GOOD, None));
    let long = authority("long", (2029, 2040), None);
    let bundle = |parts: &[&Party]| parts.iter().map(|part| part.crt.as_str()).collect::<String>();
    assert!(rejected(&[("ca.crt", &old.crt)]).contains("expired at 2020-01-01T00:00:00Z"));
    assert!(rejected(&[("ca.crt", &bundle(&[&old, &old]))]).contains("expired at 2020-"));
    assert_eq!(passes(&[("ca.crt", &bundle(&[&old, &good]))]), Some(IN_A_YEAR));
    // The bundle is valid for longer than the leaf; the earlier date counts.
    let own = leaf(GOOD, &long);
    let files = [("ca.crt", &bundle(&[&good, &long])[..]), ("tls.crt", &own.crt)];
    assert_eq!(passes(&files), Some(IN_A_YEAR));
    assert!(passes(&files[..1]) > Some(IN_A_YEAR));
}

#[test]
fn an_encrypted_key_is_rejected_with_a_hint() {
    for key in [ENCRYPTED_PKCS8_KEY, ENCRYPTED_TRADITIONAL_KEY] {
        let (message, hint) = rejection(&[("tls.crt", RSA_CRT), ("tls.key", key)]);
        assert_eq!(message, "the private key in line 1 of `tls.key` is encrypted");
        assert!(hint.contains("passphrase") && hint.contains("`keys`"), "{hint}");
    }
}

#[test]
fn malformed_pem_is_rejected_with_its_line() {
    let own = server(GOOD);
    let crt = own.crt.as_str();
    let lines = crt.lines().count();
    let without_end = crt.replace("-----END CERTIFICATE-----\n", "");
    let indented: String = crt.lines().flat_map(|line| ["  ", line, "\n"]).collect();
    for (content, expected) in [
        (String::new(), "`a.pem` is empty, and not PEM".to_owned()),
        ("\n \n".to_owned(), "`a.pem` is empty, and not PEM".to_owned()),
        ("hunter2".to_owned(), "there is no PEM block in `a.pem`".to_owned()),
        (crt.replace("-----", "----"), "there is no PEM block in `a.pem`".to_owned()),
        (
            without_end.clone(),
            "the PEM block that begins in line 1 of `a.pem` has no end".to_owned(),
        ),
        (
            format!("{without_end}{crt}"),
            "the PEM block that begins in line 1 of `a.pem` has no end".to_owned(),
        ),
        (
            crt.replace("-----BEGIN CERTIFICATE-----\n", ""),
            format!("line {} of `a.pem` ends a PEM block that has no beginning", lines - 1),
        ),
        (
            crt.replace("END CERTIFICATE", "END PRIVATE KEY"),
            "the PEM block that begins in line 1 of `a.pem` has no end".to_owned(),
        ),
        (indented, "line 1 of `a.pem` is a broken PEM marker".to_owned()),
        (crt.replace('\n', "\\n"), "line 1 of `a.pem` is a broken PEM marker".to_owned()),
        (
            format!("{crt}\u{feff}{crt}"),
            format!("line {} of `a.pem` is a broken PEM marker", lines + 1),
        ),
        (
            crt.replace("CERTIFICATE", "CERTIFICAT"),
            "the PEM block in line 1 of `a.pem` is of an unknown kind".to_owned(),
        ),
        (
            crt.replace("CERTIFICATE", "PRIVATE KEY"),
            "the private key in line 1 of `a.pem` is broken, or not one that podnudge can load"
                .to_owned(),
        ),
        (
            own.key.replace("PRIVATE KEY", "CERTIFICATE"),
            "the certificate in line 1 of `a.pem` cannot be read".to_owned(),
        ),
        (
            crt.replace("CERTIFICATE-----\nMII", "CERTIFICATE-----\nM*I"),
            "the PEM block that begins in line 1 of `a.pem` is broken".to_owned(),
        ),
        (
            format!("{crt}-----BEGIN DH PARAMETERS-----\n-----END DH PARAMETERS-----\n"),
            format!("the PEM block that begins in line {} of `a.pem` is broken", lines + 1),
        ),
        (without_half(crt), "the certificate in line 1 of `a.pem` cannot be read".to_owned()),
    ] {
        assert_eq!(rejected(&[("a.pem", &content)]), expected, "{content}");
    }
    let mut der = Payload::new();
    der.insert("a.der".to_owned(), own.der);
    match judge(&der, pem(&[])).checked {
        Checked::Rejected(reason) => assert_eq!(reason.message, "`a.der` is binary, and not PEM"),
        other => panic!("not rejected: {other:?}"),
    }
}

/// The same block cut after half of its lines, which is still valid base64.
fn without_half(pem: &str) -> String {
    let lines: Vec<&str> = pem.lines().collect();
    let half = &lines[..lines.len() / 2];
    format!("{}\n-----END CERTIFICATE-----\n", half.join("\n"))
}

/// A certificate with any one character changed, or cut off there, passes or is rejected.
#[test]
fn a_damaged_certificate_causes_no_crash() {
    let own = server(GOOD);
    let block =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n");
    let body: String = own.crt.lines().filter(|line| !line.starts_with('-')).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tls.crt");
    for place in 0..body.len() {
        let mut damaged = body.clone();
        let other = if damaged[place..].starts_with('A') { "B" } else { "A" };
        damaged.replace_range(place..=place, other);
        for body in [&damaged, &body[..place]] {
            fs::write(&path, block(&format!("{body}\n"))).unwrap();
            let checked = judge_at(std::slice::from_ref(&path), pem(&[])).checked;
            assert!(matches!(checked, Checked::Passed | Checked::Rejected(_)), "{checked:?}");
        }
    }
}

/// A writer other than the kubelet replaces the certificate and, soon after, the key. The settle
/// time covers both.
#[test]
fn a_certificate_and_key_written_one_after_the_other_are_applied_together() {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("svids");
    fs::create_dir(&volume).unwrap();
    // podnudge reads the clock of the machine.
    let years = (1990, 4000);
    let pairs = [server(years), server(years)];
    let write = |path: &Path, content: &str| fs::write(path, content).unwrap();
    write(&volume.join("tls.crt"), &pairs[0].crt);
    write(&volume.join("tls.key"), &pairs[0].key);
    let application = Application::start(&volume, "tls.crt");
    let config = format!(
        "[[rule]]\nname = \"app\"\nwatch = \"{}\"\nsettle = \"1s\"\non-start = \"never\"\n\
         [rule.http]\nurl = \"{}\"\n[[rule.check]]\nsyntax = \"pem\"\nkeys = [\"tls.*\"]\n",
        volume.display(),
        application.url()
    );
    let file = folder.path().join("podnudge.toml");
    fs::write(&file, config).unwrap();
    let agent = Agent::start(folder.path(), &["--config", file.to_str().unwrap()]);
    write(&volume.join("tls.crt"), &pairs[1].crt);
    #[expect(clippy::disallowed_methods, reason = "the writer is slow")]
    let start = Instant::now();
    wait_until("50 ms are over", || start.elapsed() >= Duration::from_millis(50));
    write(&volume.join("tls.key"), &pairs[1].key);
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(application.reloads(), [pairs[1].crt.clone()]);
    assert_eq!(agent.count("rejected"), 0);
    // Half of a renewal is no matching pair, and does not reach the application.
    write(&volume.join("tls.key"), &pairs[0].key);
    agent.wait_for("rejected", 1);
    assert_eq!(
        agent.last("rejected", "reason"),
        "the key `tls.key` does not belong to the certificate in `tls.crt`"
    );
    assert_eq!(application.reloads().len(), 1);
    assert!(!agent.log().contains("PRIVATE"));
}
