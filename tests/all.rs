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
mod checks_pem;
mod cluster;
mod compat;
mod drain;
mod e2e_scripts;
#[expect(clippy::unchecked_time_subtraction, reason = "a test fails by panicking")]
mod eager;
mod eager_server;
mod escaped;
mod events;
mod evict;
mod evidence;
mod expand;
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
mod manual;
mod messages;
mod metrics;
mod migration;
mod monitoring;
mod mounts;
mod neighbours;
mod orphans;
mod page;
mod parser;
mod peers;
mod plan;
mod preflight;
mod presets;
mod process;
mod programs;
mod proof_by_tls;
mod proofs;
mod publish;
mod readme;
mod reference;
mod regressions;
mod release;
mod restart_pod;
mod rights;
mod schema;
mod services;
mod shipped;
mod sigwait;
mod state;
mod status;
mod supervise;
mod supervised;
mod support;
mod sync_server;
mod two_podnudges;
mod volume;
mod was_read;
mod words;
mod work_dir;
mod wrappers;
