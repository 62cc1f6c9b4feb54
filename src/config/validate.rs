//! From the tree of settings to what the program needs: reads every setting once, fills in the
//! defaults, and checks what must fit together. Pure; collects every problem on the way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::action::Actions;
use super::problem::{At, Given, Report, literal};
use super::table::Table;
use super::types::{
    DEFAULT_LISTEN, choice, duration, glob, listen, path, process_name, regex, rule_name,
    watched_path,
};
use super::{
    Agent, Config, Jitter, JitterBy, KeyFilter, Listen, LogFormat, LogLevel, OnStart, Publish,
    ReloadEndpoint, Retry, Rule, Step, Target, TargetBy, WatchMode, action, check, publish, verify,
    window,
};
use crate::reason::Reason;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);

/// The words for each choice; `effective.rs` writes them.
pub(super) const LOG_FORMATS: [(&str, LogFormat); 2] =
    [("text", LogFormat::Text), ("json", LogFormat::Json)];
pub(super) const LOG_LEVELS: [(&str, LogLevel); 4] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];
pub(super) const WATCH_MODES: [(&str, WatchMode); 2] =
    [("inotify", WatchMode::Inotify), ("poll", WatchMode::Poll)];
pub(super) const JITTER_BYS: [(&str, JitterBy); 3] =
    [("pod", JitterBy::Pod), ("ordinal", JitterBy::Ordinal), ("random", JitterBy::Random)];
pub(super) const ON_STARTS: [(&str, OnStart); 3] =
    [("if-newer", OnStart::IfNewer), ("never", OnStart::Never), ("always", OnStart::Always)];

/// How many rules the file has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// It needs no name.
    One,
    Several,
}

/// The whole configuration; `None` only after a problem was reported.
pub(super) fn config(mut root: Table<'_>, bundle: Option<&Path>) -> Option<Config> {
    let agent_table = root.table("agent", "[agent]", None);
    let report = root.report;
    let agent = agent(agent_table.unwrap_or_else(|| Table::root(Vec::new(), report)));
    let none = root.place_of("rule").is_none() || root.has_empty_list("rule");
    let tables = root.tables("rule", "[[rule]]");
    if none {
        report.problem(
            &At::File(0),
            Reason::new("there is no rule").hint(
                "add `[[rule]]` with `watch = [\"/etc/app\"]`, and below it `[rule.signal]` with \
                 `name = \"HUP\"`",
            ),
        );
    }
    let rules = if tables.len() == 1 { Rules::One } else { Rules::Several };
    let (mut names, mut dirs) = (Vec::new(), Vec::new());
    let all: Vec<Option<Rule>> = tables
        .into_iter()
        .map(|table| rule(table, rules, (&mut names, &mut dirs), &agent, bundle))
        .collect();
    root.finish();
    Some(Config { agent, rules: all.into_iter().collect::<Option<_>>()? })
}

fn agent(mut table: Table<'_>) -> Agent {
    let listen = table.parsed("listen", listen);
    if let Some(Given { at, value: Listen::Explicit(address) }) = &listen
        && address.port() == 0
    {
        let reason = Reason::new("port 0 means another port with each start");
        table.report.warn(at, reason.hint("name a port that probes and Prometheus can know"));
    }
    at_most_one(&table, &["reload", "reload-token-file"]);
    let reload = table.parsed("reload", |text| {
        choice(&[("off", "off"), ("loopback", "loopback")])(text)
            .map_err(|reason| reason.hint("`off`, `loopback`, or `reload-token-file` instead"))
    });
    let token = table.parsed("reload-token-file", path);
    let off = matches!(listen, Some(Given { value: Listen::Off, .. }));
    let reload_from = match (&reload, &token) {
        (_, Some(token)) => Some(&token.at),
        (Some(Given { at, value: "loopback" }), None) => Some(at),
        _ => None,
    };
    if let Some(at) = reload_from
        && off
    {
        let reason = Reason::new("a reload by HTTP needs the listener, which is off");
        table.report.problem(at, reason.hint("leave out `listen = \"off\"`"));
    }
    let agent = Agent {
        listen: value_or(listen, Listen::Default(DEFAULT_LISTEN)),
        reload: match (reload, token) {
            (_, Some(token)) => ReloadEndpoint::Token(token.value),
            (Some(Given { value: "loopback", .. }), None) => ReloadEndpoint::Loopback,
            _ => ReloadEndpoint::Off,
        },
        log: value_or(table.parsed("log", choice(&LOG_FORMATS)), LogFormat::Text),
        log_level: value_or(table.parsed("log-level", choice(&LOG_LEVELS)), LogLevel::Info),
        work_dir: value_or(table.parsed("work-dir", path), PathBuf::from("/tmp")),
        state_dir: table.parsed("state-dir", path).map(|given| given.value),
        watch: value_or(table.parsed("watch", choice(&WATCH_MODES)), WatchMode::Inotify),
        audit: value_or(table.parsed("audit", duration(SECOND, HOUR)), 30 * SECOND),
        poll: value_or(table.parsed("poll", duration(100 * MS, 10 * MINUTE)), 5 * SECOND),
        grace: value_or(table.parsed("grace", duration(Duration::ZERO, 10 * MINUTE)), 10 * SECOND),
    };
    table.finish();
    agent
}

