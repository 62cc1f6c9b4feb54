//! Writes a volume as the kubelet does, step by step (Kubernetes
//! `pkg/volume/util/atomic_writer.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Key → content.
pub(crate) type Payload = BTreeMap<String, Vec<u8>>;

/// When the links to new keys are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkOrder {
    /// After the commit (current kubelets).
    AfterCommit,
    /// Before the commit, so that they dangle for a moment (older kubelets, the secrets-store CSI
    /// driver).
    BeforeCommit,
}

/// One mounted volume.
#[derive(Debug)]
pub(crate) struct Kubelet {
    pub(crate) volume: PathBuf,
    order: LinkOrder,
}

/// A generation that is written but not committed.
#[derive(Debug)]
pub(crate) struct Prepared {
    name: String,
    links: BTreeSet<String>,
}

pub(crate) fn payload(pairs: &[(&str, &str)]) -> Payload {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

impl Kubelet {
    pub(crate) fn new(volume: impl Into<PathBuf>) -> Self {
        Self::with_order(volume, LinkOrder::AfterCommit)
    }

    pub(crate) fn with_order(volume: impl Into<PathBuf>, order: LinkOrder) -> Self {
        let volume = volume.into();
        fs::create_dir_all(&volume).expect("a volume can be made");
        Self { volume, order }
    }

    /// A resync: does nothing if the payload is unchanged.
    pub(crate) fn write(&mut self, payload: &Payload) {
        if self.current() != Some(payload.clone()) {
            self.write_anyway(payload);
        }
    }

    /// A whole swap even if the payload is unchanged (a rotated token, a kubelet that lost its
    /// state).
    pub(crate) fn write_anyway(&mut self, payload: &Payload) {
        let prepared = self.prepare(payload);
        if self.order == LinkOrder::BeforeCommit {
            self.make_links(&prepared);
        }
        let old = self.commit(&prepared);
        if self.order == LinkOrder::AfterCommit {
            self.make_links(&prepared);
        }
        self.remove_stale_links(&prepared);
        if let Some(old) = old {
            fs::remove_dir_all(self.volume.join(old)).expect("the old generation can be removed");
        }
    }

    /// Steps 5 and 6: writes the new generation to its own directory.
    pub(crate) fn prepare(&self, payload: &Payload) -> Prepared {
        static WRITES: AtomicU64 = AtomicU64::new(100_000_000);
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let name = format!("..2026_11_21_04_05_06.{number:09}");
        let folder = self.volume.join(&name);
        fs::create_dir(&folder).expect("a generation can be made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("mode");
        let mut links = BTreeSet::new();
        for (key, content) in payload {
            let file = folder.join(key);
            fs::create_dir_all(file.parent().expect("a key is below its folder")).expect("folders");
            fs::write(&file, content).expect("a key can be written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("mode");
            links.insert(key.split('/').next().unwrap_or(key).to_owned());
        }
        Prepared { name, links }
    }

    /// Steps 8 and 9: the atomic swap. Returns the name of the previous generation.
    pub(crate) fn commit(&self, prepared: &Prepared) -> Option<PathBuf> {
        let old = fs::read_link(self.volume.join("..data")).ok();
        symlink(&prepared.name, self.volume.join("..data_tmp")).expect("no stale ..data_tmp");
        fs::rename(self.volume.join("..data_tmp"), self.volume.join("..data")).expect("renamed");
        old
    }

    /// A kubelet that died between steps 8 and 9.
    pub(crate) fn leave_stale_data_tmp(&mut self, payload: &Payload) {
        let prepared = self.prepare(payload);
        symlink(&prepared.name, self.volume.join("..data_tmp")).expect("no stale ..data_tmp yet");
    }

    /// What old kubelets did after each resync: reset the modes of all files, but not their
    /// content.
    pub(crate) fn chmod_storm(&self) {
        let generation = fs::canonicalize(self.volume.join("..data")).expect("there is one");
        for folder in [self.volume.clone(), generation] {
            for entry in fs::read_dir(&folder).expect("it can be listed") {
                let path = entry.expect("it can be listed").path();
                if path.is_file() {
                    for mode in [0o600, 0o644] {
                        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
                    }
                }
            }
        }
    }

    /// Removes the volume with everything in it.
    pub(crate) fn remove(&self) {
        fs::remove_dir_all(&self.volume).expect("a volume can be removed");
    }

    fn make_links(&self, prepared: &Prepared) {
        for link in &prepared.links {
            let path = self.volume.join(link);
            if path.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(link), path).expect("a link can be made");
            }
        }
    }

    fn remove_stale_links(&self, prepared: &Prepared) {
        for entry in fs::read_dir(&self.volume).expect("it can be listed") {
            let name = entry.expect("it can be listed").file_name();
            let name = name.to_str().expect("names are UTF-8");
            if !name.starts_with("..") && !prepared.links.contains(name) {
                fs::remove_file(self.volume.join(name)).expect("a link can be removed");
            }
        }
    }

    fn current(&self) -> Option<Payload> {
        let generation = fs::canonicalize(self.volume.join("..data")).ok()?;
        let mut payload = Payload::new();
        let mut folders = vec![generation.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).ok()? {
                let path = entry.ok()?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let key = path.strip_prefix(&generation).ok()?.to_str()?.to_owned();
                    payload.insert(key, fs::read(&path).ok()?);
                }
            }
        }
        Some(payload)
    }
}
