//! Hears of the end of a process that was acted on, so that nobody has to wait until the next look.

use tokio::task::{AbortHandle, JoinSet};

use crate::core::event::RuleId;
use crate::process::ending::Ending;

#[derive(Debug, Default)]
pub(super) struct Endings {
    waits: JoinSet<RuleId>,
    /// Those of each rule's last action.
    of: Vec<(RuleId, AbortHandle)>,
}

impl Endings {
    /// Waits for these processes, and no longer for those of the rule's last action.
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
