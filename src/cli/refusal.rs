//! What podnudge says of a command line that clap refuses: the word at fault, the reason, and what to do. Pure.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind, KindFormatter};
use clap::{Arg, Command, Error};

use super::help::all_commands;
use super::{Stop, Stream, usage};
use crate::system::exit::Exit;
use podnudge_config::nearest;
use podnudge_core::shown::literal;

const AGAIN: &str =
    "repeat an option for each of its values; a configuration file comes after `--config`";

/// The help or the version, if that was asked for; else what is wrong. `first` is the first argument.
pub(super) fn stop(error: Error, first: Option<&OsString>) -> Stop {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // With this formatter, clap's own messages about errors are not a part of the program.
        let text = error.apply::<KindFormatter>().render().to_string();
        return Stop { text, stream: Stream::Stdout, exit: Exit::Ok };
    }
    let podnudge = all_commands();
    let used = first.and_then(|name| podnudge.find_subcommand(name));
    let name = used.map_or("podnudge".to_owned(), |used| format!("podnudge {}", used.get_name()));
    let used = used.unwrap_or(&podnudge);
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    };
    let word = given(ContextKind::InvalidArg);
    let prior = literal(bare(given(ContextKind::PriorArg)));
    let wrong = literal(bare(word));
    let (message, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = given(ContextKind::InvalidSubcommand);
            (format!("there is no command {}", literal(word)), command_instead(&podnudge, word))
        }
        ErrorKind::UnknownArgument if word.starts_with('-') => {
            let hint = option_instead(&podnudge, used, &name, word);
            (format!("unknown option {}", literal(word)), hint)
        }
        ErrorKind::UnknownArgument => {
            let hint = format!("`{name} --help` says what it takes");
            (format!("unexpected argument {}", literal(word)), hint)
        }
        ErrorKind::ArgumentConflict if word.is_empty() => {
            let word = given(ContextKind::InvalidSubcommand);
            let shown = literal(word);
            match podnudge.find_subcommand(word) {
                Some(_) => {
                    let hint = format!("write the command first: `podnudge {word} …`");
                    (format!("the command {shown} comes after {prior}"), hint)
                }
                None => (format!("unexpected argument {shown} after {prior}"), AGAIN.to_owned()),
            }
        }
        ErrorKind::ArgumentConflict if wrong == prior => {
            (format!("{wrong} is given twice"), "keep one of them".to_owned())
        }
        ErrorKind::ArgumentConflict => {
            (format!("{wrong} cannot be combined with {prior}"), "keep one of them".to_owned())
        }
        ErrorKind::InvalidValue => (format!("{wrong} needs a value"), format!("write `{word}`")),
        ErrorKind::TooManyValues => {
            let value = literal(given(ContextKind::InvalidValue));
            (format!("{wrong} takes no value"), format!("leave {value} out"))
        }
        ErrorKind::MissingRequiredArgument => {
            // No command requires more than one.
            let required = used.get_arguments().find(|arg| arg.is_required_set());
            let meaning = required.and_then(Arg::get_help);
            let meaning = meaning.map(ToString::to_string).unwrap_or_default();
            (format!("`{name}` needs {wrong}"), format!("add `{word}`: {meaning}"))
        }
        kind => {
            let message = kind.as_str().unwrap_or("wrong command line").to_owned();
            (message, format!("see `{name} --help`"))
        }
    };
    usage(&message, hint.as_str())
}

/// An argument as it is written: `--watch` of `--watch <PATH>`, `FILE` of `[FILE]`.
fn bare(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or_default().trim_matches(['[', ']', '<', '>'])
}

fn command_instead(podnudge: &Command, word: &str) -> String {
    let names: Vec<&str> = podnudge.get_subcommands().map(Command::get_name).collect();
    match nearest(word, &names) {
        Some(near) => format!("did you mean `{near}`?"),
        None if word.contains(['/', '.']) => {
            "a configuration file comes after `--config`, or after a command: `podnudge check FILE`"
                .to_owned()
        }
        None => "`podnudge help` lists the commands".to_owned(),
    }
}

/// The command that has the option, or a similar option of the command that was used.
fn option_instead(podnudge: &Command, used: &Command, name: &str, word: &str) -> String {
    let word = word.trim_start_matches('-');
    let has_it =
        |command: &&Command| command.get_arguments().any(|arg| arg.get_long() == Some(word));
    if let Some(other) = podnudge.get_subcommands().find(has_it) {
        return format!("it is an option of `podnudge {}`", other.get_name());
    }
    let own: Vec<&str> = used.get_arguments().filter_map(Arg::get_long).collect();
    match nearest(word, &own) {
        Some(near) => format!("did you mean `--{near}`?"),
        None => format!("`{name} --help` lists its options"),
    }
}
