//! Reports the exit of a process that was acted on, so that its rule need not wait for the next
//! check.

use tokio::task::{AbortHandle, JoinSet};

use crate::core::event::RuleId;
use crate::process::ending::Ending;

#[derive(Debug, Default)]
pub(super) struct Endings {
    waits: JoinSet<RuleId>,
    /// The tasks of each rule's last action.
    of: Vec<(RuleId, AbortHandle)>,
}

impl Endings {
    /// Watches these processes instead of those of the rule's previous action.
    pub(super) fn wait_for(&mut self, rule: RuleId, processes: Vec<Ending>) {
        for (_, old) in self.of.extract_if(.., |(of, _)| *of == rule) {
            old.abort();
        }
        for ending in processes {
            let wait = self.waits.spawn(async move {
                ending.wait().await;
                rule
            });
            self.of.push((rule, wait));
        }
    }

    /// Waits for the next process to exit, and returns its rule.
    pub(super) async fn next(&mut self) -> RuleId {
        loop {
            match self.waits.join_next().await {
                Some(Ok(rule)) => return rule,
                // `watch` has aborted it.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
