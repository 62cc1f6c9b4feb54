//! Remembers programs that end on a signal, although they have a handler for it, as chronyd does on HUP. Broken content
//! ends other programs in the same way, so a program is remembered only if it has then started again with the same
//! content and runs: that content was good. One that has ever survived the signal ended for another reason.
//!
//! Reads `/proc`; changes nothing. The memory ends with podnudge.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;

use super::Identity;
use super::handling::STARTUP_TIME;
use podnudge_config::Rule;
use podnudge_core::clock::Moment;
use podnudge_core::command::Act;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The programs that end on a signal.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The last signal of each rule.
    sent: Vec<Sent>,
    /// The programs that end on a signal, by the names of their processes.
    programs: Vec<(String, Signal)>,
    /// Programs that have survived one, so that an end after it has another cause.
    survivors: Vec<(String, Signal)>,
}

#[derive(Debug)]
struct Sent {
    rule: String,
    process: Identity,
    program: String,
    signal: Signal,
    /// The digest of the content that it was for.
    digest: [u8; 32],
    at: Moment,
    has_ended: bool,
}

impl Ends {
    /// Records that a rule's target was sent a signal for this content.
    pub(crate) fn sent(
        &self,
        rule: &Rule,
        (process, program): (Identity, &str),
        signal: Signal,
        act: &Act,
    ) {
        let (rule, program) = (rule.name.clone(), program.to_owned());
        let (digest, at) = (act.digest.0, act.at);
        let mut known = self.known();
        let before = known.sent.iter().position(|sent| sent.rule == rule);
        let before = before.map(|place| known.sent.swap_remove(place));
        let survivor = before.filter(|sent| sent.process == process && sent.signal == signal);
        if let Some(Sent { program, signal, .. }) = survivor {
            let it = (program, signal);
            if !known.survivors.contains(&it) {
                known.survivors.push(it);
            }
        }
        known.sent.push(Sent { rule, process, program, signal, digest, at, has_ended: false });
    }

    /// Records that the target has ended since then.
    pub(crate) fn ended(&self, rule: &Rule) {
        let mut known = self.known();
        let sent = known.sent.iter_mut().find(|sent| sent.rule == rule.name);
        if let Some(sent) = sent {
            sent.has_ended = true;
        }
    }

    /// Whether it is to be found out what has ended the target, now that there is other content.
    pub(crate) fn is_open(&self, rule: &Rule, act: &Act) -> bool {
        let is_open =
            |sent: &Sent| sent.rule == rule.name && sent.has_ended && sent.digest != act.digest.0;
        self.known().sent.iter().any(is_open)
    }

    /// Finds that out, before anything is done for the other content. `process` is the target that runs, if there is
    /// one.
    pub(crate) fn judge(&self, rule: &Rule, process: Option<(Identity, &str)>, act: &Act) {
        let mut known = self.known();
        let place = known.sent.iter().position(|sent| sent.rule == rule.name);
        let sent = place.map(|place| known.sent.swap_remove(place));
        let (Some(sent), Some((process, program))) = (sent, process) else { return };
        let started = process.started();
        // One that was still starting when the other content came may have read that.
        let has_run = |committed: Moment| committed.since(started) >= STARTUP_TIME;
        let has_same_content = started > sent.at && act.fresh_after.is_some_and(has_run);
        let it = (sent.program, sent.signal);
        if program == it.0 && has_same_content && !known.survivors.contains(&it) {
            known.programs.push(it);
        }
    }

    /// Why the target must not be sent the signal, if it ends on it.
    pub(crate) fn reason(&self, program: &str, signal: Signal) -> Option<Reason> {
        let is_it = |(known, of): &(String, Signal)| known == program && *of == signal;
        let is_known = self.known().programs.iter().any(is_it);
        let program = shown::text(program);
        let message = format!(
            "`{program}` ends on {signal}: it did so for content with which it has started again and runs"
        );
        let hint = "set `restart`, or the signal on which it reloads; allow-unhandled = true sends this one anyway";
        is_known.then(|| Reason::new(message).hint(hint))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
