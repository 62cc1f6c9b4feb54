//! Which `podnudge sync` of a namespace works: the holder of a Lease. Pure.
//!
//! The clocks of two machines are never compared: a Lease that another one holds is free when its version has not
//! changed for its duration since this podnudge has *seen* that version first. The holder counts its own time from
//! before it has sent the last renewal that was carried out. Should two work for a moment all the same, they annotate
//! the same pods with the same values.

use std::time::Duration;

use super::lease::SyncLease;
use crate::api_error::ApiError;
use crate::clock::{Moment, Now};
use crate::failing::Failing;
use crate::pace::Pace;
use crate::slots::LONGEST_LEASE;

/// At least so long after a write comes the next one of a changed record.
const BETWEEN_WRITES: Duration = Duration::from_millis(500);

/// A request about the Lease.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseAsk {
    /// Read the Lease with this name.
    Read(String),
    /// Create or replace this one.
    Write(SyncLease),
}

/// How the leadership has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leadership {
    /// The leader is this podnudge now. With the record of the last leader, if there is one.
    Won(Option<String>),
    /// The leader is not this podnudge any more.
    Lost,
}

#[derive(Debug)]
pub(super) struct Election {
    name: String,
    holder: String,
    duration: Duration,
    role: Role,
    /// When the request under way was sent.
    sent: Option<Moment>,
    /// The next request, unless a changed record comes first.
    at: Moment,
    pace: Pace,
    pub(super) failing: Option<Failing>,
    /// Whether the Lease was read since the start.
    pub(super) has_read: bool,
}

#[derive(Debug)]
enum Role {
    /// Another one may lead. What was seen of its Lease, and when that version was seen first.
    Waiting(Option<(SyncLease, Moment)>),
    /// The Lease is free: this one is written.
    Taking(SyncLease),
    Leading {
        lease: SyncLease,
        /// Until then, no other one takes the Lease.
        until: Moment,
        /// The record that the Lease has.
        written: Option<String>,
        written_at: Moment,
        /// The record in the request under way.
        writing: Option<String>,
        /// The Lease has to be read, because what became of a write is not known.
        is_in_doubt: bool,
    },
    /// podnudge stops, and gives back this one. `None`: it is read first, because what became of a write is not known.
    GivingBack(Option<SyncLease>),
    Over,
}

impl Election {
    pub(super) fn new(
        (name, holder): (String, String),
        duration: Duration,
        now: Moment,
        seed: u64,
    ) -> Self {
        Self {
            name,
            holder,
            duration,
            role: Role::Waiting(None),
            sent: None,
            at: now,
            pace: Pace::new(seed),
            failing: None,
            has_read: false,
        }
    }

    /// Who leads, if it is another one.
    pub(super) fn other_leader(&self) -> Option<&str> {
        match &self.role {
            Role::Waiting(Some((lease, _))) => lease.holder().filter(|it| *it != self.holder),
            _ => None,
        }
    }

    /// Whether the Lease has this record.
    pub(super) fn has_written(&self, record: &str) -> bool {
        matches!(&self.role, Role::Leading { written: Some(written), .. } if written == record)
    }

    /// Ends the leadership if it was not renewed in time.
    pub(super) fn expire(&mut self, now: Moment) -> Option<Leadership> {
        match &self.role {
            Role::Leading { until, .. } if *until <= now => {
                (self.role, self.at) = (Role::Waiting(None), self.at.min(now));
                Some(Leadership::Lost)
            }
            _ => None,
        }
    }

    /// The request to send now, if any. `record` is what the Lease of a leader is to have.
    pub(super) fn next(&mut self, now: Now, record: &str) -> Option<LeaseAsk> {
        if self.sent.is_some() || self.due(record)? > now.mono {
            return None;
        }
        self.sent = Some(now.mono);
        let (holder, duration) = (self.holder.clone(), self.duration);
        Some(match &mut self.role {
            Role::Waiting(_)
            | Role::Over
            | Role::GivingBack(None)
            | Role::Leading { is_in_doubt: true, .. } => LeaseAsk::Read(self.name.clone()),
            Role::Taking(lease) => {
                LeaseAsk::Write(lease.clone().held(&holder, duration, now.wall, None))
            }
            Role::Leading { lease, writing, .. } => {
                *writing = Some(record.to_owned());
                LeaseAsk::Write(lease.clone().held(&holder, duration, now.wall, Some(record)))
            }
            Role::GivingBack(Some(lease)) => LeaseAsk::Write(lease.clone().given_back(now.wall)),
        })
    }

    /// When to call [`Election::next`] or [`Election::expire`].
    pub(super) fn next_wakeup(&self, record: &str) -> Option<Moment> {
        let end = match &self.role {
            Role::Leading { until, .. } => Some(*until),
            _ => None,
        };
        let due = self.due(record).filter(|_| self.sent.is_none());
        due.into_iter().chain(end).min()
    }

