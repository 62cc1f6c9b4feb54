//! Reports the exit of a process that was acted on, so that its rule need not wait for the next
//! check.

use tokio::task::{AbortHandle, JoinSet};

use crate::process::exit_watch::ExitWatch;
use podnudge_core::event::RuleId;

#[derive(Debug, Default)]
pub(super) struct ExitWatches {
    waits: JoinSet<RuleId>,
    /// The tasks of each rule's last action.
    tasks: Vec<(RuleId, AbortHandle)>,
}

impl ExitWatches {
    /// Watches these processes instead of those of the rule's previous action.
    pub(super) fn watch(&mut self, rule: RuleId, processes: Vec<ExitWatch>) {
        for (_, old) in self.tasks.extract_if(.., |(watched, _)| *watched == rule) {
            old.abort();
        }
        for exit in processes {
            let wait = self.waits.spawn(async move {
                exit.wait().await;
                rule
            });
            self.tasks.push((rule, wait));
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
