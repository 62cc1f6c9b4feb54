//! A pod whose containers share their process namespace, as made by a kubelet: pid 1 is `/pause`,
//! each container has a control group named after its id, and the main process of a container has
//! no parent in the namespace, because it was started from outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::program::command;
use super::wait::{LIMIT, is_within, wait_until};

/// Killed with all its processes at the end of its test.
#[derive(Debug)]
pub(crate) struct SharedPod {
    /// `unshare`; its child is pid 1 of the pod.
    unshare: Child,
    pause: i32,
    control_groups: PathBuf,
}

impl SharedPod {
    /// Starts a pod without containers, in the folder of the test.
    pub(crate) fn start(folder: &Path) -> Self {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let control_groups = hierarchy().join(format!("podnudge-test-{name}"));
        fs::create_dir(&control_groups).unwrap();
        // A stand-in for `/pause` that reaps orphaned processes.
        symlink("/bin/bash", folder.join("pause")).unwrap();
        let script = "echo 0 > \"$0\" && exec -a /pause \"$1\" -c 'while :; do sleep 1000; done'";
        // Killed together with the test process.
        let unshare = command("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--mount", "--mount-proc"])
            .args(["--kill-child", "bash", "-c"])
            .arg(script)
            .arg(container(&control_groups, 'f'))
            .arg(folder.join("pause"))
            .spawn()
            .expect("unshare is installed (package util-linux)");
        let mut pod = Self { pause: 0, unshare, control_groups };
        wait_until("the pod has its pid 1", || {
            let parent = pod.unshare.id();
            let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
            pod.pause = children.unwrap_or_default().trim().parse().unwrap_or_default();
            let comm = fs::read_to_string(format!("/proc/{}/comm", pod.pause));
            comm.is_ok_and(|comm| comm == "pause\n")
        });
        pod
    }

    /// The command that starts a program in a container of this pod. The id of the container is
    /// this hexadecimal digit, repeated 64 times.
    pub(crate) fn container(&self, id: char) -> Command {
        let mut nsenter = command("nsenter");
        nsenter.args(["--target", &self.pause.to_string(), "--pid", "--mount", "sh", "-c"]);
        nsenter.arg("echo 0 > \"$0\" && exec \"$@\"").arg(container(&self.control_groups, id));
        nsenter
    }
}

impl Drop for SharedPod {
    fn drop(&mut self) {
        // This kills pid 1, and with it all processes of the pod.
        drop(self.unshare.kill());
        drop(self.unshare.wait());
        for entry in fs::read_dir(&self.control_groups).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                // This fails until its last process has exited.
                is_within(LIMIT, || fs::remove_dir(entry.path()).is_ok());
            }
        }
        drop(fs::remove_dir(&self.control_groups));
    }
}

/// The `cgroup.procs` file of this container.
fn container(control_groups: &Path, id: char) -> PathBuf {
    let folder = control_groups.join(id.to_string().repeat(64));
    fs::create_dir_all(&folder).unwrap();
    folder.join("cgroup.procs")
}

/// A control group hierarchy: the unified one of version 2, or one without controllers.
fn hierarchy() -> PathBuf {
    let places = ["", "unified", "systemd"].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let found = places.into_iter().find(|place| place.join("cgroup.procs").exists());
    found.expect("control groups are mounted at /sys/fs/cgroup")
}
