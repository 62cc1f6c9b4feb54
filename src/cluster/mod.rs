//! podnudge's access to the Kubernetes API. Nothing here is used, and no request is sent, unless a rule
//! asks for it.
//!
//! `api.rs` sends one request; it reads the token, the CA certificates and the namespace of the pod's
//! service account for each, and nothing else here does I/O. `lease.rs` and `halts.rs` read and write the
//! object of a Lease, `slots.rs` holds the protocol by which replicas share slots, and `identity.rs` says
//! under which name a podnudge holds them. Changes Leases only.

mod api;
mod call;
mod error;
#[cfg(test)]
#[path = "../../tests/fuzz/cluster.rs"]
mod fuzz;
mod halts;
mod identity;
mod lease;
mod pod;
mod slots;

pub use api::Api;
pub use error::ApiError;
pub use halts::Halt;
pub use identity::claims;
pub use lease::{Lease, LeaseRequest};
pub use slots::{Slots, SlotsSettings};
