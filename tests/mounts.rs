//! Volumes that are unmounted and mounted anew while podnudge watches them. Its own mount namespace
//! holds the mounts of each test.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{
    Agent, Application, Kubelet, ROLLED_OUT, command, in_namespace, mount, payload, podnudge,
    tmpfs, unmount, wait_until,
};

/// A watched mount point, and the application that reads it. Neither a resync nor a poll happens
/// within the test: only events cause reloads.
struct Scene {
    folder: TempDir,
    volume: PathBuf,
    application: Application,
}

/// How a volume is written.
#[derive(Clone, Copy)]
enum Writer {
    Kubelet,
    Plain,
}

impl Writer {
    fn write(self, volume: &Path, content: &str) {
        match self {
            Self::Kubelet => Kubelet::new(volume).write(&payload(&[("a.conf", content)])),
            Self::Plain => fs::write(volume.join("a.conf"), content).unwrap(),
        }
    }
}

impl Scene {
    /// Before anything is mounted.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        fs::create_dir(&volume).unwrap();
        let application = Application::start(&volume, "a.conf");
        Self { folder, volume, application }
    }

    fn nudge(&self) -> Agent {
        self.start(podnudge(), "10m")
    }

    fn start(&self, mut command: Command, resync: &str) -> Agent {
        command
            .args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never"])
            .args(["--resync", resync, "--poll", "10m", "--settle", "50ms"])
            .args(["--url", &self.application.url(), "--watch"])
            .arg(&self.volume);
        let agent = Agent::spawn(self.folder.path(), command);
        agent.wait_for("baseline", 1);
        agent
    }

    /// Waits until the application has read this content, and nothing else since `before`.
    fn wait_for(&self, agent: &Agent, content: &str) {
        wait_until(&format!("the application has reloaded {content}"), || {
            self.application.reloads().last().is_some_and(|last| last == content)
        });
        wait_until("the rollout has ended", || {
            let status = agent.rule();
            assert_eq!(status["volumes"][0]["backend"], "inotify", "{status}");
            status["in_sync"] == "yes"
        });
    }
}

fn assert_never_missed(agent: &Agent) {
    assert_eq!(agent.count("missed-by-watch|polling"), 0, "{}", agent.log());
}

#[test]
fn a_volume_that_is_mounted_anew_with_the_same_inode_is_watched_at_once() {
    in_namespace!();
    for writer in [Writer::Kubelet, Writer::Plain] {
        let scene = Scene::new();
        tmpfs(&scene.volume);
        let inode = fs::metadata(&scene.volume).unwrap().ino();
        writer.write(&scene.volume, "start");
        let agent = scene.nudge();
        writer.write(&scene.volume, "first");
        scene.wait_for(&agent, "first");
        for round in 1..=4 {
            unmount(&scene.volume);
            tmpfs(&scene.volume);
            assert_eq!(fs::metadata(&scene.volume).unwrap().ino(), inode);
            for write in 1..=3 {
                let content = format!("{round}.{write}");
                writer.write(&scene.volume, &content);
                scene.wait_for(&agent, &content);
            }
        }
        assert_never_missed(&agent);
        drop(agent);
        unmount(&scene.volume);
    }
}

#[test]
fn an_unmounted_volume_is_missing_and_not_empty() {
    in_namespace!();
    for writer in [Writer::Kubelet, Writer::Plain] {
        let scene = Scene::new();
        // What the mount hides, as an image may have it.
        fs::write(scene.volume.join("a.conf"), "of the image").unwrap();
        tmpfs(&scene.volume);
        writer.write(&scene.volume, "1");
        let agent = scene.nudge();
        for round in 1..=3 {
            unmount(&scene.volume);
            agent.wait_for("volume-missing", round);
            let status = agent.rule();
            assert_eq!(
                (&status["in_sync"], &status["volumes"][0]["present"]),
                (&"no".into(), &false.into()),
                "{status}"
            );
            tmpfs(&scene.volume);
            let content = format!("after {round}");
            writer.write(&scene.volume, &content);
            scene.wait_for(&agent, &content);
            agent.wait_for("volume-back", round);
        }
        let message = agent.last("volume-missing", "message");
        assert!(message.starts_with("nothing is mounted at the watched path"), "{message}");
        let wanted = ["after 1", "after 2", "after 3"];
        let mut reloads = scene.application.reloads();
        // A scan may see a volume that is mounted but not written yet.
        reloads.retain(|content| !content.is_empty());
        reloads.dedup();
        assert_eq!(reloads, wanted, "{}", agent.log());
        assert_never_missed(&agent);
        drop(agent);
        unmount(&scene.volume);
    }
}

#[test]
fn another_bind_mount_is_noticed_and_watched() {
    in_namespace!();
    for writer in [Writer::Kubelet, Writer::Plain] {
        let scene = Scene::new();
        let sources = ["one", "two"].map(|name| scene.folder.path().join(name));
        for source in &sources {
            fs::create_dir(source).unwrap();
            writer.write(source, &format!("at first in {}", source.display()));
        }
        let bind = |source: &Path| mount(&["--bind", source.to_str().unwrap()], &scene.volume);
        bind(&sources[0]);
        let agent = scene.nudge();
        for (round, source) in sources.iter().cycle().skip(1).take(5).enumerate() {
            let before = format!("written before it is mounted, {round}");
            writer.write(source, &before);
            unmount(&scene.volume);
            bind(source);
            scene.wait_for(&agent, &before);
            let after = format!("written after it is mounted, {round}");
            writer.write(source, &after);
            scene.wait_for(&agent, &after);
        }
        assert_never_missed(&agent);
        drop(agent);
        unmount(&scene.volume);
    }
}

