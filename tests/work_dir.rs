//! The work directory, in which programs check a private copy: whether somebody else may change that copy.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::{Behaviour, Target, in_namespace};
use crate::support::program::{command, podnudge};

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Its target may have another uid.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut kubelet = Kubelet::new(folder.path().join("volume"));
        kubelet.write(&payload(&[("app.conf", "1")]));
        Self { folder }
    }

    /// A directory with this mode and owner.
    fn directory(&self, name: &str, mode: u32, uid: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(uid), Some(uid)).unwrap();
        path
    }

    /// An emptyDir.
    fn empty_dir(&self, name: &str) -> PathBuf {
        let path = self.directory(name, 0o755, 0);
        run("mount", &["-t", "tmpfs", "-o", "mode=777", "tmpfs", path.to_str().unwrap()]);
        path
    }

    /// The application, started by a shell script that ends with `exec "$@"`.
    fn target(&self, script: &str) -> Target {
        drop(fs::remove_file(self.folder.path().join("app.report")));
        Target::start_by(self.folder.path(), "app", Behaviour::Handles, |program| {
            let mut shell = command("sh");
            shell.args(["-c", script, "sh"]).arg(program);
            shell
        })
    }

    fn configure(&self, work_dir: &Path) -> PathBuf {
        let file = self.folder.path().join("podnudge.toml");
        let config = format!(
            "agent = {{ work-dir = \"{}\", log = \"json\", listen = \"off\" }}\n[[rule]]\nname = \"web\"\n\
             watch = \"{}\"\non-start = \"never\"\ntarget = {{ process = \"app\" }}\n\
             signal = {{ name = \"HUP\" }}\n[[rule.check]]\nexec = \"true\"\n",
            work_dir.display(),
            self.folder.path().join("volume").display()
        );
        fs::write(&file, config).unwrap();
        file
    }

    /// The problems that the doctor finds, with their reasons.
    fn problems(&self, work_dir: &Path) -> Vec<(String, String)> {
        let file = self.configure(work_dir);
        let output = podnudge().args(["doctor", "--json", "--config"]).arg(file).output().unwrap();
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = findings["rules"][0]["problems"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = |found: &Value| (text(&found["problem"]), text(&found["reason"]["message"]));
        problems.iter().map(pair).collect()
    }

    fn assert_private(&self, work_dir: &Path) {
        assert_eq!(self.problems(work_dir), [], "{}", work_dir.display());
    }

    fn assert_shared(&self, work_dir: &Path, with: &str) {
        let problems = self.problems(work_dir);
        let [(problem, message)] = problems.as_slice() else { panic!("{with}: {problems:?}") };
        assert_eq!(problem, "work-dir-shared");
        assert!(message.contains(with), "{message}");
    }
}

fn run(program: &str, arguments: &[&str]) {
    assert!(command(program).args(arguments).status().unwrap().success(), "{arguments:?}");
}

const AS_ANOTHER: &str =
    "exec setpriv --reuid 2000 --regid 2000 --groups 3000 --inh-caps=-all \"$@\"";

#[test]
fn a_work_directory_that_others_can_change_is_reported() {
    in_namespace(|| {
        let scene = Scene::new();
        let own = scene.directory("own", 0o755, 0);
        let sticky = scene.directory("sticky", 0o1777, 0);
        let open = scene.directory("open", 0o777, 0);
        let foreign = scene.directory("foreign", 0o755, 2000);
        let of_group = scene.directory("of-group", 0o775, 0);
        chown(&of_group, None, Some(3000)).unwrap();
        let target = scene.target(AS_ANOTHER);
        scene.assert_private(&own);
        scene.assert_private(&sticky);
        scene.assert_private(Path::new("/tmp"));
        scene.assert_shared(&open, "every user can change");
        scene.assert_shared(&foreign, "uid 2000 can change: it owns");
        scene.assert_shared(&of_group, "of uid 2000 can change");
        drop(target);

        // In a pod: an emptyDir has the mode 0777, and is private if no other container mounts it.
        let hosts = scene.folder.path().join("etc-hosts");
        fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
        run("mount", &["--bind", hosts.to_str().unwrap(), "/etc/hosts"]);
        let work = scene.empty_dir("work");
        let dir = work.to_str().unwrap();
        let other = |script: &str| {
            let script = script.replace("DIR", dir);
            let inner = format!("{script}; exec \\\"\\$@\\\"");
            scene.target(&format!("exec unshare --mount sh -ec \"{inner}\" sh \"$@\""))
        };
        {
            let _same_container = scene.target("exec \"$@\"");
            scene.assert_private(&work);
        }
        {
            let _same_container = scene.target(AS_ANOTHER);
            scene.assert_shared(&work, "of uid 2000 can change");
            scene.assert_private(&own);
        }
        {
            let _other_container = other("umount DIR");
            scene.assert_private(&work);
        }
        {
            let _other_container = other("mount -o remount,bind,ro DIR");
            scene.assert_private(&work);
        }
        let _other_container = other("mount --bind DIR /mnt; umount DIR");
        scene.assert_shared(&work, "its container mounts the directory, too");
        let mut command = podnudge();
        command.arg("--config").arg(scene.configure(&work));
        let agent = Agent::spawn(scene.folder.path(), command);
        agent.wait_for("preflight", 1);
        assert_eq!(agent.last("preflight", "problem"), "work-dir-shared");
        assert!(agent.last("preflight", "hint").contains("podnudge's container only"));
    });
}
