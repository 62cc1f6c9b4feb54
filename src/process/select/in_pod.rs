//! Whether a process is of podnudge's own pod, where podnudge sees the processes of the node
//! (`hostPID: true`). Pure: judges the text of `/proc/PID/cgroup`.
//!
//! The kubelet gives each pod a cgroup with its UID in the name, and each container one below it
//! (`GetPodContainerName` in kubernetes `pkg/kubelet/cm/pod_container_manager_linux.go`). A container with
//! a cgroup namespace sees itself as `/`, and others by `..` (`cgroup_namespaces(7)`).

/// What is known of podnudge's own pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnPod {
    /// The pod's UID; `None` if neither podnudge's cgroup nor its mounts show it.
    pub uid: Option<String>,
    /// How many levels podnudge's cgroup namespace is below the root of the node; 0 if it has none.
    pub depth: usize,
}

/// The pod of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pod {
    /// podnudge's own. For all processes, if podnudge sees only those of its pod.
    Own,
    /// Another pod.
    Another,
    /// Not known, or none.
    Unknown,
}

impl OwnPod {
    /// From podnudge's own cgroup, that of the first process of the node, and the UID that its mounts show.
    #[must_use]
    pub fn new(own_cgroup: &str, first_cgroup: &str, mounted: Option<String>) -> Self {
        let uid = paths(own_cgroup).find_map(uid_in).or(mounted);
        Self { uid, depth: paths(first_cgroup).map(climb).max().unwrap_or(0) }
    }

    /// The pod of the process with this text in `/proc/PID/cgroup`.
    #[must_use]
    pub fn of(&self, cgroup: &str) -> Pod {
        let found: Vec<Pod> = paths(cgroup).map(|path| self.of_path(path)).collect();
        if found.contains(&Pod::Another) {
            Pod::Another
        } else if found.contains(&Pod::Own) {
            Pod::Own
        } else {
            Pod::Unknown
        }
    }

    fn of_path(&self, path: &str) -> Pod {
        match (uid_in(path), &self.uid) {
            (Some(uid), Some(own)) if uid == *own => Pod::Own,
            (Some(_), Some(_)) => Pod::Another,
            // Seen from within podnudge's pod, the path to its containers does not name the pod.
            (Some(_), None) if climb(path) > 0 => Pod::Another,
            (None, _) if self.is_sibling(path) => Pod::Own,
            _ => Pod::Unknown,
        }
    }

    /// Whether a path leads to another container of podnudge's pod: `/../cri-containerd-ID.scope`, or
    /// `/../../crio-ID.scope/container` where the runtime makes one more level.
    fn is_sibling(&self, path: &str) -> bool {
        /// `kubepods`, the pod and the container; there may also be one for the class of service.
        const LEAST_DEPTH: usize = 3;
        let up = climb(path);
        let below: Vec<&str> = path.split('/').skip(1 + up).collect();
        let is_container = below.first().is_some_and(|element| holds_container_id(element));
        let is_in_pod = match up {
            1 => self.depth >= LEAST_DEPTH,
            2 => self.depth > LEAST_DEPTH && below.get(1) == Some(&"container"),
            _ => false,
        };
        is_container && is_in_pod
    }
}

