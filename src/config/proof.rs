//! What proves that an application took a change. Pure.

use std::time::Duration;

use super::Endpoint;
use super::program::Program;
use super::socket::SocketCommand;

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
