//! Parses the arguments and runs the command. The only module that exits, and that writes what a command says to standard
//! output. `system/stderr.rs` writes to standard error: for this module, and for the log.

use std::io::{IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use dlmalloc::GlobalDlmalloc;
use podnudge::cli::{self, Command, Stop, Stream, doctor, install};
use podnudge::exchange::{children, program_supervisor};
use podnudge::preflight::Stage;
use podnudge::process::marks::mark_as_agent;
use podnudge::report::logs;
use podnudge::system::exit::{self, Exit};
use podnudge::system::{lockdown, stderr};
use podnudge::{admin, checks, exchange, run};
use podnudge_config as config;
use podnudge_core::reason::Reason;
use podnudge_supervise::{self as supervise, Cause, NotStarted};
#[cfg(feature = "plan")]
use podnudge_tools::{plan, plan_options, summary};

/// glibc's allocator keeps what each thread has freed: contents that each stay within the bound of a check
/// would add up. This one has one heap, and returns what is free.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// How often `status --watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(bug));
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == supervise::COMMAND
        && let Some(ended) = supervised()
    {
        return ended;
    }
    mark_as_agent();
    if first == program_supervisor::ALONE {
        return program_supervisor::alone();
    }
    if first == checks::alone::ALONE {
        lockdown::be_ended_first();
        lockdown::begin();
        return checks::alone::main(std::env::args_os().skip(2));
    }
    lockdown::begin();
    children::adopt_orphans();
    exchange::install_crypto();
    match cli::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Command::Check(arguments)) => {
            with_config(&arguments, |config| print(Stream::Stdout, &checked(&config), Exit::Ok))
        }
        Ok(Command::Run(arguments)) => with_config(&arguments, start),
        Ok(Command::Once(arguments, wait)) => with_config(&arguments, |config| once(&config, wait)),
        Ok(Command::Status(arguments)) => show_status(&arguments),
        Ok(Command::Ask(arguments)) => ask(&arguments),
        Ok(Command::Schema) => print(Stream::Stdout, &config::schema(config::FILE), Exit::Ok),
        Ok(Command::Doctor(arguments, stage, json)) => {
            with_config(&arguments, |config| examine(&config, stage, json))
        }
        #[cfg(feature = "plan")]
        Ok(Command::Plan(arguments, options)) => {
            with_config(&arguments, |config| show_plan(&config, &options))
        }
        #[cfg(feature = "cluster")]
        Ok(Command::Sync(options, warnings)) => {
            warn(&warnings);
            sync(options)
        }
        Ok(Command::Presets(text)) => print(Stream::Stdout, &text, Exit::Ok),
        Ok(Command::Install(folder)) => install_into(&folder),
        Err(Stop { text, stream, exit }) => print(stream, &text, exit),
    }
}

/// Runs a command below the supervisor. Returns `None` if the help is asked for.
fn supervised() -> Option<ExitCode> {
    let report = |restart: &str| stderr::print(&exit::sentence(restart, None));
    match supervise::run(std::env::args_os().skip(2), std::env::vars_os, report) {
        Ok(code) => code.map(ExitCode::from),
        Err(NotStarted { cause, reason }) => {
            let exit = match cause {
                Cause::Usage => Exit::Usage,
                Cause::Unavailable => Exit::Unavailable,
                Cause::NotExecutable => Exit::NotExecutable,
                Cause::NotFound => Exit::NotFound,
            };
            Some(print_reason(&reason, exit))
        }
    }
}

/// Without this hook a panic would end podnudge by SIGABRT, without a log line.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "nothing returns from a panic")]
fn bug(panic: &PanicHookInfo<'_>) {
    if let Some(text) = logs::bug(panic) {
        print(Stream::Stderr, &text, Exit::Bug);
    }
    std::process::exit(Exit::Bug as i32);
}

fn with_config(
    arguments: &cli::Sources,
    command: impl FnOnce(config::Config) -> ExitCode,
) -> ExitCode {
    match cli::load(arguments) {
        Ok((config, warnings)) => {
            warn(&arguments.warnings);
            warn(&warnings);
            command(config)
        }
        Err(error) => print(Stream::Stderr, &error.text(), error.exit()),
    }
}

/// The effective configuration, and as comments what happens when volumes change.
fn checked(config: &config::Config) -> String {
    #[cfg(feature = "plan")]
    let summary = summary::summary(config);
    #[cfg(not(feature = "plan"))]
    let summary = "";
    let comments: String = summary.lines().flat_map(|line| ["# ", line, "\n"]).collect();
    format!("{}\n{comments}# ok\n", config::effective(config))
}

fn warn(warnings: &[config::Problem]) {
    for warning in warnings {
        stderr::print(&format!("warning: {warning}\n"));
    }
}

fn start(config: config::Config) -> ExitCode {
    start_log(&config);
    let replica = cli::replica(std::env::vars_os());
    let surroundings = cli::surroundings(std::env::vars_os());
    match run::block_on(run::run(config, replica, surroundings)).and_then(|ended| ended) {
        Ok(exit_code) => exit_code.map_or(Exit::Ok.into(), ExitCode::from),
        Err(error) => fail(&error),
    }
}

