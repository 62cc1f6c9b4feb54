//! nginx below a supervisor that has a handler for HUP itself: runit's ends its container by it, and supervisord
//! restarts all programs. And nginx beside another container that mounts the volume. The signal is for nginx.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::load::get;
use super::plain::Application;
use super::pod::Container;
use crate::support::agent::Agent;
use crate::support::kubelet::{Kubelet, payload};
use crate::support::pod::in_network;
use crate::support::program::command;
use crate::support::wait::{wait_until, wait_until_commit_is_past};

const ADDRESS: &str = "127.0.0.1:8080";
const DIR: &str = "/etc/nginx";

/// Mounts the volume in a mount namespace of its own, as a container does, and runs a program there.
const MOUNTED: &str = "mount --bind \"$0\" /etc/nginx; exec \"$@\"";

#[derive(Clone, Copy)]
enum By {
    /// None: nginx is the main process.
    Itself,
    Runit,
    Supervisord,
    SupervisordWithPhp,
}

impl By {
    /// Its command, with its configuration in this folder.
    fn command(self, folder: &Path) -> Vec<String> {
        let at = |name: &str| folder.join(name).display().to_string();
        if matches!(self, Self::Itself) {
            return ["nginx", "-c", "/etc/nginx/nginx.conf"].map(str::to_owned).to_vec();
        }
        if matches!(self, Self::Runit) {
            fs::create_dir_all(at("services/nginx")).unwrap();
            let run = at("services/nginx/run");
            fs::write(&run, "#!/bin/sh\nexec nginx -c /etc/nginx/nginx.conf\n").unwrap();
            fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
            return vec!["runsvdir".to_owned(), "-P".to_owned(), at("services")];
        }
        let mut text = format!(
            "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile={}\n\
             [program:nginx]\ncommand=nginx -c /etc/nginx/nginx.conf\nautorestart=true\n",
            at("supervisord.pid")
        );
        if matches!(self, Self::SupervisordWithPhp) {
            let pool = format!(
                "[global]\nerror_log = /dev/stderr\n[www]\nuser = www-data\nlisten = {}\npm = static\n\
                 pm.max_children = 1\n",
                at("php.sock")
            );
            fs::write(at("php-fpm.conf"), pool).unwrap();
            let php = at("php-fpm.conf");
            let program = format!("[program:php]\ncommand=php-fpm8.2 -F -O -y {php}\n");
            text += &(program + "autorestart=true\n");
        }
        fs::write(at("supervisord.conf"), text).unwrap();
        ["supervisord", "-c", &at("supervisord.conf")].map(str::to_owned).to_vec()
    }
}

/// A pod with nginx below a supervisor.
struct Scene {
    application: Container,
    /// A visible process while the container is down, as `/pause` is in a pod.
    #[expect(dead_code, reason = "it runs until it is dropped")]
    pause: Application,
    kubelet: Kubelet,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(by: By, fault: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let mut kubelet = Kubelet::new(at.join("content"));
        write(&mut kubelet, 0, fault);
        wait_until_commit_is_past(&kubelet.volume);
        let pause = Application::start("sleep", &["infinity"], &at.join("pause.log"));
        let application = container(&kubelet, by.command(at), at.join("application.log"));
        Self { application, pause, kubelet, folder }
    }

    /// Another container that mounts the volume.
    fn beside(&self, program: &[&str]) -> Container {
        let program = program.iter().map(|word| (*word).to_owned()).collect();
        container(&self.kubelet, program, self.folder.path().join("beside.log"))
    }

    fn nudge(&self, options: &[&str]) -> Agent {
        let mut line = command("unshare");
        line.args(["--mount", "sh", "-ec", MOUNTED]).arg(&self.kubelet.volume);
        line.args([env!("CARGO_BIN_EXE_podnudge"), "--log", "json", "--listen", "127.0.0.1:0"]);
        line.args(["--settle", "20ms", "--min-interval", "0s", "--watch", DIR]).args(options);
        Agent::spawn(self.folder.path(), line)
    }

    fn serves(version: usize) -> bool {
        let wanted = format!("version {version}.");
        get(ADDRESS, "/").is_ok_and(|answer| answer.contains(&wanted))
    }

    /// A good edit, a broken one and the fix: nginx alone is signalled, and nothing is restarted.
    fn assert_reloads(&mut self, agent: &Agent, evidence: &str, in_sync: &str) {
        wait_until("nginx serves", || Scene::serves(0));
        wait_until("podnudge knows what runs", || agent.count("baseline|applied|delivered") > 0);
        let supervisor = self.application.pid();
        for (version, fault) in [(1, ""), (2, "retrun 1;"), (3, "")] {
            let sent = agent.count("sent");
            write(&mut self.kubelet, version, fault);
            wait_until("nginx is signalled", || agent.count("sent") > sent);
            let target = agent.last("sent", "target");
            assert!(target.ends_with("(nginx)"), "{target}");
            if fault.is_empty() {
                wait_until("the edit is applied", || {
                    let status = agent.rule();
                    status["state"] == "idle"
                        && status["evidence"] == evidence
                        && Scene::serves(version)
                });
                assert_eq!(agent.rule()["in_sync"], in_sync, "{}", agent.log());
            } else {
                assert!(Scene::serves(version - 1), "nginx keeps what it has");
                assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
            }
        }
        assert_eq!((self.application.ends(), self.application.pid()), (0, supervisor));
        assert!(!self.application.log().contains("exited: nginx"), "{}", self.application.log());
    }
}

