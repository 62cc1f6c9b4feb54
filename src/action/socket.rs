//! Sends a socket command as an action, and maps the answer to a result.
//!
//! Has the effects of the command.

use crate::config::SocketCommand;
use crate::core::event::{Absence, Acted};
use crate::exchange::ExchangeError;
use crate::exchange::socket::{MOST, ask, expected};
use crate::shown;

/// Sends a command, and checks the answer.
pub(super) async fn send(command: &SocketCommand) -> Acted {
    let SocketCommand { socket: address, send, timeout, .. } = command;
    match ask(address, send, MOST, *timeout).await {
        Ok(answer) => match expected(command, &answer) {
            Ok(()) => {
                Acted::Accepted(format!("`{address}` answered: {}", shown::one_line(&answer.bytes)))
            }
            Err(reason) => Acted::Declined(reason),
        },
        Err(ExchangeError::NotThere(reason)) => Acted::Absent(Absence::unread(reason)),
        Err(ExchangeError::Failed(reason)) => Acted::Failed(reason),
    }
}
