//! Hostile input besides the table (`shipped/hostile_table.rs`): what podnudge says of files, what links and
//! neighbours obtain, and a log that nobody reads.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::support::Scene as Pod;
use crate::support::pids::PidsLimit;
use crate::support::{
    Agent, Application, Kubelet, OTHER_USER, ask, command, in_namespace, payload, podnudge,
    wait_until,
};

/// podnudge with a rule `other` for a volume and an application, and more rules by their settings.
struct Scene {
    /// Before its folder, which holds its log: if a test fails, this is printed first.
    agent: Agent,
    folder: tempfile::TempDir,
    other: Kubelet,
    application: Application,
}

impl Scene {
    /// `FOLDER` in the rules is the folder of the scene, and `URL` that of the application.
    fn new(prepare: impl FnOnce(&Path), rules: &str) -> Self {
        Self::by(podnudge(), prepare, rules)
    }

    fn by(mut podnudge: Command, prepare: impl FnOnce(&Path), rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let mut other = Kubelet::new(folder.path().join("other"));
        other.write(&payload(&[("a.conf", "0")]));
        let application = Application::start(&other.volume, "a.conf");
        let text = format!(
            "agent = {{ log = \"json\", resync = \"1s\", work-dir = \"FOLDER\" }}\n[[rule]]\nname = \"other\"\n\
             watch = \"FOLDER/other\"\non-start = \"never\"\nsettle = \"0s\"\nhttp = {{ url = \"URL\" }}\n{rules}"
        );
        let text = text.replace("FOLDER", folder.path().to_str().unwrap());
        let file = folder.path().join("podnudge.toml");
        fs::write(&file, text.replace("URL", &application.url())).unwrap();
        podnudge.args(["--listen", "127.0.0.1:0", "--config"]).arg(file);
        let agent = Agent::spawn(folder.path(), podnudge);
        let is_of_other = |event: &serde_json::Value| event["rule"] == "other";
        wait_until("the first look at `other`", || {
            agent.events("baseline").iter().any(is_of_other)
        });
        Self { agent, folder, other, application }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The other rule is served, and podnudge answers.
    fn assert_serves(&mut self, content: &str) {
        self.other.write(&payload(&[("a.conf", content)]));
        wait_until("the other rule is served", || {
            self.application.reloads().last().is_some_and(|last| last == content)
        });
        let address = self.agent.last("started", "listen");
        assert!(ask(&address, "GET", "/livez").starts_with("HTTP/1.1 200"));
    }
}

/// A sparse file of 1 TiB.
fn huge(path: &Path) {
    fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
}

#[test]
fn a_huge_file_is_refused_and_delays_nothing() {
    let plain = "[[rule]]\nname = \"plain\"\nwatch = \"FOLDER/plain\"\non-start = \"never\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n";
    let forged = plain.replace("plain", "forged");
    // As much as is read in time even on a busy machine.
    let plain = format!("{plain}max-bytes = 1048576\n");
    let mut scene = Scene::new(
        |folder| {
            fs::create_dir(folder.join("plain")).unwrap();
            huge(&folder.join("plain/huge"));
            // It looks like a volume of the kubelet.
            fs::create_dir_all(folder.join("forged/..2026_11_22_10_00_00.1")).unwrap();
            fs::write(folder.join("forged/..2026_11_22_10_00_00.1/a"), "small").unwrap();
            symlink("..2026_11_22_10_00_00.1", folder.join("forged/..data")).unwrap();
        },
        &format!("{plain}{forged}"),
    );
    scene.agent.wait_for("unreadable", 1);
    assert!(
        scene.agent.last("unreadable", "reason").contains("/plain/huge` holds more than 1 MiB")
    );
    scene.assert_serves("1");
    let next = scene.path("forged/..2026_11_22_10_00_00.2");
    fs::create_dir(&next).unwrap();
    huge(&next.join("a"));
    symlink(next.file_name().unwrap(), scene.path("forged/..data_tmp")).unwrap();
    fs::rename(scene.path("forged/..data_tmp"), scene.path("forged/..data")).unwrap();
    scene.agent.wait_for("unreadable", 2);
    assert!(scene.agent.last("unreadable", "reason").contains("/forged/a` holds more than 64 MiB"));
    scene.assert_serves("2");
    // Many files that are not too large each.
    for n in 0..5 {
        let file = fs::File::create(scene.path(&format!("plain/{n}"))).unwrap();
        file.set_len(250 * 1024).unwrap();
    }
    fs::remove_file(scene.path("plain/huge")).unwrap();
    wait_until("the volume is too large", || {
        let reason = scene.agent.last("unreadable", "reason");
        reason.contains("/plain` holds more than 1 MiB")
    });
    scene.assert_serves("3");
    assert_eq!(scene.agent.stop().code(), Some(0));
}

/// The application has used up the processes that its pod may have (`podPidsLimit` of the kubelet).
#[test]
fn a_pod_without_processes_left_delays_work_and_ends_nothing() {
    let plain = "[[rule]]\nname = \"plain\"\nwatch = \"FOLDER/plain\"\non-start = \"never\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n";
    let mut second = None;
    let make = |folder: &Path| {
        fs::create_dir(folder.join("plain")).unwrap();
        fs::write(folder.join("plain/a"), "1").unwrap();
        second.insert(Kubelet::new(folder.join("second"))).write(&payload(&[("a", "1")]));
    };
    let mut scene = Scene::new(make, &format!("{plain}{}", plain.replace("plain", "second")));
    scene.agent.wait_for("baseline", 3);
    let limit = PidsLimit::new(scene.agent.pid());
    // A plain directory is read, and each resync is done, on a thread of its own.
    fs::write(scene.path("plain/a"), "2").unwrap();
    scene.agent.wait_for("no-thread", 1);
    // What needs no thread goes on: to read small volumes of the kubelet, and no large one.
    scene.assert_serves("1");
    let changes = |scene: &Scene, rule: &str| {
        scene.agent.events("changed").iter().filter(|event| event["rule"] == rule).count()
    };
    scene.other.write(&payload(&[("a.conf", &"x".repeat(3 << 20))]));
    second.unwrap().write(&payload(&[("a", "2")]));
    wait_until("the small one is read", || changes(&scene, "second") == 1);
    assert_eq!((changes(&scene, "other"), changes(&scene, "plain")), (1, 0));
    limit.lift();
    wait_until("all rules are served", || scene.application.reloads().len() == 4);
    assert_eq!(scene.agent.stop().code(), Some(0));
}

/// The same when podnudge starts: it has no thread for inotify either, and polls until the next resync.
#[test]
fn a_podnudge_that_starts_in_a_pod_without_processes_left_watches_later() {
    in_namespace!();
    let mut scene = Pod::with(&[("app.conf", "1")]);
    let gate = scene.path("gate");
    mkfifo(&gate, Mode::S_IRWXU).unwrap();
    let gate = gate.to_str().unwrap();
    let mut podnudge = scene.podnudge_by(&["sh", "-c", "read _ <\"$0\"; exec \"$@\"", gate]);
    podnudge.args(["--resync", "1s", "--poll", "1s", "--on-start", "never"]);
    let application = scene.application();
    podnudge.args(["--url", &application.url(), "--watch"]);
    podnudge.arg(&scene.kubelet.volume);
    let agent = Agent::spawn(scene.folder.path(), podnudge);
    let limit = PidsLimit::new(agent.pid());
    fs::write(gate, "go\n").unwrap();
    agent.wait_for("no-thread", 1);
    limit.lift();
    agent.wait_for("baseline", 1);
    agent.wait_for("watched-again", 1);
    assert_eq!(agent.count("polling"), 1);
    scene.change("2");
    wait_until("the change is served", || application.reloads() == ["2"]);
}

/// What waits for a thread then is not waited for.
#[test]
fn a_pod_without_processes_left_does_not_delay_the_end() {
    let plain = "[[rule]]\nname = \"plain\"\nwatch = \"FOLDER/plain\"\non-start = \"never\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n";
    let make = |folder: &Path| {
        fs::create_dir(folder.join("plain")).unwrap();
        fs::write(folder.join("plain/a"), "1").unwrap();
    };
    let mut scene = Scene::new(make, plain);
    scene.agent.wait_for("baseline", 2);
    let _limit = PidsLimit::new(scene.agent.pid());
    fs::write(scene.path("plain/a"), "2").unwrap();
    scene.agent.wait_for("no-thread", 1);
    scene.agent.signal(Signal::SIGTERM);
    wait_until("podnudge ends", || scene.agent.has_ended());
    assert_eq!((scene.agent.count("stopped"), scene.agent.count("grace-over")), (1, 0));
}

#[test]
fn a_fifo_is_recognised_without_opening_it() {
    let rule = "[[rule]]\nname = \"plain\"\nwatch = \"FOLDER/plain\"\non-start = \"never\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n";
    let make = |folder: &Path| {
        let plain = folder.join("plain");
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join("a"), "1").unwrap();
        mkfifo(&plain.join("fifo"), Mode::S_IRWXU).unwrap();
        symlink("fifo", plain.join("link")).unwrap();
    };
    let mut scene = Scene::new(make, rule);
    // It waits until the FIFO is opened, and goes on if that is closed at once.
    let script = "trap '' PIPE; echo x > \"$0\"; touch \"$0.opened\"; exec sleep 1000";
    let mut writer = command("sh");
    writer.args(["-c", script]).arg(scene.path("plain/fifo")).stderr(Stdio::null());
    let mut writer = writer.spawn().unwrap();
    let stat = format!("/proc/{}/stat", writer.id());
    wait_until("it waits", || fs::read_to_string(&stat).unwrap().contains(") S "));
    scene.agent.wait_for("baseline", 2);
    fs::write(scene.path("plain/a"), "2").unwrap();
    scene.agent.wait_for("applied", 1);
    scene.assert_serves("1");
    assert!(!scene.path("plain/fifo.opened").exists());
    writer.kill().unwrap();
    writer.wait().unwrap();
}

