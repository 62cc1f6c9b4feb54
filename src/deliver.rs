//! What the core asks to be done to the application: find out when it started, act, and look
//! whether it took.
//!
//! Reads `/proc` and the files that a request names; signals the target or sends it a request.
//! Reading `/proc` happens right here, on the loop's thread: a pod has few processes, and a hop
//! to another thread would cost more than the reading.

mod program;

use std::sync::Arc;

use crate::action::{http, socket};
use crate::clock::Moment;
use crate::config::{Action, Rule, SignalAction};
use crate::core::event::{Act, Acted, Alive, Inspection, Proof, Verified};
use crate::process::ending::Ending;
use crate::process::restarts::Restarts;
use crate::process::signal::{self, SendError};
use crate::process::{self, Chosen, Identity, Life, Own, Refusal};
use crate::reason::Reason;
use crate::verify::{self, Before};
use crate::volume::snapshot::Digest;

/// What was done for a digest when the last of the actions were not.
#[derive(Debug, Clone)]
struct BrokenOff {
    digest: Digest,
    at: Moment,
    acted: Acted,
}

/// What is remembered from an action until its verification.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    /// The processes that were acted on and must go on.
    processes: Vec<Identity>,
    /// Those that were ended, to be started anew.
    replaced: Vec<Identity>,
    /// What the proofs compare with.
    before: Option<Arc<Before>>,
    /// What was done for which digest, where the last of the actions were not.
    broken_off: Option<BrokenOff>,
}

impl InFlight {
    /// What is to be said of them, unless another rule has ended them meanwhile: then whatever is
    /// started anew takes their place.
    fn or_replaced(&mut self, unwell: Verified, restarts: &Restarts) -> Verified {
        if !self.has_ended() || !self.processes.iter().all(|process| restarts.has(*process)) {
            return unwell;
        }
        self.replaced = std::mem::take(&mut self.processes);
        let reason = Reason::new("another rule has restarted the target");
        Verified { alive: Alive::Replaced, proof: Proof::Pending(reason) }
    }

    /// What was done before for this digest, if not all was done, and a process has ended of it: it
    /// is to be looked at now, since whoever is started anew would be taken for the application.
    fn ended_of(&self, rule: &Rule, act: &Act, started_anew: Option<Moment>) -> Option<Acted> {
        let BrokenOff { digest, at, acted } = self.broken_off.as_ref()?;
        // Later, it has ended of something else.
        let is_soon = started_anew.unwrap_or(act.at) <= at.after(rule.verify.alive_for);
        (*digest == act.digest && is_soon && self.has_ended()).then(|| acted.clone())
    }

    /// Whether a process that must go on has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let has_ended = |process: &Identity| matches!(process::life(*process), Life::Ended(_));
        self.processes.iter().any(has_ended)
    }
}

/// Since when the rule's target runs.
pub(crate) fn inspect(own: &Own, rule: &Rule) -> Inspection {
    match process::find(own, &rule.target, rule.read_by_application()) {
        Ok(chosen) => {
            let starts = || chosen.iter().map(|target| target.identity.started());
            match (starts().min(), starts().max()) {
                (Some(first), Some(last)) => Inspection::Running { first, last },
                _ => Inspection::Unknown,
            }
        }
        Err(Refusal::NotFound(_)) if rule.names_process() => Inspection::Absent,
        Err(Refusal::Blind(_)) => Inspection::Blind,
        Err(_) => Inspection::Unknown,
    }
}

/// Does the rule's actions once, one after the other. `last` is what is remembered from the attempt
/// before this one.
pub(crate) async fn act(
    (own, restarts): (&Own, &Restarts),
    rule: &Rule,
    act: &Act,
    last: InFlight,
) -> (Acted, InFlight) {
    let started_anew = || match inspect(own, rule) {
        Inspection::Running { last, .. } => Some(last),
        _ => None,
    };
    if last.broken_off.is_some()
        && let Some(acted) = last.ended_of(rule, act, started_anew())
    {
        return (acted, last);
    }
    match try_to_act((own, restarts), rule, act).await {
        Ok(done) => done,
        Err(acted) => (acted, last),
    }
}

