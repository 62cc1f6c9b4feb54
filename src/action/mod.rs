//! Performs `Act` (`act`): a signal, HTTP requests, commands on sockets, programs, a restart. A file
//! for each kind of action says what its outcome means.
//!
//! Reads `/proc` and the files that requests name; changes what the actions change.

mod act;
pub mod http;
mod program;
mod progress;
mod restart;
mod signal;
mod socket;

pub(crate) use act::act;
