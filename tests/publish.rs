//! The publish directory: its layout, and that a reader sees one whole generation that has passed
//! the checks, wherever podnudge is killed and whichever system call fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use podnudge::publish::Publisher;
use podnudge::volume::scan;
use podnudge_config::KeyFilter;
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::event::Publication;
use podnudge_core::evidence::Evidence;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot;

use crate::support::publish::publish_to;
use crate::support::{
    Agent, Application, Kubelet, Payload, ROLLED_OUT, command, payload, podnudge, wait_until,
};

/// Every system call that changes a directory, a link or a file.
const CHANGING: &str = "mkdirat,mkdir,openat,openat2,write,fchmod,fchown,fsync,renameat,renameat2,rename,\
                        symlinkat,symlink,unlinkat,unlink,rmdir";

/// A pod with a volume and a publish directory.
struct Pod {
    folder: tempfile::TempDir,
    kubelet: Kubelet,
}

impl Pod {
    fn new(content: &Payload) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut kubelet = Kubelet::new(folder.path().join("volume"));
        kubelet.write(content);
        fs::create_dir(folder.path().join("config")).unwrap();
        Self { folder, kubelet }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// Writes the configuration: a rule that publishes, with additions.
    fn configure(&self, publish: &str, more: &str, url: &str) -> String {
        let (volume, dir) = (self.kubelet.volume.display(), self.dir());
        let config = format!(
            "[agent]\nwork-dir = \"{}\"\n[[rule]]\nname = \"app\"\nwatch = [\"{volume}\"]\n\
             settle = \"0s\"\n{more}\n[rule.retry]\nfirst = \"50ms\"\nmax = \"100ms\"\n\
             [rule.publish]\ndir = \"{}\"\n{publish}\n[rule.http]\nurl = \"{url}\"\n",
            self.folder.path().display(),
            dir.display()
        );
        let file = self.folder.path().join("podnudge.toml");
        fs::write(&file, config).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The files as the application sees them, by the names of the keys.
    fn seen(&self) -> BTreeMap<String, String> {
        contents(&self.dir(), true)
    }

    /// The files of the current generation. `..data` is resolved once, so that a swap in between
    /// cannot mix two generations.
    fn current(&self) -> BTreeMap<String, String> {
        contents(&fs::canonicalize(self.dir().join("..data")).unwrap(), false)
    }

    /// The entries of the directory except the links of the keys, with the name of any generation
    /// replaced by `generation`.
    fn hidden(&self) -> BTreeSet<String> {
        let kind = |name: String| match name.as_str() {
            generation if generation.len() > 64 => "generation".to_owned(),
            _ => name,
        };
        names(&self.dir()).filter(|name| name.starts_with("..")).map(kind).collect()
    }

    /// The record that podnudge keeps in the publish directory.
    fn record(&self) -> serde_json::Value {
        let text = fs::read(self.dir().join("..podnudge.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn generations(&self) -> usize {
        names(&self.dir()).filter(|name| name.len() > 64).count()
    }
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// All files below a folder by their paths; with `by_links`, without entries that begin with `..`.
fn contents(dir: &Path, by_links: bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for name in names(&folder) {
            let path = folder.join(&name);
            if by_links && name.starts_with("..") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let key = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.insert(key, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

fn texts(payload: &Payload) -> BTreeMap<String, String> {
    let text = |(key, value): (&String, &Vec<u8>)| {
        (key.clone(), String::from_utf8(value.clone()).unwrap())
    };
    payload.iter().map(text).collect()
}

/// Runs `podnudge once`, through another program if one is given.
fn once(config: &str, through: &[&str], arguments: &[&str]) -> Output {
    let podnudge = env!("CARGO_BIN_EXE_podnudge");
    let all = [through, &[podnudge, "once", "--config", config], arguments].concat();
    let mut command = command(all[0]);
    command.args(&all[1..]).output().unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const UNUSED: &str = "http://127.0.0.1:1/";

#[test]
fn the_publish_directory_has_the_layout_of_a_kubelet_volume() {
    let first = payload(&[("app.conf", "1"), ("sites/a.conf", "a"), ("README.md", "r")]);
    let mut pod = Pod::new(&first);
    let config = pod.configure("keep = 1", "ignore = [\"*.md\"]", UNUSED);
    let output = once(&config, &[], &[]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert_eq!(pod.seen(), texts(&first), "ignored keys are published, too");
    for (name, target) in [("app.conf", "..data/app.conf"), ("sites", "..data/sites")] {
        assert_eq!(fs::read_link(pod.dir().join(name)).unwrap(), Path::new(target));
    }
    let mode = |path: &str| fs::metadata(pod.dir().join(path)).unwrap().permissions().mode();
    assert_eq!((mode("app.conf") & 0o777, mode("sites") & 0o777), (0o644, 0o755));
    assert_eq!(mode("..data/") & 0o777, 0o755);
    let second = payload(&[("app.conf", "2"), ("new.conf", "n")]);
    pod.kubelet.write(&second);
    assert!(once(&config, &[], &[]).status.success());
    assert_eq!(pod.seen(), texts(&second), "the links of removed keys are removed");
    for n in 3..9 {
        pod.kubelet.write(&payload(&[("app.conf", &n.to_string())]));
        assert!(once(&config, &[], &[]).status.success());
    }
    assert_eq!(pod.generations(), 2, "the current one and one more");
    assert_eq!(
        pod.hidden().into_iter().collect::<Vec<_>>(),
        ["..data", "..podnudge.json", "..podnudge.lock", "generation"]
    );
}

#[test]
fn several_volumes_are_published_together_each_in_its_own_folder() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let mut tls = Kubelet::new(pod.folder.path().join("tls"));
    let config = pod.configure("mode = \"0640\"", "", UNUSED);
    let text = fs::read_to_string(&config).unwrap();
    let both = format!("volume\", \"{}\"]", tls.volume.display());
    fs::write(&config, text.replace("volume\"]", &both)).unwrap();
    let output = once(&config, &[], &["--wait", "0s"]);
    assert_eq!(output.status.code(), Some(69), "the second volume is still empty");
    tls.write(&payload(&[("tls.crt", "c"), ("tls.key", "k")]));
    let output = once(&config, &[], &[]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let keys: Vec<_> = pod.seen().into_keys().collect();
    assert_eq!(keys, ["tls/tls.crt", "tls/tls.key", "volume/app.conf"]);
    let mode =
        |path: &str| fs::metadata(pod.dir().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("tls/tls.key"), mode("tls"), mode("..data/")), (0o640, 0o750, 0o750));
}

#[test]
fn rejected_content_is_not_published_and_the_last_good_content_stays() {
    let mut pod = Pod::new(&payload(&[("app.json", "{")]));
    let check = "[[rule.check]]\nsyntax = \"json\"";
    let config = pod.configure("", check, UNUSED);
    let output = once(&config, &[], &[]);
    assert_eq!(output.status.code(), Some(65));
    assert!(
        stderr_of(&output).contains("`app.json` is not JSON: see line 1"),
        "{}",
        stderr_of(&output)
    );
    assert_eq!(pod.seen(), BTreeMap::new());
    let good = payload(&[("app.json", "1")]);
    pod.kubelet.write(&good);
    assert!(once(&config, &[], &[]).status.success());
    pod.kubelet.write(&payload(&[("app.json", "]")]));
    let output = once(&config, &[], &[]);
    assert!(output.status.success(), "the application starts with the last good content");
    assert!(stderr_of(&output).contains("event=\"kept\""), "{}", stderr_of(&output));
    assert_eq!(pod.seen(), texts(&good));
    // A missing volume does not prevent the start either.
    pod.kubelet.remove();
    assert!(once(&config, &[], &["--wait", "0s"]).status.success());
    assert_eq!(pod.seen(), texts(&good));
}

#[test]
fn an_unusable_publish_directory_is_reported_with_its_cause() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let config = pod.configure("", "", UNUSED);
    let refusal = || {
        let output = once(&config, &[], &["--wait", "0s"]);
        assert!(!output.status.success());
        stderr_of(&output)
    };
    fs::write(pod.dir().join("app.conf"), "somebody's").unwrap();
    let stderr = refusal();
    assert!(stderr.contains("has an entry `app.conf` that podnudge did not create"), "{stderr}");
    assert_eq!(pod.seen()["app.conf"], "somebody's");
    fs::remove_dir_all(pod.dir()).unwrap();
    fs::write(pod.dir(), "a file").unwrap();
    let stderr = refusal();
    assert!(stderr.contains("Not a directory"), "{stderr}");
    let text = fs::read_to_string(&config).unwrap();
    let dir = pod.dir().display().to_string();
    fs::write(&config, text.replace(&dir, "/nowhere/config")).unwrap();
    let stderr = refusal();
    assert!(stderr.contains("mount an emptyDir there"), "{stderr}");
    fs::write(&config, text.replace(&dir, "/proc/self")).unwrap();
    let stderr = refusal();
    assert!(stderr.contains("cannot publish to `/proc/self`"), "{stderr}");
}

/// A small tmpfs, like a memory-backed emptyDir with a sizeLimit.
#[test]
fn a_full_publish_directory_keeps_its_content_and_frees_old_generations() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let config = pod.configure("keep = 9", "", UNUSED);
    let script = "set -eu
        mount -t tmpfs -o size=64k tmpfs \"$DIR\"
        kilobytes() { head -c \"$1\"000 /dev/zero | tr '\\0' \"$2\" > \"$VOLUME/..data/app.conf\"; }
        for n in 1 2 3 4 5; do kilobytes 15 $n; \"$@\"; done  # older ones make room
        kilobytes 60 6; if \"$@\"; then :; fi                 # there is room for one of the two
        head -c 1 \"$DIR/app.conf\"; wc -c < \"$DIR/app.conf\"
        ls -a \"$DIR\"";
    let mut command = command("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_podnudge"), "once", "--wait", "0s", "--config", &config]);
    let output = command.env("DIR", pod.dir()).env("VOLUME", &pod.kubelet.volume).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some("515000"), "{stdout}\n{}", stderr_of(&output));
    assert!(!stdout.contains("..podnudge-"), "{stdout}");
    assert!(stderr_of(&output).contains("the emptyDir is full"), "{}", stderr_of(&output));
}

/// Secrets are mounted from memory, and must not be written to the node's disk unnoticed.
#[test]
fn a_secret_that_would_be_written_to_disk_causes_a_warning() {
    let script = "set -eu
        for place in $IN_MEMORY; do mount -t tmpfs tmpfs \"$place\"; done
        echo 1 > \"$VOLUME/a.conf\"
        exec \"$@\"";
    for (in_memory, warned_of) in [
        (&[][..], &[][..]),
        // A Secret below a watched directory.
        (&["volume/below"], &["config", "work"]),
        (&["volume"], &["config", "work"]),
        (&["volume", "work"], &["config"]),
        (&["volume", "config", "work"], &[]),
    ] {
        // The temporary directory may be in memory; the build directory is not.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [volume, config, work] = ["volume", "config", "work"].map(|name| {
            fs::create_dir(place(name)).unwrap();
            place(name)
        });
        fs::create_dir(place("volume/below")).unwrap();
        let file = folder.path().join("podnudge.toml");
        let text = format!(
            "[agent]\nlisten = \"off\"\nlog = \"json\"\nwork-dir = \"{work}\"\n[[rule]]\n\
             watch = \"{volume}\"\npublish = {{ dir = \"{config}\" }}\n\
             http = {{ url = \"http://127.0.0.1:9/\" }}\n[[rule.check]]\nexec = \"true\"\n"
        );
        fs::write(&file, text).unwrap();
        let mounts: Vec<String> = in_memory.iter().map(|name| place(name)).collect();
        let mut command = command("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_podnudge")]);
        command.arg("--config").arg(&file);
        command.env("VOLUME", &volume).env("IN_MEMORY", mounts.join(" "));
        let agent = Agent::spawn(folder.path(), command);
        agent.wait_for("published", 1);
        let warnings = agent.events("secret-on-disk");
        let paths: Vec<&str> = warnings.iter().map(|line| line["path"].as_str().unwrap()).collect();
        let wanted: Vec<String> = warned_of.iter().map(|name| place(name)).collect();
        assert_eq!(paths, wanted, "in memory: {in_memory:?}");
        assert!(warnings.iter().all(|line| line["hint"].as_str().unwrap().contains("Memory")));
    }
}