/// `Err` is an outcome that needs no verification.
async fn try_to_act(
    (own, restarts): (&Own, &Restarts),
    rule: &Rule,
    act: &Act,
) -> Result<(Acted, InFlight), Acted> {
    let targets = if rule.names_process() || act.restart {
        process::find(own, &rule.target, rule.read_by_application())
            .map_err(|error| refusal(&error))?
    } else {
        Vec::new()
    };
    if act.fresh_after.is_some_and(|moment| is_fresh(&targets, moment)) {
        let before = Some(Arc::new(Before::of_a_new_process(rule, act.digest)));
        let in_flight = InFlight { processes: roots(&targets), before, ..InFlight::default() };
        return Ok((Acted::Fresh(names(&targets)), in_flight));
    }
    if act.restart {
        return restart(restarts, rule, act, &targets).await;
    }
    let before = match verify::before(rule, act.digest, &roots(&targets)).await {
        Ok(before) => before,
        // What does not work may be why; whatever is shown afterwards is new.
        Err(_) if act.lenient || rule.restarts_target() => {
            Before::of_a_new_process(rule, act.digest)
        }
        Err(reason) => return Err(Acted::Absent(reason)),
    };
    let before = Some(Arc::new(before));
    let mut in_flight = InFlight { processes: roots(&targets), before, ..InFlight::default() };
    let mut done = Done::default();
    for action in &rule.actions {
        let step = match action {
            Action::Signal(action) => send_signal(*action, &targets).map(|sent| {
                done.signalled = Some(names(sent.iter().copied()));
                in_flight.processes = roots(sent);
            }),
            Action::Http(action) => done.take(http::send(action).await),
            Action::Exec(program) => done.take(program::run(rule, program, act).await),
            Action::Command(command) => done.take(socket::command(command).await),
            // What comes behind it would meet nobody: it is the last.
            Action::Restart => match restart(restarts, rule, act, &targets).await {
                Err(acted) => Err(acted),
                restarted => return restarted,
            },
        };
        if let Err(acted) = step {
            return done.broken_off(acted, act, in_flight);
        }
    }
    Ok((done.acted(), in_flight))
}

/// What was done of a rule's actions.
#[derive(Debug, Default)]
struct Done {
    signalled: Option<String>,
    answers: Vec<String>,
}

impl Done {
    fn take(&mut self, acted: Acted) -> Result<(), Acted> {
        match acted {
            Acted::Accepted(answer) => {
                self.answers.push(answer);
                Ok(())
            }
            other => Err(other),
        }
    }

    fn acted(&self) -> Acted {
        let answers = self.answers.join("; ");
        match &self.signalled {
            Some(names) if answers.is_empty() => Acted::Sent(names.clone()),
            Some(names) => Acted::Sent(format!("{names}; {answers}")),
            None => Acted::Accepted(answers),
        }
    }

    /// One of the actions came to this. When others were done before it, they count as an attempt,
    /// and the processes that may end of them are remembered.
    fn broken_off(
        self,
        acted: Acted,
        act: &Act,
        in_flight: InFlight,
    ) -> Result<(Acted, InFlight), Acted> {
        let signalled = self.signalled.iter().map(|names| format!("signal sent to {names}"));
        let done: Vec<String> = signalled.chain(self.answers.iter().cloned()).collect();
        if done.is_empty() {
            return Err(acted);
        }
        let then = |reason: Reason| {
            let message = format!("{}, then: {}", done.join("; "), reason.message);
            Reason { message, ..reason }
        };
        let acted_before = self.acted();
        if in_flight.has_ended() {
            return Ok((acted_before, in_flight));
        }
        let broken_off = BrokenOff { digest: act.digest, at: act.at, acted: acted_before };
        let in_flight = InFlight { broken_off: Some(broken_off), ..in_flight };
        let acted = match acted {
            Acted::Absent(reason) | Acted::Refused(reason) | Acted::Failed(reason) => {
                Acted::Failed(then(reason))
            }
            Acted::Declined(reason) => Acted::Declined(then(reason)),
            other => other,
        };
        Ok((acted, in_flight))
    }
}

