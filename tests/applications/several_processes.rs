//! nginx below a supervisor that has a handler for HUP itself: runit's ends its container by it, and supervisord
//! restarts all programs. And nginx beside another container that mounts the volume. The signal is for nginx.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::load::get;
use crate::support::{Agent, Container, Payload, Scene, in_network, payload, wait_until};

const ADDRESS: &str = "127.0.0.1:8080";
const DIR: &str = "/etc/nginx";

#[derive(Clone, Copy)]
enum By {
    /// None: nginx is the main process.
    Itself,
    Runit,
    Supervisord,
    SupervisordWithPhp,
}

impl By {
    /// Its command, with its configuration in the folder of the scene.
    fn command(self, scene: &Scene) -> Vec<String> {
        let php = match self {
            Self::Itself => {
                return ["nginx", "-c", "/etc/nginx/nginx.conf"].map(str::to_owned).to_vec();
            }
            Self::Runit => {
                let start = "#!/bin/sh\nexec nginx -c /etc/nginx/nginx.conf\n";
                let run = scene.write("services/nginx/run", start);
                fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
                let services = scene.filled("FOLDER/services");
                return vec!["runsvdir".to_owned(), "-P".to_owned(), services];
            }
            Self::Supervisord => "",
            Self::SupervisordWithPhp => {
                "[program:php]\ncommand=php-fpm8.2 -F -O -y FOLDER/php-fpm.conf\nautorestart=true\n"
            }
        };
        let pool = "[global]\nerror_log = /dev/stderr\n[www]\nuser = www-data\nlisten = FOLDER/php.sock\n\
                    pm = static\npm.max_children = 1\n";
        scene.write("php-fpm.conf", pool);
        let text = "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n\
                    pidfile=FOLDER/supervisord.pid\n\
                    [program:nginx]\ncommand=nginx -c /etc/nginx/nginx.conf\nautorestart=true\n";
        let file = scene.write("supervisord.conf", &[text, php].concat());
        vec!["supervisord".to_owned(), "-c".to_owned(), file]
    }
}

/// A pod whose containers mount the volume, and nginx below a supervisor.
fn start(by: By, fault: &str) -> (Scene, Container) {
    let mut scene = Scene::of(&content(0, fault)).mounted_at(DIR);
    let words = by.command(&scene);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let application = scene.container(&words, "application.log");
    (scene, application)
}

/// podnudge, when nginx serves.
fn nudge(scene: &Scene, options: &[&str]) -> Agent {
    wait_until("nginx serves", || serves(0));
    scene.nudge(&[&["--on-start", "if-newer"], options].concat())
}

fn serves(version: usize) -> bool {
    let wanted = format!("version {version}.");
    get(ADDRESS, "/").is_ok_and(|answer| answer.contains(&wanted))
}

fn content(version: usize, fault: &str) -> Payload {
    let main = format!(
        "user root;\nworker_processes 2;\ndaemon off;\npid /run/nginx-supervised.pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{ access_log off; server {{ listen {ADDRESS};\n{fault} return 200 \"version {version}.\"; }} }}\n"
    );
    payload(&[("nginx.conf", &main)])
}

/// A good edit, a broken one and the fix: nginx alone is signalled, and nothing is restarted.
fn assert_reloads(
    scene: &mut Scene,
    application: &Container,
    agent: &Agent,
    evidence: &str,
    in_sync: &str,
) {
    wait_until("podnudge knows what runs", || agent.count("baseline|applied|delivered") > 0);
    let supervisor = application.pid();
    for (version, fault) in [(1, ""), (2, "retrun 1;"), (3, "")] {
        let sent = agent.count("sent");
        scene.kubelet.write(&content(version, fault));
        agent.wait_for("sent", sent + 1);
        let target = agent.target("sent");
        assert!(target.ends_with("(nginx)"), "{target}");
        if fault.is_empty() {
            wait_until("the edit is applied", || {
                let status = agent.rule();
                status["state"] == "idle" && status["evidence"] == evidence && serves(version)
            });
            assert_eq!(agent.rule()["in_sync"], in_sync, "{}", agent.log());
        } else {
            assert!(serves(version - 1), "nginx keeps what it has");
            assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
        }
    }
    assert_eq!((application.ends(), application.pid()), (0, supervisor));
    assert!(!application.log().contains("exited: nginx"), "{}", application.log());
}

