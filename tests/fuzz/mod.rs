//! Fuzzing on the stable compiler: seeds, mutations of them, and a check of each input, in the process
//! of the test. Every parser and every reader of a protocol has a target.
//!
//! The targets are compiled into the library's own tests, each beside the module that it fuzzes
//! (`#[path]` in `src/`): parsers are private, and need not be public for this. A target asserts more
//! than the absence of a panic: that a second implementation gives the same verdict, that what was
//! printed can be read back, that what is shown has no control characters.
//!
//! An input that gives an outcome of a new kind becomes a seed, so that mutations reach deeper. All of
//! it follows from a seed. In `cargo test` each target gets a fixed number of inputs. By hand:
//! `FUZZ_SECONDS=60 cargo test --lib fuzz -- --nocapture` gives each target that time, and `FUZZ_SEED`
//! other inputs. `FUZZ_KEEP=FILE` writes each input to `FILE.TARGET` before it is checked, for what ends
//! the process, such as an overflow of the stack.

#![expect(clippy::print_stdout, reason = "a run by hand shows its figures")]

mod mutate;
mod random;
mod runner;
mod shrink;

pub(crate) mod exposition;
pub(crate) mod loopback;
mod texts;
mod weeks;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use runner::{Target, fuzz};

/// The words of a format. Besides: `numbers`, at which arithmetic goes wrong, and `nasty`, which escaping and cutting
/// must survive.
pub(crate) fn words(format: &str) -> &'static [&'static str] {
    static WORDS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let words =
            serde_json::from_str::<BTreeMap<String, Vec<String>>>(include_str!("words.json"))
                .unwrap();
        let leaked = |words: Vec<String>| words.into_iter().map(|word| &*word.leak()).collect();
        words.into_iter().map(|(format, words)| (&*format.leak(), leaked(words))).collect()
    });
    &WORDS[format]
}

/// The text of an input.
pub(crate) fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// Two parts of an input: its first line, and the rest.
pub(crate) fn first_line(input: &[u8]) -> (String, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (text(&input[..end]), input.get(end + 1..).unwrap_or_default())
}

/// Whether a terminal or a log would act on a character instead of showing it.
pub(crate) fn controls(c: char) -> bool {
    let invisible = ['\u{61c}', '\u{feff}'];
    let ranges = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}'];
    c.is_control() || invisible.contains(&c) || ranges.iter().any(|range| range.contains(&c))
}

/// Asserts that a text is harmless on one line of a terminal and of a log.
pub(crate) fn assert_harmless(shown: &str) {
    assert!(!shown.contains(controls), "it is shown with a control character: {shown:?}");
}

/// The same for a text of several lines.
pub(crate) fn assert_harmless_lines(shown: &str) {
    shown.split('\n').for_each(assert_harmless);
}

/// The same for a message and its hint, which must also be short.
pub(crate) fn assert_reason(reason: &podnudge_core::reason::Reason) -> String {
    let shown = reason.to_string();
    assert_harmless_lines(&shown);
    assert!(shown.len() < 8 * 1024, "a message of {} bytes", shown.len());
    shown
}