/// The content of a link that leads out of the volume is neither published nor sent nor copied.
#[test]
fn links_that_leave_the_volume_are_not_followed() {
    let publish = "[[rule]]\nname = \"publish\"\nwatch = \"FOLDER/plain\"\nsettle = \"0s\"\n\
                   ignore = [\"logs/*\"]\npublish = { dir = \"FOLDER/published\" }\nhttp = { url = \"URL\" }\n";
    let send = "[[rule]]\nname = \"send\"\nwatch = \"FOLDER/forged\"\non-start = \"always\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n\
                [[rule.check]]\nhttp = \"URL\"\n";
    let copy = "[[rule]]\nname = \"copy\"\nignore = [\"logs/*\"]\nwatch = \"FOLDER/plain\"\non-start = \"always\"\nsettle = \"0s\"\nhttp = { url = \"URL\" }\n\
                [[rule.check]]\nexec = [\"sh\", \"-c\", \"cat * > FOLDER/copied\"]\n";
    let make = |folder: &Path| {
        for name in ["plain", "forged/..2026_11_22_10_00_00.1", "published"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("secret"), "hunter2").unwrap();
        symlink("../secret", folder.join("plain/key")).unwrap();
        symlink("../../secret", folder.join("forged/..2026_11_22_10_00_00.1/key")).unwrap();
        symlink("..2026_11_22_10_00_00.1", folder.join("forged/..data")).unwrap();
        // Not even within a generation, where the kubelet makes none.
        fs::create_dir_all(folder.join("inside/..2026_11_22_10_00_00.1")).unwrap();
        fs::write(folder.join("inside/..2026_11_22_10_00_00.1/a"), "1").unwrap();
        symlink("a", folder.join("inside/..2026_11_22_10_00_00.1/key")).unwrap();
        symlink("..2026_11_22_10_00_00.1", folder.join("inside/..data")).unwrap();
        // A link within the volume is followed.
        fs::write(folder.join("plain/a"), "1").unwrap();
        symlink("a", folder.join("plain/b")).unwrap();
        symlink(folder.join("plain/a"), folder.join("plain/c")).unwrap();
        fs::create_dir(folder.join("outside")).unwrap();
        fs::write(folder.join("outside/log"), "1").unwrap();
        symlink("../outside", folder.join("plain/logs")).unwrap();
        for name in ["far", "near/..2026", "body"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        symlink("../outside", folder.join("far/..data")).unwrap();
        symlink("../outside", folder.join("near/..link")).unwrap();
        symlink("..link", folder.join("near/..data")).unwrap();
        symlink("../secret", folder.join("body/key")).unwrap();
    };
    let inside = send.replace("\"send\"", "\"inside\"").replace("forged", "inside");
    // The generation itself is elsewhere.
    let far = send.replace("\"send\"", "\"far\"").replace("forged", "far");
    let near = send.replace("\"send\"", "\"near\"").replace("forged", "near");
    let body = "[[rule]]\nname = \"body\"\nwatch = \"FOLDER/body\"\non-start = \"always\"\nsettle = \"0s\"\n\
                http = { url = \"URL\", body-file = \"FOLDER/body/key\" }\n";
    let rules = [publish, send, copy, &inside, &far, &near, body].concat();
    let mut scene = Scene::new(make, &rules);
    let refused = |rule: &str| {
        let events = scene.agent.events("check-failed|refused|retrying");
        let of_rule = |event: &&serde_json::Value| event["rule"] == rule;
        let mut reasons = events.iter().filter(of_rule).map(|event| event["reason"].to_string());
        reasons
            .next_back()
            .is_some_and(|reason| reason.contains("is a link that leads out of the volume"))
    };
    for rule in ["publish", "send", "copy", "inside", "far", "near", "body"] {
        wait_until(&format!("{rule}: it is refused"), || refused(rule));
    }
    scene.assert_serves("1");
    assert!(!scene.path("copied").exists());
    assert!(!scene.path("published/key").exists());
    fs::remove_file(scene.path("plain/key")).unwrap();
    // The links of the keys appear one after the other.
    let published = ["published/b", "published/c"];
    wait_until("the rest is published", || published.iter().all(|name| scene.path(name).exists()));
    for name in published {
        assert_eq!(fs::read_to_string(scene.path(name)).unwrap(), "1");
    }
    assert!(!scene.path("published/logs/log").exists());
}

/// Before Linux 5.6, and where a seccomp profile does not know the system call.
#[test]
fn without_openat2_no_link_is_followed_also_not_to_a_directory() {
    let publish = "[[rule]]\nname = \"publish\"\nwatch = \"FOLDER/plain\"\nsettle = \"0s\"\n\
                   publish = { dir = \"FOLDER/published\" }\nhttp = { url = \"URL\" }\n";
    let make = |folder: &Path| {
        for name in ["plain/conf.d", "outside", "published"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("plain/conf.d/a"), "1").unwrap();
        fs::write(folder.join("outside/token"), "hunter2").unwrap();
        symlink("../outside", folder.join("plain/link.d")).unwrap();
    };
    let mut old = command("strace");
    old.args(["-D", "-f", "-qqq", "-o", "/dev/null", "-e", "inject=openat2:error=ENOSYS"]);
    old.arg(env!("CARGO_BIN_EXE_podnudge"));
    let scene = Scene::by(old, make, publish);
    wait_until("it is refused", || {
        let events = scene.agent.events("check-failed|refused");
        events.iter().any(|event| {
            event["reason"].to_string().contains("is a link that leads out of the volume")
        })
    });
    assert!(!scene.path("published/link.d").exists());
    fs::remove_file(scene.path("plain/link.d")).unwrap();
    wait_until("the rest is published", || scene.path("published/conf.d/a").exists());
    assert!(!scene.path("published/link.d").exists());
}

/// A process with the same uid in the shared process namespace.
#[test]
fn a_neighbour_with_the_same_uid_obtains_nothing() {
    in_namespace!();
    let mut scene = Pod::with(&[("a.conf", "0")]);
    let application = scene.application();
    let mut podnudge = scene.podnudge_by(&OTHER_USER);
    podnudge.env("SECRET", "hunter2");
    let mut agent = scene.nudge_by(podnudge, &["--url", &application.url()]);
    let pid = agent.pid();
    let tries = [
        format!("cat /proc/{pid}/environ"),
        format!("head -c 1 /proc/{pid}/mem"),
        format!("cat /proc/{pid}/maps"),
        format!("ls /proc/{pid}/root/"),
        format!("ls /proc/{pid}/cwd/"),
        format!("ls -l /proc/{pid}/fd/"),
        format!("readlink /proc/{pid}/exe"),
    ];
    for script in tries {
        let mut as_other = command(OTHER_USER[0]);
        as_other.args(&OTHER_USER[1..]).args(["sh", "-c", &script]);
        let output = as_other.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.stdout, b"", "{script}");
        assert!(!output.status.success(), "{script}: {error}");
    }
    // What it needs of itself still works.
    let metrics = agent.get("/metrics");
    assert!(
        metrics.contains("process_open_fds ") && metrics.contains("process_start_time"),
        "{metrics}"
    );
    scene.change("1");
    agent.wait_for("applied", 1);
    assert!(!agent.has_ended());
}

