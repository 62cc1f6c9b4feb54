//! Checks the proofs that the application runs the new content: reads values before the action, and
//! compares them afterwards.
//!
//! Reads `/proc` and the names of keys, sends the requests and socket commands, makes the TLS handshakes and runs the
//! programs of the rule. Checks
//! one proof after the other, and stops at the first that is pending. So a program, which costs the
//! most, only runs if all proofs before it are given.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
#[cfg(feature = "tls")]
use std::sync::Once;

#[cfg(feature = "tls")]
use super::tls;
use super::{body, http, socket};
use crate::exchange::program;
use crate::process::Identity;
use crate::process::children::Children;
use crate::volume::filter;
use crate::volume::reads::OwnRead;
use podnudge_config::{Program, ProofBy, Rule};
use podnudge_core::event::Proof;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// The state before an action, with which the proofs compare.
#[derive(Debug)]
pub struct StateBefore {
    /// The digest of the action.
    digest: Digest,
    /// One value for each proof of the rule.
    states: Vec<ProofState>,
    /// The values could not be read, and the process is the same: what a proof finds may be of before the action.
    is_unknown: bool,
}

/// The state before an action for one proof.
#[derive(Debug)]
enum ProofState {
    Nothing,
    Bodies(Vec<body::ValueBefore>),
    Children(Children),
    /// Whether the log says which certificate is presented.
    #[cfg(feature = "tls")]
    Certificate(Once),
}

impl StateBefore {
    /// For a process that read the content when it started: every value counts as new.
    #[must_use]
    pub fn for_new_process(rule: &Rule, digest: Digest) -> Self {
        let states = |proof: &ProofBy| match proof {
            ProofBy::Http(proof) => ProofState::Bodies(http::all_new(proof)),
            ProofBy::ChildrenNewer => ProofState::Children(Children::empty()),
            #[cfg(feature = "tls")]
            ProofBy::Tls(_) => ProofState::Certificate(Once::new()),
            ProofBy::Socket(_) | ProofBy::Exec(_) => ProofState::Nothing,
        };
        let states = rule.verify.proofs.iter().map(states).collect();
        Self { digest, states, is_unknown: false }
    }

    /// For an action that could not wait for the values. Every value counts as new, so that the rollout can end, but a
    /// proof that compares gives no evidence.
    #[must_use]
    pub fn unknown(rule: &Rule, digest: Digest) -> Self {
        Self { is_unknown: true, ..Self::for_new_process(rule, digest) }
    }
}

/// Reads the state before the action. Call it directly before the action, with the processes to be
/// signalled.
///
/// # Errors
/// If it cannot be read. Then a change could not be detected, so the action should wait.
pub async fn state_before(
    rule: &Rule,
    digest: Digest,
    targets: &[Identity],
) -> Result<StateBefore, Reason> {
    let mut states = Vec::new();
    // The children come after the HTTP requests, so they are listed directly before the action.
    for proof in &rule.verify.proofs {
        states.push(match proof {
            ProofBy::Http(proof) => ProofState::Bodies(http::values_before(proof).await?),
            ProofBy::ChildrenNewer => ProofState::Children(Children::list(targets)?),
            #[cfg(feature = "tls")]
            ProofBy::Tls(_) => ProofState::Certificate(Once::new()),
            ProofBy::Socket(_) | ProofBy::Exec(_) => ProofState::Nothing,
        });
    }
    Ok(StateBefore { digest, states, is_unknown: false })
}