/// podnudge is killed before each system call that changes something: the reader sees one of the
/// two contents as a whole, and the next run publishes the new one and leaves nothing behind.
#[test]
fn podnudge_once_killed_at_any_step_leaves_one_whole_generation() {
    let (one, two) = two_contents();
    let steps = at_each_step(|call, step| {
        let mut pod = Pod::new(&one);
        let config = pod.configure("", "", UNUSED);
        assert!(once(&config, &[], &[]).status.success());
        pod.kubelet.write(&two);
        let kill = format!("signal=KILL:when={step}");
        let output = once(&config, &strace(call, &kill), &[]);
        let current = pod.current();
        assert!(current == texts(&one) || current == texts(&two), "{call} {step}: {current:?}");
        assert!(once(&config, &[], &[]).status.success(), "{call} {step}");
        assert_eq!(pod.seen(), texts(&two), "{call} {step}");
        let left: Vec<_> = pod.hidden().into_iter().collect();
        assert_eq!(
            left,
            ["..data", "..podnudge.json", "..podnudge.lock", "generation"],
            "{call} {step}"
        );
        !output.status.success()
    });
    assert!(steps >= 90, "only {steps} steps were seen; SPECIFICATION.md promises 90");
    println!("killed at each of {steps} steps");
}

/// The same when each of these calls, and all later calls of its kind, fail.
#[test]
fn an_error_at_any_step_leaves_one_whole_generation() {
    let (one, two) = two_contents();
    for error in ["ENOSPC", "EIO", "EROFS"] {
        let mut kept = 0;
        let steps = at_each_step(|call, step| {
            // A failing openat prevents the start of the program, and a failing unlink is harmless.
            if call.starts_with("openat") || (call.starts_with("unlink") && error != "EIO") {
                return false;
            }
            let mut pod = Pod::new(&one);
            let config = pod.configure("", "", UNUSED);
            assert!(once(&config, &[], &[]).status.success());
            pod.kubelet.write(&two);
            let fail = format!("error={error}:when={step}+");
            let output = once(&config, &strace(call, &fail), &["--wait", "0s"]);
            let current = pod.current();
            assert!(current == texts(&one) || current == texts(&two), "{call} {step}: {current:?}");
            kept += usize::from(current == texts(&one));
            assert!(once(&config, &[], &[]).status.success(), "{call} {step}");
            assert_eq!(pod.seen(), texts(&two), "{call} {step}");
            !output.status.success() || stderr_of(&output).contains("kept")
        });
        assert!(kept > 20, "only {kept} of {steps} steps failed before the commit");
        println!("{error} at each of {steps} steps, {kept} before the commit");
    }
}

