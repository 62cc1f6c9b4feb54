//! Builds the clap commands and the help text from the definitions. Pure.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

use podnudge_config::{FILE, Form, Heading, Presence, flags};
use podnudge_core::collect;

/// The text of a heading.
fn heading(heading: Heading) -> &'static str {
    match heading {
        Heading::Volumes => "Volumes",
        Heading::Checks => "Checks",
        Heading::Actions => "Actions",
        Heading::PublishDirectory => "Publish directory",
        Heading::TargetProcess => {
            "Target (at most one of these, and --uid; default: the process that mounts the volumes)"
        }
        Heading::Timing => "Timing",
        Heading::Verification => "Verification",
        Heading::Podnudge => "podnudge",
    }
}

const ABOUT: &str = "Watches mounted ConfigMaps and Secrets, makes the application in the same pod \
    reload when they change, and verifies the reload";

pub(super) const QUICK_START: &str = "the shortest use is one option, for an application that \
    podnudge knows: `podnudge --watch /etc/nginx/conf.d`; else `--watch /etc/app --signal HUP`, or \
    `--watch /etc/app --url http://127.0.0.1:8080/reload`";

const AFTER: &str = "\
Examples:
  An application that podnudge knows (see `podnudge presets`), found by its mount of the volume:
    podnudge --watch /etc/nginx/conf.d
  The same, with replicas spread over half a minute:
    podnudge --watch /etc/nginx/conf.d --jitter 30s
  Signal the process that mounts the volume:
    podnudge --watch /etc/app --signal HUP
  Prometheus, by its URL:
    podnudge --watch /etc/prometheus --url http://127.0.0.1:9090/-/reload
  Several rules, from a file; and what the options above are in such a file:
    podnudge --config /etc/podnudge/podnudge.toml
    podnudge check --watch /etc/app --signal HUP

TIME has a unit: 200ms, 30s, 5m (minutes), 1h.

Each option has an environment variable: PODNUDGE_ and its name in capitals, such as
PODNUDGE_SETTLE_MAX=10s. Separate several values by newlines or colons:
PODNUDGE_WATCH=/etc/a:/etc/b. A switch is `true` or `false`: PODNUDGE_CHILDREN_NEWER=true; an
empty variable is ignored. Options override the environment, and the environment overrides the
file. Options that set a rule are valid only if the file has exactly one rule.

A file can hold several rules, more checks (syntax of JSON, YAML and TOML, certificates and keys in
PEM, checks by URL), holds, proofs and more: see docs/configuration.md.

Exit codes: 0 done, 1 something is not in sync (status) or wrong (doctor), 64 wrong command line,
65 content rejected (once), 66 no configuration file, 69 port in use, or podnudge does not answer
(status, trigger …), 70 bug in podnudge, 74 output could not be written, 78 wrong configuration,
79 to 124 to restart the pod.";

const AFTER_SHORT: &str = "\
Example: podnudge --watch /etc/nginx/conf.d --jitter 30s
All options, with their units, defaults and environment variables: podnudge help
The options of a command: podnudge help COMMAND";

const AFTER_STATUS: &str = "\
Exit codes: 0 nothing is known to be wrong, 1 a rule is not in sync, 69 podnudge does not answer.
In a pod: kubectl exec POD -c podnudge -- podnudge status";

const AFTER_CHECK: &str = "\
What it prints is a configuration file, too. Exit codes: 0 it is right, 64 wrong command line,
66 no configuration file, 78 wrong configuration.";

const AFTER_DOCTOR: &str = "\
Exit codes: 0 nothing is wrong, 1 something is, 64 wrong command line, 66 no configuration file,
78 wrong configuration.
In a pod: kubectl exec POD -c podnudge -- podnudge doctor --watch /etc/app --signal HUP";

const AFTER_TRIGGER: &str = "\
In podnudge's own container it needs no setting: kubectl exec POD -c podnudge -- podnudge … For
others, start podnudge with --reload=loopback, or with reload-token-file in the [agent] of its file.
Exit codes: 0 accepted, 69 podnudge does not answer, or refuses.";

const AFTER_SCHEMA: &str = "\
Editors with a language server for TOML (Taplo, Even Better TOML) take it from the first line of the
file, after `podnudge schema > podnudge.schema.json`:
    #:schema ./podnudge.schema.json";

