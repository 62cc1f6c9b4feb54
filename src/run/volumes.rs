//! Runs the resync, and updates the watches after each scan.

use std::path::PathBuf;
use std::sync::Arc;

use super::agent::{Agent, Done};
use super::clock;
use crate::config::Rule;
use crate::core::event::{Event, RuleId, Scan, VolumeId};
use crate::exchange::children;
use crate::volume::scan::{self, ReadError, Reading};

impl Agent {
    /// Compares each volume's generation with the last scan, and retries inotify where it failed.
    pub(super) fn resync(&mut self, volumes: Vec<VolumeId>) {
        children::reap_orphans();
        self.context.forget_targets();
        for volume in &volumes {
            if let Some(watch) = self.watching.retry_inotify(*volume) {
                self.handle_event(Event::Watched(*volume, watch));
                self.handle_event(Event::HintLost(*volume));
            }
        }
        let compared: Vec<_> = volumes
            .into_iter()
            .filter_map(|volume| {
                let (rule, path) = self.volumes.get(volume.0)?;
                Some((volume, path.clone(), self.rule(*rule)?))
            })
            .collect();
        let begun = clock::now().mono;
        self.reading.submit(&mut self.tasks, move || {
            let compare = |(volume, path, rule): (VolumeId, PathBuf, Arc<Rule>)| {
                (volume, scan::generation(&path, &rule.keys))
            };
            Done::Resynced(begun, compared.into_iter().map(compare).collect())
        });
    }

    /// Updates the watches, then passes the scan to the core. A change between the reading and a
    /// new watch would be missed, so such a volume is compared once more.
    pub(super) fn scanned(
        &mut self,
        rule: RuleId,
        readings: Vec<(VolumeId, Result<Reading, ReadError>)>,
    ) {
        let mut scans = Vec::new();
        let mut compare = Vec::new();
        for (volume, reading) in readings {
            let scan = match reading {
                Ok(Reading { snapshot, directories }) => {
                    self.kubelet_volumes.retain(|known| *known != volume);
                    if snapshot.as_ref().is_some_and(|found| found.generation.is_link()) {
                        self.kubelet_volumes.push(volume);
                    }
                    let synced = self.watching.sync(volume, directories);
                    if synced.is_new {
                        let read = snapshot.as_ref().map(|snapshot| snapshot.generation.clone());
                        compare.push((volume, read));
                    }
                    if let Some(watch) = synced.watch {
                        self.handle_event(Event::Watched(volume, watch));
                    }
                    snapshot.map_or(Scan::Absent, Scan::Present)
                }
                Err(error) => Scan::Unreadable(error.reason()),
            };
            scans.push((volume, scan));
        }
        self.handle_event(Event::Scanned(rule, scans));
        let Some(config) = self.rule(rule) else { return };
        for (volume, read) in compare {
            let Some((_, path)) = self.volumes.get(volume.0).cloned() else { continue };
            let config = Arc::clone(&config);
            self.reading.submit(&mut self.tasks, move || {
                match scan::generation(&path, &config.keys) {
                    Ok(now) if now == read => Done::Nothing,
                    _ => Done::Event(Event::HintLost(volume)),
                }
            });
        }
    }
}
