//! One command on a socket file or a TCP port: a text is sent, and what is answered is read, bounded
//! in time and size.
//!
//! The connection is not closed for writing behind the text: some servers take that for a client that
//! has gone. So the text must have in it what makes the server answer, mostly a line feed, and should
//! have what makes it close, such as `quit`, for which the command line of `HAProxy`'s master waits.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{AnswerEnd, By, ExchangeError, no_connection};
use crate::config::{SocketAddress, SocketCommand};
use crate::reason::Reason;
use crate::shown;

/// How much of an answer is read, in bytes.
pub(crate) const MOST: usize = 64 * 1024;

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The bytes, as far as they were asked for and came.
    pub bytes: Vec<u8>,
    /// How they end.
    pub end: AnswerEnd,
}

/// Sends `text` and reads at most `most` bytes of the answer, until the server closes the connection
/// or `limit` has passed. Servers that keep the connection open are common, so what has come by then
/// is an answer, too. So is nothing, from one that closes.
///
/// # Errors
/// If nothing is answered in time, or there is no connection.
pub async fn ask(
    address: &SocketAddress,
    text: &str,
    most: usize,
    limit: Duration,
) -> Result<Answer, ExchangeError> {
    let mut bytes = Vec::new();
    let end = match timeout(limit, exchange(address, text, most, &mut bytes)).await {
        Ok(end) => end?,
        Err(_) if bytes.is_empty() => return Err(too_late(address, text, limit)),
        Err(_) => {
            AnswerEnd::BrokeOff(format!("did not end within {}", humantime::format_duration(limit)))
        }
    };
    Ok(Answer { bytes, end })
}

/// Whether an answer to a command is the one that the rule expects.
///
/// # Errors
/// If it is not, with what was answered.
pub(crate) fn expected(command: &SocketCommand, answer: &Answer) -> Result<(), Reason> {
    let SocketCommand { socket: address, answer_matches: matches, .. } = command;
    if matches.is_match(&String::from_utf8_lossy(&answer.bytes)) {
        return Ok(());
    }
    let what = match &answer.end {
        AnswerEnd::Whole if answer.bytes.is_empty() => {
            return Err(Reason::new(format!("`{address}` answered nothing")));
        }
        AnswerEnd::Whole => "the answer does".to_owned(),
        AnswerEnd::Cut => format!("the first {} KiB of the answer do", MOST / 1024),
        AnswerEnd::BrokeOff(how) => format!("the answer, which {how}, does"),
    };
    let said = shown::one_line(&answer.bytes);
    Err(Reason::new(format!("`{address}`: {what} not match `{matches}`: {said}")))
}

async fn exchange(
    address: &SocketAddress,
    text: &str,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<AnswerEnd, ExchangeError> {
    let no_connection = |error: io::Error| {
        let reason = Reason::new(format!("cannot connect to `{address}`: {error}"));
        let by = match address {
            SocketAddress::Unix(_) => By::File,
            SocketAddress::Tcp(_) => By::Port,
        };
        no_connection(reason, by, error.kind())
    };
    let mut stream: Box<dyn Stream> = match address {
        SocketAddress::Unix(path) => {
            Box::new(UnixStream::connect(path).await.map_err(no_connection)?)
        }
        SocketAddress::Tcp(address) => {
            Box::new(TcpStream::connect(*address).await.map_err(no_connection)?)
        }
    };
    match converse(&mut *stream, text, most, bytes).await {
        Ok(end) => Ok(end),
        Err(error) if bytes.is_empty() => {
            let reason = format!("`{address}` broke the connection off: {error}");
            Err(ExchangeError::Failed(Reason::new(reason)))
        }
        Err(error) => Ok(AnswerEnd::BrokeOff(format!("broke off: {error}"))),
    }
}

async fn converse(
    stream: &mut dyn Stream,
    text: &str,
    most: usize,
    bytes: &mut Vec<u8>,
) -> io::Result<AnswerEnd> {
    // A server that has enough may answer and close before it has read everything.
    let sent = stream.write_all(text.as_bytes()).await;
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece).await? {
            0 => break,
            length => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
        // One byte more than is wanted tells whether the answer goes on.
        if bytes.len() > most {
            bytes.truncate(most);
            return Ok(AnswerEnd::Cut);
        }
    }
    sent.map(|()| AnswerEnd::Whole)
}

fn too_late(address: &SocketAddress, text: &str, limit: Duration) -> ExchangeError {
    let limit = humantime::format_duration(limit);
    let reason = Reason::new(format!("`{address}` did not answer within {limit}"));
    ExchangeError::Failed(if text.ends_with('\n') {
        reason.hint("the application may hang; or raise the timeout")
    } else {
        reason.hint("what is sent has no line feed at its end, for which most servers wait")
    })
}
