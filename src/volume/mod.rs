//! The watched volumes: reading them, watching them, and knowing how they are mounted.

mod filter;
pub mod mount;
pub mod read;
pub mod snapshot;
mod tree;
pub mod watch;
