//! What `k8s/e2e/run` and `k8s/lab/run` say and leave when they end in the middle: with programs in
//! place of kubectl and curl that answer as a cluster would, and parts that fail.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::pod::no_other_process;
use crate::support::program::PATH;
use crate::support::{command, in_namespace, wait_until, write_script};

/// Reads what is applied, and answers for three replicas that are ready and in sync.
const KUBECTL: &str = r#"#!/bin/sh
case "$*" in *"-f -"*) cat >/dev/null ;; esac
case "$*" in
  *"get --raw /version"*) echo '{"minor": "30"}' ;;
  *jsonpath=*ports*) echo 30000 ;;
  *jsonpath=*containerStatuses*) printf 'true true\ntrue true\ntrue true\n' ;;
  *"status --json"*) echo '{"in_sync": "yes"}' ;;
  *"get pods"*) printf 'a\nb\nc\n' ;;
  *"wait --for=condition=Ready pod/load"*) exit "${LOAD_CANNOT_START:-0}" ;;
esac
"#;
const CURL: &str = "#!/bin/sh\nfor i in 1 2 3 4 5; do echo 200; done\nexec sleep 0.1\n";

/// A copy of the scripts, and the stubs.
struct Copy(TempDir);

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s");
        let copied = command("cp").arg("-r").arg(sources).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        for (name, text) in [("kubectl", KUBECTL), ("curl", CURL)] {
            write_script(&folder.path().join("bin").join(name), text);
        }
        Self(folder)
    }

    /// Starts `k8s/e2e/run` with this text as its only part.
    fn start_part(&self, part: &str) -> Child {
        fs::write(self.0.path().join("k8s/e2e/parts/only"), part).unwrap();
        self.start("k8s/e2e/run", &[], &[("PARTS", "only")])
    }

    fn start(&self, script: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
        let path = format!("{}:{PATH}", self.0.path().join("bin").display());
        let output = fs::File::create(self.0.path().join("output")).unwrap();
        let mut command = command("bash");
        command.arg(script).args(arguments).envs(environment.iter().copied());
        command.current_dir(self.0.path()).env("PATH", path).env("TMPDIR", self.0.path());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.0.path().join("output")).unwrap()
    }

    /// Asserts that it says this, ends with 1, and leaves neither a process nor a file.
    fn ends_with(&self, mut script: Child, said: &str) {
        wait_until("the script ends", || script.try_wait().unwrap().is_some());
        let output = self.output();
        assert!(output.contains(said), "not `{said}`:\n{output}");
        assert_eq!(script.wait().unwrap().code(), Some(1), "{output}");
        no_other_process();
        let left = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["bin", "k8s", "output"]);
    }
}

/// The load and the look at the replicas go on while something fails.
#[test]
fn an_e2e_test_that_ends_in_the_middle_says_where_and_stops_its_load() {
    const LOADED: &str = ". e2e/lib-slots\nserve slots\nwatch_ready all broken\n";
    in_namespace!();
    let copy = Copy::new();
    for (broken, said) in [
        // The last line of a function.
        (
            "broken() { await 1 'it is so' false && say so; }\n",
            "FAILED: the part only ended in the middle: e2e/lib-slots:",
        ),
        (
            "deeper() { grep -q x /dev/null; }\nbroken() { deeper; }\n",
            "FAILED: the part only ended in the middle: e2e/parts/only:1: `grep -q x /dev/null` \
             ended with 1, called by e2e/parts/only:2, called by e2e/parts/only:5",
        ),
        (
            "broken() { (exit 7) | cat; }\n",
            "FAILED: the part only ended in the middle: e2e/parts/only:1: `cat` ended with 7, \
             called by e2e/parts/only:4",
        ),
        ("broken() { say \"$nothing\"; }\n", "nothing: unbound variable"),
    ] {
        copy.ends_with(copy.start_part(&[broken, LOADED].concat()), said);
    }
}

#[test]
fn an_e2e_test_that_gets_a_signal_says_where_and_stops_its_load() {
    in_namespace!();
    let copy = Copy::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // The second is like a kubectl that waits for an answer that does not come.
        for waits in ["await 600 'it is so' false", "sleep infinity"] {
            let part = format!(". e2e/lib-slots\nserve slots\nload\nlook &\nsay loaded\n{waits}\n");
            let script = copy.start_part(&part);
            wait_until("there is load", || copy.output().contains("loaded"));
            kill(Pid::from_raw(script.id().try_into().unwrap()), signal).unwrap();
            copy.ends_with(script, "FAILED: the part only ended in the middle: e2e/");
            let name = signal.as_str().trim_start_matches("SIG");
            let said = format!("was interrupted by {name}");
            assert!(copy.output().contains(&said), "{}", copy.output());
        }
    }
}

#[test]
fn a_lab_that_ends_in_the_middle_says_where() {
    in_namespace!();
    let copy = Copy::new();
    let script = copy.start("k8s/lab/run", &["reload"], &[("LOAD_CANNOT_START", "3")]);
    let said = "`kubectl --namespace \"$namespace\" \"$@\"` ended with 3, called by k8s/lab/run:";
    copy.ends_with(script, said);
    assert!(copy.output().contains("FAILED: the part reload ended in the middle: e2e/lib:"));
}

/// Failed checks do not end a part.
#[test]
fn an_e2e_test_with_failed_checks_ends_with_1() {
    in_namespace!();
    let copy = Copy::new();
    let script = copy.start_part("fail 'it is not so'\nsay 'the end'\n");
    copy.ends_with(script, "FAILED: 1 checks");
    assert!(copy.output().contains("the end"));
}

/// A process has another name than its file.
#[test]
fn the_parts_look_for_podnudge_by_the_name_that_its_process_has() {
    let wanted = format!("= {} ]", podnudge::process::marks::AGENT.to_str().unwrap());
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("k8s/e2e/parts");
    let mut found = 0;
    for part in fs::read_dir(parts).unwrap() {
        let text = fs::read_to_string(part.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.contains("[ \"$name\" = podnudge")) {
            assert!(line.contains(&wanted), "{line}");
            found += 1;
        }
    }
    assert_eq!(found, 2);
}
