//! `syntax = "pem"`: checks that certificates are valid now, and that private keys belong to them.
//! Pure. Messages contain names, lines and dates only.
//!
//! It checks what a server needs to use these files, and nothing that depends on trust: it verifies
//! no signature.

mod block;
mod certificate;
#[cfg(test)]
#[path = "../../../tests/fuzz/certificates.rs"]
mod fuzz;
pub(crate) mod served;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;

use self::block::{Block, Kind};
use self::certificate::Certificate;
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Key;

/// A key of a volume.
pub(super) struct File<'a> {
    /// The full path of the key: a private key and its certificate may be watched as two files.
    pub(super) path: PathBuf,
    pub(super) key: &'a Key,
    pub(super) content: &'a [u8],
}

/// A value, and the line of its block.
struct Located<T> {
    line: usize,
    value: T,
}

/// The parsed blocks of a file.
struct Parsed<'a> {
    path: PathBuf,
    key: &'a Key,
    certificates: Vec<Located<Certificate>>,
    /// The public halves of the private keys.
    public_keys: Vec<Located<Vec<u8>>>,
}

/// Checks all of these files at this time.
///
/// # Errors
/// The verdict of the first check that fails.
pub(super) fn check<'a>(
    files: impl Iterator<Item = File<'a>>,
    now: UnixTime,
) -> Result<(), Checked> {
    let files = files.map(parse).collect::<Result<Vec<_>, _>>().map_err(Checked::Rejected)?;
    files.iter().try_for_each(check_chain_order).map_err(Checked::Rejected)?;
    let mut keys =
        files.iter().flat_map(|file| file.public_keys.iter().map(move |key| (file, key)));
    keys.try_for_each(|(file, key)| check_key_matches(file, key, &files))
        .map_err(Checked::Rejected)?;
    // Last, so that content that is merely too early has passed everything else.
    files.iter().try_for_each(|file| check_validity(file, now))
}

/// When the first of these files expires; skips unreadable ones. `None` without certificates.
pub(super) fn expiry<'a>(files: impl Iterator<Item = File<'a>>, now: UnixTime) -> Option<UnixTime> {
    let files = files.filter_map(|file| parse(file).ok());
    files.filter_map(|file| Some(file.deciding_certificate(now)?.value.not_after)).min()
}

fn parse(File { path, key, content }: File<'_>) -> Result<Parsed<'_>, Reason> {
    let (mut certificates, mut public_keys) = (Vec::new(), Vec::new());
    for Block { line, kind, der } in block::parse_blocks(key, content)? {
        let private_key = match kind {
            Kind::Other => continue,
            Kind::Certificate => {
                let value = Certificate::read(&der).map_err(|_| {
                    let what = format!("the certificate in line {line} of `{key}`");
                    Reason::new(format!("{what} cannot be read"))
                        .hint("the text between its markers is not a certificate")
                })?;
                certificates.push(Located { line, value });
                continue;
            }
            Kind::Pkcs8 => PrivateKeyDer::Pkcs8(der.into()),
            Kind::Pkcs1 => PrivateKeyDer::Pkcs1(der.into()),
            Kind::Sec1 => PrivateKeyDer::Sec1(der.into()),
        };
        let loaded = any_supported_type(&private_key).ok();
        let public_key = loaded.and_then(|key| Some(key.public_key()?.as_ref().to_vec()));
        let public_key = public_key.ok_or_else(|| {
            let what = format!("the private key in line {line} of `{key}`");
            Reason::new(format!("{what} is broken, or not one that podnudge can load")).hint(
                "it loads RSA with 2048 to 4096 bits, P-256, P-384 and Ed25519; exclude others \
                 by `keys`",
            )
        })?;
        public_keys.push(Located { line, value: public_key });
    }
    Ok(Parsed { path, key, certificates, public_keys })
}

impl Parsed<'_> {
    /// Whether this is a bundle of trusted certificates in any order, and not a chain: all are of
    /// CAs or self-signed.
    fn is_bundle(&self) -> bool {
        let several = self.certificates.len() > 1;
        let is_anchor = |Located { value, .. }: &Located<Certificate>| {
            value.is_ca || (several && value.issuer == value.subject)
        };
        self.certificates.iter().all(is_anchor)
    }

    /// The certificates that a private key may belong to and whose dates matter: the first of a
    /// chain, or each of a bundle. The others of a chain may exist for old clients only.
    fn leaves(&self) -> &[Located<Certificate>] {
        let count = if self.is_bundle() { self.certificates.len() } else { 1 };
        self.certificates.get(..count).unwrap_or_default()
    }

    /// The certificate whose dates decide for the file. A bundle is valid as long as one of its
    /// certificates is: CAs that are replaced stay in it for a while.
    fn deciding_certificate(&self, now: UnixTime) -> Option<&Located<Certificate>> {
        self.leaves()
            .iter()
            .max_by_key(|Located { value, .. }| (value.is_valid_at(now), value.not_after))
    }
}

