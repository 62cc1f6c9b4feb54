//! What podnudge shows of itself over HTTP, and how `podnudge status` reads it.

pub mod client;
pub mod metrics;
pub mod server;
pub mod table;
