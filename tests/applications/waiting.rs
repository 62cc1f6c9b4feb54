//! Real applications that take signals without a handler: named waits for them in its main thread,
//! mariadbd in another one, and keepalived reads them from a signalfd. Each is started by an init. podnudge
//! runs as the uid of the application, without capabilities but for keepalived, which needs them itself.

use std::fs;

use serde_json::Value;

use super::presets::{Class, Seen};
use crate::support::wait::LIMIT;
use crate::support::{
    Payload, ROLLED_OUT, Scene, command, in_network, is_within, payload, wait_until,
};

struct Subject {
    process: &'static str,
    uid: &'static str,
    /// `{dir}` is the volume, and `{run}` another directory; also in the content.
    command: &'static [&'static str],
    key: &'static str,
    content: &'static str,
    /// Whether it has started, and then reloaded this often. The argument is its output.
    has_reloaded: fn(&str, usize) -> bool,
}

fn gets_the_signal(subject: &Subject) {
    let mut scene = Scene::of(&Payload::new());
    let run = scene.path("run");
    fs::create_dir(&run).unwrap();
    command("chown").arg(subject.uid).arg(&run).status().unwrap();
    let dir = scene.kubelet.volume.display().to_string();
    let filled = |text: &str, version: usize| {
        let text = text.replace("{dir}", &dir).replace("{run}", run.to_str().unwrap());
        text.replace("{version}", &format!("version-{version}"))
    };
    let content = |version| payload(&[(subject.key, filled(subject.content, version).as_str())]);
    scene.kubelet.write(&content(0));
    let ids = [format!("--reuid={}", subject.uid), format!("--regid={}", subject.uid)];
    let user = ["setpriv", &ids[0], &ids[1], "--clear-groups", "--no-new-privs"];
    let command: Vec<String> = subject.command.iter().map(|word| filled(word, 0)).collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (pid, log) = scene.run(&[&user[..], &command].concat());
    let output = || fs::read_to_string(&log).unwrap();
    assert!(is_within(LIMIT, || (subject.has_reloaded)(&output(), 0)), "{}", output());
    // Of a process with more capabilities, podnudge may not read whether it waits for signals.
    let bounds: &[&str] = if subject.uid == "0" { &[] } else { &["--bounding-set=-all"] };
    let podnudge = scene.podnudge_by(&[&user[..], bounds].concat());
    let options = ["--signal", "HUP", "--alive-for", "500ms", "--cmdline", subject.process];
    let agent = scene.nudge_by(podnudge, &options);
    for version in 1..=2 {
        scene.kubelet.write(&content(version));
        agent.wait_for(ROLLED_OUT, version);
        wait_until("the application has reloaded", || (subject.has_reloaded)(&output(), version));
    }
    assert!(agent.target("sent").ends_with(&format!(" ({})", subject.process)));
    let problems = agent.events("preflight");
    let is_handled = |problem: &Value| problem["problem"] != "signal-not-handled";
    assert!(agent.count("refused") == 0 && problems.iter().all(is_handled), "{}", agent.log());
    assert!(fs::exists(format!("/proc/{pid}/exe")).unwrap(), "{}", output());
}

fn count(output: &str, text: &str) -> usize {
    output.matches(text).count()
}

#[test]
fn named_gets_the_signal_below_dumb_init() {
    in_network!();
    gets_the_signal(&Subject {
        process: "named",
        uid: "65532",
        command: &["dumb-init", "named", "-g", "-c", "{dir}/named.conf"],
        key: "named.conf",
        content: "options { directory \"{run}\"; pid-file \"{run}/pid\"; session-keyfile \"{run}/key\"; \
            listen-on port 5353 { 127.0.0.1; }; listen-on-v6 { none; }; version \"{version}\"; \
            recursion no; };\ncontrols { };\n",
        has_reloaded: |_, version| Seen::Dns(Class::Chaos).shows(&format!("version-{version}")),
    });
}

#[test]
fn mariadbd_gets_the_signal_below_tini() {
    in_network!();
    gets_the_signal(&Subject {
        process: "mariadbd",
        uid: "65532",
        command: &[
            "tini",
            "--",
            "mariadbd",
            "--no-defaults",
            "--skip-grant-tables",
            "--skip-networking",
            "--innodb-buffer-pool-size=8M",
            "--datadir={run}",
            "--socket={run}/socket",
            "--pid-file={run}/pid",
        ],
        key: "my.cnf",
        content: "# {version}\n",
        has_reloaded: |output, times| {
            output.contains("ready for connections")
                && count(output, "Status information:") >= times
        },
    });
}

#[test]
fn keepalived_gets_the_signal_below_tini() {
    in_network!();
    for arguments in [
        &["link", "add", "one", "type", "veth", "peer", "name", "other"][..],
        &["address", "add", "192.0.2.1/24", "dev", "one"],
        &["link", "set", "one", "up"],
        &["link", "set", "other", "up"],
    ] {
        assert!(command("ip").args(arguments).status().unwrap().success());
    }
    gets_the_signal(&Subject {
        process: "keepalived",
        uid: "0",
        command: &[
            "tini",
            "--",
            "keepalived",
            "--vrrp",
            "--dont-fork",
            "--log-console",
            "--use-file={dir}/keepalived.conf",
            "--pid={run}/pid",
            "--vrrp_pid={run}/vrrp-pid",
        ],
        key: "keepalived.conf",
        content: "# {version}\nvrrp_instance one {\n interface one\n virtual_router_id 51\n \
            priority 100\n virtual_ipaddress {\n  192.0.2.9\n }\n}\n",
        has_reloaded: |output, times| {
            output.contains("Startup complete") && count(output, "Reload complete") >= times
        },
    });
}