/// Calls `hit` for the first, second, … call of each kind until it returns false, which means that
/// there are no more of them. Returns the number of calls.
fn at_each_step(mut hit: impl FnMut(&str, usize) -> bool) -> usize {
    let kinds = CHANGING.split(',');
    kinds.map(|call| (1..1000).take_while(|step| hit(call, *step)).count()).sum()
}

fn two_contents() -> (Payload, Payload) {
    let one = payload(&[("app.conf", "one"), ("old.conf", "o"), ("sites/a", "one")]);
    let two = payload(&[("app.conf", "two"), ("new.conf", "n"), ("sites/a", "two")]);
    (one, two)
}

/// What starts a program, and does this at its calls of this name.
fn strace(call: &str, fault: &str) -> Vec<&'static str> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let [traced, injected] = [format!("trace={call}"), format!("inject={call}:{fault}")].map(leak);
    let mut words = vec!["strace", "-f", "-qqq", "-o", "/dev/null", "-e", traced, "-e", injected];
    // With a filter, strace stops podnudge only at these calls, but sends no signals (strace 6.1).
    if fault.starts_with("error=") {
        words.push("--seccomp-bpf");
    }
    words
}

/// The agent is killed at each step of publishing content that the application rejects and of
/// rolling it back: a reader sees one of the two contents as a whole, and the next podnudge ends on
/// the good one.
#[test]
fn an_agent_killed_at_any_step_of_a_roll_back_ends_on_the_good_generation() {
    let (one, mut two) = two_contents();
    two.insert("app.conf".to_owned(), b"broken".to_vec());
    let steps = at_each_step(|call, step| {
        let mut pod = Pod::new(&one);
        let application = Application::start(&pod.dir(), "app.conf");
        let config = pod.configure("", "", &application.url());
        assert!(once(&config, &[], &[]).status.success());
        pod.kubelet.write(&two);
        let mut command = command("strace");
        let kill = format!("signal=KILL:when={step}");
        // -D detaches the tracer, so that the child process is podnudge itself.
        command.arg("-D").args(&strace(call, &kill)[1..]);
        command.args([env!("CARGO_BIN_EXE_podnudge"), "--listen", "off", "--log", "json"]);
        command.args(["--config", &config]);
        let mut agent = Agent::spawn(pod.folder.path(), command);
        wait_until("podnudge is killed or has rolled back", || {
            let current = pod.current();
            assert!(current == texts(&one) || current == texts(&two), "{call} {step}: {current:?}");
            agent.has_ended() || agent.count("rolled-back") > 0
        });
        let is_killed = agent.has_ended();
        drop(agent);
        if is_killed {
            let next = Agent::start(pod.folder.path(), &["--config", &config]);
            wait_until("the good content is published again", || {
                next.count("rolled-back") + next.count("baseline") > 0
                    && pod.seen() == texts(&one)
                    && !pod.hidden().iter().any(|name| name.starts_with("..podnudge-"))
            });
        }
        assert_eq!(pod.seen(), texts(&one), "{call} {step}");
        is_killed
    });
    assert!(steps >= 60, "only {steps} steps were seen; SPECIFICATION.md promises 60");
    println!("killed at each of {steps} steps");
}

