//! What the program needs to know, fully decided: every default is filled in, every file name,
//! number, pattern and URL has been checked.
//!
//! `define.rs` says what a setting is; each table of the file has its definitions in a file of its own
//! (`agent.rs`, `rule.rs`, `action.rs`, …), and what must fit together beside them. `raw.rs` is the file
//! and the options as a tree, `table.rs` reads it by the definitions, `write.rs` writes it again.
//! All of this is pure; `load.rs` does the reading.

#[macro_use]
mod define;
#[macro_use]
mod settings;
mod action;
mod agent;
mod check;
mod file;
mod hold;
mod load;
mod options;
mod place;
mod problem;
mod program;
mod publish;
mod raw;
mod relations;
mod request;
mod rule;
mod schema;
mod socket;
mod table;
mod target;
mod types;
mod verify;
mod waits;

mod write;

pub use action::{Action, Budget, Restart, SignalAction, Step};
pub use agent::{Agent, Listen, LogFormat, LogLevel, ReloadEndpoint, WatchMode};
pub use check::{Check, Condition, Syntax};
pub use define::{CommandLine, Definition, Form, Heading, Presence, Relation, Section};
pub use file::{Config, FILE, File, effective, parse};
pub use hold::Hold;
pub use load::{LoadError, Sources, load};
pub use options::{Flag, flags};
pub(crate) use problem::nearest;
pub use problem::{At, Problem, Problems};
pub use program::Program;
pub use publish::Publish;
pub use raw::{Override, Overrides};
pub use request::{Auth, Body, ClientCertificate, Endpoint, HttpAction, HttpCheck, Tls};
pub use rule::{KeyFilter, Rule, RuleSettings};
pub use schema::schema;
pub use socket::{SocketAddress, SocketCommand};
pub use target::{Target, TargetBy};
pub(crate) use types::{bounded_duration, url};
pub use verify::{BodyProof, HttpProof, ProofBy, Scalar, Verify};
pub use waits::{Jitter, JitterBy, OnStart, Retry};
