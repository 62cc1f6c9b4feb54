//! What the command line looks like: the table of options, and the words of the help. Pure.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

/// An option that sets what the configuration file can set, too.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// What stands for the value in the help.
    value: &'static str,
    /// Its place in the file: `agent` or `rule`, and the keys below.
    pub(super) path: &'static [&'static str],
    /// Whether it makes a list.
    pub(super) many: bool,
    /// Whether it is a switch: without a value on the command line, which means `true`.
    switch: bool,
    /// Whether `-h` shows it; `--help` shows all.
    common: bool,
    help: &'static str,
}

const fn one(
    name: &'static str,
    value: &'static str,
    path: &'static [&'static str],
    help: &'static str,
) -> Setting {
    Setting { name, value, path, many: false, switch: false, common: false, help }
}

impl Setting {
    const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    const fn switch(self) -> Self {
        Self { switch: true, ..self }
    }

    const fn common(self) -> Self {
        Self { common: true, ..self }
    }
}

/// Every option that is a setting, by the heading it stands under in the help. There must never
/// be a `port`, `service-…` or `port-…`: a Service named `podnudge` makes the kubelet set
/// `PODNUDGE_PORT` and `PODNUDGE_SERVICE_HOST` in every pod of its namespace.
#[rustfmt::skip] // a table
pub(super) const SETTINGS: [(&str, &[Setting]); 7] = [
    ("What is watched", &[
        one("watch", "PATH", &["rule", "watch"],
            "A mounted volume (or a directory or file) to watch; repeatable").many().common(),
        one("only", "GLOB", &["rule", "only"],
            "Only keys that match count, such as `*.conf`; repeatable").many(),
        one("ignore", "GLOB", &["rule", "ignore"],
            "Keys that match never count, such as `*.md`; repeatable").many(),
        one("settle", "TIME", &["rule", "settle"],
            "How long a volume must be quiet before it is read [default: 200ms]"),
        one("settle-max", "TIME", &["rule", "settle-max"],
            "The longest wait for quiet [default: 5s]"),
    ]),
    ("What is done", &[
        one("signal", "NAME", &["rule", "signal", "name"],
            "Send this signal, by name or number: HUP, USR1, …").common(),
        one("url", "URL", &["rule", "http", "url"],
            "Send a request to this http or https URL").common(),
        one("method", "METHOD", &["rule", "http", "method"],
            "The request's method [default: POST]"),
        one("ca-file", "FILE", &["rule", "ca-file"],
            "The CA certificates (PEM) to trust for https [default: the system's bundle, \
             where there is one]"),
    ]),
    ("Where the application reads, if not from the volumes", &[
        one("publish", "DIR", &["rule", "publish", "dir"],
            "Publish what passes into this directory, just before the action; what does not work \
             is taken back"),
    ]),
    ("Who is signalled (at most one; without: the process that mounts the watched volume)", &[
        one("process", "NAME", &["rule", "target", "process"],
            "The process of this name; of several, the root of their tree").common(),
        one("exe", "PATH", &["rule", "target", "exe"],
            "The process that runs this executable"),
        one("cmdline", "REGEX", &["rule", "target", "cmdline"],
            "The process whose arguments, joined by spaces, match"),
        one("pidfile", "FILE", &["rule", "target", "pidfile"],
            "The process whose pid is in this file"),
        one("uid", "UID", &["rule", "target", "uid"],
            "Only processes of this user id"),
    ]),
    ("When it is done", &[
        one("jitter", "TIME", &["rule", "jitter", "window"],
            "Spread replicas over this window [default: 0s]").common(),
        one("jitter-by", "WHAT", &["rule", "jitter", "by"],
            "What decides a replica's place: pod, ordinal (StatefulSet) or random [default: pod]"),
        one("min-interval", "TIME", &["rule", "min-interval"],
            "The shortest time between two actions [default: 0s]"),
        one("on-start", "WHEN", &["rule", "on-start"],
            "Act on the first look: if-newer (than the target's start), never or always \
             [default: if-newer]"),
    ]),
    ("How it is verified", &[
        one("alive-for", "TIME", &["rule", "verify", "alive-for"],
            "After a signal, the process must still be there after this time [default: 1s]"),
        one("verify-url", "URL", &["rule", "verify", "http"],
            "Ask this URL after the action; any status from 200 to 299 is good").common(),
        one("children-newer", "", &["rule", "verify", "children-newer"],
            "After a signal, the process must start a new child, as nginx, Apache, gunicorn and \
             php-fpm do").switch(),
    ]),
    ("podnudge itself", &[
        one("listen", "ADDRESS", &["agent", "listen"],
            "Serve /metrics, /livez, /readyz and /status here, such as `:9533`; or `off` \
             [default: [::]:9533, IPv6 and IPv4]").common(),
        one("state-dir", "DIR", &["agent", "state-dir"],
            "Remember what is applied here, over a restart of podnudge"),
        one("log", "FORMAT", &["agent", "log"],
            "text or json [default: text]"),
        one("log-level", "LEVEL", &["agent", "log-level"],
            "error, warn, info or debug [default: info]"),
        one("watch-mode", "MODE", &["agent", "watch"],
            "inotify (polling while it cannot serve) or poll [default: inotify]"),
        one("audit", "TIME", &["agent", "audit"],
            "How often every volume is looked at in any case [default: 30s]"),
        one("poll", "TIME", &["agent", "poll"],
            "How often a volume is looked at without inotify [default: 5s]"),
        one("grace", "TIME", &["agent", "grace"],
            "How long a running action may go on after SIGTERM [default: 10s]"),
    ]),
];

