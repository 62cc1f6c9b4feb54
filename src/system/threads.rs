//! Threads for work that blocks: reading and writing files, and resolving names.
//!
//! Starts a thread for each piece of work, which ends with it. Where the pod has used up its processes, none can be
//! started: that is an error to report, and tokio's own blocking threads would panic then. The queues of the event loop
//! (`run/queues.rs`) wait until there is one, unless podnudge is asked to end.

use std::any::Any;
use std::io;
use std::panic;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use tokio::sync::oneshot;

use podnudge_core::reason::Reason;

type Work = Box<dyn FnOnce() + Send>;

/// Why there is no thread, for whoever operates the pod.
pub(crate) const WHY_NONE: &str =
    "the pod or the node has as many processes as it may: see the kubelet's limit on pids";

/// Says that there is no thread for inotify.
pub(crate) fn none_for_inotify() -> Reason {
    Reason::new("no thread can be started for inotify").hint(WHY_NONE)
}

/// A thread that waits for its work.
#[derive(Debug)]
pub(crate) struct Thread(Sender<Work>);

impl Thread {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the kernel gives none: `EAGAIN`, usually for the limit on the processes of the pod.
    pub(crate) fn start() -> io::Result<Self> {
        let (work, mine) = channel::<Work>();
        Builder::new().name("podnudge-work".to_owned()).spawn(move || {
            if let Ok(work) = mine.recv() {
                work();
            }
        })?;
        Ok(Self(work))
    }

    /// Runs the work and returns its result. If the caller is dropped, the work goes on to its end.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let fill = move || {
            let done = work();
            *lock(&place) = Some(done);
        };
        self.perform(Box::new(fill)).await;
        let done = lock(&result).take();
        done.unwrap_or_else(|| panic::resume_unwind(lost()))
    }

    /// Runs the work to its end. The same for all results: each kind of channel costs some KiB of the binary.
    async fn perform(self, work: Work) {
        let (sender, ended) = oneshot::channel();
        let work = move || {
            let ended = panic::catch_unwind(panic::AssertUnwindSafe(work));
            // Nobody waits for it any more.
            drop(sender.send(ended));
        };
        drop(self.0.send(Box::new(work)));
        match ended.await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => panic::resume_unwind(panic),
            Err(_) => panic::resume_unwind(lost()),
        }
    }
}

fn lock<T>(result: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    result.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost() -> Box<dyn Any + Send> {
    Box::new("a thread has ended without a result")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_its_result_and_its_panic() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
        let run = |work: fn() -> u32| {
            runtime.block_on(async { Thread::start().expect("it starts").run(work).await })
        };
        assert_eq!(run(|| 41), 41);
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| run(|| unreachable!("x"))));
        assert!(panicked.is_err());
    }
}
