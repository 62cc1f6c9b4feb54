//! podnudge watches the mounted ConfigMaps and Secrets of a pod and makes the application in the
//! same pod reload them.
//!
//! The modules in reading order: the configuration ([`podnudge_config`]), the decisions ([`podnudge_core`]), the
//! modules that perform the core's commands ([`volume`] for `Scan` and `Resync`, [`checks`] for
//! `Check`, [`process`] for `Inspect`, [`publish`] for `Publish`, `RollBack` and `Approve`,
//! [`action`] for `Act`, [`verify`] for `Verify`; several of them use [`exchange`]), the status
//! ([`admin`]), and the loop that joins them ([`run`]). [`podnudge_tools`] has what no pod needs, and
//! [`podnudge_supervise`] is the init of the application's container.
//!
//! Imports go one way: run → modules for commands → core → clock, reason. A test checks this.
//!
//! The invariants are in ARCHITECTURE.md, under "Layers"; `tests/invariants.rs` and `tests/layers.rs` check them.

pub mod action;
pub mod admin;
pub mod checks;
pub mod cli;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod exchange;
#[cfg(test)]
#[path = "../tests/fuzz/mod.rs"]
mod fuzz;
pub mod preflight;
pub mod process;
pub mod publish;
pub mod report;
pub mod run;
pub mod state;
pub mod system;
pub mod verify;
pub mod volume;