const AFTER_ONCE: &str = "\
Exit codes: 0 the application can start, 65 the checks rejected the content and no earlier content
is published, 69 a volume is not there, 78 wrong configuration.";

const AFTER_SUPERVISE: &str = "\
It is the command of the application's container. COMMAND inherits all that podnudge was started
with. podnudge ends with its exit code, or with 128 and the number of the signal that ended it.
Exit codes of its own: 64 wrong command line, 69 signals cannot be read, 126 COMMAND cannot be
executed, 127 COMMAND not found. docs/supervise.md has a manifest.";

const USAGE: &str = "podnudge --watch PATH [OPTIONS]\n       \
       podnudge --watch PATH --signal NAME [OPTIONS]\n       \
       podnudge --watch PATH --url URL [OPTIONS]\n       \
       podnudge --config FILE\n       \
       podnudge COMMAND [OPTIONS]";

/// The command line of podnudge with the settings of all commands.
pub(super) fn all_commands() -> Command {
    let mut all = command();
    all.build();
    all
}

/// The command line of podnudge, with its help. The settings of a command are added when it is parsed.
#[must_use]
pub fn command() -> Command {
    let status = with_usage("status", "podnudge status [OPTIONS]")
        .about("Print what a running podnudge is doing")
        .arg(url())
        .arg(text("output", "FORMAT").short('o').help("`json`, or `wide` for more columns"))
        .arg(switch("json", "Print JSON instead of a table"))
        .arg(switch("watch", "Print it again each time that something has changed"))
        .after_help(AFTER_STATUS);
    let check = with_file("check")
        .about("Print the effective configuration, or all that is wrong with it")
        .after_help(AFTER_CHECK);
    let install = with_usage("install", "podnudge install DIR")
        .about("Copy podnudge into a directory, to run it in the application's own image")
        .arg(
            positional("folder", "DIR")
                .required(true)
                .help("A directory that both containers mount, such as an emptyDir"),
        );
    let schema = with_usage("schema", "podnudge schema")
        .about("Print the JSON schema of the configuration file, for editors")
        .after_help(AFTER_SCHEMA);
    let before_start = "Do not look for the application: for an init container";
    let doctor = with_file("doctor")
        .about("Look for what would prevent podnudge from working here, without acting")
        .arg(switch("json", "Print JSON instead of text"))
        .arg(switch("before-start", before_start))
        .after_help(AFTER_DOCTOR);
    let presets = with_usage("presets", "podnudge presets [NAME]")
        .about("List the applications that podnudge knows, or print the configuration for one")
        .arg(
            positional("name", "NAME").help("Print the configuration that this preset stands for"),
        );
    let once = with_file("once")
        .about("Publish what passes the checks, and end: an init container before the application")
        .arg(
            text("wait", "TIME")
                .default_value("5m")
                .help("How long to wait for volumes that are not there"),
        )
        .after_help(AFTER_ONCE);
    let run = with_file("run").about("Watch and act; what podnudge does without a command");
    let help = with_usage("help", "podnudge help [COMMAND]")
        .about("Print this help, or that of a command")
        .arg(positional("command", "COMMAND"));
    let version = with_usage("version", "podnudge version").about("Print the version");
    settings(with_config("podnudge"))
        .about(ABOUT)
        .version(crate::system::version::SHOWN.as_str())
        .override_usage(USAGE)
        .after_help(AFTER_SHORT)
        .after_long_help(AFTER)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommands([run, once, check, doctor, presets, schema, status])
        .subcommands(orders())
        .subcommands([install, supervise()])
        .subcommands(plan())
        .subcommands(sync())
        .subcommands(compat())
        .subcommands([help, version])
}

/// What a person can ask of a running podnudge.
fn orders() -> [Command; 4] {
    let asks = |name: &'static str, usage: &'static str, about: &'static str| {
        let token = "The file that holds the token, where agent.reload-token-file asks for one";
        with_usage(name, usage)
            .about(about)
            .arg(positional("rule", "RULE").help("Only this rule"))
            .arg(url())
            .arg(text("token-file", "FILE").help(token))
            .after_help(AFTER_TRIGGER)
    };
    let trigger = asks(
        "trigger",
        "podnudge trigger [OPTIONS] [RULE]",
        "Make a running podnudge reload now: approve what it holds, or repeat the last action",
    );
    let approve = asks(
        "approve",
        "podnudge approve [OPTIONS] [RULE]",
        "Let a running podnudge roll out what it holds, and nothing else",
    );
    let pause = asks(
        "pause",
        "podnudge pause [OPTIONS] [RULE]",
        "Let a running podnudge begin no rollout for a time; rollbacks do not wait",
    )
    .arg(text("for", "TIME").default_value("1h").help("How long, at most 7d"));
    let resume = asks("resume", "podnudge resume [OPTIONS] [RULE]", "End a pause before its time");
    [trigger, approve, pause, resume]
}

