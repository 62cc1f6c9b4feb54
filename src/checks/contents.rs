//! Checks contents without programs and requests. Its messages only contain names, positions and
//! sizes. Contents leave this module only for a check by a URL ([`Post`]).
//!
//! Reads the rule's volumes again, and verifies that they still have the expected digest.

#[cfg(any(feature = "tls", feature = "compat"))]
use std::ffi::OsStr;
use std::fmt;
#[cfg(any(feature = "tls", feature = "compat"))]
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

#[cfg(feature = "tls")]
use super::certificates::{self, File};
use super::syntax;
#[cfg(feature = "compat")]
use crate::volume::contents::read_file;
use crate::volume::contents::{Content, Volume, read_included};
#[cfg(feature = "compat")]
use crate::volume::expand::Source;
use crate::volume::filter;
#[cfg(feature = "compat")]
use podnudge_config::Expand;
use podnudge_config::{Check, Condition, KeyFilter, Syntax};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::{Digest, Key};

/// The most keys that a message names.
const KEYS_NAMED: usize = 5;

/// A key whose content a check sends to a URL. It must not be used for anything else.
pub struct Post {
    /// The key to send.
    pub key: Key,
    /// The content of the key.
    pub content: Vec<u8>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Checks the content of these volumes at this time, if it still has the expected digest, except
/// for checks by programs and URLs. Returns the contents to send to URLs: a list for each check, in
/// their order.
///
/// # Errors
/// The verdict of the first check that fails.
pub fn check<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
    checks: &[Check],
    now: UnixTime,
) -> Result<Vec<Vec<Post>>, Checked> {
    let read = match checks {
        #[cfg(feature = "compat")]
        [Check { condition: Condition::Expands(expand), .. }] => {
            read_file(volumes, keys, expected, &expand.file)?
        }
        _ => read_included(volumes, keys, expected)?,
    };
    checks.iter().try_for_each(|check| run_check(check, &read, now))?;
    Ok(posts(checks, read))
}

/// When the first certificate that the checks are about expires, whatever their verdict: the leaf
/// of a chain, or the last to expire of a bundle of CAs. `None` without readable certificates.
///
/// # Errors
/// If the volumes no longer have this digest.
pub fn expiry<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    expected: Digest,
    checks: &[Check],
    now: UnixTime,
) -> Result<Option<UnixTime>, Checked> {
    let read = read_included(volumes, keys, expected)?;
    let of_certificates = checks.iter().filter(|check| check.checks_certificates());
    let expire = |check| certificates_expire(selected_keys(check, &read), now);
    Ok(of_certificates.filter_map(expire).min())
}

/// The directory that the key's name is relative to, the key, and its content.
type SelectedKey<'a> = (&'a Path, &'a Key, &'a [u8]);

/// The keys that a check applies to.
fn selected_keys<'a>(
    check: &'a Check,
    volumes: &'a [Volume],
) -> impl Iterator<Item = SelectedKey<'a>> {
    let all = volumes.iter().flat_map(|volume| {
        let named = |(key, content): (&'a Key, &'a Content)| {
            (volume.folder.as_path(), key, content.bytes.as_slice())
        };
        volume.contents.iter().map(named)
    });
    all.filter(|(_, key, _)| applies(check, key))
}

fn applies(check: &Check, key: &Key) -> bool {
    check.keys.is_empty() || check.keys.iter().any(|glob| filter::matches(glob, &key.0))
}

/// The contents for each check: the last one that sends contents takes them, so that they are held once.
fn posts(checks: &[Check], mut volumes: Vec<Volume>) -> Vec<Vec<Post>> {
    let sends = |check: &Check| matches!(check.condition, Condition::Http(_));
    let last = checks.iter().rposition(sends);
    let of_check = |(n, check): (usize, &Check)| {
        let keys = volumes.iter_mut().flat_map(|volume| volume.contents.iter_mut());
        let selected = keys.filter(|(key, _)| sends(check) && applies(check, key));
        let post = |(key, content): (&Key, &mut Content)| {
            let bytes = &mut content.bytes;
            let content = if Some(n) == last { std::mem::take(bytes) } else { bytes.clone() };
            Post { key: key.clone(), content }
        };
        selected.map(post).collect()
    };
    checks.iter().enumerate().map(of_check).collect()
}

