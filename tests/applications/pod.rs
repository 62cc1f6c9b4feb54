//! A pod: a volume, a publish directory, an application that is restarted when it exits, and
//! podnudge with an example file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Agent, Container, Payload, ROLLED_OUT, Scene, podnudge, wait_until};

/// An application, and its configurations for the tests.
#[derive(Debug)]
pub(super) struct Subject {
    /// The example file that checks and publishes.
    pub(super) example: &'static str,
    /// The command, with `{dir}` for the folder that it reads.
    pub(super) command: &'static [&'static str],
    /// The content of a version; the second argument is one of `faults`, or empty.
    pub(super) content: fn(usize, &str) -> Payload,
    /// How the checker's command begins.
    pub(super) checker: &'static str,
    /// Lines that break a version. The application's own checker detects all of them.
    pub(super) faults: &'static [&'static str],
    /// The address and path for requests, and the part of the response that shows a version.
    pub(super) address: &'static str,
    pub(super) path: &'static str,
    pub(super) answer: fn(usize) -> String,
    /// The text in the application's log after it has loaded a broken configuration.
    pub(super) complaint: &'static str,
}

impl Subject {
    pub(super) fn serves(&self, version: usize) -> bool {
        let wanted = (self.answer)(version);
        super::load::get(self.address, self.path).is_ok_and(|answer| answer.contains(&wanted))
    }

    pub(super) fn wait_for(&self, version: usize) {
        wait_until(&format!("version {version} is served"), || self.serves(version));
    }
}

/// The example file with the paths of this pod, and without long delays.
#[derive(Debug)]
pub(super) struct Example(toml::Table);

impl Example {
    fn table(&mut self, name: &str) -> &mut toml::Table {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        let table = rule.entry(name).or_insert_with(|| toml::Table::new().into());
        table.as_table_mut().unwrap()
    }

    /// Removes this part of the rule.
    pub(super) fn without(mut self, part: &str) -> Self {
        let rule = self.0["rule"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
        assert!(rule.remove(part).is_some(), "the example has no {part}");
        self
    }

    /// Sets how long the target must survive a signal, if the example sends one.
    pub(super) fn alive_for(self, time: &str) -> Self {
        let is_signalled = self.0["rule"][0].get("signal").is_some();
        if is_signalled { self.with("verify", "alive-for", time) } else { self }
    }

    pub(super) fn with(mut self, table: &str, key: &str, value: &str) -> Self {
        self.table(table).insert(key.to_owned(), value.into());
        self
    }
}

/// The folders of a pod.
pub(super) struct Pod {
    subject: &'static Subject,
    scene: Scene,
}

impl Pod {
    /// A pod whose volume holds version 0.
    pub(super) fn new(subject: &'static Subject) -> Self {
        let scene = Scene::of(&Payload::new());
        for name in ["config", "run"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        let mut pod = Self { subject, scene };
        pod.write(0, "");
        pod
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    /// Waits until the published content has passed its trial.
    pub(super) fn wait_until_good(&self) {
        wait_until("the published content is the last good content", || {
            self.scene.text("config/..podnudge.json").contains("\"is-open\":false")
        });
    }

    /// Commits a version to the volume.
    pub(super) fn write(&mut self, version: usize, fault: &str) {
        let run = self.path("run").display().to_string();
        let mut payload = (self.subject.content)(version, fault);
        for content in payload.values_mut() {
            *content = String::from_utf8(content.clone()).unwrap().replace("{run}", &run).into();
        }
        self.scene.kubelet.write(&payload);
    }

    pub(super) fn example(&self) -> Example {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(self.subject.example);
        let mut text = fs::read_to_string(file).unwrap();
        for (path, here) in [("/source", "volume"), ("/config", "config"), ("/tmp", "run")] {
            let quoted = format!("\"{path}\"");
            assert!(text.contains(&quoted), "the example does not use {path}");
            text = text.replace(&quoted, &format!("\"{}\"", self.path(here).display()));
        }
        Example(text.parse().unwrap())
    }

    fn file(&self, example: &Example) -> String {
        self.scene.write("podnudge.toml", &example.0.to_string())
    }

    /// Runs `podnudge once`, as the init container does.
    pub(super) fn once(&self, example: &Example) {
        let mut command = podnudge();
        command.args(["once", "--config", &self.file(example)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts podnudge without long delays, and waits until version 0 is applied. Also returns how
    /// often podnudge applied it: once if the application started too soon to tell what it has
    /// read.
    pub(super) fn agent(&self, example: &Example) -> (Agent, usize) {
        let file = self.file(example);
        let quick = ["--jitter", "0s", "--settle", "20ms", "--min-interval", "0s"];
        let agent = Agent::start(
            self.scene.folder.path(),
            &[&["--config", &file], quick.as_slice()].concat(),
        );
        wait_until("version 0 is known to run", || {
            agent.count("baseline") + agent.count(ROLLED_OUT) > 0
        });
        let applied = agent.count(ROLLED_OUT);
        (agent, applied)
    }

    /// Starts the application with this folder of the pod, and waits until it serves version 0.
    pub(super) fn start(&mut self, folder: &str) -> Container {
        let [dir, run] = [folder, "run"].map(|name| self.path(name).display().to_string());
        let fill = |argument: &&str| argument.replace("{dir}", &dir).replace("{run}", &run);
        let command: Vec<String> = self.subject.command.iter().map(fill).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let container = self.scene.container(&command, "application.log");
        self.subject.wait_for(0);
        container
    }
}