/// Checks the order of a chain, from the leaf upwards.
fn check_chain_order(file: &Parsed<'_>) -> Result<(), Reason> {
    if file.is_bundle() {
        return Ok(());
    }
    let pairs = file.certificates.iter().zip(file.certificates.iter().skip(1));
    for (below, above) in pairs {
        if below.value.issuer != above.value.subject {
            let (key, below, above) = (file.key, below.line, above.line);
            let message = format!(
                "the certificate in line {below} of `{key}` is not issued by the next one, in line \
                 {above}"
            );
            let hint =
                "put the application's own certificate first, and after each one its issuer's";
            return Err(Reason::new(message).hint(hint));
        }
    }
    Ok(())
}

fn check_validity(file: &Parsed<'_>, now: UnixTime) -> Result<(), Checked> {
    let Some(Located { line, value }) = file.deciding_certificate(now) else { return Ok(()) };
    if value.is_valid_at(now) {
        return Ok(());
    }
    let what = format!("the certificate in line {line} of `{}`", file.key);
    let now_is = date(now);
    if now < value.not_before {
        let message = format!(
            "{what} is not valid before {}, and now it is {now_is}",
            date(value.not_before)
        );
        let hint = "it is checked again then; compare the clocks of the node and of the issuer";
        return Err(Checked::NotBefore(value.not_before, Reason::new(message).hint(hint)));
    }
    let message = format!("{what} expired at {}, and now it is {now_is}", date(value.not_after));
    Err(Checked::Rejected(Reason::new(message).hint("check why it was not renewed")))
}

/// Formats a time as RFC 3339.
fn date(UnixTime(since_epoch): UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Checks that a private key belongs to its certificate.
fn check_key_matches(
    file: &Parsed<'_>,
    public_key: &Located<Vec<u8>>,
    files: &[Parsed<'_>],
) -> Result<(), Reason> {
    let candidates = candidates(file, files);
    let mut leaves = candidates.iter().flat_map(|file| file.leaves());
    if leaves.any(|leaf| leaf.value.public_key == public_key.value) {
        return Ok(());
    }
    let key = file.key;
    if candidates.is_empty() {
        let message =
            format!("there is no certificate for the key in line {} of `{key}`", public_key.line);
        return Err(Reason::new(message).hint(
            "put the certificate beside the key and check both, or exclude the key by `keys`",
        ));
    }
    let names: Vec<String> = candidates.iter().map(|file| format!("`{}`", file.key)).collect();
    let names = names.join(" or ");
    let message = format!("the key `{key}` does not belong to the certificate in {names}");
    Err(Reason::new(message).hint("they may come from different renewals"))
}

/// The files that may contain the certificate of a private key: its own; otherwise those with a
/// matching name; otherwise those in the same directory that are not bundles, or have its certificate.
fn candidates<'a>(file: &'a Parsed<'a>, files: &'a [Parsed<'a>]) -> Vec<&'a Parsed<'a>> {
    if !file.certificates.is_empty() {
        return vec![file];
    }
    let beside = files.iter().filter(|other| {
        !other.certificates.is_empty() && other.path.parent() == file.path.parent()
    });
    let stem_of_key = stem(&file.path, &["key"]);
    let named: Vec<_> = beside
        .clone()
        .filter(|other| stem(&other.path, &["cert", "crt", "certificate"]) == stem_of_key)
        .collect();
    if !named.is_empty() {
        return named;
    }
    // A certificate that is its own issuer may be alone in what looks like a bundle.
    let is_of_key = |other: &Parsed<'_>| {
        let mut of_leaves = other.leaves().iter().map(|leaf| &leaf.value.public_key);
        of_leaves.any(|of_leaf| file.public_keys.iter().any(|key| key.value == *of_leaf))
    };
    beside.filter(|other| !other.is_bundle() || is_of_key(other)).collect()
}

/// The file name without its extension and a last word for its kind: `server` for `server-key.pem`,
/// and the empty string for `key.pem`.
fn stem(path: &Path, words: &[&str]) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let without = words.iter().find_map(|word| {
        let rest = name.strip_suffix(word)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_suffix(['-', '_', '.']) }
    });
    without.unwrap_or(&name).to_owned()
}
