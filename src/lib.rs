//! podnudge watches the mounted ConfigMaps and Secrets of a pod and makes the application beside
//! it take the new content.
//!
//! The modules in reading order: what is configured ([`config`]), what is decided ([`core`]), who
//! performs what the core asks for, a module for each command ([`volume`] for `Scan` and `Resync`,
//! [`checks`] for `Check`, [`process`] for `Inspect`, [`publish`] for `Publish`, `RollBack` and
//! `Approve`, [`action`] for `Act`, [`verify`] for `Verify`; [`exchange`] is what several of them use),
//! what is shown ([`admin`]), and the loop that joins them ([`run`]).
//!
//! Modules import one way: run → what performs commands → core → clock, reason. A test reads the source.
//!
//! Invariants, each held by a test or by a lint:
//!
//! 1. The pure modules do no I/O and read no clock.
//! 2. Only [`run`] spawns or selects; only `main.rs` prints or exits.
//! 3. File contents never leave [`volume`], [`checks`] and [`publish`], but for the requests of checks
//!    that ask for them: digests and key names only.
//! 4. A commit may be noticed late, never missed.
//! 5. No action twice for one digest unless it failed or was triggered.
//! 6. What fails at run time degrades and shows; only a bad start ends podnudge.

pub mod action;
pub mod admin;
pub mod checks;
pub mod cli;
pub mod clock;
pub mod config;
pub mod core;
pub mod exchange;
pub mod exit;
mod files;
pub mod install;
pub mod logs;
pub mod os_signals;
mod pause;
pub mod process;
pub mod publish;
pub mod reason;
mod report;
pub mod run;
mod shown;
pub mod state;
pub mod verify;
pub mod volume;
pub mod week;
