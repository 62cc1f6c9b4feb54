//! The one builder of scenes: a folder with a volume that is written as by a kubelet, applications, and podnudge beside
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::agent::{Agent, ROLLED_OUT, SCANNED};
use super::api_server::ApiServer;
use super::application::Application;
use super::kubelet::{Kubelet, Payload, payload};
use super::pod::{Behaviour, Target};
use super::program::command;
use super::program::podnudge;
use super::rights::rights_of;
use super::running::{Container, Running};
use super::supervisor::Supervisor;
use super::wait::{wait_until, wait_until_commit_is_past};

/// Mounts a directory in a mount namespace of its own, and runs a program there: `SOURCE DIR PROGRAM…`.
/// So podnudge and the application mount the volume, as containers do, and nothing else does.
const MOUNTED: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-ec",
    "mkdir -p \"$1\"; mount --bind \"$0\" \"$1\"; shift; exec \"$@\"",
];

/// What starts a program as another user than root.
pub(crate) const OTHER_USER: [&str; 4] =
    ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"];

/// A volume in a folder that every user may write to. In the texts of a scene, `FOLDER` stands for this folder.
pub(crate) struct Scene {
    pub(crate) kubelet: Kubelet,
    /// The key that [`Scene::change`] writes.
    key: String,
    renewals: usize,
    /// What the containers mount, and where. Without, they have no mounts of their own.
    mount: Option<(PathBuf, String)>,
    /// Processes that run as long as the scene.
    keeps: Vec<Running>,
    pub(crate) folder: TempDir,
}

impl Scene {
    /// With the key `a.conf`, which contains `1`.
    pub(crate) fn new() -> Self {
        Self::with(&[("a.conf", "1")])
    }

    pub(crate) fn with(content: &[(&str, &str)]) -> Self {
        Self::of(&payload(content))
    }

    pub(crate) fn of(content: &Payload) -> Self {
        Self::at("volume", content, |_| {})
    }

    /// With a volume on a tmpfs of its own, at a path below the folder or at an absolute one: for a test in a
    /// namespace.
    pub(crate) fn on_tmpfs(path: &str, content: &Payload) -> Self {
        Self::at(path, content, |volume| drop(tmpfs(volume)))
    }

    fn at(path: &str, content: &Payload, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let volume = folder.path().join(path);
        fs::create_dir_all(&volume).unwrap();
        prepare(&volume);
        let mut kubelet = Kubelet::new(volume);
        kubelet.write(content);
        let key = content.keys().next().cloned().unwrap_or_default();
        Self { kubelet, key, renewals: 0, mount: None, keeps: Vec::new(), folder }
    }

    /// Whose containers mount the volume at this path, and have mount namespaces of their own.
    pub(crate) fn mounted_at(self, dir: &str) -> Self {
        let volume = self.kubelet.volume.clone();
        self.mounting(volume, dir)
    }

