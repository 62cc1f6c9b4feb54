//! podnudge's access to the Kubernetes API. Nothing here is used, and no request is sent, unless a rule
//! asks for it.
//!
//! `api.rs` sends one request, and `objects.rs` those of eager sync; they read the token, the CA certificates
//! and the namespace of the pod's service account for each, and nothing else here does I/O. `lease.rs` and
//! `halts.rs` read and write the object of a Lease, `slots.rs` holds the protocol by which replicas share slots,
//! and `identity.rs` says under which name a podnudge holds them. `eager.rs` follows the objects behind the
//! volumes, whose names `sources.rs` and whose metadata `metadata.rs` reads. Changes Leases and one annotation
//! of podnudge's own pod, and evicts that.

mod api;
mod call;
mod eager;
mod error;
#[cfg(test)]
#[path = "../../tests/fuzz/cluster.rs"]
mod fuzz;
mod halts;
mod identity;
mod lease;
mod metadata;
mod objects;
mod pace;
mod pod;
mod slots;
mod sources;

pub use api::Api;
pub use eager::{Change, EagerAnswer, EagerFact, EagerRequest, EagerSync};
pub use error::ApiError;
pub use halts::Halt;
pub use identity::claims;
pub use lease::{Lease, LeaseRequest};
pub use metadata::{Listing, Metadata, WatchEvent};
pub use slots::{Slots, SlotsSettings};
pub use sources::Source;