/// A reader that resolves `..data` once, as applications do to read one generation, never sees a
/// mix of two.
#[test]
fn a_reader_sees_whole_generations_only() {
    let mut pod = Pod::new(&payload(&[("a", "0"), ("b", "0")]));
    let config = pod.configure("", "", UNUSED);
    assert!(once(&config, &[], &[]).status.success());
    let (dir, end) = (pod.dir(), Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::clone(&end);
    let reader = std::thread::spawn(move || {
        let mut readings = 0;
        while !has_ended.load(Ordering::Relaxed) {
            let generation = fs::canonicalize(dir.join("..data")).unwrap();
            let read = |key: &str| fs::read_to_string(generation.join(key)).unwrap();
            assert_eq!(read("a"), read("b"));
            readings += 1;
        }
        readings
    });
    for n in 1..100 {
        let text = n.to_string();
        pod.kubelet.write(&payload(&[("a", &text), ("b", &text)]));
        assert!(once(&config, &[], &[]).status.success());
    }
    end.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 100);
}

#[test]
fn published_files_can_be_owned_by_the_application() {
    let pod = Pod::new(&payload(&[("app.conf", "1"), ("sites/a", "1")]));
    let config = pod.configure("uid = 101\ngid = 102\nmode = \"0400\"", "", UNUSED);
    assert!(once(&config, &[], &[]).status.success());
    for path in ["app.conf", "sites", "sites/a", "..data/"] {
        let stat = fs::metadata(pod.dir().join(path)).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (101, 102), "{path}");
    }
}

