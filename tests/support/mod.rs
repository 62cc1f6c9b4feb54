//! Code shared by the tests.

#[cfg(feature = "cluster")]
pub(crate) mod access;
pub(crate) mod agent;
#[cfg(feature = "cluster")]
pub(crate) mod api_server;
pub(crate) mod application;
#[cfg(feature = "tls")]
pub(crate) mod certificate;
pub(crate) mod cgroups;
pub(crate) mod http;
pub(crate) mod kubelet;
pub(crate) mod manifests;
pub(crate) mod memory;
pub(crate) mod pids;
pub(crate) mod pod;
/// The policies of the tests of the core.
#[path = "../../crates/core/tests/support/policies.rs"]
pub(crate) mod policies;
pub(crate) mod program;
pub(crate) mod publish;
#[path = "../../crates/core/tests/support/random.rs"]
pub(crate) mod random;
#[cfg(feature = "cluster")]
pub(crate) mod rights;
pub(crate) mod shared;
pub(crate) mod supervisor;
#[cfg(all(feature = "cluster", feature = "tls"))]
pub(crate) mod tls_server;
pub(crate) mod wait;
#[cfg(feature = "cluster")]
pub(crate) mod watches;
pub(crate) mod yaml;
