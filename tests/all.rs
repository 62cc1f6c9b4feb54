//! All tests except those of the configuration, in one binary: it is linked once, and the shared
//! support code is compiled once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its progress"
)]

mod actions;
mod admin;
mod admission;
mod admission_sync;
mod agent;
mod applications;
mod approval;
mod chart;
mod checks;
mod checks_http;
#[cfg(feature = "tls")]
mod checks_pem;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "compat")]
mod compat;
mod drain;
mod e2e_scripts;
#[cfg(feature = "cluster")]
#[expect(clippy::unchecked_time_subtraction, reason = "a test fails by panicking")]
mod eager;
#[cfg(feature = "cluster")]
mod eager_server;
mod escaped;
#[cfg(feature = "cluster")]
mod events;
#[cfg(feature = "cluster")]
mod evict;
mod evidence;
#[cfg(feature = "compat")]
mod expand;
#[cfg(feature = "cluster")]
mod halts;
mod host_pid;
mod hostile;
mod http;
mod installed;
mod interrupted;
mod invariants;
mod kept_target;
mod killed_restart;
mod kyverno;
mod layers;
mod manifests;
#[cfg(feature = "plan")]
mod manual;
mod messages;
mod metrics;
#[cfg(feature = "compat")]
mod migration;
#[cfg(feature = "cluster")]
mod monitoring;
mod mounts;
mod neighbours;
mod orphans;
#[cfg(feature = "page")]
mod page;
mod parser;
#[cfg(feature = "compat")]
mod peers;
#[cfg(feature = "plan")]
mod plan;
mod preflight;
mod presets;
mod process;
mod programs;
#[cfg(feature = "tls")]
mod proof_by_tls;
mod proofs;
mod publish;
#[cfg(feature = "tls")]
mod readme;
mod reference;
mod regressions;
mod release;
mod restart_pod;
#[cfg(feature = "cluster")]
mod rights;
mod schema;
#[cfg(feature = "cluster")]
mod services;
mod shipped;
mod sigwait;
mod state;
mod status;
mod supervise;
mod supervised;
mod support;
#[cfg(feature = "cluster")]
mod sync_server;
mod two_podnudges;
mod volume;
mod was_read;
mod words;
mod work_dir;
mod wrappers;
