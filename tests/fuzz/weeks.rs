//! Fuzzes weekly windows, the rules of time zones, and the files of their database (`crates/core/src/week.rs`).

use std::time::Duration;

use tz::TimeZone;
use tz::timezone::TimeZoneSettings;

use super::{Target, assert_reason, first_line, fuzz, text, words};
use podnudge_core::clock::UnixTime;
use podnudge_core::reason::Reason;
use podnudge_core::week::{Opening, Window, times, zone};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A zone as this file reads it, to compare with.
fn posix(rule: &str) -> Option<TimeZone> {
    let nothing = TimeZoneSettings::new(&[], |_| Err("not read".into()));
    nothing.parse_posix_tz(rule).ok()
}

fn offset(zone: &TimeZone, unix: i64) -> i64 {
    zone.find_local_time_type(unix).map_or(0, |local| i64::from(local.ut_offset()))
}

/// The next opening, which does not depend on when it is asked for.
fn opening(window: &Window, unix: i64) -> Option<(i64, i64)> {
    let ask = |unix: i64| {
        let now = UnixTime(Duration::from_secs(u64::try_from(unix).unwrap()));
        let Opening { from, until } = window.next_opening(now)?;
        let seconds = |time: UnixTime| i64::try_from(time.0.as_secs()).unwrap();
        Some((seconds(from), seconds(until)))
    };
    let (from, until) = ask(unix)?;
    assert!(unix <= from && from < until, "at {unix}: from {from} until {until}");
    assert_eq!(ask(from), Some((from, until)), "when it has begun");
    assert_eq!(ask(until - 1), Some((until - 1, until)), "before its end");
    let middle = unix + (from - unix) / 2;
    assert_eq!(ask(middle).map(|(_, until)| until), Some(until), "meanwhile, at {middle}");
    assert!(ask(until)?.1 > until, "after its end");
    Some((from, until))
}

/// Whether this is the first time at which the clocks show `local` or later: minute by minute.
fn is_first(zone: &TimeZone, unix: i64, local: i64) -> bool {
    let shows = |unix: i64| unix + offset(zone, unix);
    shows(unix) >= local && (1..27 * 60).all(|minute| shows(unix - 60 * minute) < local)
}

