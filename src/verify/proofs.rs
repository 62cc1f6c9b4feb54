//! Checks the proofs that the application runs the new content: reads values before the action, and
//! compares them afterwards.
//!
//! Reads `/proc`, sends the requests and socket commands and runs the programs of the rule. Checks
//! one proof after the other, and stops at the first that is pending. So a program, which costs the
//! most, only runs if all proofs before it are given.

use std::ffi::OsStr;

use super::{body, http, socket};
use crate::config::{Program, ProofBy, Rule};
use crate::core::event::Proof;
use crate::exchange::program;
use crate::process::Identity;
use crate::process::children::Children;
use crate::reason::Reason;
use crate::volume::snapshot::Digest;

/// The state before an action, with which the proofs compare.
#[derive(Debug)]
pub struct Before {
    /// The digest of the action.
    digest: Digest,
    /// One value for each proof of the rule.
    known: Vec<Known>,
}

/// The state before an action for one proof.
#[derive(Debug)]
enum Known {
    Nothing,
    Bodies(Vec<body::Before>),
    Children(Children),
}

impl Before {
    /// For a process that read the content when it started: every value counts as new.
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

/// Reads the state before the action. Call it directly before the action, with the processes to be
/// signalled.
///
/// # Errors
/// If it cannot be read. Then a change could not be detected, so the action should wait.
pub async fn before(rule: &Rule, digest: Digest, targets: &[Identity]) -> Result<Before, Reason> {
    let mut known = Vec::new();
    // The configuration puts the children last, so they are read directly before the action.
    for proof in &rule.verify.proofs {
        known.push(match proof {
            ProofBy::Http(proof) => Known::Bodies(http::before(proof).await?),
            ProofBy::ChildrenNewer => Known::Children(Children::now(targets)?),
            ProofBy::Socket(_) | ProofBy::Exec(_) => Known::Nothing,
        });
    }
    Ok(Before { digest, known })
}

/// Checks all proofs of the rule once. `signalled` are the processes that received the signal.
pub async fn look(rule: &Rule, before: Option<&Before>, signalled: &[Identity]) -> Proof {
    if rule.verify.proofs.is_empty() {
        return Proof::NotAsked;
    }
    let Some(before) = before else {
        return Proof::Pending(Reason::new("the state before the action is unknown"));
    };
    for (proof, known) in rule.verify.proofs.iter().zip(&before.known) {
        let asked = match (proof, known) {
            (ProofBy::Http(proof), Known::Bodies(before)) => http::look(proof, before).await,
            (ProofBy::Http(proof), _) => http::look(proof, &[]).await,
            (_, Known::Children(children)) => children.are_newer_now(signalled),
            (ProofBy::Socket(proof), _) => socket::prove(proof).await,
            (ProofBy::Exec(proof), _) => agrees(rule, before.digest, proof).await,
            (ProofBy::ChildrenNewer, _) => {
                Err(Reason::new("the child processes before the signal are unknown"))
            }
        };
        if let Err(pending) = asked {
            return Proof::Pending(pending);
        }
    }
    Proof::Given
}

/// Runs a proof program; exit code 0 is the proof.
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
