//! The proof by the certificate that an application presents: servers of both versions of TLS and all
//! kinds of keys, and servers that misbehave.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use podnudge::verify::proofs;
use podnudge::volume::scan::read;
use podnudge_config::{self as config, KeyFilter, Overrides, Rule};
use podnudge_core::event::Proof;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Digest, digest};
use rustix::net::{AddressFamily, SocketType};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};

use crate::support::certificate::Pair;
use crate::support::http::wait;
use crate::support::{Scene, wait_until};

const RSA_CRT: &str = include_str!("pem/rsa.crt");
const RSA_KEY: &str = include_str!("pem/rsa.key");
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// What a server has seen of each client: the server name, and the bytes after the handshake.
type Seen = Arc<Mutex<Vec<(Option<String>, usize)>>>;

/// Presents one certificate, or another one for another name. Does not compare it with its key.
#[derive(Debug)]
struct Presents {
    certificate: Arc<CertifiedKey>,
    for_other_name: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Presents {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_other = hello.server_name() == Some("other.example");
        let other = self.for_other_name.as_ref().filter(|_| is_other);
        Some(Arc::clone(other.unwrap_or(&self.certificate)))
    }
}

fn certified(crt: &str, key: &PrivateKeyDer<'_>) -> Arc<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(crt.as_bytes()).map(Result::unwrap).collect();
    Arc::new(CertifiedKey::new(chain, any_supported_type(key).unwrap()))
}

fn key_of(pair: &Pair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(pair.key_der.clone()).into()
}

fn of_pair(pair: &Pair) -> Arc<CertifiedKey> {
    certified(&pair.crt, &key_of(pair))
}

/// A server of this version that presents this certificate.
fn config(
    version: &'static SupportedProtocolVersion,
    certificate: Arc<CertifiedKey>,
) -> ServerConfig {
    podnudge::exchange::install_crypto();
    ServerConfig::builder_with_protocol_versions(&[version])
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Presents { certificate, for_other_name: None }))
}

/// Serves all clients, one after the other.
fn serve(config: ServerConfig) -> (SocketAddr, Seen) {
    let (config, seen) = (Arc::new(config), Seen::default());
    let kept = Arc::clone(&seen);
    let address = server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut bytes = Vec::new();
        // An error is one of the handshake.
        drop(stream.read_to_end(&mut bytes));
        let name = stream.conn.server_name().map(str::to_owned);
        kept.lock().unwrap().push((name, bytes.len()));
    });
    (address, seen)
}

/// Presents this certificate to all clients.
pub(crate) fn serve_pair(pair: &Pair) -> SocketAddr {
    serve(config(&TLS13, of_pair(pair))).0
}

fn server(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().map(Result::unwrap).for_each(serve));
    address
}

fn rule(watch: &[PathBuf], address: SocketAddr, more: &str) -> Rule {
    let file = format!(
        "[[rule]]\nname = \"web\"\nwatch = {watch:?}\nsignal = {{ name = \"HUP\" }}\n{more}\n\
         [rule.verify]\ntls = \"{address}\"\n"
    );
    // Settings of the proof come last.
    let file = match more.strip_prefix("verify: ") {
        Some(settings) => file.replace(&format!("{more}\n"), "") + settings,
        None => file,
    };
    let (config, warnings) =
        config::parse("a.toml", &file, &Overrides::default(), None).expect("it is a configuration");
    assert_eq!(warnings, []);
    config.rules.into_iter().next().unwrap()
}

fn digest_of(folders: &[PathBuf]) -> Digest {
    digest_of_keys(folders, &KeyFilter::default())
}

fn digest_of_keys(folders: &[PathBuf], keys: &KeyFilter) -> Digest {
    digest(folders.iter().map(|path| read(path, keys).unwrap().snapshot.unwrap().digest()))
}

/// The result of one look.
fn look(rule: &Rule, digest: Digest) -> Proof {
    wait(async {
        let before = proofs::state_before(rule, digest, &[]).await.expect("nothing is read before");
        proofs::check_proofs(rule, Some(&before), &[]).await
    })
}

