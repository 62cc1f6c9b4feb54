//! Fuzzing on the stable compiler: seeds, mutations of them, and a check of each input, in the process
//! of the test. Every parser and every reader of a protocol has a target.
//!
//! The targets are compiled into the own tests of the library that they fuzz, each beside its module (`#[path]` in
//! `src/`): parsers are private, and need not be public for this. A target asserts more
//! than the absence of a panic: that a second implementation gives the same verdict, that what was
//! printed can be read back, that what is shown has no control characters.
//!
//! An input that gives an outcome of a new kind becomes a seed, so that mutations reach deeper. All of
//! it follows from a seed. In `cargo test` each target gets a fixed number of inputs. By hand:
//! `FUZZ_SECONDS=60 cargo test --lib fuzz -- --nocapture` gives each target that time, and `FUZZ_SEED`
//! other inputs. `FUZZ_KEEP=FILE` writes each input to `FILE.TARGET` before it is checked, for what ends
//! the process, such as an overflow of the stack.

mod harness;
mod texts;
mod weeks;

pub(crate) mod exposition;
pub(crate) mod loopback;

pub(crate) use harness::{
    Target, assert_harmless, assert_harmless_lines, assert_reason, fuzz, text, words,
};

/// Two parts of an input: its first line, and the rest.
pub(crate) fn first_line(input: &[u8]) -> (String, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (text(&input[..end]), input.get(end + 1..).unwrap_or_default())
}
