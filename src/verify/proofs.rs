//! The proofs that the application took a change: what must be known before the action, and one look
//! after it.
//!
//! Reads `/proc`, sends requests, asks sockets and runs programs, as the rule says. One proof is asked
//! for after the other, and the first that is still pending ends the look: a program, which costs the
//! most, is run only when all others are there.

use std::ffi::OsStr;

use super::{body, http, socket};
use crate::config::{Program, ProofBy, Rule};
use crate::core::event::Proof;
use crate::exchange::program;
use crate::process::Identity;
use crate::process::children::Children;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// What is known from before the action.
#[derive(Debug)]
pub struct Before {
    /// What was acted for.
    digest: Digest,
    /// A part for each proof of the rule.
    known: Vec<Known>,
}

/// What a proof must know from before the action.
#[derive(Debug)]
enum Known {
    Nothing,
    Bodies(Vec<body::Before>),
    Children(Children),
}

impl Before {
    /// Of a process that has read the content when it started: whatever it shows is new.
    #[must_use]
    pub fn of_a_new_process(rule: &Rule, digest: Digest) -> Self {
        let known = |proof: &ProofBy| match proof {
            ProofBy::Http(proof) => {
                Known::Bodies(proof.bodies.iter().map(|_| body::Before::Another).collect())
            }
            ProofBy::ChildrenNewer => Known::Children(Children::none()),
            ProofBy::Socket(_) | ProofBy::Exec(_) => Known::Nothing,
        };
        Self { digest, known: rule.verify.proofs.iter().map(known).collect() }
    }
}

/// Finds out what must be known from before the action. To be called right before it, with the
/// processes that are to be signalled.
///
/// # Errors
/// If it cannot be read. Without it a change could not be told, so the action should wait.
pub async fn before(rule: &Rule, digest: Digest, targets: &[Identity]) -> Result<Before, Reason> {
    let mut known = Vec::new();
    // The children come behind the request, and so next to the action.
    for proof in &rule.verify.proofs {
        known.push(match proof {
            ProofBy::Http(proof) => Known::Bodies(http::before(proof).await?),
            ProofBy::ChildrenNewer => Known::Children(Children::now(targets)?),
            ProofBy::Socket(_) | ProofBy::Exec(_) => Known::Nothing,
        });
    }
    Ok(Before { digest, known })
}

/// Looks once, for all proofs of the rule. `signalled` are the processes that got the signal.
pub async fn look(rule: &Rule, before: Option<&Before>, signalled: &[Identity]) -> Proof {
    if rule.verify.proofs.is_empty() {
        return Proof::NotAsked;
    }
    let Some(before) = before else {
        return Proof::Pending(Reason::new("what was there before the action is not known"));
    };
    for (proof, known) in rule.verify.proofs.iter().zip(&before.known) {
        let asked = match (proof, known) {
            (ProofBy::Http(proof), Known::Bodies(before)) => http::look(proof, before).await,
            (ProofBy::Http(proof), _) => http::look(proof, &[]).await,
            (_, Known::Children(children)) => children.are_newer_now(signalled),
            (ProofBy::Socket(proof), _) => socket::prove(proof).await,
            (ProofBy::Exec(proof), _) => agrees(rule, before.digest, proof).await,
            (ProofBy::ChildrenNewer, _) => {
                Err(Reason::new("the child processes before the signal are not known"))
            }
        };
        if let Err(pending) = asked {
            return Proof::Pending(pending);
        }
    }
    Proof::Given
}

/// Whether a program says so.
async fn agrees(rule: &Rule, digest: Digest, proof: &Program) -> Result<(), Reason> {
    let digest = digest.to_string();
    let environment =
        [("PODNUDGE_RULE", OsStr::new(&rule.name)), ("PODNUDGE_DIGEST", OsStr::new(&digest))];
    let ended = program::run(&proof.arguments, &environment, None, proof.timeout).await?;
    if ended.is_success {
        return Ok(());
    }
    Err(program::failure(&proof.arguments, &ended.how, &ended.output))
}
