//! Performs `Preflight`: looks for what would prevent the actions of a rule, without acting.
//!
//! Reads `/proc` on the loop's thread, and looks for the programs of the rule. Changes nothing.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::config::{Action, Condition, ProofBy, Rule, SignalAction, Step};
use crate::core::preflight::{Problem, ProblemKind};
use crate::exchange::program;
use crate::process::signal::{SendError, prepare};
use crate::process::{Context, Refusal, TargetProcess, age_of_oldest_candidate, find};
use crate::reason::Reason;
use crate::shown::literal;

/// A missing target is a problem only if other containers run a process that is older than this: the
/// application may be starting.
const STARTUP_TIME: Duration = Duration::from_secs(2);

/// Finds the problems of a rule.
pub(crate) fn preflight(context: &Context, rule: &Rule) -> Vec<Problem> {
    let target = rule.names_process().then(|| target(context, rule)).flatten();
    target.into_iter().chain(missing_program(rule)).collect()
}

fn target(context: &Context, rule: &Rule) -> Option<Problem> {
    let targets = match find(context, rule) {
        Ok(targets) => targets,
        Err(refusal) => return not_found(context, rule, &refusal),
    };
    let signal = rule.actions.iter().find_map(|action| match action {
        Action::Signal(signal) => Some(*signal),
        _ => None,
    });
    let restarts = rule.restarts_target() || rule.settings.on_failure.contains(&Step::Restart);
    // A restart begins with SIGTERM, which needs no handler.
    let terminate = SignalAction { name: Signal::SIGTERM, allow_unhandled: true };
    let signal = signal.or(restarts.then_some(terminate))?;
    targets.iter().find_map(|target| signal_problem(target, signal))
}

fn signal_problem(target: &TargetProcess, signal: SignalAction) -> Option<Problem> {
    let refused = |kind: ProblemKind, error: SendError| match error {
        SendError::Refused(reason) => Some(Problem { kind, reason }),
        // The process is starting or ending, or the system is out of resources.
        SendError::Gone(_) | SendError::Starting(_) | SendError::Failed(_) => None,
    };
    match prepare(target, signal) {
        Ok(ready) => ready
            .check_permission()
            .err()
            .and_then(|error| refused(ProblemKind::NotPermitted, error)),
        Err(error) => refused(ProblemKind::SignalNotHandled, error),
    }
}

fn not_found(context: &Context, rule: &Rule, refusal: &Refusal) -> Option<Problem> {
    let kind = match refusal {
        Refusal::NamespaceNotShared => ProblemKind::NamespaceNotShared,
        Refusal::Ambiguous(_) => ProblemKind::TargetAmbiguous,
        Refusal::Unsupported(_) => ProblemKind::TargetUnsupported,
        Refusal::NotFound(_) => {
            age_of_oldest_candidate(context, rule).filter(|age| *age > STARTUP_TIME)?;
            ProblemKind::TargetNotFound
        }
        Refusal::ProcUnreadable(_) => return None,
    };
    Some(Problem { kind, reason: refusal.reason() })
}

/// The first program of the rule that does not exist.
fn missing_program(rule: &Rule) -> Option<Problem> {
    let actions = rule.actions.iter().filter_map(|action| match action {
        Action::Exec(program) => Some(program),
        _ => None,
    });
    let checks = rule.checks.iter().filter_map(|check| match &check.condition {
        Condition::Exec(program) => Some(program),
        _ => None,
    });
    let proofs = rule.verify.proofs.iter().filter_map(|proof| match proof {
        ProofBy::Exec(program) => Some(program),
        _ => None,
    });
    let names = actions.chain(checks).chain(proofs).filter_map(|one| one.arguments.first());
    let missing = names.into_iter().find(|name| !program::exists(name))?;
    let message = format!(
        "the program {} does not exist in podnudge's container, or is not executable",
        literal(missing)
    );
    let hint = "run podnudge in the application's image: an init container with `podnudge install DIR` \
                copies it there";
    Some(Problem { kind: ProblemKind::ProgramMissing, reason: Reason::new(message).hint(hint) })
}