/// Runs one check.
fn run_check(check: &Check, volumes: &[Volume], now: UnixTime) -> Result<(), Checked> {
    let selected = || selected_keys(check, volumes);
    let texts = |parse: fn(&Key, &[u8]) -> Result<(), Checked>| {
        selected().try_for_each(|(_, key, content)| parse(key, content))
    };
    let verdict = match &check.condition {
        Condition::NotEmpty => {
            let empty = selected().filter(|(_, _, content)| content.trim_ascii().is_empty());
            reject_keys(empty.map(|(_, key, _)| key.to_string()), "is empty", "are empty")
        }
        Condition::RequiredKeys(required) => {
            let is_there = |name: &&String| {
                let key = Key(name.as_bytes().to_vec());
                !volumes.iter().any(|volume| volume.contents.contains_key(&key))
            };
            let missing = required.iter().filter(is_there).map(|name| shown::text(name));
            reject_keys(missing, "is missing", "are missing")
        }
        Condition::MaxBytes(most) => {
            let bytes: u64 = selected().map(|(_, _, content)| content.len() as u64).sum();
            if bytes <= *most {
                return Ok(());
            }
            Err(Reason::new(format!("the keys hold {bytes} bytes, more than the {most} allowed")))
        }
        Condition::Syntax(Syntax::Json) => return texts(syntax::json),
        Condition::Syntax(Syntax::Yaml) => return texts(syntax::yaml),
        Condition::Syntax(Syntax::Toml) => return texts(syntax::toml),
        Condition::Syntax(Syntax::Pem) => return certificates(selected(), now),
        #[cfg(feature = "compat")]
        Condition::Expands(expand) => expanded(expand, volumes),
        #[cfg(not(feature = "compat"))]
        Condition::Expands(_) => Ok(()),
        // These run after all other checks have passed.
        Condition::Exec(_) | Condition::Http(_) => Ok(()),
    };
    verdict.map_err(Checked::Rejected)
}

fn reject_keys(keys: impl Iterator<Item = String>, one: &str, several: &str) -> Result<(), Reason> {
    let keys: Vec<String> = keys.map(|key| format!("`{key}`")).collect();
    let named = keys.iter().take(KEYS_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match keys.len() {
        0 => Ok(()),
        1 => Err(Reason::new(format!("{named} {one}"))),
        many if many > KEYS_NAMED => {
            Err(Reason::new(format!("{named} and {} more {several}", many - KEYS_NAMED)))
        }
        _ => Err(Reason::new(format!("{named} {several}"))),
    }
}

/// Whether the file of `[rule.expand]` can be written.
#[cfg(feature = "compat")]
fn expanded(expand: &Expand, volumes: &[Volume]) -> Result<(), Reason> {
    let named = volumes.iter().flat_map(|Volume { folder, contents }| {
        contents.iter().map(move |(key, content)| (folder.join(OsStr::from_bytes(&key.0)), content))
    });
    let files = named.map(|(path, content)| (path, content.bytes.as_slice()));
    Source::of_volumes(expand, files)?.check()
}

#[cfg(feature = "tls")]
fn certificates<'a>(
    selected: impl Iterator<Item = SelectedKey<'a>>,
    now: UnixTime,
) -> Result<(), Checked> {
    certificates::check(selected.map(pem_file), now)
}

#[cfg(feature = "tls")]
fn certificates_expire<'a>(
    selected: impl Iterator<Item = SelectedKey<'a>>,
    now: UnixTime,
) -> Option<UnixTime> {
    certificates::expiry(selected.map(pem_file), now)
}

#[cfg(feature = "tls")]
fn pem_file((folder, key, content): SelectedKey<'_>) -> File<'_> {
    File { path: folder.join(OsStr::from_bytes(&key.0)), key, content }
}

#[cfg(not(feature = "tls"))]
fn certificates<'a>(_: impl Iterator<Item = SelectedKey<'a>>, _: UnixTime) -> Result<(), Checked> {
    Err(Checked::Failed(Reason::new("this podnudge was built without TLS")))
}

#[cfg(not(feature = "tls"))]
fn certificates_expire<'a>(
    _: impl Iterator<Item = SelectedKey<'a>>,
    _: UnixTime,
) -> Option<UnixTime> {
    None
}
