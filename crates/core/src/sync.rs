//! `podnudge sync`: one podnudge for the pods of a namespace. Pure: the loop sends the requests and returns the answers
//! (`run/sync.rs` of the package podnudge).
//!
//! - One of the replicas is the leader (`election.rs`); the others only look at its Lease.
//! - The leader follows the metadata of the ConfigMaps, and of the named Secrets (`follow.rs`, and
//!   `objects.rs` of the core).
//! - When content was edited, it lists the pods and annotates those that mount it (`pass.rs`, `pods.rs`), at a bounded
//!   rate (`throttle.rs`): the kubelet syncs a pod that has changed. No pod is kept.
//! - The Lease has the edits that are not done (`edits.rs`), and a pod's annotation those for which it was annotated: a
//!   new leader does what is left.
//!
//! Nothing depends on it: without it, the kubelet syncs each pod every 60 to 90 s, as ever.

mod edits;
mod election;
mod follow;
mod lease;
mod messages;
mod pass;
mod pods;
mod throttle;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::{Moment, Now};
use crate::failing::Failing;
use crate::objects::{Metadata, ObjectKind, ObjectName};
use crate::pace::Pace;
use crate::reason::Reason;
use crate::status::Histogram;
pub use edits::{Edit, Target};
pub use election::LeaseAsk;
use election::{Election, Leadership};
use follow::{Dated, Follow, Learnt};
pub use lease::SyncLease;
pub use messages::{Answer, Followed, Request, Settings, SyncFact, SyncStatus};
pub use pass::Counts;
use pass::{Passes, With};
pub use pods::{ANNOTATION, DuePod, PodsPage, Targets};
use throttle::Throttle;
use work::Work;

/// The machine of `podnudge sync`.
#[derive(Debug)]
pub struct Sync {
    settings: Settings,
    seed: u64,
    election: Election,
    work: Option<Work>,
    /// Another one for each time that this podnudge leads: answers to older requests are dropped.
    epoch: u32,
    throttle: Throttle,
    pace: Pace,
    failing: Option<Failing>,
    /// A refusal to annotate pods. Only an annotation ends it.
    refused: Option<Failing>,
    passes: Passes,
    facts: VecDeque<SyncFact>,
    /// Whether a problem was reported that is not over.
    has_reported: bool,
    edits: u64,
    ended: u64,
    totals: Counts,
    took: Histogram,
}

impl Sync {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new(settings: Settings, now: Now, seed: u64) -> Self {
        let names = (settings.lease.clone(), settings.holder.clone());
        let election = Election::new(names, settings.lease_duration, now.mono, seed);
        let throttle = Throttle::new(settings.rate, seed.wrapping_add(1));
        Self {
            settings,
            seed,
            election,
            work: None,
            epoch: 0,
            throttle,
            pace: Pace::new(seed.wrapping_add(2)),
            failing: None,
            refused: None,
            passes: Passes::default(),
            facts: VecDeque::new(),
            has_reported: false,
            edits: 0,
            ended: 0,
            totals: Counts::default(),
            took: Histogram::default(),
        }
    }

    /// The next request to send, and the epoch that its answers name. Call it until it returns `None`, after every answer
    /// and at the time of [`Sync::next_wakeup`].
    pub fn next_request(&mut self, now: Now) -> Option<(u32, Request)> {
        if let Some(change) = self.election.expire(now.mono) {
            self.leadership_changed(now, change);
        }
        self.report(now.mono);
        let request = self.next(now)?;
        Some((self.epoch, request))
    }

    fn next(&mut self, now: Now) -> Option<Request> {
        let record = self.work.as_ref().map(|work| work.record.clone()).unwrap_or_default();
        if let Some(ask) = self.election.next(now, &record) {
            return Some(Request::Lease(ask));
        }
        let secrets = &self.settings.secrets;
        let work = self.work.as_mut()?;
        for (number, follow) in work.follows.iter_mut().enumerate() {
            let Some(next) = follow.next(now.mono) else { continue };
            let secret = number.checked_sub(1).and_then(|number| secrets.get(number)).cloned();
            let followed = Followed { number, secret };
            return Some(match next {
                follow::Next::List(next) => Request::List(followed, next),
                follow::Next::Watch(version, time) => Request::Watch(followed, version, time),
            });
        }
        if work.pass_due(&self.election, &self.passes).is_some_and(|at| at <= now.mono) {
            work.begin_pass(now);
        }
        let pass = work.pass.as_mut()?;
        Some(match pass.next(now.mono, &mut self.throttle)? {
            pass::Next::List(next) => Request::Pods(next, Arc::clone(&pass.targets)),
            pass::Next::Annotate(pod) => Request::Annotate(pod),
        })
    }

