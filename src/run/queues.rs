//! Queues of blocking file system work: one for reading volumes, one for writing the publish and
//! state directories. So a rule with a large volume does not delay another rule's rollback.

use std::net::IpAddr;
use std::panic;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};

use super::agent::Done;
use crate::config::{Config, Rule};

/// The blocking threads that a configuration needs: one for each queue, and one for the resolver if an
/// URL has a host name. Tokio would start one more if a job comes while a thread finishes another one.
#[must_use]
pub fn blocking_threads(config: &Config) -> usize {
    let writes = config.agent.state_dir.is_some()
        || config.rules.iter().any(|rule| rule.settings.publish.is_some());
    let resolves = config.rules.iter().flat_map(Rule::endpoints).any(|endpoint| {
        let host = endpoint.url.host_str().unwrap_or_default();
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        endpoint.unix_socket.is_none() && !is_address
    });
    1 + usize::from(writes) + usize::from(resolves)
}

/// Runs jobs one after the other, in order of arrival, on a blocking thread.
#[derive(Debug, Default)]
pub(super) struct BlockingQueue(Arc<Mutex<()>>);

impl BlockingQueue {
    /// Queues a job; its result becomes the result of a task in `tasks`.
    pub(super) fn submit(
        &self,
        tasks: &mut JoinSet<Done>,
        work: impl FnOnce() -> Done + Send + 'static,
    ) {
        // One kind of task for all of them: each kind costs some KiB of the binary.
        tasks.spawn(run_in_order(Arc::clone(&self.0), Box::new(work)));
    }
}

async fn run_in_order(queue: Arc<Mutex<()>>, work: Box<dyn FnOnce() -> Done + Send>) -> Done {
    let turn = queue.lock_owned().await;
    let done = spawn_blocking(work).await;
    drop(turn);
    done.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))
}
