//! podnudge's access to the Kubernetes API. Nothing here is used, and no request is sent, unless the configuration asks
//! for it: by `lease`, `services`, `restart = "evict"`, `eager-sync` or `events`.
//!
//! `api.rs` sends one request, `leases.rs` those about Leases, `objects.rs` those of eager sync, and `reviews.rs` those about podnudge's rights; they
//! read the token, the CA certificates and the namespace of the pod's service account for each, and nothing else here
//! does I/O. `rights.rs` has the rights that each feature needs. The protocol by which
//! replicas share slots is in the core (`slots.rs` there), and `identity.rs` says under which name a podnudge holds them. `eager.rs` follows the objects behind the
//! volumes, whose names `sources.rs` reads, and whose metadata the core (`objects.rs` there). `sync.rs` has the requests of `podnudge sync`. `events.rs` says which facts become
//! Events. Changes Leases and one annotation of podnudge's own pod, evicts that, and creates Events about it.
//!
//! Each user of it has a file in `run/api/` with an access of its own (`run/api/access.rs`), whose requests end when
//! podnudge stops. What any answer says of the API server itself goes to all rules (`Event::ApiServer`):
//! `permit/outage.rs` holds drains back after an outage. Without the feature `cluster`, `run/no_api.rs`
//! stands for these users.

mod api;
mod call;
mod eager;
mod endpoint_slices;
mod events;
#[cfg(test)]
#[path = "../../tests/fuzz/cluster.rs"]
mod fuzz;
mod identity;
mod leases;
mod objects;
mod own_pod;
mod reviews;
mod rights;
mod sources;
mod sync;
mod watch;

pub use api::Api;
pub use eager::{Change, EagerAnswer, EagerFact, EagerRequest, EagerSync, Spread};
pub use endpoint_slices::Listed;
pub use events::{EventReason, EventsFact, PodEvent, PodEvents, of_fact, of_slot};
pub use identity::unknown_pod;
pub use leases::{LeaseSeen, LeaseWatch};
pub use own_pod::OwnPod;
pub use rights::{Feature, Need, Right, Rights, RightsPreflight, needs, object_rights};
pub use sources::Source;