/// Checks all proofs of the rule once. `signalled` are the processes that received the signal.
pub async fn check_proofs(
    rule: &Rule,
    before: Option<&StateBefore>,
    signalled: &[Identity],
) -> Proof {
    if rule.verify.proofs.is_empty() {
        return Proof::NotConfigured;
    }
    // A preset that was chosen since then may have brought proofs.
    let Some(before) = before.filter(|one| one.states.len() == rule.verify.proofs.len()) else {
        return Proof::Pending(Reason::new("the state before the action is unknown"));
    };
    let proofs = rule.verify.proofs.iter().zip(&before.states);
    // The children first: the old ones end soon, and a request may take long.
    let is_by_children =
        |(_, states): &(&ProofBy, &ProofState)| matches!(states, ProofState::Children(_));
    let (children, others): (Vec<_>, Vec<_>) = proofs.partition(is_by_children);
    for (proof, states) in children.into_iter().chain(others) {
        let asked = match (proof, states) {
            (ProofBy::Http(proof), ProofState::Bodies(before)) => http::check(proof, before).await,
            (ProofBy::Http(proof), _) => http::check(proof, &[]).await,
            (_, ProofState::Children(children)) => {
                children.check_new_children(signalled, rule.verify.alive_for)
            }
            #[cfg(feature = "tls")]
            (ProofBy::Tls(proof), states) => {
                tls::check(rule, before.digest, proof).await.map(|certificate| {
                    if let ProofState::Certificate(is_said) = states {
                        is_said.call_once(|| tls::log(rule, proof, &certificate));
                    }
                })
            }
            (ProofBy::Socket(proof), _) => socket::check(proof).await,
            (ProofBy::Exec(proof), _) => run_program(rule, before.digest, proof).await,
            (ProofBy::ChildrenNewer, _) => {
                Err(Reason::new("the child processes before the signal are unknown"))
            }
        };
        if let Err(pending) = asked {
            return Proof::Pending(pending);
        }
    }
    let says_nothing = says_nothing_of_a_key(rule)
        || (before.is_unknown && rule.verify.proofs.iter().any(compares));
    if says_nothing { Proof::NotConfigured } else { Proof::Given }
}

/// Whether the proof is a difference to the state before the action.
fn compares(proof: &ProofBy) -> bool {
    match proof {
        ProofBy::Http(proof) => proof.bodies.iter().any(body::needs_value_before),
        ProofBy::ChildrenNewer => true,
        #[cfg(feature = "tls")]
        ProofBy::Tls(_) => false,
        ProofBy::Socket(_) | ProofBy::Exec(_) => false,
    }
}

/// Whether new children are the only proof, and there is a key that the application may have ignored. A volume that
/// cannot be listed may have one.
fn says_nothing_of_a_key(rule: &Rule) -> bool {
    let Some(preset) = rule.preset.filter(|preset| !preset.ignores.is_empty()) else {
        return false;
    };
    let is_by_children = |proof: &ProofBy| matches!(proof, ProofBy::ChildrenNewer);
    let is_ignored = |key: &[u8]| {
        filter::is_included(&rule.keys, key)
            && preset.ignores.iter().any(|pattern| filter::matches(pattern, key))
    };
    let mut left = MOST_ENTRIES;
    let mut has_one = |volume: &PathBuf| has_key(volume, Path::new(""), &is_ignored, &mut left);
    rule.verify.proofs.iter().all(is_by_children)
        && rule.settings.watch.iter().any(|volume| has_one(volume).unwrap_or(true))
}

/// Whether a volume has such a key below this folder. `left`: how many entries may still be looked at.
fn has_key(
    volume: &Path,
    folder: &Path,
    is_it: &dyn Fn(&[u8]) -> bool,
    left: &mut u32,
) -> io::Result<bool> {
    for entry in fs::read_dir(volume.join(folder))? {
        let name = entry?.file_name();
        // Links may lead to where they are.
        *left = left.checked_sub(1).ok_or(io::ErrorKind::QuotaExceeded)?;
        // The generations of the kubelet.
        if name.as_bytes().starts_with(b"..") {
            continue;
        }
        let key = folder.join(&name);
        let is_folder = key.components().count() < DEEPEST && volume.join(&key).is_dir();
        if is_it(key.as_os_str().as_bytes()) || (is_folder && has_key(volume, &key, is_it, left)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many entries keys are looked for among.
const MOST_ENTRIES: u32 = 20_000;

/// How deep keys are looked for.
const DEEPEST: usize = 8;

/// Runs a proof program; exit code 0 is the proof.
async fn run_program(rule: &Rule, digest: Digest, proof: &Program) -> Result<(), Reason> {
    let digest = digest.to_string();
    let environment =
        [("PODNUDGE_RULE", OsStr::new(&rule.name)), ("PODNUDGE_DIGEST", OsStr::new(&digest))];
    let _own = OwnRead::begin();
    let ended = program::run(
        &proof.arguments,
        &environment,
        &rule.settings.pass_environment,
        None,
        proof.timeout,
    )
    .await?;
    if ended.is_success {
        return Ok(());
    }
    Err(program::failure(&proof.arguments, &ended.how, &ended.output))
}
