//! The application of a subject with podnudge beside it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use podnudge::config::{Preset, preset};
use serde_json::Value;

use super::place::Place;
use super::subjects::Subject;
use crate::applications::plain::{Application, MOUNTED, volume};
use crate::applications::pod::Container;
use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, payload};
use crate::support::program::{PATH, command};
use crate::support::wait::{wait_until, wait_until_commit_is_past};

/// How long a new process must survive: longer than one that cannot start lives on a busy machine.
const LIFE: &str = "3s";

/// Runs a program in the container `app`: `FOLDER PROGRAM…`. The kubelet mounts the file for the message of a container
/// that ends from a directory with its name. Programs name their threads by /proc, and otherwise those of another
/// process.
const CONTAINER: [&str; 3] = [
    "sh",
    "-ec",
    "mount -t proc proc /proc; (cd \"$0\"; mkdir -p pods/uid/containers/app; touch pods/uid/containers/app/0a1b message; \
     mount --bind pods/uid/containers/app/0a1b message); exec \"$@\"",
];

/// How podnudge is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// With the watched volume alone, and with the preset if that has to be asked for.
    Preset,
    /// With the preset, and with its check by an option.
    Checked,
    /// With the watched volume and the name of the process.
    ByProcess,
    /// With HUP in place of the preset.
    Signalled,
    /// With the preset, without a check, and with a publish directory, by a file.
    Published,
}

/// From where the application reads its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadsFrom {
    /// From the volume, as podnudge takes it for granted.
    Volume,
    /// From a copy that the entrypoint has made, although the container mounts the volume.
    Copy,
    /// From another volume at the same path: its container does not mount the watched one.
    Another,
    /// From a subPath mount of its key beside the volume.
    SubPath,
}

/// A pod.
pub(super) struct Scene {
    pub(super) subject: &'static Subject,
    pub(super) known: &'static Preset,
    pub(super) agent: Agent,
    pub(super) application: Container,
    /// A visible process while the application is down, as `/pause` is in a pod.
    #[expect(dead_code, reason = "it runs until it is dropped")]
    pause: Application,
    kubelet: Kubelet,
    dir: &'static str,
    folder: tempfile::TempDir,
}

impl Subject {
    pub(super) fn shows(&self, version: &str) -> bool {
        self.seen.shows(&self.mark.replace("{version}", version))
    }

