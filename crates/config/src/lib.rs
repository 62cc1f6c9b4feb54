//! The configuration: defaults are filled in, and every path, number, pattern and URL is valid.
//!
//! `define.rs` holds the definition of a setting, and `settings.rs` the macro that declares a table of
//! them. Each table has its own file (`agent.rs`, `rule.rs`, `action.rs`, …), which also checks how its
//! settings fit together. `tree.rs` parses the file, `overlay.rs` adds options and environment variables,
//! `table.rs` reads the tree by the definitions, and `write.rs` writes the effective configuration.
//! `preset.rs` and `late_preset.rs` add what is known of applications, and `policy.rs` makes the core's
//! policy of a rule.
//!
//! Pure: it gets the text of the file, and returns a configuration or problems.

mod define;
#[macro_use]
mod settings;
mod short;
#[macro_use]
mod words;
mod action;
mod agent;
mod check;
mod cluster;
mod content_file;
mod drain;
mod expand;
mod file;
#[cfg(test)]
#[path = "../../../tests/fuzz/harness/mod.rs"]
mod fuzz;
#[cfg(test)]
#[path = "../../../tests/fuzz/values.rs"]
mod fuzz_values;
mod hold;
mod keys;
mod late_preset;
mod limit;
mod options;
mod overlay;
mod parsers;
mod place;
mod pod_end;
mod policy;
mod prelude;
mod preset;
mod problem;
mod program;
mod publish;
mod reads;
mod relations;
mod request;
mod risk;
mod rule;
mod schema;
mod socket;
#[cfg(feature = "cluster")]
mod sync;
mod table;
mod target;
mod tree;
mod types;
mod verify;
mod waits;
mod write;
mod yaml;

pub use action::{Action, OnFailure, Restart, RestartOf, SignalAction};
pub use agent::{Agent, DigestsInMetrics, Listen, LogFormat, LogLevel, ReloadEndpoint, WatchMode};
pub use check::{Check, CheckBy, Condition, Syntax};
pub use cluster::Cluster;
pub use content_file::ContentFile;
pub use define::{CommandLine, Definition, Form, Heading, Presence, Relation, Section, Single};
pub use expand::Expand;
pub use file::{Config, FILE, File, Translated, effective, parse, parse_with_zones};
pub use hold::{ApproveBefore, Hold};
pub use keys::{KeyFilter, SMALL};
pub use late_preset::NEEDS_ALL;
pub use limit::{Limit, OnUnreachable, Share};
pub use options::{Flag, flags};
pub use overlay::{Override, Overrides};
pub use parsers::{is_label, is_subdomain, url};
pub use preset::{Preset, preset, presets};
pub use problem::{At, Origin, Problem, Problems, nearest};
pub use program::Program;
pub use publish::Publish;
pub use request::{
    Auth, Basic, Body, ClientCertificate, Endpoint, HttpAction, HttpCheck, Tls, without_query,
};
pub use rule::{Rule, RuleSettings};
pub use schema::schema;
pub use socket::{SocketAddress, SocketCommand};
#[cfg(feature = "cluster")]
pub use sync::{SECRET, SYNC_OPTIONS, SyncOptions};
pub use target::{Target, TargetBy};
#[cfg(feature = "tls")]
pub use verify::TlsProof;
pub use verify::{BodyProof, HttpProof, ProofBy, Scalar, Verify};
