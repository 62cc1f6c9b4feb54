//! The watched volumes: reading them, watching them, and knowing how they are mounted.

pub mod check;
mod contents;
pub mod copy;
mod filter;
mod link;
pub mod mount;
#[cfg(feature = "tls")]
mod pem;
pub mod publish;
pub mod read;
pub mod snapshot;
mod tree;
pub mod watch;