    /// Prepares its directories and files, and the programs of its check.
    fn prepare(&self, dir: &str, folder: &Path) {
        // Some applications change to an unprivileged user.
        for path in [folder.to_owned(), folder.join("run")] {
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        for (name, text) in self.others {
            fs::write(folder.join("run").join(name), filled(text, dir, folder, "")).unwrap();
        }
        fs::create_dir(folder.join("bin")).unwrap();
        for (name, program) in self.programs {
            symlink(program, folder.join("bin").join(name)).unwrap();
        }
        let script = filled(self.prepare, dir, folder, "");
        let output = command("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The configuration for [`Rule::Published`].
    fn file(&self, dir: &str, folder: &Path) -> String {
        // podnudge waits for a proof that does not come, or for a process that it never sees because
        // it ends at once.
        let limits = match self.known().evidence.as_str() {
            // Its new workers must run for 10 s.
            "verified" if self.preset == "gunicorn" => "verify.timeout = \"12s\"\n".to_owned(),
            "read-at-start" => format!(
                "verify = {{ alive-for = \"{LIFE}\", timeout = \"6s\" }}\ntarget.wait = \"6s\"\n"
            ),
            _ => "verify.timeout = \"3s\"\n".to_owned(),
        };
        let text = format!(
            "[[rule]]\npreset = \"{}\"\nwatch = \"{}\"\nsettle = \"20ms\"\n\
             min-interval = \"0s\"\npublish.dir = \"{}\"\ntarget.process = \"{}\"\n{limits}",
            self.preset,
            folder.join("source").display(),
            dir,
            self.process,
        );
        let file = folder.join("podnudge.toml");
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The command of its container.
    fn command(&self, from: ReadsFrom) -> Vec<String> {
        let key = self.file.0;
        let (script, here) = match from {
            ReadsFrom::Volume | ReadsFrom::Another => ("", "{dir}"),
            ReadsFrom::Copy => ("cp -rL {dir} {run}/copy; exec \"$0\" \"$@\"", "{run}/copy"),
            ReadsFrom::SubPath => (
                "mkdir {run}/sub; touch {run}/sub/$KEY; mount --bind \"$(readlink -f {dir}/$KEY)\" {run}/sub/$KEY; \
                 exec \"$0\" \"$@\"",
                "{run}/sub",
            ),
        };
        let script = script.replace("$KEY", key);
        let first = if script.is_empty() { vec![] } else { vec!["sh", "-ec", &script] };
        let words = self.command.iter().map(|word| word.replace("{dir}", here));
        first.into_iter().map(str::to_owned).chain(words).collect()
    }

    /// Whether only a restart makes it read its configuration.
    pub(super) fn restarts(&self) -> bool {
        self.known().evidence == "read-at-start"
    }

    pub(super) fn known(&self) -> &'static Preset {
        preset(self.preset).unwrap()
    }
}

impl Scene {
    /// Starts the application with version 7100, and then podnudge. What the application reads is mounted
    /// at this place.
    pub(super) fn new(subject: &'static Subject, rule: Rule, place: Place) -> Self {
        Self::reading(subject, rule, place, ReadsFrom::Volume)
    }

    /// The same with an application that may read something else than the volume.
    pub(super) fn reading(
        subject: &'static Subject,
        rule: Rule,
        place: Place,
        from: ReadsFrom,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (at, dir) = (folder.path(), place.of(subject));
        subject.prepare(dir, at);
        let content = at.join("content");
        let is_published = rule == Rule::Published;
        if is_published {
            fs::create_dir(&content).unwrap();
        }
        let mut kubelet = match from {
            // Of a file system that is not the one of the application's root.
            ReadsFrom::Another => volume(content.to_str().unwrap()),
            _ if is_published => Kubelet::new(at.join("source")),
            _ => Kubelet::new(content.clone()),
        };
        write(&mut kubelet, subject, dir, at, "7100", "");
        wait_until_commit_is_past(&kubelet.volume);
        let arguments = match rule {
            Rule::Preset => by_options(subject, dir),
            Rule::Checked => [
                by_options(subject, dir),
                vec!["--check-exec".to_owned(), subject.known().check.join(" ")],
                vec!["--config".to_owned(), with_work_dir(at)],
            ]
            .concat(),
            Rule::ByProcess => {
                [by_options(subject, dir), vec!["--process".to_owned(), subject.process.to_owned()]]
                    .concat()
            }
            Rule::Signalled => [
                "--settle",
                "20ms",
                "--watch",
                dir,
                "--process",
                subject.process,
                "--signal",
                "HUP",
            ]
            .map(str::to_owned)
            .to_vec(),
            Rule::Published => vec!["--config".to_owned(), subject.file(dir, at)],
        };
        let path = format!("{}:{PATH}", at.join("bin").display());
        let container = |content: &Path, program: &[&str]| -> Vec<String> {
            let content = content.to_str().unwrap();
            [MOUNTED.as_slice(), &[content, dir], program]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        let work = at.join("work").display().to_string();
        fs::create_dir(&work).unwrap();
        let podnudge = |first: &[&str]| -> Command {
            let script = "mount -t tmpfs tmpfs \"$0\"; exec \"$@\"";
            let program = ["sh", "-ec", script, &work, env!("CARGO_BIN_EXE_podnudge")];
            let line = container(&content, &[program.as_slice(), first].concat());
            let mut command = command(&line[0]);
            command.args(&line[1..]).args(&arguments).env("PATH", &path);
            command.env("PODNUDGE_POD_NAME", "web-0");
            command
        };
        if is_published {
            let once = podnudge(&["once"]).output().unwrap();
            assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
        }
        let pause = Application::start("sleep", &["infinity"], &at.join("pause.log"));
        let line: Vec<String> =
            subject.command(from).iter().map(|word| filled(word, dir, at, "")).collect();
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut line = [CONTAINER.as_slice(), &[at.to_str().unwrap()], &line].concat();
        let mut mounts = &content;
        let another = at.join("another");
        if from == ReadsFrom::Another {
            write(&mut Kubelet::new(another.clone()), subject, dir, at, "7100", "");
            mounts = &another;
            line.splice(
                ..0,
                ["sh", "-ec", "umount \"$0\"; exec \"$@\"", content.to_str().unwrap()],
            );
        }
        let line = container(mounts, &line);
        let application = Container::start(line, at.join("application.log"));
        wait_until("the application runs version 7100", || subject.shows("7100"));
        let agent = Agent::spawn(at, podnudge(&["--log", "json", "--listen", "127.0.0.1:0"]));
        let known = subject.known();
        let scene = Self { subject, known, agent, application, pause, kubelet, dir, folder };
        wait_until("podnudge knows what the application runs", || {
            scene.agent.count("baseline|applied|delivered|unread") > 0
        });
        scene
    }

    pub(super) fn write(&mut self, version: &str, fault: &str) {
        write(&mut self.kubelet, self.subject, self.dir, self.folder.path(), version, fault);
    }

    /// Writes a good version, and waits until it is in effect with the evidence of the preset.
    pub(super) fn change_to(&mut self, version: &str) {
        let before = self.status()["digest_on_disk"].clone();
        self.write(version, "");
        let in_sync = if self.known.evidence == "read" { "unknown" } else { "yes" };
        wait_until(&format!("{version} is in effect with the evidence of the preset"), || {
            let status = self.status();
            status["digest_on_disk"] != before
                && status["state"] == "idle"
                && status["in_sync"] == in_sync
                && status["evidence"] == self.known.evidence.as_str()
        });
        wait_until(&format!("{version} is visible"), || self.subject.shows(version));
    }

    /// Waits until the published content has passed its trial.
    pub(super) fn wait_until_good(&self) {
        wait_until("the published content is the last good content", || {
            let record = fs::read_to_string(self.folder.path().join("content/..podnudge.json"));
            record.is_ok_and(|record| record.contains("\"is-open\":false"))
        });
    }

    /// Writes a broken version, and waits until podnudge has seen it.
    pub(super) fn break_with(&mut self, version: &str) {
        self.write_until_seen(version, self.subject.fault);
    }

    /// Until then, what podnudge says is about the content before.
    pub(super) fn write_until_seen(&mut self, version: &str, fault: &str) {
        let before = self.status()["digest_on_disk"].clone();
        self.write(version, fault);
        wait_until("podnudge has seen the change", || self.status()["digest_on_disk"] != before);
    }

    /// The status of the only rule.
    pub(super) fn status(&self) -> Value {
        self.agent.rule()
    }
}

/// A text with its placeholders filled in.
fn filled(text: &str, dir: &str, folder: &Path, version: &str) -> String {
    text.replace("{dir}", dir)
        .replace("{run}", folder.join("run").to_str().unwrap())
        .replace("{version}", version)
}

fn write(
    kubelet: &mut Kubelet,
    subject: &Subject,
    dir: &str,
    folder: &Path,
    version: &str,
    fault: &str,
) {
    let (key, text) = subject.file;
    let content = filled(text, dir, folder, version) + fault + "\n";
    kubelet.write(&payload(&[(key, &content)]));
}

/// A configuration with a work directory that only podnudge's container mounts.
fn with_work_dir(folder: &Path) -> String {
    let file = folder.join("podnudge.toml");
    let work = folder.join("work").display().to_string();
    fs::write(&file, format!("[agent]\nwork-dir = \"{work}\"\n[[rule]]\nname = \"app\"\n"))
        .unwrap();
    file.to_str().unwrap().to_owned()
}

/// The watched volume, the preset if podnudge rightly does not take it unasked, and shorter times.
fn by_options(subject: &Subject, dir: &str) -> Vec<String> {
    let mut options = vec!["--settle", "20ms", "--min-interval", "0s", "--watch", dir];
    if subject.restarts() {
        options.extend(["--alive-for", LIFE]);
    }
    if Preset::chosen_for(subject.process).is_err() {
        options.extend(["--preset", subject.preset]);
    }
    options.into_iter().map(str::to_owned).collect()
}
