//! All tests of the core, in one binary: no clock, no file but what a scenario expects, no process.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unchecked_time_subtraction,
    reason = "a test fails by panicking, and prints its progress"
)]

mod certificates;
mod fleet;
mod fleet_slots;
#[cfg(feature = "page")]
mod history;
mod lasting;
mod other_rules;
mod properties;
mod properties_of_pairs;
mod properties_of_slots;
mod scenarios;
mod slots;
mod support;
mod sync;
