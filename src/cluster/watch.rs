//! A watch: an answer of the API server that goes on for minutes, with an event in each line.

use std::time::Duration;

use tokio::sync::mpsc;

use super::api::Api;
use super::call::Call;
use crate::exchange::lines::{Reader, read_lines};
use podnudge_core::api_error::ApiError;

/// How much longer than asked for a watch may last.
pub(super) const OVERTIME: Duration = Duration::from_secs(15);
/// The time for the beginning of a watch.
const LIMIT: Duration = Duration::from_secs(10);

impl Api {
    /// Watches for this time. Sends `opened` when the watch has begun, and what `parse` makes of its lines of at most
    /// so many bytes.
    ///
    /// # Errors
    /// If the watch does not begin, does not end as it should, or cannot go on after a line.
    pub(super) async fn watch<E: Send>(
        &self,
        call: &Call,
        (time, longest_line): (Duration, usize),
        opened: E,
        parse: impl Fn(&[u8]) -> Result<Option<E>, ApiError> + Send,
        events: &mpsc::Sender<E>,
    ) -> Result<(), ApiError> {
        let endpoint = self.endpoint(call, time + OVERTIME).map_err(ApiError::Unsent)?;
        let mut lines = Lines { opened: Some(opened), parse, events, failed: None };
        let read = read_lines(&endpoint, LIMIT, longest_line, &mut lines).await;
        let answer = read.map_err(|error| call.unanswered(error))?;
        let end = call.judge(answer, longest_line).map(drop);
        lines.failed.map_or(end, Err)
    }
}

/// The lines of a watch.
struct Lines<'a, E, P> {
    /// What to send at its begin.
    opened: Option<E>,
    parse: P,
    events: &'a mpsc::Sender<E>,
    /// Why it cannot go on.
    failed: Option<ApiError>,
}

impl<E: Send, P: Fn(&[u8]) -> Result<Option<E>, ApiError> + Send> Reader for Lines<'_, E, P> {
    async fn begin(&mut self) {
        if let Some(opened) = self.opened.take() {
            // Without a receiver, the first line ends the watch.
            drop(self.events.send(opened).await);
        }
    }

    async fn line(&mut self, line: &[u8]) -> bool {
        match (self.parse)(line) {
            Ok(Some(event)) => self.events.send(event).await.is_ok(),
            Ok(None) => true,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}
