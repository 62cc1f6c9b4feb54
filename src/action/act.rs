//! Performs `Act`: does a rule's actions once, one after the other.
//!
//! Reads `/proc` and the files that a request names; signals the target, ends it, sends it a request
//! or a command, or runs a program. Reading `/proc` happens right here, on the loop's thread: a pod has
//! few processes, and a hop to another thread would cost more than the reading.

use std::sync::Arc;

use super::progress::Progress;
use super::restart::restart;
use super::{http, program, signal, socket};
use crate::clock::Moment;
use crate::config::{Action, Rule};
use crate::core::event::{Act, Acted, Inspection};
use crate::process::{Context, Refusal, all_started_after, find, inspect, names, roots};
use crate::verify::proofs::{self, Before};
use crate::verify::{Baseline, Partial};

/// Does the rule's actions once, one after the other. `last` is what is remembered from the attempt
/// before this one.
pub(crate) async fn act(
    context: &Context,
    rule: &Rule,
    act: &Act,
    last: Baseline,
) -> (Acted, Baseline) {
    let started_anew = || match inspect(context, rule) {
        Inspection::Running { last, .. } => Some(last),
        _ => None,
    };
    if last.partial.is_some()
        && let Some(acted) = ended_of(&last, rule, act, started_anew())
    {
        return (acted, last);
    }
    match try_to_act(context, rule, act).await {
        Ok(done) => done,
        Err(acted) => (acted, last),
    }
}

/// `Err` is an outcome that needs no verification.
async fn try_to_act(context: &Context, rule: &Rule, act: &Act) -> Result<(Acted, Baseline), Acted> {
    let targets = if rule.names_process() || act.restart {
        find(context, rule).map_err(|error| refusal(&error))?
    } else {
        Vec::new()
    };
    if act.fresh_after.is_some_and(|moment| all_started_after(&targets, moment)) {
        let before = Some(Arc::new(Before::of_a_new_process(rule, act.digest)));
        let baseline = Baseline { processes: roots(&targets), before, ..Baseline::default() };
        return Ok((Acted::Fresh(names(&targets)), baseline));
    }
    if act.restart {
        return restart(context, rule, act, &targets).await;
    }
    let before = match proofs::before(rule, act.digest, &roots(&targets)).await {
        Ok(before) => before,
        // What does not work may be why; whatever is shown afterwards is new.
        Err(_) if act.lenient || rule.restarts_target() => {
            Before::of_a_new_process(rule, act.digest)
        }
        Err(reason) => return Err(Acted::Absent(reason)),
    };
    let before = Some(Arc::new(before));
    let mut baseline = Baseline { processes: roots(&targets), before, ..Baseline::default() };
    let mut done = Progress::default();
    for action in &rule.actions {
        let step = match action {
            Action::Signal(action) => signal::send(*action, &targets).map(|sent| {
                done.signalled = Some(names(sent.iter().copied()));
                baseline.processes = roots(sent);
            }),
            Action::Http(action) => done.take(http::send(action).await),
            Action::Exec(program) => done.take(program::run(rule, program, act).await),
            Action::Command(command) => done.take(socket::send(command).await),
            // What comes behind it would meet nobody: it is the last.
            Action::Restart => match restart(context, rule, act, &targets).await {
                Err(acted) => Err(acted),
                restarted => return restarted,
            },
        };
        if let Err(acted) = step {
            return done.incomplete(acted, act, baseline);
        }
    }
    Ok((done.acted(), baseline))
}

/// What was done before for this digest, if not all was done, and a process has ended of it: it
/// is to be looked at now, since whoever is started anew would be taken for the application.
fn ended_of(
    last: &Baseline,
    rule: &Rule,
    act: &Act,
    started_anew: Option<Moment>,
) -> Option<Acted> {
    let Partial { digest, at, acted } = last.partial.as_ref()?;
    // Later, it has ended of something else.
    let is_soon = started_anew.unwrap_or(act.at) <= at.after(rule.verify.alive_for);
    (*digest == act.digest && is_soon && last.has_ended()).then(|| acted.clone())
}

fn refusal(refusal: &Refusal) -> Acted {
    match refusal {
        Refusal::NotFound(reason) => Acted::Absent(reason.clone()),
        Refusal::Blind(reason) => Acted::Failed(reason.clone()),
        refused => Acted::Refused(refused.reason()),
    }
}
