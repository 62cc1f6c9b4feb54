//! The addresses of a rule: connects to each without sending anything, and makes the requests of the proofs by HTTP and
//! by sockets. Looks for the certificate that a TLS handshake is compared with.

use std::pin::Pin;
use std::time::Duration;

use crate::exchange::{ExchangeError, connect};
use crate::verify;
use crate::verify::http::all_new;
use podnudge_config::{Action, ProofBy, Rule, SocketAddress};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;

/// The limit for a connection.
const LIMIT: Duration = Duration::from_secs(5);

/// At most one problem: the application has to be reached before its answer says anything. In a box,
/// because each place that waits for it would have a copy of its code.
pub(super) fn problem(rule: &Rule) -> Pin<Box<dyn Future<Output = Option<Problem>> + Send + '_>> {
    Box::pin(find(rule))
}

async fn find(rule: &Rule) -> Option<Problem> {
    for endpoint in rule.endpoints() {
        let connected = connect::to_endpoint(endpoint, LIMIT.min(endpoint.timeout)).await;
        if let Err(error) = connected {
            return Some(unreachable(error));
        }
    }
    for (socket, limit) in sockets(rule) {
        if let Err(error) = connect::to_socket(&socket, LIMIT.min(limit)).await {
            return Some(unreachable(error));
        }
    }
    #[cfg(feature = "tls")]
    if let Some(problem) = certificate(rule).await {
        return Some(problem);
    }
    for proof in &rule.verify.proofs {
        // The others depend on the content, which the application may not have got yet.
        let asked = match proof {
            ProofBy::Http(proof) => verify::http::check(proof, &all_new(proof)).await,
            ProofBy::Socket(proof) => verify::socket::check(proof).await,
            _ => Ok(()),
        };
        if let Err(reason) = asked {
            return Some(proof_fails(reason));
        }
    }
    None
}

fn proof_fails(Reason { message, hint }: Reason) -> Problem {
    let reason = Reason { message: format!("a proof does not hold: {message}"), hint };
    Problem::new(ProblemKind::ProofFails, reason)
}

/// Whether the content has the certificate that a proof compares with.
#[cfg(feature = "tls")]
async fn certificate(rule: &Rule) -> Option<Problem> {
    let proof = rule.verify.proofs.iter().find_map(|proof| match proof {
        ProofBy::Tls(proof) => Some(proof),
        _ => None,
    })?;
    // Nothing may be published yet.
    let volumes = rule.settings.watch.clone();
    verify::tls::in_content(rule, volumes, None, proof).await.err().map(proof_fails)
}

fn unreachable(error: ExchangeError) -> Problem {
    Problem::new(ProblemKind::Unreachable, error.into_reason())
}

/// The sockets of the rule's commands, with the time limit of the exchange.
fn sockets(rule: &Rule) -> impl Iterator<Item = (SocketAddress, Duration)> {
    let actions = rule.actions.iter().filter_map(|action| match action {
        Action::Command(command) => Some((command.socket.clone(), command.timeout)),
        _ => None,
    });
    let proofs = rule.verify.proofs.iter().filter_map(|proof| match proof {
        ProofBy::Socket(command) => Some((command.socket.clone(), command.timeout)),
        #[cfg(feature = "tls")]
        ProofBy::Tls(proof) => Some((SocketAddress::Tcp(proof.address), proof.timeout)),
        _ => None,
    });
    actions.chain(proofs)
}
