//! `podnudge completion SHELL`: scripts that complete the command line, from the definitions of its commands. Pure.
//!
//! Each script has one table, of the number of words and the second one: it says which words may follow.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command};

use super::help::{all_commands, positional, with_usage};
use super::{Stop, Stream, usage};
use crate::system::exit::Exit;
use podnudge_config as config;
use podnudge_core::shown::literal;

/// A shell, and its script: the parts before, in and after the table.
struct Shell {
    name: &'static str,
    begin: &'static str,
    /// What is before the pattern of a row, between it and the words, and after these.
    row: [&'static str; 3],
    end: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        begin: "_podnudge() {
  local found
  case $COMP_CWORD:${COMP_WORDS[1]} in
",
        row: ["  ", ") found='", "' ;;\n"],
        end: "  esac
  COMPREPLY=($(compgen -W \"$found\" -- \"${COMP_WORDS[COMP_CWORD]}\"))
}
complete -o default -F _podnudge podnudge
",
    },
    // It may be in a folder of `$fpath`, or be sourced.
    Shell {
        name: "zsh",
        begin: "#compdef podnudge
_podnudge() {
  local found
  case $((CURRENT - 1)):$words[2] in
",
        row: ["  ", ") found='", "' ;;\n"],
        end: "  esac
  compadd -- ${=found}
  [[ $PREFIX == -* ]] || _files
}
compdef _podnudge podnudge
[[ $funcstack[1] != _podnudge ]] || _podnudge
",
    },
    Shell {
        name: "fish",
        begin: "function __podnudge_words
  set -l words (commandline -opc)
  switch (count $words):\"$words[2]\"
",
        row: ["  case '", "'\n    string split -n ' ' -- '", "'\n"],
        end: "  end
end
complete -c podnudge -a '(__podnudge_words)'
",
    },
];

const AFTER: &str = "\
    source <(podnudge completion bash)            in ~/.bashrc
    source <(podnudge completion zsh)             in ~/.zshrc, after compinit
    podnudge completion fish | source             in ~/.config/fish/config.fish";

/// The command, for the help and for clap.
pub(super) fn command() -> Command {
    with_usage("completion", "podnudge completion SHELL")
        .about("Print the script that completes podnudge's command line in a shell")
        .arg(positional("shell", "SHELL").required(true).help("`bash`, `zsh` or `fish`"))
        .after_help(AFTER)
}

/// Prints the script for the shell that is named.
pub(super) fn print(matches: &ArgMatches) -> Result<super::Command, Stop> {
    let shell = matches.get_one::<OsString>("shell").map(|shell| shell.to_string_lossy());
    let shell = shell.unwrap_or_default();
    Err(if let Some(text) = script(&shell) {
        Stop { text, stream: Stream::Stdout, exit: Exit::Ok }
    } else {
        let message = format!("there is no completion for {}", literal(&shell));
        usage(&message, "one of `bash`, `zsh`, `fish`")
    })
}

/// The script for this shell, or `None` if the shell is not known.
#[must_use]
pub fn script(shell: &str) -> Option<String> {
    let shell = SHELLS.iter().find(|known| known.name == shell)?;
    let podnudge = all_commands();
    let mut names = String::new();
    for command in podnudge.get_subcommands() {
        push(&mut names, &[command.get_name(), " "]);
    }
    let mut presets = String::new();
    for preset in config::presets() {
        push(&mut presets, &[&preset.name, " "]);
    }
    let mut script = shell.begin.to_owned();
    let [before, between, after] = shell.row;
    let mut row = |pattern: [&str; 2], words: &str, command: &Command| {
        push(&mut script, &[before, pattern[0], pattern[1], between, words]);
        for long in command.get_arguments().filter_map(Arg::get_long) {
            push(&mut script, &["--", long, " "]);
        }
        push(&mut script, &[after]);
    };
    row(["1:*", ""], &names, &podnudge);
    for command in podnudge.get_subcommands() {
        let name = command.get_name();
        let words = match name {
            "help" => &names,
            "presets" => &presets,
            "completion" => "bash zsh fish ",
            _ => "",
        };
        row(["*:", name], words, command);
    }
    row(["*", ""], "", &podnudge);
    Some(script + shell.end)
}

fn push(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
}