#[test]
fn a_window_opens_and_closes_when_the_clocks_show_its_times() {
    // Around changes of the clocks.
    let seeds = [
        "Mon-Fri 09:00-17:00\nCET-1CEST,M3.5.0,M10.5.0/3\n1774746000",
        "Sun 02:00-03:00\nCET-1CEST,M3.5.0,M10.5.0/3\n1774700000",
        "Sat,Sun 22:00-02:30\nCET-1CEST,M3.5.0,M10.5.0/3\n1792882800",
        "Sun 01:30-02:15\nEST5EDT,M3.2.0,M11.1.0\n1793512000",
        "Mon-Sun 00:00-24:00\nLHST-10:30LHDT-11,M10.1.0,M4.1.0\n1775314800",
        "Fri-Mon 23:59-00:01\nIST-2IDT,M3.4.4/26,M10.5.0\n1774480000",
        "Sun 00:00-01:00\nEET-2EEST,M3.5.0/0,M10.5.0/0\n1774730000",
        "Wed 12:00-12:01\n+05:45\n1774746000",
        "Sun 02:30-03:30\nNZST-12NZDT,M9.5.0,M4.1.0/3\n1790430000",
    ];
    let target = Target {
        dictionary: words("window"),
        longest: 128,
        inputs: 1500,
        ..Target::new("window", &seeds)
    };
    fuzz(target, |input| {
        let (days, rest) = first_line(input);
        let (rule, rest) = first_line(rest);
        let now = text(rest).trim().parse::<i64>().unwrap_or(0).rem_euclid(100 * 365 * DAY);
        let read = zone(&rule, &|_| None).and_then(|zone| Window::new(&days, zone));
        let window = match read {
            Ok(window) => window,
            Err(reason) => return assert_reason(&reason),
        };
        let (open_days, begin, end) = times(&days).expect("it is a window");
        let found = opening(&window, now);
        let Some(zone) = posix(&rule) else {
            return format!("fixed {}", found.expect("it opens each week").0 == now);
        };
        // A rule may change the clocks twice in a day, which nobody does.
        let changes: Vec<i64> = (-20..20)
            .map(|n| now + n * DAY)
            .filter(|at| offset(&zone, *at) != offset(&zone, at + DAY))
            .collect();
        let offsets = |at: i64| offset(&zone, at);
        let jump = changes.first().map_or(0, |at| offsets(at + DAY) - offsets(*at));
        let is_odd = now < 40 * DAY || changes.len() > 1 || jump.abs() > 3 * HOUR || jump % 60 != 0;
        let (from, until) = match found {
            Some(found) if !is_odd => found,
            _ => return format!("odd {}", found.is_some()),
        };
        // The day on which it begins: the last one whose begin has come.
        let local = until + offsets(until - 1);
        let last = local - i64::from(end <= begin) * DAY;
        let days = [(last - 60).div_euclid(DAY), (last - 60).div_euclid(DAY) - 1];
        let length = if end > begin { 0 } else { DAY };
        let is_of = |day: &i64| is_first(&zone, until, day * DAY + end + length);
        let day = days.into_iter().find(is_of).expect("it closes when the clocks show its end");
        assert!(open_days[usize::try_from((day + 3).rem_euclid(7)).unwrap()], "on its days");
        if from > now {
            assert!(is_first(&zone, from, day * DAY + begin), "from {from} on day {day}");
            // Not before, unless the clocks show a time for the second time.
            for at in (now..from).step_by(900) {
                let local = at + offsets(at);
                let is_in = |day: i64| {
                    open_days[usize::try_from((day + 3).rem_euclid(7)).unwrap()]
                        && (day * DAY + begin..day * DAY + end + length).contains(&local)
                };
                let day = local.div_euclid(DAY);
                let is_second = offsets(at - 4 * HOUR) > offsets(at);
                assert!(is_second || !(is_in(day) || is_in(day - 1)), "open at {at} already");
            }
        }
        format!("{} {}", from == now, changes.len())
    });
}

/// A file of the database, version 2: Berlin, with a rule for the future.
fn database() -> Vec<u8> {
    let mut file = Vec::new();
    for (version, width) in [(b'2', 4), (b'2', 8)] {
        file.extend_from_slice(b"TZif");
        file.push(version);
        file.extend_from_slice(&[0; 15]);
        // Numbers of: UT indicators, standard indicators, leap seconds, changes, types, characters.
        for count in [0_u32, 0, 0, 2, 2, 9] {
            file.extend_from_slice(&count.to_be_bytes());
        }
        for time in [1_774_746_000_i64, 1_792_890_000] {
            file.extend_from_slice(&time.to_be_bytes()[8 - width..]);
        }
        file.extend_from_slice(&[1, 0]);
        file.extend_from_slice(&3600_i32.to_be_bytes());
        file.extend_from_slice(&[0, 0]);
        file.extend_from_slice(&7200_i32.to_be_bytes());
        file.extend_from_slice(&[1, 4]);
        file.extend_from_slice(b"CET\0CEST\0");
    }
    file.extend_from_slice(b"\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    file
}

#[test]
fn a_file_of_the_time_zone_database_is_read_or_refused() {
    assert!(zone("Europe/Berlin", &|_| Some(database())).is_ok());
    let mut old = database();
    old[4] = 0;
    let seeds = vec![database(), old, b"TZif".to_vec()];
    let target =
        Target { seeds, dictionary: words("tzif"), inputs: 6000, ..Target::new("tzif", &[]) };
    fuzz(target, |input| {
        let read = zone("Europe/Berlin", &|_| Some(input.to_vec()));
        match read.and_then(|zone| Window::new("Mon,Fri 22:00-06:00", zone)) {
            Ok(window) => {
                for now in [0, 1_774_746_000, 1_792_890_000, 4_000_000_000] {
                    let time = UnixTime(Duration::from_secs(now));
                    if let Some(Opening { from, until }) = window.next_opening(time) {
                        assert!(time <= from && from < until, "{from:?} {until:?}");
                    }
                }
                "read".to_owned()
            }
            Err(Reason { message, .. }) => message,
        }
    });
}
