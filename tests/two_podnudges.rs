//! Two podnudges in a pod with a shared process namespace, which watch the same volume: neither takes the
//! other, or a program that the other runs, for the application.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::support::agent::{Agent, ROLLED_OUT};
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::{Behaviour, Target, in_namespace};
use crate::support::program::{command, podnudge};
use crate::support::wait::wait_until;

/// A mounted volume, and a process whose mount namespace lacks it.
struct Scene {
    folder: TempDir,
    kubelet: Kubelet,
    _bystander: Target,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        fs::create_dir(&volume).unwrap();
        let mut mount = command("mount");
        assert!(mount.args(["-t", "tmpfs", "tmpfs"]).arg(&volume).status().unwrap().success());
        let mut kubelet = Kubelet::new(&volume);
        kubelet.write(&payload(&[("a.conf", "1")]));
        let bystander = Target::start_without(folder.path(), "bystander", &volume);
        Self { folder, kubelet, _bystander: bystander }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts podnudge from a file with this name.
    fn nudge(&self, name: &str, arguments: &[&str]) -> Agent {
        let file = self.path().join(name);
        symlink(podnudge().get_program(), &file).unwrap();
        let mut command = command(file);
        command.args(["--log", "json", "--listen", "off", "--settle", "0s", "--jitter", "0s"]);
        command.args(["--on-start", "never", "--watch"]).arg(&self.kubelet.volume).args(arguments);
        let agent = Agent::spawn(self.path(), command);
        agent.wait_for("baseline|fresh", 1);
        agent
    }
}

/// Whether a process with this name runs in the namespace.
fn runs(name: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut names = processes.filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
    names.any(|comm| comm.trim_end() == name)
}

#[test]
fn another_podnudge_with_the_volume_is_not_the_application() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let by_signal = ["--signal", "HUP", "--alive-for", "50ms"];
        let first = scene.nudge("reloader", &by_signal);
        let second = scene.nudge("podnudge", &by_signal);
        // Without an action of its own: a preset is looked for.
        let third = scene.nudge("nudger", &[]);
        scene.kubelet.write(&payload(&[("a.conf", "2")]));
        for agent in [&first, &second, &third] {
            agent.wait_for("waiting-for-target", 1);
            let reason = agent.last("waiting-for-target", "reason");
            assert!(reason.contains("no process of another container mounts"), "{reason}");
            assert_eq!(agent.count("sent|target-ambiguous|refused|applied"), 0, "{}", agent.log());
        }
    });
}

#[test]
fn a_podnudge_beside_the_application_does_not_make_the_target_ambiguous() {
    in_namespace(|| {
        let mut scene = Scene::new();
        let application = Target::start(scene.path(), "app", Behaviour::Handles);
        let program = scene.path().join("programme");
        symlink("/bin/sleep", &program).unwrap();
        let exec = format!("{} 1000", program.display());
        let first = scene.nudge("reloader", &["--exec", &exec]);
        scene.kubelet.write(&payload(&[("a.conf", "2")]));
        wait_until("the other podnudge runs its program", || runs("programme"));
        let second = scene.nudge("nudger", &["--signal", "HUP", "--alive-for", "50ms"]);
        for (n, content) in ["3", "4"].iter().enumerate() {
            scene.kubelet.write(&payload(&[("a.conf", content)]));
            second.wait_for(ROLLED_OUT, n + 1);
        }
        assert_eq!(second.count("target-ambiguous|refused|waiting-for-target"), 0);
        assert_eq!((application.signals(), first.count("refused")), (2, 0));
    });
}