#[test]
fn nginx_below_runit_is_signalled_and_its_container_does_not_end() {
    in_network!();
    let (mut scene, application) = start(By::Runit, "");
    let agent = nudge(&scene, &["--signal=HUP"]);
    assert_reloads(&mut scene, &application, &agent, "read", "unknown");
}

#[test]
fn nginx_below_supervisord_is_found_by_the_volume_alone() {
    in_network!();
    let (mut scene, application) = start(By::Supervisord, "");
    let agent = nudge(&scene, &[]);
    assert_reloads(&mut scene, &application, &agent, "verified", "yes");
}

#[test]
fn nginx_beside_php_below_supervisord_is_found_by_its_preset() {
    in_network!();
    let (mut scene, application) = start(By::SupervisordWithPhp, "");
    let agent = nudge(&scene, &["--preset", "nginx"]);
    assert_reloads(&mut scene, &application, &agent, "verified", "yes");
}

#[test]
fn of_two_programs_below_supervisord_podnudge_asks_for_one_by_preset_and_process() {
    in_network!();
    let (scene, _application) = start(By::SupervisordWithPhp, "");
    let agent = nudge(&scene, &[]);
    agent.wait_for("preflight", 1);
    let hint = agent.last("preflight", "hint");
    assert!(hint.contains("--preset") && hint.contains("--process"), "{hint}");
    assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
}

/// The supervisor is young, and runs; nginx does not.
#[test]
fn a_supervisor_whose_nginx_is_down_runs_no_content() {
    in_network!();
    let (mut scene, application) = start(By::Runit, "retrun 1;");
    let agent = scene.nudge(&["--on-start", "if-newer", "--signal=HUP"]);
    wait_until("runit has started nginx again", || application.log().matches("retrun").count() > 2);
    wait_until("podnudge waits for nginx", || {
        agent.rule()["state"] == "waiting-for-target" || agent.rule()["state"] == "idle"
    });
    assert_ne!(agent.rule()["in_sync"], "yes", "{}", agent.log());
    scene.kubelet.write(&content(1, ""));
    wait_until("nginx serves the fix", || serves(1));
    wait_until("podnudge says so", || agent.rule()["evidence"] != "none");
    assert_eq!(application.ends(), 0, "{}", agent.log());
}

/// The one that a preset knows, and the one that handles the signal.
#[test]
fn nginx_beside_another_container_that_mounts_the_volume_is_the_target() {
    in_network!();
    for (options, evidence, in_sync) in
        [(&[] as &[&str], "verified", "yes"), (&["--signal=HUP"], "read", "unknown")]
    {
        let (mut scene, application) = start(By::Itself, "");
        let beside = scene.container(&["sleep", "infinity"], "beside.log");
        let agent = nudge(&scene, options);
        assert_reloads(&mut scene, &application, &agent, evidence, in_sync);
        assert_eq!((beside.ends(), agent.count("target-chosen")), (0, 1), "{}", agent.log());
        let because = agent.last("target-chosen", "because");
        assert!(because.starts_with("a preset is for its program, and not "), "{because}");
        assert!(because.contains("(sleep"), "{because}");
    }
}

/// No preset is for bash.
#[test]
fn of_two_containers_the_one_that_handles_the_signal_is_the_target() {
    in_network!();
    let mut scene = Scene::of(&content(0, "")).mounted_at(DIR);
    let script = "trap 'cat /etc/nginx/nginx.conf' HUP; while :; do sleep 0.1; done";
    let application = scene.container(&["bash", "-c", script], "application.log");
    let beside = scene.container(&["sleep", "infinity"], "beside.log");
    wait_until("both run", || application.pid() > 1 && beside.pid() > 1);
    let agent = scene.nudge(&["--on-start", "if-newer", "--signal=HUP"]);
    wait_until("podnudge knows what runs", || agent.count("baseline|delivered") > 0);
    scene.kubelet.write(&content(7, ""));
    wait_until("the one reads it", || application.log().contains("version 7"));
    let because = agent.last("target-chosen", "because");
    assert!(because.starts_with("it alone handles SIGHUP, and not "), "{because}");
    assert_eq!((beside.ends(), application.ends()), (0, 0), "{}", agent.log());
}
