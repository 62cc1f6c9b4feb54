//! A neighbour that can write to the directories to which podnudge writes, or only read them: nothing outside of
//! them is written, podnudge is not blocked, and it says what is wrong.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{Agent, Application, ROLLED_OUT, Scene, command, in_namespace, wait_until};

/// What a neighbour must not change.
const MINE: &str = "not the neighbour's\n";

/// A pod whose podnudge has the uid 1000.
struct Pod {
    scene: Scene,
    application: Application,
    /// A file that podnudge may write, outside of its directories.
    outside: PathBuf,
}

impl Pod {
    fn new() -> Self {
        let scene = Scene::with(&[("app.conf", "1")]);
        fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Emptydirs, as a kubelet makes them.
        for name in ["publish", "state", "work", "outside"] {
            let path = scene.path(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let outside = scene.path("outside/file");
        fs::write(&outside, MINE).unwrap();
        chown(&outside, Some(1000), Some(1000)).unwrap();
        let (publish, watched) = (scene.path("publish"), scene.path("volume/app.conf"));
        let application = Application::start_reading(&publish, "app.conf", watched);
        let pod = Self { scene, application, outside };
        // Where podnudge publishes, it remembers in the publish directory.
        let config = "[agent]\nlisten = \"off\"\nlog = \"json\"\nresync = \"1s\"\nwork-dir = \"FOLDER/work\"\n\
             state-dir = \"FOLDER/state\"\n\
             [[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\non-start = \"always\"\n\
             http = { url = \"URL\" }\n[[rule.check]]\nexec = \"true\"\n\
             [[rule]]\nname = \"publishes\"\nwatch = \"FOLDER/volume\"\nhttp = { url = \"URL\" }\n\
             publish = { dir = \"FOLDER/publish\" }\nretry = { first = \"50ms\", max = \"100ms\" }\n";
        let config = config.replace("URL", &pod.application.url());
        pod.scene.write("podnudge.toml", &config);
        pod
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.path(name)
    }

    fn podnudge(&self) -> Command {
        let mut podnudge = by(1000, env!("CARGO_BIN_EXE_podnudge"));
        podnudge.arg("--config").arg(self.path("podnudge.toml"));
        podnudge
    }

    fn start(&self) -> Agent {
        Agent::spawn(self.scene.folder.path(), self.podnudge())
    }

    /// Runs a script as this uid, in the folder of the pod.
    fn neighbour(&self, uid: u32, script: &str) -> Output {
        let mut shell = by(uid, "sh");
        shell.args(["-ec", script]).current_dir(self.scene.folder.path()).output().unwrap()
    }

    fn plant(&self, uid: u32, script: &str) {
        let done = self.neighbour(uid, script);
        assert!(done.status.success(), "{script}: {done:?}");
    }

    fn published(&self) -> String {
        self.scene.text("publish/app.conf")
    }

    fn assert_nothing_outside_was_changed(&self) {
        assert_eq!(fs::read_to_string(&self.outside).unwrap(), MINE);
        assert_eq!(fs::read_dir(self.path("outside")).unwrap().count(), 1);
    }
}

/// A program with this uid, and the group of the same number.
fn by(uid: u32, program: &str) -> Command {
    let mut setpriv = command("setpriv");
    let id = uid.to_string();
    setpriv.args(["--reuid", &id, "--regid", &id, "--clear-groups", program]);
    setpriv
}

/// Every name that podnudge uses, or used in earlier versions, in the directory of that purpose.
const NAMES: &[&str] = &[
    "publish/..podnudge.json",
    "publish/..podnudge.lock",
    "publish/..data_tmp",
    "publish/..new",
    "publish/..link_tmp",
    "publish/..file_tmp",
    "publish/..podnudge-0123456789abcdef",
    "state/web.json",
    "state/web.json.new",
    "state/.writable.1",
    "state/.web.json-0123456789abcdef",
    "work/podnudge-check-web",
    "work/podnudge-check-web-0123456789abcdef",
];

/// What a neighbour plants under a name.
const PLANTS: &[&str] = &[
    "ln -s \"$PWD/outside/file\" NAME",
    "ln -s \"$PWD/outside\" NAME",
    "ln -s \"$PWD/outside/new\" NAME",
    "ln -s NAME NAME",
    "mkfifo NAME",
    "mkdir -p NAME/below; echo x > NAME/below/file",
    "head -c 2M /dev/zero > NAME",
];

/// A neighbour of podnudge's uid, and one of another uid that may write there, too.
#[test]
fn planted_names_neither_redirect_nor_block_podnudge() {
    for uid in [1000, 2000] {
        for plant in PLANTS {
            let mut pod = Pod::new();
            for name in NAMES {
                // Where another uid's directory cannot be emptied, podnudge cannot use the name.
                let is_in_the_way = uid != 1000 && plant.starts_with("mkdir");
                let is_needed = name.starts_with("publish") || name.ends_with("web.json");
                if !(is_in_the_way && is_needed) {
                    pod.plant(uid, &plant.replace("NAME", name));
                }
            }
            let agent = pod.start();
            agent.wait_for(ROLLED_OUT, 2);
            pod.scene.change("2");
            agent.wait_for(ROLLED_OUT, 4);
            assert_eq!((pod.published(), pod.application.reloads().len()), ("2".to_owned(), 4));
            wait_until("the state is saved", || {
                fs::read_to_string(pod.path("state/web.json"))
                    .is_ok_and(|text| text.contains("accepted"))
            });
            assert!(agent.stop().success());
            pod.assert_nothing_outside_was_changed();
            // Only what podnudge uses is left in the publish directory.
            let left = fs::read_dir(pod.path("publish")).unwrap();
            let left = left.filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_str().unwrap().starts_with("..podnudge-")
            });
            assert_eq!(left.count(), 0, "{plant}");
        }
    }
}

