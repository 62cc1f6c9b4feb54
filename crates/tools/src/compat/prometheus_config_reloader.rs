//! The options of prometheus-config-reloader, as podnudge's configuration. Pure.
//!
//! Has the `--web-config-file` read, to refuse what podnudge cannot serve.

use std::time::Duration;

use super::command::{Read, Run};
use super::draft::Draft;
use super::options::{self, Given};
use super::web_config;
use super::words::{list, quoted, time};
use podnudge_config::Translated;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

const OPTIONS: [&str; 18] = [
    "auto-gomemlimit-ratio",
    "config-envsubst-file",
    "config-file",
    "delay-interval",
    "listen-address",
    "log-format",
    "log-level",
    "process-executable-name",
    "reload-method",
    "reload-timeout",
    "reload-url",
    "retry-interval",
    "runtimeinfo-url",
    "statefulset-ordinal-from-envvar",
    "watch-interval",
    "watched-dir",
    "web-config-file",
    // Its name in old releases.
    "rules-dir",
];
const SWITCHES: [&str; 5] = ["h", "help", "help-long", "version", "short-version"];

const HELP: &str = "\
podnudge compat [--print] prometheus-config-reloader [OPTIONS]

Runs podnudge with the options of prometheus-config-reloader, and serves /healthz and the metrics
reloader_* besides its own. --print prints podnudge's configuration for these options instead.
docs/migration.md says what each option becomes.
";

const RELOAD_URL: &str = "http://127.0.0.1:9090/-/reload";
const RUNTIME_INFO_URL: &str = "http://127.0.0.1:9090/api/v1/status/runtimeinfo";
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const MOST_SETTLE: Duration = Duration::from_mins(5);

/// What podnudge is to do for these options.
///
/// # Errors
/// If one of them is not supported, with its name.
pub(super) fn translate(arguments: &[String], read: Read<'_>) -> Result<Run, Reason> {
    let given = options::read(arguments, &OPTIONS, &SWITCHES)?;
    if ["h", "help", "help-long"].iter().any(|switch| given.is_on(switch)) {
        return Ok(Run::Print(HELP.to_owned()));
    }
    if given.is_on("version") || given.is_on("short-version") {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Run::Print(format!("podnudge {version}, as prometheus-config-reloader\n")));
    }
    let watch_interval = given.time("watch-interval", Duration::from_mins(3))?;
    if watch_interval.is_zero() {
        return Ok(once(&given)?.map_or(Run::Nothing, Run::Once));
    }
    let mut draft = Draft::default();
    agent(&mut draft, &given, watch_interval, read)?;
    draft.add("\n[[rule]]\nname = \"reload\"\n");
    watch(&mut draft, &given)?;
    timing(&mut draft, &given)?;
    expand(&mut draft, &given);
    action(&mut draft, &given)?;
    Ok(Run::Always(draft.finish()))
}

/// The configuration that writes the file for an init container.
fn once(given: &Given) -> Result<Option<Translated>, Reason> {
    let (Some(file), Some(_)) = (given.last("config-file"), given.last("config-envsubst-file"))
    else {
        return Ok(None);
    };
    let mut draft = Draft::default();
    draft.add("[agent]\nlisten = \"off\"\n");
    log(&mut draft, given)?;
    draft.add("\n[[rule]]\nname = \"reload\"\n");
    draft.set("config-file", "watch", &list(&[file]));
    expand(&mut draft, given);
    // It is not sent: `once` writes the file, and ends.
    draft.add("\n[rule.signal]\nname = \"HUP\"\n");
    Ok(Some(draft.finish()))
}

fn agent(
    draft: &mut Draft,
    given: &Given,
    watch_interval: Duration,
    read: Read<'_>,
) -> Result<(), Reason> {
    if let Some(file) = given.last("web-config-file") {
        web_config::refuse(&file, read)?;
    }
    draft.add("[agent]\n");
    draft.set("listen-address", "listen", &quoted(&listen(given)?));
    draft.add("reloader-metrics = true\n");
    draft.set("watch-interval", "resync", &time(watch_interval, SECOND, HOUR));
    log(draft, given)
}

/// The paths to watch, each by the option that names it.
fn watch(draft: &mut Draft, given: &Given) -> Result<(), Reason> {
    let file = given.last("config-file").map(|file| ("config-file", file));
    let mut watched: Vec<(&str, String)> = file.into_iter().collect();
    for option in ["watched-dir", "rules-dir"] {
        for folder in given.all(option) {
            // As a volume is mounted: `/rules/` and `/rules` are one.
            let end = folder.trim_end_matches('/');
            let folder = if end.is_empty() { folder } else { end.to_owned() };
            if watched.iter().all(|(_, other)| *other != folder) {
                watched.push((option, folder));
            }
        }
    }
    if watched.is_empty() {
        let reason = Reason::new("nothing to watch: neither `--config-file` nor `--watched-dir`");
        return Err(reason.hint("leave the container out, or name what it is to watch"));
    }
    draft.add("watch = [");
    for (n, (option, path)) in watched.iter().enumerate() {
        draft.add(if n == 0 { "" } else { ", " });
        draft.add_from(option, &quoted(path));
    }
    draft.add("]\n");
    Ok(())
}

