//! Parsers for text values: each returns the value, or the reason why the text is refused. Pure.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use http::Method;
use nix::sys::signal::Signal;

use super::problem::nearest;
use podnudge_core::reason::Reason;
use podnudge_core::shown::{literal, path_literal};

/// What stands for the directory of the first volume.
pub(super) const DIR: &str = "{dir}";

pub(super) fn is_not(text: &str, what: &str) -> Reason {
    Reason::new(format!("{} is not {what}", literal(text)))
}

pub(super) fn unknown_value(text: &str, known: &[&str]) -> Reason {
    let reason = Reason::new(format!("unknown value {}", literal(text)));
    reason.hint(format!("one of `{}`", known.join("`, `")))
}

pub(super) fn boolean(text: &str) -> Result<bool, Reason> {
    text.parse().map_err(|_| unknown_value(text, &["true", "false"]))
}

/// Whether a text is a DNS label (RFC 1123), as Kubernetes requires it for many names.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text is a DNS subdomain (RFC 1123), as Kubernetes requires it for the names of most objects.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

/// The name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, Reason> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "the name of a namespace"))
}

/// The name of a Service.
pub(super) fn service(text: &str) -> Result<String, Reason> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "the name of a Service")
        .hint("write its name alone, such as `web`: it is in the namespace of the pod"))
}

/// A name for a rule: it is used in metrics and file names.
pub(super) fn rule_name(text: &str) -> Result<String, Reason> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "a name for a rule").hint(
        "use 1 to 63 of `a` to `z`, `0` to `9` and `-`, with a letter or digit first and last",
    ))
}

/// The name of a key, by its path below the volume.
pub(super) fn key(text: &str) -> Result<String, Reason> {
    let parts_fit = text.split('/').all(|part| !part.is_empty() && !part.starts_with(".."));
    if parts_fit {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "the name of a key")
        .hint("keys are named by their path below the volume, such as `sites/a.conf`"))
}

/// Parses `{dir}/NAME`, or an absolute path.
pub(super) fn content_path(text: &str) -> Result<PathBuf, Reason> {
    let Some(name) = text.strip_prefix(DIR) else { return path(text) };
    let path = path(name).ok().filter(|path| path.parent().is_some());
    let path = path.ok_or_else(|| {
        Reason::new(format!("{} names no file below `{DIR}`", literal(text)))
            .hint(format!("write the name of a key, such as `{DIR}/Caddyfile`"))
    })?;
    Ok(PathBuf::from(format!("{DIR}{}", path.display())))
}

