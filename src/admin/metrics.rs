//! The status as metrics, in the OpenMetrics text format. Pure.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::process_metrics::OwnProcess;
use super::series::{Kind, Series, Value, counter, encode_family, gauge};
use podnudge_core::clock::UnixTime;
use podnudge_core::collect;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::status::{Counters, EagerSyncStatus, RuleStatus, State, Status, VolumeStatus};

/// All states. Each is a series, and exactly one of them is 1.
const STATES: [(State, &str); 21] = [
    (State::Starting, "starting"),
    (State::WaitingForVolume, "waiting-for-volume"),
    (State::Idle, "idle"),
    (State::Settling, "settling"),
    (State::Scanning, "scanning"),
    (State::Checking, "checking"),
    (State::Rejected, "rejected"),
    (State::RollingBack, "rolling-back"),
    (State::RolledBack, "rolled-back"),
    (State::Waiting, "waiting"),
    (State::Held, "held"),
    (State::WaitingForTarget, "waiting-for-target"),
    (State::Publishing, "publishing"),
    (State::Draining, "draining"),
    (State::Acting, "acting"),
    (State::Verifying, "verifying"),
    (State::Backoff, "backoff"),
    (State::Refused, "refused"),
    (State::Failed, "failed"),
    (State::Tripped, "tripped"),
    (State::Stopped, "stopped"),
];

/// Renders all metrics.
#[must_use]
pub fn render(status: &Status, process: &OwnProcess) -> String {
    process.encode_after(Box::new(Snapshot(status.clone())), |output| {
        #[cfg(feature = "compat")]
        super::reloader::encode(output, status);
        #[cfg(not(feature = "compat"))]
        let _ = output;
    })
}

/// OpenMetrics as the older Prometheus text format: a counter is declared by the name of its series, and
/// there are no units and no end mark.
#[must_use]
pub fn to_text_format(openmetrics: &str) -> String {
    let is_counter = |name: &str| {
        let declaration = format!("# TYPE {name} counter");
        openmetrics.lines().any(|line| line == declaration)
    };
    let convert = |line: &str| match line.splitn(4, ' ').collect::<Vec<_>>().as_slice() {
        ["#", "EOF"] | ["#", "UNIT", ..] => String::new(),
        ["#", keyword, name, rest] if is_counter(name) => {
            format!("# {keyword} {name}_total {rest}\n")
        }
        _ => format!("{line}\n"),
    };
    openmetrics.lines().map(convert).collect()
}

#[derive(Debug)]
struct Snapshot(Status);

/// A counter of a rule: its name, its help, and its value.
type RuleCounter = (&'static str, &'static str, fn(&Counters) -> u64);

const COUNTERS: [RuleCounter; 8] = [
    ("commits", "Generations of a volume that were read after the first", |c| c.commits),
    ("unchanged", "Scans that found the content that the application runs", |c| c.unchanged),
    ("fresh", "Changes that the target had already read, because it started later", |c| c.fresh),
    ("cancelled", "Changes that were reverted before the action was due", |c| c.cancelled),
    ("restarts", "Restarts of the target", |c| c.restarts),
    ("rollbacks", "Publications that were rolled back", |c| c.rollbacks),
    ("missed_by_watch", "Commits that only the resync found", |c| c.missed_by_watch),
    ("read_errors", "Failed reads of a volume", |c| c.read_errors),
];

/// A timestamp of a rule: its name, its help, and its value.
type RuleTime = (&'static str, &'static str, fn(&RuleStatus) -> Option<UnixTime>);

