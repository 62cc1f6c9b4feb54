//! The decisions, as a pure machine: events and times in, commands out.

pub mod event;
pub mod fact;
pub mod status;