/// Ends the targets; whoever has started them starts them anew.
async fn restart(
    restarts: &Restarts,
    rule: &Rule,
    act: &Act,
    targets: &[Chosen],
) -> Result<(Acted, InFlight), Acted> {
    let replaced: Vec<&Chosen> = targets.iter().filter(|target| target.is_root).collect();
    restarts.begin(&roots(replaced.iter().copied()));
    let ended = signal::end(&replaced, rule.restart.grace).await;
    let goes_on = ended.map_err(|error| not_sent(&error))?;
    let in_flight = InFlight {
        processes: Vec::new(),
        replaced: roots(replaced.iter().copied()),
        before: Some(Arc::new(Before::of_a_new_process(rule, act.digest))),
        ..InFlight::default()
    };
    // One that goes on is not there anew: its verification tells.
    let names = names(replaced);
    let names = goes_on.map_or(names.clone(), |reason| format!("{names}; {}", reason.message));
    Ok((Acted::Restarted(names), in_flight))
}

/// Those that must go on. Those below them may be replaced by the reload, as workers are.
fn roots<'a>(targets: impl IntoIterator<Item = &'a Chosen>) -> Vec<Identity> {
    let roots = targets.into_iter().filter(|target| target.is_root);
    roots.map(|target| target.identity).collect()
}

/// The ends of the processes that must go on, to be waited for. Where there are no pidfds, the next
/// look tells.
pub(crate) fn endings(in_flight: &InFlight) -> Vec<Ending> {
    in_flight.processes.iter().filter_map(|process| process::ending::of(*process)).collect()
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

/// Looks once whether the application took it. Gives what is to be remembered until the next look.
pub(crate) async fn verify(
    (own, restarts): (&Own, &Restarts),
    rule: &Rule,
    mut in_flight: InFlight,
) -> (Verified, InFlight) {
    let verified = look((own, restarts), rule, &mut in_flight).await;
    (verified, in_flight)
}

async fn look(
    (own, restarts): (&Own, &Restarts),
    rule: &Rule,
    in_flight: &mut InFlight,
) -> Verified {
    if in_flight.processes.is_empty() && !in_flight.replaced.is_empty() {
        match process::find(own, &rule.target, rule.read_by_application()) {
            Ok(chosen) => in_flight.processes = roots(&chosen),
            Err(refusal) => return pending(refusal.reason()),
        }
        in_flight.processes.retain(|process| !in_flight.replaced.contains(process));
        let (back, ended) = (in_flight.processes.len(), in_flight.replaced.len());
        if back < ended {
            in_flight.processes.clear();
            return pending(Reason::new(format!("{back} of {ended} processes are there again")));
        }
    }
    if let Err(unwell) = are_well(rule, in_flight) {
        return in_flight.or_replaced(unwell, restarts);
    }
    let proof = verify::look(rule, in_flight.before.as_deref(), &in_flight.processes).await;
    // That takes its time, and they may have ended of what it proves.
    if let Err(unwell) = are_well(rule, in_flight) {
        return in_flight.or_replaced(unwell, restarts);
    }
    let alive = if in_flight.processes.is_empty() { Alive::Unknown } else { Alive::Yes };
    Verified { alive, proof }
}

/// Whether all that must go on do so, and those that were started anew have for long enough.
fn are_well(rule: &Rule, in_flight: &InFlight) -> Result<(), Verified> {
    for process in &in_flight.processes {
        match process::life(*process) {
            Life::Goes => {}
            Life::Ended(reason) => {
                return Err(Verified { alive: Alive::Gone(reason), proof: Proof::NotAsked });
            }
            Life::Unknown(reason) => return Err(pending(reason)),
        }
        if !in_flight.replaced.is_empty() && process.age() < rule.verify.alive_for {
            let wanted = humantime::format_duration(rule.verify.alive_for);
            let pid = process.pid;
            let reason = format!("the new process {pid} is younger than {wanted}");
            return Err(pending(Reason::new(reason)));
        }
    }
    Ok(())
}

fn pending(reason: Reason) -> Verified {
    Verified { alive: Alive::Unknown, proof: Proof::Pending(reason) }
}