/// Directories of another uid that cannot be emptied: podnudge ends at its start, or works without, and
/// says what is in the way.
#[test]
fn what_a_neighbour_of_another_uid_puts_in_the_way_is_named() {
    let pod = Pod::new();
    pod.plant(2000, "mkdir -p state/web.json/below");
    let agent = pod.start();
    agent.wait_for(ROLLED_OUT, 2);
    wait_until("it is said", || agent.count("state-unwritable") > 0);
    assert!(agent.last("state-unreadable", "message").contains("is a directory"));
    assert!(agent.stop().success());
    for name in ["..podnudge.lock", "..podnudge.json", "..new"] {
        let pod = Pod::new();
        pod.plant(2000, &format!("mkdir -p publish/{name}/below"));
        let output = pod.podnudge().output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{text}");
        assert!(text.contains("cannot publish to `"), "{text}");
        pod.assert_nothing_outside_was_changed();
    }
}

/// A process that holds a lock. Killed at the end of its test.
struct LockHolder(Child);

impl LockHolder {
    /// Opens this file with these flags, and takes a lock of this kind.
    fn start(uid: u32, file: &str, flags: &str, lock: &str) -> Option<Self> {
        let script = "import fcntl, os, sys\n\
             fd = os.open(sys.argv[1], getattr(os, sys.argv[2]))\n\
             if sys.argv[3] == 'flock': fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
             else: fcntl.lockf(fd, getattr(fcntl, sys.argv[3]) | fcntl.LOCK_NB)\n\
             print('locked', flush=True)\n\
             sys.stdin.read()\n";
        let mut python = by(uid, "python3");
        python.args(["-c", script, file, flags, lock]);
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = Self(python.spawn().expect("python3 is installed"));
        let mut said = [0; 7];
        let stdout = holder.0.stdout.as_mut().unwrap();
        std::io::Read::read_exact(stdout, &mut said).ok().map(|()| holder)
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The application with a read-only mount of the publish directory, and podnudge's own uid.
#[test]
fn who_only_reads_the_publish_directory_can_neither_take_nor_share_its_lock() {
    in_namespace!();
    let pod = Pod::new();
    let agent = pod.start();
    agent.wait_for(ROLLED_OUT, 2);
    drop(agent);
    let (dir, lock) = (pod.path("publish"), pod.path("publish/..podnudge.lock"));
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o220);
    let seen = pod.path("seen");
    fs::create_dir(&seen).unwrap();
    for options in [&["--bind"][..], &["-o", "remount,bind,ro"]] {
        let mut mount = command("mount");
        assert!(mount.args(options).arg(&dir).arg(&seen).status().unwrap().success());
    }
    let lock = seen.join("..podnudge.lock").display().to_string();
    for flags in ["O_RDONLY", "O_WRONLY", "O_RDWR"] {
        for kind in ["LOCK_SH", "LOCK_EX", "flock"] {
            assert!(LockHolder::start(1000, &lock, flags, kind).is_none(), "{flags} {kind}");
        }
    }
    // A lock of the directory itself was what podnudge took before.
    let dir = seen.display().to_string();
    let _held = LockHolder::start(1000, &dir, "O_RDONLY", "flock").unwrap();
    let agent = pod.start();
    agent.wait_for("baseline|applied|delivered|unread", 1);
}

#[test]
fn the_holder_of_a_lock_is_named() {
    let pod = Pod::new();
    let agent = pod.start();
    agent.wait_for(ROLLED_OUT, 2);
    let refusal = || {
        let output = pod.podnudge().output().unwrap();
        assert_eq!(output.status.code(), Some(78));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = refusal();
    let named = format!(
        "another podnudge publishes to `{}`: process {} (podnudge-agent)",
        pod.path("publish").display(),
        agent.pid()
    );
    assert!(text.contains(&named), "{text}");
    drop(agent);
    let lock = pod.path("publish/..podnudge.lock").display().to_string();
    let holder = LockHolder::start(1000, &lock, "O_WRONLY", "LOCK_EX").unwrap();
    let text = refusal();
    let named = format!("..podnudge.lock`: process {} (python3)", holder.0.id());
    assert!(text.contains(&named) && text.contains("readOnly: true"), "{text}");
    drop(holder);
    pod.start().wait_for("baseline", 1);
}

/// A neighbour that can write to the directory above replaces the directories while podnudge runs.
#[test]
fn replaced_directories_are_not_written_to() {
    for (replaced, said) in [("publish", "refused"), ("state", "state-unwritable")] {
        for replacement in ["ln -s outside NAME", "mkdir -m 777 NAME", "mkfifo NAME", "true"] {
            let mut pod = Pod::new();
            fs::set_permissions(pod.scene.folder.path(), fs::Permissions::from_mode(0o777))
                .unwrap();
            let agent = pod.start();
            agent.wait_for(ROLLED_OUT, 2);
            wait_until("the state is saved", || pod.path("state/web.json").exists());
            pod.plant(2000, &format!("mv NAME moved; {replacement}").replace("NAME", replaced));
            pod.scene.change("2");
            agent.wait_for(said, 1);
            let what = agent.last(said, if said == "refused" { "reason" } else { "message" });
            assert!(what.contains("replaced while podnudge ran"), "{replacement}: {what}");
            pod.assert_nothing_outside_was_changed();
            // The neighbour puts it back.
            pod.plant(2000, &format!("rm -rf {replaced}; mv moved {replaced}"));
            wait_until("the change is applied", || pod.published() == "2");
            wait_until("the state is saved", || {
                let saved = fs::read_to_string(pod.path("state/web.json")).unwrap_or_default();
                saved.contains("accepted")
            });
            assert!(agent.stop().success());
        }
    }
}

/// A record with control characters, with too many digests, and with a reason of 1 MiB.
#[test]
fn what_a_planted_record_says_is_escaped_and_bounded() {
    let reason = |text: &str| {
        format!("{{\"digest\":\"{}\",\"message\":\"{text}\",\"hint\":\"{text}\"}}", "ab".repeat(32))
    };
    let huge = reason(&"\\u001b[31m\\u202e".repeat(20_000));
    let many = vec![reason("x\\u001b]0;title\\u0007\\ny"); 4000].join(",");
    let plants = [
        format!("{{\"bad\":[{huge}]}}"),
        format!("{{\"bad\":[{many}]}}"),
        format!("{{\"evidence\":\"\\u001b[31m{}\"}}", "x".repeat(100_000)),
        format!("{{\"good\":\"\\u001b[31m{}\"}}", "x".repeat(100_000)),
        "[".repeat(900_000),
    ];
    for plant in plants {
        let pod = Pod::new();
        fs::write(pod.path("publish/..podnudge.json"), &plant).unwrap();
        fs::set_permissions(pod.path("publish/..podnudge.json"), fs::Permissions::from_mode(0o666))
            .unwrap();
        let agent = pod.start();
        agent.wait_for(ROLLED_OUT, 2);
        let log = agent.log();
        assert!(log.len() < 50_000, "{} bytes", log.len());
        assert!(!log.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{log}");
        assert!(!log.contains("\\u001b") && !log.contains("\\u202e"), "{log}");
        wait_until("the record is bounded", || {
            let record = fs::read_to_string(pod.path("publish/..podnudge.json")).unwrap();
            record.contains("\"good\"") && record.len() < 500_000 && !record.contains("\\u001b")
        });
    }
}

/// `podnudge install` into a directory to which a neighbour can write.
#[test]
fn an_installation_writes_nothing_outside_of_its_directory() {
    for plant in PLANTS {
        let pod = Pod::new();
        for name in ["work/podnudge", "work/.podnudge.1", "work/.podnudge-0123456789abcdef"] {
            pod.plant(2000, &plant.replace("NAME", name));
        }
        let mut install = by(1000, env!("CARGO_BIN_EXE_podnudge"));
        let output = install.arg("install").arg(pod.path("work")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if plant.starts_with("mkdir") {
            assert_eq!(output.status.code(), Some(74), "{text}");
            assert!(text.contains("remove the directory `podnudge`"), "{text}");
        } else {
            assert!(output.status.success(), "{plant}: {text}");
            let installed = fs::symlink_metadata(pod.path("work/podnudge")).unwrap();
            assert!(installed.is_file() && installed.permissions().mode() & 0o7777 == 0o755);
        }
        pod.assert_nothing_outside_was_changed();
    }
}

/// A neighbour that opens a pipe for reading learns when podnudge opens it.
#[test]
fn a_planted_pipe_is_not_opened() {
    let pod = Pod::new();
    pod.plant(2000, "mkfifo -m 666 publish/..podnudge.json state/web.json");
    let open = |name: &str| {
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().try_into().unwrap();
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblocking)
            .open(pod.path(name))
            .unwrap()
    };
    let _held = [open("publish/..podnudge.json"), open("state/web.json")];
    let agent = pod.start();
    agent.wait_for(ROLLED_OUT, 2);
    assert!(agent.last("record-lost", "reason").contains("a device, pipe or socket"));
    assert!(agent.last("state-unreadable", "message").contains("a device, pipe or socket"));
}
