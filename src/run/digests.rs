//! Which digests of a rule people see.
//!
//! Reads the mount table once, and the file of the key.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::state::{NAMING_KEY_LENGTH, StateDir};
use crate::volume::mounts;
use crate::volume::naming::Naming;
use podnudge_config::{self as config, Config, DigestsInMetrics, Rule};
use podnudge_core::snapshot::Digest;
use podnudge_core::status::RuleStatus;

/// The key for names of content: that of the state directory, or else a new one.
#[derive(Clone, Copy)]
pub(super) struct NamingKey([u8; NAMING_KEY_LENGTH]);

impl NamingKey {
    /// # Errors
    /// If the kernel gives no random numbers: with a key that others know, names would hide nothing.
    pub(super) fn open(config: &Config, state: Option<&StateDir>) -> io::Result<Self> {
        let is_needed = !config.rules.iter().all(|rule| is_plain(rule, &config.agent));
        let (new, state) = (random()?, state.filter(|_| is_needed));
        Ok(Self(state.map_or(new, |state| state.naming_key(new))))
    }
}

/// Which digests of a rule people see.
pub(super) struct Digests {
    /// Whether metrics and Events have them.
    pub(super) are_public: bool,
    /// How the log, the status and the history name content.
    pub(super) naming: Naming,
}

impl Digests {
    pub(super) fn of(rule: &Rule, agent: &config::Agent, NamingKey(key): NamingKey) -> Self {
        let is_plain = is_plain(rule, agent);
        let are_public = match agent.digests_in_metrics {
            DigestsInMetrics::All => true,
            DigestsInMetrics::Configmaps => mounts::are_configmaps(&rule.settings.watch),
            DigestsInMetrics::None => false,
        };
        Self { are_public, naming: if is_plain { Naming::Plain } else { Naming::Keyed(key) } }
    }

    /// Puts names in place of the digests of a status.
    pub(super) fn apply(&self, status: &mut RuleStatus) {
        status.shows_digests = self.are_public;
        status.digests_mut().for_each(|digest| *digest = self.naming.of(*digest));
    }
}

/// The short digest of a rule's content for the log of a podnudge that has no key, if everybody may see it.
pub(super) fn plain(rule: &Rule, agent: &config::Agent, digest: Digest) -> Option<String> {
    is_plain(rule, agent).then(|| Naming::Plain.short(digest))
}

/// Whether the rule watches no Secret for certain: nothing is mounted on podnudge's root file system.
fn is_plain(rule: &Rule, agent: &config::Agent) -> bool {
    let paths = &rule.settings.watch;
    agent.digests_in_metrics == DigestsInMetrics::All
        || mounts::are_configmaps(paths)
        || paths.iter().all(|path| mounts::is_on_root(path))
}

fn random() -> io::Result<[u8; NAMING_KEY_LENGTH]> {
    let mut key = [0; NAMING_KEY_LENGTH];
    // The kernel fills up to 256 bytes completely (getrandom(2)).
    getrandom(&mut key, GetRandomFlags::empty())?;
    Ok(key)
}
