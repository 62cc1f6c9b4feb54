//! A part of the week in a time zone, such as `Mon-Fri 09:00-17:00` in Berlin: when it opens next. Pure.

use std::time::Duration;

use tz::TimeZone;
use tz::timezone::TimeZoneSettings;

use crate::clock::UnixTime;
use crate::reason::Reason;
use crate::shown;

/// Gives the file of a time zone (RFC 8536) by the zone's name.
pub type Zones<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// A part of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The text of the setting.
    pub text: String,
    /// The text of the time zone.
    pub zone_text: String,
    /// The days on which it opens, Monday first.
    days: [bool; 7],
    /// Seconds of the day.
    from: i64,
    until: i64,
    zone: TimeZone,
}

/// A time zone, and the text of the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    text: String,
    zone: TimeZone,
}

/// The directory of the time zone database.
pub const ZONES: &str = "/usr/share/zoneinfo";

/// A period in which a rollout may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The begin of the period, or the current time if it has begun.
    pub from: UnixTime,
    /// The end of the period.
    pub until: UnixTime,
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: i64 = 24 * 3600;

impl Window {
    /// The part of the week that a text such as `Mon-Fri 09:00-17:00` names.
    ///
    /// # Errors
    /// If it names none.
    pub fn new(text: &str, zone: Zone) -> Result<Self, Reason> {
        let (days, from, until) = times(text)?;
        let Zone { text: zone_text, zone } = zone;
        Ok(Self { text: text.to_owned(), zone_text, days, from, until, zone })
    }

    /// When a rollout may begin: now, or when the window opens next. `None` only if the clock is out
    /// of the calendar's range.
    #[must_use]
    pub fn next_opening(&self, now: UnixTime) -> Option<Opening> {
        let unix = i64::try_from(now.0.as_secs()).ok()?;
        let time = |unix| Some(UnixTime(Duration::from_secs(u64::try_from(unix).ok()?)));
        let local = unix + self.offset(unix);
        let today = local.div_euclid(DAY);
        // Yesterday's window may last past midnight, and the clocks may skip next week's.
        for day in today - 2..=today + 16 {
            let (begin, end) = self.on(day);
            if !*self.days.get(usize::try_from((day + 3).rem_euclid(7)).ok()?)? {
                continue;
            }
            if begin < end && unix < end {
                let from = if unix < begin { time(begin)? } else { now };
                return Some(Opening { from, until: time(end)? });
            }
        }
        None
    }

    /// When it opens and closes on this day since 1970, in seconds since the epoch. Both are equal if the
    /// clocks skip it.
    fn on(&self, day: i64) -> (i64, i64) {
        let until = if self.until > self.from { self.until } else { self.until + DAY };
        (self.first(day * DAY + self.from), self.first(day * DAY + until))
    }

    /// The first time at which the clocks show this local time or a later one. A local time that they
    /// show twice is the first of both.
    fn first(&self, local: i64) -> i64 {
        // Offsets are below 26 hours, and change months apart (RFC 8536).
        let (before, after) = (self.offset(local - 2 * DAY), self.offset(local + 2 * DAY));
        let (by_before, by_after) = (local - before, local - after);
        if self.offset(by_before) == before {
            return by_before;
        }
        if self.offset(by_after) == after {
            return by_after;
        }
        // They skip it.
        let (mut earlier, mut later) = (by_after.min(by_before), by_after.max(by_before));
        while later - earlier > 1 {
            let middle = earlier + (later - earlier) / 2;
            if middle + self.offset(middle) < local {
                earlier = middle;
            } else {
                later = middle;
            }
        }
        later
    }

    fn offset(&self, unix: i64) -> i64 {
        self.zone.find_local_time_type(unix).map_or(0, |local| i64::from(local.ut_offset()))
    }
}

type Times = ([bool; 7], i64, i64);