#[test]
fn a_mount_over_the_volume_and_its_end_are_noticed() {
    in_namespace!();
    let scene = Scene::new();
    tmpfs(&scene.volume);
    Writer::Kubelet.write(&scene.volume, "below");
    let agent = scene.nudge();
    let above = scene.folder.path().join("above");
    fs::create_dir(&above).unwrap();
    Writer::Kubelet.write(&above, "above");
    for _ in 0..2 {
        mount(&["--bind", above.to_str().unwrap()], &scene.volume);
        scene.wait_for(&agent, "above");
        unmount(&scene.volume);
        scene.wait_for(&agent, "below");
    }
    Writer::Kubelet.write(&scene.volume, "below, later");
    scene.wait_for(&agent, "below, later");
    assert_eq!(agent.count("volume-missing"), 0, "{}", agent.log());
    assert_never_missed(&agent);
    drop(agent);
    unmount(&scene.volume);
}

#[test]
fn a_volume_that_is_unmounted_lazily_while_a_file_is_open_is_missing() {
    in_namespace!();
    let scene = Scene::new();
    tmpfs(&scene.volume);
    Writer::Kubelet.write(&scene.volume, "1");
    let agent = scene.nudge();
    let open = File::open(scene.volume.join("a.conf")).unwrap();
    let lazily = command("umount").arg("--lazy").arg(&scene.volume).status().unwrap();
    assert!(lazily.success());
    agent.wait_for("volume-missing", 1);
    tmpfs(&scene.volume);
    Writer::Kubelet.write(&scene.volume, "2");
    scene.wait_for(&agent, "2");
    drop(open);
    Writer::Kubelet.write(&scene.volume, "3");
    scene.wait_for(&agent, "3");
    assert_never_missed(&agent);
    drop(agent);
    unmount(&scene.volume);
}

#[test]
fn a_mount_below_a_watched_directory_is_noticed_and_watched() {
    in_namespace!();
    let scene = Scene::new();
    let below = scene.volume.join("below");
    fs::create_dir(&below).unwrap();
    Writer::Plain.write(&scene.volume, "1");
    let agent = scene.nudge();
    let mut reloads = 0;
    for round in 0..3 {
        tmpfs(&below);
        fs::write(below.join("b.conf"), round.to_string()).unwrap();
        reloads += 1;
        wait_until("the key appears", || agent.count(ROLLED_OUT) >= reloads);
        fs::write(below.join("b.conf"), format!("{round} changed")).unwrap();
        reloads += 1;
        wait_until("the key changes", || agent.count(ROLLED_OUT) >= reloads);
        unmount(&below);
        reloads += 1;
        wait_until("the key disappears", || agent.count(ROLLED_OUT) >= reloads);
    }
    assert_never_missed(&agent);
}

#[test]
fn a_volume_changes_while_the_mount_table_is_busy() {
    in_namespace!();
    let scene = Scene::new();
    tmpfs(&scene.volume);
    Writer::Kubelet.write(&scene.volume, "0");
    let agent = scene.nudge();
    let other = scene.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for round in 1..=20 {
        for _ in 0..5 {
            tmpfs(&other);
            unmount(&other);
        }
        let content = round.to_string();
        Writer::Kubelet.write(&scene.volume, &content);
        scene.wait_for(&agent, &content);
    }
    assert_eq!(agent.count("volume-missing"), 0, "{}", agent.log());
    assert_never_missed(&agent);
    drop(agent);
    unmount(&scene.volume);
}

/// podnudge in a mount namespace that receives the mounts of this one, as a container with
/// `mountPropagation: HostToContainer` does. `before` is run there first.
fn in_container(before: &str) -> Command {
    let mut command = command("unshare");
    let script = format!("{before} && exec \"$0\" \"$@\"");
    command.args(["--mount", "--propagation", "slave", "sh", "-c", &script]);
    command.arg(env!("CARGO_BIN_EXE_podnudge"));
    command
}

#[test]
fn a_volume_that_the_node_mounts_anew_below_a_propagated_mount_is_watched() {
    in_namespace!();
    // Without `/proc` the kernel reports no change of mounts, and the resync finds the new volume.
    for (before, resync, missed) in
        [("true", "10m", 0..=0), ("mount -t tmpfs tmpfs /proc", "1s", 1..=4)]
    {
        let scene = Scene::new();
        let node = scene.folder.path();
        mount(&["--bind", node.to_str().unwrap()], node);
        mount(&["--make-shared"], node);
        tmpfs(&scene.volume);
        Writer::Kubelet.write(&scene.volume, "start");
        let agent = scene.start(in_container(before), resync);
        for round in 1..=4 {
            unmount(&scene.volume);
            tmpfs(&scene.volume);
            for write in 1..=5 {
                let content = format!("{round}.{write}");
                Writer::Kubelet.write(&scene.volume, &content);
                scene.wait_for(&agent, &content);
            }
        }
        assert!(missed.contains(&agent.count("missed-by-watch")), "{}", agent.log());
        assert_eq!(agent.count("polling"), 0, "{}", agent.log());
        drop(agent);
        unmount(&scene.volume);
        unmount(node);
    }
}
