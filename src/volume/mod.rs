//! The watched volumes: reads them (`scan`, which performs `Scan` and `Resync`), watches them
//! (`watch`), and reads how they are mounted (`mounts`).
//!
//! Reads the watched paths and `/proc/self/mountinfo`; changes nothing.

pub(crate) mod contents;
pub(crate) mod filter;
#[cfg(test)]
#[path = "../../tests/fuzz/volume.rs"]
mod fuzz;
mod glob;
mod link;
pub mod mounts;
pub mod naming;
pub(crate) mod reader;
pub(crate) mod reads;
pub mod scan;
mod tree;
pub mod watch;
