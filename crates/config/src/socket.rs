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

/// A TCP port at an IP address.
pub(super) const fn port() -> Type<SocketAddr> {
    parsed(
        "an IP address and a port",
        |text| tcp_address(text, "127.0.0.1:443"),
        ToString::to_string,
    )
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
    tcp_address(address, "tcp://127.0.0.1:9999")
        .map(SocketAddress::Tcp)
        .map_err(|Reason { hint, .. }| Reason { hint, ..no_address(text) })
}

fn tcp_address(text: &str, example: &str) -> Result<SocketAddr, Reason> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(no_address(text)
            .hint(format!("such as `{example}`: the containers of a pod share this address"))),
    }
}

fn no_address(text: &str) -> Reason {
    is_not(text, "an IP address and a port")
}
