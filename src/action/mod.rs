//! Performs `Act` (`act`): a signal, HTTP requests, socket commands, programs, or a restart of
//! the target or of the pod. One
//! file for each kind of action maps its outcome to a result.
//!
//! Reads `/proc` and the files that requests name; has the effects of the actions.

mod act;
pub mod http;
mod pod_end;
mod prepare;
mod program;
mod progress;
mod restart;
mod signal;
mod socket;

pub(crate) use act::{act, refuse_if_late};
