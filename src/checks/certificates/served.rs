//! The certificate that an application must present, and the one that it presents. Reads the
//! volumes.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

use super::certificate::Certificate;
use crate::volume::contents::{ContentsError, Origin, read_key};
use podnudge_config::KeyFilter;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::{Digest, Key};

/// The most bytes of a serial number that are shown: RFC 5280 allows 20.
const SERIAL_SHOWN: usize = 20;

/// What identifies a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The digest of all of it.
    digest: [u8; 32],
    serial: Vec<u8>,
}

impl Leaf {
    /// Reads a certificate; `None` if it is not one.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let Certificate { serial, .. } = Certificate::read(der).ok()?;
        Some(Self { digest: Sha256::digest(der).into(), serial })
    }

    /// Whether another certificate has the same serial number.
    pub(crate) fn has_serial_of(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

/// The serial number of the certificate, as `openssl x509 -serial` shows it.
impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A zero before a byte of 128 or more says that the number is not negative.
        let digits = match self.serial.as_slice() {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        digits.iter().take(SERIAL_SHOWN).try_for_each(|byte| write!(f, "{byte:02X}"))?;
        if digits.len() > SERIAL_SHOWN { f.write_char('…') } else { Ok(()) }
    }
}

/// The first certificate in a key of these volumes, if they have the expected digest.
///
/// # Errors
/// If there is none, or another one in each of two volumes.
pub(crate) fn first_in_key(
    volumes: &[PathBuf],
    keys: &KeyFilter,
    expected: Option<Digest>,
    name: &str,
) -> Result<Leaf, Reason> {
    let key = Key(name.as_bytes().to_vec());
    let read = read_key(volumes, keys, expected, Path::new(name), Origin::Anywhere);
    let mut found = None;
    for content in read.map_err(ContentsError::reason)?.iter().flat_map(|it| it.contents.values()) {
        let read = CertificateDer::from_pem_slice(content).ok().and_then(|der| Leaf::read(&der));
        let leaf = read.ok_or_else(|| {
            Reason::new(format!("there is no PEM certificate in the key `{key}`"))
                .hint("set `tls-certificate` to the key with the certificate")
        })?;
        if found.as_ref().is_some_and(|other| *other != leaf) {
            let message = format!("two volumes have another certificate in the key `{key}`");
            return Err(Reason::new(message).hint("write a rule for each of them"));
        }
        found = Some(leaf);
    }
    found.ok_or_else(|| {
        Reason::new(format!("the content has no key `{key}`"))
            .hint("set `tls-certificate` to the key with the certificate; it must count")
    })
}