const TIMES: [RuleTime; 5] = [
    (
        "last_success_timestamp",
        "When new content was last applied, or delivered without a proof",
        |r| r.succeeded_at,
    ),
    (
        "applied_timestamp",
        "When there was last evidence that the application runs new content",
        |r| r.applied_at,
    ),
    ("certificate_expiry_timestamp", "When the first checked certificate on disk expires", |r| {
        r.certificates_expire_at
    }),
    ("next_action_timestamp", "When the next action is due", |r| r.next_action_at),
    ("paused_until_timestamp", "When a pause by a person ends", |r| r.paused_until),
];

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Self(status) = self;
        let mut family =
            |name: &str, help: &str, unit: Option<&Unit>, kind: Kind, series: &[Series]| {
                encode_family(&mut encoder, (name, help, unit, kind), series)
            };
        let started = gauge(Vec::new(), seconds(status.started));
        let help = "When podnudge started";
        family("start_time", help, Some(&Unit::Seconds), Kind::Gauge, &[started])?;
        let rules = &status.rules;
        let rule = |rule: &RuleStatus| vec![("rule", rule.name.clone())];

        let version = vec![("version", status.version.to_owned())];
        family("build_info", "The version", None, Kind::Gauge, &[gauge(version, 1.0)])?;
        let dropped = counter(Vec::new(), status.log_lines_dropped);
        let help = "Lines of the log that were dropped because nothing has read standard error";
        family("log_lines_dropped", help, None, Kind::Counter, &[dropped])?;

        let flag = |value: bool| f64::from(u8::from(value));
        let serving = gauge(Vec::new(), flag(status.serving));
        let help = "Whether the pod is to get requests of its Services: 0 during a drain";
        family("serving", help, None, Kind::Gauge, &[serving])?;
        let known = rules.iter().filter(|r| r.in_sync != InSync::Unknown);
        let in_sync = known.map(|r| gauge(rule(r), flag(r.in_sync == InSync::Yes)));
        let help = "Whether the application runs the content on disk; absent while that is unknown";
        family("in_sync", help, None, Kind::Gauge, &in_sync.collect::<Vec<_>>())?;
        let delivered = rules.iter().map(|r| gauge(rule(r), flag(r.evidence != Evidence::None)));
        let help = "Whether the content on disk was delivered to the application";
        family("delivered", help, None, Kind::Gauge, &delivered.collect::<Vec<_>>())?;
        let by_evidence = rules.iter().flat_map(evidence);
        let help = "How podnudge knows that the application runs the content: 1 for that evidence";
        family("evidence", help, None, Kind::Gauge, &by_evidence.collect::<Vec<_>>())?;

        let digests = rules.iter().filter(|r| r.shows_digests).flat_map(digests);
        let help =
            "The digest of the content on disk, and of the content that the application runs";
        family("config_info", help, None, Kind::Gauge, &digests.collect::<Vec<_>>())?;
        let targets = rules.iter().flat_map(targets);
        let help = "The name of the target's program; absent while no target runs";
        family("target_info", help, None, Kind::Gauge, &targets.collect::<Vec<_>>())?;

        let problems = rules.iter().flat_map(problems);
        let help = "A problem that would prevent the actions of the rule";
        family("preflight_problem", help, None, Kind::Gauge, &problems.collect::<Vec<_>>())?;

        let slots = rules.iter().filter_map(|r| {
            let slot = r.slot.as_ref()?;
            Some(gauge(rule(r), flag(slot.held.is_some())))
        });
        let help = "Whether the rule holds a slot; absent where replicas share none";
        family("slot_held", help, None, Kind::Gauge, &slots.collect::<Vec<_>>())?;

        let by_state = rules.iter().flat_map(states);
        let help = "What the rule is doing: 1 for that state";
        family("rule_state", help, None, Kind::Gauge, &by_state.collect::<Vec<_>>())?;

        for (name, help, time) in TIMES {
            let times = rules.iter().filter_map(|r| Some(gauge(rule(r), seconds(time(r)?))));
            let times: Vec<_> = times.collect();
            family(name, help, Some(&Unit::Seconds), Kind::Gauge, &times)?;
        }
        for (name, help, count) in COUNTERS {
            let counts = rules.iter().map(|r| counter(rule(r), count(&r.counters)));
            family(name, help, None, Kind::Counter, &counts.collect::<Vec<_>>())?;
        }
        let checks = rules.iter().flat_map(checks);
        let help = "Checks of new content by outcome: passed, rejected, failed";
        family("checks", help, None, Kind::Counter, &checks.collect::<Vec<_>>())?;
        // Series with another label would take their place.
        let actions = rules.iter().filter(|r| r.action.are_known()).flat_map(actions);
        let help =
            "Actions by outcome; a delivered one may later be applied, retried, failed or tripped";
        family("actions", help, None, Kind::Counter, &actions.collect::<Vec<_>>())?;

        let volumes = |value: fn(&VolumeStatus) -> (Option<&'static str>, f64)| {
            let series = rules.iter().flat_map(move |r| {
                r.volumes.iter().map(move |volume| {
                    let (backend, value) = value(volume);
                    let mut labels =
                        vec![("rule", r.name.clone()), ("volume", volume.path.clone())];
                    labels.extend(backend.map(|backend| ("backend", backend.to_owned())));
                    gauge(labels, value)
                })
            });
            series.collect::<Vec<_>>()
        };
        let backends = volumes(|volume| (Some(volume.backend), 1.0));
        family("watch_backend", "How the volume is watched", None, Kind::Gauge, &backends)?;
        let present = volumes(|volume| (None, f64::from(u8::from(volume.present))));
        family("volume_present", "Whether the volume exists", None, Kind::Gauge, &present)?;

        let committed = rules.iter().flat_map(commits);
        let help = "When the content of the volume on disk was committed";
        let committed: Vec<_> = committed.collect();
        family("committed_timestamp", help, Some(&Unit::Seconds), Kind::Gauge, &committed)?;

        let took = rules.iter().map(|r| Series {
            labels: rule(r),
            value: Value::Histogram(r.counters.commit_to_applied.clone()),
        });
        let help =
            "Time from the commit of the volume to the evidence that the application runs it";
        let took: Vec<_> = took.collect();
        family("commit_to_applied", help, Some(&Unit::Seconds), Kind::Histogram, &took)?;
        status.eager_sync.iter().try_for_each(|eager| encode_eager(&mut encoder, eager))
    }
}

