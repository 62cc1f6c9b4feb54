//! The thin edge: arguments in, exit code out. Alone prints and exits.

use std::io::Write as _;
use std::process::ExitCode;

use podnudge::cli::{self, Command, Stop, Stream};
use podnudge::config;
use podnudge::exit::Exit;

fn main() -> ExitCode {
    match cli::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Command::Check(arguments)) => check(&arguments),
        Ok(Command::Run(_) | Command::Status(_)) => Exit::Ok.into(),
        Err(Stop { text, stream, exit }) => print(stream, &text, exit),
    }
}

fn check(arguments: &cli::Run) -> ExitCode {
    match config::load(arguments) {
        Ok((config, warnings)) => {
            for warning in arguments.warnings.iter().chain(&warnings) {
                print(Stream::Stderr, &format!("warning: {warning}\n"), Exit::Ok);
            }
            print(Stream::Stdout, &config::effective(&config), Exit::Ok)
        }
        Err(error) => print(Stream::Stderr, &error.text(), error.exit()),
    }
}

fn print(stream: Stream, text: &str, exit: Exit) -> ExitCode {
    let written = match stream {
        Stream::Stdout => std::io::stdout().write_all(text.as_bytes()),
        Stream::Stderr => std::io::stderr().write_all(text.as_bytes()),
    };
    match written {
        Ok(()) => exit.into(),
        Err(_) => Exit::Io.into(),
    }
}
