//! Fixed defects, each with a test that failed before the fix. All run the real binary and assert
//! what people and applications see: the published content, what reaches the application, and
//! `/status`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, UNIX_EPOCH};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    Agent, Behaviour, Kubelet, OTHER_USER, ROLLED_OUT, Scene, SharedPod, ask, command,
    in_namespace, is_within, mount, payload, recorded, request, respond, server, wait_until,
    wait_until_commit_is_past,
};

/// The limit on a busy machine for anything that is due at once or after a jitter of a few seconds.
/// The waits that must not delay it are at least twice as long.
const SOON: Duration = Duration::from_secs(20);

/// A pod with a volume and a publish directory.
struct Pod(Scene);

impl Pod {
    fn new(content: &str) -> Self {
        let scene = Scene::with(&[("app.conf", content)]);
        fs::create_dir(scene.path("config")).unwrap();
        Self(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn change(&mut self, content: &str) {
        self.0.change(content);
    }

    /// The published content, as the application reads it.
    fn published(&self) -> String {
        // This must not change the access time, by which podnudge tells whether a process has read
        // it.
        let mut file = OpenOptions::new();
        file.read(true).custom_flags(OFlag::O_NOATIME.bits());
        let opened = file.open(self.path("config/app.conf"));
        opened.and_then(std::io::read_to_string).unwrap_or_default()
    }

    /// The time of the publication, in seconds since 1970.
    fn published_at(&self) -> f64 {
        let link = fs::symlink_metadata(self.path("config/..data")).unwrap();
        link.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
    }

    /// An application that reloads the published content on any request. It answers 503 to content
    /// that contains `fails`, and 400 to content that contains `broken`.
    fn application(&self) -> String {
        let config = self.path("config/app.conf");
        server(move |stream| {
            request(&stream);
            respond(&stream, answer_to(&config), "", "");
        })
    }

    /// Starts podnudge with a rule for the volume that has these settings.
    fn nudge(&self, rules: &str) -> Podnudge {
        self.nudge_by(self.0.podnudge(), "", rules)
    }

    /// The same with more settings in `[agent]`, and a podnudge that is started in another way.
    fn nudge_by(&self, mut podnudge: Command, agent: &str, rules: &str) -> Podnudge {
        let config = format!(
            "[agent]\nreload = \"loopback\"\nlog-level = \"debug\"\nwork-dir = \"FOLDER\"\n{agent}\n\
             [[rule]]\nname = \"app\"\nwatch = \"FOLDER/volume\"\nsettle = \"0s\"\n{rules}\n"
        );
        // These options are for a single rule.
        podnudge.env_remove("PODNUDGE_CHECK");
        podnudge.arg("--config").arg(self.0.write("podnudge.toml", &config));
        let podnudge = Podnudge { agent: self.0.start(podnudge, "started") };
        wait_until("the volumes are read", || {
            podnudge.rules().iter().all(|rule| !rule["digest_on_disk"].is_null())
        });
        podnudge
    }

    /// Starts podnudge, which compares the publish directory each second, and waits until the application has its content.
    fn nudge_published(&self) -> Podnudge {
        let http = format!("http = {{ url = \"{}\" }}\n", self.application());
        let rule = format!("{PUBLISH}{http}");
        let podnudge = self.nudge_by(self.0.podnudge(), "resync = \"1s\"", &rule);
        wait_until("the application is in sync", || podnudge.is_in_sync());
        podnudge
    }
}

fn answer_to(config: &Path) -> &'static str {
    match fs::read_to_string(config).unwrap_or_default() {
        text if text.contains("fails") => "503 Service Unavailable",
        text if text.contains("broken") => "400 Bad Request",
        _ => "200 OK",
    }
}

/// A running podnudge.
struct Podnudge {
    agent: Agent,
}

impl Podnudge {
    /// The status of each rule, without the fields that no test needs, since a failed test prints
    /// it.
    fn rules(&self) -> Vec<Value> {
        let status: Value = serde_json::from_str(&self.agent.get("/status")).unwrap();
        let mut rules = status["rules"].as_array().unwrap().clone();
        for rule in &mut rules {
            let commits = rule["counters"]["commits"].take();
            let rule = rule.as_object_mut().unwrap();
            rule.retain(|key, _| !["counters", "volumes"].contains(&key.as_str()));
            rule.insert("commits".to_owned(), commits);
            rule.insert("now".to_owned(), status["now"].clone());
        }
        rules
    }