fn rule(
    mut table: Table<'_>,
    rules: Rules,
    (names, dirs): (&mut Vec<Given<String>>, &mut Vec<Given<PathBuf>>),
    agent: &Agent,
    bundle: Option<&Path>,
) -> Option<Rule> {
    let report = table.report;
    let name = name(&mut table, rules, names);
    let watch = watch(&mut table, agent);
    let globs = |table: &mut Table<'_>, key| -> Vec<glob::Pattern> {
        let list = table.list(key, glob).map(|given| given.value).unwrap_or_default();
        list.into_iter().map(|given| given.value).collect()
    };
    let (only, ignore) = (globs(&mut table, "only"), globs(&mut table, "ignore"));
    let checks = check::checks(&mut table, bundle);
    let publish = publish::publish(&mut table, watch.as_deref().unwrap_or_default(), agent, dirs);
    let settle = table.parsed("settle", duration(Duration::ZERO, 5 * MINUTE));
    let settle_max = table.parsed("settle-max", duration(Duration::ZERO, 10 * MINUTE));
    let (settle, settle_max) =
        in_order(report, (settle, 200 * MS), (settle_max, 5 * SECOND), &|a, b| {
            format!("`settle` is {a}, longer than `settle-max`, {b}")
        });
    let hold = window::hold(&mut table, agent);
    let jitter = jitter(&mut table);
    let min_interval = table.parsed("min-interval", duration(Duration::ZERO, DAY));
    let retry = retry(&mut table);
    let on_start = table.parsed("on-start", choice(&ON_STARTS));
    if let (Some(given), Some(Some(_))) = (&on_start, &publish) {
        let reason = Reason::new("`on-start` has no use beside `[rule.publish]`");
        let hint = "leave it out: what is published tells what the application can have read";
        report.problem(&given.at, reason.hint(hint));
    }
    let target = target(&mut table);
    let actions = action::actions(&mut table, bundle);
    let known = actions.as_ref().map(|actions| actions.all.as_slice()).unwrap_or_default();
    let verify = verify::verify(&mut table, known, bundle);
    table.finish();
    Some(Rule {
        name: name?,
        watch: watch?,
        keys: KeyFilter { only, ignore, pause: hold.as_ref()?.pause_key.clone() },
        checks: checks?,
        settle,
        settle_max,
        jitter,
        min_interval: value_or(min_interval, Duration::ZERO),
        retry,
        on_start: value_or(on_start, OnStart::IfNewer),
        target: target?,
        restart: actions.as_ref()?.restart,
        on_failure: on_failure(actions.as_ref()?, publish.as_ref()?.as_ref()),
        actions: actions?.all,
        hold: hold?,
        publish: publish?,
        verify: verify?,
    })
}

/// Where what does not work can be taken back, that comes first.
fn on_failure(actions: &Actions, publish: Option<&Publish>) -> Vec<Step> {
    let takes_back = publish.is_some_and(|publish| publish.rollback);
    let by_default = if takes_back { Vec::new() } else { vec![Step::Retry] };
    actions.on_failure.clone().unwrap_or(by_default)
}

fn name(table: &mut Table<'_>, rules: Rules, names: &mut Vec<Given<String>>) -> Option<String> {
    let missing = table.place_of("name").is_none();
    let name = table.parsed("name", rule_name);
    if missing && rules == Rules::One {
        return Some("default".to_owned());
    }
    if missing {
        let reason = Reason::new("this rule has no `name`, and it is not the only one");
        let hint = "give each a name, such as `name = \"nginx\"`: metrics and status show it";
        table.report.problem(&table.at, reason.hint(hint));
    }
    let name = name?;
    if let Some(first) = names.iter().find(|other| other.value == name.value) {
        let first = table.report.place(&first.at);
        let reason = Reason::new(format!("a second rule is named {}", literal(&name.value)));
        table.report.problem(&name.at, reason.hint(format!("the first is at {first}")));
    }
    names.push(name.clone());
    Some(name.value)
}

