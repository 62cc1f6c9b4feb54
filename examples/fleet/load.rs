//! Clients that send one request after the other. Each answer but `200` is a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::replica::get;

const CLIENTS: usize = 4;
/// The processors are for the replicas, too.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    failed: AtomicUsize,
    is_over: AtomicBool,
}

pub(crate) struct Load {
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(address: &str) -> Self {
        let counts = Arc::new(Counts::default());
        let client = || {
            let (counts, address) = (Arc::clone(&counts), address.to_owned());
            thread::spawn(move || {
                while !counts.is_over.load(Ordering::Relaxed) {
                    let is_failed = get(&address, "/").is_none();
                    counts.sent.fetch_add(1, Ordering::Relaxed);
                    counts.failed.fetch_add(usize::from(is_failed), Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
            })
        };
        let clients = (0..CLIENTS).map(|_| client()).collect();
        Self { counts, clients }
    }

    pub(crate) fn sent(&self) -> usize {
        self.counts.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> usize {
        self.counts.failed.load(Ordering::Relaxed)
    }

    /// Ends the load. Returns the numbers of requests, and of those that failed.
    pub(crate) fn stop(self) -> (usize, usize) {
        self.counts.is_over.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        (self.counts.sent.load(Ordering::Relaxed), self.counts.failed.load(Ordering::Relaxed))
    }
}
