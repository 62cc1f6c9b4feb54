//! The decision logic as a pure state machine: events and times in, commands out.
//!
//! [`Core::handle`] processes an event, [`Core::next_command`] returns the next command to execute,
//! [`Core::next_wakeup`] returns when to call [`Core::tick`] if no event arrives before, and
//! [`Core::status`] reports the complete state. The core reads no clock, file, socket, environment
//! variable or random source, so tests can exercise every behavior at any speed.

pub mod agenda;
pub mod api_error;
mod application;
pub mod backoff;
pub mod budget;
mod cause;
pub mod clock;
pub mod collect;
pub mod command;
pub mod duration;
mod ends;
pub mod event;
pub mod evidence;
pub mod fact;
pub mod failing;
mod gate;
#[cfg(feature = "page")]
pub mod history;
mod ids;
mod intake;
mod interrupted;
pub mod jitter;
pub mod kubelet;
mod machine;
pub mod memory;
mod mounts;
mod neighbours;
pub mod objects;
pub mod pace;
mod permit;
mod policy;
pub mod preflight;
pub mod random;
pub mod reason;
mod rollout;
mod rule;
pub mod shown;
pub mod slots;
pub mod snapshot;
pub mod status;
pub mod sync;
mod verified;
pub mod week;

pub use evidence::MAX_STARTUP;
pub use machine::{Core, Intervals};
pub use policy::{
    Actions, ApplicationPolicy, DrainBefore, DrainPolicy, GatePolicy, Hold, IntakePolicy, OnStart,
    PermitPolicy, Policy, PolicyVolume, RolloutPolicy, SlotPolicy, TargetName, Turns,
};
