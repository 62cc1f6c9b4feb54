//! Queues of blocking file system work: one for reading volumes, one for writing the publish and
//! state directories. So a rule with a large volume does not delay another rule's rollback.

use std::panic;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};

use super::agent::Done;

/// A thread for each queue, and one for the name resolver.
pub(super) const THREADS: usize = 3;

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
