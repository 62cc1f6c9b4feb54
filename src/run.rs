//! Running: the only `select!`, the only place that spawns, the only clock.
//!
//! The loop (`agent.rs`) carries events to the core and does what the core asks for. Volumes are
//! read on one blocking thread, what is published is written on another, requests are tasks; what they find comes back as a `Done`.

mod agent;
mod answers;
mod clock;
mod commands;
mod connections;
mod endings;
mod lanes;
mod locks;
mod looks;
mod once;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use crate::admin::server::{self, BindError};
use crate::checks;
use crate::config::{Config, Listen};
use crate::core::jitter::Replica;
use crate::exit::Exit;
use crate::os_signals::OsSignals;
use crate::publish::{self, PublishError};
use crate::state::{StateDir, StateDirError};
use agent::Agent;
pub use once::{OnceError, once};

/// Why podnudge ends other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The admin listener cannot be had, and was asked for.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateDirError),
    /// A publish directory cannot be used.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The handlers of podnudge's own signals cannot be installed.
    #[error("cannot install signal handlers")]
    Signals(#[source] std::io::Error),
    /// There is no event loop to be had.
    #[error("cannot start the event loop")]
    Runtime(#[source] std::io::Error),
}

impl RunError {
    /// How the process ends.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::State(_) | Self::Publish(_) => Exit::Config,
            Self::Bind(_) | Self::Signals(_) | Self::Runtime(_) => Exit::Unavailable,
        }
    }

    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bind(error) => error.reason().hint,
            Self::State(error) => Some(error.hint()),
            Self::Publish(error) => error.hint(),
            Self::Signals(_) | Self::Runtime(_) => None,
        }
    }
}

/// Runs a future to its end. What still blocks then, such as a volume on a file system that hangs,
/// is left behind: podnudge ends when it is told to.
///
/// # Errors
/// If the system has no descriptors left for the event loop.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, RunError> {
    let runtime = runtime()?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(output)
}

/// The event loop's runtime: one thread for the loop, and those that wait for file systems.
///
/// # Errors
/// If the system has no descriptors left for it.
pub fn runtime() -> Result<Runtime, RunError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(lanes::THREADS)
        .build()
        .map_err(RunError::Runtime)
}

/// Runs until podnudge is told to end.
///
/// # Errors
/// If something is missing at start that podnudge cannot do without.
pub async fn run(config: Config, replica: Replica) -> Result<(), RunError> {
    let signals = OsSignals::register().map_err(RunError::Signals)?;
    let state = config.agent.state_dir.as_deref().map(StateDir::open).transpose()?;
    let listener = listen(&config)?;
    let locks = locks::take(&config.rules, None).await?;
    config.rules.iter().for_each(|rule| checks::clean(rule, &config.agent.work_dir));
    let published = config.rules.iter().map(|rule| publish::open(rule, clock::now()));
    let published = published.collect::<Result<Vec<_>, PublishError>>()?;
    let mut agent = Agent::new(config, state, published, &replica);
    agent.run(signals, listener).await;
    drop(locks);
    info!(event = "stopped", "podnudge has ended");
    Ok(())
}

/// The admin listener; at the default address a port in use is no reason to end.
fn listen(config: &Config) -> Result<Option<TcpListener>, BindError> {
    match server::bind(config.agent.listen()) {
        Err(error) if matches!(config.agent.listen(), Listen::Default(_)) => {
            let reason = error.reason();
            warn!(
                event = "not-listening",
                reason = reason.message,
                hint = reason.hint,
                "/metrics, /livez, /readyz and /status are not served"
            );
            Ok(None)
        }
        other => other,
    }
}