/// The paths in a file `/proc/PID/cgroup`: `4:memory:/kubepods/…`.
fn paths(cgroup: &str) -> impl Iterator<Item = &str> {
    cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// How many levels a path leads up from podnudge's own cgroup namespace.
fn climb(path: &str) -> usize {
    path.split('/').skip(1).take_while(|element| *element == "..").count()
}

/// The UID of the last pod in a path: `pod<UID>` with cgroupfs, and
/// `kubepods-burstable-pod<UID>.slice` with systemd, which has underscores in place of dashes. That of a
/// static pod is a hash.
fn uid_in(path: &str) -> Option<String> {
    const LENGTH: usize = 32;
    path.rsplit('/').find_map(|element| {
        let element = element.strip_suffix(".slice").unwrap_or(element);
        let after = element.rsplit_once("-pod").map(|(_, uid)| uid);
        let uid = after.or_else(|| element.strip_prefix("pod"))?.replace('_', "-");
        let is_uid = uid.chars().filter(char::is_ascii_hexdigit).count() == LENGTH
            && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        is_uid.then_some(uid)
    })
}

/// Whether an element of a cgroup path has the id of a container in it: 64 hexadecimal digits,
/// whatever the runtime adds around them.
pub(in crate::process) fn holds_container_id(element: &str) -> bool {
    element.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "0d3c1f9e-5f0a-4f4e-9d39-6c2f5b1f0a77";
    const OTHER: &str = "9b1f0a77-5f0a-4f4e-9d39-6c2f5b1f0a70";

    fn id(digit: &str) -> String {
        digit.repeat(64)
    }

    fn systemd(uid: &str, container: &str) -> String {
        let pod = uid.replace('-', "_");
        format!("kubepods-burstable-pod{pod}.slice/cri-containerd-{container}.scope")
    }

    #[test]
    fn with_the_cgroups_of_the_node_the_uid_decides() {
        let (app, me) = (id("a"), id("b"));
        let line = |path: &str| format!("4:memory:{path}\n1:name=systemd:{path}\n0::/\n");
        let cgroupfs = |uid: &str, id: &str| line(&format!("/kubepods/burstable/pod{uid}/{id}"));
        let of_systemd = |uid: &str, id: &str| {
            line(&format!("/kubepods.slice/kubepods-burstable.slice/{}", systemd(uid, id)))
        };
        for path in [&cgroupfs as &dyn Fn(&str, &str) -> String, &of_systemd] {
            let own = OwnPod::new(&path(OWN, &me), &line("/init.scope"), None);
            assert_eq!(own.uid.as_deref(), Some(OWN));
            assert_eq!(own.of(&path(OWN, &app)), Pod::Own);
            assert_eq!(own.of(&path(OTHER, &app)), Pod::Another);
            assert_eq!(own.of(&line("/system.slice/sshd.service")), Pod::Unknown);
            assert_eq!(own.of(&line(&format!("/docker/{app}"))), Pod::Unknown);
        }
        // A static pod.
        let hash = "c4f1a3b2d5e6978801a2b3c4d5e6f708";
        let own = OwnPod::new(&cgroupfs(hash, &me), &line("/"), None);
        assert_eq!(own.of(&cgroupfs(hash, &app)), Pod::Own);
        assert_eq!(own.of(&cgroupfs(OTHER, &app)), Pod::Another);
    }

    #[test]
    fn with_a_cgroup_namespace_the_place_decides() {
        let app = id("a");
        for known in [Some(OWN.to_owned()), None] {
            let own = OwnPod::new("0::/\n", "0::/../../../../init.scope\n", known);
            let of = |path: &str| own.of(&format!("0::{path}\n"));
            assert_eq!(of(&format!("/../{app}")), Pod::Own);
            assert_eq!(of(&format!("/../cri-containerd-{app}.scope/init.scope")), Pod::Own);
            assert_eq!(of(&format!("/../../pod{OTHER}/{app}")), Pod::Another);
            assert_eq!(of(&format!("/../../{}", systemd(OTHER, &app))), Pod::Another);
            assert_eq!(of(&format!("/../../crio-{app}.scope")), Pod::Unknown);
            assert_eq!(of(&format!("/../../../docker/{app}")), Pod::Unknown);
            assert_eq!(of("/../../../../system.slice/sshd.service"), Pod::Unknown);
            assert_eq!(of("/"), Pod::Unknown);
            let own = OwnPod { depth: 5, ..own };
            let of = |path: &str| own.of(&format!("0::{path}\n"));
            assert_eq!(of(&format!("/../../crio-{app}.scope/container")), Pod::Own);
        }
    }

    /// With `cgroupsPerQOS: false`, all containers of the node are siblings.
    #[test]
    fn without_a_cgroup_of_the_pod_nothing_is_known() {
        let own = OwnPod::new("0::/\n", "0::/../../init.scope\n", Some(OWN.to_owned()));
        assert_eq!(own.of(&format!("0::/../cri-containerd-{}.scope\n", id("a"))), Pod::Unknown);
    }
}
