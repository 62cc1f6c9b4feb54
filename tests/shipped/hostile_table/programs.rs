//! What a checker does besides checking.

use std::fs;

use super::Input;
use crate::support::wait_until;

/// Scripts of a shell. Those that end fail or pass; others run into the time limit.
const SCRIPTS: &[(&str, &str)] = &[
    ("an endless output", "exec yes"),
    ("an endless line", "exec cat /dev/zero"),
    (
        "control characters in the output",
        "printf '\\033[2J\\033]0;x\\007\\342\\200\\256%0.s' $(seq 200); exit 1",
    ),
    ("informational responses in the output", "exec yes 'HTTP/1.1 103 Early Hints'"),
    ("an output after its end", "(sleep 0.2; exec yes) & exit 0"),
    ("a closed output", "exec >&- 2>&-; exit 1"),
    ("a dozen processes", "for i in $(seq 12); do sleep 1000 & done; exit 1"),
    (
        "processes in sessions of their own",
        "for i in $(seq 5); do setsid sleep 1000 & done; exit 0",
    ),
    ("an end of its supervisor", "kill -KILL $PPID"),
    ("a stop of its supervisor", "setsid sleep 1000 & kill -STOP $PPID"),
    ("an end by a signal", "kill -SEGV $$"),
    ("a changed copy", "rm -rf -- *; mkdir -p a/b; ln -s / c; chmod 0 .; exit 0"),
];

pub(super) fn inputs() -> Vec<Input> {
    let input = |(what, script): (&'static str, &'static str)| Input {
        rule: "program",
        what: what.to_owned(),
        put: Box::new(move |scene| {
            fs::write(scene.path("checker"), script).unwrap();
            scene.nudge("program");
        }),
        outcome: "passed|rejected|check-failed",
        // So that it does not run again beside the next one.
        remove: Some(Box::new(|scene| {
            let before = scene.events("program", "passed");
            fs::write(scene.path("checker"), "").unwrap();
            scene.nudge("program");
            wait_until("content passes", || scene.events("program", "passed") > before);
        })),
    };
    SCRIPTS.iter().copied().map(input).collect()
}
