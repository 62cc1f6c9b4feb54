//! Performs the core's commands: each in the module that is named after it.

use std::path::PathBuf;
use std::sync::Arc;

use super::agent::{Agent, Done};
#[cfg(feature = "cluster")]
use super::api;
use super::clock;
#[cfg(feature = "compat")]
use super::expand;
use super::pause;
use crate::checks;
use crate::preflight::Stage;
use crate::volume::scan;
use crate::{action, preflight, process, publish, verify};
use podnudge_config::Rule;
use podnudge_core::command::{Act, Command, Extent};
use podnudge_core::event::{Acted, Event, Memory, Probe, RuleId, VolumeId};
use podnudge_core::snapshot::Digest;

impl Agent {
    /// Runs a command, or starts its task.
    pub(super) fn run_command(&mut self, command: Command) {
        #[cfg(feature = "page")]
        self.facts.history.commanded(clock::now().wall, &command);
        match command {
            Command::Scan(rule, volumes) => {
                let Some(config) = self.rule(rule) else { return };
                self.look_at_reads();
                let is_quick = self.are_kubelets(&volumes);
                let volumes = self.paths(volumes);
                // A volume of the kubelet is small, and is read without the delay of a thread.
                let read = |(id, path): &(VolumeId, PathBuf)| {
                    Some((*id, scan::read_small(path, &config.keys).ok()?))
                };
                let small = is_quick.then(|| volumes.iter().map(read).collect::<Option<Vec<_>>>());
                if let Some(small) = small.flatten() {
                    let small = small.into_iter().map(|(id, reading)| (id, Ok(reading)));
                    return self.ready.push_back(Done::Scanned(rule, small.collect()));
                }
                self.reading.submit(&mut self.tasks, move || {
                    let read =
                        |(id, path): (VolumeId, PathBuf)| (id, scan::read(&path, &config.keys));
                    Done::Scanned(rule, volumes.into_iter().map(read).collect())
                });
            }
            Command::Resync(volumes) => self.resync(volumes),
            Command::RenewWatches => self.watching.distrust(),
            Command::ReadPublished(rule) => self.queue_write(rule, move |config| {
                // An error needs no event: the next resync reads it again.
                match publish::repair(config) {
                    Ok(digest) => Done::Event(Event::FoundPublished(rule, digest)),
                    Err(_) => Done::Nothing,
                }
            }),
            Command::Inspect(rule) => {
                let Some(config) = self.rule(rule) else { return };
                self.handle_event(Event::Inspected(rule, process::inspect(&self.context, &config)));
            }
            Command::Preflight(rule) => self.preflight(rule),
            Command::Check(rule, digest) => self.check(rule, digest),
            Command::Remember(rule, digest) => self.remember(rule, digest),
            Command::Probe(rule, Probe::PauseFile) => {
                let Some(config) = self.rule(rule) else { return };
                let reason =
                    config.settings.hold.pause_file.as_deref().and_then(pause::reason_from_file);
                self.handle_event(Event::Probed(rule, Probe::PauseFile, reason));
            }
            Command::Expiry(rule, digest) => {
                let now = clock::now().wall;
                let Some(state) = self.rules.get(rule.0) else { return };
                let attempts = state.attempts.clone();
                self.queue_read(rule, move |config| {
                    // Content that moved is read again after its scan.
                    match checks::expiry(config, digest, &attempts, now) {
                        Ok(at) => Done::Event(Event::Expires(rule, digest, at)),
                        Err(_) => Done::Nothing,
                    }
                });
            }
            Command::Publish(rule, digest) => {
                let now = clock::now().wall;
                let state =
                    self.rules.get(rule.0).filter(|state| state.checked_digest == Some(digest));
                let full_digest = state.and_then(|state| state.full_digest);
                self.queue_write(rule, move |config| {
                    let publication = publish::publish(config, digest, full_digest, now);
                    Done::Event(Event::Published(rule, publication))
                });
            }
            Command::RollBack(rule, back) => self.queue_write(rule, move |config| {
                Done::Event(Event::Published(rule, publish::roll_back(config, back)))
            }),
            Command::Approve(rule, digest, evidence) => self.queue_write(rule, move |config| {
                let written = publish::approve(config, digest, evidence);
                Done::Written(written.map_err(|reason| (rule, reason)))
            }),
            // What was saved before is on disk when the target ends: a killed podnudge continues there.
            Command::Act(act) if self.state.is_some() && self.ends_target(&act) => {
                self.queue_write(act.rule, move |_| Done::MayAct(act));
            }
            Command::Act(act) => self.act(act),
            Command::Verify(rule) => {
                let Some(config) = self.rule(rule) else { return };
                let state = self.rules.get(rule.0);
                let baseline = state.map(|state| state.baseline.clone()).unwrap_or_default();
                let context = Arc::clone(&self.context);
                self.start_task(async move {
                    let (verified, baseline) = verify::verify(&context, &config, baseline).await;
                    Done::Verified(rule, verified, baseline)
                });
            }
            Command::EndPod(rule, before) => self.end_pod(rule, before),
            Command::Persist(rule, memory) => self.persist(rule, *memory),
            Command::Claim(rule, ..)
            | Command::Release(rule)
            | Command::Halt(rule, ..)
            | Command::TryHalted(rule, _)
            | Command::ClearHalt(rule, _) => self.perform_for_slot(rule, command),
            Command::LookAtPod(rule, number, is) => self.look_at_pod(rule, number, is),
            Command::Report(rule, fact) => {
                #[cfg(feature = "compat")]
                self.count_success(rule, &fact);
                self.facts.pending.push((rule, fact));
            }
        }
    }

