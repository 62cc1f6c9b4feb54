//! What proves that an application took a change. Pure.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Endpoint;

/// How it is known that the application took the change.
#[derive(Debug, Clone)]
pub struct Verify {
    /// After a signal: the same process must still be there after this time.
    pub alive_for: Duration,
    /// What else must be seen: all of it, asked for in this order.
    pub proofs: Vec<ProofBy>,
    /// How long the proofs may take.
    pub timeout: Duration,
}

/// Who tells that the application took the change.
#[derive(Debug, Clone)]
pub enum ProofBy {
    /// The answer to a request.
    Http(Box<HttpProof>),
    /// `/proc`: each process that was signalled has a child that started after the signal.
    ChildrenNewer,
    /// The answer to a command on a socket.
    Socket(SocketCommand),
    /// A program, by ending with 0.
    Exec(Program),
}

/// A request whose answer proves that the application took the change.
#[derive(Debug, Clone)]
pub struct HttpProof {
    /// Where it goes.
    pub endpoint: Endpoint,
    /// Statuses that mean success; empty: any 2xx.
    pub expect: Vec<u16>,
    /// What the body must say: all of it.
    pub bodies: Vec<BodyProof>,
}

/// What the body of the answer must say.
#[derive(Debug, Clone)]
pub enum BodyProof {
    /// It matches this.
    Matches(regex_lite::Regex),
    /// The number at this JSON pointer is larger than before the action.
    JsonGrew(String),
    /// The value at this JSON pointer is another one than before the action.
    JsonChanged(String),
    /// The value at this JSON pointer is this one.
    JsonEquals(String, Scalar),
    /// At this JSON pointer, there is a list with this element, or a text with this part.
    JsonContains(String, Scalar),
    /// The sample of this name (labels included, as printed) in the Prometheus text format is
    /// larger than before the action.
    MetricGrew(String),
    /// The sample of this name is this number.
    MetricEquals(String, i64),
}

/// A value to compare with. There are no fractions: how one is printed and rounded is nobody's
/// promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Truth(bool),
}

/// A command on a socket whose answer proves that the application took the change.
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

/// A program in podnudge's own file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name or path, and its arguments.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// The kinds of [`BodyProof`], by their keys.
pub(super) const BODY_PROOFS: [&str; 7] = [
    "body-matches",
    "json-grew",
    "json-changed",
    "json-equals",
    "json-contains",
    "metric-grew",
    "metric-equals",
];
