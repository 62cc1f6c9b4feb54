//! `syntax = "pem"`: whether certificates are in force and private keys belong to them. Pure: what
//! is told of the contents is names, lines and dates.
//!
//! It asks what an application asks that is to serve with these files, and nothing that depends on
//! whom somebody trusts: no signature is verified.

mod block;
mod certificate;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;

use self::block::{Block, Kind};
use self::certificate::Certificate;
use crate::clock::UnixTime;
use crate::core::event::Checked;
use crate::reason::Reason;
use crate::volume::snapshot::Key;

/// A key of a volume.
pub(super) struct File<'a> {
    /// Where it is: a private key and its certificate may be watched as two files.
    pub(super) path: PathBuf,
    pub(super) key: &'a Key,
    pub(super) content: &'a [u8],
}

/// Something, and the line in which it begins.
struct At<T> {
    line: usize,
    it: T,
}

/// What a file holds.
struct Parsed<'a> {
    path: PathBuf,
    key: &'a Key,
    certificates: Vec<At<Certificate>>,
    /// The private keys, of which only the public half is needed.
    public_keys: Vec<At<Vec<u8>>>,
}

/// Whether all of these files are good at this time.
///
/// # Errors
/// The refusal.
pub(super) fn check<'a>(
    files: impl Iterator<Item = File<'a>>,
    now: UnixTime,
) -> Result<(), Checked> {
    let files = files.map(parse).collect::<Result<Vec<_>, _>>().map_err(Checked::Rejected)?;
    files.iter().try_for_each(in_order).map_err(Checked::Rejected)?;
    let mut keys =
        files.iter().flat_map(|file| file.public_keys.iter().map(move |key| (file, key)));
    keys.try_for_each(|(file, key)| belongs(file, key, &files)).map_err(Checked::Rejected)?;
    // Last: what is only too early is good in all else.
    files.iter().try_for_each(|file| in_force(file, now))
}

/// When the first of these files expires, as far as they can be read; `None` without certificates.
pub(super) fn expiry<'a>(files: impl Iterator<Item = File<'a>>, now: UnixTime) -> Option<UnixTime> {
    let files = files.filter_map(|file| parse(file).ok());
    files.filter_map(|file| Some(file.longest(now)?.it.not_after)).min()
}

fn parse(File { path, key, content }: File<'_>) -> Result<Parsed<'_>, Reason> {
    let (mut certificates, mut public_keys) = (Vec::new(), Vec::new());
    for Block { line, kind, der } in block::blocks(key, content)? {
        let private_key = match kind {
            Kind::Other => continue,
            Kind::Certificate => {
                let it = Certificate::read(&der).map_err(|_| {
                    let what = format!("the certificate in line {line} of `{key}`");
                    Reason::new(format!("{what} cannot be read"))
                        .hint("what is between its marks is no certificate")
                })?;
                certificates.push(At { line, it });
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
            Reason::new(format!("{what} is broken, or none that podnudge can load")).hint(
                "it loads RSA with 2048 to 4096 bits, P-256, P-384 and Ed25519; leave others out \
                 by `keys`",
            )
        })?;
        public_keys.push(At { line, it: public_key });
    }
    Ok(Parsed { path, key, certificates, public_keys })
}

impl Parsed<'_> {
    /// Whether these are certificates to trust, in any order, and no chain: all of CAs, or each
    /// on its own.
    fn is_bundle(&self) -> bool {
        let several = self.certificates.len() > 1;
        let is_anchor =
            |At { it, .. }: &At<Certificate>| it.is_ca || (several && it.issuer == it.subject);
        self.certificates.iter().all(is_anchor)
    }

    /// The certificates that a private key may belong to, and whose dates count: the first of a
    /// chain, each of a bundle. The others of a chain may be there for old clients only.
    fn leaves(&self) -> &[At<Certificate>] {
        let count = if self.is_bundle() { self.certificates.len() } else { 1 };
        self.certificates.get(..count).unwrap_or_default()
    }

    /// The certificate by which the file is in force or not, and expires. A bundle holds as long
    /// as one of it does: CAs that are replaced stay in it for a while.
    fn longest(&self, now: UnixTime) -> Option<&At<Certificate>> {
        self.leaves().iter().max_by_key(|At { it, .. }| (it.is_in_force(now), it.not_after))
    }
}

/// A chain leads from the leaf upwards.
fn in_order(file: &Parsed<'_>) -> Result<(), Reason> {
    if file.is_bundle() {
        return Ok(());
    }
    let pairs = file.certificates.iter().zip(file.certificates.iter().skip(1));
    for (below, above) in pairs {
        if below.it.issuer != above.it.subject {
            let (key, below, above) = (file.key, below.line, above.line);
            let message = format!(
                "the certificate in line {below} of `{key}` is not issued by the next one, in line \
                 {above}"
            );
            let hint = "the application's own comes first, and behind each the one that issued it";
            return Err(Reason::new(message).hint(hint));
        }
    }
    Ok(())
}

fn in_force(file: &Parsed<'_>, now: UnixTime) -> Result<(), Checked> {
    let Some(At { line, it }) = file.longest(now) else { return Ok(()) };
    if it.is_in_force(now) {
        return Ok(());
    }
    let what = format!("the certificate in line {line} of `{}`", file.key);
    let now_is = date(now);
    if now < it.not_before {
        let message =
            format!("{what} is not valid before {}, and now it is {now_is}", date(it.not_before));
        let hint = "it is checked again then; look at the clocks of the node and of the issuer";
        return Err(Checked::NotBefore(it.not_before, Reason::new(message).hint(hint)));
    }
    let message = format!("{what} expired at {}, and now it is {now_is}", date(it.not_after));
    Err(Checked::Rejected(Reason::new(message).hint("look at what should have renewed it")))
}

/// As RFC 3339 has it.
fn date(UnixTime(since_epoch): UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Whether a private key belongs to the certificate that is there for it.
fn belongs(
    file: &Parsed<'_>,
    public_key: &At<Vec<u8>>,
    files: &[Parsed<'_>],
) -> Result<(), Reason> {
    let candidates = candidates(file, files);
    let mut leaves = candidates.iter().flat_map(|file| file.leaves());
    if leaves.any(|leaf| leaf.it.public_key == public_key.it) {
        return Ok(());
    }
    let key = file.key;
    if candidates.is_empty() {
        let message =
            format!("there is no certificate for the key in line {} of `{key}`", public_key.line);
        return Err(Reason::new(message).hint(
            "it should be beside it and be checked with it; or leave the key out by `keys`",
        ));
    }
    let names: Vec<String> = candidates.iter().map(|file| format!("`{}`", file.key)).collect();
    let names = names.join(" or ");
    let message = format!("the key `{key}` does not belong to the certificate in {names}");
    Err(Reason::new(message).hint("one of them may be of another renewal than the other"))
}

/// The files that may hold the certificate of a private key: its own; else those that are named
/// like it; else those beside it that are not for trusting others.
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
    if named.is_empty() { beside.filter(|other| !other.is_bundle()).collect() } else { named }
}

/// What is left of a file's name without its ending, and without a last word that says what is in
/// it: `server` of `server-key.pem`, nothing of `key.pem`.
fn stem(path: &Path, words: &[&str]) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let without = words.iter().find_map(|word| {
        let rest = name.strip_suffix(word)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_suffix(['-', '_', '.']) }
    });
    without.unwrap_or(&name).to_owned()
}