#[cfg(feature = "cluster")]
fn sync(options: config::SyncOptions) -> ExitCode {
    let colours = cli::colours(std::env::vars_os(), std::io::stderr().is_terminal());
    logs::start_as(options.log, options.log_level, colours);
    let seed = cli::replica(std::env::vars_os()).seed;
    let surroundings = cli::surroundings(std::env::vars_os());
    match run::block_on(run::sync(options, surroundings, seed)).and_then(|ended| ended) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => fail(&error),
    }
}

fn start_log(config: &config::Config) {
    let colours = cli::colours(std::env::vars_os(), std::io::stderr().is_terminal());
    logs::start(&config.agent, colours);
}

fn once(config: &config::Config, wait: Duration) -> ExitCode {
    start_log(config);
    print_result(run::block_on(run::once(config, wait)).map(|ended| {
        let done = ended.map(|()| (String::new(), Exit::Ok));
        done.map_err(|error| (error.reason().clone(), error.exit()))
    }))
}

fn examine(config: &config::Config, stage: Stage, json: bool) -> ExitCode {
    let surroundings = cli::surroundings(std::env::vars_os());
    let findings = match run::block_on(doctor::examine(config, stage, &surroundings.pod)) {
        Ok(findings) => findings,
        Err(error) => return fail(&error),
    };
    let exit = if findings.is_fine() { Exit::Ok } else { Exit::NotInSync };
    if !json {
        return print(Stream::Stdout, &doctor::text(&findings), exit);
    }
    match serde_json::to_string_pretty(&findings) {
        Ok(text) => print(Stream::Stdout, &(text + "\n"), exit),
        Err(error) => print(Stream::Stderr, &exit::sentence(&error.to_string(), None), Exit::Bug),
    }
}

#[cfg(feature = "plan")]
fn show_plan(config: &config::Config, options: &plan_options::Options) -> ExitCode {
    let shown = plan::show(config, options).map_err(|reason| (reason, Exit::Usage));
    let written = shown.and_then(|shown| {
        if let (Some(file), Some(svg)) = (&options.svg, &shown.svg) {
            std::fs::write(file, svg).map_err(|error| {
                let file = file.display();
                (Reason::new(format!("cannot write `{file}`: {error}")), Exit::Io)
            })?;
        }
        Ok((shown.text, Exit::Ok))
    });
    print_result(Ok(written))
}

fn install_into(folder: &Path) -> ExitCode {
    let done = install::install(folder).map(|path| (format!("{}\n", path.display()), Exit::Ok));
    print_result(Ok(done.map_err(|reason| (reason, Exit::Io))))
}

fn show_status(arguments: &admin::client::Status) -> ExitCode {
    run::block_on(print_status(arguments)).unwrap_or_else(|error| fail(&error))
}

/// Prints the status once; with `watch` also each time that it is another one, until it cannot be printed.
async fn print_status(arguments: &admin::client::Status) -> ExitCode {
    let colours = cli::colours(std::env::vars_os(), std::io::stdout().is_terminal());
    let mut last = None;
    loop {
        let (state, result) = match admin::client::show(arguments, colours).await {
            Ok(shown) => (shown.state, Ok((shown.text, shown.exit))),
            Err(reason) => (reason.message.clone(), Err((reason, Exit::Unavailable))),
        };
        if last.as_ref() != Some(&state) {
            let printed = print_result(Ok(result));
            if !arguments.watch || printed == Exit::Io.into() {
                return printed;
            }
            last = Some(state);
        }
        run::sleep(WATCH_INTERVAL).await;
    }
}

fn ask(arguments: &admin::client::Ask) -> ExitCode {
    print_result(run::block_on(admin::client::ask(arguments)).map(|answer| {
        let answer = answer.map(|text| (text, Exit::Ok));
        answer.map_err(|reason| (reason, Exit::Unavailable))
    }))
}

/// The output of a command and its exit code, or its error.
type CommandResult = Result<(String, Exit), (Reason, Exit)>;

fn print_result(result: Result<CommandResult, run::RunError>) -> ExitCode {
    match result {
        Ok(Ok((text, exit))) => print(Stream::Stdout, &text, exit),
        Ok(Err((reason, exit))) => print_reason(&reason, exit),
        Err(error) => fail(&error),
    }
}

fn print_reason(reason: &Reason, exit: Exit) -> ExitCode {
    print(Stream::Stderr, &exit::sentence(&reason.message, reason.hint.as_deref()), exit)
}

fn fail(error: &run::RunError) -> ExitCode {
    let text = exit::sentence(&exit::chain(error), error.hint().as_deref());
    print(Stream::Stderr, &text, error.exit())
}

fn print(stream: Stream, text: &str, exit: Exit) -> ExitCode {
    let written = match stream {
        Stream::Stdout => std::io::stdout().write_all(text.as_bytes()),
        Stream::Stderr => {
            stderr::print(text);
            Ok(())
        }
    };
    match written {
        Ok(()) => exit.into(),
        Err(_) => Exit::Io.into(),
    }
}
