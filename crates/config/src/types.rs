//! The types of values: how each is bounded, parsed and printed. Pure.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::define::{Form, Type};
use super::parsers;
use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;
use podnudge_core::shown::literal;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);
pub(super) const ZERO: Duration = Duration::ZERO;

pub(super) const fn duration(least: Duration, most: Duration) -> Type<Duration> {
    let print = |duration: &Duration| humantime::format_duration(*duration).to_string();
    Type { form: Form::Duration(least, most), parse: podnudge_core::duration::duration, print }
}

/// A time limit of one exchange or one run of a program.
pub(super) const fn time_limit(most: Duration) -> Type<Duration> {
    duration(MS.saturating_mul(10), most)
}

pub(super) const fn number<N: FromStr + Display>(least: u32, most: u32) -> Type<N> {
    let parse = |text: &str| text.parse().map_err(|_| Reason::new("not a number"));
    Type { form: Form::Number(least, most), parse, print: ToString::to_string }
}

/// An HTTP status code.
pub(super) const fn status() -> Type<u16> {
    number(100, 599)
}

pub(super) const fn boolean() -> Type<bool> {
    Type { form: Form::Bool, parse: parsers::boolean, print: ToString::to_string }
}

/// Text with a meaning; `what` names it in the reference.
pub(super) const fn parsed<T>(
    what: &'static str,
    parse: fn(&str) -> Result<T, Reason>,
    print: fn(&T) -> String,
) -> Type<T> {
    Type { form: Form::Text(what), parse, print }
}

/// Any text.
pub(super) const fn string(what: &'static str) -> Type<String> {
    checked(what, |text| Ok(text.to_owned()))
}

/// Text that a parser accepts.
pub(super) const fn checked(
    what: &'static str,
    parse: fn(&str) -> Result<String, Reason>,
) -> Type<String> {
    parsed(what, parse, String::clone)
}

pub(super) const fn path() -> Type<PathBuf> {
    path_by(parsers::path)
}

/// A path that a parser accepts. Paths are read from text, so printing them loses nothing.
pub(super) const fn path_by(parse: fn(&str) -> Result<PathBuf, Reason>) -> Type<PathBuf> {
    parsed("a path", parse, |path| path.to_string_lossy().into_owned())
}

pub(super) const fn glob() -> Type<glob::Pattern> {
    parsed("a pattern", parsers::glob, |glob| glob.as_str().to_owned())
}

pub(super) const fn regex() -> Type<regex_lite::Regex> {
    parsed("a regular expression", parsers::regex, |regex| regex.as_str().to_owned())
}

pub(super) const fn url() -> Type<url::Url> {
    parsed("a URL", parsers::url, |url| url.as_str().to_owned())
}

/// Refuses text that is outside the bounds of a form.
pub(super) fn check_bounds(form: &Form, text: &str) -> Result<(), Reason> {
    match *form {
        Form::Duration(least, most) => bounded_duration(text, least, most).map(drop),
        Form::Number(least, most) => match text.parse::<u32>() {
            Ok(number) if (least..=most).contains(&number) => Ok(()),
            _ => {
                let range = format!("must be a whole number from {least} to {most}");
                Err(Reason::new(format!("{range}, not {}", literal(text))))
            }
        },
        _ => Ok(()),
    }
}