/// Programs that check and act run what somebody else may have written.
#[test]
fn programs_get_nothing_that_they_do_not_need() {
    let mut scene = Pod::with(&[("a.conf", "0")]);
    let mut podnudge = scene.podnudge();
    podnudge.env("SECRET", "hunter2").env("PGPASSWORD", "for-psql");
    let agent = scene.rule_by(
        podnudge,
        "on-start = \"never\"\npass-environment = [\"PG*\"]\n\
         exec = { argv = [\"sh\", \"-c\", \"env > FOLDER/env; cat /proc/self/status > FOLDER/status; ls -l /proc/self/fd > FOLDER/fds\"] }\n\
         [agent]\nwork-dir = \"FOLDER\"",
    );
    scene.change("1");
    agent.wait_for("applied", 1);
    let environment = scene.text("env");
    let names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH") && names.contains(&"PGPASSWORD"), "{names:?}");
    let own = ["_", "PWD", "SHLVL", "OLDPWD", "PATH", "HOME", "LANG", "TZ", "TMPDIR", "PGPASSWORD"];
    let unknown = |name: &&&str| {
        !own.contains(name) && !name.starts_with("LC_") && !name.starts_with("PODNUDGE_")
    };
    assert_eq!(names.iter().find(unknown), None, "{names:?}");
    assert!(scene.text("status").contains("NoNewPrivs:\t1\n"));
    // Of podnudge's own descriptors, which are of these kinds, none is inherited.
    let fds = fs::read_to_string(scene.path("fds")).unwrap();
    for kind in ["inotify", "eventfd", "eventpoll", "socket:", "/volume"] {
        assert!(!fds.contains(kind), "{fds}");
    }
}

