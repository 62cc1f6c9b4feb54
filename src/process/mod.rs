//! The target process: finding it (`find`), finding out when it may have read its configuration
//! (`config_read`, and `inspect`, which performs `Inspect`), and signalling that process and no
//! other (`signal`, `terminate`; `below_supervise` for a restart by `podnudge supervise`).
//!
//! Reads `/proc`; changes nothing except by the signals of a rule.

pub(crate) mod below_supervise;
mod candidates;
pub mod children;
mod config_read;
mod context;
mod ends;
pub(crate) mod exit_watch;
mod find;
#[cfg(test)]
#[path = "../../tests/fuzz/process.rs"]
mod fuzz;
mod handling;
mod inspect;
mod last_targets;
pub mod marks;
mod node;
mod pin;
mod prefer;
mod preset;
pub mod proc;
mod reach;
mod restarts;
pub mod select;
pub mod signal;
mod sigwait;
mod starter;
mod takers;
mod target_cache;
mod terminate;
mod texts;
mod wrapper;

pub(crate) use below_supervise::Supervised;
pub(crate) use candidates::{View, view_of};
pub(crate) use context::Context;
pub use find::TargetProcess;
pub(crate) use find::{
    age_of_oldest_candidate, all_read_config_after, find, find_cached, find_to_restart, names,
    others, remember_container, roots, running_targets, targets, why,
};
pub(crate) use inspect::inspect;
pub use pin::Pin;
pub use podnudge_supervise::{Identity, ProcessState, is_alive, process_state};
pub(crate) use preset::choose_preset;
pub(crate) use proc::{age, now};
pub(crate) use reach::{Reach, Way, reach};
pub use select::Refusal;
pub(crate) use terminate::terminate;
