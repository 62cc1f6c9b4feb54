//! What neighbours choose is escaped in every output: the names, arguments, executables, control groups and
//! mounts of processes, and the text of a planted record.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use podnudge::volume::scan;
use podnudge_config::KeyFilter;
use podnudge_core::snapshot;

use crate::support::{
    Agent, Behaviour, Scene, Target, ask, command, in_namespace, podnudge, wait_until,
};

/// It clears the screen, breaks the line, ends a string, and turns the text around.
const NAME: &str = "a\u{1b}[2J\n\"'\u{202e}\u{7}";

/// A control group with a hostile name. Removed when its processes have ended.
struct Group(PathBuf);

impl Group {
    fn new(pid: u32) -> Self {
        let v1 = Path::new("/sys/fs/cgroup/pids");
        let root = if v1.exists() { v1 } else { Path::new("/sys/fs/cgroup") };
        // A line feed is not allowed there.
        let name = format!("podnudge-test-{}-{}", std::process::id(), NAME.replace('\n', ""));
        let group = root.join(name);
        fs::create_dir_all(&group).unwrap();
        // In the number of the namespace of the writer.
        fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
        Self(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After a failed test, the process is still there.
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            drop(fs::write(self.0.with_file_name("cgroup.procs"), pid));
        }
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

fn bind(from: &Path, to: &Path) {
    assert!(command("mount").arg("--bind").args([from, to]).status().unwrap().success());
}

#[test]
fn what_neighbours_choose_is_escaped_in_every_output() {
    in_namespace!();
    let scene = Scene::new();
    let root = scene.folder.path();
    bind(&scene.kubelet.volume, &scene.kubelet.volume);
    let generation = fs::canonicalize(scene.kubelet.volume.join("..data")).unwrap();
    // Its name, and the place where it mounts the volume by subPath.
    let target = Target::start_by(root, NAME, Behaviour::Handles, |program| {
        let script =
            "umount \"$1\" && mkdir \"$0\" && mount --bind \"$2\" \"$0\" && shift 2 && exec \"$@\"";
        let mut unshare = command("unshare");
        unshare.args(["--mount", "sh", "-c", script]);
        unshare.arg(root.join(format!("mount {NAME}")));
        unshare.arg(&scene.kubelet.volume).arg(&generation).arg(program);
        unshare
    });
    fs::write(root.join("app.pid"), target.pid().to_string()).unwrap();
    // Its executable, its arguments, and its control group.
    let program = root.join(format!("program {NAME}"));
    fs::copy("/bin/sleep", &program).unwrap();
    let mut other = command(program).arg0(format!("argument {NAME}")).arg("1000").spawn().unwrap();
    let group = Group::new(other.id());
    // The content on disk is said to have failed.
    let published = root.join("published");
    fs::create_dir(&published).unwrap();
    let found = scan::read(&scene.kubelet.volume, &KeyFilter::default()).unwrap().snapshot.unwrap();
    // A reason may have several lines.
    let said = format!("planted {}", NAME.replace('\n', ""));
    let bad = serde_json::json!({
        "digest": snapshot::digest([found.digest()]).to_string(), "message": said, "hint": said
    });
    let record = serde_json::json!({ "bad": [bad] }).to_string();
    fs::write(published.join("..podnudge.json"), record).unwrap();
    let rule = |name: &str, settings: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nwatch = \"{}\"\n{settings}\n",
            scene.kubelet.volume.display()
        )
    };
    let config = [
        "agent = { log = \"json\", resync = \"1s\" }\n".to_owned(),
        rule("mounts", "signal = { name = \"HUP\" }"),
        rule(
            "pidfile",
            &format!(
                "signal = {{ name = \"HUP\" }}\ntarget = {{ pidfile = \"{}/app.pid\" }}",
                root.display()
            ),
        ),
        rule("arguments", "signal = { name = \"HUP\" }\ntarget = { cmdline = \"^argument \" }"),
        rule("nothing", "signal = { name = \"HUP\" }\ntarget = { process = \"nothing\" }"),
        rule(
            "published",
            &format!(
                "publish = {{ dir = \"{}\" }}\nexec = {{ argv = \"true\" }}",
                published.display()
            ),
        ),
    ];
    let file = root.join("podnudge.toml");
    fs::write(&file, config.concat()).unwrap();
    let mut start = podnudge();
    start.args(["--listen", "127.0.0.1:0", "--config"]).arg(&file);
    let agent = Agent::spawn(root, start);
    agent.wait_for("preflight", 2);
    let address = agent.last("started", "listen");
    let body = |path: &str| {
        let answer = ask(&address, "GET", path);
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    wait_until("the record is shown", || body("/status").contains("planted"));
    let url = format!("http://{address}");
    let output = |arguments: &[&str]| {
        let output = podnudge().args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let doctor = ["doctor", "--listen", "off", "--config", file.to_str().unwrap()];
    let as_json = [&doctor[..], &["--json"]].concat();
    let shown = [
        ("/status", body("/status"), 4),
        ("/metrics", body("/metrics"), 0),
        ("/readyz", body("/readyz"), 0),
        ("the log", agent.log(), 3),
        ("podnudge status", output(&["status", "--url", &url]), 4),
        ("podnudge status --json", output(&["status", "--json", "--url", &url]), 4),
        ("podnudge doctor", output(&doctor), 3),
        ("podnudge doctor --json", output(&as_json), 3),
    ];
    for (place, text, least) in shown {
        assert!(!text.is_empty(), "{place}");
        let raw = |c: char| (c != '\n' && c.is_control()) || c == '\u{202e}';
        assert!(!text.contains(raw), "{place}: {text:?}");
        // JSON that is read back has the escapes still.
        for escape in ["\\u001b", "\\u0007", "\\u202e"] {
            assert!(!text.contains(escape), "{place}, {escape}: {text}");
        }
        assert!(!text.lines().any(|line| line.starts_with(['"', '\''])), "{place}: {text}");
        assert!(text.matches("u{1b}[2J").count() >= least, "{place}: {text}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    drop(group);
}
