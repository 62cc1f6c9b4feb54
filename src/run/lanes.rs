//! What waits for a file system, in two lanes: reading volumes, and writing what is published or
//! remembered. A large volume of one rule keeps nobody from rolling back what another has published.

use std::panic;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};

use super::agent::Done;

/// A thread for each lane, and one for the resolver of names.
pub(super) const THREADS: usize = 3;

/// One thing after the other, in the order in which they came, on a thread besides the loop's.
#[derive(Debug, Default)]
pub(super) struct Lane(Arc<Mutex<()>>);

impl Lane {
    /// Has it done when it has its turn; what it gives is that of the task.
    pub(super) fn take(
        &self,
        tasks: &mut JoinSet<Done>,
        work: impl FnOnce() -> Done + Send + 'static,
    ) {
        // One kind of task for all of them: each kind costs some KiB of the binary.
        tasks.spawn(in_turn(Arc::clone(&self.0), Box::new(work)));
    }
}

async fn in_turn(lane: Arc<Mutex<()>>, work: Box<dyn FnOnce() -> Done + Send>) -> Done {
    let turn = lane.lock_owned().await;
    let done = spawn_blocking(work).await;
    drop(turn);
    done.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))
}
