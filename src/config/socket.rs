//! Socket commands that reload or verify. Pure.

use std::fmt;
use std::net::SocketAddr;

use super::prelude::*;

settings! {
    /// A command on a socket that makes the application reload.
    pub struct SocketCommand = "[rule.command]"; validated {
        /// The socket.
        socket: SocketAddress = required("socket = \"/run/haproxy/master.sock\"", socket());
        /// The text to send.
        send: String = required("send = \"show proc\\nquit\\n\"", checked("text", command_text));
        /// The answer must match this.
        answer_matches: regex_lite::Regex = required("answer-matches = \"worker\"", regex());
        /// The time limit for the exchange.
        timeout: Duration = default("10s", time_limit(MINUTE.saturating_mul(10)));
    }
}

/// A socket to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// A socket file.
    Unix(PathBuf),
    /// A TCP port, usually of the pod itself.
    Tcp(SocketAddr),
}

/// The form in the configuration.
impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

pub(super) const fn socket() -> Type<SocketAddress> {
    parsed("a socket file, or `tcp://ADDRESS:PORT`", socket_address, ToString::to_string)
}

pub(super) fn command_text(text: &str) -> Result<String, Reason> {
    match text {
        "" => {
            Err(Reason::new("there is nothing to send").hint("a command, such as `show proc\\n`"))
        }
        _ => Ok(text.to_owned()),
    }
}

impl SocketCommand {
    fn validate(&mut self, place: &Place<'_>) {
        warn_of_escape(place, &self.send);
    }
}

/// Warns of `\\n` in single quotes, which is not a line feed.
pub(super) fn warn_of_escape(place: &Place<'_>, send: &str) {
    if send.ends_with("\\n") || send.ends_with("\\r") {
        let reason = Reason::new("`send` ends with a backslash and a letter, not with a line feed");
        place.warn(Value("send"), reason.hint("write it in double quotes"));
    }
}

/// A socket file, or `tcp://address:port`.
fn socket_address(text: &str) -> Result<SocketAddress, Reason> {
    /// `sun_path` holds this many bytes, less the NUL at the end (unix(7)).
    const LONGEST: usize = 107;
    const EXAMPLE: &str = "a socket file, such as `/run/app.sock`, or `tcp://127.0.0.1:9999`";
    let Some(address) = text.strip_prefix("tcp://") else {
        if text.contains("://") {
            return Err(is_not(text, "a socket").hint(EXAMPLE));
        }
        let path = parsers::path(text).map_err(|reason| reason.hint(EXAMPLE))?;
        if path.as_os_str().len() > LONGEST {
            let reason = Reason::new(format!("the path {} is too long", literal(text)));
            return Err(reason.hint("a socket can have 107 bytes at most: mount it elsewhere"));
        }
        return Ok(SocketAddress::Unix(path));
    };
    match address.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(SocketAddress::Tcp(address)),
        _ => {
            let message = format!("{} is not an IP address and a port", literal(text));
            Err(Reason::new(message)
                .hint("such as `tcp://127.0.0.1:9999`: the containers of a pod share this address"))
        }
    }
}
