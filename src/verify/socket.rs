//! Proves by a socket command that the application runs the new content.
//!
//! Sends the command; changes nothing.

use crate::config::SocketCommand;
use crate::exchange::ExchangeError;
use crate::exchange::socket::{MOST, ask, expected};
use crate::reason::Reason;

/// Sends the command once, and checks the answer.
///
/// # Errors
/// If the answer does not match, or there is none.
pub(super) async fn prove(command: &SocketCommand) -> Result<(), Reason> {
    let asked = ask(&command.socket, &command.send, MOST, command.timeout).await;
    expected(command, &asked.map_err(ExchangeError::into_reason)?)
}
