//! Fuzzes the escaping of what is shown (`crates/core/src/shown.rs`), durations, and the state file (`src/state/mod.rs`).

use std::path::Path;
use std::time::Duration;

use super::{Target, assert_harmless, assert_harmless_lines, assert_reason, fuzz, text, words};
use crate::state::StateDir;
use podnudge_core::clock::{Moment, Now, UnixTime};
use podnudge_core::memory::{Known, Memory};
use podnudge_core::shown;

#[test]
fn what_is_shown_controls_no_terminal() {
    let seeds = ["a \"b\" 'c' \\d ü", "\u{1b}[31m\n\u{202e}", "one\r\ntwo\u{9b}2J", "e\u{301}"];
    fuzz(Target { inputs: 10_000, ..Target::new("shown", &seeds) }, |input| {
        let said = text(input);
        let name = shown::text(&said);
        assert_harmless(&name);
        assert_harmless(&shown::path(Path::new(&said)));
        assert_harmless(&shown::path_literal(Path::new(&said)));
        assert_harmless(&shown::program(&[said.clone(), said.clone()]));
        let literal = shown::literal(&said);
        assert_harmless(&literal);
        assert!(literal.chars().count() <= 60 * 10 + 3, "{literal}");
        let line = shown::one_line(input);
        assert_harmless(&line);
        assert!(line.chars().count() <= 200);
        assert_harmless_lines(&shown::lines(input));
        let message = shown::message(&said);
        assert_harmless_lines(&message);
        assert_eq!(
            message.lines().count(),
            said.split('\n').collect::<Vec<_>>().join("\n").lines().count()
        );
        // What is harmless stays as it is.
        if said.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            assert_eq!((name, message), (said.clone(), said));
            return "plain".to_owned();
        }
        String::new()
    });
}

#[test]
fn json_keeps_its_values_when_it_is_shown() {
    let seeds =
        ["{\"a\": \"\u{202e}\u{9b}x\u{e0041}\"}\r\n", "[1,\t\"\u{7f}\"]", "\"\\u0000\\\\\""];
    fuzz(Target { inputs: 4000, ..Target::new("shown json", &seeds) }, |input| {
        let said = text(input);
        let shown = shown::json(&said);
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&said) else {
            return "no JSON".to_owned();
        };
        assert_harmless_lines(&shown);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        (shown.len() > said.len()).to_string()
    });
}

#[test]
fn a_state_file_is_loaded_as_it_was_saved() {
    let digest = "07".repeat(32);
    let seeds = [
        format!(
            "{{\"version\":3,\"clock\":{{\"wall\":1700000000000,\"since-boot\":5000,\"boot\":null}},\"memory\":{{\"known\":{{\"running\":\"{digest}\",\"evidence\":\"verified\",\"at\":1700000000.25}}}}}}"
        ),
        format!(
            "{{\"version\":3,\"clock\":{{\"wall\":1700000000000,\"since-boot\":5000,\"boot\":null}},\"memory\":{{\"restarts\":[4000,1],\"last-action\":1000,\"failed\":{{\"digest\":\"{digest}\",\"rolled-out\":\"{digest}\",\"reason\":{{\"message\":\"503\",\"hint\":\"look\"}}}},\"rollout\":{{\"digest\":\"{digest}\",\"back\":{{\"failed\":\"{digest}\",\"after-restart\":true,\"reason\":{{\"message\":\"it ended\"}}}},\"attempt\":2,\"is-triggered\":false,\"is-restart\":true,\"is-suspect\":false,\"restart-began\":4000,\"pod-ends\":0,\"is-in-new-pod\":false,\"retry-at\":9000,\"tripped\":{{\"message\":\"it ended\"}}}},\"ends\":{{\"count\":3,\"start\":4500}},\"slot\":{{\"digest\":\"{digest}\",\"used\":{{\"until-baked\":{{\"is-on-trial\":true,\"at\":9000}}}}}}}}}}"
        ),
        "{\"version\":3,\"clock\":{\"wall\":0,\"since-boot\":0,\"boot\":null},\"memory\":{\"known\":{\"running\":null,\"evidence\":\"none\",\"at\":-1}}}".to_owned(),
        "{\"version\":4,\"memory\":0}".to_owned(),
    ];
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let dictionary = words("state file");
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path());
    let target =
        Target { dictionary, longest: 2048, inputs: 1000, ..Target::new("state file", &seeds) };
    fuzz(target, move |input| {
        std::fs::write(folder.path().join("web.json"), input).unwrap();
        let now = Now {
            mono: Moment(Duration::from_mins(1)),
            wall: UnixTime(Duration::from_secs(1_700_000_055)),
        };
        match state.load("web", now) {
            Ok(memory) => {
                let memory = memory.expect("there is a file");
                assert!(memory.restarts.len() <= Memory::MOST_RESTARTS);
                let rollout = memory.rollout.as_ref();
                let reasons = [
                    memory.failed.as_ref().map(|failed| &failed.reason),
                    rollout.and_then(|rollout| rollout.tripped.as_ref()),
                    rollout.and_then(|rollout| Some(&rollout.back.as_ref()?.reason)),
                ];
                reasons.into_iter().flatten().for_each(|reason| _ = assert_reason(reason));
                state.save("again", memory.clone(), now).unwrap();
                let again = state.load("again", now).unwrap().expect("it was saved");
                let (one, other) =
                    (memory.known.at.0.as_secs_f64(), again.known.at.0.as_secs_f64());
                assert!((one - other).abs() <= one * 1e-9 + 1e-6, "{one} {other}");
                let known = Known { at: again.known.at, ..memory.known };
                let kind = format!("{} {:?}", known.running.is_some(), memory.rollout.is_some());
                assert_eq!(Memory { known, ..memory }, again);
                kind
            }
            Err(reason) => assert_reason(&reason),
        }
    });
}

#[test]
fn a_time_is_compared_without_an_overflow() {
    let target = Target { longest: 64, ..Target::new("clock", &["12345678", "\u{10ffff}"]) };
    fuzz(target, |input| {
        let number = |at: usize| {
            let bytes = input.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            Duration::new(u64::from_le_bytes(bytes.unwrap_or([0xff; 8])), 999_999_999)
        };
        let (one, other) = (UnixTime(number(0)), UnixTime(number(8)));
        let since = one.since(other);
        assert_eq!(since.is_zero(), one <= other);
        let now =
            podnudge_core::clock::Now { mono: podnudge_core::clock::Moment(number(16)), wall: one };
        assert!(now.moment_of(other) <= now.mono);
        assert!(now.mono.after(number(24)) >= now.mono);
        serde_json::to_string(&one).unwrap();
        humantime::format_duration(number(0)).to_string();
        String::new()
    });
}