    fn due(&self, record: &str) -> Option<Moment> {
        match &self.role {
            Role::Over => None,
            Role::Leading { written, written_at, is_in_doubt: false, .. }
                if self.failing.is_none() && written.as_deref() != Some(record) =>
            {
                Some(self.at.min(written_at.after(BETWEEN_WRITES)))
            }
            _ => Some(self.at),
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Moment,
        answer: Result<SyncLease, ApiError>,
    ) -> Option<Leadership> {
        let sent = self.sent.take()?;
        self.has_read |= matches!(answer, Ok(_) | Err(ApiError::NotFound(_)));
        let is_writing = match &self.role {
            Role::Leading { is_in_doubt, .. } => !is_in_doubt,
            Role::Taking(_) | Role::GivingBack(Some(_)) => true,
            Role::Waiting(_) | Role::GivingBack(None) | Role::Over => false,
        };
        match answer {
            Ok(lease) => {
                self.failing = None;
                if is_writing { self.written(lease, sent) } else { self.read(now, Some(lease)) }
            }
            Err(ApiError::NotFound(_)) if !is_writing => {
                self.failing = None;
                self.read(now, None)
            }
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) if is_writing => {
                self.at = now.after(self.pace.conflicted());
                self.doubt();
                None
            }
            Err(error) => {
                Failing::record(&mut self.failing, now, &error);
                self.at = now.after(self.pace.after(&error, self.duration / 3));
                // A Lease that cannot be created may be there later.
                let is_taking = matches!(self.role, Role::Taking(_));
                if is_writing && (error.may_be_done() || (is_taking && error.needs_a_person())) {
                    self.doubt();
                }
                None
            }
        }
    }

    /// What became of the last write has to be read.
    fn doubt(&mut self) {
        match &mut self.role {
            Role::Leading { is_in_doubt, .. } => *is_in_doubt = true,
            Role::GivingBack(lease) => *lease = None,
            role => *role = Role::Waiting(None),
        }
    }

    fn read(&mut self, now: Moment, lease: Option<SyncLease>) -> Option<Leadership> {
        if let Role::Leading { lease: own, is_in_doubt, .. } = &mut self.role {
            if let Some(lease) = lease.filter(|lease| lease.holder() == Some(&self.holder)) {
                // The renewal that follows counts.
                (*own, *is_in_doubt, self.at) = (lease, false, now);
                return None;
            }
            (self.role, self.at) = (Role::Waiting(None), now);
            return Some(Leadership::Lost);
        }
        if let Role::GivingBack(None) = &self.role {
            let own = lease.filter(|lease| lease.holder() == Some(&self.holder));
            (self.role, self.at) = (own.map_or(Role::Over, |own| Role::GivingBack(Some(own))), now);
            return None;
        }
        let Role::Waiting(seen) = &mut self.role else { return None };
        let lease = lease.unwrap_or_else(|| SyncLease::new(&self.name));
        let is_free = lease.holder().is_none_or(|holder| holder == self.holder);
        let first = match seen.take() {
            Some((before, first)) if before.version() == lease.version() => first,
            _ => now,
        };
        // Whoever may write the Lease must not be able to end all work for good.
        let duration = lease.duration().unwrap_or(self.duration).min(LONGEST_LEASE);
        let is_over = now.since(first) >= duration;
        if is_free || is_over {
            (self.role, self.at) = (Role::Taking(lease), now);
            return None;
        }
        *seen = Some((lease, first));
        self.pace.answered();
        let look = now.after(self.pace.jittered(self.duration / 2));
        self.at = look.min(first.after(duration).max(now));
        None
    }

    fn written(&mut self, lease: SyncLease, sent: Moment) -> Option<Leadership> {
        self.pace.answered();
        self.pace.done();
        let until = sent.after(self.duration);
        self.at = sent.after(self.pace.jittered(self.duration / 2));
        match std::mem::replace(&mut self.role, Role::Over) {
            Role::Taking(_) => {
                let record = lease.record().map(str::to_owned);
                let written = record.clone();
                let writing = None;
                let is_in_doubt = false;
                self.role =
                    Role::Leading { lease, until, written, written_at: sent, writing, is_in_doubt };
                Some(Leadership::Won(record))
            }
            Role::Leading { writing, .. } => {
                let is_in_doubt = false;
                let (written, writing) = (writing, None);
                self.role =
                    Role::Leading { lease, until, written, written_at: sent, writing, is_in_doubt };
                None
            }
            Role::GivingBack(_) | Role::Waiting(_) | Role::Over => None,
        }
    }

    /// podnudge is asked to stop: the Lease is given back, so that another one need not wait. The request under way is
    /// given up.
    pub(super) fn stop(&mut self, now: Moment) {
        let was_sent = self.sent.take().is_some();
        // What has failed before says nothing of the last request.
        self.failing = None;
        self.at = now;
        self.role = match std::mem::replace(&mut self.role, Role::Over) {
            Role::Leading { lease, is_in_doubt: false, .. } if !was_sent => {
                Role::GivingBack(Some(lease))
            }
            Role::Leading { .. } => Role::GivingBack(None),
            Role::Taking(_) if was_sent => Role::GivingBack(None),
            _ => Role::Over,
        };
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.role, Role::Over)
            || (matches!(self.role, Role::GivingBack(_)) && self.failing.is_some())
    }
}