fn verdict_of(files: &[(&str, &str)], address: SocketAddr, more: &str) -> Proof {
    let scene = Scene::with(files);
    let watch = [scene.kubelet.volume.clone()];
    let rule = rule(&watch, address, more);
    look(&rule, digest_of_keys(&watch, &rule.keys))
}

/// The result of one look with this certificate in the content.
fn verdict(crt: &str, address: SocketAddr) -> Proof {
    verdict_of(&[("tls.crt", crt)], address, "")
}

fn pending(proof: Proof) -> Reason {
    match proof {
        Proof::Pending(reason) => reason,
        other => panic!("not pending: {other:?}"),
    }
}

#[test]
fn each_kind_of_certificate_is_proven_by_both_versions_and_nothing_is_sent() {
    let rsa = PrivateKeyDer::from_pem_slice(RSA_KEY.as_bytes()).unwrap();
    let mut servers = vec![(RSA_CRT.to_owned(), certified(RSA_CRT, &rsa))];
    for kind in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
    {
        let pair = Pair::new(&[0x7f], kind);
        servers.push((pair.crt.clone(), of_pair(&pair)));
    }
    for (crt, certificate) in servers {
        for version in VERSIONS {
            let (address, seen) = serve(config(version, Arc::clone(&certificate)));
            assert_eq!(verdict(&crt, address), Proof::Given, "{version:?}");
            wait_until("the server is done", || !seen.lock().unwrap().is_empty());
            assert_eq!(*seen.lock().unwrap(), [(None, 0)], "{version:?}");
        }
    }
}

#[test]
fn the_first_certificate_of_the_key_counts() {
    let (leaf, issuer) = (Pair::ecdsa(&[1]), Pair::ecdsa(&[2]));
    let (address, _) = serve(config(&TLS13, of_pair(&leaf)));
    let chain = format!("{}{}", leaf.crt, issuer.crt);
    assert_eq!(verdict(&chain, address), Proof::Given);
    let of_haproxy = format!("{}{chain}", leaf.key);
    let named = "verify: tls-certificate = \"site.pem\"";
    assert_eq!(verdict_of(&[("site.pem", &of_haproxy)], address, named), Proof::Given);
    let reversed = format!("{}{}", issuer.crt, leaf.crt);
    assert!(pending(verdict(&reversed, address)).message.contains("serial number 01, and"));
}

#[test]
fn another_certificate_is_no_proof_and_both_serial_numbers_are_named() {
    let (old, new) = (Pair::ecdsa(&[0x0a, 0xff]), Pair::ecdsa(&[0x80, 0x01]));
    let (address, _) = serve(config(&TLS13, of_pair(&old)));
    let reason = pending(verdict(&new.crt, address));
    assert_eq!(
        reason.message,
        format!(
            "`{address}` presents the certificate with the serial number 0AFF, and `tls.crt` has 8001"
        )
    );
    assert_eq!(
        reason.hint.unwrap(),
        "the application has not read the new one, or it needs `tls-server-name`"
    );
    let renewed = Pair::ecdsa(&[0x0a, 0xff]);
    let reason = pending(verdict(&renewed.crt, address));
    let wanted = "presents another certificate with the serial number 0AFF than `tls.crt`";
    assert!(reason.message.ends_with(wanted), "{reason}");
}

/// Otherwise a copy of the certificate, which is public, would be a proof.
#[test]
fn a_server_without_the_private_key_gives_no_proof() {
    let (own, other) = (Pair::ecdsa(&[1]), Pair::ecdsa(&[2]));
    for version in VERSIONS {
        let (address, _) = serve(config(version, certified(&own.crt, &key_of(&other))));
        let reason = pending(verdict(&own.crt, address));
        assert!(reason.message.contains("failed in the TLS handshake: "), "{reason}");
        assert!(reason.message.contains("BadSignature"), "{reason}");
    }
}