/// An init container and a sidecar with different uids, and the common group of fsGroup.
#[test]
fn a_container_with_another_uid_shares_the_record() {
    let mut pod = Pod::new(&payload(&[("app.conf", "1")]));
    let config = pod.configure("", "", UNUSED);
    fs::set_permissions(pod.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(pod.dir(), None, Some(2000)).unwrap();
    fs::set_permissions(pod.dir(), fs::Permissions::from_mode(0o2775)).unwrap();
    let as_uid =
        |uid: &'static str| ["setpriv", "--reuid", uid, "--regid", "2000", "--clear-groups"];
    let output = once(&config, &as_uid("1000"), &[]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let record = || fs::metadata(pod.dir().join("..podnudge.json")).unwrap();
    assert_eq!((record().mode() & 0o777, record().gid()), (0o660, 2000));
    let first = pod.record();
    pod.kubelet.write(&payload(&[("app.conf", "2")]));
    let output = once(&config, &as_uid("1001"), &[]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert_ne!(pod.record()["for-start"], first["for-start"]);

    // An unreadable record is not treated as an empty one.
    let before = pod.record();
    fs::set_permissions(pod.dir().join("..podnudge.json"), fs::Permissions::from_mode(0o600))
        .unwrap();
    let output = once(&config, &as_uid("1000"), &[]);
    let text = stderr_of(&output);
    assert_eq!(output.status.code(), Some(78), "{text}");
    assert!(text.contains("..podnudge.json`: Permission denied"), "{text}");
    assert!(text.contains("set fsGroup"), "{text}");
    assert_eq!(pod.record(), before);
}

#[test]
fn a_corrupt_record_is_reported_and_written_anew() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let config = pod.configure("", "", UNUSED);
    assert!(once(&config, &[], &[]).status.success());
    fs::write(pod.dir().join("..podnudge.json"), "[").unwrap();
    let output = once(&config, &[], &[]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("event=\"record-lost\""), "{}", stderr_of(&output));
    assert!(pod.record()["for-start"].is_string());
}

/// While the record is unreadable, podnudge publishes nothing, and it loses no recorded state.
#[test]
fn nothing_is_published_while_the_record_cannot_be_read() {
    let one = payload(&[("app.conf", "one")]);
    let mut pod = Pod::new(&one);
    let application = Application::start(&pod.dir(), "app.conf");
    let config = pod.configure("", "", &application.url());
    let agent = Agent::start(pod.folder.path(), &["--config", &config]);
    agent.wait_for(ROLLED_OUT, 1);
    wait_until("the content is recorded as good", || pod.record()["good"].is_string());
    let record = pod.dir().join("..podnudge.json");
    fs::rename(&record, pod.folder.path().join("kept")).unwrap();
    fs::create_dir(&record).unwrap();
    pod.kubelet.write(&payload(&[("app.conf", "two")]));
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason");
    assert!(reason.contains("..podnudge.json`: it is a directory"), "{reason}");
    assert_eq!(pod.seen(), texts(&one));
    fs::remove_dir(&record).unwrap();
    fs::rename(pod.folder.path().join("kept"), &record).unwrap();
    agent.wait_for(ROLLED_OUT, 2);
}

/// Otherwise each would roll back what the other publishes.
#[test]
fn a_publish_directory_is_used_by_one_podnudge_only() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let application = Application::start(&pod.dir(), "app.conf");
    // A process that a check leaves behind is ended, and does not keep the lock.
    let left = pod.folder.path().join("left");
    let leaves = format!(
        "setsid -f sh -c 'echo $$ > {0}; exec sleep 60' </dev/null >/dev/null 2>&1; \
         until [ -s {0} ]; do sleep 0.01; done",
        left.display()
    );
    let check = format!("[[rule.check]]\nexec = [\"sh\", \"-c\", \"{leaves}\"]");
    let config = pod.configure("", &check, &application.url());
    let mut first = Agent::start(pod.folder.path(), &["--config", &config]);
    first.wait_for(ROLLED_OUT, 1);
    let mut second = podnudge();
    let second = second.args(["--listen", "off", "--config", &config]).output().unwrap();
    for refused in [second, once(&config, &[], &["--wait", "0s"])] {
        let text = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(78), "{text}");
        let dir = pod.dir();
        assert!(
            text.contains(&format!("another podnudge publishes to `{}`", dir.display())),
            "{text}"
        );
        assert!(text.contains("a directory of its own"), "{text}");
    }
    first.kill();
    let next = Agent::start(pod.folder.path(), &["--config", &config]);
    next.wait_for("baseline", 1);
    let left: i32 = fs::read_to_string(left).unwrap().trim().parse().unwrap();
    assert_eq!(kill(Pid::from_raw(left), None), Err(Errno::ESRCH));
}

