//! Asks the event loop for what the admin port serves.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long the loop may take to answer before it counts as stuck.
const LIMIT: Duration = Duration::from_secs(2);

/// Sends the loop a request; `None` if it does not answer in time.
pub(super) async fn ask<Q, A>(
    requests: &mpsc::Sender<Q>,
    request: impl FnOnce(oneshot::Sender<A>) -> Q,
) -> Option<A> {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        requests.send(request(reply)).await.ok()?;
        answer.await.ok()
    };
    timeout(LIMIT, asked).await.ok().flatten()
}
