//! Code shared by the tests.

pub(crate) mod agent;
#[cfg(feature = "cluster")]
pub(crate) mod api_server;
pub(crate) mod application;
pub(crate) mod http;
pub(crate) mod kubelet;
pub(crate) mod memory;
pub(crate) mod pair;
pub(crate) mod pids;
pub(crate) mod pod;
pub(crate) mod program;
pub(crate) mod publish;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod shared;
pub(crate) mod shelf;
pub(crate) mod supervisor;
pub(crate) mod trace;
pub(crate) mod wait;
#[cfg(feature = "cluster")]
pub(crate) mod watches;
pub(crate) mod world;
