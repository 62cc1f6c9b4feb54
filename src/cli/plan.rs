//! `podnudge plan`: its help, and its options. Pure.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command};

use super::help::{switch, text, with_file};
use super::{Stop, value_of};
use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_tools::plan_options::{Options, Restarts};

const DAY: Duration = Duration::from_hours(24);
const MOST_REPLICAS: u32 = 100_000;
const MOST_RUNS: u32 = 10_000;
const MOST_CHANGES: u32 = 100;

const AFTER: &str = "\
It needs no cluster. The applications of the plan accept any content. Exit codes: 0 the plan is
printed, 64 wrong command line, 66 no configuration file, 74 the drawing cannot be written, 78 wrong
configuration.
    podnudge plan --watch /etc/app --restart --jitter 20s --replicas 3";

/// The command, for the help and for clap.
pub(super) fn command() -> Command {
    let with = |name, value, default, help| text(name, value).default_value(default).help(help);
    let starts =
        "podnudge supervise restarts the application: the kubelet's back-off does not apply";
    let endpoints = "How long the endpoints of a Service take to follow the readiness of a pod";
    let least = "There is an outage if fewer replicas are up [default: what a PodDisruptionBudget with \
                 maxUnavailable: 25% keeps up, and at least 1]";
    let sync = "The kubelet's syncFrequency; 0s: the kubelets write the volumes at once, as after an annotation";
    with_file("plan")
        .about("Simulate what a change of content does to all replicas of a Service")
        .override_usage("podnudge plan --replicas N [OPTIONS] [FILE]")
        .after_help(AFTER)
        .next_help_heading("Plan")
        .arg(text("replicas", "N").required(true).help("How many replicas there are"))
        .arg(text("rule", "NAME").help("Plan for this rule, if there are several"))
        .arg(text("min-available", "N").help(least))
        .arg(with("downtime", "TIME", "0s", "How long a reload interrupts the application"))
        .arg(with(
            "start-time",
            "TIME",
            "2s",
            "How long the application takes to be ready after its start",
        ))
        .arg(with("sync-period", "TIME", "1m", sync))
        .arg(with("endpoint-delay", "TIME", "1s", endpoints))
        .arg(switch("supervised", starts))
        .arg(with("changes", "N", "1", "How many times the content changes"))
        .arg(with("every", "TIME", "1m", "The time between two changes"))
        .arg(
            text("runs", "N")
                .help("How many runs to simulate [default: 5 to 200, fewer with more replicas]"),
        )
        .arg(with("seed", "N", "1", "The same seed gives the same figures"))
        .arg(text("svg", "FILE").help("Also write a drawing to this file"))
        .arg(switch("json", "Print JSON instead of text"))
}

pub(super) fn options(matches: &ArgMatches) -> Result<Options, Stop> {
    let text = |name| matches.get_one::<OsString>(name);
    let count = |name, most: u32| value_of(matches, name, |text| number(text, 1, u64::from(most)));
    let count = |name, most| count(name, most).map(|count| u32::try_from(count).unwrap_or(most));
    let time_by =
        |name, parse: fn(&str) -> Result<Duration, Reason>| value_of(matches, name, parse);
    let time = |name| time_by(name, |text| bounded_duration(text, Duration::ZERO, DAY));
    let min_available =
        text("min-available").map(|_| count("min-available", MOST_REPLICAS)).transpose()?;
    let runs = text("runs").map(|_| count("runs", MOST_RUNS)).transpose()?;
    let is_supervised = matches.get_flag("supervised");
    Ok(Options {
        rule: text("rule").map(|rule| rule.to_string_lossy().into_owned()),
        replicas: count("replicas", MOST_REPLICAS)?,
        downtime: time("downtime")?,
        start_time: time("start-time")?,
        sync_period: time_by("sync-period", sync_period)?,
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

/// The period of a kubelet, or 0 if all pods are synchronized at once.
fn sync_period(text: &str) -> Result<Duration, Reason> {
    match bounded_duration(text, Duration::ZERO, DAY)? {
        Duration::ZERO => Ok(Duration::ZERO),
        _ => bounded_duration(text, Duration::from_secs(1), DAY),
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, Reason> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let text = shown::literal(text);
        Reason::new(format!("must be a whole number from {least} to {most}, not {text}"))
    })
}
