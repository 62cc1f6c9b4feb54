//! The watched volumes: reading them, watching them, and knowing how they are mounted.

pub mod snapshot;
