//! The versions of a rule's content: 0 before the first change, and one more with each.

use std::collections::BTreeMap;

use super::scenario::Scenario;
use podnudge_core::clock::UnixTime;
use podnudge_core::event::VolumeId;
use podnudge_core::snapshot::{self, Digest, Generation, Key, Snapshot};

/// A volume of the rule with this version; only the first volume changes.
pub(super) fn snapshot(volume: VolumeId, version: usize, committed: UnixTime) -> Snapshot {
    let version = if volume.0 == 0 { version } else { 0 };
    let mut content = Digest([0; 32]);
    for (byte, of) in content.0.iter_mut().zip(version.to_le_bytes()) {
        *byte = of;
    }
    Snapshot {
        generation: Generation(format!("..{version}")),
        committed,
        keys: BTreeMap::from([(Key(b"content".to_vec()), content)]),
        pauses: false,
    }
}

/// The digest of all volumes.
pub(super) fn digest(scenario: &Scenario, version: usize) -> Digest {
    let volumes = (0..scenario.policy.intake.volumes.len()).map(VolumeId);
    let of = |volume| snapshot(volume, version, UnixTime::default()).digest();
    snapshot::digest(volumes.map(of))
}