/// With a full pipe as its standard error, podnudge reloads, answers and ends, and says later how many
/// lines are missing.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let mut scene = Pod::with(&[("a.conf", "0")]);
    let application = scene.application();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = podnudge()
        .args(["--log", "json", "--listen", "127.0.0.1:0", "--on-start", "never", "--settle", "0s"])
        .args(["--resync", "1s", "--url", &application.url(), "--watch"])
        .arg(&scene.kubelet.volume)
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let pipe = reader.try_clone().unwrap();
    let mut seen = Vec::new();
    let text = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
    let mut read = |seen: &mut Vec<u8>| {
        let mut part = [0; 4096];
        let length = reader.read(&mut part).unwrap();
        seen.extend(&part[..length]);
    };
    while !text(&seen).contains("\"event\":\"baseline\"") {
        read(&mut seen);
    }
    // From now on the pipe is small, and nobody reads it. What it holds already has to fit.
    while fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(4096)).is_err() {
        read(&mut seen);
    }
    let log = text(&seen);
    let started = log.lines().find(|line| line.contains("\"event\":\"started\"")).unwrap();
    let started: serde_json::Value = serde_json::from_str(started).unwrap();
    let address = started["listen"].as_str().unwrap().to_owned();
    for n in 1..=30 {
        scene.change(&n.to_string());
        wait_until(&format!("reload {n}"), || application.reloads().len() == n);
    }
    assert!(ask(&address, "GET", "/livez").starts_with("HTTP/1.1 200"));
    let dropped = |page: &str| -> u64 {
        let line =
            page.lines().find_map(|line| line.strip_prefix("podnudge_log_lines_dropped_total "));
        line.unwrap().parse().unwrap()
    };
    assert!(dropped(&ask(&address, "GET", "/metrics")) > 10);
    // From now on it is read.
    while !text(&seen).contains("\"event\":\"log-dropped\"") {
        read(&mut seen);
    }
    let whole = text(&seen);
    let whole = whole.rsplit_once('\n').unwrap().0;
    for line in whole.lines().filter(|line| line.starts_with('{')) {
        let is_whole = serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(is_whole || line.len() >= 4000, "{line}");
    }
    // Nobody reads it again.
    for n in 31..=60 {
        scene.change(&n.to_string());
        wait_until(&format!("reload {n}"), || application.reloads().len() == n);
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    wait_until("podnudge ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(reader.as_raw_fd() > 0);
}
