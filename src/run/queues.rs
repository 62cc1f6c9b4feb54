//! Queues of blocking file system work: one for reading volumes, one for writing the publish and
//! state directories. So a rule with a large volume does not delay another rule's rollback.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tracing::warn;

use super::agent::Done;
use super::clock;
use crate::system::threads::Thread;

/// The time between two attempts to start a thread.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs jobs one after the other, in order of arrival, each on a thread of its own.
#[derive(Debug)]
pub(super) struct BlockingQueue(Arc<State>);

#[derive(Debug)]
struct State {
    /// Held by the job that runs.
    turn: Mutex<()>,
    /// Closed when podnudge stops: from then on, no job waits for a thread.
    may_wait: Semaphore,
}

impl Default for BlockingQueue {
    fn default() -> Self {
        Self(Arc::new(State { turn: Mutex::default(), may_wait: Semaphore::new(0) }))
    }
}

impl BlockingQueue {
    /// Whether a job runs or waits for a thread.
    pub(super) fn is_busy(&self) -> bool {
        self.0.turn.try_lock().is_err()
    }

    /// podnudge is asked to stop: a job for which there is no thread is abandoned.
    pub(super) fn stop_waiting(&self) {
        self.0.may_wait.close();
    }

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

async fn run_in_order(queue: Arc<State>, work: Box<dyn FnOnce() -> Done + Send>) -> Done {
    let _turn = queue.turn.lock().await;
    let thread = tokio::select! {
        // It is tried at least once.
        biased;
        thread = thread() => thread,
        // It has no permits, so this only ends when it is closed.
        _ = queue.may_wait.acquire() => return Done::Abandoned,
    };
    thread.run(work).await
}

/// Starts a thread for one piece of work. Where the kernel gives none, waits until it does: podnudge
/// must not end because the application has used up the processes of the pod.
pub(super) async fn thread() -> Thread {
    let mut is_said = false;
    loop {
        match Thread::start() {
            Ok(thread) => return thread,
            Err(error) if !is_said => {
                let hint = "the pod, or the node, has as many processes as it may: see the limit of the kubelet on pids";
                warn!(event = "no-thread", %error, hint, "cannot start a thread; trying again");
                is_said = true;
            }
            Err(_) => {}
        }
        clock::sleep(RETRY_INTERVAL).await;
    }
}