/// A check that passes, and then changes a key that is not part of the digest.
fn passes_and_then_breaks(pod: &Pod) -> String {
    let (volume, marker) = (pod.kubelet.volume.display(), pod.folder.path().join("checked"));
    let marker = marker.display();
    format!(
        "ignore = [\"inc\"]\n[[rule.check]]\nexec = [\"sh\", \"-c\", '''! grep -r BROKEN {{dir}} || exit 1; \
         [ -e {marker} ] || printf BROKEN > {volume}/..data/inc; touch {marker}''']"
    )
}

#[test]
fn unchecked_content_is_not_published_by_podnudge_once() {
    let pod = Pod::new(&payload(&[("app.conf", "1"), ("inc", "fine")]));
    let config = pod.configure("", &passes_and_then_breaks(&pod), UNUSED);
    let output = once(&config, &[], &["--wait", "20s"]);
    assert_eq!(output.status.code(), Some(65), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("BROKEN"), "{}", stderr_of(&output));
    assert_eq!(pod.seen(), BTreeMap::new());
}

#[test]
fn unchecked_content_is_not_published_by_the_agent() {
    let one = payload(&[("app.conf", "1"), ("inc", "fine")]);
    let mut pod = Pod::new(&one);
    let application = Application::start(&pod.dir(), "app.conf");
    let config = pod.configure("", &passes_and_then_breaks(&pod), &application.url());
    let marker = pod.folder.path().join("checked");
    fs::write(&marker, "").unwrap();
    let agent = Agent::start(pod.folder.path(), &["--config", &config]);
    agent.wait_for(ROLLED_OUT, 1);
    fs::remove_file(&marker).unwrap();
    pod.kubelet.write(&payload(&[("app.conf", "2"), ("inc", "fine")]));
    wait_until("the checks have seen it", || marker.exists());
    agent.wait_for("scheduled", 2);
    agent.wait_for("rejected", 1);
    let three = payload(&[("app.conf", "3"), ("inc", "fine")]);
    pod.kubelet.write(&three);
    wait_until("the checked content is published", || {
        let current = pod.current();
        assert_ne!(current["inc"], "BROKEN");
        current == texts(&three)
    });
    agent.wait_for(ROLLED_OUT, 2);
    assert_eq!(agent.count("published"), 2, "{}", agent.log());
}

