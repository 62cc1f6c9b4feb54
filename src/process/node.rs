//! Recognises that podnudge sees the processes of the node (`hostPID: true`), and tells which of them are
//! of its own pod: by their cgroup, or else by a mount of the watched volume. Reads `/proc`; changes
//! nothing.
//!
//! On a node that is itself a container (kind), nothing distinguishes its processes from those of a pod
//! for certain: there podnudge takes them for its pod's, as with `shareProcessNamespace: true`.

use std::path::{Path, PathBuf};

use super::proc::{read_proc_file, read_process_file, stat};
use super::select::in_pod::{OwnPod, Pod};
use super::texts::lossy;
use crate::volume::mounts::{self, Mount};
use podnudge_core::reason::Reason;

/// podnudge's own pod, if podnudge sees the processes of the node.
pub(super) fn own_pod_on_node() -> Option<OwnPod> {
    if !is_host_namespace() {
        return None;
    }
    let own = read_proc_file("/proc/self/cgroup").map(lossy).unwrap_or_default();
    let first = read_process_file(1, "cgroup").ok().flatten().map(lossy).unwrap_or_default();
    let mounted = mounts::pod_uid(&own_mounts());
    Some(OwnPod::new(&own, &first, mounted))
}

/// The pod of a process with this text in `/proc/PID/cgroup`. Where that does not tell, a process that mounts
/// one of `volumes` is of podnudge's pod.
pub(super) fn pod_of(
    own: &OwnPod,
    pid: i32,
    cgroup: &str,
    volumes: &[Mount],
) -> Result<Pod, Reason> {
    let by_cgroup = own.of(cgroup);
    if by_cgroup != Pod::Unknown || volumes.is_empty() {
        return Ok(by_cgroup);
    }
    let text = read_process_file(pid, "mountinfo")?.unwrap_or_default();
    let shares = |mount: &Mount| {
        // The kubelet and others see the volumes of all pods in their place on the node.
        !mounts::is_in_volume_of_pod(&mount.mount_point)
            && volumes.iter().any(|own| is_same_place(own, mount))
    };
    Ok(if mounts::parse(&text).iter().any(shares) { Pod::Own } else { Pod::Unknown })
}

/// podnudge's own mounts of these paths that the kubelet has made for its pod alone: not a directory of
/// the node, which another pod may mount, too.
pub(super) fn volumes_of_pod(paths: &[PathBuf]) -> Vec<Mount> {
    let own = own_mounts();
    let on_node = read_process_file(1, "mountinfo").ok().flatten().unwrap_or_default();
    let on_node = mounts::parse(&on_node);
    let is_of_pod = |mount: &&Mount| {
        let mut places = on_node.iter().filter(|place| is_same_place(place, mount));
        mounts::is_in_volume_of_pod(&mount.root)
            || places.any(|place| mounts::is_in_volume_of_pod(&place.mount_point))
    };
    let real = paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    real.filter_map(|path| mounts::containing(&path, &own).filter(is_of_pod).cloned()).collect()
}

fn own_mounts() -> Vec<Mount> {
    mounts::parse(&read_proc_file("/proc/self/mountinfo").unwrap_or_default())
}

fn is_same_place(one: &Mount, other: &Mount) -> bool {
    (one.device, &one.root) == (other.device, &other.root)
}

/// Whether podnudge sees the processes of the whole node, and is in a container: it sees kernel
/// threads, and the first process has another root file system.
fn is_host_namespace() -> bool {
    /// Always `kthreadd` (`rest_init` in init/main.c).
    const KERNEL_THREADS: i32 = 2;
    let sees_kernel = matches!(stat(KERNEL_THREADS), Ok(Some(stat)) if stat.is_kernel_thread);
    let root =
        |mounts: Vec<Mount>| mounts.into_iter().rfind(|mount| mount.mount_point == Path::new("/"));
    let first = read_process_file(1, "mountinfo").ok().flatten();
    let first = first.and_then(|text| root(mounts::parse(&text)));
    let own = root(own_mounts());
    sees_kernel && first.is_some_and(|first| own.is_none_or(|own| !is_same_place(&own, &first)))
}
