//! What the core asks to be done to the application: find out when it started, act, and look
//! whether it took.
//!
//! Reads `/proc` and the files that a request names; signals the target or sends it a request.
//! Reading `/proc` happens right here, on the loop's thread: a pod has few processes, and a hop
//! to another thread would cost more than the reading.

use std::sync::Arc;

use crate::action::http;
use crate::config::{Action, HttpAction, Rule, SignalAction, TargetBy};
use crate::core::event::{Act, Acted, Alive, Inspection, Moment, Proof, Verified};
use crate::process::signal::{self, SendError};
use crate::process::{self, Chosen, Identity, Life, Own, Refusal};
use crate::publishing::read_by_application;
use crate::verify::{self, Before};

/// What is remembered from an action until its verification.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    /// The processes that were acted on and must go on.
    processes: Vec<Identity>,
    /// What the proofs compare with.
    before: Option<Arc<Before>>,
}

/// Since when the rule's target runs.
pub(crate) fn inspect(own: &Own, rule: &Rule) -> Inspection {
    let needs_process =
        !matches!((&rule.action, &rule.target.by), (Action::Http(_), TargetBy::Mount));
    match process::find(own, &rule.target, read_by_application(rule)) {
        Ok(chosen) => {
            let starts = || chosen.iter().map(|target| target.identity.started());
            match (starts().min(), starts().max()) {
                (Some(first), Some(last)) => Inspection::Running { first, last },
                _ => Inspection::Unknown,
            }
        }
        Err(Refusal::NotFound(_)) if needs_process => Inspection::Absent,
        Err(Refusal::Blind(_)) => Inspection::Blind,
        Err(_) => Inspection::Unknown,
    }
}

/// Does the rule's action once.
pub(crate) async fn act(own: &Own, rule: &Rule, act: Act) -> (Acted, InFlight) {
    match try_to_act(own, rule, act).await {
        Ok(done) => done,
        Err(acted) => (acted, InFlight::default()),
    }
}

/// `Err` is an outcome that needs no verification.
async fn try_to_act(own: &Own, rule: &Rule, act: Act) -> Result<(Acted, InFlight), Acted> {
    let targets = match (&rule.action, &rule.target.by) {
        // A request needs no process; one that is named is waited for and watched.
        (Action::Http(_), TargetBy::Mount) => Vec::new(),
        _ => process::find(own, &rule.target, read_by_application(rule))
            .map_err(|error| refusal(&error))?,
    };
    if act.fresh_after.is_some_and(|moment| is_fresh(&targets, moment)) {
        let before = Some(Arc::new(Before::of_a_new_process(rule, act.digest)));
        let in_flight = InFlight { processes: roots(&targets), before };
        return Ok((Acted::Fresh(names(&targets)), in_flight));
    }
    let before = verify::before(rule, act.digest, &roots(&targets)).await.map_err(Acted::Absent)?;
    let (acted, reached) = match &rule.action {
        Action::Signal(action) => {
            let sent = send_signal(*action, &targets)?;
            (Acted::Sent(names(sent.iter().copied())), roots(sent))
        }
        Action::Http(action) => (send_request(action).await?, roots(&targets)),
    };
    Ok((acted, InFlight { processes: reached, before: Some(Arc::new(before)) }))
}

/// Those that must go on. Those below them may be replaced by the reload, as workers are.
fn roots<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

fn is_fresh(targets: &[Chosen], moment: Moment) -> bool {
    !targets.is_empty() && targets.iter().all(|target| target.identity.started() > moment)
}

/// Sends the signal to all targets, or to none where one of them must not get it. Gives those that
/// it reached.
fn send_signal(action: SignalAction, targets: &[Chosen]) -> Result<Vec<&Chosen>, Acted> {
    let mut ready = Vec::new();
    let mut ended = None;
    for target in targets {
        let prepared = signal::prepare(target, action).and_then(|signal| {
            // Alone, the sending itself will tell.
            if targets.len() > 1 {
                signal.is_permitted()?;
            }
            Ok(signal)
        });
        match prepared {
            Ok(signal) => ready.push((target, signal)),
            // Of several, one may have ended by itself; the others are there.
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    let mut sent = Vec::new();
    for (target, signal) in ready {
        match signal.send() {
            Ok(()) => sent.push(target),
            Err(error @ SendError::Gone(_)) => ended = Some(error),
            // Some have it and some do not: only another attempt can make them equal.
            Err(error) if !sent.is_empty() => return Err(Acted::Failed(error.reason())),
            Err(error) => return Err(not_sent(&error)),
        }
    }
    match ended {
        Some(error) if sent.is_empty() => Err(not_sent(&error)),
        _ => Ok(sent),
    }
}

/// Nothing was sent at all.
fn not_sent(error: &SendError) -> Acted {
    match error {
        SendError::Gone(reason) | SendError::Starting(reason) => Acted::Absent(reason.clone()),
        SendError::Refused(reason) => Acted::Refused(reason.clone()),
        SendError::Failed(reason) => Acted::Failed(reason.clone()),
    }
}

async fn send_request(action: &HttpAction) -> Result<Acted, Acted> {
    match http::send(action).await {
        accepted @ Acted::Accepted(_) => Ok(accepted),
        other => Err(other),
    }
}

fn refusal(refusal: &Refusal) -> Acted {
    match refusal {
        Refusal::NotFound(reason) => Acted::Absent(reason.clone()),
        Refusal::Blind(reason) => Acted::Failed(reason.clone()),
        refused => Acted::Refused(refused.reason()),
    }
}

fn names<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> String {
    let names: Vec<&str> = targets.into_iter().map(|target| target.name.as_str()).collect();
    names.join(", ")
}

/// Looks once whether the application took it.
pub(crate) async fn verify(rule: &Rule, in_flight: &InFlight) -> Verified {
    let alive = if in_flight.processes.is_empty() { Alive::Unknown } else { Alive::Yes };
    for process in &in_flight.processes {
        match process::life(*process) {
            Life::Goes => {}
            Life::Ended(reason) => {
                return Verified { alive: Alive::Gone(reason), proof: Proof::NotAsked };
            }
            Life::Unknown(reason) => {
                return Verified { alive: Alive::Unknown, proof: Proof::Pending(reason) };
            }
        }
    }
    let proof = verify::look(rule, in_flight.before.as_deref(), &in_flight.processes).await;
    Verified { alive, proof }
}
