//! The event loop: passes every event to the core, and performs the core's commands (`commands.rs`). Of all files of `run`,
//! this one calls the others, and none calls it.

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::agent::{Agent, RuleState};
use super::clock;
use super::connections::Listeners;
use crate::admin::server::{self, Serves};
use crate::report;
use crate::system::os_signals::{OsSignal, OsSignals};
use crate::system::stderr;
use podnudge_core::clock::Moment;
use podnudge_core::event::Event;

/// How many admin requests may be queued for the loop.
const MAX_QUEUED_REQUESTS: usize = 8;

impl Agent {
    /// Runs until podnudge is asked to stop, or is to end with an exit code.
    pub(super) async fn run(
        &mut self,
        mut signals: OsSignals,
        mut listeners: Listeners,
    ) -> Option<u8> {
        report::started(&self.config, listeners.address());
        let hints = self.watching.hints();
        let (sender, mut requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let mut end_at: Option<Moment> = None;
        loop {
            self.run_all();
            self.end_left();
            // Just before the end, so that nothing comes between.
            if self.give_up_late_end() {
                continue;
            }
            if let Some(code) = self.ended_for_pod() {
                return Some(code);
            }
            let is_stopped = self.core.is_stopped() || self.has_abandoned;
            if is_stopped && !self.api.is_busy() {
                // An answer whether others have to be told may still come.
                if !self.api.is_telling() {
                    self.api.end_requests();
                }
                if self.tasks.is_empty() {
                    return None;
                }
            }
            let due = [self.core.next_wakeup(), end_at].into_iter().flatten().min();
            let ending = self.ending.map(|ending| ending.until);
            let others = [self.api.next_wakeup(), ending, listeners.retry()];
            let turn = others.into_iter().flatten().min();
            tokio::select! {
                // If several are ready, in this order: stopping comes before starting anything, and requests, which
                // others may send without end, after all else.
                biased;
                signal = signals.next() => match signal {
                    OsSignal::Stop if end_at.is_some() => {
                        info!(event = "ending-now", "second stop signal: stopping at once");
                        return None;
                    }
                    OsSignal::Stop => {
                        info!(event = "ending", "stop signal received: stopping");
                        end_at = Some(clock::now().mono.after(self.config.agent.grace));
                        self.handle_event(Event::Stop);
                        self.rules.iter_mut().for_each(RuleState::stop);
                        self.api.stop();
                        self.reading.stop_waiting();
                        self.writing.stop_waiting();
                    }
                    OsSignal::Trigger => self.handle_event(Event::Trigger(None)),
                    OsSignal::DumpStatus => self.dump_status(),
                },
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.handle_done(done),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                rule = self.exits.next() => self.handle_event(Event::Ended(rule)),
                pending = hints.next() => {
                    if pending.all {
                        self.handle_event(Event::HintsLost);
                    }
                    for (volume, commits) in pending.volumes {
                        self.handle_event(Event::Hint(volume, commits));
                    }
                }
                () = clock::sleep_until(due) => {
                    if end_at.is_some_and(|end| clock::now().mono >= end) {
                        warn!(event = "grace-over", "grace over: a running action was abandoned");
                        return None;
                    }
                    self.core.tick(clock::now());
                }
                Some(told) = self.api.next_watched() => self.watch_told(told),
                Some(()) = self.mounts.changed() => self.handle_event(Event::MountsChanged),
                Some(request) = requests.recv() => self.answer(request),
                () = self.connections.ended() => {}
                accepted = listeners.accept(), if self.connections.has_room() => {
                    let serves = Serves::Agent(sender.clone(), self.config.agent.reload());
                    self.connections.serve(server::connection(accepted, serves));
                }
                // Each turn of the loop begins with what is due then.
                () = clock::sleep_until(turn) => {}
            }
        }
    }

    /// Performs all commands of the core, and what follows from them, until nothing is left to do now.
    fn run_all(&mut self) {
        loop {
            self.run_commands();
            if !self.advance_slots() {
                self.advance_api_users();
                if self.ready.is_empty() {
                    return;
                }
            }
        }
    }

    /// Performs all commands of the core, and handles the results that are there. Log lines come last.
    fn run_commands(&mut self) {
        loop {
            if let Some(command) = self.core.next_command() {
                self.run_command(command);
            } else if let Some(done) = self.ready.pop_front() {
                self.handle_done(done);
            } else {
                break;
            }
        }
        self.report_dropped_lines();
        self.log_facts();
    }

    /// Reports lines of the log that were dropped. If that line is dropped, too, it follows later.
    fn report_dropped_lines(&mut self) {
        let dropped = stderr::dropped();
        if dropped != self.counted.log_lines_dropped {
            self.counted.log_lines_dropped = dropped;
            warn!(
                event = "log-dropped",
                lines = dropped,
                "lines of the log were dropped: nothing has read standard error"
            );
        }
    }
}