/// The address that `--listen-address` names.
fn listen(given: &Given) -> Result<String, Reason> {
    let Some(address) = given.last_address("listen-address") else { return Ok("off".to_owned()) };
    let is_address = address.starts_with(':') || address.parse::<std::net::SocketAddr>().is_ok();
    if is_address {
        return Ok(address);
    }
    let address = shown::text(&address);
    let reason = Reason::new(format!("`--listen-address={address}` is not supported"));
    Err(reason.hint("`:8080`, or an IP address and a port"))
}

fn log(draft: &mut Draft, given: &Given) -> Result<(), Reason> {
    let format = match given.last("log-format").as_deref() {
        None | Some("logfmt") => "text",
        Some("json") => "json",
        Some(other) => return Err(unknown("log-format", other, "`logfmt` or `json`")),
    };
    let level = given.last("log-level");
    let level = match level.as_deref() {
        None => "info",
        Some("all") => "debug",
        Some("none") => "error",
        Some(level @ ("debug" | "info" | "warn" | "error")) => level,
        Some(other) => {
            return Err(unknown("log-level", other, "`debug`, `info`, `warn` or `error`"));
        }
    };
    draft.set("log-format", "log", &quoted(format));
    draft.set("log-level", "log-level", &quoted(level));
    Ok(())
}

fn timing(draft: &mut Draft, given: &Given) -> Result<(), Reason> {
    let settle = given.time("delay-interval", SECOND)?;
    let longest = settle.saturating_mul(5).max(Duration::from_secs(5));
    draft.set("delay-interval", "settle", &time(settle, Duration::ZERO, MOST_SETTLE));
    draft.set("delay-interval", "settle-max", &time(longest, SECOND, MOST_SETTLE));
    draft.add("on-start = \"always\"\n");
    let retry = time(given.time("retry-interval", Duration::from_secs(5))?, 10 * MS, HOUR);
    // As many that there is no end.
    let retry = format!("{{ first = {retry}, max = {retry}, attempts = {} }}", u32::MAX);
    draft.set("retry-interval", "retry", &retry);
    Ok(())
}

/// The file to write, if there is one.
fn expand(draft: &mut Draft, given: &Given) {
    let file = given.last("config-file").zip(given.last("config-envsubst-file"));
    let Some((file, to)) = file else { return };
    let ordinal = given.last("statefulset-ordinal-from-envvar").unwrap_or("POD_NAME".to_owned());
    draft.add_from("config-envsubst-file", "\n[rule.expand]\n");
    draft.set("config-file", "file", &quoted(&file));
    draft.set("config-envsubst-file", "to", &quoted(&to));
    draft.set("statefulset-ordinal-from-envvar", "ordinal-from", &quoted(&ordinal));
}

fn action(draft: &mut Draft, given: &Given) -> Result<(), Reason> {
    let timeout = given.time("reload-timeout", Duration::from_secs(30))?;
    let timeout = time(timeout, 10 * MS, HOUR);
    match given.last("reload-method").as_deref() {
        None | Some("http") => {
            draft.add("\n[rule.http]\n");
            draft.set("reload-url", "url", &quoted(&url(given, "reload-url", RELOAD_URL)?));
            draft.set("reload-timeout", "timeout", &timeout);
            draft.add("expect = [200]\n");
        }
        Some("signal") => {
            let process = given.last("process-executable-name").unwrap_or("prometheus".to_owned());
            let url = url(given, "runtimeinfo-url", RUNTIME_INFO_URL)?;
            draft.add("\n[rule.target]\n");
            draft.set("process-executable-name", "process", &quoted(&process));
            draft.add("\n[rule.signal]\nname = \"HUP\"\n\n[rule.verify]\n");
            draft.set("runtimeinfo-url", "http", &quoted(&url));
            draft.add(
                "json-changed = \"/data/lastConfigTime\"\n\
                 json-equals = { pointer = \"/data/reloadConfigSuccess\", value = true }\n",
            );
            draft.set("reload-timeout", "timeout", &timeout);
        }
        Some(other) => return Err(unknown("reload-method", other, "`http` or `signal`")),
    }
    Ok(())
}

fn url(given: &Given, option: &str, default: &str) -> Result<String, Reason> {
    let url = given.last(option).unwrap_or(default.to_owned());
    if url.starts_with("https:") {
        let message = format!("`--{option}` with https is not supported");
        let hint = "podnudge verifies certificates, and there is no option that names those of the \
                    CA: run podnudge with a configuration (`podnudge compat --print …` with http \
                    prints one), and add `ca-file` to its URL";
        return Err(Reason::new(message).hint(hint));
    }
    // Go connects to its own host then.
    Ok(match url.strip_prefix("http://") {
        Some(rest) if rest.starts_with(':') => format!("http://localhost{rest}"),
        _ => url,
    })
}

fn unknown(option: &str, value: &str, known: &str) -> Reason {
    let message = format!("`--{option}={}` is not supported", shown::text(value));
    Reason::new(message).hint(known.to_owned())
}
