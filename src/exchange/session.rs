//! The TLS sessions with a server that gets many short requests, each by a connection of its own: the API server. A
//! session that is resumed needs no signature and no check of certificates, which is most of what a request costs both
//! sides. Other CA certificates begin other sessions.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest as _, Sha256};

/// The sessions of so many servers are kept.
const SERVERS: usize = 4;

/// The last configuration, which has the sessions, and the digest of its CA certificates.
static LAST: Mutex<Option<([u8; 32], ClientConfig)>> = Mutex::new(None);

/// The configuration for these CA certificates (PEM); `None` if they cannot be read.
pub(super) fn config(bundle: &[u8]) -> Option<ClientConfig> {
    let digest: [u8; 32] = Sha256::digest(bundle).into();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, config)) = last.as_ref().filter(|(of, _)| *of == digest) {
        return Some(config.clone());
    }
    let mut roots = RootCertStore::empty();
    // One that cannot be used must not keep the others from it.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bundle).map_while(Result::ok));
    if roots.is_empty() {
        return None;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::in_memory_sessions(SERVERS);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    *last = Some((digest, config.clone()));
    Some(config)
}
