//! The target process: finding it (`find`), finding out when it may have read its configuration
//! (`since`, and `inspect`, which performs `Inspect`), and signalling that process and no other
//! (`signal`, `terminate`).
//!
//! Reads `/proc`; changes nothing except by the signals of a rule.

pub mod children;
mod context;
pub(crate) mod ending;
mod find;
mod identity;
mod inspect;
mod kept;
mod life;
pub mod proc;
mod restarts;
pub mod select;
pub mod signal;
mod since;
mod terminate;

pub(crate) use context::Context;
pub use find::Chosen;
pub(crate) use find::{all_read_after, find, names, recall, roots, targets};
pub use identity::Identity;
pub(crate) use inspect::inspect;
pub use life::{Life, life};
pub(crate) use proc::age;
pub use select::Refusal;
pub(crate) use terminate::terminate;
