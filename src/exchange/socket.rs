//! One command on a Unix socket or a TCP port: sends a text and reads the answer, limited in time
//! and size.
//!
//! podnudge does not close its side for writing after the text, because some servers treat that as
//! a disconnect. So the text itself must make the server answer, mostly by a line feed, and should
//! make it close the connection, for example by `quit`, which the command line of `HAProxy`'s
//! master needs.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::connect::{Stream, open};
use super::{AnswerEnd, ExchangeError};
use podnudge_config::{SocketAddress, SocketCommand};
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The most bytes of an answer that are read.
pub(crate) const MAX_ANSWER: usize = 64 * 1024;

/// An answer of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The bytes that were received within the limit.
    pub bytes: Vec<u8>,
    /// Whether the answer is complete.
    pub end: AnswerEnd,
}

/// Sends `text` and reads at most `max_bytes` of the answer, until the server closes the connection
/// or `limit` has passed. Many servers keep the connection open, so the bytes until then are an
/// answer, too. An empty one is valid if the server closes the connection.
///
/// # Errors
/// If nothing is received in time, or the connection fails.
pub async fn send_command(
    address: &SocketAddress,
    text: &str,
    max_bytes: usize,
    limit: Duration,
) -> Result<Answer, ExchangeError> {
    let mut bytes = Vec::new();
    let end = match timeout(limit, exchange(address, text, max_bytes, &mut bytes)).await {
        Ok(end) => end?,
        Err(_) if bytes.is_empty() => return Err(timed_out(address, text, limit)),
        Err(_) => {
            AnswerEnd::Aborted(format!("did not end within {}", humantime::format_duration(limit)))
        }
    };
    Ok(Answer { bytes, end })
}

/// Checks the answer to a command against the rule.
///
/// # Errors
/// If it does not match, with the answer.
pub(crate) fn check_answer(command: &SocketCommand, answer: &Answer) -> Result<(), Reason> {
    let SocketCommand { socket: address, answer_matches: matches, .. } = command;
    if matches.is_match(&String::from_utf8_lossy(&answer.bytes)) {
        return Ok(());
    }
    let what = match &answer.end {
        AnswerEnd::Complete if answer.bytes.is_empty() => {
            return Err(Reason::new(format!("`{address}` sent an empty answer")));
        }
        AnswerEnd::Complete => "the answer does".to_owned(),
        AnswerEnd::Truncated => format!("the first {} KiB of the answer do", MAX_ANSWER / 1024),
        AnswerEnd::Aborted(how) => format!("the answer, which {how}, does"),
    };
    let said = shown::one_line(&answer.bytes);
    Err(Reason::new(format!("`{address}`: {what} not match `{matches}`: {said}")))
}

async fn exchange(
    address: &SocketAddress,
    text: &str,
    max_bytes: usize,
    bytes: &mut Vec<u8>,
) -> Result<AnswerEnd, ExchangeError> {
    let mut stream = open(address).await?;
    match send_and_read(&mut *stream, text, max_bytes, bytes).await {
        Ok(end) => Ok(end),
        Err(error) if bytes.is_empty() => {
            let reason = format!("`{address}` closed the connection: {error}");
            Err(ExchangeError::Failed(Reason::new(reason)))
        }
        Err(error) => Ok(AnswerEnd::Aborted(format!("broke off: {error}"))),
    }
}

async fn send_and_read(
    stream: &mut dyn Stream,
    text: &str,
    max_bytes: usize,
    bytes: &mut Vec<u8>,
) -> io::Result<AnswerEnd> {
    // A server may answer and close before it has read everything.
    let sent = stream.write_all(text.as_bytes()).await;
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece).await? {
            0 => break,
            length => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
        // One byte over the limit shows that the answer is longer.
        if bytes.len() > max_bytes {
            bytes.truncate(max_bytes);
            return Ok(AnswerEnd::Truncated);
        }
    }
    sent.map(|()| AnswerEnd::Complete)
}

fn timed_out(address: &SocketAddress, text: &str, limit: Duration) -> ExchangeError {
    let limit = humantime::format_duration(limit);
    let reason = Reason::new(format!("`{address}` did not answer within {limit}"));
    ExchangeError::Failed(if text.ends_with('\n') {
        reason.hint("the application may hang; or raise the timeout")
    } else {
        reason.hint("`send` has no line feed at its end, which most servers wait for")
    })
}
