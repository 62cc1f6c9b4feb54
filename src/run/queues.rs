//! Queues of blocking file system work: one for reading volumes, one for writing the publish and
//! state directories. So a rule with a large volume does not delay another rule's rollback.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tracing::warn;

use super::agent::Done;
use super::clock;
use crate::system::threads::{self, Thread};

/// The time between two attempts to start a thread.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs jobs one after the other, in the order in which they were submitted, each on a thread of its own.
#[derive(Debug)]
pub(super) struct BlockingQueue {
    /// Closed when the job that was submitted last has ended: its task holds the other end.
    last: Option<Receiver<()>>,
    /// Closed when podnudge stops: from then on, no job waits for a thread. Each job that has not ended holds a
    /// reference.
    may_wait: Arc<Semaphore>,
}

impl Default for BlockingQueue {
    fn default() -> Self {
        Self { last: None, may_wait: Arc::new(Semaphore::new(0)) }
    }
}

impl BlockingQueue {
    /// Whether a job was submitted that has not ended.
    pub(super) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.may_wait) > 1
    }

    /// podnudge is asked to stop: a job for which there is no thread is abandoned.
    pub(super) fn stop_waiting(&self) {
        self.may_wait.close();
    }

    /// Queues a job; its result becomes the result of a task in `tasks`.
    pub(super) fn submit(
        &mut self,
        tasks: &mut JoinSet<Done>,
        work: impl FnOnce() -> Done + Send + 'static,
    ) {
        let (end, ended) = channel();
        let before = self.last.replace(ended);
        // One kind of task for all of them: each kind costs some KiB of the binary.
        tasks.spawn(run_after(before, end, Arc::clone(&self.may_wait), Box::new(work)));
    }
}

/// Runs a job after the one before it. `_end` is dropped at its end, which starts the next one.
async fn run_after(
    before: Option<Receiver<()>>,
    _end: Sender<()>,
    may_wait: Arc<Semaphore>,
    work: Box<dyn FnOnce() -> Done + Send>,
) -> Done {
    if let Some(before) = before {
        drop(before.await);
    }
    let thread = tokio::select! {
        // It is tried at least once.
        biased;
        thread = thread() => thread,
        // It has no permits, so this only ends when it is closed.
        _ = may_wait.acquire() => return Done::Abandoned,
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
                let hint = threads::WHY_NONE;
                warn!(event = "no-thread", %error, hint, "cannot start a thread; trying again");
                is_said = true;
            }
            Err(_) => {}
        }
        clock::sleep(RETRY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_job_is_in_the_queue_before_its_task_runs() {
        let runtime = crate::run::runtime().expect("it starts");
        let (mut queue, mut tasks) = (BlockingQueue::default(), JoinSet::new());
        runtime.block_on(async {
            assert!(!queue.is_busy());
            queue.submit(&mut tasks, || Done::Nothing);
            assert!(queue.is_busy());
            while tasks.join_next().await.is_some() {}
            assert!(!queue.is_busy());
        });
    }

    /// Tokio does not say which task it runs first.
    #[test]
    fn jobs_run_in_the_order_in_which_they_were_submitted() {
        let runtime = crate::run::runtime().expect("it starts");
        let ran = Arc::new(Mutex::new(Vec::new()));
        let mut before = None;
        let jobs = (0..5).map(|n| {
            let (end, ended) = channel();
            let ran = Arc::clone(&ran);
            let work = Box::new(move || {
                ran.lock().expect("no job panics").push(n);
                Done::Nothing
            });
            let may_wait = Arc::new(Semaphore::new(0));
            Box::pin(run_after(before.replace(ended), end, may_wait, work))
        });
        let mut jobs: Vec<_> = jobs.collect();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            while let Some(mut job) = jobs.pop() {
                let mut context = Context::from_waker(Waker::noop());
                assert!(job.as_mut().poll(&mut context).is_pending());
                tasks.spawn(job);
            }
            while tasks.join_next().await.is_some() {}
        });
        assert_eq!(*ran.lock().expect("no job panics"), [0, 1, 2, 3, 4]);
    }
}
