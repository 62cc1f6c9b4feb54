//! Reads the options of programs that are written in Go, which have one dash or two. Pure.

use std::time::Duration;

use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The options of a command line, in their order, with their values.
pub(super) struct Given(Vec<(&'static str, String)>);

/// Reads options of which all have a value but the `switches`. Both are written without dashes.
///
/// # Errors
/// If one is not known, with its name; or if a value is missing.
pub(super) fn read(
    arguments: &[String],
    options: &[&'static str],
    switches: &[&'static str],
) -> Result<Given, Reason> {
    let mut given = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let unknown = || Reason::new(format!("`{}` is not supported", shown::text(argument)));
        let option = argument.strip_prefix('-').ok_or_else(unknown)?;
        let option = option.strip_prefix('-').unwrap_or(option);
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        if let Some(switch) = switches.iter().find(|switch| **switch == name) {
            given.push((*switch, value.unwrap_or_else(|| "true".to_owned())));
            continue;
        }
        let unknown = || Reason::new(format!("`--{}` is not supported", shown::text(name)));
        let option = options.iter().find(|option| **option == name).ok_or_else(unknown)?;
        let value = value.or_else(|| arguments.next().cloned());
        let missing = || Reason::new(format!("`--{name}` needs a value"));
        given.push((*option, value.ok_or_else(missing)?));
    }
    Ok(Given(given))
}

impl Given {
    /// All values of an option.
    pub(super) fn all(&self, option: &str) -> Vec<String> {
        let of_option = self.0.iter().filter(|(name, _)| *name == option);
        of_option.map(|(_, value)| value.clone()).collect()
    }

    /// The last value of an option, unless it is empty.
    pub(super) fn last(&self, option: &str) -> Option<String> {
        self.all(option).pop().filter(|value| !value.is_empty())
    }

    /// The last address of an option that podnudge is to listen on, without the name of the own host.
    pub(super) fn last_address(&self, option: &str) -> Option<String> {
        self.last(option).map(|address| match address.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => address,
        })
    }

    /// Whether a switch is given, and not as `false`.
    pub(super) fn is_on(&self, switch: &str) -> bool {
        self.last(switch).is_some_and(|value| value != "false")
    }

    /// The time that an option gives.
    ///
    /// # Errors
    /// If it is not one.
    pub(super) fn time(&self, option: &str, default: Duration) -> Result<Duration, Reason> {
        let Some(text) = self.last(option) else { return Ok(default) };
        time(&text).ok_or_else(|| {
            let text = shown::text(&text);
            Reason::new(format!("`--{option}`: `{text}` is not a time"))
                .hint("such as `5s` or `3m0s`")
        })
    }
}

/// A time in the notation of Go: numbers with units, such as `1m30s`, or `0`.
fn time(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (number, unit) = rest.split_at(rest.find(|letter| !is_number(letter))?);
        let number: f64 = number.parse().ok()?;
        let end = unit.find(is_number).unwrap_or(unit.len());
        let (unit, after) = unit.split_at(end);
        seconds += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(seconds).ok() }
}