    /// When to call [`Sync::next_request`], if nothing else happens.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        let work = self.work.as_ref();
        let record = work.map(|work| work.record.as_str()).unwrap_or_default();
        let follows = work.iter().flat_map(|work| &work.follows).filter_map(Follow::next_wakeup);
        let begin = work.and_then(|work| work.pass_due(&self.election, &self.passes));
        let pass = work.and_then(|work| work.pass.as_ref());
        let pass = pass.and_then(|pass| pass.next_wakeup(&self.throttle));
        let report = self.failings().filter(|_| !self.has_reported).map(Failing::due);
        let election = self.election.next_wakeup(record);
        election.into_iter().chain(follows).chain(begin).chain(pass).chain(report).min()
    }

    /// Handles what has come of a request of this epoch.
    pub fn handle(&mut self, now: Now, epoch: u32, answer: Answer) {
        if let Answer::Lease(answer) = answer {
            if let Some(change) = self.election.answered(now.mono, answer) {
                self.leadership_changed(now, change);
            }
        } else if epoch == self.epoch {
            self.worked(now, answer);
        }
        self.report(now.mono);
    }

    fn worked(&mut self, now: Now, answer: Answer) {
        let Some(work) = &mut self.work else { return };
        let mut with = With {
            throttle: &mut self.throttle,
            pace: &mut self.pace,
            failing: &mut self.failing,
            refused: &mut self.refused,
        };
        match answer {
            Answer::Lease(_) => {}
            Answer::Listed(number, answer) => {
                let Some(follow) = work.follows.get_mut(number) else { return };
                let learnt = follow.listed(now.mono, answer);
                self.learnt(now, number, learnt);
            }
            Answer::Opened(number) => {
                if let Some(follow) = work.follows.get_mut(number) {
                    follow.opened(now.mono);
                }
                self.tell_following();
            }
            Answer::Event(number, event) => {
                let Some(follow) = work.follows.get_mut(number) else { return };
                let learnt = follow.event(now.mono, event);
                self.learnt(now, number, learnt.into_iter().collect());
            }
            Answer::Ended(number, how) => {
                if let Some(follow) = work.follows.get_mut(number) {
                    follow.ended(now.mono, &how);
                }
            }
            Answer::Pods(answer) => {
                if let Some(pass) = &mut work.pass {
                    pass.listed(now.mono, answer, &mut with);
                }
                self.end_pass(now);
            }
            Answer::Annotated(pod, sent, answer) => {
                if let Some(pass) = &mut work.pass {
                    pass.annotated(now.mono, (pod, sent), &answer, &mut with);
                }
                self.end_pass(now);
            }
        }
    }

    /// The next fact to report.
    pub fn next_fact(&mut self) -> Option<SyncFact> {
        self.facts.pop_front()
    }

    /// podnudge is asked to stop: the Lease is given back, and nothing else is sent.
    pub fn stop(&mut self, now: Moment) {
        self.work = None;
        self.epoch = self.epoch.wrapping_add(1);
        self.election.stop(now);
    }

    /// Whether nothing is left to send after [`Sync::stop`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.election.is_over()
    }

    /// The state, for all outputs.
    #[must_use]
    pub fn status(&self, now: Now) -> SyncStatus {
        let follows = self.work.iter().flat_map(|work| &work.follows);
        let watched = self.work.is_some() && follows.clone().all(Follow::is_watched);
        let late = self.work.as_ref().and_then(Work::late_since);
        let leading = self.work.is_some();
        let running = self.work.as_ref().and_then(|work| work.pass.as_ref());
        let running = running.map(|pass| pass.counts).unwrap_or_default();
        SyncStatus {
            leading,
            leader: self.election.other_leader().map(str::to_owned),
            ready: if leading {
                watched
            } else {
                self.election.has_read && self.election.failing.is_none()
            },
            objects: follows.map(Follow::objects).sum(),
            watched,
            edits: self.edits,
            passes: self.ended,
            annotated: self.totals.annotated + running.annotated,
            refused: self.totals.refused + running.refused,
            lag_seconds: late.map_or(0.0, |late| now.wall.since(late).as_secs_f64()),
            edit_to_annotated: self.took.clone(),
            reason: self.problem(now.mono).cloned(),
        }
    }

    fn leadership_changed(&mut self, now: Now, change: Leadership) {
        self.epoch = self.epoch.wrapping_add(1);
        (self.failing, self.refused) = (None, None);
        let Leadership::Won(record) = change else {
            self.work = None;
            self.facts.push_back(SyncFact::NotLeading);
            return;
        };
        self.facts.push_back(SyncFact::Leading);
        let number = self.settings.secrets.len() + 1;
        let seeds = (0..number).zip(3..).map(|(_, n)| self.seed.wrapping_add(n));
        let follows = seeds.map(|seed| Follow::new(now.mono, seed)).collect();
        self.work = Some(Work::new(now, follows, record.as_deref()));
    }

    fn learnt(&mut self, now: Now, number: usize, learnt: Vec<Learnt>) {
        let Some(work) = &mut self.work else { return };
        let kind = if number == 0 { ObjectKind::ConfigMap } else { ObjectKind::Secret };
        let mut has_changed = false;
        for learnt in learnt {
            match learnt {
                Learnt::Found(_) if work.is_first => {}
                Learnt::Found(Metadata { name, state }) => {
                    let at = state.content_at();
                    let object = ObjectName { kind, name };
                    if let Some(edit) = work.edits.find(&object, at, &state.version, now.wall) {
                        self.edits += 1;
                        has_changed = true;
                        let late = at.unwrap_or(now.wall);
                        self.facts.push_back(SyncFact::Edited(object.clone(), late));
                        work.add(now, object, edit, late);
                    }
                }
                Learnt::Edited(Metadata { name, state }, dated) => {
                    self.edits += 1;
                    has_changed = true;
                    let object = ObjectName { kind, name };
                    let content_at = state.content_at();
                    let is_dated = dated == Dated::Yes;
                    let edit = Edit { id: state.version, content_at, is_dated };
                    self.facts.push_back(SyncFact::Edited(object.clone(), now.wall));
                    work.add(now, object, edit, now.wall);
                }
                Learnt::Deleted(name) => {
                    let object = ObjectName { kind, name };
                    has_changed = true;
                    work.waiting.retain(|target| target.object != object);
                    work.edits.remove(&object);
                }
            }
        }
        if has_changed {
            work.edits.forget(now.wall);
            work.record = work.edits.text();
        }
    }

    fn tell_following(&mut self) {
        let Some(work) = &mut self.work else { return };
        if !work.has_told && work.follows.iter().all(Follow::is_watched) {
            work.has_told = true;
            let targets = work.pass.iter().flat_map(|pass| pass.targets.iter());
            let open: Vec<&Target> = work.waiting.iter().chain(targets).collect();
            work.edits.keep_open(|object| open.iter().any(|target| target.object == *object));
            work.record = work.edits.text();
            let objects = work.follows.iter().map(Follow::objects).sum();
            self.facts.push_back(SyncFact::Following(objects));
            if work.follows.iter().any(|follow| follow.is_full) {
                self.facts.push_back(SyncFact::TooManyObjects);
            }
        }
    }

    fn end_pass(&mut self, now: Now) {
        let Some(work) = &mut self.work else { return };
        let Some(pass) = work.pass.take_if(|pass| pass.is_over()) else { return };
        let done = work.end_pass(now, &pass);
        self.passes.ended(now.mono, pass.counts);
        self.ended += 1;
        self.totals.read += pass.counts.read;
        self.totals.annotated += pass.counts.annotated;
        self.totals.refused += pass.counts.refused;
        if !pass.is_refused() {
            // The pods that are left are protected.
            self.refused = None;
            for target in &done {
                self.took.observe(now.wall.since(target.late_since).as_secs_f64());
            }
            let first = done.iter().map(|target| target.late_since).min().unwrap_or(now.wall);
            let took = now.wall.since(first);
            self.facts.push_back(SyncFact::Done(done.len(), pass.counts, took));
        }
        if pass.counts.refused > 0 {
            self.facts.push_back(SyncFact::Refused(pass.counts.refused));
        }
    }

    fn failings(&self) -> impl Iterator<Item = &Failing> {
        let follows = self.work.iter().flat_map(|work| &work.follows);
        let follows = follows.filter_map(|follow| follow.failing.as_ref());
        self.election.failing.iter().chain(follows).chain(&self.failing).chain(&self.refused)
    }

    fn problem(&self, now: Moment) -> Option<&Reason> {
        self.failings().find_map(|failing| failing.problem(now))
    }

    /// Reports a problem once, and that it is over.
    fn report(&mut self, now: Moment) {
        let problem = self.problem(now).cloned();
        match problem {
            Some(reason) if !self.has_reported => {
                self.has_reported = true;
                self.facts.push_back(SyncFact::Unavailable(reason));
            }
            None if self.has_reported && self.failings().next().is_none() => {
                self.has_reported = false;
                self.facts.push_back(SyncFact::Available);
            }
            _ => {}
        }
    }
}
