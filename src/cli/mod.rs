//! Parses the command line and the environment; loads the configuration ([`load`](fn@load)); and the commands that need
//! no loop ([`doctor`], [`install`]). Pure, except those and [`replica`], which reads the host name.
//!
//! The options are those that the definitions of the settings have; each has an environment variable,
//! `PODNUDGE_` and its name in capitals. The values stay text: [`podnudge_config`] parses them exactly as it
//! parses the file's.

#[cfg(feature = "compat")]
mod compat;
#[cfg(feature = "plan")]
mod completion;
pub mod doctor;
#[cfg(test)]
#[path = "../../tests/fuzz/command_line.rs"]
mod fuzz;
mod help;
pub mod install;
mod load;
#[cfg(feature = "plan")]
mod plan;
mod refusal;
#[cfg(feature = "cluster")]
mod sync;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use reqwest::Url;

#[cfg(feature = "plan")]
pub use completion::script;
use help::QUICK_START;
pub use help::command;
pub use load::{LoadError, Sources, load};
use refusal::stop;

use crate::admin::client::{Ask, Output, Status};
use crate::admin::order::Order;
use crate::preflight::Stage;
use crate::system::exit::{Exit, sentence};
use crate::system::surroundings::{Pod, Server, Surroundings};
use podnudge_config::{self as config, At, FILE, Override, Overrides, Problem, flags, nearest};
use podnudge_core::collect;
use podnudge_core::duration::bounded_duration;
use podnudge_core::jitter::{self, Replica};
use podnudge_core::reason::Reason;
use podnudge_core::shown::{self, Colours};
#[cfg(feature = "plan")]
use podnudge_tools::plan_options::Options;

/// The command to run.
#[derive(Debug, Clone)]
pub enum Command {
    /// Watch and act.
    Run(Sources),
    /// Print the effective configuration, or what is wrong with it.
    Check(Sources),
    /// Publish and exit.
    Once(Sources, Duration),
    /// Print the status of a running podnudge.
    Status(Status),
    /// Ask a running podnudge to act, or to pause.
    Ask(Ask),
    /// Copy podnudge into this directory.
    Install(PathBuf),
    /// Print the JSON schema of the configuration file.
    Schema,
    /// Print what would prevent the rules from working, as JSON if true.
    Doctor(Sources, Stage, bool),
    /// Print this text about presets.
    Presets(String),
    /// Print what a change does to all replicas.
    #[cfg(feature = "plan")]
    Plan(Sources, Options),
    /// Annotate the pods of a namespace when what they mount is edited. With warnings of variables.
    #[cfg(feature = "cluster")]
    Sync(config::SyncOptions, Vec<Problem>),
}

/// Output to print before exiting: help, the version or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Ends with a line feed.
    pub text: String,
    /// Where it is printed.
    pub stream: Stream,
    /// The exit code.
    pub exit: Exit,
}

/// Where something is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Parses the arguments, the program's name first, and the environment.
///
/// # Errors
///
/// With the output if there is no command to run: help, the version or an error.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Command, Stop> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let environment: Vec<(OsString, OsString)> = environment.into_iter().collect();
    #[cfg(feature = "compat")]
    if let Some(command) = compat::command(&arguments) {
        return command;
    }
    let parsed = parse_own(&arguments, &podnudge_variables(environment.iter().cloned()));
    #[cfg(feature = "compat")]
    let parsed = parsed.map_err(|stop| compat::translated(stop, &arguments, environment));
    parsed
}

