//! Reads `/proc/PID/mountinfo` (proc(5)): which part of which file system is mounted at a path.
//! This detects subPath mounts, which never change, and lets `process` find the processes that
//! mount a volume.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The fields of a mountinfo line that podnudge uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount. Each mount namespace has others.
    pub id: u64,
    /// Major and minor number of the file system.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Whether nothing can be written through this mount.
    pub is_read_only: bool,
    /// `tmpfs`, `ext4`, `overlay`, …
    pub fs_type: String,
}

impl Mount {
    /// Whether this is a subPath mount: it shows one generation of a kubelet volume, or a part of
    /// it, instead of the volume. The kernel appends `//deleted` to a root that was removed.
    #[must_use]
    pub fn is_subpath(&self) -> bool {
        let generation = |part: Component<'_>| match part {
            Component::Normal(name) => is_generation_name(name.as_bytes()),
            _ => false,
        };
        self.root.components().any(generation)
            || self.root.as_os_str().as_bytes().ends_with(b"//deleted")
    }

    /// Whether its files are kept in memory only.
    fn is_in_memory(&self) -> bool {
        matches!(self.fs_type.as_str(), "tmpfs" | "ramfs")
    }
}

/// Whether a name is that of a kubelet's timestamped directory, `..2006_01_02_15_04_05.123`.
pub(crate) fn is_generation_name(name: &[u8]) -> bool {
    name.strip_prefix(b"..").is_some_and(|rest| {
        rest.split(|byte| *byte == b'_').count() >= 6
            && rest.first().is_some_and(u8::is_ascii_digit)
    })
}

/// Parses a mountinfo file, in its order. Skips lines that do not follow proc(5).
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// The mount of `path`: the longest mount point that contains it, the last one of equals.
#[must_use]
pub fn containing<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let depth = |mount: &&Mount| mount.mount_point.components().count();
    mounts.iter().filter(|mount| path.starts_with(&mount.mount_point)).max_by_key(depth)
}

/// What is mounted at a path, if that is a volume: a kubelet's mount shows its kind and its name.
#[must_use]
pub fn kind(path: &Path) -> Option<String> {
    /// The kinds of volumes that change while they are mounted, by the names of their plugins.
    const KINDS: [(&str, &str); 4] = [
        ("kubernetes.io~configmap", "ConfigMap"),
        ("kubernetes.io~secret", "Secret"),
        ("kubernetes.io~projected", "projected volume"),
        ("kubernetes.io~empty-dir", "emptyDir"),
    ];
    let mounts = parse(&fs::read("/proc/self/mountinfo").ok()?);
    let mount = containing(path, &mounts).filter(|mount| mount.mount_point != Path::new("/"))?;
    let parts: Vec<_> = mount.root.iter().map(|part| part.to_string_lossy()).collect();
    let known = KINDS.iter().find_map(|(plugin, kind)| {
        let at = parts.iter().position(|part| part == plugin)?;
        Some(format!("{kind} `{}`", shown::text(parts.get(at + 1)?)))
    });
    Some(known.unwrap_or_else(|| format!("a mount of type {}", mount.fs_type)))
}

/// The warning for a watched path that is a subPath mount, or has one below it: it will never change.
#[must_use]
pub fn subpath_warning(path: &Path) -> Option<Reason> {
    let mounts = parse(&fs::read("/proc/self/mountinfo").ok()?);
    let path = &real(path);
    let mount = containing(path, &mounts)
        .into_iter()
        .chain(below(path, &mounts))
        .find(|mount| mount.is_subpath())?;
    let mount_point = mount.mount_point.display();
    let message = format!("`{mount_point}` is mounted with subPath, so it never changes");
    Some(Reason::new(message).hint("mount the whole volume at a directory of its own (a volumeMount without subPath), and let the application read the file from there"))
}

/// Whether these paths hold nothing but ConfigMaps, as far as podnudge's mounts show. The kubelet keeps
/// a ConfigMap in `…/kubernetes.io~configmap/NAME` (kubernetes pkg/volume/configmap/configmap.go); a
/// projected volume may also hold Secrets.
#[must_use]
pub fn are_configmaps(paths: &[PathBuf]) -> bool {
    let Ok(text) = fs::read("/proc/self/mountinfo") else { return false };
    let mounts = parse(&text);
    paths.iter().all(|path| {
        // A link may lead out of the volume.
        is_configmap(path, &mounts) && is_configmap(&real(path), &mounts)
    })
}

/// Whether a path is in a ConfigMap volume, and nothing else is mounted below it.
fn is_configmap(path: &Path, mounts: &[Mount]) -> bool {
    let is_in_one = containing(path, mounts).is_some_and(|mount| {
        mount.root.components().any(|part| part.as_os_str() == "kubernetes.io~configmap")
    });
    is_in_one && below(path, mounts).next().is_none()
}

/// The mounts below a path.
fn below<'a>(path: &Path, mounts: &'a [Mount]) -> impl Iterator<Item = &'a Mount> {
    mounts
        .iter()
        .filter(move |mount| mount.mount_point != path && mount.mount_point.starts_with(path))
}

