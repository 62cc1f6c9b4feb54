//! podnudge watches the mounted ConfigMaps and Secrets of a pod and makes the application beside
//! it take the new content.
//!
//! The modules in reading order: what is configured ([`config`]), what is decided ([`core`]),
//! what is watched ([`volume`]), whom it concerns ([`process`]), what is done ([`action`],
//! [`verify`]), what is shown ([`admin`]), and the loop that joins them ([`run`]).
//!
//! Invariants, each held by a test or by a lint:
//!
//! 1. The pure modules do no I/O and read no clock.
//! 2. Only [`run`] spawns or selects; only `main.rs` prints or exits.
//! 3. File contents never leave [`volume`], but for the copies and requests of checks that ask
//!    for them: digests and key names only.
//! 4. A commit may be noticed late, never missed.
//! 5. No action twice for one digest unless it failed or was forced.
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
