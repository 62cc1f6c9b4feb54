//! The watched volumes: reading them (`scan`, which performs `Scan` and `Resync`), watching them
//! (`watch`), and knowing how they are mounted (`mounts`).
//!
//! Reads the watched paths and `/proc/self/mountinfo`; changes nothing.

pub(crate) mod contents;
pub(crate) mod filter;
mod link;
pub mod mounts;
pub(crate) mod reader;
pub mod scan;
pub mod snapshot;
mod tree;
pub mod watch;
