//! What other reloaders are started with: `podnudge compat`, and the translation of the rest. Pure, but for the
//! `--web-config-file` of prometheus-config-reloader, which is read.

use std::ffi::OsString;
use std::time::Duration;

use clap::ArgMatches;

use super::{Command, Sources, Stop, Stream, usage};
use crate::system::exit::Exit;
use crate::system::files;
use podnudge_config as config;
use podnudge_core::shown::literal;
use podnudge_tools::compat::{self, Instead, Run};

/// How long an init container waits for the file that it is to write from.
const WAIT: Duration = Duration::from_mins(1);

/// The command for the options of a program whose options podnudge takes. `None` for all others.
pub(super) fn command(arguments: &[OsString]) -> Option<Result<Command, Stop>> {
    let configured = |config| Sources { translated: Some(config), ..Sources::default() };
    let printed = |text| Err(Stop { text, stream: Stream::Stdout, exit: Exit::Ok });
    Some(match compat::run(arguments, &files::read_with_hint)? {
        Ok(Run::Always(config)) => Ok(Command::Run(configured(config))),
        Ok(Run::Once(config)) => Ok(Command::Once(configured(config), WAIT)),
        Ok(Run::Nothing) => printed(String::new()),
        Ok(Run::Print(text)) => printed(text),
        Err(reason) => Err(usage(&reason.message, reason.hint.as_deref())),
    })
}

/// The error for a program whose options podnudge does not take.
pub(super) fn unknown(matches: &ArgMatches) -> Stop {
    let program = matches.get_one::<OsString>("program");
    let message = match program {
        Some(program) => {
            format!("`compat` does not know the options of {}", literal(&program.to_string_lossy()))
        }
        None => "`compat` needs the name of a program".to_owned(),
    };
    let hint = "it takes those of `prometheus-config-reloader`: \
                `podnudge compat prometheus-config-reloader --config-file=FILE …`";
    usage(&message, hint)
}

/// The usage error, or what to use in place of the options and variables of another reloader.
pub(super) fn translated(
    stop: Stop,
    arguments: &[OsString],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Stop {
    if stop.exit != Exit::Usage {
        return stop;
    }
    let Some(translation) = compat::translated(arguments, environment) else { return stop };
    let problems = problems(&translation.instead);
    let reason = translation.reason(arguments.len() < 2, &problems);
    usage(&reason.message, reason.hint.as_deref())
}

/// What podnudge refuses in a translation, which has values of the other reloader in it.
fn problems(instead: &Instead) -> Vec<String> {
    let (text, overrides) = match instead {
        Instead::Nothing => return Vec::new(),
        Instead::File(text) => (text.as_str(), Vec::new()),
        // It takes the options as they are.
        Instead::Arguments(own) if own.first().is_some_and(|word| word == compat::COMMAND) => {
            return Vec::new();
        }
        Instead::Arguments(own) => {
            let own = std::iter::once("podnudge").chain(own.iter().map(String::as_str));
            let own: Vec<OsString> = own.map(OsString::from).collect();
            match super::parse_own(&own, &super::Environment::new()) {
                Ok(Command::Run(Sources { overrides, .. })) => ("", overrides),
                Ok(_) => return Vec::new(),
                Err(stop) => return vec![one_line(&stop.text)],
            }
        }
    };
    match config::parse("FILE", text, &overrides, None) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem| one_line(&problem.to_string())).collect(),
    }
}

fn one_line(text: &str) -> String {
    text.trim_start_matches("podnudge: ")
        .trim_end()
        .replace("\n  hint: ", "; hint: ")
        .replace('\n', " ")
}
