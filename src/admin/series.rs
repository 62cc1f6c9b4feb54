//! Encodes metrics and their series. Pure.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use podnudge_core::status::Histogram;

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) struct Series {
    pub(super) labels: Labels,
    pub(super) value: Value,
}

pub(super) enum Value {
    Counter(u64),
    /// A counter of seconds.
    Seconds(f64),
    Gauge(f64),
    Histogram(Histogram),
}

impl Value {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        match self {
            Self::Counter(value) => ConstCounter::new(*value).encode(encoder),
            Self::Seconds(value) => ConstCounter::new(*value).encode(encoder),
            Self::Gauge(value) => ConstGauge::new(*value).encode(encoder),
            Self::Histogram(histogram) => encode_histogram(histogram, encoder),
        }
    }
}

pub(super) fn counter(labels: Labels, value: u64) -> Series {
    Series { labels, value: Value::Counter(value) }
}

pub(super) fn gauge(labels: Labels, value: f64) -> Series {
    Series { labels, value: Value::Gauge(value) }
}

fn encode_histogram(histogram: &Histogram, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
    let bounds = Histogram::BOUNDS_SECONDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
    let count = histogram.buckets.iter().sum();
    // Without exemplars, their label type does not matter.
    encoder.encode_histogram::<[(&str, &str); 0]>(histogram.sum_seconds, count, &buckets, None)
}

/// Encodes a metric: its name, its help, its unit and its kind, and all its series.
pub(super) fn encode_family(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit, kind): (&str, &str, Option<&Unit>, Kind),
    series: &[Series],
) -> std::fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, kind.metric_type())?;
    if let [Series { labels, value }] = series
        && labels.is_empty()
    {
        return value.encode(family);
    }
    series.iter().try_for_each(|series| {
        let labels: Vec<(&str, &str)> =
            series.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        series.value.encode(family.encode_family(&labels)?)
    })
}
