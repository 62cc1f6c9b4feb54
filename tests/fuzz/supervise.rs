//! Fuzzes the command line of `podnudge supervise` (`crates/supervise/src/options.rs`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::{Asked, Options, parse};
use crate::fuzz::{Target, assert_reason, fuzz, words};

/// What is understood is understood again when it is written out, and the command is the end of the line.
#[test]
fn a_supervisor_is_understood_or_refused() {
    let seeds = [
        "--\nnginx\n-g\ndaemon off;",
        "--grace=10s\n--stop-signal\nQUIT\nnginx",
        "--grace\n500ms\n--\n--grace\n--",
        "--help",
    ];
    let target = Target {
        dictionary: words("supervise"),
        longest: 256,
        inputs: 800,
        ..Target::new("supervise", &seeds)
    };
    fuzz(target, |input| {
        let lines = input.split(|byte| *byte == b'\n');
        let words: Vec<OsString> = lines.map(|line| OsString::from_vec(line.to_vec())).collect();
        match parse(words.clone()) {
            Err(reason) => assert_reason(&reason),
            Ok(Asked::Help) => "help".to_owned(),
            Ok(Asked::Supervise(options)) => {
                assert!(words.ends_with(&options.command) && !options.command.is_empty());
                let Options { grace, stop, command } = options.clone();
                let mut again = vec![
                    OsString::from(
                        format!("--grace={}", humantime::format_duration(grace)).replace(' ', ""),
                    ),
                    OsString::from(format!("--stop-signal={}", stop.as_str())),
                    OsString::from("--"),
                ];
                again.extend(command);
                assert_eq!(parse(again), Ok(Asked::Supervise(options)));
                format!("{stop}")
            }
        }
    });
}
