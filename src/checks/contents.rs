//! The checks that podnudge does itself on contents: what is told of them is names, places and sizes.
//! Only what a rule wants to be sent to a URL is handed on ([`Post`]).
//!
//! Reads the rule's volumes once more, and makes sure that it is what was asked about.

#[cfg(feature = "tls")]
use std::ffi::OsStr;
use std::fmt;
#[cfg(feature = "tls")]
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

#[cfg(feature = "tls")]
use super::certificates::{self, File};
use super::syntax;
use crate::clock::UnixTime;
use crate::config::{Check, Condition, KeyFilter, Syntax};
use crate::core::event::Checked;
use crate::reason::Reason;
use crate::shown;
use crate::volume::contents::{Content, Volume, counted};
use crate::volume::filter;
use crate::volume::snapshot::{Digest, Key};

/// How many keys a refusal names at most.
const KEYS_NAMED: usize = 5;

/// A key whose content a rule wants to be sent to a URL. That is all it may be used for.
pub struct Post {
    /// The key.
    pub key: Key,
    /// What it holds.
    pub content: Vec<u8>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Whether the content of these volumes, if it is still the one with this digest, meets the
/// checks at this time, as far as podnudge can tell by itself. Gives what is to be asked about by
/// HTTP: a list for each check, in their order.
///
/// # Errors
/// What it comes to without asking anybody: the first check that it does not meet decides.
pub fn check<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
    checks: &[Check],
    now: UnixTime,
) -> Result<Vec<Vec<Post>>, Checked> {
    let read = counted(volumes, keys, asked)?;
    checks.iter().try_for_each(|check| meets(check, &read, now))?;
    Ok(checks.iter().map(|check| posts(check, &read)).collect())
}

/// When the first of the certificates expires that the checks are about, whatever the checks say
/// of them: of a chain its leaf counts, of a bundle of CAs the one that lasts longest. `None`
/// without certificates that can be read, or if the volumes do not have this digest any more.
pub fn expiry<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    keys: &KeyFilter,
    asked: Digest,
    checks: &[Check],
    now: UnixTime,
) -> Option<UnixTime> {
    let read = counted(volumes, keys, asked).ok()?;
    let of_certificates = checks.iter().filter(|check| check.is_of_certificates());
    of_certificates.filter_map(|check| certificates_expire(concerned(check, &read), now)).min()
}

/// The folder that a key is named from, the key, and what it holds.
type Concerned<'a> = (&'a Path, &'a Key, &'a [u8]);

/// The keys that a check is about, each with the folder that it is named from.
fn concerned<'a>(check: &'a Check, volumes: &'a [Volume]) -> impl Iterator<Item = Concerned<'a>> {
    let all = volumes.iter().flat_map(|volume| {
        let named = |(key, content): (&'a Key, &'a Content)| {
            (volume.folder.as_path(), key, content.bytes.as_slice())
        };
        volume.contents.iter().map(named)
    });
    all.filter(|(_, key, _)| {
        check.keys.is_empty() || check.keys.iter().any(|glob| filter::matches(glob, &key.0))
    })
}

fn posts(check: &Check, volumes: &[Volume]) -> Vec<Post> {
    if !matches!(check.condition, Condition::Http(_)) {
        return Vec::new();
    }
    let post =
        |(_, key, content): (_, &Key, &[u8])| Post { key: key.clone(), content: content.to_vec() };
    concerned(check, volumes).map(post).collect()
}

/// The refusal, if the contents do not meet a check.
fn meets(check: &Check, volumes: &[Volume], now: UnixTime) -> Result<(), Checked> {
    let concerned = || concerned(check, volumes);
    let texts = |parse: fn(&Key, &[u8]) -> Result<(), Reason>| {
        concerned().try_for_each(|(_, key, content)| parse(key, content))
    };
    let verdict = match &check.condition {
        Condition::NotEmpty => {
            let empty = concerned().filter(|(_, _, content)| content.trim_ascii().is_empty());
            refuse_named(empty.map(|(_, key, _)| key.to_string()), "is empty", "are empty")
        }
        Condition::RequiredKeys(required) => {
            let is_there = |name: &&String| {
                let key = Key(name.as_bytes().to_vec());
                !volumes.iter().any(|volume| volume.contents.contains_key(&key))
            };
            let missing = required.iter().filter(is_there).map(|name| shown::text(name));
            refuse_named(missing, "is missing", "are missing")
        }
        Condition::MaxBytes(most) => {
            let bytes: u64 = concerned().map(|(_, _, content)| content.len() as u64).sum();
            if bytes <= *most {
                return Ok(());
            }
            Err(Reason::new(format!("the keys hold {bytes} bytes, more than the {most} allowed")))
        }
        Condition::Syntax(Syntax::Json) => texts(syntax::json),
        Condition::Syntax(Syntax::Yaml) => texts(syntax::yaml),
        Condition::Syntax(Syntax::Toml) => texts(syntax::toml),
        Condition::Syntax(Syntax::Pem) => return certificates(concerned(), now),
        // They are asked when the others are met.
        Condition::Exec(_) | Condition::Http(_) => Ok(()),
    };
    verdict.map_err(Checked::Rejected)
}

fn refuse_named(
    keys: impl Iterator<Item = String>,
    one: &str,
    several: &str,
) -> Result<(), Reason> {
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

#[cfg(feature = "tls")]
fn certificates<'a>(
    concerned: impl Iterator<Item = Concerned<'a>>,
    now: UnixTime,
) -> Result<(), Checked> {
    certificates::check(concerned.map(pem_file), now)
}

#[cfg(feature = "tls")]
fn certificates_expire<'a>(
    concerned: impl Iterator<Item = Concerned<'a>>,
    now: UnixTime,
) -> Option<UnixTime> {
    certificates::expiry(concerned.map(pem_file), now)
}

#[cfg(feature = "tls")]
fn pem_file((folder, key, content): Concerned<'_>) -> File<'_> {
    File { path: folder.join(OsStr::from_bytes(&key.0)), key, content }
}

#[cfg(not(feature = "tls"))]
fn certificates<'a>(_: impl Iterator<Item = Concerned<'a>>, _: UnixTime) -> Result<(), Checked> {
    Err(Checked::Failed(Reason::new("this podnudge was built without TLS")))
}

#[cfg(not(feature = "tls"))]
fn certificates_expire<'a>(
    _: impl Iterator<Item = Concerned<'a>>,
    _: UnixTime,
) -> Option<UnixTime> {
    None
}
