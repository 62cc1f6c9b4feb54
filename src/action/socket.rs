//! Sends a socket command as an action, and maps the answer to a result.
//!
//! Has the effects of the command.

use crate::exchange::ExchangeError;
use crate::exchange::socket::{MAX_ANSWER, check_answer, send_command};
use podnudge_config::SocketCommand;
use podnudge_core::event::{Absence, Acted};
use podnudge_core::shown;

/// Sends a command, and checks the answer.
pub(super) async fn send(command: &SocketCommand) -> Acted {
    let SocketCommand { socket: address, send, timeout, .. } = command;
    match send_command(address, send, MAX_ANSWER, *timeout).await {
        Ok(answer) => match check_answer(command, &answer) {
            Ok(()) => {
                Acted::Accepted(format!("`{address}` answered: {}", shown::one_line(&answer.bytes)))
            }
            Err(reason) => Acted::Declined(reason),
        },
        Err(ExchangeError::NotListening(reason)) => Acted::Absent(Absence::unread(reason)),
        Err(ExchangeError::Failed(reason)) => Acted::Failed(reason),
    }
}
