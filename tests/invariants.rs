//! Checks the source against the invariants of ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that the package podnudge is made of.
pub(crate) const CRATES: [&str; 4] =
    ["crates/config/src", "crates/core/src", "crates/supervise/src", "crates/tools/src"];

/// Modules without I/O and clocks.
const PURE: [&str; 33] = [
    "crates/core/src",
    "crates/supervise/src/machine.rs",
    "crates/supervise/src/marks.rs",
    "crates/supervise/src/options.rs",
    "crates/tools/src",
    "src/admin/page.rs",
    "src/admin/page",
    "src/cli/completion.rs",
    "src/cli/help.rs",
    "src/cli/plan.rs",
    "src/cli/refusal.rs",
    "crates/config/src",
    "src/volume/filter.rs",
    "src/volume/glob.rs",
    "src/cluster/call.rs",
    "src/cluster/eager.rs",
    "src/cluster/eager",
    "src/cluster/events.rs",
    "src/cluster/identity.rs",
    "src/cluster/own_pod.rs",
    "src/cluster/rights.rs",
    "src/cluster/sources.rs",
    "src/checks/certificates",
    "src/checks/syntax.rs",
    "src/process/select.rs",
    "src/process/select",
    "src/process/texts.rs",
    "src/publish/generation.rs",
    "src/verify/body.rs",
    "src/admin/metrics.rs",
    "src/admin/process_metrics.rs",
    "src/admin/series.rs",
    "src/admin/status_table.rs",
];

#[test]
fn pure_modules_do_no_io_and_read_no_clock() {
    let io = [
        "tokio::",
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::env",
        "reqwest::Client",
        "notify::",
        "::now(",
    ];
    let pure = PURE.iter().flat_map(|place| sources(Path::new(place)));
    pure.for_each(|file| forbid(&file, &io));
}

#[test]
fn only_the_event_loop_spawns_and_selects() {
    for file in all_sources() {
        if !is_of_the_loop(&file) {
            forbid(&file, &["tokio::spawn", "spawn_blocking(", "thread::spawn", "select!"]);
        }
        // These spawn processes, or threads for work that blocks, not tasks.
        let of_processes = [
            "src/system/threads.rs",
            "src/exchange/children.rs",
            "src/exchange/program_process.rs",
            "src/exchange/program_supervisor.rs",
            "crates/supervise/src/command.rs",
            "src/checks/alone.rs",
        ];
        let spawns_processes = of_processes.iter().any(|other| file.ends_with(other));
        if !file.starts_with("src/run") && !spawns_processes {
            forbid(&file, &["spawn("]);
        }
    }
}

/// `clippy.toml` bans the clocks of the standard library elsewhere. `process/proc.rs` reads the
/// clock of the start times.
#[test]
fn only_run_clock_and_process_proc_read_the_clocks() {
    let may = ["src/run/clock.rs", "src/process/proc.rs"].map(Path::new);
    for file in all_sources().filter(|file| !may.contains(&file.as_path())) {
        forbid(&file, &["clock_gettime"]);
    }
}

/// A timeout on a future that never completes is a sleep, which `clippy.toml` allows in two places.
#[test]
fn no_timeout_is_used_as_a_sleep() {
    for file in all_sources().filter(|file| !is_of_the_loop(file)) {
        forbid(&file, &["pending()", "pending::<", "tokio::time::interval"]);
    }
}

#[test]
fn only_main_prints_and_exits() {
    for file in all_sources().filter(|file| !file.ends_with("src/main.rs")) {
        forbid(&file, &["println!(", "print!(", "eprintln!(", "process::exit("]);
    }
}

#[test]
fn only_the_inotify_watcher_uses_notify() {
    for file in all_sources().filter(|file| !file.ends_with("src/volume/watch/inotify.rs")) {
        forbid(&file, &["use notify::", " notify::", "(notify::", "&notify::", "INotifyWatcher"]);
    }
}

/// Whoever adopts podnudge has reviewed these packages. One is not replaced by code of our own, nor by
/// another package: HTTP requests are sent by reqwest, even where a limit (such as one on informational
/// responses) then has to be set around it.
#[test]
fn the_packages_that_podnudge_is_built_on_stay() {
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    for package in
        ["notify", "nix", "tokio", "sha2", "signal-hook", "serde", "toml", "tracing", "reqwest"]
    {
        assert!(manifest.contains(&format!("\n{package} = ")), "{package} is missing");
    }
    let http = code(Path::new("src/exchange/http.rs"));
    assert!(http.contains("use reqwest::{Client"), "requests of rules are not sent by reqwest");
}

/// What it depends on is charged to the memory of each application.
#[test]
fn the_init_has_no_runtime() {
    let manifest = fs::read_to_string("crates/supervise/Cargo.toml").unwrap();
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap().lines();
    let names: Vec<&str> = dependencies
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split(['.', ' ']).next().unwrap())
        .collect();
    let wanted = ["nix", "podnudge-core", "rustix", "rustix-libc-wrappers", "signal-hook"];
    assert_eq!(names, wanted);
}