/// The days and hours of `Mon-Fri 09:00-17:00`.
///
/// # Errors
/// If the text names none.
pub fn times(text: &str) -> Result<Times, Reason> {
    let refused = || {
        Reason::new(format!("{} is not a time of the week", shown::literal(text)))
            .hint("days and hours, such as `Mon-Fri 09:00-17:00`, `Sat,Sun 22:00-04:00` or `Mon-Sun 02:00-03:30`")
    };
    let (days, hours) = text.trim().split_once(' ').ok_or_else(refused)?;
    let (from, until) = hours.trim().split_once('-').ok_or_else(refused)?;
    let (from, until) = (clock(from).ok_or_else(refused)?, clock(until).ok_or_else(refused)?);
    if from == until || from >= DAY {
        return Err(refused());
    }
    let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let mut open = [false; 7];
    for part in days.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first).ok_or_else(refused)?, day(last).ok_or_else(refused)?);
        let count = (last + 7 - first) % 7;
        for n in 0..=count {
            if let Some(open) = open.get_mut((first + n) % 7) {
                *open = true;
            }
        }
    }
    Ok((open, from, until))
}

/// The seconds of `09:00`; `24:00` is the end of the day.
fn clock(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_: &i64| is_number)
    };
    let seconds = number(hours)? * 3600 + number(minutes).filter(|m| *m < 60)? * 60;
    (seconds <= DAY).then_some(seconds)
}

/// The time zone of a text: `UTC`, an offset, a POSIX rule, or a name that `zones` knows.
///
/// # Errors
/// If it is none.
pub fn zone(text: &str, zones: Zones<'_>) -> Result<Zone, Reason> {
    let fixed = |seconds| TimeZone::fixed(seconds).ok();
    let known = if text.eq_ignore_ascii_case("UTC") {
        fixed(0)
    } else if let Some(offset) = offset(text) {
        fixed(offset)
    } else {
        // Nothing is read here: a name is looked up below.
        let nothing = TimeZoneSettings::new(&[], |_| Err("not read".into()));
        nothing.parse_posix_tz(text).ok()
    };
    let is_name = text.split('/').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
    });
    let zone = match known {
        None if is_name => {
            let found = zones(text).and_then(|file| TimeZone::from_tz_data(&file).ok());
            found.ok_or_else(|| {
                Reason::new(format!("there is no time zone {} in {ZONES}", shown::literal(text))).hint(
                    "podnudge's image holds no time zones: write the rule itself, such as `CET-1CEST,M3.5.0,M10.5.0/3` for Central Europe, or mount the database there",
                )
            })
        }
        None => Err(Reason::new(format!("{} is not a time zone", shown::literal(text))).hint(
            "`UTC`, an offset such as `+02:00`, a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`, or a name such as `Europe/Berlin`",
        )),
        Some(zone) => Ok(zone),
    };
    zone.map(|zone| Zone { text: text.to_owned(), zone })
}

