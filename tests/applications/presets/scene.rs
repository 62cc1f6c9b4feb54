//! The application of a subject with podnudge beside it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use podnudge_config::{Preset, preset};
use serde_json::Value;

use super::place::Place;
use super::subjects::Subject;
use crate::support::program::PATH;
use crate::support::{
    Agent, Container, Kubelet, Payload, Scene as Pod, command, payload, wait_until,
};

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
    dir: &'static str,
    pod: Pod,
}

impl Subject {
    pub(super) fn shows(&self, version: &str) -> bool {
        self.seen.shows(&self.mark.replace("{version}", version))
    }

    /// Prepares its directories and files, and the programs of its check.
    fn prepare(&self, dir: &str, pod: &Pod) {
        // Some applications change to an unprivileged user.
        for name in ["run", "bin", "work", "volume"] {
            fs::create_dir_all(pod.path(name)).unwrap();
            fs::set_permissions(pod.path(name), fs::Permissions::from_mode(0o777)).unwrap();
        }
        for (name, text) in &self.others {
            pod.write(&format!("run/{name}"), &filled(text, dir, pod, ""));
        }
        for (name, program) in &self.programs {
            symlink(program, pod.path("bin").join(name)).unwrap();
        }
        let script = filled(&self.prepare, dir, pod, "");
        let output = command("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The configuration for [`Rule::Published`].
    fn file(&self, dir: &str) -> String {
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
        format!(
            "[[rule]]\npreset = \"{}\"\nwatch = \"FOLDER/volume\"\nsettle = \"20ms\"\n\
             min-interval = \"0s\"\npublish.dir = \"{dir}\"\ntarget.process = \"{}\"\n{limits}",
            self.preset, self.process,
        )
    }

    /// The content of a version.
    fn content_of(&self, version: &str, fault: &str, dir: &str, pod: &Pod) -> Payload {
        let content = filled(&self.content, dir, pod, version) + fault + "\n";
        payload(&[(&self.key, &content)])
    }

    /// The command of its container.
    fn command(&self, from: ReadsFrom) -> Vec<String> {
        let (script, here) = match from {
            ReadsFrom::Volume | ReadsFrom::Another => ("", "{dir}"),
            ReadsFrom::Copy => ("cp -rL {dir} {run}/copy; exec \"$0\" \"$@\"", "{run}/copy"),
            ReadsFrom::SubPath => (
                "mkdir {run}/sub; touch {run}/sub/$KEY; mount --bind \"$(readlink -f {dir}/$KEY)\" {run}/sub/$KEY; \
                 exec \"$0\" \"$@\"",
                "{run}/sub",
            ),
        };
        let script = script.replace("$KEY", &self.key);
        let first = if script.is_empty() { vec![] } else { vec!["sh", "-ec", &script] };
        let words = self.command.iter().map(|word| word.replace("{dir}", here));
        first.into_iter().map(str::to_owned).chain(words).collect()
    }

    /// Whether only a restart makes it read its configuration.
    pub(super) fn restarts(&self) -> bool {
        self.known().evidence == "read-at-start"
    }

    pub(super) fn known(&self) -> &'static Preset {
        preset(&self.preset).unwrap()
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
        let dir = place.of(subject);
        // Of a file system that is not the one of the application's root.
        let is_another = from == ReadsFrom::Another;
        let start = if is_another { Pod::on_tmpfs } else { |_: &str, it: &Payload| Pod::of(it) };
        let mut pod = start("volume", &Payload::new());
        subject.prepare(dir, &pod);
        let content = subject.content_of("7100", "", dir, &pod);
        pod.kubelet.write(&content);
        let mut mounted = pod.kubelet.volume.clone();
        let arguments = match rule {
            Rule::Preset => by_options(subject, dir),
            Rule::Checked => {
                // A work directory that only podnudge's container mounts.
                let file = "[agent]\nwork-dir = \"FOLDER/work\"\n[[rule]]\nname = \"app\"\n";
                let more = ["--check-exec", &subject.known().check.join(" "), "--config"];
                let more = more.map(str::to_owned).into_iter();
                let file = pod.write("podnudge.toml", file);
                by_options(subject, dir).into_iter().chain(more).chain([file]).collect()
            }
            Rule::ByProcess => {
                let process = ["--process", &subject.process].map(str::to_owned);
                by_options(subject, dir).into_iter().chain(process).collect()
            }
            Rule::Signalled => {
                let first = ["--settle", "20ms", "--watch", dir, "--process", &subject.process];
                first.into_iter().chain(["--signal", "HUP"]).map(str::to_owned).collect()
            }
            Rule::Published => {
                mounted = pod.path("published");
                fs::create_dir(&mounted).unwrap();
                vec!["--config".to_owned(), pod.write("podnudge.toml", &subject.file(dir))]
            }
        };
        pod = pod.mounting(mounted.clone(), dir);
        if rule == Rule::Published {
            let once = podnudge(&pod, &["once"], &arguments).output().unwrap();
            assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
        }
        let line = subject.command(from);
        let line: Vec<String> = line.iter().map(|word| filled(word, dir, &pod, "")).collect();
        let line = line.iter().map(String::as_str);
        let (folder, hidden) = (pod.path(""), mounted.display().to_string());
        let folder = folder.to_str().unwrap().trim_end_matches('/').to_owned();
        let mut words = [CONTAINER.as_slice(), &[&folder]].concat();
        words.extend(line);
        if is_another {
            let another = pod.path("another");
            Kubelet::new(&another).write(&content);
            pod = pod.mounting(another, dir);
            words.splice(..0, ["sh", "-ec", "umount \"$0\"; exec \"$@\"", &hidden]);
        }
        let application = pod.container(&words, "application.log");
        pod = pod.mounting(mounted, dir);
        wait_until("the application runs version 7100", || subject.shows("7100"));
        let first = ["--log", "json", "--listen", "127.0.0.1:0"];
        let agent =
            pod.start(podnudge(&pod, &first, &arguments), "baseline|applied|delivered|unread");
        Self { subject, known: subject.known(), agent, application, dir, pod }
    }

    pub(super) fn write(&mut self, version: &str, fault: &str) {
        self.pod.kubelet.write(&self.subject.content_of(version, fault, self.dir, &self.pod));
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
            self.pod.text("published/..podnudge.json").contains("\"is-open\":false")
        });
    }

    /// Writes a broken version, and waits until podnudge has seen it.
    pub(super) fn break_with(&mut self, version: &str) {
        self.write_until_seen(version, &self.subject.fault);
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

/// podnudge in a container with a work directory of its own.
fn podnudge(pod: &Pod, first: &[&str], arguments: &[String]) -> Command {
    let (work, bin) = (pod.path("work"), pod.path("bin"));
    let script = "mount -t tmpfs tmpfs \"$0\"; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_podnudge");
    let mut command = pod.contained(&["sh", "-ec", script, work.to_str().unwrap(), program]);
    command.args(first).args(arguments).env("PATH", format!("{}:{PATH}", bin.display()));
    command.env("PODNUDGE_POD_NAME", "web-0").env("PODNUDGE_CHECK", "none");
    command
}

/// A text with its placeholders filled in.
fn filled(text: &str, dir: &str, pod: &Pod, version: &str) -> String {
    text.replace("{dir}", dir)
        .replace("{run}", pod.path("run").to_str().unwrap())
        .replace("{version}", version)
}

/// The watched volume, the preset if podnudge rightly does not take it unasked, and shorter times.
fn by_options(subject: &Subject, dir: &str) -> Vec<String> {
    let mut options = vec!["--settle", "20ms", "--min-interval", "0s", "--watch", dir];
    if subject.restarts() {
        options.extend(["--alive-for", LIFE]);
    }
    if Preset::chosen_for(&subject.process).is_err() {
        options.extend(["--preset", &subject.preset]);
    }
    options.into_iter().map(str::to_owned).collect()
}
