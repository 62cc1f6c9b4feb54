//! The standard metrics of a process, which all programs name alike. Pure.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};

use super::series::{Kind, Labels, Series, Value, encode_family};

/// What the kernel says about podnudge's own process. What is `None` has no series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnProcess {
    /// When it started, in seconds since the Unix epoch.
    pub start_time: Option<f64>,
    /// The user and system time of the process.
    pub cpu_seconds: Option<f64>,
    /// The memory of the process in RAM.
    pub resident_bytes: Option<u64>,
    /// The address space of the process.
    pub virtual_bytes: Option<u64>,
    /// The open file descriptors.
    pub open_fds: Option<u64>,
    /// The limit on open file descriptors; `None` also if there is no limit.
    pub max_fds: Option<u64>,
}

impl OwnProcess {
    /// All metrics: podnudge's own, what `other` adds to them, and those of the process.
    pub(super) fn encode_after(
        self,
        ours: Box<dyn Collector>,
        other: impl FnOnce(&mut String),
    ) -> String {
        let mut registry = Registry::with_prefix("podnudge");
        registry.register_collector(ours);
        let mut standard = Registry::with_prefix("process");
        standard.register_collector(Box::new(self));
        let mut output = String::new();
        // Writing to a `String` cannot fail.
        _ = text::encode_registry(&mut output, &registry);
        other(&mut output);
        _ = text::encode(&mut output, &standard);
        output
    }
}

impl Collector for OwnProcess {
    #[expect(clippy::cast_precision_loss, reason = "a process has less than 2^52 bytes")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let (seconds, bytes) = (Some(&Unit::Seconds), Some(&Unit::Bytes));
        let number = |value: Option<u64>| value.map(|value| Value::Gauge(value as f64));
        let start = self.start_time.map(Value::Gauge);
        let cpu = self.cpu_seconds.map(Value::Seconds);
        let (resident, all) = (number(self.resident_bytes), number(self.virtual_bytes));
        for (name, help, unit, kind, value) in [
            ("start_time", "When the process started", seconds, Kind::Gauge, start),
            ("cpu", "User and system time", seconds, Kind::Counter, cpu),
            ("resident_memory", "Memory in RAM", bytes, Kind::Gauge, resident),
            ("virtual_memory", "Address space", bytes, Kind::Gauge, all),
            ("open_fds", "Open file descriptors", None, Kind::Gauge, number(self.open_fds)),
            (
                "max_fds",
                "The limit on open file descriptors",
                None,
                Kind::Gauge,
                number(self.max_fds),
            ),
        ] {
            let Some(value) = value else { continue };
            let series = [Series { labels: Labels::new(), value }];
            encode_family(&mut encoder, (name, help, unit, kind), &series)?;
        }
        Ok(())
    }
}
