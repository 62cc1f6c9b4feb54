//! The state directory that cannot be used: podnudge works without it, says so, and uses it again as soon as
//! that is possible.

use std::fs;
use std::os::unix::fs::chown;

use serde_json::Value;

use crate::support::{Scene, command, in_namespace, wait_until};

/// What is wrong, what the message says of it, and the commands that cause and fix it in `$1`.
type Fault = (&'static str, &'static [&'static str], &'static str, &'static str);

const FAULTS: &[Fault] = &[
    (
        "no inodes",
        &["No space left", "inodes"],
        "mount -t tmpfs -o nr_inodes=1,mode=777 tmpfs $1",
        "mount -o remount,nr_inodes=100 $1",
    ),
    (
        "no space",
        &["No space left", "sizeLimit"],
        "mount -t tmpfs -o size=64k,mode=777 tmpfs $1; ! head -c 1M /dev/zero > $1/filler",
        "rm $1/filler",
    ),
    (
        "a read-only mount",
        &["Read-only", "mount an emptyDir"],
        "mount -t tmpfs -o ro tmpfs $1",
        "mount -o remount,rw,mode=777 $1",
    ),
    (
        "a directory that cannot be listed",
        &["Permission denied", "uid 1000"],
        "chmod 300 $1",
        "chmod 700 $1",
    ),
    (
        "a directory of root",
        &["Permission denied", "uid 1000"],
        "chown root $1; chmod 700 $1",
        "chown 1000 $1",
    ),
    ("a file", &["Not a directory", "must name a directory"], "rmdir $1; echo > $1", "rm $1"),
    (
        "nothing that can be created",
        &["Permission denied"],
        "cd $1/..; rmdir $1; chown root .; chmod 755 .",
        "mkdir $1; chown 1000 $1",
    ),
];

/// The same for each fault, also when it comes later, by a podnudge that is not root.
#[test]
fn a_state_directory_that_cannot_be_used_ends_nothing_and_is_used_again() {
    in_namespace!();
    for (fault, parts, cause, fix) in FAULTS {
        println!("{fault}");
        let mut scene = Scene::with(&[("app.conf", "1")]);
        let application = scene.application();
        let state = scene.path("own/state");
        fs::create_dir_all(&state).unwrap();
        for path in [state.parent().unwrap(), &state] {
            chown(path, Some(1000), Some(1000)).unwrap();
        }
        let run = |script: &str| {
            let script = script.replace("$1", state.to_str().unwrap());
            let mut shell = command("sh");
            let done = shell.args(["-ec", &script]).current_dir("/").output().unwrap();
            assert!(done.status.success(), "{script}: {done:?}");
        };
        run(cause);
        let file = scene.write(
            "podnudge.toml",
            &format!(
                "agent = {{ resync = \"1s\", listen = \"off\", log = \"json\", state-dir = \"FOLDER/own/state\" }}\n\
                 [[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\non-start = \"never\"\nhttp.url = \"{}\"\n",
                application.url()
            ),
        );
        let by = |subcommand: &str| {
            let mut podnudge = command("setpriv");
            podnudge.args(["--reuid", "1000", "--regid", "1000", "--clear-groups"]);
            podnudge.args([env!("CARGO_BIN_EXE_podnudge"), subcommand, "--config"]).arg(&file);
            podnudge
        };
        let doctor = by("doctor").arg("--json").output().unwrap();
        let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        assert_eq!(findings["problems"][0]["problem"], "state-dir-unusable", "{findings:#}");

        let mut agent = scene.start(by("run"), "preflight");
        assert_eq!(agent.last("preflight", "problem"), "state-dir-unusable");
        let said = agent.last("preflight", "reason") + &agent.last("preflight", "hint");
        for part in *parts {
            assert!(said.contains(part), "{fault}: `{part}` is not in: {said}");
        }
        scene.roll_out(&agent, "2");
        assert_eq!(application.reloads(), ["2"]);
        run(fix);
        agent.wait_for("preflight-solved", 1);
        let saved = || fs::read_to_string(state.join("web.json")).unwrap_or_default();
        wait_until("what was not saved is saved", || saved().contains("accepted"));
        // Said once, and not once for each attempt.
        assert_eq!(agent.count("preflight|state-unwritable"), 1, "{}", agent.log());
        assert!(!agent.has_ended());
        assert!(agent.stop().success());
    }
}

/// A neighbour that can write to the state directory.
#[test]
fn a_planted_state_file_is_said_and_replaced() {
    in_namespace!();
    let plants = [
        ("ln -s /etc/passwd $1", "a symbolic link"),
        ("mkfifo $1", "a device, pipe or socket"),
        ("mkdir -p $1/below", "a directory"),
        ("head -c 1M /dev/zero > $1", "larger than 64 KiB"),
        (
            "printf '{\"version\":3,\"clock\":{\"wall\":0,\"since-boot\":0,\"boot\":null},\"memory\":{\"known\":{\"running\":\"\\033[2J\",\"evidence\":\"none\",\"at\":1}}}' > $1",
            "holds no digest",
        ),
    ];
    for (plant, said) in plants {
        let mut scene = Scene::with(&[("app.conf", "1")]);
        let application = scene.application();
        let state = scene.path("state");
        fs::create_dir(&state).unwrap();
        let file = state.join("default.json");
        let script = plant.replace("$1", file.to_str().unwrap());
        assert!(command("sh").args(["-c", &script]).status().unwrap().success());
        let before = fs::read("/etc/passwd").unwrap();
        let options = ["--on-start", "if-newer", "--state-dir", "FOLDER/state", "--url"];
        let agent = scene.nudge(&[&options[..], &[&application.url()]].concat());
        let message = agent.last("state-unreadable", "message");
        assert!(message.contains(said), "{plant}: {message}");
        assert!(message.len() < 300 && !agent.log().contains('\u{1b}'), "{message}");
        scene.roll_out(&agent, "2");
        wait_until("the state is saved", || {
            let found = fs::symlink_metadata(&file).unwrap();
            found.is_file() && fs::read_to_string(&file).unwrap().contains("accepted")
        });
        assert_eq!(fs::read("/etc/passwd").unwrap(), before);
        let names = fs::read_dir(&state).unwrap().count();
        assert_eq!(names, 1, "{plant}");
    }
}
