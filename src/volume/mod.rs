//! The watched volumes: reads them (`scan`, which performs `Scan` and `Resync`), watches them
//! (`watch`), reads how they are mounted (`mounts`), and expands a file of them (`expand`).
//!
//! Reads the watched paths, `/proc/self/mountinfo` and the environment; changes nothing.

pub(crate) mod contents;
#[cfg(feature = "compat")]
pub(crate) mod expand;
pub(crate) mod filter;
#[cfg(test)]
#[path = "../../tests/fuzz/volume.rs"]
mod fuzz;
mod glob;
pub(crate) mod known;
mod level;
mod link;
pub mod mounts;
pub mod naming;
pub(crate) mod reader;
pub(crate) mod reads;
pub mod scan;
mod tree;
pub mod watch;