#[test]
fn a_server_that_demands_a_certificate_of_its_client_is_proven() {
    let pair = Pair::ecdsa(&[1]);
    let mut roots = RootCertStore::empty();
    roots.add(pair.der.clone().into()).unwrap();
    let roots = Arc::new(roots);
    for version in VERSIONS {
        podnudge::exchange::install_crypto();
        let clients = WebPkiClientVerifier::builder(Arc::clone(&roots)).build().unwrap();
        let demanding = ServerConfig::builder_with_protocol_versions(&[version])
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(Presents {
                certificate: of_pair(&pair),
                for_other_name: None,
            }));
        let (address, _) = serve(demanding);
        assert_eq!(verdict(&pair.crt, address), Proof::Given, "{version:?}");
    }
}

#[test]
fn the_server_name_selects_the_certificate() {
    let (first, other) = (Pair::ecdsa(&[1]), Pair::ecdsa(&[2]));
    let presents = Presents { certificate: of_pair(&first), for_other_name: Some(of_pair(&other)) };
    let mut both = config(&TLS13, of_pair(&first));
    both.cert_resolver = Arc::new(presents);
    let (address, seen) = serve(both);
    let named = "verify: tls-server-name = \"Other.example\"";
    assert_eq!(verdict(&first.crt, address), Proof::Given);
    assert_eq!(verdict_of(&[("tls.crt", &other.crt)], address, named), Proof::Given);
    let reason = pending(verdict_of(&[("tls.crt", &first.crt)], address, named));
    assert!(reason.message.contains("serial number 02, and `tls.crt` has 01"), "{reason}");
    wait_until("the server is done", || seen.lock().unwrap().len() == 3);
    let wanted = [None, Some("other.example".to_owned()), Some("other.example".to_owned())];
    assert_eq!(*seen.lock().unwrap(), wanted.map(|name| (name, 0)));
}

/// Reads the greeting of the client, and answers with these bytes.
fn answers(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    server(move |mut stream| {
        drop(stream.read(&mut [0; 4096]));
        drop(stream.write_all(&bytes));
    })
}

/// A record of TLS with this type and content.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3], length.as_slice(), content].concat()
}