/// Only where eager sync is configured.
fn encode_eager(encoder: &mut DescriptorEncoder<'_>, eager: &EagerSyncStatus) -> std::fmt::Result {
    let watched = eager.objects.iter().map(|object| {
        let labels = vec![("object", object.name.clone())];
        gauge(labels, f64::from(u8::from(object.watched)))
    });
    let help = "Whether an edit of the object is seen at once";
    let watched: Vec<_> = watched.collect();
    encode_family(encoder, ("object_watched", help, None, Kind::Gauge), &watched)?;
    let requested = counter(Vec::new(), eager.syncs_requested);
    let help = "Annotations of the pod, by which the kubelet is asked to sync it";
    encode_family(encoder, ("syncs_requested", help, None, Kind::Counter), &[requested])?;
    let took = Series { labels: Vec::new(), value: Value::Histogram(eager.edit_to_commit.clone()) };
    let help = "Time from an edit of an object to the commit of the volume";
    let unit = Some(&Unit::Seconds);
    encode_family(encoder, ("edit_to_commit", help, unit, Kind::Histogram), &[took])
}

fn evidence(rule: &RuleStatus) -> [Series; Evidence::ALL.len()] {
    Evidence::ALL.map(|evidence| {
        let labels = vec![("rule", rule.name.clone()), ("evidence", evidence.name().to_owned())];
        gauge(labels, f64::from(u8::from(rule.evidence == evidence)))
    })
}

fn states(rule: &RuleStatus) -> [Series; STATES.len()] {
    STATES.map(|(state, name)| {
        let labels = vec![("rule", rule.name.clone()), ("state", name.to_owned())];
        gauge(labels, f64::from(u8::from(rule.state == state)))
    })
}

fn digests(rule: &RuleStatus) -> impl Iterator<Item = Series> + use<> {
    let name = rule.name.clone();
    let digests = [("on-disk", rule.digest_on_disk), ("running", rule.digest_running)];
    digests.into_iter().filter_map(move |(content, digest)| {
        let labels = vec![
            ("rule", name.clone()),
            ("content", content.to_owned()),
            ("digest", format!("{:.12}", digest?)),
        ];
        Some(gauge(labels, 1.0))
    })
}

/// One series for each name: a target may have several processes.
fn targets(rule: &RuleStatus) -> Vec<Series> {
    let names = collect::set(rule.targets.iter().map(|target| target.name.as_str()));
    let labels = |name: &str| vec![("rule", rule.name.clone()), ("target", name.to_owned())];
    names.into_iter().map(|name| gauge(labels(name), 1.0)).collect()
}

fn problems(rule: &RuleStatus) -> Vec<Series> {
    let labels = |kind: &str| vec![("rule", rule.name.clone()), ("problem", kind.to_owned())];
    rule.preflight.iter().map(|problem| gauge(labels(problem.kind.name()), 1.0)).collect()
}

fn commits(rule: &RuleStatus) -> Vec<Series> {
    let series = |volume: &VolumeStatus| {
        let labels = vec![("rule", rule.name.clone()), ("volume", volume.path.clone())];
        Some(gauge(labels, seconds(volume.committed_at?)))
    };
    rule.volumes.iter().filter_map(series).collect()
}

fn checks(rule: &RuleStatus) -> impl Iterator<Item = Series> + use<> {
    let counters = &rule.counters;
    let name = rule.name.clone();
    [
        ("passed", counters.checks_passed),
        ("rejected", counters.checks_rejected),
        ("failed", counters.checks_failed),
    ]
    .into_iter()
    .map(move |(outcome, count)| {
        counter(vec![("rule", name.clone()), ("outcome", outcome.to_owned())], count)
    })
}

fn actions(rule: &RuleStatus) -> impl Iterator<Item = Series> + use<> {
    let counters = &rule.counters;
    let (name, action) = (rule.name.clone(), rule.action.kinds().to_owned());
    [
        ("delivered", counters.actions_delivered),
        ("applied", counters.actions_applied),
        ("retried", counters.actions_retried),
        ("failed", counters.actions_failed),
        ("refused", counters.actions_refused),
        ("tripped", counters.actions_tripped),
    ]
    .into_iter()
    .map(move |(outcome, count)| {
        let labels = vec![
            ("rule", name.clone()),
            ("action", action.clone()),
            ("outcome", outcome.to_owned()),
        ];
        counter(labels, count)
    })
}

fn seconds(time: UnixTime) -> f64 {
    time.0.as_secs_f64()
}
