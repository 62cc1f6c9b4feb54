//! Runs podnudge: the only `select!`, the only place that spawns tasks, the only clock.
//!
//! The loop (`event_loop.rs`) passes events to the core and performs the core's commands. One queue of work
//! on threads reads volumes, another writes the publish and state directories; requests are tasks. Each of
//! them returns its result to the loop as a `Done`.

mod agent;
mod answers;
#[cfg(feature = "cluster")]
mod api;
#[cfg(not(feature = "cluster"))]
#[path = "no_api.rs"]
mod api;
mod clock;
mod commands;
mod connections;
mod digests;
mod done;
mod event_loop;
mod exits;
#[cfg(feature = "compat")]
mod expand;
mod facts;
mod locks;
mod once;
mod pause;
mod pod_end;
mod preset;
mod queues;
#[cfg(feature = "compat")]
mod reloads;
#[cfg(feature = "cluster")]
mod sync;
mod volumes;

use tokio::runtime::Runtime;
use tracing::info;

use crate::admin::bind::BindError;
use crate::checks;
use crate::exchange::children;
use crate::publish::{self, PublishError};
use crate::state::StateDir;
use crate::system::exit::Exit;
use crate::system::os_signals::OsSignals;
use crate::system::surroundings::Surroundings;
use agent::Agent;
pub use clock::sleep;
use connections::Listeners;
use digests::NamingKey;
pub use once::{OnceError, once};
use podnudge_config::Config;
use podnudge_core::jitter::Replica;
#[cfg(feature = "cluster")]
pub use sync::sync;

/// Why podnudge ends without having been asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configured admin address cannot be used.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A publish directory cannot be used.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The handlers of podnudge's own signals cannot be installed.
    #[error("cannot install signal handlers")]
    Signals(#[source] std::io::Error),
    /// There is no key for the names of content.
    #[error("cannot get random numbers from the kernel")]
    Random(#[source] std::io::Error),
    /// The event loop cannot be created.
    #[error("cannot start the event loop")]
    Runtime(#[source] std::io::Error),
}

impl RunError {
    /// The exit code of the process.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Publish(_) => Exit::Config,
            Self::Bind(_) | Self::Signals(_) | Self::Random(_) | Self::Runtime(_) => {
                Exit::Unavailable
            }
        }
    }

    /// How the operator can fix it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bind(error) => error.reason().hint,
            Self::Publish(error) => error.hint(),
            Self::Random(_) => {
                Some("the seccomp profile must allow the system call `getrandom`".to_owned())
            }
            Self::Signals(_) | Self::Runtime(_) => None,
        }
    }
}

/// Runs a future to completion. Work that still runs on threads then, such as a read from a hung file
/// system, is abandoned: podnudge must end when it is asked to.
///
/// # Errors
/// If no file descriptors are left for the event loop.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, RunError> {
    let runtime = runtime()?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    // The programs that were abandoned just now, too.
    children::end_left();
    Ok(output)
}

/// Builds the event loop's runtime, on the calling thread. Work that blocks has threads of its own
/// (`system/threads.rs`); tokio's resolve names for `podnudge status` and `trigger` only.
///
/// # Errors
/// If no file descriptors are left for it.
pub fn runtime() -> Result<Runtime, RunError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .map_err(RunError::Runtime)
}

/// Runs until podnudge is asked to stop, or ends to have its pod restarted: with this exit code.
///
/// # Errors
/// If the listener or a publish directory cannot be used.
pub async fn run(
    config: Config,
    replica: Replica,
    surroundings: Surroundings,
) -> Result<Option<u8>, RunError> {
    let mut signals = OsSignals::register().map_err(RunError::Signals)?;
    let state = config.agent.state_dir.as_deref().map(StateDir::open);
    let key = NamingKey::open(&config, state.as_ref()).map_err(RunError::Random)?;
    let listeners = Listeners::open(config.agent.listen(), config.agent.resync)?.with_own_socket();
    let locks = tokio::select! {
        biased;
        () = signals.stopped() => {
            info!(event = "stopped", "podnudge has stopped");
            return Ok(None);
        }
        locks = locks::acquire(&config.rules, None) => locks?,
    };
    config
        .rules
        .iter()
        .for_each(|rule| checks::remove_leftover_copies(rule, &config.agent.work_dir));
    let published = config.rules.iter().map(|rule| publish::open(rule, clock::now()));
    let published = published.collect::<Result<Vec<_>, PublishError>>()?;
    let mut agent = Agent::new(config, (state, key), published, &replica, &surroundings);
    let exit_code = agent.run(signals, listeners).await;
    drop(locks);
    info!(event = "stopped", exit_code, "podnudge has stopped");
    Ok(exit_code)
}
