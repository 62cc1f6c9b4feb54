//! A model of a publish directory, which may fail.

use std::collections::BTreeSet;

use podnudge_core::clock::Moment;
use podnudge_core::command::RollBack;
use podnudge_core::event::{Current, Publication, Published, Standing};
use podnudge_core::evidence::Evidence;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Digest;

/// How the publish directory behaves from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Shelving {
    #[default]
    Works,
    FailsBefore,
    FailsAfter,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    pub(crate) current: Option<(Digest, Moment)>,
    pub(crate) behaves: Shelving,
    for_start: Option<Digest>,
    good: Option<Digest>,
    evidence: Evidence,
    /// Whether the application may not yet have been told about the published content.
    is_open: bool,
    bad: Vec<(Digest, Reason)>,
    generations: BTreeSet<Digest>,
    /// Content that was rolled back and not triggered since.
    pub(crate) rolled_back: BTreeSet<Digest>,
    /// Content that was triggered after a roll-back and not published since.
    pub(crate) asked_for: BTreeSet<Digest>,
    /// A trigger is pending for the content that the next scan finds.
    pub(crate) is_triggered: bool,
    /// Violated invariants.
    pub(crate) violations: Vec<String>,
}

impl Shelf {
    /// A directory with this digest published at `at`, as `podnudge once` or an agent left it.
    pub(crate) fn holding(digest: Digest, at: Moment, standing: Standing) -> Self {
        Self {
            current: Some((digest, at)),
            for_start: (standing == Standing::ForStart).then_some(digest),
            good: (standing == Standing::Good).then_some(digest),
            evidence: Evidence::Verified,
            generations: BTreeSet::from([digest]),
            ..Self::default()
        }
    }

    /// What podnudge finds when it starts.
    pub(crate) fn found(&self) -> Published {
        let standing = |digest| match digest {
            _ if self.is_open => Standing::Unproven,
            _ if self.good == Some(digest) => Standing::Good,
            _ if self.for_start == Some(digest) => Standing::ForStart,
            _ => Standing::Unproven,
        };
        let current = self.current;
        let current =
            current.map(|(digest, at)| Current { digest, at, standing: standing(digest) });
        let good = self.good.or(self.for_start);
        let evidence = self.evidence;
        Published { current, good, evidence, quarantined: self.bad.clone() }
    }

    /// podnudge was killed: state that it could not record is lost.
    pub(crate) fn forget(&mut self) {
        let bad: BTreeSet<Digest> = self.bad.iter().map(|(digest, _)| *digest).collect();
        self.rolled_back.retain(|digest| bad.contains(digest));
    }

    pub(crate) fn publish(&mut self, digest: Digest, now: Moment) -> Publication {
        if self.rolled_back.contains(&digest) {
            self.violations.push(format!("{digest} is published again"));
        }
        self.asked_for.remove(&digest);
        self.turn(digest, now, |shelf| {
            shelf.bad.retain(|(bad, _)| *bad != digest);
            shelf.generations.insert(digest);
        })
    }

    pub(crate) fn roll_back(&mut self, back: &RollBack, now: Moment) -> Publication {
        if !self.generations.contains(&back.to) || self.good.or(self.for_start) != Some(back.to) {
            self.violations.push(format!("{} was never good", back.to));
        }
        // A roll-back that began before a trigger may end after it.
        if !self.is_triggered && !self.asked_for.contains(&back.failed) {
            self.rolled_back.insert(back.failed);
        }
        self.turn(back.to, now, |shelf| shelf.bad.push((back.failed, back.reason.clone())))
    }

    fn turn(&mut self, to: Digest, now: Moment, prepare: impl FnOnce(&mut Self)) -> Publication {
        if self.behaves == Shelving::FailsBefore {
            let current = self.current.map(|(digest, _)| digest);
            return Publication::Failed(Reason::new("no room"), current);
        }
        prepare(self);
        self.is_open |= self.current.is_none_or(|(digest, _)| digest != to);
        self.current = self.current.filter(|(digest, _)| *digest == to).or(Some((to, now)));
        match self.behaves {
            Shelving::FailsAfter => Publication::Failed(Reason::new("no more room"), Some(to)),
            _ => Publication::Done,
        }
    }

    /// Everything in the directory is removed from outside.
    pub(crate) fn empty(&mut self) {
        (self.current, self.good, self.for_start) = (None, None, None);
        self.generations.clear();
        self.bad.clear();
        // Content that may not work is better than none.
        self.rolled_back.clear();
    }

    /// Whether the published content is the last good content.
    pub(crate) fn is_good(&self) -> bool {
        self.current.is_none_or(|(digest, _)| self.good == Some(digest))
    }

    pub(crate) fn approve(&mut self, digest: Digest, evidence: Evidence) {
        if self.current.is_none_or(|(current, _)| current != digest) {
            self.violations.push(format!("{digest} is approved and not published"));
        }
        self.good = Some(digest);
        self.evidence = evidence;
        self.is_open = false;
    }

    /// The application is acted on for a digest.
    pub(crate) fn acted_on(&mut self, digest: Digest) {
        if self.rolled_back.contains(&digest) {
            self.violations.push(format!("{digest} is acted on again"));
        }
        if self.current.is_none_or(|(current, _)| current != digest) {
            self.violations.push(format!("{digest} is acted on and not published"));
        }
    }
}
