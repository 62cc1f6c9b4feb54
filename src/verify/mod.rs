//! Performs `Verify`: checks once whether the application runs the new content. First checks the
//! processes: they must still run, or after a restart be new and older than `alive-for`. Then
//! checks the rule's proofs (`proofs`).
//!
//! Reads `/proc`; sends the requests and socket commands and runs the programs of the rule.

mod baseline;
pub mod body;
#[cfg(test)]
#[path = "../../tests/fuzz/verify.rs"]
mod fuzz;
pub mod http;
mod json;
pub mod proofs;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use crate::process::{self, Context, Identity, ProcessState, Refusal, age, find, process_state};
use crate::publish;
use crate::volume::reads::Opened;
pub(crate) use baseline::{Baseline, Partial};
use podnudge_config::Rule;
use podnudge_core::event::{Absence, Alive, Proof, Reads, Verified};
use podnudge_core::reason::Reason;

/// Verifies once. Returns the state for the next verification.
pub(crate) async fn verify(
    context: &Context,
    rule: &Rule,
    mut baseline: Baseline,
) -> (Verified, Baseline) {
    // Before the proofs, which may read the volumes, too.
    let look = |baseline: &Baseline| baseline.reads.as_ref().map(|reads| reads.look());
    look(&baseline);
    let verified = check_once(context, rule, &mut baseline).await;
    let reads = match look(&baseline) {
        Some(Opened::Nothing) => Reads::Nothing,
        Some(Opened::Key) => Reads::Key,
        Some(Opened::Unknown) | None => Reads::Unknown,
    };
    if baseline.signal.is_some() && matches!(verified.alive, Alive::Gone(_)) {
        context.ends.ended(rule);
    }
    (Verified { reads, ..verified }, baseline)
}

async fn check_once(context: &Context, rule: &Rule, baseline: &mut Baseline) -> Verified {
    if baseline.processes.is_empty() && !baseline.replaced.is_empty() {
        match find(context, rule) {
            Ok(chosen) => {
                let Baseline { processes, ancestors, .. } = Baseline::of(&chosen);
                (baseline.processes, baseline.ancestors) = (processes, ancestors);
            }
            Err(Refusal::NotFound(reason)) => return absent(rule, reason),
            Err(refusal) => return pending(refusal.reason()),
        }
        // A process below the one that was terminated may outlive it for a moment.
        baseline.processes.retain(|process| {
            !baseline.replaced.contains(process)
                && process.may_have_started_after(baseline.replaced_at)
        });
        let (back, ended) = (baseline.processes.len(), baseline.replaced.len());
        if back < ended {
            baseline.processes.clear();
            return absent(
                rule,
                Reason::new(format!("{back} of {ended} processes have restarted")),
            );
        }
    }
    if let Err(failed) = check_processes(rule, baseline) {
        return failed_or_replaced(baseline, failed, context);
    }
    let proof = proofs::check_proofs(rule, baseline.before.as_deref(), &baseline.processes).await;
    // The proofs take time, and the new content may have ended the processes meanwhile.
    if let Err(failed) = check_processes(rule, baseline) {
        return failed_or_replaced(baseline, failed, context);
    }
    let alive = if baseline.processes.is_empty() { Alive::Unknown } else { Alive::Yes };
    let proof = match proof {
        Proof::Given | Proof::NotConfigured => delivery(baseline).map_or(proof, Proof::Pending),
        Proof::Pending(reason) => Proof::Pending(explained(context, rule, baseline, reason)),
    };
    unread(alive, proof)
}

/// Why a signal has not reached all processes yet, if so.
fn delivery(baseline: &Baseline) -> Option<Reason> {
    let signal = baseline.signal?;
    baseline.processes.iter().find_map(|process| process::signal::pending(*process, signal))
}

/// Checks that all processes still run, and that restarted ones are older than `alive-for`.
fn check_processes(rule: &Rule, baseline: &Baseline) -> Result<(), Verified> {
    for process in &baseline.processes {
        match process_state(*process) {
            ProcessState::Running => {}
            ProcessState::Ended(reason) => {
                return Err(unread(Alive::Gone(reason), Proof::NotConfigured));
            }
            ProcessState::Unknown(reason) => return Err(pending(reason)),
        }
        if !baseline.replaced.is_empty() && age(*process) < rule.verify.alive_for {
            let wanted = humantime::format_duration(rule.verify.alive_for);
            let pid = process.pid;
            let reason = format!("the new process {pid} is younger than {wanted}");
            return Err(pending(Reason::new(reason)));
        }
    }
    Ok(())
}

/// Returns `failed`, unless podnudge itself has restarted the processes for another rule: then the
/// new processes take their place.
fn failed_or_replaced(baseline: &mut Baseline, failed: Verified, context: &Context) -> Verified {
    let is_ours = |process: &Identity| context.restarts.contains(*process);
    let are_ours = baseline.processes.iter().all(is_ours) || baseline.ancestors.iter().any(is_ours);
    if !baseline.has_ended() || !are_ours {
        return failed;
    }
    baseline.replaced = std::mem::take(&mut baseline.processes);
    let reason = Reason::new("another rule has restarted the target");
    unread(Alive::Replaced, Proof::Pending(reason))
}

/// The result if a process that podnudge has terminated was not restarted yet.
fn absent(rule: &Rule, reason: Reason) -> Verified {
    let was_read = publish::was_read(rule);
    unread(Alive::Absent(Absence { reason, was_read }), Proof::NotConfigured)
}

/// What the missing proof probably means, as the preset knows it, which has chosen the proof.
fn explained(context: &Context, rule: &Rule, baseline: &Baseline, reason: Reason) -> Reason {
    match rule.preset {
        Some(preset) => {
            let hint = reason.hint.filter(|hint| hint != body::MUST_CHANGE);
            let log = || context.log_command(baseline.processes.first().copied());
            preset.explain(Reason { hint, ..reason }, log)
        }
        None => reason,
    }
}

fn pending(reason: Reason) -> Verified {
    unread(Alive::Unknown, Proof::Pending(reason))
}

/// Before it is known whether the content was read.
fn unread(alive: Alive, proof: Proof) -> Verified {
    Verified { alive, proof, reads: Reads::Unknown }
}
