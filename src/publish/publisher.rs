//! Publishes a rule's content in steps, each of which leaves the old generation or the new one.
//!
//! Reads the volumes; writes only below `publish.dir`.

use std::path::PathBuf;

use rustix::io::Errno;
use tracing::warn;

use super::access;
use super::directory::Dir;
use super::generation::Name;
use super::lock::{Holder, Lock};
use super::record::{LoadError, QuarantinedDigest, Record};
use crate::volume::contents::{self, ContentsError, Volume};
use crate::volume::scan;
use podnudge_config::{KeyFilter, Publish};
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::event::{Current, Publication, Published};
use podnudge_core::evidence::Evidence;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::snapshot::{self, Digest};

/// Publishes a rule's volumes to its publish directory.
#[derive(Debug, Clone, Copy)]
pub struct Publisher<'a> {
    /// The directory, and the settings for writing to it.
    pub publish: &'a Publish,
    /// The rule's volumes.
    pub volumes: &'a [PathBuf],
    /// Which keys are included.
    pub keys: &'a KeyFilter,
}

impl Publisher<'_> {
    /// Locks the directory, or says who holds the lock. All other methods rely on the lock.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn lock(self) -> Result<Result<Lock, Holder>, Reason> {
        Lock::acquire(Dir::at(&self.publish.dir)?)
    }

    /// The message for a directory that another process has locked.
    #[must_use]
    pub fn locked_by_another(self, holder: &Holder) -> Reason {
        let dir = shown::path(&self.publish.dir);
        let own =
            "give each rule of each podnudge a directory of its own, and each pod its own emptyDir";
        match holder {
            Holder::Podnudge(Some(process)) => {
                let message = format!("another podnudge publishes to `{dir}`: process {process}");
                Reason::new(message).hint(own)
            }
            Holder::Podnudge(None) => {
                let message = format!(
                    "another podnudge publishes to `{dir}`: one in a container or pod whose processes podnudge does not see"
                );
                Reason::new(message).hint(own)
            }
            Holder::Other(process) => {
                let process = process.as_ref().map_or_else(
                    || "a process that the kernel does not name".to_owned(),
                    |process| format!("process {process}"),
                );
                let message =
                    format!("another program has locked `{dir}/..podnudge.lock`: {process}");
                Reason::new(message).hint(
                    "mount the directory with `readOnly: true` in the containers that only read it",
                )
            }
        }
    }

    /// Opens the directory: removes temporary files of a podnudge that was killed, updates the
    /// links, and returns its state. A current generation that was modified counts as missing.
    ///
    /// # Errors
    /// If it is not writable, or its record cannot be read.
    pub fn open(self, now: Now) -> Result<Published, Reason> {
        let dir = Dir::at(&self.publish.dir)?;
        dir.check_writable()?;
        dir.remove_leftovers()?;
        let record = load_record(&dir)?;
        let current = dir.current()?;
        let current = current
            .filter(|(name, _)| self.digest_of(&dir, name) == Some(name.digest))
            .map(|(Name { digest, .. }, since)| Current {
                digest,
                at: now.moment_of(since),
                standing: record.standing(digest),
            });
        if current.is_some() {
            dir.update_links()?;
        }
        let good = record.last_good();
        Ok(Published {
            current,
            good,
            evidence: record.evidence,
            quarantined: record.bad.into_iter().map(QuarantinedDigest::into_pair).collect(),
        })
    }

    /// The digest that is published now; `None` if nothing is. Makes links anew that somebody has removed. If the
    /// current generation is gone, the last good one takes its place.
    ///
    /// # Errors
    /// If it cannot be read, or not be repaired.
    pub fn repair(self) -> Result<Option<Digest>, Reason> {
        let dir = Dir::at(&self.publish.dir)?;
        let current = dir.current()?.map(|(name, _)| name).filter(|name| dir.has(name));
        let digest = if let Some(name) = current {
            name.digest
        } else {
            let good = Record::load(&dir)?.last_good();
            let generations = dir.generations()?;
            let good = generations.iter().rfind(|name| Some(name.digest) == good);
            let Some(name) = good else { return Ok(None) };
            dir.set_current(name)?;
            name.digest
        };
        dir.add_links()?;
        Ok(Some(digest))
    }

    /// Whether a process has read a key of the current generation since it was published. `false`
    /// if unknown, as on mounts without access times (`access`).
    #[must_use]
    pub fn was_read(self) -> bool {
        Dir::at(&self.publish.dir).is_ok_and(|dir| access::was_read(&dir))
    }

    /// Publishes the volumes' content, if it still has the expected digest, and, if programs have
    /// checked it, the digest over all keys that they saw. Writes nothing if it is already
    /// published.
    #[must_use]
    pub fn publish(
        self,
        expected: Digest,
        full_digest: Option<Digest>,
        now: UnixTime,
    ) -> Publication {
        self.try_to_publish(expected, full_digest, now).unwrap_or_else(|error| match error {
            ContentsError::Moved => Publication::Moved,
            ContentsError::TooLarge(reason) | ContentsError::Failed(reason) => self.failed(reason),
        })
    }

    /// The result of a failure, which may have come before or after the swap.
    fn failed(self, reason: Reason) -> Publication {
        let current = Dir::at(&self.publish.dir).and_then(|dir| dir.current()).ok().flatten();
        Publication::Failed(reason, current.map(|(name, _)| name.digest))
    }

    fn try_to_publish(
        self,
        expected: Digest,
        full_digest: Option<Digest>,
        now: UnixTime,
    ) -> Result<Publication, ContentsError> {
        let dir = Dir::at(&self.publish.dir)?;
        let mut record = Record::load(&dir).map_err(Reason::from)?;
        let published = self.publish_to(&dir, &mut record, expected, full_digest, now);
        // Also after a failure, whose retries would fill the disk.
        dir.prune(self.publish.keep, record.last_good());
        published
    }

    fn publish_to(
        self,
        dir: &Dir,
        record: &mut Record,
        expected: Digest,
        full_digest: Option<Digest>,
        now: UnixTime,
    ) -> Result<Publication, ContentsError> {
        let current = dir.current()?.map(|(name, _)| name);
        let is_there = current.is_some_and(|name| {
            name.digest == expected && self.digest_of(dir, &name) == Some(expected)
        });
        if !is_there {
            let volumes =
                contents::read_all(self.volumes.iter().map(PathBuf::as_path), self.keys, expected)?;
            if full_digest.is_some_and(|checked| checked != contents::full_digest(&volumes)) {
                return Err(ContentsError::Moved);
            }
            let name = self.write(dir, &volumes, expected, now, record.last_good())?;
            let before = record.clone();
            record.release(expected);
            record.is_open = true;
            let saved = if *record == before { Ok(()) } else { record.save(dir) };
            let replaced = saved.and_then(|()| dir.set_current(&name));
            replaced.inspect_err(|_| dir.discard(&name))?;
        } else if record.is_quarantined(expected) {
            // The rollback did not complete, and a person has triggered this digest again.
            record.release(expected);
            record.save(dir)?;
        }
        dir.update_links()?;
        Ok(Publication::Done)
    }

    /// Writes a generation. If the disk is full, removes older ones and tries again.
    fn write(
        self,
        dir: &Dir,
        volumes: &[Volume],
        expected: Digest,
        now: UnixTime,
        good: Option<Digest>,
    ) -> Result<Name, Reason> {
        let parts: Vec<_> = self
            .publish
            .folders
            .iter()
            .zip(volumes.iter().map(|volume| &volume.contents))
            .collect();
        dir.reject_foreign_entries(&parts)?;
        let name = Name { at: now, digest: expected };
        let write = || dir.write(&name, &parts, self.publish);
        let written = write().or_else(|error| match error {
            Errno::NOSPC | Errno::DQUOT => {
                dir.prune(0, good);
                write()
            }
            error => Err(error),
        });
        written.map(|()| name.clone()).map_err(|error| dir.error_reason(error))
    }

    /// Quarantines a digest, and makes an older generation the current one.
    #[must_use]
    pub fn roll_back(self, to: Digest, bad: &(Digest, Reason)) -> Publication {
        let roll_back = || {
            let dir = Dir::at(&self.publish.dir)?;
            let mut record = Record::load(&dir)?;
            record.quarantine(bad);
            record.is_open = true;
            // Save first: after a kill between the two steps podnudge continues the rollback at
            // start. If the disk is full, remove the generations that are only kept for people.
            record.save(&dir).or_else(|_| {
                dir.prune(0, Some(to));
                record.save(&dir)
            })?;
            let generations = dir.generations()?;
            let is_whole =
                |name: &&Name| name.digest == to && self.digest_of(&dir, name) == Some(to);
            let Some(name) = generations.iter().rev().find(is_whole) else {
                return Err(Reason::new(format!(
                    "cannot roll back: the last good generation is no longer in `{}`",
                    self.publish.dir.display()
                )));
            };
            dir.set_current(name)?;
            dir.update_links()
        };
        roll_back().map_or_else(|reason| self.failed(reason), |()| Publication::Done)
    }

    /// Records that a published digest is good, and how that is known.
    ///
    /// # Errors
    /// If the record cannot be written: then podnudge may repeat the action after a restart.
    pub fn approve(self, digest: Digest, evidence: Evidence) -> Result<(), Reason> {
        self.record(|record| {
            record.good = Some(digest);
            record.evidence = evidence;
            record.release(digest);
            record.is_open = false;
        })
    }

    /// Records that a digest was published for the application's start.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn record_for_start(self, digest: Digest) -> Result<(), Reason> {
        self.record(|record| {
            record.for_start = Some(digest);
            record.release(digest);
            record.is_open = false;
        })
    }

    fn record(self, change: impl FnOnce(&mut Record)) -> Result<(), Reason> {
        let dir = Dir::at(&self.publish.dir)?;
        let mut record = Record::load(&dir)?;
        let before = record.clone();
        change(&mut record);
        if record != before {
            record.save(&dir)?;
        }
        dir.prune(self.publish.keep, record.last_good());
        Ok(())
    }

    /// The digest of a generation's content, if it can be read.
    fn digest_of(self, dir: &Dir, name: &Name) -> Option<Digest> {
        let root = dir.folder().path_by_descriptor().join(name.to_string());
        let digest = |folder: &PathBuf| {
            let read = scan::read_own(&root.join(folder), self.keys).ok()?;
            Some(read.snapshot?.digest())
        };
        let digests: Option<Vec<Digest>> = self.publish.folders.iter().map(digest).collect();
        Some(snapshot::digest(digests?))
    }
}

/// Loads the record at start. Replaces an invalid record by an empty one, which makes all published
/// content unproven. Later loads fail instead, because the record then holds what is in use.
fn load_record(dir: &Dir) -> Result<Record, Reason> {
    match Record::load(dir) {
        Err(LoadError::Invalid(reason)) => {
            warn!(
                event = "record-lost",
                reason = reason.message,
                "a rollback is not possible, and content that was rolled back before may be tried again"
            );
            let record = Record::default();
            record.save(dir)?;
            Ok(record)
        }
        loaded => Ok(loaded?),
    }
}
