//! The admin port, and its client for `podnudge status` and `podnudge trigger`.

pub mod client;
pub mod metrics;
pub mod server;
pub mod table;