/// The seconds of `+02:00`.
fn offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let seconds = i32::try_from(clock(rest)?).ok()?;
    Some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, zone_text: &str) -> Window {
        Window::new(text, zone(zone_text, &|_| None).unwrap()).unwrap()
    }

    /// When it opens, for a time in UTC.
    fn opens(window: &Window, now: &str) -> String {
        let now = humantime::parse_rfc3339(now).unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        let at = window.next_opening(UnixTime(now)).unwrap().from.0;
        humantime::format_rfc3339(std::time::UNIX_EPOCH + at).to_string()
    }

    #[test]
    fn it_opens_on_its_days_and_hours() {
        let work = window("Mon-Fri 09:00-17:00", "UTC");
        // 2026-11-21 is a Saturday.
        assert_eq!(opens(&work, "2026-11-21T10:00:00Z"), "2026-11-23T09:00:00Z");
        assert_eq!(opens(&work, "2026-11-23T08:59:59Z"), "2026-11-23T09:00:00Z");
        assert_eq!(opens(&work, "2026-11-23T09:00:00Z"), "2026-11-23T09:00:00Z");
        assert_eq!(opens(&work, "2026-11-23T16:59:59Z"), "2026-11-23T16:59:59Z");
        assert_eq!(opens(&work, "2026-11-23T17:00:00Z"), "2026-11-24T09:00:00Z");
        assert_eq!(opens(&work, "2026-11-27T17:00:00Z"), "2026-11-30T09:00:00Z");
        let one = window("sun 00:00-24:00", "UTC");
        assert_eq!(opens(&one, "2026-11-21T10:00:00Z"), "2026-11-22T00:00:00Z");
        assert_eq!(opens(&one, "2026-11-23T00:00:00Z"), "2026-11-29T00:00:00Z");
    }

    #[test]
    fn it_may_go_on_over_midnight_and_over_the_week() {
        let night = window("Fri-Mon 22:00-04:00", "+02:00");
        assert_eq!(opens(&night, "2026-11-24T01:59:59Z"), "2026-11-24T01:59:59Z");
        assert_eq!(opens(&night, "2026-11-24T02:00:00Z"), "2026-11-27T20:00:00Z");
        assert_eq!(opens(&night, "2026-11-22T23:00:00Z"), "2026-11-22T23:00:00Z");
    }

    #[test]
    fn it_keeps_its_hours_when_the_clocks_change() {
        let work = window("Mon-Sun 09:00-10:00", "CET-1CEST,M3.5.0,M10.5.0/3");
        assert_eq!(opens(&work, "2026-10-24T12:00:00Z"), "2026-10-25T08:00:00Z");
        assert_eq!(opens(&work, "2026-10-23T12:00:00Z"), "2026-10-24T07:00:00Z");
        let (from, until) = (Duration::from_hours(8), Duration::from_hours(9));
        let opening = Opening { from: UnixTime(from), until: UnixTime(until) };
        assert_eq!(work.next_opening(UnixTime(Duration::ZERO)), Some(opening));
        // A file of the database, of version 1: five hours before UTC.
        let file = b"TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\
            \xff\xff\xb9\xb0\0\0EST\0";
        let zones = |name: &str| (name == "America/Panama").then(|| file.to_vec());
        assert!(zone("America/Panama", &zones).is_ok());
        let refused = zone("Europe/Berlin", &zones).unwrap_err();
        assert!(refused.message.starts_with("there is no time zone `Europe/Berlin`"), "{refused}");
        assert!(zone("Europe/Berlin", &|_| Some(b"no such file".to_vec())).is_err());
    }

    /// In Berlin the clocks go from 2 to 3 on 2026-03-29, and from 3 to 2 on 2026-10-25.
    #[test]
    fn a_window_on_the_day_when_the_clocks_change_is_never_empty_or_early() {
        const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
        let opening = |text: &str, now: &str| {
            let unix = |text: &str| {
                let time = humantime::parse_rfc3339(text).unwrap();
                UnixTime(time.duration_since(std::time::UNIX_EPOCH).unwrap())
            };
            let Opening { from, until } = window(text, BERLIN).next_opening(unix(now)).unwrap();
            let shown =
                |at: UnixTime| humantime::format_rfc3339(std::time::UNIX_EPOCH + at.0).to_string();
            (shown(from), shown(until))
        };
        let times = |from: &str, until: &str| (from.to_owned(), until.to_owned());
        // It begins when the clocks skip its begin.
        let spring = opening("Sun 02:30-05:00", "2026-03-28T12:00:00Z");
        assert_eq!(spring, times("2026-03-29T01:00:00Z", "2026-03-29T03:00:00Z"));
        // They skip all of it: it opens the week after.
        let skipped = opening("Sun 02:00-03:00", "2026-03-28T12:00:00Z");
        assert_eq!(skipped, times("2026-04-05T00:00:00Z", "2026-04-05T01:00:00Z"));
        // They show its end twice, and its begin.
        let autumn = opening("Sun 01:00-02:30", "2026-10-24T12:00:00Z");
        assert_eq!(autumn, times("2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z"));
        let autumn = opening("Sun 02:30-04:00", "2026-10-24T12:00:00Z");
        assert_eq!(autumn, times("2026-10-25T00:30:00Z", "2026-10-25T03:00:00Z"));
        // The last minute before, and midnight.
        let night = opening("Sat 23:00-02:00", "2026-10-24T23:59:00Z");
        assert_eq!(night, times("2026-10-24T23:59:00Z", "2026-10-25T00:00:00Z"));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in [
            "",
            "Mon",
            "09:00-17:00",
            "Mon 9-17",
            "Mon 09:00",
            "Foo 09:00-17:00",
            "Mon 17:00-17:00",
            "Mon 09:60-10:00",
            "Mon 24:00-25:00",
            "Mon- 09:00-10:00",
            "Mon +9:00-10:00",
        ] {
            assert!(times(text).is_err(), "{text}");
        }
        for text in ["", "+2", "../etc/passwd", "Europe/", "+25:00", "++9:00"] {
            assert!(zone(text, &|_| None).is_err(), "{text}");
        }
    }
}
