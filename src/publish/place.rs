//! What a rule publishes to where, and the steps of it: each leaves the old generation or the new one.
//!
//! Reads the volumes; writes only below `publish.dir`.

use std::path::PathBuf;

use rustix::io::Errno;
use tracing::warn;

use super::access;
use super::directory::Dir;
use super::generation::Name;
use super::lock::Lock;
use super::record::{Bad, Record, Unreadable};
use crate::clock::{Now, UnixTime};
use crate::config::{KeyFilter, Publish};
use crate::core::event::{Current, Publication, Published};
use crate::reason::Reason;
use crate::volume::contents::{self, Unread, Volume};
use crate::volume::scan;
use crate::volume::snapshot::{self, Digest};

/// Where a rule publishes, and what.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The directory, and how it is written.
    pub publish: &'a Publish,
    /// The rule's volumes.
    pub volumes: &'a [PathBuf],
    /// Which keys count.
    pub keys: &'a KeyFilter,
}

impl Place<'_> {
    /// Takes the directory for this podnudge alone; `None` if another one has it. All else that is
    /// done with it relies on that.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn lock(self) -> Result<Option<Lock>, Reason> {
        Ok(Lock::take(Dir::open(&self.publish.dir)?))
    }

    /// That another podnudge has the directory.
    #[must_use]
    pub fn is_taken(self) -> Reason {
        let dir = self.publish.dir.display();
        Reason::new(format!("another podnudge publishes to `{dir}`")).hint(
            "give each rule of each podnudge a directory of its own, and each pod its own emptyDir",
        )
    }

    /// Opens the directory: removes what a podnudge that was killed has left, fixes the links, and
    /// tells what is there. A generation that somebody changed counts as none.
    ///
    /// # Errors
    /// If it cannot be written to, or what is known of it cannot be read.
    pub fn open(self, now: Now) -> Result<Published, Reason> {
        let dir = Dir::open(&self.publish.dir)?;
        dir.try_to_write()?;
        dir.clean()?;
        let record = known(&dir)?;
        let current = dir.current()?;
        let current = current.filter(|(name, _)| self.digest_of(name) == Some(name.digest)).map(
            |(Name { digest, .. }, since)| Current {
                digest,
                at: now.moment_of(since),
                standing: record.standing(digest),
            },
        );
        if current.is_some() {
            dir.link()?;
        }
        let good = record.last_good();
        Ok(Published {
            current,
            good,
            quarantined: record.bad.into_iter().map(Bad::into_pair).collect(),
        })
    }

    /// The digest that the application reads now; `None` if there is nothing to read.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn current(self) -> Result<Option<Digest>, Reason> {
        let current = Dir::open(&self.publish.dir)?.current()?;
        Ok(current.map(|(name, _)| name.digest))
    }

    /// Whether a process has read a key of the current generation since it was published. `false`
    /// where that cannot be told, as on mounts that keep no times of access (`access`).
    #[must_use]
    pub fn was_read(self) -> bool {
        Dir::open(&self.publish.dir).is_ok_and(|dir| access::was_read(&dir))
    }

    /// Publishes what the volumes hold, if it still has this digest, and where programs have looked
    /// at all of it, the one over all that they saw. What is published already stays as it is.
    #[must_use]
    pub fn publish(self, asked: Digest, whole: Option<Digest>, now: UnixTime) -> Publication {
        self.try_to_publish(asked, whole, now).unwrap_or_else(|unread| match unread {
            Unread::Moved => Publication::Moved,
            Unread::TooMuch(reason) | Unread::Failed(reason) => self.failed(reason),
        })
    }

    /// It failed, before or after the swap.
    fn failed(self, reason: Reason) -> Publication {
        Publication::Failed(reason, self.current().ok().flatten())
    }

    fn try_to_publish(
        self,
        asked: Digest,
        whole: Option<Digest>,
        now: UnixTime,
    ) -> Result<Publication, Unread> {
        let dir = Dir::open(&self.publish.dir)?;
        let mut record = Record::load(&dir).map_err(Reason::from)?;
        let published = self.publish_to(&dir, &mut record, asked, whole, now);
        // Also what failed: it comes again and again.
        dir.prune(self.publish.keep, record.last_good());
        published
    }

    fn publish_to(
        self,
        dir: &Dir,
        record: &mut Record,
        asked: Digest,
        whole: Option<Digest>,
        now: UnixTime,
    ) -> Result<Publication, Unread> {
        let current = dir.current()?.map(|(name, _)| name);
        let is_there = current
            .is_some_and(|name| name.digest == asked && self.digest_of(&name) == Some(asked));
        if !is_there {
            let volumes =
                contents::whole(self.volumes.iter().map(PathBuf::as_path), self.keys, asked)?;
            if whole.is_some_and(|whole| whole != contents::digest_of_all(&volumes)) {
                return Err(Unread::Moved);
            }
            let name = self.write(dir, &volumes, asked, now, record.last_good())?;
            let before = record.clone();
            record.clear(asked);
            record.is_open = true;
            let saved = if *record == before { Ok(()) } else { record.save(dir) };
            let turned = saved.and_then(|()| dir.turn(&name));
            turned.inspect_err(|_| dir.discard(&name))?;
        } else if record.is_bad(asked) {
            // Taking it back did not come to its end, and a person wants it all the same.
            record.clear(asked);
            record.save(dir)?;
        }
        dir.link()?;
        Ok(Publication::Done)
    }

    /// Writes a generation. Where there is no room, the older ones make some.
    fn write(
        self,
        dir: &Dir,
        volumes: &[Volume],
        asked: Digest,
        now: UnixTime,
        good: Option<Digest>,
    ) -> Result<Name, Reason> {
        let parts: Vec<_> = self
            .publish
            .folders
            .iter()
            .zip(volumes.iter().map(|volume| &volume.contents))
            .collect();
        dir.refuse_strangers(&parts)?;
        let name = Name { at: now, digest: asked };
        let write = || dir.write(&name, &parts, self.publish);
        let written = write().or_else(|error| match error {
            Errno::NOSPC | Errno::DQUOT => {
                dir.prune(0, good);
                write()
            }
            error => Err(error),
        });
        written.map(|()| name.clone()).map_err(|error| dir.trouble(error))
    }

    /// Marks a digest as not to be used again, and turns back to an older generation.
    #[must_use]
    pub fn roll_back(self, to: Digest, bad: &(Digest, Reason)) -> Publication {
        let turn = || {
            let dir = Dir::open(&self.publish.dir)?;
            let mut record = Record::load(&dir)?;
            record.condemn(bad);
            record.is_open = true;
            // First: killed between the two, podnudge goes on here when it starts. What is only kept
            // for people to look at gives it room.
            record.save(&dir).or_else(|_| {
                dir.prune(0, Some(to));
                record.save(&dir)
            })?;
            let generations = dir.generations()?;
            let is_whole = |name: &&Name| name.digest == to && self.digest_of(name) == Some(to);
            let Some(name) = generations.iter().rev().find(is_whole) else {
                return Err(Reason::new(format!(
                    "the generation to go back to, {to:.12}, is no longer in `{}`",
                    self.publish.dir.display()
                )));
            };
            dir.turn(name)?;
            dir.link()
        };
        turn().map_or_else(|reason| self.failed(reason), |()| Publication::Done)
    }

    /// Remembers that a published digest was verified.
    ///
    /// # Errors
    /// If that cannot be written: after a restart podnudge may repeat the action.
    pub fn approve(self, digest: Digest) -> Result<(), Reason> {
        self.record(|record| {
            record.good = Some(digest);
            record.clear(digest);
            record.is_open = false;
        })
    }

    /// Remembers that a digest was published for the application's start.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn start_with(self, digest: Digest) -> Result<(), Reason> {
        self.record(|record| {
            record.for_start = Some(digest);
            record.clear(digest);
            record.is_open = false;
        })
    }

    fn record(self, change: impl FnOnce(&mut Record)) -> Result<(), Reason> {
        let dir = Dir::open(&self.publish.dir)?;
        let mut record = Record::load(&dir)?;
        let before = record.clone();
        change(&mut record);
        if record != before {
            record.save(&dir)?;
        }
        dir.prune(self.publish.keep, record.last_good());
        Ok(())
    }

    /// The digest of what a generation holds, if it can be read.
    fn digest_of(self, name: &Name) -> Option<Digest> {
        let root = self.publish.dir.join(name.to_string());
        let digest = |folder: &PathBuf| {
            let read = scan::read_own(&root.join(folder), self.keys).ok()?;
            Some(read.snapshot?.digest())
        };
        let digests: Option<Vec<Digest>> = self.publish.folders.iter().map(digest).collect();
        Some(snapshot::digest(digests?))
    }
}

/// What is recorded when podnudge starts. It goes on without a record that is no record: all that
/// is published is on trial then. Whoever runs on, though, must not lose what is in use.
fn known(dir: &Dir) -> Result<Record, Reason> {
    match Record::load(dir) {
        Err(Unreadable::Garbage(reason)) => {
            warn!(
                event = "record-lost",
                reason = reason.message,
                "nothing can be gone back to, and what was rolled back before may be tried again"
            );
            let record = Record::default();
            record.save(dir)?;
            Ok(record)
        }
        loaded => Ok(loaded?),
    }
}
