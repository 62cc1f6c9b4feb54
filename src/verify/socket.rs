//! The proof by a command on a socket: one look at what it answers.
//!
//! Sends the command; changes nothing.

use crate::config::SocketCommand;
use crate::exchange::ExchangeError;
use crate::exchange::socket::{MOST, ask, expected};
use crate::reason::Reason;

/// Whether a socket answers as it should.
///
/// # Errors
/// If it does not, or not at all.
pub(super) async fn prove(command: &SocketCommand) -> Result<(), Reason> {
    let asked = ask(&command.socket, &command.send, MOST, command.timeout).await;
    expected(command, &asked.map_err(ExchangeError::into_reason)?)
}