#[test]
fn failed_publications_leave_no_generations_behind() {
    let (one, two) = two_contents();
    let mut pod = Pod::new(&one);
    let config = pod.configure("", "", UNUSED);
    assert!(once(&config, &[], &[]).status.success());
    pod.kubelet.write(&two);
    for _ in 0..5 {
        // The rename of the generation succeeds, and that of the record fails.
        let output = once(&config, &strace("renameat", "error=EIO:when=2+"), &["--wait", "0s"]);
        assert!(stderr_of(&output).contains("event=\"kept\""), "{}", stderr_of(&output));
        assert_eq!((pod.current(), pod.generations()), (texts(&one), 1));
    }
    assert!(once(&config, &[], &[]).status.success());
    assert_eq!(pod.seen(), texts(&two));
}

#[test]
fn old_generations_are_removed_when_the_disk_is_full_and_after_no_other_error() {
    for (error, left) in [("EACCES", 3), ("EDQUOT", 1)] {
        let mut pod = Pod::new(&payload(&[("app.conf", "0")]));
        let config = pod.configure("keep = 9", "", UNUSED);
        for n in 1..4 {
            assert!(once(&config, &[], &[]).status.success());
            pod.kubelet.write(&payload(&[("app.conf", &n.to_string())]));
        }
        let fail = format!("error={error}");
        let output = once(&config, &strace("mkdirat", &fail), &["--wait", "0s"]);
        assert!(stderr_of(&output).contains("event=\"kept\""), "{}", stderr_of(&output));
        assert_eq!(pod.generations(), left, "{error}");
    }
}

