//! podnudge watches the mounted ConfigMaps and Secrets of a pod and makes the application beside
//! it take the new content.

pub mod action;
pub mod admin;
pub mod config;
pub mod core;
pub mod process;
pub mod volume;
