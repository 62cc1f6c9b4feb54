//! Values of other reloaders, and remarks about those that podnudge does not take as they are. Pure.

use std::path::Path;
use std::time::Duration;

use crate::compat::words::{quoted, time};
use podnudge_config as config;
use podnudge_core::shown;

/// What podnudge does not do, and what to do instead.
pub(super) type Remarks = Vec<String>;

/// The shortest wait and time limit.
const LEAST: Duration = Duration::from_millis(10);

/// Paths, each once: `/etc/app/` and `/etc/app` are one.
pub(super) fn paths(paths: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for path in paths {
        if !once.iter().any(|other| Path::new(other) == Path::new(&path)) {
            once.push(path);
        }
    }
    once
}

/// The number that an option or variable gives.
pub(super) fn number(name: &str, text: &str, remarks: &mut Remarks) -> Option<i64> {
    let number = text.parse().ok();
    if number.is_none() {
        remarks.push(no_number(name, text));
    }
    number
}

fn no_number(name: &str, text: &str) -> String {
    format!("`{name}`: `{}` is not a number, and is left out", shown::text(text))
}

/// A number within the bounds of podnudge.
pub(super) fn bounded(
    name: &str,
    number: i64,
    (least, most): (u32, u32),
    remarks: &mut Remarks,
) -> u32 {
    let nearest = if number < i64::from(least) { least } else { most };
    u32::try_from(number).ok().filter(|number| (least..=most).contains(number)).unwrap_or_else(
        || {
            remarks.push(becomes(name, &number.to_string(), &nearest.to_string()));
            nearest
        },
    )
}

fn becomes(name: &str, given: &str, bounded: &str) -> String {
    format!("`{name}`: {given} becomes {bounded}, the nearest that podnudge allows")
}

/// A time in seconds, as a configuration writes it, within the bounds of podnudge.
pub(super) fn seconds(
    name: &str,
    text: &str,
    most: Duration,
    remarks: &mut Remarks,
) -> Option<String> {
    let Some(seconds) = text.parse().ok().filter(|seconds: &f64| seconds.is_finite()) else {
        remarks.push(no_number(name, text));
        return None;
    };
    let allowed = seconds.clamp(LEAST.as_secs_f64(), most.as_secs_f64());
    let written = time(Duration::from_secs_f64(allowed), LEAST, most);
    if allowed.total_cmp(&seconds).is_ne() {
        remarks.push(becomes(name, text, &written));
    }
    Some(written)
}

/// A URL without its credentials, and the line for these in the configuration. The password is to be in this file.
///
/// The message ends in logs, so it must not have the password, even if podnudge cannot parse the URL.
pub(super) fn without_credentials(
    url: &str,
    file: &str,
    remarks: &mut Remarks,
) -> (String, Option<String>) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (credentials, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut url = format!("{scheme}{host}{path}");
    if url.contains('@') && config::url(&url).is_err() {
        remarks.push("write the URL in place of `URL`: it may have a password in it".to_owned());
        "URL".clone_into(&mut url);
    }
    let Some((name, _)) = credentials.split_once(':') else {
        if !credentials.is_empty() {
            remarks.push("the user name in the URL is left out: it has no password".to_owned());
        }
        return (url, None);
    };
    remarks.push(format!(
        "podnudge reads passwords from files: mount a Secret with that of the URL as `{file}`"
    ));
    if name.contains('%') {
        remarks.push("replace what the URL escapes in `username`".to_owned());
    }
    let (name, file) = (quoted(name), quoted(file));
    (url, Some(format!("basic = {{ username = {name}, password-file = {file} }}\n")))
}