/// Parses podnudge's own options and variables.
fn parse_own(arguments: &[OsString], environment: &Environment) -> Result<Command, Stop> {
    let matches =
        command().try_get_matches_from(arguments).map_err(|error| stop(error, arguments.get(1)))?;
    match matches.subcommand() {
        Some(("help", matches)) => {
            let command = matches.get_one("command").cloned();
            again([command, Some("--help".into())], environment)
        }
        Some(("version", _)) => again([None, Some("--version".into())], environment),
        Some(("status", matches)) => status(matches).map(Command::Status),
        Some(("trigger", matches)) => ask(matches, Order::Trigger).map(Command::Ask),
        Some(("approve", matches)) => ask(matches, Order::Approve).map(Command::Ask),
        Some(("pause", matches)) => {
            let order = value_of(matches, "for", |time| Order::HOUR.with_time(Some(time)))?;
            ask(matches, order).map(Command::Ask)
        }
        Some(("resume", matches)) => ask(matches, Order::Resume).map(Command::Ask),
        Some(("schema", _)) => Ok(Command::Schema),
        Some(("presets", matches)) => presets(matches).map(Command::Presets),
        Some(("install", matches)) => Ok(Command::Install(
            matches.get_one::<OsString>("folder").map(PathBuf::from).unwrap_or_default(),
        )),
        Some(("once", matches)) => {
            let day = Duration::from_hours(24);
            let wait = |text: &str| bounded_duration(text, Duration::ZERO, day);
            let wait = value_of(matches, "wait", wait)?;
            Ok(Command::Once(settings(matches, environment)?, wait))
        }
        Some(("doctor", matches)) => {
            let is_before = matches.get_flag("before-start");
            let stage = if is_before { Stage::BeforeStart } else { Stage::Running };
            Ok(Command::Doctor(settings(matches, environment)?, stage, matches.get_flag("json")))
        }
        #[cfg(feature = "plan")]
        Some(("plan", matches)) => {
            Ok(Command::Plan(settings(matches, environment)?, plan::options(matches)?))
        }
        #[cfg(feature = "plan")]
        Some(("completion", matches)) => completion::print(matches),
        #[cfg(feature = "cluster")]
        Some(("sync", matches)) => sync::options(matches, environment),
        // Known programs have been handled already.
        #[cfg(feature = "compat")]
        Some(("compat", matches)) => Err(compat::unknown(matches)),
        // `main.rs` has run it already, unless other arguments come first.
        Some(("supervise", _)) => Err(usage("`supervise` must be the first argument", None)),
        Some(("check", matches)) => settings(matches, environment).map(Command::Check),
        Some((_, matches)) => settings(matches, environment).map(Command::Run),
        None => settings(&matches, environment).map(Command::Run),
    }
}

/// What other arguments, without the program's name, mean.
fn again(words: [Option<OsString>; 2], environment: &Environment) -> Result<Command, Stop> {
    let words = words.into_iter().flatten();
    let words: Vec<OsString> = std::iter::once("podnudge".into()).chain(words).collect();
    parse_own(&words, environment)
}

fn status(matches: &ArgMatches) -> Result<Status, Stop> {
    let output = match matches.get_one::<OsString>("output").map(|output| output.to_string_lossy())
    {
        None if matches.get_flag("json") => Output::Json,
        None => Output::Table,
        Some(output) => match &*output {
            "json" => Output::Json,
            "wide" => Output::Wide,
            other => {
                let message = format!("--output: there is no format {}", shown::literal(other));
                return Err(usage(&message, "one of `json`, `wide`"));
            }
        },
    };
    let watch = matches.get_flag("watch");
    Ok(Status { output, watch, url: url_of(matches)? })
}

