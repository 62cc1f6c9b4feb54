//! Performs the core's commands: each in the module that is named after it.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use tokio::task::AbortHandle;

use super::agent::{Agent, Done};
use super::clock;
use crate::checks;
use crate::config::Rule;
use crate::core::command::Command;
use crate::core::event::{Event, Probe, RuleId, VolumeId};
use crate::volume::scan;
use crate::{action, pause, process, publish, report, verify};

impl Agent {
    /// Runs all commands of the core. Log lines come last: writing a line takes longer than sending
    /// a signal.
    pub(super) fn obey_all(&mut self) {
        while let Some(command) = self.core.next_command() {
            self.obey(command);
        }
        for (rule, fact) in std::mem::take(&mut self.untold) {
            if let Some(config) = self.rule(rule) {
                report::fact(&config.name, &fact, |volume| self.path_for_people(volume));
            }
        }
    }

    /// Runs a command, or starts its task.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Scan(rule, volumes) => {
                let Some(config) = self.rule(rule) else { return };
                let volumes = self.paths(volumes);
                let is_quick = volumes.iter().all(|(id, _)| self.kubelet_volumes.contains(id));
                let scan = move || {
                    let read =
                        |(id, path): (VolumeId, PathBuf)| (id, scan::read(&path, &config.keys));
                    Done::Scanned(rule, volumes.into_iter().map(read).collect())
                };
                if is_quick {
                    self.done(scan());
                } else {
                    self.reading.take(&mut self.tasks, scan);
                }
            }
            Command::Resync(volumes) => self.resync(volumes),
            Command::ReadPublished(rule) => self.begin_writing(rule, move |config| {
                // An error needs no event: the next resync reads it again.
                match publish::current(config) {
                    Ok(digest) => Done::Told(Event::FoundPublished(rule, digest)),
                    Err(_) => Done::Nothing,
                }
            }),
            Command::Inspect(rule) => {
                let Some(config) = self.rule(rule) else { return };
                self.done(Done::Told(Event::Inspected(
                    rule,
                    process::inspect(&self.context, &config),
                )));
            }
            Command::Check(rule, digest) => {
                let work_dir = self.config.agent.work_dir.clone();
                let now = clock::now().wall;
                if let Some(kept) = self.rules.get_mut(rule.0) {
                    kept.give_up_check();
                    (kept.checked, kept.whole) = (Some(digest), None);
                }
                self.begin_reading(rule, move |config| {
                    let begun = checks::begin(config, digest, &work_dir, now);
                    Done::CheckBegun(rule, digest, begun)
                });
            }
            Command::Probe(rule, Probe::PauseFile) => {
                let Some(config) = self.rule(rule) else { return };
                let by = config.settings.hold.pause_file.as_deref().and_then(pause::by_file);
                self.done(Done::Told(Event::Probed(rule, Probe::PauseFile, by)));
            }
            Command::Expiry(rule, digest) => {
                let now = clock::now().wall;
                self.begin_reading(rule, move |config| {
                    Done::Told(Event::Expires(rule, checks::expiry(config, digest, now)))
                });
            }
            Command::Publish(rule, digest) => {
                let now = clock::now().wall;
                let kept = self.rules.get(rule.0).filter(|kept| kept.checked == Some(digest));
                let whole = kept.and_then(|kept| kept.whole);
                self.begin_writing(rule, move |config| {
                    let publication = publish::publish(config, digest, whole, now);
                    Done::Told(Event::Published(rule, publication))
                });
            }
            Command::RollBack(rule, back) => self.begin_writing(rule, move |config| {
                Done::Told(Event::Published(rule, publish::roll_back(config, back)))
            }),
            Command::Approve(rule, digest) => self.begin_writing(rule, move |config| {
                Done::Written(publish::approve(config, digest).map_err(|reason| (rule, reason)))
            }),
            Command::Act(act) => {
                let Some(config) = self.rule(act.rule) else { return };
                let context = Arc::clone(&self.context);
                let last = self.rules.get(act.rule.0).filter(|_| act.attempt > 1);
                let last = last.map(|kept| kept.baseline.clone()).unwrap_or_default();
                self.begin(async move {
                    let (acted, baseline) = action::act(&context, &config, &act, last).await;
                    Done::Acted(act.rule, acted, baseline)
                });
            }
            Command::Verify(rule) => {
                let Some(config) = self.rule(rule) else { return };
                let kept = self.rules.get(rule.0);
                let baseline = kept.map(|kept| kept.baseline.clone()).unwrap_or_default();
                let context = Arc::clone(&self.context);
                self.begin(async move {
                    let (verified, baseline) = verify::verify(&context, &config, baseline).await;
                    Done::Verified(rule, verified, baseline)
                });
            }
            Command::Persist(rule, memory) => {
                let Some(state) = self.state.clone() else { return };
                self.begin_writing(rule, move |config| {
                    let written = state.save(&config.name, &memory);
                    Done::Written(written.map_err(|reason| (rule, reason)))
                });
            }
            Command::Report(rule, fact) => self.untold.push((rule, fact)),
        }
    }

    /// Polls a task once on the loop, and spawns it only if it has to wait: a signal is sent
    /// without the delay of a new task.
    pub(super) fn begin(
        &mut self,
        task: impl Future<Output = Done> + Send + 'static,
    ) -> Option<AbortHandle> {
        // One kind of task for all of them: each kind costs some KiB of the binary.
        let mut task: Pin<Box<dyn Future<Output = Done> + Send>> = Box::pin(task);
        match task.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => {
                self.done(done);
                None
            }
            Poll::Pending => Some(self.tasks.spawn(task)),
        }
    }

    /// Queues work that reads volumes.
    pub(super) fn begin_reading(
        &mut self,
        rule: RuleId,
        task: impl FnOnce(&Rule) -> Done + Send + 'static,
    ) {
        if let Some(config) = self.rule(rule) {
            self.reading.take(&mut self.tasks, move || task(&config));
        }
    }

    /// Queues work that writes the publish or the state directory.
    pub(super) fn begin_writing(
        &mut self,
        rule: RuleId,
        task: impl FnOnce(&Rule) -> Done + Send + 'static,
    ) {
        if let Some(config) = self.rule(rule) {
            self.writing.take(&mut self.tasks, move || task(&config));
        }
    }
}
