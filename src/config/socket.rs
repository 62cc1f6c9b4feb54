//! Commands on sockets that act or prove. Pure.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::table::Table;
use super::types::{regex, socket_address};
use crate::reason::Reason;

/// A command on a socket, and what the answer must be.
#[derive(Debug, Clone)]
pub struct SocketCommand {
    /// Where it goes.
    pub address: SocketAddress,
    /// What is sent.
    pub send: String,
    /// What the answer must match.
    pub matches: regex_lite::Regex,
    /// The limit for one look. Whoever does not close the connection is listened to for so long.
    pub timeout: Duration,
}

/// A socket to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// A socket file.
    Unix(PathBuf),
    /// A port of a host, which is mostly the pod itself.
    Tcp(SocketAddr),
}

/// As the configuration writes it.
impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// A socket, what is sent and what must be answered; `None` only after a problem was reported.
pub(super) fn socket_command(table: &mut Table<'_>, timeout: Duration) -> Option<SocketCommand> {
    let example = "socket = \"/run/haproxy/master.sock\"";
    let address = table.required("socket", example, socket_address);
    let send = table.required("send", "send = \"show proc\\nquit\\n\"", |text| match text {
        "" => {
            Err(Reason::new("there is nothing to send").hint("a command, such as `show proc\\n`"))
        }
        _ => Ok(text.to_owned()),
    });
    let matches = table.required("answer-matches", "answer-matches = \"worker\"", regex);
    if let Some(given) = &send
        && (given.value.ends_with("\\n") || given.value.ends_with("\\r"))
    {
        let reason = Reason::new("`send` ends with a backslash and a letter, not with a line feed");
        table.report.warn(&given.at, reason.hint("write it in double quotes"));
    }
    Some(SocketCommand {
        address: address?.value,
        send: send?.value,
        matches: matches?.value,
        timeout,
    })
}
