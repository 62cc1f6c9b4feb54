//! Proves by a socket command that the application runs the new content.
//!
//! Sends the command; changes nothing.

use crate::exchange::ExchangeError;
use crate::exchange::socket::{MAX_ANSWER, check_answer, send_command};
use podnudge_config::SocketCommand;
use podnudge_core::reason::Reason;

/// Sends the command once, and checks the answer.
///
/// # Errors
/// If the answer does not match, or there is none.
pub(crate) async fn check(command: &SocketCommand) -> Result<(), Reason> {
    let asked = send_command(&command.socket, &command.send, MAX_ANSWER, command.timeout).await;
    check_answer(command, &asked.map_err(ExchangeError::into_reason)?)
}