    /// Whose containers mount something else than the volume.
    pub(crate) fn mounting(mut self, what: PathBuf, dir: &str) -> Self {
        self.mount = Some((what, dir.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file in the folder; nothing if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file to the folder, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, self.filled(text)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    pub(crate) fn filled(&self, text: &str) -> String {
        text.replace("FOLDER", self.folder.path().to_str().unwrap())
    }

    /// Writes new content of the first key, and no other key.
    pub(crate) fn change(&mut self, content: &str) {
        self.kubelet.write(&payload(&[(&self.key, content)]));
    }

    /// Writes content of the first key that was not there before.
    pub(crate) fn renew(&mut self) {
        self.renewals += 1;
        self.change(&format!("renewed {}", self.renewals));
    }

    /// Writes this content, and waits until podnudge has rolled it out.
    pub(crate) fn roll_out(&mut self, agent: &Agent, content: &str) {
        let before = agent.count(ROLLED_OUT);
        self.change(content);
        agent.wait_for(ROLLED_OUT, before + 1);
    }

    /// An application that reloads the key on a request.
    pub(crate) fn application(&self) -> Application {
        Application::start(&self.kubelet.volume, &self.key)
    }

    /// Runs a shell script as the application, which is started again when it ends. Its arguments end with the folder.
    pub(crate) fn supervised(&self, script: &str) -> Supervisor {
        Supervisor::start(self.folder.path(), script)
    }

    pub(crate) fn target(&self, name: &str, does: Behaviour) -> Target {
        Target::start(self.folder.path(), name, does)
    }

    /// Starts a target by a program whose last argument it is.
    pub(crate) fn target_by(&self, by: &[&str], name: &str, does: Behaviour) -> Target {
        Target::start_by(self.folder.path(), name, does, |program| {
            let mut by_program = command(by[0]);
            by_program.args(&by[1..]).arg(program);
            by_program
        })
    }

    fn words<'a>(&'a self, program: &[&'a str]) -> Vec<&'a str> {
        let mount = self.mount.iter().flat_map(|(what, dir)| {
            MOUNTED.into_iter().chain([what.to_str().unwrap(), dir.as_str()])
        });
        mount.chain(program.iter().copied()).collect()
    }

    /// The command that runs a program in a container of the scene.
    pub(crate) fn contained(&self, program: &[&str]) -> Command {
        let words = self.words(program);
        let mut command = command(words[0]);
        command.args(&words[1..]);
        command
    }

    /// Starts a container, in which the program is started again when it ends. The content is older than it.
    pub(crate) fn container(&mut self, program: &[&str], log: &str) -> Container {
        wait_until_commit_is_past(&self.kubelet.volume);
        // A visible process while a container is down, as `/pause` is in a pod.
        self.keeps.push(Running::start(command("sleep").arg("infinity")));
        let words = self.words(program).into_iter().map(str::to_owned).collect();
        Container::start(words, self.path(log))
    }

    /// Starts a program that runs as long as the scene, and returns its pid and the file with its output.
    pub(crate) fn run(&mut self, program: &[&str]) -> (u32, PathBuf) {
        let log = self.path(&format!("{}.log", program[0]));
        let running = Running::logged(program, &log);
        let pid = running.0.id();
        self.keeps.push(running);
        (pid, log)
    }

    /// podnudge in a container of the scene, with a JSON log and a port of its own.
    pub(crate) fn podnudge(&self) -> Command {
        self.podnudge_by(&[])
    }

    /// The same, started by a program whose last arguments it is.
    pub(crate) fn podnudge_by(&self, by: &[&str]) -> Command {
        let mut command = self.contained(&[by, &[env!("CARGO_BIN_EXE_podnudge")]].concat());
        command.args(["--log", "json", "--listen", "127.0.0.1:0"]);
        // As in podnudge's own image, which has no program: tests of the check of a preset remove it.
        command.env("PODNUDGE_CHECK", "none");
        command
    }

    /// Starts this podnudge, and waits until its log has one of these events, which are separated by `|`.
    pub(crate) fn start(&self, podnudge: Command, first: &str) -> Agent {
        Agent::spawn_until(first, self.folder.path(), podnudge)
    }

    /// Starts podnudge with these options for the volume, with hardly any delay, and waits until it has read it.
    pub(crate) fn nudge(&self, options: &[&str]) -> Agent {
        self.nudge_by(self.podnudge(), options)
    }

    /// The same with a podnudge that is started in another way.
    pub(crate) fn nudge_by(&self, mut podnudge: Command, options: &[&str]) -> Agent {
        let volume = match &self.mount {
            Some((_, dir)) => dir,
            None => self.kubelet.volume.to_str().unwrap(),
        };
        // A read within one tick of the commit may be missed.
        for (option, value) in [("--settle", "20ms"), ("--on-start", "never"), ("--watch", volume)]
        {
            if !options.contains(&option) {
                podnudge.args([option, value]);
            }
        }
        podnudge.args(options.iter().map(|option| self.filled(option)));
        self.start(podnudge, SCANNED)
    }

    /// Starts podnudge with this configuration, and waits until it has read the volume of a rule.
    pub(crate) fn configured(&self, text: &str) -> Agent {
        self.configured_by(self.podnudge(), text)
    }

    /// Starts podnudge with one rule for the volume, which has these settings.
    pub(crate) fn rule(&self, settings: &str) -> Agent {
        self.rule_by(self.podnudge(), settings)
    }

    /// The same with a podnudge that is started in another way.
    pub(crate) fn rule_by(&self, podnudge: Command, settings: &str) -> Agent {
        let rule = "[[rule]]\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n";
        self.configured_by(podnudge, &format!("{rule}{settings}\n"))
    }

    pub(crate) fn configured_by(&self, mut podnudge: Command, text: &str) -> Agent {
        if text.matches("[[rule]]").count() > 1 {
            // Options are for a single rule.
            podnudge.env_remove("PODNUDGE_CHECK");
        }
        podnudge.arg("--config").arg(self.write("podnudge.toml", text));
        self.start(podnudge, SCANNED)
    }
}

impl Scene {
    /// podnudge in the pod of this name, with an API server, which grants what this configuration needs, and without a
    /// port of its own unless the configuration has one. There, the line `CLUSTER` begins `[cluster]`.
    pub(crate) fn in_cluster(&self, server: &ApiServer, pod: &str, text: &str) -> Command {
        let cluster = format!(
            "[cluster]\nurl = \"{}\"\nnamespace = \"test\"\ntoken-file = \"FOLDER/token\"",
            server.url()
        );
        let text = self.filled(&text.replace("CLUSTER", &cluster));
        server.grant(rights_of(&text));
        self.write("token", pod);
        let mut podnudge = podnudge();
        podnudge.args(["--log", "json"]).env("PODNUDGE_POD_NAME", pod);
        if !text.contains("listen = ") {
            podnudge.args(["--listen", "off"]);
        }
        podnudge.arg("--config").arg(self.write("podnudge.toml", &text));
        podnudge
    }
}

/// The command for podnudge that is started by a program whose last argument it is.
pub(crate) fn podnudge_by(by: &[&str]) -> Command {
    let mut command = command(by[0]);
    command.args(&by[1..]).arg(env!("CARGO_BIN_EXE_podnudge"));
    command
}

/// Mounts at a folder in this mount namespace, with options of mount(8), and makes the folder.
pub(crate) fn mount(options: &[&str], at: &Path) {
    if !at.exists() {
        fs::create_dir_all(at).unwrap();
    }
    let mounted = command("mount").args(options).arg(at).status().unwrap();
    assert!(mounted.success(), "mount {options:?} {}", at.display());
}

/// A volume on a tmpfs at this path, in this mount namespace only.
pub(crate) fn tmpfs(at: impl AsRef<Path>) -> Kubelet {
    mount(&["-t", "tmpfs", "tmpfs"], at.as_ref());
    Kubelet::new(at.as_ref())
}

/// Unmounts, as soon as no scan reads there.
pub(crate) fn unmount(at: &Path) {
    wait_until("the volume can be unmounted", || {
        command("umount").arg(at).output().unwrap().status.success()
    });
}