fn watch(table: &mut Table<'_>, agent: &Agent) -> Option<Vec<PathBuf>> {
    let report = table.report;
    let empty = table.has_empty_list("watch");
    let Some(given) = table.list("watch", watched_path) else {
        let reason = Reason::new("the rule needs `watch`, the mounted volumes");
        report.problem(&table.at, reason.hint("for example `watch = [\"/etc/nginx/conf.d\"]`"));
        return None;
    };
    if empty {
        let reason = Reason::new("`watch` names no volume");
        report.problem(&given.at, reason.hint("for example `watch = [\"/etc/nginx/conf.d\"]`"));
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for Given { at, value } in given.value {
        let shown = literal(&value.to_string_lossy());
        if paths.contains(&value) {
            report.problem(&at, Reason::new(format!("{shown} is watched twice")));
        }
        if let Some(state) = &agent.state_dir
            && state.starts_with(&value)
        {
            let reason = Reason::new(format!("the state directory is inside {shown}"));
            report.problem(&at, reason.hint("put `state-dir` on a volume of its own"));
        }
        paths.push(value);
    }
    Some(paths)
}

fn jitter(table: &mut Table<'_>) -> Jitter {
    let mut jitter = Jitter { window: Duration::ZERO, by: JitterBy::Pod };
    if let Some(mut inner) = table.table("jitter", "[rule.jitter]", Some("window")) {
        jitter.window =
            value_or(inner.parsed("window", duration(Duration::ZERO, DAY)), jitter.window);
        let by = inner.parsed("by", choice(&JITTER_BYS));
        if let Some(by) = &by
            && jitter.window.is_zero()
        {
            let reason = Reason::new("`by` has no effect: the jitter's window is `0s`");
            inner.report.warn(&by.at, reason.hint("add `window = \"30s\"`"));
        }
        jitter.by = value_or(by, jitter.by);
        inner.finish();
    }
    jitter
}

fn retry(table: &mut Table<'_>) -> Retry {
    let inner = table.table("retry", "[rule.retry]", None);
    let mut inner = inner.unwrap_or_else(|| Table::root(Vec::new(), table.report));
    let first = inner.parsed("first", duration(10 * MS, HOUR));
    let max = inner.parsed("max", duration(10 * MS, DAY));
    let (first, max) = in_order(inner.report, (first, SECOND), (max, MINUTE), &|a, b| {
        format!("`first` is {a}, longer than `max`, {b}")
    });
    let attempts = inner.number("attempts", 1, 1000).unwrap_or(10);
    inner.finish();
    Retry { first, max, attempts }
}

fn target(table: &mut Table<'_>) -> Option<Target> {
    let inner = table.table("target", "[rule.target]", None);
    let mut inner = inner.unwrap_or_else(|| Table::root(Vec::new(), table.report));
    let one = at_most_one(&inner, &["process", "exe", "cmdline", "pidfile"]);
    let given = [
        inner.parsed("process", process_name).map(|given| TargetBy::Process(given.value)),
        inner.parsed("exe", path).map(|given| TargetBy::Exe(given.value)),
        inner.parsed("cmdline", regex).map(|given| TargetBy::Cmdline(given.value)),
        inner.parsed("pidfile", path).map(|given| TargetBy::Pidfile(given.value)),
    ];
    let target = Target {
        by: given.into_iter().flatten().next().unwrap_or(TargetBy::Mount),
        uid: inner.number("uid", 0, u32::MAX - 1),
        all: inner.truth("all"),
        wait: value_or(inner.parsed("wait", duration(Duration::ZERO, DAY)), 5 * MINUTE),
    };
    inner.finish();
    one.then_some(target)
}

/// Reports all but the first of the keys that are there.
pub(super) fn at_most_one(table: &Table<'_>, keys: &[&str]) -> bool {
    let there: Vec<(&At, &str)> =
        keys.iter().filter_map(|key| Some((table.place_of(key)?, *key))).collect();
    let Some(&(first_at, first)) = there.iter().min() else { return true };
    let place = |at: &At| table.report.place(at);
    for (at, key) in there.iter().filter(|(_, key)| *key != first) {
        let reason = match (at, first_at) {
            (At::File(_), At::File(_)) => {
                let hint = format!("keep one of them; `{first}` is at {}", place(first_at));
                Reason::new(format!("`{key}` and `{first}` exclude each other")).hint(hint)
            }
            (_, first_at) => {
                Reason::new(format!("cannot go together with `{first}`, from {}", place(first_at)))
                    .hint("keep one of them")
            }
        };
        table.report.problem(at, reason);
    }
    there.len() == 1
}

/// Two durations of which the first may not be longer. Of two values that do not fit, one being
/// a default, the default gives way.
pub(super) fn in_order(
    report: &Report<'_>,
    (short, short_default): (Option<Given<Duration>>, Duration),
    (long, long_default): (Option<Given<Duration>>, Duration),
    message: &dyn Fn(humantime::FormattedDuration, humantime::FormattedDuration) -> String,
) -> (Duration, Duration) {
    match (short, long) {
        (Some(short), Some(long)) => {
            if short.value > long.value {
                let shown = humantime::format_duration;
                let message = message(shown(short.value), shown(long.value));
                report.problem(&short.at, Reason::new(message));
            }
            (short.value, long.value)
        }
        (Some(short), None) => (short.value, long_default.max(short.value)),
        (None, Some(long)) => (short_default.min(long.value), long.value),
        (None, None) => (short_default, long_default),
    }
}

pub(super) fn value_or<T>(given: Option<Given<T>>, default: T) -> T {
    given.map_or(default, |given| given.value)
}
