//! Applications that end on the signal: one that always does, and one that does with broken content.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::plain::{Application, volume};
use super::pod::Container;
use crate::support::agent::Agent;
use crate::support::kubelet::payload;
use crate::support::pod::in_network;
use crate::support::wait::wait_until;

/// A pod whose container is started again when it ends.
struct Scene {
    application: Container,
    agent: Agent,
    #[expect(dead_code, reason = "a visible process while the container is down, as `/pause` is")]
    pause: Application,
    #[expect(dead_code, reason = "it is there until it is dropped")]
    folder: tempfile::TempDir,
}

impl Scene {
    fn start(program: &str, arguments: &[&str], watch: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let pause = Application::start("sleep", &["infinity"], &at.join("pause.log"));
        // Each start of a container has files of its own in /run.
        let fresh =
            ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs tmpfs /run; exec \"$0\" \"$@\""];
        let words = [&fresh, &[program][..], arguments].concat();
        let words = words.into_iter().map(str::to_owned).collect();
        let application = Container::start(words, at.join("application.log"));
        wait_until("it runs", || application.pid() > 1);
        let agent = Agent::start(
            at,
            &[
                &["--watch", watch, "--process", program, "--signal", "HUP"][..],
                &["--settle", "20ms", "--min-interval", "0s", "--on-start", "never"],
            ]
            .concat(),
        );
        agent.wait_for("baseline", 1);
        Self { application, agent, pause, folder }
    }

    /// Waits until the process has run for longer than one may take to start.
    fn wait_until_old(&self) {
        wait_until("it has run for a while", || {
            let process = Path::new("/proc").join(self.application.pid().to_string());
            let started = fs::metadata(process).and_then(|process| process.modified());
            started.is_ok_and(|at| at.elapsed().unwrap_or_default() > Duration::from_secs(11))
        });
    }
}

#[test]
fn chronyd_is_not_ended_a_second_time() {
    in_network(|| {
        let mut kubelet = volume("/etc/chrony");
        let content = |version: usize| {
            let text = format!(
                "port 0\ncmdport 0\npidfile /run/chronyd-test.pid\nmaxdistance {version}\n"
            );
            payload(&[("chrony.conf", &text)])
        };
        kubelet.write(&content(1));
        let arguments = ["-x", "-d", "-f", "/etc/chrony/chrony.conf"];
        let scene = Scene::start("chronyd", &arguments, "/etc/chrony");
        scene.wait_until_old();
        kubelet.write(&content(2));
        scene.agent.wait_for("tripped", 1);
        wait_until("it was started again", || {
            scene.application.ends() == 1 && scene.application.pid() > 1
        });
        scene.wait_until_old();
        for version in 3..=4 {
            kubelet.write(&content(version));
            scene.agent.wait_for("refused", version - 2);
            let reason = scene.agent.last("refused", "reason");
            assert!(reason.starts_with("`chronyd` ends on SIGHUP: "), "{reason}");
            assert!(scene.agent.last("refused", "hint").contains("set `restart`"));
        }
        assert_eq!((scene.application.ends(), scene.agent.count("sent")), (1, 1));
        let rule = &scene.agent.status()["rules"][0];
        assert_eq!(rule["in_sync"], "no", "{rule:#}");
    });
}

/// The fix starts it, so the content has ended it, and not the signal.
#[test]
fn a_program_that_broken_content_has_ended_gets_its_signal_again() {
    in_network(|| {
        let mut kubelet = volume("/etc/app");
        let content = |version: &str| payload(&[("app.conf", version)]);
        kubelet.write(&content("1"));
        let script = "check() { ! grep -q broken /etc/app/app.conf || exit 1; }; check; trap check HUP; \
                      while :; do sleep 0.1; done";
        let scene = Scene::start("dash", &["-c", script], "/etc/app");
        scene.wait_until_old();
        kubelet.write(&content("broken"));
        scene.agent.wait_for("tripped", 1);
        kubelet.write(&content("2"));
        scene.agent.wait_for("delivered|fresh|applied", 1);
        scene.wait_until_old();
        let sent = scene.agent.count("sent");
        kubelet.write(&content("3"));
        wait_until("it is signalled", || scene.agent.count("sent") > sent);
        assert_eq!(scene.agent.count("refused"), 0, "{}", scene.agent.log());
    });
}
