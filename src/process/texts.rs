//! Parses the texts of `/proc` (proc(5)) and of pidfiles, which other processes write. Pure.

use super::select::in_pod::holds_container_id;

/// The text of a file. Anything that is not UTF-8 is replaced.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Parses `/proc/PID/cmdline`: each argument ends with a NUL.
pub(super) fn parse_arguments(text: &[u8]) -> Vec<String> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    let words = text.split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What follows the name of a field in `/proc/PID/status`, such as `PPid:`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    // A process may have this as its name. Before each signal: a search is faster than a look at all lines.
    let begins_line = |(at, _): &(usize, &str)| {
        at.checked_sub(1).is_none_or(|end| status.as_bytes().get(end) == Some(&b'\n'))
    };
    let (at, _) = status.match_indices(name).find(begins_line)?;
    Some(status.get(at + name.len()..)?.lines().next()?.trim())
}

/// The name in `/proc/PID/status`, in which the kernel escapes line breaks and backslashes.
pub(super) fn parse_name(status: &str) -> &str {
    status.lines().find_map(|line| line.strip_prefix("Name:\t")).unwrap_or_default()
}

/// The pid of the parent in `/proc/PID/status`.
pub(super) fn parse_parent(status: &str) -> Option<i32> {
    field(status, "PPid:")?.parse().ok()
}

/// The effective uid in `/proc/PID/status`: the second number of `Uid:`.
pub(super) fn parse_uid(status: &str) -> Option<u32> {
    field(status, "Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A mask in `/proc/PID/status`: hexadecimal, bit 0 for signal 1 or capability 0.
pub(super) fn parse_mask(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(field(status, name)?, 16).ok()
}

/// The id of the container in `/proc/PID/cgroup`; empty if there is none. A runtime, or an init in the container, may
/// have made groups below the container's.
pub(super) fn parse_container(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let element = text.split(['/', '\n']).rfind(|element| holds_container_id(element));
    element.unwrap_or_default().to_owned()
}

/// A text that is no pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoPid;

/// The pid in a pidfile; `None` if the file is empty.
pub(super) fn parse_pid(text: &[u8]) -> Result<Option<i32>, NoPid> {
    let text = String::from_utf8_lossy(text);
    match text.trim() {
        "" => Ok(None),
        text => text.parse().ok().filter(|pid| *pid > 0).map(Some).ok_or(NoPid),
    }
}
