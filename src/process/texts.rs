//! Parses the texts of `/proc` (proc(5)) and of pidfiles, which other processes write. Pure.

use super::select::in_pod::holds_container_id;

/// Parses `/proc/PID/cmdline`: each argument ends with a NUL.
pub(super) fn parse_arguments(text: &[u8]) -> Vec<String> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    let words = text.split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The effective uid in `/proc/PID/status`: the second number of `Uid:`.
pub(super) fn parse_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The id of the container in `/proc/PID/cgroup`; empty if there is none.
pub(super) fn parse_container(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut elements = text.lines().filter_map(|line| line.rsplit('/').next());
    let element = elements.rfind(|element| holds_container_id(element));
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
