//! The thin edge: arguments in, exit code out. Alone prints and exits.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use podnudge::cli::{self, Command, Stop, Stream};
use podnudge::exit::{self, Exit};
use podnudge::{action, admin, config, install, logs, run};

fn main() -> ExitCode {
    action::install_crypto();
    match cli::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Command::Check(arguments)) => with_config(&arguments, |config| {
            print(Stream::Stdout, &config::effective(&config), Exit::Ok)
        }),
        Ok(Command::Run(arguments)) => with_config(&arguments, start),
        Ok(Command::Once(arguments, wait)) => with_config(&arguments, |config| once(&config, wait)),
        Ok(Command::Status(arguments)) => show_status(&arguments),
        Ok(Command::Install(folder)) => install_into(&folder),
        Err(Stop { text, stream, exit }) => print(stream, &text, exit),
    }
}

fn with_config(arguments: &cli::Run, go_on: impl FnOnce(config::Config) -> ExitCode) -> ExitCode {
    match config::load(arguments) {
        Ok((config, warnings)) => {
            for warning in arguments.warnings.iter().chain(&warnings) {
                print(Stream::Stderr, &format!("warning: {warning}\n"), Exit::Ok);
            }
            go_on(config)
        }
        Err(error) => print(Stream::Stderr, &error.text(), error.exit()),
    }
}

fn start(config: config::Config) -> ExitCode {
    logs::start(&config.agent, std::io::stderr().is_terminal());
    let replica = cli::replica(std::env::vars_os());
    match run::block_on(run::run(config, replica)).and_then(|ended| ended) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => fail(&error),
    }
}

fn once(config: &config::Config, wait: Duration) -> ExitCode {
    logs::start(&config.agent, std::io::stderr().is_terminal());
    match run::block_on(run::once(config, wait)) {
        Ok(Ok(())) => Exit::Ok.into(),
        Ok(Err(error)) => {
            let text = exit::sentence(&error.to_string(), error.hint().as_deref());
            print(Stream::Stderr, &text, error.exit())
        }
        Err(error) => fail(&error),
    }
}

fn install_into(folder: &Path) -> ExitCode {
    match install::install(folder) {
        Ok(path) => print(Stream::Stdout, &format!("{}\n", path.display()), Exit::Ok),
        Err(reason) => {
            let text = exit::sentence(&reason.message, reason.hint.as_deref());
            print(Stream::Stderr, &text, Exit::Io)
        }
    }
}

fn show_status(arguments: &cli::Status) -> ExitCode {
    match run::block_on(admin::client::show(arguments)) {
        Ok(Ok((text, exit))) => print(Stream::Stdout, &text, exit),
        Ok(Err(reason)) => {
            let text = exit::sentence(&reason.message, reason.hint.as_deref());
            print(Stream::Stderr, &text, Exit::Unavailable)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &run::RunError) -> ExitCode {
    let text = exit::sentence(&exit::chain(error), error.hint().as_deref());
    print(Stream::Stderr, &text, error.exit())
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
