//! The command lines and environments of other reloaders, translated. Pure.

mod configmap_reload;
mod given;
mod k8s_sidecar;
mod translation;

use std::time::Duration;

use super::command::{COMMAND, PROMETHEUS_CONFIG_RELOADER};
use super::options;
use super::words::{list, quoted};
use configmap_reload::configmap_reload;
use given::Remarks;
use k8s_sidecar::k8s_sidecar;
use translation::{Environment, option, watch};
pub use translation::{Instead, Translation};

/// The translation of the command line or the environment of another reloader. `None` if it is of none.
pub(super) fn translate(arguments: &[String], environment: &Environment) -> Option<Translation> {
    if arguments.is_empty() {
        config_reloader_sidecar(environment).or_else(|| k8s_sidecar(arguments, environment))
    } else {
        prometheus_config_reloader(arguments)
            .or_else(|| configmap_reload(arguments))
            .or_else(|| nats_server_config_reloader(arguments))
            .or_else(|| k8s_sidecar(arguments, environment))
    }
}

/// Translates the options of prometheus-config-reloader, without `podnudge compat` before them.
fn prometheus_config_reloader(arguments: &[String]) -> Option<Translation> {
    const OWN: [&str; 6] = [
        "config-envsubst-file",
        "reload-url",
        "reload-method",
        "watched-dir",
        "config-file",
        "statefulset-ordinal-from-envvar",
    ];
    let is_own = |argument: &String| {
        let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
        argument.starts_with('-') && OWN.contains(&name)
    };
    arguments.iter().any(is_own).then(|| {
        let command = [COMMAND, PROMETHEUS_CONFIG_RELOADER].map(str::to_owned);
        let command = command.into_iter().chain(arguments.iter().cloned()).collect();
        Translation::new(PROMETHEUS_CONFIG_RELOADER, Vec::new(), Instead::Arguments(command))
    })
}

fn config_reloader_sidecar(environment: &Environment) -> Option<Translation> {
    const PEER: &str = "config-reloader-sidecar";
    let (folders, process) = (environment.get("CONFIG_DIR")?, environment.get("PROCESS_NAME")?);
    let folders = folders.split(',').map(str::trim).filter(|path| !path.is_empty());
    let folders = given::paths(folders.map(str::to_owned).collect());
    if folders.is_empty() {
        let remark = "`CONFIG_DIR` names no directory".to_owned();
        return Some(Translation::new(PEER, vec![remark], Instead::Nothing));
    }
    let signal = environment.get("RELOAD_SIGNAL").map_or("HUP", String::as_str);
    let mut remarks = Remarks::new();
    let mut own = watch(&folders);
    own.extend(option("--process", process));
    let action = Action::instead_of(signal.trim_start_matches("SIG"), &mut remarks);
    own.extend(action.arguments());
    if environment.get("VERBOSE").is_some_and(|value| value == "true") {
        own.extend(option("--log-level", "debug"));
    }
    Some(Translation::new(PEER, remarks, Instead::Arguments(own)))
}

/// What podnudge does to the target.
enum Action<'a> {
    Signal(&'a str),
    Restart,
}

impl<'a> Action<'a> {
    /// What to do instead of sending a signal: podnudge takes the end of a process after a signal for a failure, and sends
    /// nothing more, so a signal that is to end it is a restart.
    fn instead_of(signal: &'a str, remarks: &mut Remarks) -> Self {
        let name = match signal {
            "TERM" | "15" => "TERM",
            "INT" | "2" => "INT",
            "QUIT" | "3" => "QUIT",
            "KILL" | "9" => "KILL",
            _ => return Self::Signal(signal),
        };
        // podnudge refuses KILL as a signal, because no program handles it.
        let otherwise = match name {
            "KILL" => String::new(),
            _ => format!("; if the application reloads on it instead, use `--signal {name}`"),
        };
        remarks.push(format!(
            "SIG{name} ends most programs: `--restart` sends TERM, then KILL after 30 s, at most 5 times within 1 h and every 11 min for a container{otherwise}"
        ));
        Self::Restart
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Self::Signal(signal) => option("--signal", signal),
            Self::Restart => vec!["--restart".to_owned()],
        }
    }

    fn setting(self) -> String {
        match self {
            Self::Signal(signal) => format!("signal.name = {}", quoted(signal)),
            Self::Restart => "restart = {}".to_owned(),
        }
    }
}

fn nats_server_config_reloader(arguments: &[String]) -> Option<Translation> {
    const OPTIONS: [&str; 7] =
        ["P", "pid", "c", "config", "max-retries", "retry-wait-secs", "signal"];
    let given = options::read(arguments, &OPTIONS, &[]).ok()?;
    let pidfile = given.last("pid").or(given.last("P"));
    let mut files = given.all("config");
    files.extend(given.all("c"));
    // podnudge has a `--config` and a `--signal`, too.
    let is_own = |argument: &String| argument.split('=').next() == Some("-config");
    let has_file = !given.all("c").is_empty() || arguments.iter().any(is_own);
    if pidfile.is_none() && !has_file {
        return None;
    }
    if files.is_empty() {
        files.push("/etc/nats-config/gnatsd.conf".to_owned());
    }
    let files = given::paths(files);
    let pidfile = pidfile.unwrap_or("/var/run/nats/gnatsd.pid".to_owned());
    let signal = given.last("signal").filter(|number| number != "1").unwrap_or("HUP".to_owned());
    let remark = "podnudge does not look in the file for certificates and included files: also watch the directories that they are in";
    let mut remarks = vec![remark.to_owned()];
    let attempts = given.last("max-retries").and_then(|text| {
        let attempts = given::number("-max-retries", &text, &mut remarks)?;
        Some(given::bounded("-max-retries", attempts, (1, u32::MAX), &mut remarks))
    });
    let wait = given.last("retry-wait-secs").and_then(|text| {
        given::seconds("-retry-wait-secs", &text, Duration::from_hours(1), &mut remarks)
    });
    let action = Action::instead_of(&signal, &mut remarks);
    let instead = if attempts.is_some() || wait.is_some() {
        let action = action.setting();
        let (attempts, wait) = (attempts.unwrap_or(30), wait.unwrap_or("\"4s\"".to_owned()));
        Instead::File(format!(
            "[[rule]]\nwatch = {}\nretry = {{ first = {wait}, max = {wait}, attempts = {attempts} }}\n\
             {action}\ntarget.pidfile = {}\n",
            list(&files),
            quoted(&pidfile)
        ))
    } else {
        let mut own = watch(&files);
        own.extend(option("--pidfile", &pidfile));
        own.extend(action.arguments());
        Instead::Arguments(own)
    };
    Some(Translation::new("nats-server-config-reloader", remarks, instead))
}