/// The path without links, as the mounts have it.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Whether a path is on the root file system, which no other container can see, and nothing is mounted below it.
#[must_use]
pub fn is_on_root(path: &Path) -> bool {
    let Ok(text) = fs::read("/proc/self/mountinfo") else { return false };
    let (real, mounts) = (real(path), parse(&text));
    containing(&real, &mounts).is_some_and(|mount| mount.mount_point == Path::new("/"))
        && below(&real, &mounts).next().is_none()
}

/// Whether a path is in the kubelet's directory of a pod's volumes, `…/pods/UID/volumes/kubernetes.io~configmap/NAME`
/// (`GetPodVolumeDir` in kubernetes `pkg/kubelet/kubelet_getters.go`).
#[must_use]
pub fn is_in_volume_of_pod(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(OsStr::as_bytes).collect();
    parts
        .windows(4)
        .any(|part| matches!(part, [b"pods", _, b"volumes", plugin] if plugin.contains(&b'~')))
}

/// The UID of podnudge's pod, from the mounts that the kubelet makes in each container.
#[must_use]
pub fn pod_uid(mounts: &[Mount]) -> Option<String> {
    mounts.iter().filter(|mount| is_of_kubelet(mount)).find_map(|mount| {
        let mut parts = mount.root.iter().skip_while(|part| *part != "pods");
        Some(parts.nth(1)?.to_str()?.to_owned())
    })
}

/// The name of podnudge's own container.
#[cfg(feature = "cluster")]
#[must_use]
pub fn own_container() -> Option<String> {
    container(&parse(&fs::read("/proc/self/mountinfo").ok()?))
}

/// The name of the container with these mounts: the kubelet keeps the file for the message of a container that ends
/// in `…/pods/UID/containers/NAME/` (`GetPodContainerDir` in kubernetes `pkg/kubelet/kubelet_getters.go`).
#[must_use]
pub fn container(mounts: &[Mount]) -> Option<String> {
    mounts.iter().find_map(|mount| {
        let parts: Vec<_> = mount.root.iter().map(OsStr::to_str).collect();
        match parts.as_slice() {
            [.., Some("pods"), _, Some("containers"), Some(name), _] => Some((*name).to_owned()),
            _ => None,
        }
    })
}

/// Whether podnudge runs in a container of a pod, as far as its mounts show.
#[must_use]
pub fn is_in_pod() -> bool {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    parse(&text).iter().any(is_of_kubelet)
}

/// Whether the kubelet has made this mount, as it does in each container: `/etc/hosts` (`makeHostsMount`
/// in kubernetes `pkg/kubelet/kubelet_pods.go`), and the file for the message of a container that ends
/// (`makeMounts` in `pkg/kubelet/kuberuntime/kuberuntime_container.go`).
fn is_of_kubelet(mount: &Mount) -> bool {
    mount.mount_point == Path::new("/dev/termination-log")
        || (mount.mount_point == Path::new("/etc/hosts") && mount.root.ends_with("etc-hosts"))
}

/// The first volume that is kept in memory, as Secrets are (`medium: Memory`, kubernetes
/// pkg/volume/secret/secret.go), if files written to `to` are stored on a disk.
#[must_use]
pub fn memory_volume_copied_to_disk<'a>(volumes: &'a [PathBuf], to: &Path) -> Option<&'a Path> {
    let mounts = parse(&fs::read("/proc/self/mountinfo").ok()?);
    let is_in_memory = |path: &Path| containing(path, &mounts).is_some_and(Mount::is_in_memory);
    if is_in_memory(&real(to)) {
        return None;
    }
    volumes.iter().map(PathBuf::as_path).find(|volume| {
        let volume = real(volume);
        is_in_memory(&volume) || below(&volume, &mounts).any(Mount::is_in_memory)
    })
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let root = unescape(fields.next()?);
    let mount_point = unescape(fields.next()?);
    let is_read_only = fields.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        id,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root,
        mount_point,
        is_read_only,
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

/// Decodes space, tab, newline and backslash, which are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .first_chunk::<3>()
            .filter(|digits| *first == b'\\' && digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In podnudge's container, a ConfigMap and a Secret below a directory that is watched.
    #[test]
    fn what_is_mounted_below_a_directory_belongs_to_it() {
        let mounts = parse(
            b"1 0 0:1 / / rw - overlay overlay rw\n\
              2 1 0:2 / /etc/app/tls ro - tmpfs tmpfs rw\n\
              3 1 0:3 / /etc/application ro - tmpfs tmpfs rw\n",
        );
        let points = |path: &str| -> Vec<PathBuf> {
            below(Path::new(path), &mounts).map(|mount| mount.mount_point.clone()).collect()
        };
        assert_eq!(points("/etc/app"), [Path::new("/etc/app/tls")]);
        assert_eq!(points("/etc/app/tls").len() + points("/etc/app/conf").len(), 0);
    }

    #[test]
    fn the_kubelet_s_mounts_name_the_container() {
        let text = "\
            36 35 98:0 / / rw - overlay overlay rw\n\
            37 36 8:1 /var/lib/kubelet/pods/12-ab/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n\
            38 36 8:1 /var/lib/kubelet/pods/12-ab/containers/podnudge/0a1b /dev/termination-log rw - ext4 /dev/sda rw\n";
        assert_eq!(container(&parse(text.as_bytes())).as_deref(), Some("podnudge"));
        let (others, _) = text.split_at(text.find("38 36").expect("it is there"));
        assert_eq!(container(&parse(others.as_bytes())), None);
    }
}
