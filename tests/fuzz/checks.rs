//! Fuzzes the checks of JSON, YAML and TOML (`src/checks/`).

use saphyr_parser::{Event, Parser};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::syntax;
use crate::fuzz::{Target, assert_reason, fuzz, text, words};
use podnudge_core::event::Checked;
use podnudge_core::snapshot::Key;

/// The outcome of a check. Its message names the key and a place in the text, or that the text ends, and nothing of the text.
fn outcome(
    check: fn(&Key, &[u8]) -> Result<(), Checked>,
    format: &str,
    input: &[u8],
) -> Result<(), String> {
    let reason = match check(&Key(b"a key".to_vec()), input) {
        Ok(()) => return Ok(()),
        Err(Checked::Rejected(reason)) => reason,
        Err(other) => panic!("{other:?}"),
    };
    assert_reason(&reason);
    let message = reason.message;
    let rest = message.strip_prefix("`a key` ").expect("it names the key");
    if let Some(end) = rest.strip_prefix("is not JSON: it ") {
        let last = end.strip_prefix("ends too early, in line ").map(str::parse::<usize>);
        assert!(
            end == "is empty" || last.is_some_and(|line| line.unwrap() <= input.len()),
            "{end}"
        );
        return Err("JSON end".to_owned());
    }
    let Some(place) = rest.strip_prefix(&format!("is not {format}: see line ")) else {
        let is_other = rest.starts_with("is not UTF-8 text: see line ");
        assert!(
            is_other || (rest.starts_with("has more than ") && reason.hint.is_some()),
            "{rest}"
        );
        return Err(message);
    };
    let (line, column) = place.split_once(", column ").expect("it has a column");
    let (line, column): (usize, usize) = (line.parse().unwrap(), column.parse().unwrap());
    // The parser of YAML counts a carriage return and other breaks as the end of a line, too.
    assert!(line <= input.len() + 1 && column <= input.len() + 2, "{place} of {}", input.len());
    Err(format!("{format} {}", if line > 1 { "later" } else { "first" }))
}

#[test]
fn json_is_valid_as_with_a_tree() {
    let seeds = [
        r#"{"a": [1, -2.5e3, "x\u00e9\n", true, false, null], "b": {"c": {}, "d": []}}"#,
        "[[[[]]]]",
        "\"\\ud83d\\ude00\"",
        "0",
        "{}",
        " [1 , 2]\n",
    ];
    let dictionary = words("json");
    let target = Target { dictionary, ..Target::new("json", &seeds) };
    fuzz(target, |input| {
        let outcome = outcome(syntax::json, "JSON", input);
        let tree = serde_json::from_slice::<Value>(input);
        match (&outcome, &tree) {
            (Err(_), Ok(_)) => panic!("it is refused, and a tree can be made of it"),
            (Ok(()), Err(error)) => {
                // What is JSON by its grammar, but does not fit into a tree.
                let error = error.to_string();
                let known = ["number out of range", "surrogate", "recursion limit", "hex escape"];
                assert!(known.iter().any(|known| error.contains(known)), "{error}");
            }
            _ => {}
        }
        format!("{outcome:?} {}", tree.err().map(|error| error.to_string()).unwrap_or_default())
    });
}

#[test]
fn toml_is_valid_as_with_a_tree() {
    let seeds = [
        "a = 1\nb.c = 'x'\n[d]\ne = [1, 2, {f = 3}]\n[[g.h]]\ni = 1979-05-27T07:32:00-08:00\n",
        "[a.b]\nc = \"\"\"x\\\n  y\"\"\"\n[a]\nd = '''z'''\n",
        "a = {b = {c = [[{d = 1}]]}, e.f = 2}\n",
        "a = 0xff\nb = 0o17\nc = 0b1\nd = 1_000\ne = -inf\nf = nan\ng = 6.02e-23\nh = 07:32:00.5\n",
        "\"a b\".'c' . d = true # comment\n[[x]]\n[[x.y]]\n[x.y.z]\n[[x]]\n",
    ];
    let dictionary = words("toml");
    let target = Target { dictionary, longest: 2048, ..Target::new("toml", &seeds) };
    fuzz(target, |input| {
        let outcome = outcome(syntax::toml, "TOML", input);
        let tree = std::str::from_utf8(input).map_err(|error| error.to_string()).and_then(|text| {
            toml::from_str::<IgnoredAny>(text).map_err(|e| e.message().to_owned())
        });
        assert_eq!(outcome.is_ok(), tree.is_ok(), "{outcome:?} {tree:?}");
        format!("{:?}", tree.err())
    });
}

#[test]
fn yaml_is_valid_as_when_it_is_parsed_as_a_whole() {
    let seeds = [
        "a: 1\nb:\n  - x\n  - {c: d, e: [f, g]}\n--- # second\n&a k: !!str *a\n...\n",
        "|\n  text\n  more\n",
        "a: >-\n  folded\n\n  text\nb: 'it''s'\nc: \"x\\u00e9\\n\"\n",
        "? complex\n: - 1\n  - 2\n",
        "%YAML 1.2\n%TAG ! tag:x,2000:\n---\n- !a b\n- *c\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |-\n    b\n",
        "[a, [b, {c: d}], \"e\": f]\n",
        "- - - a\n    - b\n-\n- ? x\n",
    ];
    let dictionary = words("yaml");
    let target = Target { dictionary, longest: 2048, inputs: 3000, ..Target::new("yaml", &seeds) };
    fuzz(target, |input| {
        let outcome = outcome(syntax::yaml, "YAML", input);
        if let Ok(text) = std::str::from_utf8(input) {
            let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
            let (kinds, depth, error) = whole(text);
            let is_valid = is_json || (error.is_none() && depth <= 256);
            assert_eq!(outcome.is_ok(), is_valid, "{outcome:?} {depth} {error:?}");
            return format!("{outcome:?} {error:?} {kinds}");
        }
        format!("{outcome:?}")
    });
}

/// Reads YAML from memory: the kinds of the first events, the deepest nesting, and the error.
fn whole(text: &str) -> (String, usize, Option<String>) {
    let (mut kinds, mut depth, mut deepest) = (String::new(), 0_usize, 0);
    for event in Parser::new_from_str(text) {
        match &event {
            Ok((Event::SequenceStart(..) | Event::MappingStart(..), _)) => depth += 1,
            Ok((Event::SequenceEnd | Event::MappingEnd, _)) => depth -= 1,
            Ok(_) => {}
            Err(error) => return (kinds, deepest, Some(error.info().to_owned())),
        }
        deepest = deepest.max(depth);
        if depth > 256 {
            break;
        }
        if let Ok((event, _)) = event
            && kinds.len() < 8
        {
            kinds.extend(format!("{event:?}").chars().take(1));
        }
    }
    (kinds, deepest, None)
}

/// The message about a key shows its name escaped.
#[test]
fn a_message_about_a_key_shows_its_name_escaped() {
    fuzz(Target { inputs: 500, ..Target::new("key in a message", &["a.json", "ü/b"]) }, |input| {
        let key = Key(input.to_vec());
        let Err(Checked::Rejected(reason)) = syntax::json(&key, b"{") else { panic!("it is JSON") };
        crate::fuzz::assert_harmless(&reason.message);
        assert!(text(reason.message.as_bytes()).is_ascii());
        String::new()
    });
}
