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
//! Invariants, each enforced by a test or a lint:
//!
//! 1. The pure modules do no I/O and read no clock.
//! 2. Only [`run`] spawns tasks or selects; only `main.rs` and [`system::stderr`] print; only `main.rs` exits.
//! 3. Only [`volume`], [`checks`] and [`publish`] handle file contents, except for the requests of
//!    checks by URLs; all other modules get digests and key names.
//! 4. A commit may be noticed late, never missed.
//! 5. No action is repeated for a digest unless it failed or was triggered.
//! 6. Errors at run time are reported and podnudge continues; only errors at start end it.

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