const ABOUT: &str = "Reloads the application in a pod when its mounted ConfigMaps and Secrets \
    change: once, on time, and provably";

pub(super) const QUICK_START: &str = "the shortest use is two options: \
    `podnudge --watch /etc/app --signal HUP`, or \
    `podnudge --watch /etc/app --url http://127.0.0.1:8080/reload`";

const AFTER: &str = "\
Examples:
  Signal whoever mounts the volume:
    podnudge --watch /etc/app --signal HUP
  nginx, replicas spread over half a minute:
    podnudge --watch /etc/nginx/conf.d --process nginx --signal HUP --jitter 30s
  Prometheus, by its URL:
    podnudge --watch /etc/prometheus --url http://127.0.0.1:9090/-/reload
  Several rules, from a file; and what the options above are in such a file:
    podnudge --config /etc/podnudge/podnudge.toml
    podnudge check --watch /etc/app --signal HUP

TIME has a unit: 200ms, 30s, 5m (minutes), 1h.

What an option sets can be set in the environment, too, by PODNUDGE_ and its name in capitals:
PODNUDGE_SETTLE_MAX=10s. Several values stand on lines of their own or between colons:
PODNUDGE_WATCH=/etc/a:/etc/b. A switch is `true` or `false`: PODNUDGE_CHILDREN_NEWER=true. An
empty variable counts as none. Options go before the environment, and the environment before the
file; for a rule of the file only if it is the only one.

Checks, by which podnudge refuses content that is broken, stand in the file: [[rule.check]] with
the syntax of JSON, YAML or TOML, certificates and keys (PEM), a program or a URL to ask, and more.

Exit codes: 0 done, 1 something is not in sync (status), 64 wrong command line, 65 content refused
(once), 66 no configuration file, 69 port in use, or podnudge does not answer (status, trigger),
70 bug in podnudge, 74 output could not be written, 78 wrong configuration.";

const AFTER_SHORT: &str = "\
Example: podnudge --watch /etc/nginx/conf.d --process nginx --signal HUP --jitter 30s
All options, with their units, defaults and environment variables: podnudge --help";

const AFTER_STATUS: &str = "\
Exit codes: 0 everything is in sync, 1 something is not, 69 podnudge does not answer.
In a pod: kubectl exec POD -c podnudge -- /podnudge status";

const AFTER_TRIGGER: &str = "\
It needs agent.reload = \"loopback\", or agent.reload-token-file, in the configuration of the
running podnudge. Exit codes: 0 asked for, 69 podnudge does not answer, or refuses.";

const AFTER_ONCE: &str = "\
Exit codes: 0 the application can start, 65 the checks refuse the content and there is none from
before, 69 a volume is not there, 78 wrong configuration.";

pub(super) fn command() -> Command {
    let url = || {
        text("url", "URL")
            .default_value("http://127.0.0.1:9533")
            .help("Where the running podnudge listens")
    };
    let trigger = Command::new("trigger")
        .about(
            "Make a running podnudge reload now: approve what it holds, or repeat the last action",
        )
        .arg(
            Arg::new("rule")
                .value_name("RULE")
                .value_parser(ValueParser::os_string())
                .help("Only this rule"),
        )
        .arg(url())
        .arg(
            text("token-file", "FILE")
                .help("The file that holds the token, where agent.reload-token-file asks for one"),
        )
        .after_help(AFTER_TRIGGER);
    let status = Command::new("status")
        .about("Print what a running podnudge is doing")
        .arg(url())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON instead of a table"),
        )
        .after_help(AFTER_STATUS);
    let check = settings(Command::new("check"))
        .about("Print the effective configuration, or all that is wrong with it")
        .override_usage("podnudge check [OPTIONS] [FILE]")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(ValueParser::os_string())
                .conflicts_with("config")
                .help("The configuration file"),
        );
    let install = Command::new("install")
        .about("Copy podnudge into a directory, to run it in the application's own image")
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .required(true)
                .value_parser(ValueParser::os_string())
                .help("A directory that both containers mount, such as an emptyDir"),
        );
    let once = settings(Command::new("once"))
        .about("Publish what passes the checks, and end: an init container before the application")
        .override_usage("podnudge once [OPTIONS]")
        .arg(
            text("wait", "TIME")
                .default_value("5m")
                .help("How long to wait for volumes that are not there"),
        )
        .after_help(AFTER_ONCE);
    let run =
        settings(Command::new("run")).about("Watch and act; what podnudge does without a command");
    settings(Command::new("podnudge"))
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .override_usage(
            "podnudge --watch PATH --signal NAME [OPTIONS]\n       \
                         podnudge --watch PATH --url URL [OPTIONS]\n       \
                         podnudge --config FILE\n       \
                         podnudge once --config FILE\n       \
                         podnudge check FILE\n       \
                         podnudge status\n       \
                         podnudge trigger [RULE]\n       \
                         podnudge install DIR",
        )
        .after_help(AFTER_SHORT)
        .after_long_help(AFTER)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommands([run, once, check, status, trigger, install])
}

fn settings(command: Command) -> Command {
    let config = text("config", "FILE").help("The configuration file, in TOML");
    let mut command = command.max_term_width(100).arg(config);
    for (heading, settings) in SETTINGS {
        command = command.next_help_heading(heading);
        for setting in settings {
            let action = if setting.many { ArgAction::Append } else { ArgAction::Set };
            let mut arg = text(setting.name, setting.value).help(setting.help).action(action);
            if setting.switch {
                arg = arg.num_args(0).default_missing_value("true");
            }
            command = command.arg(arg.hide_short_help(!setting.common));
        }
    }
    command.next_help_heading(None)
}

fn text(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).value_parser(ValueParser::os_string())
}
