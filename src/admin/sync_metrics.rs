//! The metrics of `podnudge sync`, in the OpenMetrics text format. Pure.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::process_metrics::OwnProcess;
use super::series::{Kind, Series, Value, counter, encode_family, gauge};
use crate::system::version;
use podnudge_core::sync::SyncStatus;

/// Renders all metrics.
#[must_use]
pub fn render(status: &SyncStatus, process: &OwnProcess) -> String {
    process.encode_after(Box::new(Snapshot(status.clone())), |_| {})
}

#[derive(Debug)]
struct Snapshot(SyncStatus);

impl Collector for Snapshot {
    #[expect(clippy::cast_precision_loss, reason = "no namespace has so many objects")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Self(status) = self;
        let flag = |value: bool| f64::from(u8::from(value));
        let version = gauge(vec![("version", version::VERSION.to_owned())], 1.0);
        let one = |value: f64| gauge(Vec::new(), value);
        let gauges = [
            ("build_info", "The version", None, version),
            (
                "sync_leading",
                "Whether this replica annotates the pods; the others wait",
                None,
                one(flag(status.leading)),
            ),
            (
                "sync_watched",
                "Whether edits of all followed objects are seen at once",
                None,
                one(flag(status.watched)),
            ),
            (
                "sync_objects",
                "The ConfigMaps and Secrets that are followed",
                None,
                one(status.objects as f64),
            ),
            (
                "sync_lag",
                "The age of the oldest edit for which not all pods were annotated; 0 if there is none",
                Some(&Unit::Seconds),
                one(status.lag_seconds),
            ),
        ];
        for (name, help, unit, series) in gauges {
            encode_family(&mut encoder, (name, help, unit, Kind::Gauge), &[series])?;
        }
        let counters = [
            ("sync_edits", "Edits of the content of followed objects", status.edits),
            ("sync_passes", "Passes over the pods of the namespace that have ended", status.passes),
            (
                "sync_pods_annotated",
                "Annotations of pods, by which kubelets are asked to sync them",
                status.annotated,
            ),
            (
                "sync_pods_refused",
                "Pods that the API server did not let podnudge annotate",
                status.refused,
            ),
        ];
        for (name, help, value) in counters {
            let series = [counter(Vec::new(), value)];
            encode_family(&mut encoder, (name, help, None, Kind::Counter), &series)?;
        }
        let took = Value::Histogram(status.edit_to_annotated.clone());
        let help = "Time from an edit until all pods that mount the object were annotated";
        let family = ("sync_edit_to_annotated", help, Some(&Unit::Seconds), Kind::Histogram);
        encode_family(&mut encoder, family, &[Series { labels: Vec::new(), value: took }])
    }
}