fn url() -> Arg {
    text("url", "URL").help("Where the running podnudge listens, if not in this container")
}

/// Not needed in a pod.
#[cfg(feature = "plan")]
fn plan() -> [Command; 2] {
    [super::plan::command(), super::completion::command()]
}

#[cfg(not(feature = "plan"))]
fn plan() -> [Command; 0] {
    []
}

#[cfg(feature = "cluster")]
fn sync() -> [Command; 1] {
    [super::sync::command()]
}

#[cfg(not(feature = "cluster"))]
fn sync() -> [Command; 0] {
    []
}

/// Only for the help: `compat/` parses the options.
fn compat() -> Option<Command> {
    let command = || {
        Command::new("compat")
            .about("Run podnudge with the options of prometheus-config-reloader")
            .override_usage("podnudge compat [--print] prometheus-config-reloader [OPTIONS]")
            .arg(switch("print", "Print podnudge's configuration for these options"))
            .arg(
                positional("program", "PROGRAM")
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .help("prometheus-config-reloader, and its own options"),
            )
    };
    cfg!(feature = "compat").then(command)
}

/// Only for the help: `crates/supervise/src/options.rs` parses the options.
fn supervise() -> Command {
    let grace = "How long COMMAND may take to end for a restart before it is killed [default: 25s]";
    let stop = "The signal that ends COMMAND for a restart [default: TERM]";
    Command::new("supervise")
        .about("Run an application: pass signals on, reap, and restart it on podnudge's request")
        .override_usage("podnudge supervise [OPTIONS] -- COMMAND [ARGUMENTS]")
        .arg(text("grace", "TIME").help(grace))
        .arg(text("stop-signal", "NAME").help(stop))
        .after_help(AFTER_SUPERVISE)
}

/// A command with its usage: podnudge is built without what clap needs to make one.
pub(super) fn with_usage(name: &'static str, usage: &'static str) -> Command {
    Command::new(name).override_usage(usage)
}

/// A command that takes the settings as podnudge itself does, or its file as an argument.
pub(super) fn with_file(name: &'static str) -> Command {
    let file = "The configuration file; `-` is standard input";
    let file = positional("file", "FILE").conflicts_with("config").help(file);
    with_config(name)
        .override_usage(format!("podnudge {name} [OPTIONS] [FILE]"))
        .arg(file)
        // With the settings of all commands, each start would take several times as long.
        .defer(settings)
}

fn with_config(name: &'static str) -> Command {
    let config =
        text("config", "FILE").help("The configuration file: TOML, YAML or JSON, by its ending");
    Command::new(name).max_term_width(100).arg(config)
}

fn settings(mut command: Command) -> Command {
    let mut flags = flags(FILE);
    collect::sort(&mut flags, |flag| flag.line.heading);
    for flag in flags {
        let action = if flag.is_repeatable() { ArgAction::Append } else { ArgAction::Set };
        let repeatable = if flag.is_repeatable() { " Repeatable." } else { "" };
        let values = match flag.definition.form {
            Form::Choice(words) => format!(" [possible values: {}]", words.join(", ")),
            _ => String::new(),
        };
        let meaning = flag.definition.text() + repeatable + &values;
        let help = match flag.definition.presence {
            _ if flag.is_switch() => meaning,
            Presence::Optional("") | Presence::Required(_) => meaning,
            Presence::Default(text) | Presence::Optional(text) => {
                format!("{meaning} [default: {text}]")
            }
        };
        let mut arg = text(flag.line.name, flag.line.value).help(help).action(action);
        if flag.is_switch() {
            arg = arg.num_args(0).default_missing_value("true");
        }
        command = command
            .next_help_heading(heading(flag.line.heading))
            .arg(arg.hide_short_help(!flag.line.is_common));
    }
    command.next_help_heading(None)
}

pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn text(name: &'static str, value: &'static str) -> Arg {
    positional(name, value).long(name)
}

pub(super) fn positional(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).value_name(value).value_parser(ValueParser::os_string())
}
