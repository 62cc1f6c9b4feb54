//! Parses durations as people write them. Pure.

use std::time::Duration;

use crate::reason::Reason;
use crate::shown::literal;

/// The units. humantime also knows weeks, months and years, and reads `5M` as five months.
pub const UNITS: [&str; 20] = [
    "ns", "us", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
    "minutes", "h", "hr", "hour", "hours", "d", "day", "days",
];

/// Parses a duration with a unit, such as `30s`, from `least` to `most`.
///
/// # Errors
/// If the text is no duration, has no unit or an unknown one, or is out of these bounds.
pub fn bounded_duration(text: &str, least: Duration, most: Duration) -> Result<Duration, Reason> {
    let duration = duration(text)?;
    let (bound, limit) = match duration {
        _ if duration > most => ("most", most),
        _ if duration < least => ("least", least),
        _ => return Ok(duration),
    };
    let limit = humantime::format_duration(limit);
    Err(Reason::new(format!("must be at {bound} `{limit}`, not {}", literal(text))))
}

/// Parses a duration with a unit, such as `30s`.
///
/// # Errors
/// If the text is no duration, has no unit or an unknown one.
pub fn duration(text: &str) -> Result<Duration, Reason> {
    let number = text.trim();
    if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(Reason::new(format!("{} has no unit", literal(text))).hint(format!(
            "write `{number}s` for seconds, `{number}ms` for milliseconds, `{number}m` for minutes"
        )));
    }
    let mut units = text.split(|c: char| !c.is_alphabetic()).filter(|unit| !unit.is_empty());
    match units.find(|unit| !UNITS.contains(unit)) {
        None => {}
        Some("M") => {
            let message = format!("the unit `M` in {} means months", literal(text));
            let minutes = literal(&text.replace('M', "m"));
            return Err(Reason::new(message).hint(format!("write {minutes} for minutes")));
        }
        Some(unit) => {
            let message = format!("unknown unit {} in {}", literal(unit), literal(text));
            let hint = "the units are `ms`, `s`, `m` (minutes), `h` and `d`";
            return Err(Reason::new(message).hint(hint));
        }
    }
    humantime::parse_duration(text).map_err(|_| {
        Reason::new(format!("{} is not a duration", literal(text)))
            .hint("write a number and a unit, such as `200ms`, `30s` or `5m`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_is_told_from_what_is_no_duration() {
        let message = |text| duration(text).map_err(|reason| reason.message);
        let wrong = |message: &str| Err(message.to_owned());
        assert_eq!(message("1.5"), wrong("`1.5` has no unit"));
        assert_eq!(message(" "), wrong("` ` is not a duration"));
        assert_eq!(message("5M"), wrong("the unit `M` in `5M` means months"));
        assert_eq!(message("5x"), wrong("unknown unit `x` in `5x`"));
        assert_eq!(message("1m 30s"), Ok(Duration::from_secs(90)));
    }
}