    /// The status of the first rule.
    fn status(&self) -> Value {
        self.rules().remove(0)
    }

    fn is_in_sync(&self) -> bool {
        is_in_sync(&self.status())
    }

    /// Changes the content, and waits until podnudge has seen it.
    fn sees(&self, pod: &mut Pod, content: &str) {
        let before = self.status()["digest_on_disk"].clone();
        pod.change(content);
        wait_until("the change is seen", || self.status()["digest_on_disk"] != before);
    }

    /// Asserts that something happens within [`SOON`].
    fn assert_soon(&self, what: &str, is_so: impl FnMut() -> bool) {
        assert!(is_within(SOON, is_so), "not {what} within {SOON:?}: {}", self.status());
    }

    fn post_reload(&self) {
        let answer = ask(&self.agent.address(), "POST", "/reload");
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    }
}

fn is_in_sync(rule: &Value) -> bool {
    rule["in_sync"] != "no"
}

/// A failed rollout is retried a minute later.
const RETRY_LATE: &str = "retry = { first = \"60s\", max = \"60s\" }\n";
const PUBLISH: &str = "publish = { dir = \"FOLDER/config\" }\n";

/// The fix is published soon, and until then `/status` announces no later time.
fn assert_fix_is_published_soon(podnudge: &Podnudge, pod: &mut Pod, fix: &str) {
    podnudge.sees(pod, fix);
    let (mut announced, mut last) = (0.0_f64, Value::Null);
    let is_published = is_within(SOON, || {
        last = podnudge.status();
        // The time in a status after the publication is that of the next action.
        if pod.published() == fix {
            return true;
        }
        announced = announced.max(last["next_action_at"].as_f64().unwrap_or_default());
        false
    });
    assert!(is_published, "not published within {SOON:?}: {last}");
    let at = pod.published_at();
    assert!(announced <= at + 1.0, "published at {at}, but announced for {announced}");
}

/// Guards: the fix is a rollout of its own, and does not wait for the next attempt of the content
/// that it fixes.
#[test]
fn a_fix_does_not_wait_for_the_retry_of_an_older_rollout() {
    let mut pod = Pod::new("good");
    let http = format!("http = {{ url = \"{}\" }}\n", pod.application());
    let podnudge = pod.nudge(&format!("jitter = \"3s\"\n{RETRY_LATE}{PUBLISH}{http}"));
    wait_until("the first content is in sync", || podnudge.is_in_sync());
    pod.change("this fails for now");
    podnudge.agent.wait_for("retrying", 1);
    assert_fix_is_published_soon(&podnudge, &mut pod, "the fix");
    wait_until("the fix is in sync", || podnudge.is_in_sync());
}

/// Guards: the same after a rollout that was refused, and that is retried a minute later.
#[test]
fn a_fix_does_not_wait_for_the_retry_of_a_refused_rollout() {
    in_namespace!();
    let mut pod = Pod::new("good");
    let _one = pod.0.target("app", Behaviour::Handles);
    let _other = pod.0.target("app", Behaviour::Handles);
    let signal = "target = { process = \"app\" }\nsignal = { name = \"HUP\" }\n";
    let podnudge = pod.nudge(&format!("jitter = \"3s\"\n{RETRY_LATE}{PUBLISH}{signal}"));
    podnudge.agent.wait_for("refused", 1);
    assert_fix_is_published_soon(&podnudge, &mut pod, "the fix");
}

/// Guards: podnudge looks for the pause file every five seconds even while a rollout backs off.
#[test]
fn a_fix_is_published_soon_after_the_pause_file_is_deleted() {
    let mut pod = Pod::new("good");
    let http = format!("http = {{ url = \"{}\" }}\n", pod.application());
    let hold = "hold = { pause-file = \"FOLDER/pause\" }\n";
    let podnudge = pod.nudge(&format!("{RETRY_LATE}{PUBLISH}{hold}{http}"));
    wait_until("the first content is in sync", || podnudge.is_in_sync());
    pod.change("this fails for now");
    podnudge.agent.wait_for("retrying", 1);
    fs::write(pod.path("pause"), "").unwrap();
    podnudge.sees(&mut pod, "the fix");
    let is_published = is_within(Duration::from_secs(3), || pod.published() == "the fix");
    assert!(!is_published, "published despite the pause file");
    fs::remove_file(pod.path("pause")).unwrap();
    podnudge.assert_soon("published", || pod.published() == "the fix");
}

/// The first content fails and is retried a minute later. The fix has a jitter of some minutes,
/// which `trigger` skips.
fn assert_trigger_skips_the_jitter(trigger: fn(&Podnudge)) {
    let mut pod = Pod::new("this fails for now");
    let http = format!("http = {{ url = \"{}\" }}\n", pod.application());
    let podnudge = pod.nudge(&format!("jitter = \"30m\"\n{RETRY_LATE}{PUBLISH}{http}"));
    podnudge.agent.wait_for("retrying", 1);
    podnudge.sees(&mut pod, "the fix");
    trigger(&podnudge);
    podnudge.assert_soon("published", || pod.published() == "the fix");
}

/// Guards: a trigger waits neither for the jitter nor for the next attempt of an older rollout.
#[test]
fn sighup_publishes_a_fix_during_the_backoff_of_an_older_rollout() {
    assert_trigger_skips_the_jitter(|podnudge| podnudge.agent.signal(Signal::SIGHUP));
}

/// Guards: the same with a request to the admin port.
#[test]
fn a_reload_request_publishes_a_fix_during_the_backoff_of_an_older_rollout() {
    assert_trigger_skips_the_jitter(Podnudge::post_reload);
}

/// Guards: approved content does not wait for the proof of older content, which may never be given.
#[test]
fn an_approved_fix_is_published_while_an_older_proof_is_pending() {
    let mut pod = Pod::new("this gives proof: 1");
    let http = format!("http = {{ url = \"{}\" }}\n", pod.application());
    let verify = "verify = { timeout = \"10m\", \
                  exec = [\"grep\", \"-q\", \"gives proof\", \"FOLDER/config/app.conf\"] }\n";
    let podnudge =
        pod.nudge(&format!("hold = {{ approve-before = \"rollout\" }}\n{PUBLISH}{http}{verify}"));
    wait_until("the first content is in sync", || podnudge.is_in_sync());
    podnudge.sees(&mut pod, "no proof comes");
    podnudge.post_reload();
    wait_until("the older content is published", || pod.published() == "no proof comes");
    podnudge.agent.wait_for("accepted", 2);
    podnudge.sees(&mut pod, "this gives proof: 2");
    podnudge.post_reload();
    podnudge.assert_soon("published", || pod.published() == "this gives proof: 2");
    wait_until("the application is in sync", || podnudge.is_in_sync());
}

/// Guards: content is quarantined on evidence only, and a missing process is no evidence.
#[test]
fn content_that_no_process_has_read_stays_published() {
    in_namespace!();
    let mut pod = Pod::new("A");
    // A visible process while the application is down, so that the namespace counts as shared.
    let _other = pod.0.target("other", Behaviour::Handles);
    let mut first = pod.0.target("app", Behaviour::Handles);
    let podnudge = pod.nudge(&format!(
        "target = {{ process = \"app\", wait = \"2s\" }}\nsignal = {{ name = \"HUP\" }}\n\
         verify = {{ alive-for = \"200ms\" }}\nretry = {{ first = \"1s\", max = \"2s\" }}\n\
         {PUBLISH}"
    ));
    podnudge.agent.wait_for("sent", 1);
    // A signal alone proves nothing.
    wait_until("the first content is good", || recorded(&pod.path("config"), "good"));
    first.kill();
    pod.change("B");
    wait_until("B is published", || pod.published() == "B");
    let is_rolled_back = is_within(Duration::from_secs(10), || pod.published() != "B");
    assert!(!is_rolled_back, "rolled back: {}", podnudge.status());
    let _second = pod.0.target("app", Behaviour::Handles);
    wait_until("the application is in sync", || podnudge.is_in_sync());
    assert_eq!(pod.published(), "B");
}

/// Guards: an application that started after the content was in place has read it, even if the
/// process before it exited because of the signal.
#[test]
fn tripped_ends_when_a_restarted_application_has_read_the_content() {
    in_namespace!();
    let mut pod = Pod::new("1");
    let first = pod.0.target("app", Behaviour::Dies);
    let podnudge = pod.nudge(
        "on-start = \"never\"\ntarget = { process = \"app\" }\nsignal = { name = \"HUP\" }\n\
         verify = { alive-for = \"1s\" }\n",
    );
    pod.change("2");
    podnudge.agent.wait_for("tripped", 1);
    drop(first);
    wait_until_commit_is_past(&pod.0.kubelet.volume);
    let mut second = pod.0.target("app", Behaviour::Handles);
    podnudge.assert_soon("in sync", || podnudge.is_in_sync());
    assert_eq!(second.signals(), 1, "only the first process got a signal");
    assert!(second.is_running());
}

/// Guards: when two rules share a target, its exit is attributed only to the content that caused
/// it.
#[test]
fn only_the_content_that_kills_the_application_is_quarantined() {
    in_namespace!();
    let mut pod = Pod::new("one: 1");
    let mut two = Kubelet::new(pod.path("volume-two"));
    two.write(&payload(&[("app.conf", "two: 1")]));
    fs::create_dir(pod.path("config-two")).unwrap();
    let folder = pod.0.folder.path().to_owned();
    let published = |name: &str| fs::read_to_string(folder.join(name).join("app.conf")).unwrap();
    let (config, hups) = (pod.path("config-two/app.conf"), pod.path("hups"));
    let works = format!("! grep -qs broken {} || exit 1", config.display());
    let script = format!(
        "trap 'echo >> {}; {works}' HUP; {works}; while :; do sleep 0.05; done",
        hups.display()
    );
    let _application = pod.0.supervised(&script);
    let shared = "target = { cmdline = \"^sh -c .* FOLDER$\" }\nsignal = { name = \"HUP\" }\n\
                  verify = { alive-for = \"4s\" }\n";
    let podnudge = pod.nudge(&format!(
        "{PUBLISH}{shared}[[rule]]\nname = \"two\"\nwatch = \"FOLDER/volume-two\"\n\
         settle = \"0s\"\npublish = {{ dir = \"FOLDER/config-two\" }}\n{shared}"
    ));
    let is_good = |name: &str| recorded(&folder.join(name), "good");
    wait_until("both are good", || is_good("config") && is_good("config-two"));
    let hups = || fs::read_to_string(&hups).unwrap_or_default().lines().count();
    let before = hups();
    pod.change("one: 2");
    wait_until("the application has read it", || hups() > before);
    assert_eq!(published("config"), "one: 2");
    two.write(&payload(&[("app.conf", "two: broken")]));
    wait_until("the second is rolled back", || {
        recorded(&pod.path("config-two"), "bad") && published("config-two") == "two: 1"
    });
    wait_until("both rules are at rest", || {
        let is_at_rest =
            |rule: &Value| ["idle", "rolled-back"].iter().any(|state| rule["state"] == *state);
        podnudge.rules().iter().all(is_at_rest)
    });
    assert_eq!(published("config"), "one: 2", "{:?}", podnudge.rules());
    assert!(!recorded(&pod.path("config"), "bad"), "{:?}", podnudge.rules());
}

/// Guards: content is not good as soon as it is verified. An application that starts slowly fails later,
/// and must not find the content again when it starts.
#[test]
fn content_that_ends_the_application_late_is_rolled_back() {
    in_namespace!(assert_rolled_back_late("signal = { name = \"HUP\" }"));
}

#[test]
fn content_that_ends_a_restarted_application_late_is_rolled_back() {
    in_namespace!(assert_rolled_back_late("min-interval = \"0s\"\nrestart = { grace = \"5s\" }"));
}

fn assert_rolled_back_late(action: &str) {
    let mut pod = Pod::new("1");
    let config = pod.path("config/app.conf").display().to_string();
    let fails = format!("if grep -qs broken {config}; then sleep 2; exit 1; fi");
    let end = pod.path("end").display().to_string();
    // A kubelet starts it again after a second or more. A read within one tick of the publication may be missed.
    let script = format!(
        "sleep 2; trap 'sleep 0.05; {fails}' HUP; {fails}; while :; do sleep 0.05; rm {end} 2>/dev/null && exit; done"
    );
    let application = pod.0.supervised(&script);
    let podnudge = pod.nudge(&format!(
        "{PUBLISH}target = {{ cmdline = \"^sh -c .* FOLDER$\" }}\n{action}\n\
         verify = {{ alive-for = \"500ms\", timeout = \"6s\" }}\n"
    ));
    let record = pod.path("config/..podnudge.json");
    let good = || {
        let record = fs::read(&record).unwrap_or_default();
        serde_json::from_slice::<Value>(&record).unwrap_or_default()["good"].clone()
    };
    wait_until("the first content is good", || good() != Value::Null);
    let first = good();
    let outcomes = podnudge.agent.count(ROLLED_OUT);
    pod.change("broken");
    podnudge.agent.wait_for(ROLLED_OUT, outcomes + 1);
    podnudge.agent.wait_for("rolled-back", 1);
    assert_eq!((pod.published(), good()), ("1".to_owned(), first.clone()));
    // Content that has passed its trial stays when the application ends.
    pod.change("2");
    wait_until("the second content has passed its trial", || good() != first);
    let starts = application.starts();
    fs::write(&end, "").unwrap();
    wait_until("the application ends for another reason", || application.starts() > starts);
    pod.change("3");
    wait_until("the third content is published", || pod.published() == "3");
    assert_eq!(podnudge.agent.count("rolling-back"), 1, "{}", podnudge.agent.log());
}

/// Guards: a starting application reads the same before and after a swap with equal content, such
/// as the swap for a rotated token.
#[test]
fn a_swap_with_equal_content_while_the_application_starts_causes_no_reload() {
    in_namespace!();
    let mut pod = Pod::new("same");
    let mut target = pod.0.target("app", Behaviour::Handles);
    let podnudge = pod.nudge(
        "on-start = \"never\"\ntarget = { process = \"app\" }\nsignal = { name = \"HUP\" }\n\
         verify = { alive-for = \"100ms\" }\n",
    );
    for n in 1..=5 {
        target.kill();
        wait_until_commit_is_past(&pod.0.kubelet.volume);
        target = pod.0.target("app", Behaviour::Handles);
        pod.0.kubelet.write_anyway(&payload(&[("app.conf", "same")]));
        wait_until("the swap is seen", || podnudge.status()["commits"] == n);
        let is_signalled = is_within(Duration::from_secs(2), || target.signals() > 0);
        assert!(!is_signalled, "reloaded after {n} swaps with equal content");
    }
}

/// An application that daemonizes: the process that read the configuration forks and exits, once
/// the file `fork` exists.
const DAEMON: &str = "echo \"read $(cat FOLDER/volume/app.conf)\" >> FOLDER/report
until [ -e FOLDER/fork ]; do sleep 0.05; done
(
  trap 'echo \"read $(cat FOLDER/volume/app.conf)\" >> FOLDER/report' HUP
  echo forked >> FOLDER/report
  while :; do sleep 0.05; done
) &
exit 0
";

/// The lines that the daemon has reported.
fn reports(pod: &Pod) -> Vec<String> {
    pod.0.text("report").lines().map(str::to_owned).collect()
}

/// Starts a container whose main process starts the daemon and keeps running.
fn start_daemon(pod: &Pod, shared: &SharedPod) -> Child {
    let main = format!("sh {}; while :; do sleep 1; done", pod.0.write("daemon.sh", DAEMON));
    shared.container('a').args(["sh", "-c", &main]).spawn().unwrap()
}

fn fork_daemon(pod: &Pod) {
    wait_until_commit_is_past(&pod.0.kubelet.volume);
    pod.0.write("fork", "");
    wait_until("the daemon has forked", || reports(pod).contains(&"forked".to_owned()));
}

fn nudge_daemon(pod: &Pod, shared: &SharedPod) -> Podnudge {
    let rule = "target = { cmdline = \"^sh FOLDER/daemon.sh$\" }\nsignal = { name = \"HUP\" }\n\
                verify = { alive-for = \"200ms\" }\n";
    let mut container = shared.container('b');
    container.args([env!("CARGO_BIN_EXE_podnudge"), "--log", "json", "--listen", "127.0.0.1:0"]);
    pod.nudge_by(container, "", rule)
}

/// Asserts that podnudge reports the daemon as in sync only after it has read the new content.
fn assert_reads_before_in_sync(pod: &Pod, podnudge: &Podnudge) {
    let has_read = || reports(pod).last().is_some_and(|last| last == "read 2");
    let mut last = Value::Null;
    wait_until("the status is in sync, or the daemon has read the content", || {
        last = podnudge.status();
        is_in_sync(&last) || has_read()
    });
    assert!(has_read(), "in sync, but the daemon reported {:?}: {last}", reports(pod));
}

/// Guards: a forked process has not read a change that was made after its parent read the
/// configuration, although it is younger than the change.
#[test]
fn a_daemon_that_forked_after_the_change_is_signalled() {
    let mut pod = Pod::new("1");
    let shared = SharedPod::start(pod.0.folder.path());
    let podnudge = nudge_daemon(&pod, &shared);
    let mut main = start_daemon(&pod, &shared);
    wait_until("the daemon has read the first content", || reports(&pod) == ["read 1"]);
    podnudge.sees(&mut pod, "2");
    fork_daemon(&pod);
    assert_reads_before_in_sync(&pod, &podnudge);
    main.kill().unwrap();
    main.wait().unwrap();
}

/// Guards: the same when podnudge starts after the fork.
#[test]
fn a_daemon_that_forked_after_the_change_is_signalled_when_podnudge_starts_later() {
    let mut pod = Pod::new("1");
    let shared = SharedPod::start(pod.0.folder.path());
    let mut main = start_daemon(&pod, &shared);
    wait_until("the daemon has read the first content", || reports(&pod) == ["read 1"]);
    pod.change("2");
    fork_daemon(&pod);
    let podnudge = nudge_daemon(&pod, &shared);
    assert_reads_before_in_sync(&pod, &podnudge);
    main.kill().unwrap();
    main.wait().unwrap();
}

/// Guards: the checks of superseded content are cancelled in favour of those of the fix.
#[test]
fn a_slow_check_of_superseded_content_does_not_delay_the_fix() {
    in_namespace!();
    let mut pod = Pod::new("good");
    let http = format!("http = {{ url = \"{}\" }}\n", pod.application());
    let check = "[[rule.check]]\ntimeout = \"55s\"\nexec = [\"sh\", \"-c\", \
                 \"! grep -q slow {dir}/app.conf || { touch FOLDER/checking; sleep 50; }\"]\n";
    let podnudge = pod.nudge(&format!("{PUBLISH}{http}{check}"));
    wait_until("the first content is in sync", || podnudge.is_in_sync());
    pod.change("this is slow");
    wait_until("its check has begun", || pod.path("checking").exists());
    podnudge.sees(&mut pod, "the fix");
    podnudge.assert_soon("published", || pod.published() == "the fix");
}

/// An application that cannot be signalled during its first `seconds` (`before`), and can be after
/// that (`after`). The content changes while podnudge refuses, and the usual retry of a refusal is
/// a minute later.
fn assert_signalled_when_ready(seconds: u64, before: &str, after: &[&str], podnudge_by: &[&str]) {
    let mut pod = Pod::new("1");
    let (report, started) = (pod.path("hups"), pod.path("app.started"));
    let handles =
        format!("trap 'echo hup >> {}' HUP; while :; do sleep 0.05; done", report.display());
    let script = format!("{before}; touch $0.started; sleep {seconds}; exec \"$@\"");
    let mut application = command("sh")
        .args(["-c", &script])
        .arg(pod.path("app"))
        .args(after)
        .args(["sh", "-c", &handles])
        .arg(pod.path("app"))
        .spawn()
        .unwrap();
    wait_until("the application has started", || started.exists());
    let rule = "on-start = \"never\"\ntarget = { cmdline = \"^sh -c .* FOLDER/app\" }\n\
                signal = { name = \"HUP\" }\nverify = { alive-for = \"100ms\" }\n";
    let by = pod.0.podnudge_by(podnudge_by);
    let podnudge = pod.nudge_by(by, "", &format!("{rule}{RETRY_LATE}"));
    let since = fs::metadata(started).unwrap().modified().unwrap();
    let change_at = Duration::from_secs(seconds - 3);
    wait_until("the application is nearly ready", || {
        since.elapsed().is_ok_and(|age| age > change_at)
    });
    pod.change("2");
    podnudge.assert_soon("signalled", || report.exists());
    application.kill().unwrap();
    application.wait().unwrap();
}

/// Guards: an application that starts as root may be signalled soon after it drops root.
#[test]
fn an_application_that_drops_its_uid_is_signalled_soon_after() {
    in_namespace!(assert_signalled_when_ready(4, "trap : HUP", &OTHER_USER, &OTHER_USER));
}

/// Guards: an application that starts slowly may be signalled soon after it installs its handler.
#[test]
fn an_application_that_installs_its_handler_late_is_signalled_soon_after() {
    let after = ["env", "--default-signal=HUP"];
    in_namespace!(assert_signalled_when_ready(14, "trap '' HUP", &after, &["env"]));
}

/// Guards: the resync detects when published files are lost while podnudge runs.
#[test]
fn a_publish_directory_that_was_emptied_is_filled_again() {
    let pod = Pod::new("good");
    let podnudge = pod.nudge_published();
    for entry in fs::read_dir(pod.path("config")).unwrap() {
        let path = entry.unwrap().path();
        // podnudge may already be republishing, so an entry may be gone.
        let removed = match path.symlink_metadata() {
            Ok(entry) if entry.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
    podnudge.assert_soon("published", || pod.published() == "good");
    wait_until("the application is in sync again", || podnudge.is_in_sync());
}

/// Guards: what somebody has removed of a published generation is noticed although the link to it is left.
#[test]
fn a_damaged_publish_directory_is_repaired() {
    let mut pod = Pod::new("good");
    let podnudge = pod.nudge_published();
    let dir = pod.path("config");
    // As `rm *` does: the names of the link and of the generations begin with dots.
    fs::remove_file(dir.join("app.conf")).unwrap();
    podnudge.assert_soon("the link is back", || dir.join("app.conf").exists());
    assert_eq!(podnudge.agent.count("publication-lost"), 0);
    fs::remove_dir_all(fs::canonicalize(dir.join("..data")).unwrap()).unwrap();
    podnudge.assert_soon("published again", || dir.join("app.conf").exists());
    assert_eq!((podnudge.agent.count("publication-lost"), pod.published().as_str()), (1, "good"));
    wait_until("the application is in sync again", || podnudge.is_in_sync());
    // What somebody has put in the place of a link stays, and is said at the next edit.
    fs::remove_file(dir.join("app.conf")).unwrap();
    fs::write(dir.join("app.conf"), "foreign").unwrap();
    pod.change("next");
    wait_until("it is reported", || {
        podnudge.agent.log().contains("has an entry `app.conf` that podnudge did not create")
    });
    assert_eq!(fs::read_to_string(dir.join("app.conf")).unwrap(), "foreign");
}

/// Guards: content that was rolled back is not tried again because the link to the good generation is gone.
#[test]
fn the_good_generation_takes_the_place_of_a_removed_one() {
    let mut pod = Pod::new("good");
    let podnudge = pod.nudge_published();
    pod.change("broken");
    podnudge.agent.wait_for("rolled-back", 1);
    fs::remove_file(pod.path("config").join("..data")).unwrap();
    podnudge.assert_soon("the good content is back", || pod.published() == "good");
    assert_eq!(podnudge.agent.count("publishing|publication-lost"), 0, "{}", podnudge.agent.log());
}

/// Guards: when a roll-back fails, the status gives the cause of that failure and not the error in
/// the content.
#[test]
fn the_status_says_why_a_roll_back_failed() {
    in_namespace!();
    let mut pod = Pod::new("good");
    let dir = pod.path("config");
    mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"], &dir);
    // The application fills the directory before it answers.
    let (config, filler) = (dir.join("app.conf"), dir.join("..filler"));
    let fills = filler.clone();
    let url = server(move |stream| {
        request(&stream);
        let answer = answer_to(&config);
        if answer.starts_with("400") {
            fs::write(&fills, vec![0; 1 << 20]).unwrap_err();
        }
        respond(&stream, answer, "", "");
    });
    let retry = "retry = { first = \"1s\", max = \"2s\" }\n";
    let podnudge = pod.nudge(&format!("{retry}{PUBLISH}http = {{ url = \"{url}\" }}\n"));
    wait_until("the first content is in sync", || podnudge.is_in_sync());
    pod.change("broken");
    let mut last = Value::Null;
    let is_reported = is_within(SOON, || {
        last = podnudge.status();
        last["reason"]["message"].as_str().is_some_and(|why| why.contains("No space left"))
    });
    assert!(is_reported, "not reported within {SOON:?}: {last}");
    assert_eq!(pod.published(), "broken");
    fs::remove_file(&filler).unwrap();
    wait_until("the content is rolled back", || pod.published() == "good");
}