#[test]
fn only_two_files_signal_other_processes() {
    let may = ["src/process/signal.rs", "crates/supervise/src/signal.rs"].map(Path::new);
    for file in all_sources().filter(|file| !may.contains(&file.as_path())) {
        forbid(&file, &["pidfd_send_signal", "signal::kill(", "kill_process("]);
    }
}

/// Processes started by tests must inherit nothing from the test runner.
#[test]
fn only_support_program_starts_processes_in_tests() {
    // This file contains the forbidden text.
    let may = ["tests/support/program.rs", "tests/invariants.rs"].map(Path::new);
    let tests = sources(Path::new("tests")).filter(|file| file.extension() == Some("rs".as_ref()));
    for file in tests.filter(|file| !may.contains(&file.as_path())) {
        forbid(&file, &["Command::new("]);
    }
}

/// In the crates that decide, a function that is named like a question changes nothing.
#[test]
fn no_question_changes_what_it_is_asked_about() {
    let questions = ["is", "has", "was", "may", "can", "must", "should", "needs", "looks"];
    for file in CRATES.iter().flat_map(|folder| sources(Path::new(folder))) {
        // rustfmt writes long parameters below the name.
        let code = code(&file).split_whitespace().collect::<Vec<_>>().join(" ");
        for function in code.split("fn ").skip(1) {
            let Some((name, parameters)) = function.split_once('(') else { continue };
            let is_question = questions.iter().any(|word| name.starts_with(&format!("{word}_")));
            let changes = parameters.trim_start().starts_with("&mut self");
            assert!(!is_question || !changes, "{}: `{name}`", file.display());
        }
    }
}

#[test]
fn source_files_have_at_most_400_lines() {
    for file in all_sources() {
        let lines = code(&file).lines().count();
        assert!(lines <= 400, "{} has {lines} lines without its tests", file.display());
    }
}

#[test]
fn every_module_has_a_doc_comment() {
    for file in all_sources() {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        assert!(text.starts_with("//! "), "{} has no `//!` comment", file.display());
    }
}

fn is_of_the_loop(file: &Path) -> bool {
    file.starts_with("src/run")
}

fn forbid(file: &Path, words: &[&str]) {
    let text = fs::read_to_string(file).expect("a source file can be read");
    for (number, line) in lines_of_code(&text) {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for word in words {
            assert!(!line.contains(word), "{}:{}: `{word}`", file.display(), number);
        }
    }
}

/// The text of a source file without its unit tests.
pub(crate) fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source file can be read");
    let lines: Vec<&str> = lines_of_code(&text).iter().map(|(_, line)| *line).collect();
    lines.join("\n")
}

/// The lines that are not part of a module for tests, each with its number. Whatever else is compiled
/// for tests only, and all that follows a module for tests, is code. The end of a module is the first
/// brace with the indentation of its beginning, as rustfmt writes it.
fn lines_of_code(text: &str) -> Vec<(usize, &str)> {
    let mut lines = text.lines().zip(1..).map(|(line, number)| (number, line)).peekable();
    let mut code = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.push((number, line));
            continue;
        }
        // Other attributes may follow.
        let mut item = vec![(number, line)];
        while let Some(attribute) = lines.next_if(|(_, line)| line.trim().starts_with("#[")) {
            item.push(attribute);
        }
        match lines.next_if(|(_, line)| line.trim().starts_with("mod ")) {
            None => code.extend(item),
            Some((_, module)) if module.ends_with('{') => {
                let indentation = module.len() - module.trim_start().len();
                let is_end = |line: &str| line.len() == indentation + 1 && line.ends_with('}');
                while lines.next().is_some_and(|(_, line)| !is_end(line)) {}
            }
            Some(_) => {}
        }
    }
    code
}

#[test]
fn only_modules_for_tests_are_no_code() {
    let text = "\
use a;
#[cfg(test)]
#[path = \"tests.rs\"]
mod from_a_file;
use b;
#[cfg(test)]
fn for_tests() {
}
mod inner {
    #[cfg(test)]
    mod tests {
        fn c() {
        }
    }
    fn d() {}
}
#[cfg(test)]
#[cfg(feature = \"cluster\")]
mod tests {
    fn e() {}
}
fn f() {}";
    let numbers: Vec<usize> = lines_of_code(text).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 5, 6, 7, 8, 9, 15, 16, 22]);
}

/// The source files of all crates.
fn all_sources() -> impl Iterator<Item = PathBuf> {
    CRATES.iter().chain(&["src"]).flat_map(|folder| sources(Path::new(folder)))
}

/// All files below a folder, or the file itself.
pub(crate) fn sources(place: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut files = Vec::new();
    let mut places = vec![place.to_owned()];
    while let Some(place) = places.pop() {
        if place.is_dir() {
            let entries = fs::read_dir(&place).expect("a source folder can be listed");
            places.extend(entries.map(|entry| entry.expect("it can be listed").path()));
        } else {
            assert!(place.is_file(), "{} is listed here but does not exist", place.display());
            files.push(place);
        }
    }
    files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
}
