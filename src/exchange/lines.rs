//! One HTTP request whose answer goes on for minutes, line by line, such as a watch of the Kubernetes API.
//! Limited in the time until its headers, in its whole time, in the length of a line, and in what all
//! unfinished lines hold together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::http::{self, Answer, SHORT_ANSWER};
use super::{AnswerEnd, ExchangeError};
use podnudge_config::Endpoint;

/// The memory that is kept for the next line.
const KEPT: usize = 16 * 1024;

/// The most bytes of unfinished lines in all answers together.
const BUDGET: usize = 4 * 1024 * 1024;

/// What is left of the budget.
static LEFT: AtomicUsize = AtomicUsize::new(BUDGET);

/// The beginning of a line, whose memory counts against the budget.
#[derive(Debug, Default)]
struct Unfinished {
    text: Vec<u8>,
    counted: usize,
}

impl Unfinished {
    /// Appends a piece. Returns whether the line may be so long.
    fn extend(&mut self, piece: &[u8], longest: usize) -> bool {
        let more = (self.text.len() + piece.len()).saturating_sub(self.counted);
        let take = |left: usize| left.checked_sub(more);
        let counter = (Ordering::SeqCst, Ordering::SeqCst);
        if LEFT.fetch_update(counter.0, counter.1, take).is_err() {
            return false;
        }
        self.counted += more;
        // A vector that grows by itself has room for twice as much.
        self.text.reserve_exact(piece.len());
        self.text.extend_from_slice(piece);
        // Finished lines are passed on; only the rest must not be too long.
        piece.contains(&b'\n') || self.text.len() <= longest
    }

    /// Removes the lines that were passed on.
    fn remove(&mut self, done: usize) {
        self.text.drain(..done.min(self.text.len()));
        self.text.shrink_to(KEPT);
        let surplus = self.counted.saturating_sub(self.text.len());
        self.counted -= surplus;
        LEFT.fetch_add(surplus, Ordering::SeqCst);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        LEFT.fetch_add(self.counted, Ordering::SeqCst);
    }
}

/// Takes what comes.
pub(crate) trait Reader: Send {
    /// The answer is a success, and its lines follow.
    fn begin(&mut self) -> impl Future<Output = ()> + Send;

    /// A line without its end. Returns whether to go on.
    fn line(&mut self, line: &[u8]) -> impl Future<Output = bool> + Send;
}

/// Sends a GET request, and passes each line of a successful answer to `reader`, until the answer ends or the
/// reader has enough. The headers must come within `first`, and all of it within the time of the endpoint.
/// Returns how the answer has ended; its body only if it is an error.
///
/// # Errors
/// If there is no answer.
pub(crate) async fn read_lines(
    endpoint: &Endpoint,
    first: Duration,
    longest: usize,
    reader: &mut impl Reader,
) -> Result<Answer, ExchangeError> {
    let mut response = http::open_within(endpoint, first).await?;
    let (status, retry_after) = (response.status, response.retry_after);
    let is_success = status.is_success();
    let longest = if is_success { longest } else { SHORT_ANSWER };
    if is_success {
        reader.begin().await;
    }
    let mut rest = Unfinished::default();
    let end = 'answer: loop {
        let mut searched = rest.text.len();
        match response.chunk().await {
            Ok(Some(chunk)) if rest.extend(&chunk, longest) => {}
            Ok(Some(_)) => break AnswerEnd::Truncated,
            Ok(None) => break AnswerEnd::Complete,
            Err(how) => break AnswerEnd::Aborted(how),
        }
        let mut done = 0;
        while is_success
            && let Some(found) = rest.text.iter().skip(searched).position(|byte| *byte == b'\n')
        {
            let end = searched + found;
            if !reader.line(rest.text.get(done..end).unwrap_or_default()).await {
                break 'answer AnswerEnd::Complete;
            }
            (done, searched) = (end + 1, end + 1);
        }
        rest.remove(done);
        if rest.text.len() > longest {
            break AnswerEnd::Truncated;
        }
    };
    let body = if is_success { Vec::new() } else { std::mem::take(&mut rest.text) };
    Ok(Answer { status, body, end, retry_after })
}
