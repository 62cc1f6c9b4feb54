//! `podnudge sync`: its help, and its options.

use clap::{ArgAction, ArgMatches, Command};

use super::help::text;
use super::{Environment, Stop, not_utf8, unknown_variables, usage, variable};
use podnudge_config::{At, SECRET, SYNC_OPTIONS, SyncOptions};

const AFTER: &str = "\
It runs as a Deployment of one or two replicas (k8s/sync): it watches the metadata of all ConfigMaps
of its namespace, and of the named Secrets; when the content of one is edited, it annotates the pods
that mount it, and their kubelets write the volumes at once. docs/eager-sync.md says when to use it.

Each option has an environment variable: PODNUDGE_ and its name in capitals, such as
PODNUDGE_LEASE_DURATION=30s; several Secrets are separated by newlines or colons.

Exit codes: 0 stopped by a signal, 64 wrong command line, 69 the port is in use.
    podnudge sync --secret web-tls --rate 50";

/// The command, for the help and for clap.
pub(super) fn command() -> Command {
    let mut command = Command::new("sync")
        .about("Have the kubelets of a namespace's pods write edits into their volumes at once")
        .override_usage("podnudge sync [OPTIONS]")
        .max_term_width(100)
        .after_help(AFTER);
    for (name, value, default, help) in SYNC_OPTIONS {
        let default = default.map(|text| format!(" [default: {text}]")).unwrap_or_default();
        let action = if name == SECRET { ArgAction::Append } else { ArgAction::Set };
        command = command.arg(text(name, value).help(format!("{help}{default}")).action(action));
    }
    command
}

pub(super) fn options(
    matches: &ArgMatches,
    environment: &Environment,
) -> Result<super::Command, Stop> {
    let mut given = Vec::new();
    for (name, ..) in SYNC_OPTIONS {
        let options = matches.get_many::<std::ffi::OsString>(name).map(|it| it.cloned().collect());
        let at = match options {
            Some(_) => At::Option(format!("--{name}")),
            None => At::Environment(variable(name)),
        };
        let variable = || environment.get(&variable(name)).cloned().into_iter().collect();
        let values: Vec<_> = options.unwrap_or_else(variable);
        for value in values {
            let text = value.to_str().ok_or_else(|| not_utf8(&at, &value))?;
            let is_list = name == SECRET && matches!(at, At::Environment(_));
            if is_list {
                let parts = text.split([':', '\n']).filter(|part| !part.is_empty());
                given.extend(parts.map(|part| (name, at.clone(), part.to_owned())));
            } else {
                given.push((name, at.clone(), text.to_owned()));
            }
        }
    }
    let of = |wanted: &str| {
        let values = given.iter().filter(|(name, ..)| *name == wanted);
        values.map(|(.., value)| value.clone()).collect()
    };
    let warnings = unknown_variables(environment, &SYNC_OPTIONS.map(|(name, ..)| name));
    let parsed = SyncOptions::parse(of).map(|options| super::Command::Sync(options, warnings));
    parsed.map_err(|(wanted, reason)| {
        let at = given.iter().find(|(name, ..)| *name == wanted).map(|(_, at, _)| at);
        let place = match at {
            Some(At::Environment(variable)) => variable.clone(),
            _ => format!("--{wanted}"),
        };
        usage(&format!("{place}: {}", reason.message), reason.hint.as_deref())
    })
}
