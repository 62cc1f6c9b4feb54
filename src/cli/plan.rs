//! The options of `podnudge plan`. Pure.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use super::{Stop, value_of};
use podnudge_config as config;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_tools::plan_options::{Options, Restarts};

const DAY: Duration = Duration::from_hours(24);
const MOST_REPLICAS: u32 = 100_000;
const MOST_RUNS: u32 = 10_000;
const MOST_CHANGES: u32 = 100;

pub(super) fn options(matches: &ArgMatches) -> Result<Options, Stop> {
    let text = |name| matches.get_one::<OsString>(name);
    let count = |name, most: u32| value_of(matches, name, |text| number(text, 1, u64::from(most)));
    let count = |name, most| count(name, most).map(|count| u32::try_from(count).unwrap_or(most));
    let time =
        |name| value_of(matches, name, |text| config::bounded_duration(text, Duration::ZERO, DAY));
    let min_available =
        text("min-available").map(|_| count("min-available", MOST_REPLICAS)).transpose()?;
    let runs = text("runs").map(|_| count("runs", MOST_RUNS)).transpose()?;
    let is_supervised = matches.get_flag("supervised");
    Ok(Options {
        rule: text("rule").map(|rule| rule.to_string_lossy().into_owned()),
        replicas: count("replicas", MOST_REPLICAS)?,
        downtime: time("downtime")?,
        start_time: time("start-time")?,
        sync_period: time("sync-period")?,
        endpoint_delay: time("endpoint-delay")?,
        restarts: if is_supervised { Restarts::Supervised } else { Restarts::Kubelet },
        min_available,
        changes: count("changes", MOST_CHANGES)?,
        every: time("every")?,
        runs,
        seed: value_of(matches, "seed", |text| number(text, 0, u64::MAX))?,
        svg: text("svg").map(PathBuf::from),
        json: matches.get_flag("json"),
    })
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, Reason> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let text = shown::text(text);
        Reason::new(format!("`{text}` is not a whole number from {least} to {most}"))
    })
}