/// An absolute path.
pub(super) fn path(text: &str) -> Result<PathBuf, Reason> {
    if text.contains('\0') {
        return Err(Reason::new(format!("the path {} has a NUL in it", literal(text))));
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(Reason::new(format!("the path {} is not absolute", literal(text)))
            .hint("begin with `/`: the path as podnudge's own container sees it"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Reason::new(format!("the path {} has `..` in it", literal(text)))
            .hint("write the path without `..`"));
    }
    Ok(path.components().collect())
}

/// A path to watch: an absolute one that the kubelet does not replace.
pub(super) fn watched_path(text: &str) -> Result<PathBuf, Reason> {
    let path = path(text)?;
    let mut root = PathBuf::new();
    for part in path.components() {
        let name = part.as_os_str().as_encoded_bytes();
        // The kubelet's own names in a volume, `..data` and `..2006_01_02_15_04_05.0`: user keys
        // cannot begin with two dots (kubernetes pkg/volume/util/atomic_writer.go).
        if name.starts_with(b"..") {
            let message = format!("{} is inside a volume's hidden part", literal(text));
            return Err(Reason::new(message).hint(format!(
                "watch {}: the kubelet replaces `..data` with each change, and what is watched \
                 in it is deleted",
                path_literal(&root)
            )));
        }
        root.push(part);
    }
    if path.parent().is_none() {
        return Err(Reason::new("`/` cannot be watched").hint("name the mounted volume"));
    }
    Ok(path)
}

/// A glob over keys.
pub(super) fn glob(text: &str) -> Result<glob::Pattern, Reason> {
    if text.is_empty() {
        return Err(Reason::new("the pattern is empty"));
    }
    if text.starts_with('/') {
        return Err(Reason::new(format!("the pattern {} matches no key", literal(text))).hint(
            "keys are named by their path below the volume, such as `nginx.conf` or `sites/a.conf`",
        ));
    }
    glob::Pattern::new(text).map_err(|error| {
        let message = format!("{} is not a pattern: {}", literal(text), error.msg);
        Reason::new(message).hint("`*` any characters, `?` one, `[ab]` one of these, `**` folders")
    })
}

/// A regular expression that does not match everything.
pub(super) fn regex(text: &str) -> Result<regex_lite::Regex, Reason> {
    let regex = regex_lite::Regex::new(text).map_err(|error| {
        Reason::new(format!("{} is not a regular expression: {error}", literal(text)))
            .hint("put a backslash before a character that stands for itself, such as `\\(`")
    })?;
    if regex.is_match("") {
        return Err(Reason::new(format!("the expression {} matches anything", literal(text)))
            .hint("a part of it must not be optional"));
    }
    Ok(regex)
}

/// A process name.
pub(super) fn process_name(text: &str) -> Result<String, Reason> {
    if text.trim().is_empty() {
        return Err(Reason::new("the process name is empty"));
    }
    if text.contains(['/', '\0']) {
        return Err(Reason::new(format!("{} is a path, not a process name", literal(text)))
            .hint("use `exe` for the path of the executable"));
    }
    Ok(text.to_owned())
}

/// A signal by name, with or without `SIG`, or by number.
pub(super) fn signal(text: &str) -> Result<Signal, Reason> {
    const KNOWN: [&str; 10] =
        ["HUP", "USR1", "USR2", "TERM", "INT", "QUIT", "WINCH", "ALRM", "CONT", "CHLD"];
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let signal = match name.parse::<i32>() {
        Ok(32..=64) => return Err(real_time(text)),
        Ok(number) => Signal::try_from(number).ok(),
        Err(_) if name.starts_with("RT") => return Err(real_time(text)),
        Err(_) => Signal::from_str(&format!("SIG{name}")).ok(),
    };
    match signal {
        Some(signal @ (Signal::SIGKILL | Signal::SIGSTOP)) => {
            let name = signal.as_str().trim_start_matches("SIG");
            Err(Reason::new(format!("`{name}` cannot be handled, so it never reloads a process"))
                .hint("most servers reload on `HUP`"))
        }
        Some(signal) => Ok(signal),
        None => {
            let reason = Reason::new(format!("unknown signal {}", literal(text)));
            Err(match nearest(name, &KNOWN) {
                Some(known) => reason.hint(format!("did you mean `{known}`?")),
                None => reason.hint("a name such as `HUP`, `USR1` or `USR2`, or a number"),
            })
        }
    }
}

fn real_time(text: &str) -> Reason {
    Reason::new(format!("{} is a real-time signal, which podnudge does not send", literal(text)))
        .hint("real-time signals are numbered differently by different C libraries; use another")
}

/// Parses an http or https URL.
///
/// # Errors
/// If the text is no such URL, names no host or one that is not ASCII, or has credentials in it.
pub fn url(text: &str) -> Result<url::Url, Reason> {
    const EXAMPLE: &str = "a URL begins with http:// or https://, such as \
                           `http://127.0.0.1:9090/-/reload`; for a socket file: \
                           `http://localhost/…` and `unix-socket`";
    // What has an `@` in it may hold a password.
    let shown = if text.contains('@') { "this".to_owned() } else { literal(text) };
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Reason::new(format!("{shown} is not a URL: it has a blank in it"))
            .hint("write `%20` for a blank"));
    }
    // Stricter than the URL standard, which reads `http:///a` and `http:a` as `http://a`.
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Reason::new(format!("{shown} is not a URL")).hint(EXAMPLE));
    };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return Err(Reason::new(format!("{shown} is neither http nor https")).hint(EXAMPLE));
    }
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(Reason::new("credentials in a URL end up in logs and process lists").hint(
            "take them out and use `basic = { username = \"…\", password-file = \"…\" }` or \
             `bearer-file = \"…\"`",
        ));
    }
    if authority.is_empty() {
        return Err(Reason::new(format!("{shown} names no host")).hint(EXAMPLE));
    }
    // The build leaves out the Unicode tables that such a name would need.
    if !authority.is_ascii() || authority.contains('%') {
        let reason = Reason::new(format!("the host in {shown} is not ASCII"));
        return Err(reason.hint("write the host as DNS knows it, `xn--…`"));
    }
    url::Url::parse(text)
        .map_err(|error| Reason::new(format!("{shown} is not a URL: {error}")).hint(EXAMPLE))
}

/// An HTTP method.
pub(super) fn method(text: &str) -> Result<Method, Reason> {
    let known =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let upper = text.trim().to_ascii_uppercase();
    known.into_iter().find(|method| method.as_str() == upper).ok_or_else(|| {
        Reason::new(format!("unknown method {}", literal(text)))
            .hint("one of `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`")
    })
}

/// A JSON pointer (RFC 6901).
pub(super) fn json_pointer(text: &str) -> Result<String, Reason> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "a JSON pointer")
        .hint("write the path to the value with slashes, such as `/status/reloads`"))
}

/// The name of a sample in the Prometheus text format, labels included.
pub(super) fn metric_name(text: &str) -> Result<String, Reason> {
    let name = text.split_once('{').map_or(text, |(name, _)| name);
    let fits = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        && (name.len() == text.len() || text.ends_with('}'));
    if fits {
        return Ok(text.to_owned());
    }
    Err(is_not(text, "the name of a metric").hint(
        "write it as `/metrics` prints it, labels included, such as \
         `prometheus_config_last_reload_success_timestamp_seconds`",
    ))
}
