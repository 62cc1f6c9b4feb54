//! The admin port, and its client for `podnudge status`, `trigger`, `approve`, `pause` and `resume`.

mod ask;
pub mod bind;
mod caller;
pub mod client;
#[cfg(test)]
#[path = "../../tests/fuzz/admin.rs"]
mod fuzz;
pub mod metrics;
pub mod order;
mod own_process;
#[cfg(feature = "page")]
pub mod page;
pub mod process_metrics;
#[cfg(feature = "compat")]
mod reloader;
mod respond;
mod series;
pub mod server;
pub mod status_table;
#[cfg(feature = "cluster")]
mod sync;
#[cfg(feature = "cluster")]
pub mod sync_metrics;
