//! `podnudge plan`: what a change of content does to all replicas of a Service, without a cluster.
//!
//! Each replica is the real core (`core/`) below a virtual clock. Its kubelet, its application, its
//! endpoint and the Leases are models (`content.rs`, `application.rs`, `kubelet.rs`, `leases.rs`). One simulated rollout on
//! all replicas is a run (`fleet.rs`); many runs with random delays give the figures (`outcome.rs`). The
//! same seed gives the same figures. Pure: `main.rs` prints, and writes the drawing.

mod advice;
mod application;
mod content;
mod fleet;
mod kubelet;
mod leases;
mod options;
mod outcome;
mod overlap;
mod random;
mod replica;
mod requests;
mod scenario;
mod show;
mod svg;
mod text;

pub use fleet::{Run, run};
pub use options::{Options, scenario};
pub use outcome::{Figures, Outcome, Point, simulate};
pub use overlap::{Span, greatest};
pub use scenario::{Restarts, Scenario, Slots};
pub use show::{Shown, show};
