//! `podnudge plan`: what a change of content does to all replicas of a Service, without a cluster.
//!
//! Each replica is the real core (`crates/core`), with the policy of the rule, below a virtual clock: `replica.rs`
//! answers its commands. Its kubelet, its application, its endpoint and the Leases are models (`content.rs`,
//! `application.rs`, `kubelet.rs`). If replicas share slots, their part in that is the real one, too (`slots.rs`), and the
//! API server is a model (`server.rs`). One simulated rollout on all replicas is a run (`fleet.rs`): one
//! replica after the other, or all together in the order of time if they share slots. Many runs with random delays give
//! the figures (`outcome.rs`), and `advice.rs` simulates what it recommends. The same seed gives the same figures.
//! Pure: the package podnudge prints, and writes the drawing.
//!
//! A command of the core that is new needs an answer in `replica.rs`; a setting that changes how replicas share the
//! work, one in `options.rs`.

mod advice;
mod application;
mod content;
mod fleet;
mod kubelet;
mod options;
mod outcome;
mod overlap;
mod random;
mod replica;
mod requests;
mod scenario;
mod server;
mod show;
mod slots;
mod svg;
mod text;

pub use fleet::{Run, run};
pub use options::scenario;
pub use outcome::{Figures, Outcome, Point, simulate};
pub use overlap::{Span, greatest};
pub use scenario::{Scenario, Slots};
pub use show::{Shown, show};
