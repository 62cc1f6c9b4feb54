//! Proves by a TLS handshake that the application presents the certificate of the new content.
//!
//! Each look reads the key with the certificate again, in a thread, and then makes one handshake
//! (`exchange/handshake.rs`). The reading leaves the access times of published files alone, which `publish/access.rs`
//! needs. The certificate counts as soon as its key has signed the handshake, however that ends: so no session may be
//! resumed. Of both certificates, only the digest and the serial number leave `checks/certificates/served.rs`.
//!
//! Reads the volumes or the publish directory; sends nothing after the handshake; changes nothing.

use std::path::PathBuf;

use tracing::info;

use crate::checks::certificates::served::{Leaf, first_in_key};
use crate::exchange::ExchangeError;
use crate::exchange::handshake::presented;
use crate::system::threads::Thread;
use podnudge_config::{Rule, TlsProof};
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// Makes one handshake, and returns the certificate, which is that of the content.
///
/// # Errors
/// If it is another one, or there is none.
pub(super) async fn check(rule: &Rule, digest: Digest, proof: &TlsProof) -> Result<Leaf, Reason> {
    let wanted = in_content(rule, rule.volumes_read(), Some(digest), proof).await?;
    let der = presented(proof.address, proof.server_name.as_deref(), proof.timeout).await;
    let der = der.map_err(ExchangeError::into_reason)?;
    let (address, key) = (&proof.address, &proof.certificate);
    let served = Leaf::read(&der)
        .ok_or_else(|| Reason::new(format!("the certificate of `{address}` cannot be read")))?;
    if served == wanted {
        return Ok(served);
    }
    let other = if served.has_serial_of(&wanted) {
        format!("another certificate with the serial number {served} than `{key}`")
    } else {
        format!("the certificate with the serial number {served}, and `{key}` has {wanted}")
    };
    let hint = match proof.server_name {
        Some(_) => "the application has not read the new one, or it has another one for this name",
        None => "the application has not read the new one, or it needs `tls-server-name`",
    };
    Err(Reason::new(format!("`{address}` presents {other}")).hint(hint))
}

/// The certificate in these volumes, if they have this digest.
///
/// # Errors
/// If there is none.
pub(crate) async fn in_content(
    rule: &Rule,
    volumes: Vec<PathBuf>,
    digest: Option<Digest>,
    proof: &TlsProof,
) -> Result<Leaf, Reason> {
    let (keys, name) = (rule.keys.clone(), proof.certificate.clone());
    let thread =
        Thread::start().map_err(|error| Reason::new(format!("cannot start a thread: {error}")))?;
    thread.run(move || first_in_key(&volumes, &keys, digest, &name)).await
}

/// Logs which certificate is presented.
pub(super) fn log(rule: &Rule, proof: &TlsProof, certificate: &Leaf) {
    info!(
        event = "certificate-presented",
        rule = rule.name,
        target = proof.address.to_string(),
        serial = certificate.to_string(),
        "the application presents the certificate of the content"
    );
}
