//! podnudge watches the mounted `ConfigMap`s and `Secret`s of a pod and makes the application beside
//! it take the new content.

pub mod action;
pub mod admin;
pub mod cli;
pub mod config;
pub mod core;
pub mod exit;
pub mod process;
pub mod volume;