#[test]
fn a_server_that_misbehaves_gives_a_reason_within_the_time_limit() {
    let endless =
        |piece: Vec<u8>| server(move |mut stream| while stream.write_all(&piece).is_ok() {});
    let hangs = server(std::mem::forget);
    // It keeps its port, so that no other test gets that, and accepts nothing.
    let unused = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&unused, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let closed = rustix::net::getsockname(&unused).unwrap().try_into().unwrap();
    let drips = server(|mut stream| {
        for byte in record(22, &[2; 4096]) {
            if stream.write_all(&[byte]).is_err() {
                break;
            }
            crate::support::wait::pause();
        }
    });
    // A handshake message of 16 MiB: its length comes first.
    let huge = record(22, &[&[2, 255, 255, 255], [0; 1000].as_slice()].concat());
    let starttls = "does not speak TLS";
    let servers = [
        (hangs, "did not complete a TLS handshake within 300ms"),
        (drips, "did not complete a TLS handshake within 300ms"),
        (closed, "cannot connect to `tcp://"),
        (server(drop), "the TLS handshake"),
        (answers(""), "the TLS handshake"),
        (answers("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), starttls),
        (answers("220 mail.example ESMTP\r\n"), starttls),
        (answers([0; 4096]), starttls),
        (answers([0xff; 4096]), starttls),
        // The header of a record promises more than any record may have.
        (answers([&[22, 3, 3, 255, 255], vec![0; 65_535].as_slice()].concat()), starttls),
        (answers(huge), starttls),
        (answers(record(21, &[2, 40])), "refused the TLS handshake: HandshakeFailure"),
        (answers(record(23, b"data")), "failed in the TLS handshake"),
        (endless(record(22, &[])), "`"),
        (endless(record(20, &[1])), "`"),
        (endless(record(21, &[1, 90])), "`"),
        (endless(record(22, &[11, 0, 255, 255])), "`"),
    ];
    let crt = Pair::ecdsa(&[1]).crt;
    for (address, wanted) in servers {
        let limit = "verify: attempt-timeout = \"300ms\"";
        let reason = pending(verdict_of(&[("tls.crt", &crt)], address, limit));
        println!("{reason}");
        assert!(reason.message.contains(wanted), "{wanted}: {reason}");
        assert!(reason.message.contains(&address.to_string()), "{reason}");
        assert!(reason.message.len() < 300, "{reason}");
        if wanted == starttls {
            assert!(reason.hint.unwrap().contains("STARTTLS is not supported"));
        }
    }
}

#[test]
fn content_without_the_certificate_gives_a_reason() {
    let pair = Pair::ecdsa(&[1]);
    let (address, _) = serve(config(&TLS13, of_pair(&pair)));
    let reason = |files: &[(&str, &str)], more: &str| pending(verdict_of(files, address, more));
    let missing = reason(&[("server.crt", &pair.crt)], "");
    assert_eq!(missing.message, "the content has no key `tls.crt`");
    assert!(missing.hint.unwrap().contains("tls-certificate"));
    let ignored = reason(&[("tls.crt", &pair.crt), ("a", "")], "ignore = [\"tls.*\"]");
    assert_eq!(ignored.message, "the content has no key `tls.crt`");
    for no_certificate in ["", "no PEM", &pair.key, &pair.crt.replace("MII", "AII")] {
        let broken = reason(&[("tls.crt", no_certificate)], "");
        assert_eq!(broken.message, "there is no PEM certificate in the key `tls.crt`");
    }
    let (first, second) = (Scene::with(&[("tls.crt", &pair.crt)]), Pair::ecdsa(&[2]));
    let second = Scene::with(&[("tls.crt", &second.crt)]);
    let watch = [first.kubelet.volume.clone(), second.kubelet.volume.clone()];
    let several = pending(look(&rule(&watch, address, ""), digest_of(&watch)));
    assert_eq!(several.message, "two volumes have another certificate in the key `tls.crt`");
    let same = Scene::with(&[("tls.crt", &pair.crt), ("other", "")]);
    let watch = [first.kubelet.volume.clone(), same.kubelet.volume.clone()];
    assert_eq!(look(&rule(&watch, address, ""), digest_of(&watch)), Proof::Given);
    // The content of the action is gone: what replaced it has its own rollout.
    let gone = pending(look(&rule(&watch, address, ""), Digest([7; 32])));
    assert_eq!(gone.message, "the content has changed meanwhile");
    let file = first.kubelet.volume.join("tls.crt");
    let watch = [file.clone()];
    assert_eq!(look(&rule(&watch, address, ""), digest_of(&watch)), Proof::Given);
}

/// What is published may be older than the volume, and podnudge's own reads must not look like those
/// of the application.
#[test]
fn the_published_certificate_is_compared_and_its_access_time_stays() {
    let (published, newer) = (Pair::ecdsa(&[1]), Pair::ecdsa(&[2]));
    let (address, _) = serve(config(&TLS13, of_pair(&published)));
    let scene = Scene::with(&[("tls.crt", &newer.crt)]);
    let dir = scene.path("published");
    let generation = dir.join("..generation");
    fs::create_dir_all(&generation).unwrap();
    fs::write(generation.join("tls.crt"), &published.crt).unwrap();
    symlink("..generation", dir.join("..data")).unwrap();
    symlink("..data/tls.crt", dir.join("tls.crt")).unwrap();
    let watch = [scene.kubelet.volume.clone()];
    let rule = rule(&watch, address, &format!("publish = {{ dir = {dir:?} }}"));
    let accessed = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.atime(), metadata.atime_nsec())
    };
    let digest = digest_of(std::slice::from_ref(&generation));
    // So old that any read would renew it.
    let old = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    let at = fs::File::open(generation.join("tls.crt")).unwrap();
    rustix::fs::futimens(&at, &times).unwrap();
    assert_eq!(look(&rule, digest), Proof::Given);
    assert_eq!(accessed(&generation.join("tls.crt")), (1_000_000_000, 0));
    fs::read(generation.join("tls.crt")).unwrap();
    assert_ne!(accessed(&generation.join("tls.crt")), (1_000_000_000, 0), "it would be seen");
}
