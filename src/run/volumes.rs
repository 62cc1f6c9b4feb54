//! Runs the resync, and updates the watches after each scan.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;

use super::agent::{Agent, Done};
use super::clock;
use crate::exchange::children;
use crate::volume::reads::Layout;
use crate::volume::scan::{self, ReadError, Reading, Root};
use podnudge_config::Rule;
use podnudge_core::collect;
use podnudge_core::event::{Event, RuleId, Scan, VolumeId};
use podnudge_core::shown;

impl Agent {
    /// Compares each volume's generation with the last scan, and retries inotify where it failed.
    pub(super) fn resync(&mut self, volumes: Vec<VolumeId>) {
        self.context.forget_targets();
        if !self.mounts.is_reported() {
            // A volume may have been mounted anew: the next scan renews its watches.
            self.watching.distrust();
        }
        for volume in &volumes {
            if let Some(watch) = self.watching.retry_inotify(*volume) {
                self.handle_event(Event::Watched(*volume, watch));
                self.handle_event(Event::HintLost(*volume));
            }
        }
        let compared: Vec<_> = volumes
            .into_iter()
            .filter_map(|volume| {
                let known = self.volumes.get(volume.0)?;
                Some((volume, known.path.clone(), self.rule(known.rule)?, known.root()))
            })
            .collect();
        let begun = clock::now().mono;
        self.reading.submit(&mut self.tasks, move || {
            children::end_left();
            let compare = |(volume, path, rule, root): (VolumeId, PathBuf, Arc<Rule>, Root)| {
                (volume, scan::generation_of(&path, &rule.keys, root))
            };
            Done::Resynced(begun, compared.into_iter().map(compare).collect())
        });
    }

    /// Ends what programs have just left, on another thread, since it may take 0.5 s.
    pub(super) fn end_left(&mut self) {
        if children::has_just_left() {
            self.reading.submit(&mut self.tasks, || {
                children::end_left();
                Done::Nothing
            });
        }
    }

    /// Updates the watches, then passes the scan to the core. A change between the reading and a
    /// new watch would be missed, so such a volume is compared once more.
    pub(super) fn scanned(
        &mut self,
        rule: RuleId,
        readings: Vec<(VolumeId, Result<Reading, ReadError>)>,
    ) {
        let now = clock::now().mono;
        let mut scans = Vec::new();
        let mut compare = Vec::new();
        let mut committed = None;
        for (volume, reading) in readings {
            let Some(known) = self.volumes.get_mut(volume.0) else { continue };
            let scan = match reading {
                Ok(mut reading) => {
                    let is_unmounted = known.root().lacks_mount(reading.is_mounted);
                    if is_unmounted {
                        // What the mount has hidden is not the volume.
                        reading.snapshot = None;
                    }
                    known.found(&reading, now);
                    let Reading { snapshot, directories, .. } = reading;
                    let synced = self.watching.sync(volume, directories);
                    if synced.is_new {
                        let read = snapshot.as_ref().map(|snapshot| snapshot.generation.clone());
                        compare.push((volume, read));
                    }
                    if let Some(watch) = synced.watch {
                        self.handle_event(Event::Watched(volume, watch));
                    }
                    if let Some(snapshot) = &snapshot {
                        self.api.scanned(volume, snapshot);
                        committed = committed.max(Some(snapshot.committed));
                    }
                    match snapshot {
                        Some(snapshot) => Scan::Present(snapshot),
                        None if is_unmounted => Scan::Unmounted,
                        None => Scan::Absent,
                    }
                }
                Err(error) => Scan::Unreadable(error.reason()),
            };
            scans.push((volume, scan));
        }
        #[cfg(feature = "page")]
        if let Some(committed) = committed {
            self.facts.history.read(rule, committed);
        }
        self.handle_event(Event::Scanned(rule, scans));
        let Some(config) = self.rule(rule) else { return };
        for (volume, read) in compare {
            let Some(known) = self.volumes.get(volume.0) else { continue };
            let (path, root, config) = (known.path.clone(), known.root(), Arc::clone(&config));
            self.reading.submit(&mut self.tasks, move || {
                match scan::generation_of(&path, &config.keys, root) {
                    Ok(now) if now == read => Done::Nothing,
                    _ => Done::Event(Event::HintLost(volume)),
                }
            });
        }
    }

    /// Whether the kubelet wrote all of these.
    pub(super) fn are_kubelets(&self, volumes: &[VolumeId]) -> bool {
        let is_kubelets = |id: &VolumeId| self.volumes.get(id.0).is_some_and(|one| one.is_kubelets);
        volumes.iter().all(is_kubelets)
    }

    /// How the keys lie in the directories that the application of a rule reads, the volume that was read last first.
    pub(super) fn layout(&self, rule: RuleId) -> Layout {
        let volumes = self.volumes.iter().filter(|volume| volume.rule == rule);
        let mut order = Vec::new();
        for (n, volume) in volumes.enumerate() {
            if !volume.is_flat {
                return Layout::Unknown;
            }
            order.push((volume.read_at, n));
        }
        collect::sort(&mut order, |(read_at, _)| Reverse(*read_at));
        Layout::Flat(order.into_iter().map(|(_, n)| n).collect())
    }

    pub(super) fn paths(&self, volumes: Vec<VolumeId>) -> Vec<(VolumeId, PathBuf)> {
        let path = |id: VolumeId| Some((id, self.volumes.get(id.0)?.path.clone()));
        volumes.into_iter().filter_map(path).collect()
    }

    pub(super) fn display_path(&self, volume: VolumeId) -> String {
        self.volumes.get(volume.0).map(|volume| shown::path(&volume.path)).unwrap_or_default()
    }
}