    /// Looks at what was opened until now, before a scan opens it, too.
    fn look_at_reads(&self) {
        for reads in self.rules.iter().filter_map(|state| state.baseline.reads.as_ref()) {
            reads.look();
        }
    }

    fn ends_target(&self, act: &Act) -> bool {
        let ends = |rule: Arc<Rule>| rule.restarts_target() || rule.settings.evicts();
        act.extent == Extent::Send && (act.restart || self.rule(act.rule).is_some_and(ends))
    }

    /// Runs the actions of a rule, or prepares them.
    #[cfg_attr(
        not(feature = "compat"),
        expect(unused_mut, reason = "only `[rule.expand]` changes it")
    )]
    pub(super) fn act(&mut self, mut act: Act) {
        // What precedes an action may have taken long, and podnudge may have been suspended meanwhile.
        if let Err(acted) = action::refuse_if_late(&act) {
            return self.handle_event(Event::Acted(act.rule, acted));
        }
        let why_not = self.why_not_end(act.rule).or_else(|| self.why_not_evict(act.rule));
        if let Some(reason) = why_not.or_else(|| self.why_check_first(act.rule, act.digest)) {
            return self.handle_event(Event::Acted(act.rule, Acted::Refused(reason)));
        }
        if self.rule(act.rule).is_some_and(|rule| rule.actions.is_empty()) {
            self.choose_preset(act.rule);
        }
        let Some(config) = self.rule(act.rule) else { return };
        let context = Arc::clone(&self.context);
        let reports_changes = self.watching.hints().have_come();
        let layout = self.layout(act.rule);
        let last = self.rules.get(act.rule.0).filter(|_| act.attempt > 1);
        let last = last.map(|state| state.baseline.clone()).unwrap_or_default();
        #[cfg(feature = "cluster")]
        let evictor =
            self.api.evictor().filter(|_| act.extent == Extent::Send && config.settings.evicts());
        self.start_task(async move {
            #[cfg(feature = "compat")]
            if let Err(reason) = expand::before(&config, &mut act).await {
                return Done::Acted(act.rule, Acted::Failed(reason), last);
            }
            let (acted, mut baseline) = action::act(&context, &config, &act, &layout, last).await;
            if !reports_changes {
                // inotify may not report reads either.
                baseline.reads = None;
            }
            #[cfg(feature = "cluster")]
            let acted = api::evict_if_ready(evictor, acted, act.before).await;
            Done::Acted(act.rule, acted, baseline)
        });
    }

    /// Starts the preflight of a rule, unless an earlier one still waits for an address.
    fn preflight(&mut self, rule: RuleId) {
        self.choose_preset(rule);
        self.retry_state_dir(rule);
        if !self.try_preset_check(rule) {
            self.look_for_problems(rule);
        }
    }

    /// The preflight, after the check of the preset was tried.
    pub(super) fn look_for_problems(&mut self, rule: RuleId) {
        let Some(state) = self.rules.get_mut(rule.0) else { return };
        if state.preflight_task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (config, last) = (Arc::clone(&state.config), state.addresses.clone());
        let (context, work_dir) = (Arc::clone(&self.context), self.config.agent.work_dir.clone());
        let task = self.start_task(async move {
            let (problems, addresses) =
                preflight::preflight(&context, &config, &work_dir, last, Stage::Running).await;
            Done::Preflight(rule, problems, addresses)
        });
        if let Some(state) = self.rules.get_mut(rule.0) {
            state.preflight_task = task;
        }
    }

    /// Tries again to use a state directory that could not be used.
    fn retry_state_dir(&mut self, rule: RuleId) {
        if let Some(state) = self.state.clone().filter(|state| state.failure().is_some()) {
            self.queue_write(rule, move |_| {
                state.retry();
                Done::Nothing
            });
        }
    }

    /// Saves what the application of a rule runs.
    fn persist(&mut self, rule: RuleId, memory: Memory) {
        let Some(state) = self.state.clone() else { return };
        let now = clock::now();
        self.queue_write(rule, move |config| {
            let written = state.save(&config.name, memory, now);
            Done::Written(written.map_err(|reason| (rule, reason)))
        });
    }

    /// Records that content waits for its checks.
    fn remember(&mut self, rule: RuleId, digest: Digest) {
        let Some(state) = self.rules.get(rule.0) else { return };
        let attempts = state.attempts.clone();
        attempts.wait(digest);
        self.queue_write(rule, move |_| {
            attempts.record();
            Done::Nothing
        });
    }

    /// Starts the checks of a rule, and aborts those that are running for it.
    fn check(&mut self, rule: RuleId, digest: Digest) {
        let work_dir = self.config.agent.work_dir.clone();
        let now = clock::now().wall;
        self.forget_rejected(rule);
        let Some(state) = self.rules.get_mut(rule.0) else { return };
        state.abort_check();
        (state.checked_digest, state.full_digest) = (Some(digest), None);
        let attempts = state.attempts.clone();
        if self.reading.is_busy() {
            // What it waits for may be a check that ends podnudge.
            self.remember(rule, digest);
        }
        self.queue_read(rule, move |config| {
            let begun = checks::run_local(config, digest, &work_dir, &attempts, now);
            Done::CheckedLocally(rule, digest, begun)
        });
    }
}
