//! Remembers the content that is checked, or waits for it, and has not passed: for the next podnudge. If a
//! check ends podnudge (the kernel, for want of memory, or a bug), its content is counted; the core decides
//! what becomes of it (`crates/core/src/intake/checks.rs`).
//!
//! Reads and writes a small file (`attempts/record.rs`).

mod record;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use podnudge_config::{Agent, Rule};
use podnudge_core::event::{Checked, Interrupted};
use podnudge_core::snapshot::Digest;
pub(crate) use record::Left;
use record::Record;

/// The content of a rule whose checks have begun, or are due, and have not passed.
#[derive(Debug, Clone)]
pub(crate) struct Attempts {
    shared: Arc<Shared>,
    /// Whether the result says nothing about the content: only an end of podnudge is remembered.
    is_trial: bool,
}

#[derive(Debug)]
struct Shared {
    record: Record,
    /// Set when podnudge is asked to stop: from then on, no check counts.
    is_closed: AtomicBool,
    /// The content that waits for its checks, until it is among the entries. Held only for a moment.
    waiting: Mutex<Option<Digest>>,
    /// Held during access to the file.
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The content that was checked before, or waits for that, and has not passed.
    known: Vec<Interrupted>,
    /// The checks of this podnudge.
    running: Vec<Digest>,
}

impl Entries {
    /// Forgets all content whose checks have ended no podnudge but this one: it is no longer on disk.
    fn keep_only(&mut self, digest: Digest) {
        self.known.retain(|known| known.times > 0 || known.digest == digest);
    }

    fn add(&mut self, digest: Digest) {
        if !self.known.iter().any(|known| known.digest == digest) {
            self.known.push(Interrupted { digest, times: 0 });
        }
    }
}

/// A check that has begun. When this is dropped, newer content has aborted it, and it does not count.
#[derive(Debug)]
pub(crate) struct Attempt {
    attempts: Attempts,
    digest: Digest,
}

impl Attempt {
    /// The check has ended, and podnudge has survived it.
    pub(super) fn ended(self, checked: &Checked) {
        // Otherwise, other content was on disk.
        if *checked != Checked::Moved && !self.attempts.is_trial {
            let mut entries = self.attempts.lock();
            entries.known.retain(|known| known.digest != self.digest);
            if *checked != Checked::Passed {
                entries.add(self.digest);
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // Once podnudge was asked to stop, what is running stays there, but is not counted.
        if self.attempts.shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        self.attempts.update(|entries| {
            let running = entries.running.iter().position(|digest| *digest == self.digest);
            running.map(|place| entries.running.swap_remove(place));
        });
    }
}

impl Attempts {
    /// Opens the file of a rule. Returns what earlier podnudges have left there, too.
    pub(crate) fn open(rule: &Rule, agent: &Agent) -> (Self, Left) {
        let (record, left) = Record::open(rule, agent);
        let entries = Mutex::new(Entries { known: left.known.clone(), running: Vec::new() });
        let (is_closed, waiting) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { record, is_closed, waiting, entries });
        (Self { shared, is_trial: false }, left)
    }

    /// For a check that is tried on content that the application runs.
    pub(crate) fn of_trial(&self) -> Self {
        Self { is_trial: true, ..self.clone() }
    }

    /// Notes that content waits for its checks. Does not block; call [`Attempts::record`] next, on another thread.
    pub(crate) fn wait(&self, digest: Digest) {
        *self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
    }

    /// Records what waits, unless its check has recorded it meanwhile.
    pub(crate) fn record(&self) {
        self.update(|_| {});
    }

    /// Records that a check of this content begins.
    pub(crate) fn begin(&self, digest: Digest) -> Attempt {
        self.begin_reading(digest, true)
    }

    /// Records that this content is read, which may be on disk no more unless it is checked: what waits for its checks
    /// then stays recorded.
    pub(super) fn begin_reading(&self, digest: Digest, is_checked: bool) -> Attempt {
        self.update(|entries| {
            if is_checked {
                entries.keep_only(digest);
            }
            entries.running.push(digest);
        });
        Attempt { attempts: self.clone(), digest }
    }

    /// podnudge was asked to stop: the checks that are running do not count. Does not wait.
    pub(crate) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        match self.shared.entries.try_lock() {
            Ok(entries) => self.write(&entries),
            Err(TryLockError::Poisoned(entries)) => self.write(&entries.into_inner()),
            // Who holds it looks at `is_closed` afterwards.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn update(&self, change: impl FnOnce(&mut Entries)) {
        let mut entries = self.lock();
        let waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(digest) = waiting {
            entries.keep_only(digest);
            entries.add(digest);
        }
        change(&mut entries);
        let was_closed = self.shared.is_closed.load(Ordering::SeqCst);
        self.write(&entries);
        drop(entries);
        if !was_closed && self.shared.is_closed.load(Ordering::SeqCst) {
            self.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, entries: &Entries) {
        let mut known = entries.known.clone();
        let is_closed = self.shared.is_closed.load(Ordering::SeqCst);
        for digest in &entries.running {
            let times = Interrupted::times(&known, *digest);
            let times = if is_closed { times } else { times.saturating_add(1) };
            known.retain(|known| known.digest != *digest);
            known.push(Interrupted { digest: *digest, times });
        }
        self.shared.record.save(&known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podnudge_config::{self as config, Overrides};

    /// The certificates of the content before may be read only once newer content is on disk.
    #[test]
    fn content_that_waits_stays_recorded_while_the_certificates_of_other_content_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "agent.work-dir = {:?}\n[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n[[rule.check]]\nexec = \"true\"\n",
            folder.path()
        );
        let (config, _) =
            config::parse("c.toml", &text, &Overrides::default(), None).expect("valid");
        let [before, newer] = [1, 2].map(|n| Digest([n; 32]));
        let (attempts, _) = Attempts::open(&config.rules[0], &config.agent);
        attempts.wait(newer);
        attempts.record();
        let look = attempts.begin_reading(before, false);
        drop(look);
        let (_, left) = Attempts::open(&config.rules[0], &config.agent);
        assert!(left.known.iter().any(|known| known.digest == newer), "{:?}", left.known);
    }
}
