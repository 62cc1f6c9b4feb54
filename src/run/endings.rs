//! Hears of the end of a process that was acted on, so that nobody has to wait until the next look.

use std::collections::BTreeMap;

use tokio::task::{AbortHandle, JoinSet};

use crate::core::event::RuleId;
use crate::process::ending::Ending;

#[derive(Debug, Default)]
pub(super) struct Endings {
    waits: JoinSet<RuleId>,
    /// Those of each rule's last action.
    of: BTreeMap<RuleId, Vec<AbortHandle>>,
}

impl Endings {
    /// Waits for these processes, and no longer for those of the rule's last action.
    pub(super) fn wait_for(&mut self, rule: RuleId, processes: Vec<Ending>) {
        for old in self.of.remove(&rule).into_iter().flatten() {
            old.abort();
        }
        let wait = |ending: Ending| {
            self.waits.spawn(async move {
                ending.wait().await;
                rule
            })
        };
        let handles: Vec<AbortHandle> = processes.into_iter().map(wait).collect();
        self.of.insert(rule, handles);
    }

    /// The rule of the next process that ends.
    pub(super) async fn next(&mut self) -> RuleId {
        loop {
            match self.waits.join_next().await {
                Some(Ok(rule)) => return rule,
                // It is no longer waited for.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
