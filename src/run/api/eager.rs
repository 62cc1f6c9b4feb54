//! Eager sync: sends the requests of `cluster/eager.rs`, and passes on what comes of them, which volumes have
//! new content or are to have it soon, and what to report. Does nothing unless `[cluster]` has `eager-sync`.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::access::ApiAccess;
use super::rights::Withheld;
use crate::cluster::{EagerAnswer, EagerFact, EagerRequest, EagerSync, Feature, Spread};
use crate::exchange::kept::Kept;
use crate::report;
use crate::run::agent::{Agent, Done};
use crate::run::clock;
use crate::system::surroundings::Surroundings;
use crate::volume::mounts;
use podnudge_config::Config;
use podnudge_core::clock::Moment;
use podnudge_core::event::{Event, Expected, VolumeId};
use podnudge_core::snapshot::{Generation, Snapshot};
use podnudge_core::status::EagerSyncStatus;

/// How many answers may wait for the loop; whoever has more waits.
const MOST_ANSWERS: usize = 4;

/// Eager sync, if it is configured.
pub(super) struct EagerSyncing(Option<Active>);

struct Active {
    machine: EagerSync,
    access: ApiAccess,
    container: Option<String>,
    /// In the order of the volumes.
    paths: Vec<PathBuf>,
    /// What the last scan of each has found.
    generations: Vec<Option<Generation>>,
    sender: mpsc::Sender<EagerAnswer>,
    answers: mpsc::Receiver<EagerAnswer>,
    withheld: Withheld,
    /// What the core was told last.
    expected: Option<Expected>,
}

impl EagerSyncing {
    pub(super) fn new(
        config: &Config,
        (surroundings, kept): (Surroundings, Kept),
        seed: u64,
    ) -> Self {
        let Some(settings) = config.cluster.clone().filter(|cluster| cluster.eager_sync) else {
            return Self(None);
        };
        let rules = || config.rules.iter().map(|rule| &rule.settings);
        let replicas = rules().filter_map(|rule| rule.limit.as_ref()?.replicas).max();
        let paths = rules().flat_map(|rule| rule.watch.iter().cloned());
        let (objects, spread) = (settings.objects.clone(), settings.eager_sync_spread);
        let access = ApiAccess::new(settings, surroundings, kept);
        let spread = Spread::new(spread, replicas, &access.pod.name);
        let (sender, answers) = mpsc::channel(MOST_ANSWERS);
        Self(Some(Active {
            machine: EagerSync::new(objects, spread, clock::now(), seed),
            access,
            container: mounts::own_container(),
            paths: paths.collect(),
            generations: Vec::new(),
            sender,
            answers,
            withheld: Withheld::default(),
            expected: None,
        }))
    }

    /// The next answer of the API server. Without eager sync, there is none.
    pub(super) async fn next(&mut self) -> Option<EagerAnswer> {
        self.0.as_mut()?.answers.recv().await
    }

    /// When to advance it, if nothing else happens.
    pub(super) fn next_wakeup(&self) -> Option<Moment> {
        self.0.as_ref()?.machine.next_wakeup()
    }

    /// A volume was read.
    pub(super) fn scanned(&mut self, volume: VolumeId, snapshot: &Snapshot) {
        let Some(active) = &mut self.0 else { return };
        if active.generations.len() <= volume.0 {
            active.generations.resize(volume.0 + 1, None);
        }
        let Some(known) = active.generations.get_mut(volume.0) else { return };
        let before = known.replace(snapshot.generation.clone());
        if before.is_some_and(|before| before != snapshot.generation) {
            active.machine.committed(volume.0, snapshot.committed);
        }
    }

    pub(super) fn answered(&mut self, answer: EagerAnswer) {
        if let Some(active) = &mut self.0 {
            active.machine.handle(clock::now(), answer);
        }
    }

    pub(super) fn status(&self) -> Option<EagerSyncStatus> {
        Some(self.0.as_ref()?.machine.status(clock::now().mono))
    }

    /// Which volumes the kubelet is about to write, if that is news.
    fn take_news(&mut self) -> Option<Event> {
        let active = self.0.as_mut()?;
        let expected = active.machine.expected();
        (expected != active.expected).then(|| {
            active.expected.clone_from(&expected);
            Event::Expected(expected)
        })
    }

    /// podnudge is asked to stop: nothing of it is needed any more.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }
}

impl Agent {
    /// Sends the requests that are due, and reports what has happened.
    pub(in crate::run) fn advance_eager_sync(&mut self) {
        if let Some(news) = self.api.eager.take_news() {
            self.handle_event(news);
        }
        while let Some(active) = &mut self.api.eager.0 {
            let request = active.machine.next_request(clock::now());
            active.report(self.api.rights.lacks(Feature::EagerSync));
            let Some(request) = request else { return };
            let task = active.perform(request);
            let request = self.start_task(async move {
                task.await;
                Done::Nothing
            });
            if let Some(active) = &mut self.api.eager.0 {
                active.access.begun(request);
            }
        }
    }
}

impl Active {
    /// Reports what has happened. That it is unavailable is left to the preflight as long as that says which right is
    /// missing.
    fn report(&mut self, lacks_right: Option<bool>) {
        while let Some(fact) = self.machine.next_fact() {
            match fact {
                EagerFact::Unavailable(reason) => self.withheld.hold(reason),
                EagerFact::Available if !self.withheld.end() => {}
                fact => report::eager_sync(&fact),
            }
        }
        if let Some(reason) = self.withheld.take_due(lacks_right) {
            // It may be another reason by now.
            let reason = self.machine.problem(clock::now().mono).unwrap_or(reason);
            report::eager_sync(&EagerFact::Unavailable(reason));
        }
    }

    /// Sends a request; its answers go to the loop.
    fn perform(&self, request: EagerRequest) -> impl Future<Output = ()> + use<> {
        let ((api, pod), sender) = (self.access.parts(), self.sender.clone());
        let (pod, container, paths) = (pod.name, self.container.clone(), self.paths.clone());
        async move {
            let answer = match request {
                EagerRequest::Find => {
                    EagerAnswer::Found(api.sources(&pod, container.as_deref(), &paths).await)
                }
                EagerRequest::List(number, object) => {
                    EagerAnswer::Listed(number, api.list_metadata(&object).await)
                }
                EagerRequest::Watch(number, object, version, time) => {
                    let events = sender.clone();
                    let watch = api.watch_metadata(number, &object, (version, time), events);
                    EagerAnswer::Ended(number, watch.await)
                }
                EagerRequest::Annotate(value) => {
                    EagerAnswer::Annotated(api.annotate(&pod, Some(value)).await)
                }
                EagerRequest::TryAnnotate => EagerAnswer::Annotated(api.annotate(&pod, None).await),
            };
            // After all that the watch has told.
            drop(sender.send(answer).await);
        }
    }
}