/// A container that mounts the volume.
fn container(kubelet: &Kubelet, program: Vec<String>, log: PathBuf) -> Container {
    let volume = kubelet.volume.display().to_string();
    let mounted = ["unshare", "--mount", "sh", "-ec", MOUNTED, &volume].map(str::to_owned);
    Container::start([mounted.to_vec(), program].concat(), log)
}

fn write(kubelet: &mut Kubelet, version: usize, fault: &str) {
    let main = format!(
        "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-supervised.pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{ access_log off; server {{ listen {ADDRESS};\n{fault} return 200 \"version {version}.\"; }} }}\n"
    );
    kubelet.write(&payload(&[("nginx.conf", &main)]));
}

#[test]
fn nginx_below_runit_is_signalled_and_its_container_does_not_end() {
    in_network(|| {
        let mut scene = Scene::new(By::Runit, "");
        wait_until("nginx serves", || Scene::serves(0));
        let agent = scene.nudge(&["--signal=HUP"]);
        scene.assert_reloads(&agent, "read", "unknown");
    });
}

#[test]
fn nginx_below_supervisord_is_found_by_the_volume_alone() {
    in_network(|| {
        let mut scene = Scene::new(By::Supervisord, "");
        wait_until("nginx serves", || Scene::serves(0));
        let agent = scene.nudge(&[]);
        scene.assert_reloads(&agent, "verified", "yes");
    });
}

#[test]
fn nginx_beside_php_below_supervisord_is_found_by_its_preset() {
    in_network(|| {
        let mut scene = Scene::new(By::SupervisordWithPhp, "");
        wait_until("nginx serves", || Scene::serves(0));
        let agent = scene.nudge(&["--preset", "nginx"]);
        scene.assert_reloads(&agent, "verified", "yes");
    });
}

#[test]
fn of_two_programs_below_supervisord_podnudge_asks_for_one_by_preset_and_process() {
    in_network(|| {
        let scene = Scene::new(By::SupervisordWithPhp, "");
        wait_until("nginx serves", || Scene::serves(0));
        let agent = scene.nudge(&[]);
        agent.wait_for("preflight", 1);
        let hint = agent.last("preflight", "hint");
        assert!(hint.contains("--preset") && hint.contains("--process"), "{hint}");
        assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
    });
}

/// The supervisor is young, and runs; nginx does not.
#[test]
fn a_supervisor_whose_nginx_is_down_runs_no_content() {
    in_network(|| {
        let mut scene = Scene::new(By::Runit, "retrun 1;");
        let agent = scene.nudge(&["--signal=HUP"]);
        wait_until("runit has started nginx again", || {
            scene.application.log().matches("retrun").count() > 2
        });
        wait_until("podnudge waits for nginx", || {
            agent.rule()["state"] == "waiting-for-target" || agent.rule()["state"] == "idle"
        });
        assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
        write(&mut scene.kubelet, 1, "");
        wait_until("nginx serves the fix", || Scene::serves(1));
        wait_until("podnudge says so", || agent.rule()["evidence"] != "none");
        assert_eq!(scene.application.ends(), 0, "{}", agent.log());
    });
}

/// The one that a preset knows, and the one that handles the signal.
#[test]
fn nginx_beside_another_container_that_mounts_the_volume_is_the_target() {
    in_network(|| {
        for (options, evidence, in_sync) in
            [(&[] as &[&str], "verified", "yes"), (&["--signal=HUP"], "read", "unknown")]
        {
            let mut scene = Scene::new(By::Itself, "");
            let beside = scene.beside(&["sleep", "infinity"]);
            wait_until("nginx serves", || Scene::serves(0));
            let agent = scene.nudge(options);
            scene.assert_reloads(&agent, evidence, in_sync);
            assert_eq!((beside.ends(), agent.count("target-chosen")), (0, 1), "{}", agent.log());
            let because = agent.last("target-chosen", "because");
            assert!(because.starts_with("a preset is for its program, and not "), "{because}");
            assert!(because.contains("(sleep"), "{because}");
        }
    });
}

/// No preset is for bash.
#[test]
fn of_two_containers_the_one_that_handles_the_signal_is_the_target() {
    in_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let mut kubelet = Kubelet::new(at.join("content"));
        write(&mut kubelet, 0, "");
        wait_until_commit_is_past(&kubelet.volume);
        let pause = Application::start("sleep", &["infinity"], &at.join("pause.log"));
        let script = "trap 'cat /etc/nginx/nginx.conf' HUP; while :; do sleep 0.1; done";
        let program = ["bash", "-c", script].map(str::to_owned).to_vec();
        let application = container(&kubelet, program, at.join("application.log"));
        let mut scene = Scene { application, pause, kubelet, folder };
        let beside = scene.beside(&["sleep", "infinity"]);
        wait_until("both run", || scene.application.pid() > 1 && beside.pid() > 1);
        let agent = scene.nudge(&["--signal=HUP"]);
        wait_until("podnudge knows what runs", || agent.count("baseline|delivered") > 0);
        write(&mut scene.kubelet, 7, "");
        wait_until("the one reads it", || scene.application.log().contains("version 7"));
        let because = agent.last("target-chosen", "because");
        assert!(because.starts_with("it alone handles SIGHUP, and not "), "{because}");
        assert_eq!((beside.ends(), scene.application.ends()), (0, 0), "{}", agent.log());
    });
}
