//! Writes configurations and command lines. Pure.

use std::time::Duration;

use toml::Value;

/// Text as a configuration writes it, on one line.
pub(super) fn quoted(text: &str) -> String {
    if text.contains('\n') {
        // TOML has the escapes of JSON.
        return serde_json::Value::from(text).to_string();
    }
    Value::from(text).to_string()
}

/// Several texts as a configuration writes them.
pub(super) fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A time as a configuration writes it, within bounds.
pub(super) fn time(time: Duration, least: Duration, most: Duration) -> String {
    // humantime writes no more than milliseconds here.
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let time = Duration::from_millis(millis).clamp(least, most);
    format!("\"{}\"", humantime::format_duration(time))
}

/// An argument as a shell takes it.
pub(super) fn argument(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
