//! What each target of the fuzzer needs: see `../mod.rs`. The crates of the workspace that have targets of their own
//! include this file.

#![expect(clippy::print_stdout, reason = "a run by hand shows its figures")]

mod mutate;
mod random;
mod runner;
mod shrink;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use runner::{Target, fuzz};

/// The words of a format. Besides: `numbers`, at which arithmetic goes wrong, and `nasty`, which escaping and cutting
/// must survive.
pub(crate) fn words(format: &str) -> &'static [&'static str] {
    static WORDS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let words =
            serde_json::from_str::<BTreeMap<String, Vec<String>>>(include_str!("../words.json"))
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

/// Whether a terminal or a log would act on a character instead of showing it.
fn controls(c: char) -> bool {
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
