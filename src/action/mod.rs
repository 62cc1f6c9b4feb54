//! What podnudge does besides signalling: HTTP requests, commands on sockets, and programs to run.

pub mod http;
pub(crate) mod socket;