/// The volume of another rule has a file that takes minutes to read.
#[test]
fn a_large_volume_of_another_rule_does_not_delay_a_roll_back() {
    let one = payload(&[("app.conf", "one")]);
    let mut pod = Pod::new(&one);
    let application = Application::start(&pod.dir(), "app.conf");
    let config = pod.configure("", "", &application.url());
    assert!(once(&config, &[], &[]).status.success());
    let large = pod.folder.path().join("large");
    fs::create_dir(&large).unwrap();
    fs::File::create(large.join("geo.db")).unwrap().set_len(1 << 38).unwrap();
    let rule = format!(
        "[[rule]]\nname = \"large\"\nwatch = [\"{}\"]\nsettle = \"0s\"\n\
         [rule.http]\nurl = \"{UNUSED}\"\n",
        large.display()
    );
    fs::write(&config, fs::read_to_string(&config).unwrap() + &rule).unwrap();
    let agent = Agent::start(pod.folder.path(), &["--config", &config]);
    pod.kubelet.write(&payload(&[("app.conf", "broken")]));
    agent.wait_for("rolled-back", 1);
    assert_eq!(pod.seen(), texts(&one));
    assert_eq!(
        agent.count("baseline") + agent.count("fresh"),
        1,
        "the large volume is still being read"
    );
}

/// The roll-back failed, and the content is triggered in spite of it.
#[test]
fn triggered_content_that_works_is_no_longer_quarantined() {
    let mut pod = Pod::new(&payload(&[("app.conf", "1")]));
    let publish = publish_to(pod.dir());
    let (volumes, keys) = ([pod.kubelet.volume.clone()], KeyFilter::default());
    let place = Publisher { publish: &publish, volumes: &volumes, keys: &keys };
    let now = UnixTime::default();
    let digest = || {
        let read = scan::read(&volumes[0], &keys).unwrap();
        snapshot::digest([read.snapshot.unwrap().digest()])
    };
    let one = digest();
    assert_eq!(place.publish(one, None, now), Publication::Done);
    place.approve(one, Evidence::Verified).unwrap();
    pod.kubelet.write(&payload(&[("app.conf", "2")]));
    let two = digest();
    assert_eq!(place.publish(two, None, now), Publication::Done);
    let bad = (two, Reason::new("it did not work"));
    let lost = snapshot::digest([two]);
    assert!(matches!(place.roll_back(lost, &bad), Publication::Failed(..)));
    assert_eq!(place.open(Now::default()).unwrap().quarantined, [bad]);
    assert_eq!(place.publish(two, None, now), Publication::Done);
    assert_eq!(place.open(Now::default()).unwrap().quarantined, []);
    place.approve(two, Evidence::Verified).unwrap();
    assert_eq!(place.open(Now::default()).unwrap().good, Some(two));

    // An unreadable directory is not treated as empty: an empty one is filled in spite of holds.
    assert_eq!(place.repair(), Ok(Some(two)));
    fs::rename(&publish.dir, publish.dir.with_extension("elsewhere")).unwrap();
    fs::write(&publish.dir, "no directory").unwrap();
    assert!(place.repair().is_err());
}

#[test]
fn podnudge_once_explains_that_a_url_check_needs_the_running_application() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let check = "[[rule.check]]\nkeys = [\"app.conf\"]\nhttp = \"http://127.0.0.1:1/adapt\"";
    let config = pod.configure("", check, UNUSED);
    let output = once(&config, &[], &["--wait", "0s"]);
    assert_eq!(output.status.code(), Some(69));
    let text = stderr_of(&output);
    assert!(text.contains("http://127.0.0.1:1/adapt"), "{text}");
    assert!(text.contains("in an init container the application does not run yet"), "{text}");
}

#[test]
fn the_failure_of_a_program_that_names_the_url_of_another_check_is_not_that_of_the_url() {
    let pod = Pod::new(&payload(&[("app.conf", "1")]));
    let checks = "[[rule.check]]\nexec = [\"sh\", \"-c\", \"echo POST http://127.0.0.1:1/adapt; kill -9 $$\"]\n\
        [[rule.check]]\nkeys = [\"app.conf\"]\nhttp = \"http://127.0.0.1:1/adapt\"";
    let config = pod.configure("", checks, UNUSED);
    let output = once(&config, &[], &["--wait", "0s"]);
    let text = stderr_of(&output);
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains("was ended by SIGKILL: POST http://127.0.0.1:1/adapt"), "{text}");
    assert!(!text.contains("in an init container"), "{text}");
}
