//! The restart of the whole pod in place, by the real binary and real application processes. A small kubelet
//! restarts the containers as KEP-5532 describes it: where podnudge ends with the exit code of a rule, all
//! containers are killed at once, then the init container runs, then podnudge and the application start. Where it
//! ends with another one, or without a rule, podnudge's container alone is started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{
    Agent, Running, Scene, command, in_namespace, is_within, podnudge, wait_until,
    wait_until_commit_is_past,
};

/// The exit code in the configuration and in the rule of the pod.
const CODE: i32 = 88;

/// How long it takes until podnudge would have ended again.
const QUIET: Duration = Duration::from_secs(3);

/// A pod with an init container, podnudge and an application that reads at its start what the init container has
/// made of the volume.
struct Pod {
    podnudge: Agent,
    application: Running,
    has_rule: bool,
    is_namespace_shared: bool,
    scene: Scene,
}

impl Pod {
    /// `rule` are further lines of the rule, in which FOLDER stands for the folder of the test.
    fn start(rule: &str) -> Self {
        Self::start_with(rule, true, true)
    }

    fn start_with(rule: &str, has_rule: bool, is_namespace_shared: bool) -> Self {
        let scene = Scene::with(&[("app.conf", "1")]);
        wait_until_commit_is_past(&scene.kubelet.volume);
        let text = format!(
            "agent = {{ state-dir = \"FOLDER/state\", log = \"json\", listen = \"off\" }}\n\
             [[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\nmin-interval = \"0s\"\n{rule}\n"
        );
        scene.write("podnudge.toml", &text);
        init_container(scene.folder.path());
        let podnudge = start_podnudge(scene.folder.path(), is_namespace_shared);
        let application = start_application(scene.folder.path());
        let pod = Self { podnudge, application, has_rule, is_namespace_shared, scene };
        wait_until("the application serves", || pod.serves() == "1");
        pod.podnudge.wait_for("baseline|applied", 1);
        pod
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    /// What the application has read at its start.
    fn serves(&self) -> String {
        self.scene.text("served")
    }

    fn starts(&self, container: &str) -> usize {
        self.scene.text(container).lines().count()
    }

    fn write(&mut self, content: &str) {
        self.scene.change(content);
    }

    /// Waits until podnudge has ended, and does what the kubelet does then.
    fn restart(&mut self) -> Option<i32> {
        let code = self.podnudge.exit_code();
        if self.has_rule && code == Some(CODE) {
            self.application.0.kill().unwrap();
            self.application.0.wait().unwrap();
            init_container(self.scene.folder.path());
            self.podnudge = start_podnudge(self.scene.folder.path(), self.is_namespace_shared);
            self.application = start_application(self.scene.folder.path());
        } else {
            self.podnudge = start_podnudge(self.scene.folder.path(), self.is_namespace_shared);
        }
        code
    }

    /// Kills podnudge, which the kubelet then starts again.
    fn kill_podnudge(&mut self) {
        self.podnudge.kill();
        self.podnudge = start_podnudge(self.scene.folder.path(), self.is_namespace_shared);
    }

    /// Whether podnudge goes on for a while.
    fn goes_on(&mut self) -> bool {
        !is_within(QUIET, || self.podnudge.has_ended())
    }
}

/// Makes the configuration from the volume, or from what podnudge publishes.
fn init_container(folder: &Path) {
    let config = folder.join("podnudge.toml");
    let publishes = fs::read_to_string(&config).unwrap().contains("publish");
    if publishes {
        let once = podnudge().arg("once").arg("--config").arg(config).output().unwrap();
        assert!(once.status.success(), "{once:?}");
        // No container starts just after another one has ended: the times can be told apart.
        is_within(Duration::from_millis(100), || false);
    }
    let source = folder.join(if publishes { "published" } else { "volume" });
    fs::copy(source.join("app.conf"), folder.join("rendered")).unwrap();
    append(&folder.join("init"));
}

fn append(file: &Path) {
    let before = fs::read_to_string(file).unwrap_or_default();
    fs::write(file, before + "started\n").unwrap();
}

/// The container of the application, in which it is started again if it ends by itself.
fn start_application(folder: &Path) -> Running {
    append(&folder.join("application"));
    let script = "cat \"$0/rendered\" > \"$0/served\"; \
                  if grep -q ends \"$0/rendered\"; then sleep 0.5; exit 1; fi; \
                  while :; do sleep 0.05; done";
    let container = "while :; do setpriv --pdeathsig KILL sh -c \"$1\" \"$0\"; done";
    let mut bash = command("bash");
    Running::start(bash.args(["-c", container]).arg(folder).arg(script).stdout(Stdio::null()))
}

fn start_podnudge(folder: &Path, is_namespace_shared: bool) -> Agent {
    let mut podnudge = podnudge();
    if !is_namespace_shared {
        let program = podnudge.get_program().to_owned();
        podnudge = command("unshare");
        podnudge.args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child"]).arg(program);
    }
    podnudge.arg("--config").arg(folder.join("podnudge.toml"));
    Agent::spawn(folder, podnudge)
}

/// A rule whose target podnudge sees.
const NAMED: &str = "restart = \"pod\"\ntarget = { cmdline = \"^sh -c .* FOLDER$\" }\n\
                     verify = { alive-for = \"100ms\" }";

#[test]
fn podnudge_ends_with_the_code_and_the_next_one_verifies_the_application() {
    in_namespace!();
    let mut pod = Pod::start(NAMED);
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("applied", 1);
    assert_eq!(pod.podnudge.last("applied", "evidence"), "read-at-start");
    assert_eq!((pod.serves(), pod.starts("init")), ("2".to_owned(), 2));
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
}

#[test]
fn a_proof_decides_where_podnudge_does_not_see_the_application() {
    let rule = "restart = \"pod\"\nverify = { exec = [\"cmp\", \"-s\", \"FOLDER/volume/app.conf\", \"FOLDER/served\"] }";
    let mut pod = Pod::start_with(rule, true, false);
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("applied", 1);
    assert_eq!(pod.podnudge.last("applied", "evidence"), "verified");
    assert_eq!(pod.serves(), "2");
}

#[test]
fn an_application_that_is_not_seen_and_gives_no_proof_is_not_claimed_to_run_the_content() {
    let mut pod = Pod::start_with("restart = \"pod\"", true, false);
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("delivered", 1);
    assert_eq!(pod.podnudge.count("applied"), 0, "{}", pod.podnudge.log());
    wait_until("the application serves", || pod.serves() == "2");
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
}

#[test]
fn a_pod_without_the_rule_is_reported_with_its_remedy_and_not_restarted_in_a_loop() {
    in_namespace!();
    let mut pod = Pod::start_with(NAMED, false, true);
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    // podnudge may have been killed just before it ended by itself: it tries once more.
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("pod-not-restarted", 1);
    let reason = pod.podnudge.last("pod-not-restarted", "reason");
    let hint = pod.podnudge.last("pod-not-restarted", "hint");
    assert!(reason.contains("exit code 88") && reason.contains("still runs"), "{reason}");
    assert!(hint.contains("RestartAllContainers") && hint.contains("values: [88]"), "{hint}");
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
    assert_eq!((pod.serves(), pod.starts("application")), ("1".to_owned(), 1));
}

#[test]
fn a_pod_without_the_rule_is_not_restarted_in_a_loop_where_podnudge_sees_nothing() {
    let rule = "restart = \"pod\"\nretry = { attempts = 2, first = \"100ms\" }\n\
                verify = { timeout = \"1s\", exec = [\"cmp\", \"-s\", \"FOLDER/volume/app.conf\", \"FOLDER/served\"] }\n\
                target = { wait = \"1s\" }";
    let mut pod = Pod::start_with(rule, false, false);
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("gave-up", 1);
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
    assert_eq!(pod.starts("application"), 1);
}

#[test]
fn content_that_ends_the_restarted_application_is_rolled_back_by_another_restart() {
    in_namespace!();
    let rule = format!("publish = {{ dir = \"FOLDER/published\" }}\n{NAMED}");
    let mut pod = Pod::start(&rule);
    pod.write("it ends");
    assert_eq!(pod.restart(), Some(CODE));
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("rolled-back", 1);
    assert_eq!(pod.serves(), "1");
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
}

#[test]
fn the_restart_budget_lasts_beyond_the_restarts() {
    in_namespace!();
    let mut pod = Pod::start(&NAMED.replace("\"pod\"", "{ what = \"pod\", most = 1 }"));
    pod.write("2");
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("applied", 1);
    pod.write("3");
    pod.podnudge.wait_for("held", 1);
    assert!(pod.podnudge.last("held", "reason").contains("budget"), "{}", pod.podnudge.log());
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
    assert_eq!(pod.serves(), "2");
}

/// Killed before its end, and once more before it has verified the restart.
#[test]
fn a_killed_podnudge_leaves_no_pod_that_is_not_restarted_and_restarts_none_twice() {
    in_namespace!();
    let proof = "exec = [\"test\", \"-e\", \"FOLDER/proof\"]";
    let alive = "alive-for = \"100ms\"";
    let rule = NAMED.replace(alive, &format!("{alive}, {proof}"));
    let other = "[[rule]]\nname = \"slow\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n\
                 on-start = \"always\"\nexec.argv = [\"sh\", \"-c\", \"touch FOLDER/acts; until test -e FOLDER/go; do sleep 0.05; done\"]";
    let mut pod = Pod::start(&format!("{rule}\n{other}"));
    wait_until("the other rule acts", || pod.path("acts").exists());
    pod.write("2");
    // It waits for the action of the other rule.
    wait_until("the restart has begun", || {
        let state = fs::read_to_string(pod.path("state/app.json")).unwrap_or_default();
        state.contains("\"restart-began\":") && !state.contains("\"restart-began\":null")
    });
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
    pod.kill_podnudge();
    fs::write(pod.path("go"), "").unwrap();
    assert_eq!(pod.restart(), Some(CODE));
    pod.podnudge.wait_for("fresh", 1);
    pod.kill_podnudge();
    pod.podnudge.wait_for("fresh", 1);
    fs::write(pod.path("proof"), "").unwrap();
    wait_until("it is verified", || {
        pod.podnudge.events("applied").iter().any(|line| line["rule"] == "app")
    });
    assert!(pod.goes_on(), "{}", pod.podnudge.log());
    assert_eq!((pod.serves(), pod.starts("application")), ("2".to_owned(), 2));
}