/// The identity of this replica, for the jitter: the pod's UID or name from the downward API, else the host name,
/// which the kubelet sets to the pod's name.
#[must_use]
pub fn replica(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Replica {
    let environment = podnudge_variables(environment);
    let get = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let pod = get(POD_NAME).unwrap_or(host);
    Replica {
        ordinal: jitter::ordinal_of(&pod),
        identity: get(POD_UID).unwrap_or(pod),
        // The standard library seeds its hashers from the system's random source.
        seed: RandomState::new().build_hasher().finish(),
    }
}

/// What the environment tells of podnudge's own pod and of the API server. The token may tell more.
#[must_use]
pub fn surroundings(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Surroundings {
    let environment = collect::map(environment);
    let get = |name: &str| {
        let value = environment.get(OsStr::new(name)).filter(|value| !value.is_empty())?;
        Some(value.to_string_lossy().into_owned())
    };
    let name = get(POD_NAME);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let pod = Pod { is_named: name.is_some(), name: name.unwrap_or(host), uid: get(POD_UID) };
    let server = get("KUBERNETES_SERVICE_HOST").zip(get("KUBERNETES_SERVICE_PORT"));
    Surroundings {
        pod,
        #[cfg(feature = "page")]
        namespace: get(POD_NAMESPACE),
        #[cfg(feature = "page")]
        node: get(NODE_NAME),
        server: server.map(|(host, port)| Server { host, port }),
    }
}

/// Whether to colour an output: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>) or the
/// terminal is dumb.
#[must_use]
pub fn colours(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    is_terminal: bool,
) -> Colours {
    let is_refusal = |(name, value): (OsString, OsString)| {
        (name == "NO_COLOR" && !value.is_empty()) || (name == "TERM" && value == "dumb")
    };
    let is_refused = environment.into_iter().any(is_refusal);
    if is_terminal && !is_refused { Colours::On } else { Colours::Off }
}

fn settings(matches: &ArgMatches, environment: &Environment) -> Result<Sources, Stop> {
    let given = |name: &'static str| -> Option<(At, Vec<OsString>)> {
        if let Some(values) = matches.get_many::<OsString>(name) {
            return Some((At::Option(format!("--{name}")), values.cloned().collect()));
        }
        let variable = variable(name);
        let value = environment.get(&variable)?;
        Some((At::Environment(variable), vec![value.clone()]))
    };
    let file = matches.try_get_one::<OsString>("file").ok().flatten();
    let config = file.cloned().or_else(|| given("config")?.1.pop()).map(PathBuf::from);
    let mut overrides = Overrides::new();
    for flag in flags(FILE) {
        let Some((at, values)) = given(flag.line.name) else { continue };
        let mut texts = Vec::new();
        for value in &values {
            let text = value.to_str().ok_or_else(|| not_utf8(&at, value))?;
            match at {
                At::Environment(_) if flag.is_repeatable() => texts.extend(
                    text.split([':', '\n']).filter(|part| !part.is_empty()).map(str::to_owned),
                ),
                _ => texts.push(text.to_owned()),
            }
        }
        overrides.push(Override { at, flag, values: texts });
    }
    // Last: it goes wherever the URLs are https.
    let is_last = |setting: &Override| setting.flag.line.name == "ca-file";
    let (last, mut overrides): (Vec<_>, Vec<_>) = overrides.into_iter().partition(is_last);
    overrides.extend(last);
    if config.is_none() {
        let is_for = |setting: &Override, key: &str| matches!(setting.flag.path.as_slice(), [rule, first, ..] if rule == "rule" && first == key);
        let has = |key: &str| overrides.iter().any(|one| is_for(one, key) && !one.is_off());
        if !has("watch") {
            return Err(usage("nothing to watch: neither `--watch` nor `--config`", QUICK_START));
        }
    }
    let options: Vec<&str> = flags(FILE).iter().map(|flag| flag.line.name).collect();
    let warnings = unknown_variables(environment, &options);
    Ok(Sources { config, overrides, translated: None, warnings })
}

/// The list of presets, or what one of them stands for.
fn presets(matches: &ArgMatches) -> Result<String, Stop> {
    if let Some(name) = matches.get_one::<OsString>("name") {
        let preset = config::preset(&name.to_string_lossy());
        return preset
            .map(config::Preset::as_file)
            .map_err(|reason| usage(&reason.message, reason.hint.as_deref()));
    }
    let line = |preset: &config::Preset| {
        format!("{:<18} {:<14} {}\n", preset.name, preset.evidence, preset.about)
    };
    let lines: String = config::presets().iter().map(line).collect();
    Ok(format!("{:<18} {:<14} how it reloads\n{lines}", "preset", "evidence"))
}

fn ask(matches: &ArgMatches, order: Order) -> Result<Ask, Stop> {
    let given = |name| matches.get_one::<OsString>(name);
    let rule = given("rule").map(|rule| rule.to_string_lossy().into_owned());
    let url = url_of(matches)?;
    Ok(Ask { order, rule, token_file: given("token-file").map(PathBuf::from), url })
}

/// Where the running podnudge listens, if that is given.
fn url_of(matches: &ArgMatches) -> Result<Option<Url>, Stop> {
    if matches.contains_id("url") {
        value_of(matches, "url", config::url).map(Some)
    } else {
        Ok(None)
    }
}

/// The value of an option that has a default.
fn value_of<T>(
    matches: &ArgMatches,
    name: &str,
    parse: impl Fn(&str) -> Result<T, Reason>,
) -> Result<T, Stop> {
    let text = matches.get_one::<OsString>(name).map(|text| text.to_string_lossy());
    parse(&text.unwrap_or_default())
        .map_err(|reason| usage(&format!("--{name}: {}", reason.message), reason.hint.as_deref()))
}

/// The prefix of podnudge's environment variables.
const PREFIX: &str = "PODNUDGE_";
/// The variables about podnudge's own pod, which are no options.
const POD_NAME: &str = "PODNUDGE_POD_NAME";
const POD_UID: &str = "PODNUDGE_POD_UID";
const POD_NAMESPACE: &str = "PODNUDGE_POD_NAMESPACE";
const NODE_NAME: &str = "PODNUDGE_NODE_NAME";

/// The variables that begin with `PODNUDGE_` and are not empty.
type Environment = BTreeMap<String, OsString>;

fn podnudge_variables(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let ours = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        (name.starts_with(PREFIX) && !value.is_empty()).then_some((name, value))
    };
    collect::map(environment.into_iter().filter_map(ours))
}

fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_ascii_uppercase())
}

/// Warns of variables with our prefix that podnudge does not know, except those that the kubelet sets for a Service
/// named `podnudge` or `podnudge-…`.
fn unknown_variables(environment: &Environment, options: &[&str]) -> Vec<Problem> {
    let of_pod = [POD_NAME, POD_UID, POD_NAMESPACE, NODE_NAME].map(str::to_owned);
    let options = options.iter().chain(&["config"]).map(|name| variable(name));
    let known: Vec<String> = options.chain(of_pod).collect();
    let known: Vec<&str> = known.iter().map(|name| name.trim_start_matches(PREFIX)).collect();
    let problem = |name: &String| {
        let is_of_service =
            name.ends_with("_PORT") || name.contains("_PORT_") || name.contains("_SERVICE_");
        let own = name.trim_start_matches(PREFIX);
        let is_unknown = !is_of_service && !known.contains(&own);
        is_unknown.then(|| {
            let hint = match nearest(own, &known) {
                Some(near) => format!("did you mean `{PREFIX}{near}`?"),
                None => "it has no effect; `podnudge help` lists the options".to_owned(),
            };
            let place = shown::text(name);
            Problem { place, reason: Reason::new("unknown environment variable").hint(hint) }
        })
    };
    environment.keys().filter_map(problem).collect()
}

fn not_utf8(at: &At, value: &OsStr) -> Stop {
    let place = match at {
        At::Option(name) | At::Environment(name) => name.as_str(),
        At::File(_) | At::Preset(_) => "the file",
    };
    let shown = value.as_encoded_bytes().escape_ascii();
    usage(&format!("{place}: `{shown}` is not UTF-8"), "write it in ASCII or UTF-8")
}

fn usage<'a>(message: &str, hint: impl Into<Option<&'a str>>) -> Stop {
    let text = sentence(message, hint.into());
    Stop { text, stream: Stream::Stderr, exit: Exit::Usage }
}
