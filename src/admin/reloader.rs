//! The status as metrics of prometheus-config-reloader, under their names. Pure.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use super::series::{Kind, counter, encode_family, gauge};
use podnudge_core::status::{Reloads, RuleStatus, Status};

/// Appends the metrics, if they are asked for.
pub(super) fn encode(output: &mut String, status: &Status) {
    let Some(reloads) = &status.reloads else { return };
    let mut registry = Registry::default();
    let rules = status.rules.clone();
    let version = status.version;
    registry.register_collector(Box::new(Reloader { reloads: reloads.clone(), rules, version }));
    // Writing to a `String` cannot fail.
    _ = text::encode_registry(output, &registry);
}

#[derive(Debug)]
struct Reloader {
    reloads: Reloads,
    rules: Vec<RuleStatus>,
    version: &'static str,
}

impl Reloader {
    fn sum(&self, count: impl Fn(&RuleStatus) -> u64) -> u64 {
        self.rules.iter().map(count).sum()
    }
}

impl Collector for Reloader {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Self { reloads, rules, version } = self;
        // Content that was not used: it cannot be read, or its variables are not set.
        let unused = self.sum(|rule| {
            let counters = &rule.counters;
            counters.checks_rejected + counters.checks_failed + counters.read_errors
        });
        let seen = self.sum(|rule| rule.counters.commits + rule.counters.unchanged);
        let watches = self.sum(|rule| rule.volumes.len() as u64);
        let counters = [
            ("reloader_reloads", "Total number of reload requests", reloads.attempts),
            (
                "reloader_reloads_failed",
                "Total number of reload requests that failed",
                reloads.failed,
            ),
            (
                "reloader_config_apply_operations",
                "Total number of config apply operations",
                reloads.attempts + unused,
            ),
            (
                "reloader_config_apply_operations_failed",
                "Total number of config apply operations that failed",
                reloads.failed + unused,
            ),
            (
                "reloader_watch_events",
                "Total number of changes seen by the watch, and by the resync",
                seen,
            ),
            (
                "reloader_watch_errors",
                "Total number of changes that the watch missed",
                self.sum(|rule| rule.counters.missed_by_watch),
            ),
        ];
        for (name, help, count) in counters {
            let series = [counter(Vec::new(), count)];
            encode_family(&mut encoder, (name, help, None, Kind::Counter), &series)?;
        }
        let succeeded_at = rules.iter().filter_map(|rule| rule.succeeded_at).max();
        let is_good = succeeded_at.is_some() && !reloads.has_failed;
        let gauges = [
            (
                "reloader_last_reload_successful",
                "Whether the last reload attempt was successful",
                f64::from(u8::from(is_good)),
            ),
            (
                "reloader_last_reload_success_timestamp_seconds",
                "Timestamp of the last successful reload",
                succeeded_at.map_or(0.0, |at| at.0.as_secs_f64()),
            ),
            (
                "reloader_watches",
                "Number of resources watched by the reloader",
                f64::from(u32::try_from(watches).unwrap_or(u32::MAX)),
            ),
        ];
        for (name, help, value) in gauges {
            encode_family(
                &mut encoder,
                (name, help, None, Kind::Gauge),
                &[gauge(Vec::new(), value)],
            )?;
        }
        let labels = ["branch", "goarch", "goos", "goversion", "revision", "tags", "version"];
        let labels = labels.map(|label| match label {
            "goos" => (label, "linux".to_owned()),
            "goarch" => (label, architecture().to_owned()),
            "version" => (label, format!("podnudge-{version}")),
            _ => (label, String::new()),
        });
        let name = "prometheus_config_reloader_build_info";
        let help = "The version: that of podnudge, which serves these metrics";
        encode_family(&mut encoder, (name, help, None, Kind::Gauge), &[gauge(labels.to_vec(), 1.0)])
    }
}

/// The architecture, by its name in Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
