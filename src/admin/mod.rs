//! The admin port, and its client for `podnudge status` and `podnudge trigger`.

mod caller;
pub mod client;
#[cfg(test)]
#[path = "../../tests/fuzz/admin.rs"]
mod fuzz;
pub mod metrics;
mod own_process;
#[cfg(feature = "page")]
pub mod page;
pub mod process_metrics;
#[cfg(feature = "compat")]
mod reloader;
mod series;
pub mod server;
pub mod table;
