//! The work directory, in which programs check a private copy: whether somebody else may change that copy.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Behaviour, Scene, Target, in_namespace, mount, podnudge};

/// A directory with this mode and owner.
fn directory(scene: &Scene, name: &str, mode: u32, uid: u32) -> PathBuf {
    let path = scene.path(name);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    chown(&path, Some(uid), Some(uid)).unwrap();
    path
}

/// The application, started by a shell script that ends with `exec "$@"`.
fn target(scene: &Scene, script: &str) -> Target {
    drop(fs::remove_file(scene.path("app.report")));
    scene.target_by(&["sh", "-c", script, "sh"], "app", Behaviour::Handles)
}

fn configure(scene: &Scene, work_dir: &Path) -> String {
    let config = format!(
        "agent.work-dir = \"{}\"\n[[rule]]\nname = \"web\"\nwatch = \"FOLDER/volume\"\n\
         on-start = \"never\"\ntarget = {{ process = \"app\" }}\n\
         signal = {{ name = \"HUP\" }}\n[[rule.check]]\nexec = \"true\"\n",
        work_dir.display(),
    );
    scene.write("podnudge.toml", &config)
}

/// The problems that the doctor finds, with their reasons.
fn problems(scene: &Scene, work_dir: &Path) -> Vec<(String, String)> {
    let file = configure(scene, work_dir);
    let output = podnudge().args(["doctor", "--json", "--config"]).arg(file).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = findings["rules"][0]["problems"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pair = |found: &Value| (text(&found["problem"]), text(&found["reason"]["message"]));
    problems.iter().map(pair).collect()
}

fn assert_private(scene: &Scene, work_dir: &Path) {
    assert_eq!(problems(scene, work_dir), [], "{}", work_dir.display());
}

fn assert_shared(scene: &Scene, work_dir: &Path, with: &str) {
    let problems = problems(scene, work_dir);
    let [(problem, message)] = problems.as_slice() else { panic!("{with}: {problems:?}") };
    assert_eq!(problem, "work-dir-shared");
    assert!(message.contains(with), "{message}");
}

const AS_ANOTHER: &str =
    "exec setpriv --reuid 2000 --regid 2000 --groups 3000 --inh-caps=-all \"$@\"";

#[test]
fn a_work_directory_that_others_can_change_is_reported() {
    in_namespace!();
    let scene = Scene::new();
    let own = directory(&scene, "own", 0o755, 0);
    let sticky = directory(&scene, "sticky", 0o1777, 0);
    let open = directory(&scene, "open", 0o777, 0);
    let foreign = directory(&scene, "foreign", 0o755, 2000);
    let of_group = directory(&scene, "of-group", 0o775, 0);
    chown(&of_group, None, Some(3000)).unwrap();
    let first = target(&scene, AS_ANOTHER);
    assert_private(&scene, &own);
    assert_private(&scene, &sticky);
    assert_private(&scene, Path::new("/tmp"));
    assert_shared(&scene, &open, "every user can change");
    assert_shared(&scene, &foreign, "uid 2000 can change: it owns");
    assert_shared(&scene, &of_group, "of uid 2000 can change");
    drop(first);

    // In a pod: an emptyDir has the mode 0777, and is private if no other container mounts it.
    let hosts = scene.write("etc-hosts", "127.0.0.1 localhost\n");
    mount(&["--bind", &hosts], Path::new("/etc/hosts"));
    let work = scene.path("work");
    mount(&["-t", "tmpfs", "-o", "mode=777", "tmpfs"], &work);
    let dir = work.to_str().unwrap();
    let other = |script: &str| {
        let script = script.replace("DIR", dir);
        let inner = format!("{script}; exec \\\"\\$@\\\"");
        target(&scene, &format!("exec unshare --mount sh -ec \"{inner}\" sh \"$@\""))
    };
    {
        let _same_container = target(&scene, "exec \"$@\"");
        assert_private(&scene, &work);
    }
    {
        let _same_container = target(&scene, AS_ANOTHER);
        assert_shared(&scene, &work, "of uid 2000 can change");
        assert_private(&scene, &own);
    }
    {
        let _other_container = other("umount DIR");
        assert_private(&scene, &work);
    }
    {
        let _other_container = other("mount -o remount,bind,ro DIR");
        assert_private(&scene, &work);
    }
    let _other_container = other("mount --bind DIR /mnt; umount DIR");
    assert_shared(&scene, &work, "its container mounts the directory, too");
    let mut podnudge = scene.podnudge();
    podnudge.arg("--config").arg(configure(&scene, &work));
    let agent = scene.start(podnudge, "preflight");
    assert_eq!(agent.last("preflight", "problem"), "work-dir-shared");
    assert!(agent.last("preflight", "hint").contains("podnudge's container only"));
}
