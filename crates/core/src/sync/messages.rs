//! What goes into the machine of `podnudge sync`, and what comes out of it. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::election::LeaseAsk;
use super::lease::SyncLease;
use super::pass::Counts;
use super::pods::{DuePod, PodsPage, Targets};
use crate::api_error::ApiError;
use crate::clock::{Moment, UnixTime};
use crate::objects::{ObjectName, ObjectsPage, WatchEvent};
use crate::reason::Reason;
use crate::status::Histogram;

/// What is followed, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Secrets that are followed, by their names, beside all ConfigMaps.
    pub secrets: Vec<String>,
    /// The most requests about pods in a second.
    pub rate: u32,
    /// The name of the Lease.
    pub lease: String,
    /// After this time without a renewal, another podnudge takes over.
    pub lease_duration: Duration,
    /// Under which name this podnudge holds the Lease.
    pub holder: String,
}

/// A request, to be sent now.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// About the Lease.
    Lease(LeaseAsk),
    /// List a part of the metadata of these objects: the first one, or the one with this parameter.
    List(Followed, Option<String>),
    /// Watch them from this version, for this time.
    Watch(Followed, String, Duration),
    /// List a part of the pods, and look for those that have to be annotated.
    Pods(Option<String>, Arc<Targets>),
    /// Annotate a pod.
    Annotate(DuePod),
}

/// Objects that are followed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The number by which the answers name them.
    pub number: usize,
    /// The name of the one Secret; without one, all ConfigMaps.
    pub secret: Option<String>,
}

/// What has come of a request. A watch begins, tells of events, and ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The Lease as it is now.
    Lease(Result<SyncLease, ApiError>),
    /// A part of a list.
    Listed(usize, Result<ObjectsPage, ApiError>),
    /// A watch has begun.
    Opened(usize),
    /// A line of a watch.
    Event(usize, WatchEvent),
    /// The end of a watch.
    Ended(usize, Result<(), ApiError>),
    /// A part of the pods.
    Pods(Result<PodsPage, ApiError>),
    /// A pod was annotated, or not. With the time at which the request was sent.
    Annotated(DuePod, Moment, Result<(), ApiError>),
}

/// What people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncFact {
    /// podnudge leads from now on.
    Leading,
    /// podnudge does not lead any more: another one may.
    NotLeading,
    /// How many ConfigMaps and Secrets are followed.
    Following(usize),
    /// There are more objects than it can follow.
    TooManyObjects,
    /// The content of an object was edited, at this time.
    Edited(ObjectName, UnixTime),
    /// All pods were annotated for the edits of so many objects, so long after the first of them.
    Done(usize, Counts, Duration),
    /// Pods must not be annotated: how many of them.
    Refused(u64),
    /// Why edits are not seen, or pods are not annotated.
    Unavailable(Reason),
    /// Edits are seen and pods are annotated again.
    Available,
}

/// The state, for all outputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyncStatus {
    /// Whether this podnudge works.
    pub leading: bool,
    /// Who works, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether it can do its part: to work, or to take over.
    pub ready: bool,
    /// How many objects it follows.
    pub objects: usize,
    /// Whether all edits are seen at once.
    pub watched: bool,
    /// The edits of content that it has seen.
    pub edits: u64,
    /// The passes over the pods that have ended.
    pub passes: u64,
    /// The pods that it has annotated.
    pub annotated: u64,
    /// The pods that the API server did not let it annotate.
    pub refused: u64,
    /// How old the oldest edit is for which not all pods were annotated; 0 if there is none.
    pub lag_seconds: f64,
    /// The time from an edit until all pods were annotated.
    pub edit_to_annotated: Histogram,
    /// What does not work, if it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}
