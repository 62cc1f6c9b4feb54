//! Actions on real processes: restarts, programs and commands, their order, and what follows when
//! they fail. Tests with a target run in their own pid namespace, so that other processes of the
//! machine do not matter.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread;

use crate::support::{
    Kubelet, ROLLED_OUT, Scene, in_namespace, payload, requests, wait_until,
    wait_until_commit_is_past,
};

fn start() -> Scene {
    let scene = Scene::with(&[("app.conf", "1")]);
    // Otherwise podnudge could not know whether the application has read this content, and would act.
    wait_until_commit_is_past(&scene.kubelet.volume);
    scene
}

const TARGET: &str = "target = { cmdline = \"^sh -c .* FOLDER$\" }\nmin-interval = \"0s\"\n\
                      verify = { alive-for = \"200ms\" }\n\
                      retry = { first = \"100ms\", max = \"200ms\", attempts = 2 }\n";
/// The same, and an exit within 5 s of a signal counts as caused by it, however busy the machine is.
fn target_that_exits() -> String {
    TARGET.replace("alive-for = \"200ms\"", "alive-for = \"5s\"")
}

const RUNS: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

#[test]
fn a_restart_is_applied_when_the_new_process_survives_alive_for() {
    in_namespace!();
    let mut pod = start();
    let application = pod.supervised(RUNS);
    let agent = pod.rule(&format!("{TARGET}restart = {{ grace = \"10s\" }}"));
    for n in 1..=2 {
        pod.roll_out(&agent, &format!("{n} and more"));
        assert_eq!((agent.count("restarted"), application.starts()), (n, n + 1));
    }
    assert_eq!(agent.count("tripped"), 0);
}

#[test]
fn a_target_that_ignores_term_is_killed_after_the_grace_period() {
    in_namespace!();
    let mut pod = start();
    let application = pod.supervised("trap '' TERM; while :; do sleep 0.05; done");
    let agent = pod.rule(&format!("{TARGET}restart = {{ grace = \"300ms\" }}"));
    pod.roll_out(&agent, "2");
    assert_eq!(application.starts(), 2);
}

#[test]
fn restarts_beyond_the_budget_are_held() {
    in_namespace!();
    let mut pod = start();
    let application = pod.supervised(RUNS);
    let agent = pod.rule(&format!("{TARGET}restart = {{ most = 1, within = \"1h\" }}"));
    pod.roll_out(&agent, "2");
    pod.change("3");
    agent.wait_for("held", 1);
    assert_eq!(application.starts(), 2);
}

/// One Helm release changes two volumes: one rule reloads the target, and the other restarts it.
#[test]
fn a_restart_by_another_rule_quarantines_no_content() {
    in_namespace!();
    let mut pod = start();
    fs::create_dir(pod.path("config")).unwrap();
    let mut env = Kubelet::new(pod.path("env"));
    env.write(&payload(&[("b", "1")]));
    let application =
        pod.supervised("trap ':' HUP; trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let target = "target = { cmdline = \"^sh -c .* FOLDER$\" }\n";
    let conf = "name = \"conf\"\npublish = { dir = \"FOLDER/config\" }\n\
                signal = { name = \"HUP\" }\nverify = { alive-for = \"2s\" }\n";
    let other = "[[rule]]\nname = \"env\"\nwatch = [\"FOLDER/env\"]\nsettle = \"0s\"\n\
                 on-start = \"never\"\nrestart = { grace = \"5s\" }\n\
                 verify = { alive-for = \"500ms\" }\n";
    let agent = pod.rule(&format!("{conf}{target}{other}{target}"));
    wait_until("the first content is applied", || agent.count(ROLLED_OUT) == 1);
    pod.change("2");
    agent.wait_for("sent", 1);
    env.write(&payload(&[("b", "2")]));
    agent.wait_for("restarted", 1);
    // The new process proves both contents.
    agent.wait_for(ROLLED_OUT, 3);
    assert_eq!((agent.count("rolling-back"), agent.count("tripped")), (0, 0));
    assert_eq!(application.starts(), 2);
    assert_eq!(pod.text("config/app.conf"), "2");
}

/// The rules name different processes of one container: the application, and the init above it.
#[test]
fn a_restart_of_an_ancestor_by_another_rule_quarantines_no_content() {
    in_namespace!();
    let mut pod = start();
    fs::create_dir(pod.path("config")).unwrap();
    let mut env = Kubelet::new(pod.path("env"));
    env.write(&payload(&[("b", "1")]));
    symlink("/bin/bash", pod.path("app")).unwrap();
    pod.write("script", "trap 'cat FOLDER/config/..data/* >/dev/null' HUP; trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let application = pod.supervised("exec tini -- \"$0/app\" -c \"$(cat \"$0/script\")\" \"$0\"");
    let conf = "name = \"conf\"\npublish = { dir = \"FOLDER/config\" }\ntarget = \"app\"\n\
                signal = \"HUP\"\nverify = { alive-for = \"1s\" }\n";
    let other = "[[rule]]\nname = \"env\"\nwatch = [\"FOLDER/env\"]\nsettle = \"200ms\"\n\
                 on-start = \"never\"\nrestart = { grace = \"5s\" }\ntarget.cmdline = \"^tini .* FOLDER$\"\n\
                 verify = { alive-for = \"500ms\" }\n";
    let agent = pod.rule(&format!("{conf}{other}"));
    wait_until("the first content is applied", || agent.count(ROLLED_OUT) == 1);
    // Each rule has found its target.
    pod.roll_out(&agent, "2");
    env.write(&payload(&[("b", "2")]));
    agent.wait_for(ROLLED_OUT, 3);
    pod.change("3");
    env.write(&payload(&[("b", "3")]));
    agent.wait_for(ROLLED_OUT, 5);
    let problems = agent.count("rolling-back|tripped|halted|gave-up");
    assert_eq!(problems, 0, "{}", agent.log());
    assert_eq!(application.starts(), 3, "{}", agent.log());
    assert_eq!(pod.text("config/app.conf"), "3");
}

/// The application reads its content only when it starts, and exits at once if it is broken.
#[test]
fn content_that_the_application_cannot_start_with_is_rolled_back() {
    in_namespace!();
    let mut pod = start();
    fs::create_dir(pod.path("config")).unwrap();
    let publish = format!("{TARGET}publish = {{ dir = \"FOLDER/config\" }}\nrestart = {{}}\n");
    let config = pod.path("config/app.conf");
    let script = format!("! grep -qs broken '{}' || exit 1; {RUNS}", config.display());
    let application = pod.supervised(&script);
    let agent = pod.rule(&publish);
    wait_until("the first content is applied", || agent.count(ROLLED_OUT) == 1);
    pod.change("broken");
    agent.wait_for("rolled-back", 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), "1");
    assert!(agent.last("rolling-back", "reason").contains("ended"), "{}", agent.log());
    pod.roll_out(&agent, "2");
    assert_eq!(fs::read_to_string(&config).unwrap(), "2");
    drop(application);
}

/// A slow proof: by the time it is given, the application has exited because of the content.
#[test]
fn a_proof_given_after_the_application_exited_does_not_count() {
    in_namespace!();
    let mut pod = start();
    fs::create_dir(pod.path("config")).unwrap();
    let (config, starts) = (pod.path("config/app.conf"), pod.path("starts"));
    let (shown, starts) = (config.display(), starts.display());
    let dies = format!("if grep -q broken '{shown}'; then sleep 0.5; exit 1; fi");
    let application = pod.supervised(&format!("trap \"{dies}\" HUP; while :; do sleep 0.05; done"));
    let proof = format!(
        "! grep -q broken '{shown}' || until [ $(wc -l < '{starts}') = 2 ]; do sleep 0.05; done"
    );
    let settings = format!(
        "target = {{ cmdline = \"^sh -c .* FOLDER$\" }}\n\
         publish = {{ dir = \"FOLDER/config\" }}\nsignal = {{ name = \"HUP\" }}\n\
         verify = {{ alive-for = \"100ms\", attempt-timeout = \"20s\", \
         exec = [\"sh\", \"-c\", \"{proof}\"] }}\n"
    );
    let agent = pod.rule(&settings);
    agent.wait_for(ROLLED_OUT, 1);
    pod.change("broken");
    wait_until("the rollout has an outcome", || {
        agent.count("rolled-back") + agent.count(ROLLED_OUT) == 2
    });
    assert_eq!((agent.count(ROLLED_OUT), application.starts()), (1, 2), "{}", agent.log());
    assert_eq!(fs::read_to_string(&config).unwrap(), "1");
}

/// The application ignores the reload, and reads its content only when it starts.
#[test]
fn a_reload_without_effect_is_escalated_to_a_restart() {
    in_namespace!();
    let mut pod = start();
    let seen = pod.path("seen");
    let script = format!(
        "cp '{}' '{}'; trap : HUP; trap 'exit 0' TERM; while :; do sleep 0.05; done",
        pod.kubelet.volume.join("app.conf").display(),
        seen.display()
    );
    let application = pod.supervised(&script);
    wait_until("the application has read its content", || {
        fs::read_to_string(&seen).is_ok_and(|text| text == "1")
    });
    let settings = "target = { cmdline = \"^sh -c .* FOLDER$\" }\non-start = \"never\"\n\
                on-failure = [\"retry\", \"restart\"]\nsignal = { name = \"HUP\" }\n\
                verify = { alive-for = \"100ms\", timeout = \"1s\", attempt-timeout = \"500ms\",\n\
                exec = [\"cmp\", \"FOLDER/seen\", \"FOLDER/volume/app.conf\"] }\n\
                retry = { first = \"100ms\", max = \"200ms\", attempts = 2 }\n";
    let agent = pod.rule(&settings.replace(",\n", ", "));
    pod.roll_out(&agent, "2");
    assert_eq!((agent.count("sent"), agent.count("escalating")), (2, 1));
    assert_eq!((agent.count("restarted"), application.starts()), (1, 2));
}

#[test]
fn an_exec_action_gets_its_context_in_variables_and_its_failure_is_reported() {
    let mut pod = start();
    let script = "echo \"$PODNUDGE_RULE $PODNUDGE_CHANGED_KEYS $PODNUDGE_DIGEST\" >> FOLDER/ran; \
                  if grep -q broken FOLDER/volume/app.conf; then echo line 3 is wrong; exit 3; fi; \
                  echo reloaded";
    let settings =
        format!("exec = {{ argv = [\"sh\", \"-c\", '{script}'] }}\non-start = \"never\"\n");
    let retry = "retry = { first = \"100ms\", max = \"100ms\", attempts = 2 }\n";
    let agent = pod.rule(&format!("{settings}{retry}"));
    pod.kubelet.write(&payload(&[("app.conf", "2"), ("new.conf", "")]));
    agent.wait_for(ROLLED_OUT, 1);
    assert!(agent.last("accepted", "answer").contains("ended with 0: reloaded"));
    let ran = pod.text("ran");
    assert!(ran.starts_with("default app.conf\nnew.conf "), "{ran}");
    pod.change("broken");
    agent.wait_for("gave-up", 1);
    assert!(agent.last("gave-up", "reason").contains("ended with 3: line 3 is wrong"));
    assert_eq!(pod.text("ran").matches("default").count(), 3);
}

#[test]
fn an_exec_action_gets_the_keys_that_differ_from_the_applied_content() {
    let mut pod = start();
    let script = "printf \"%s\\n\" \"$PODNUDGE_CHANGED_KEYS\" > FOLDER/keys; \
                  echo \"cut=$PODNUDGE_CHANGED_KEYS_CUT\" > FOLDER/cut";
    let hold = "hold = { pause-file = \"FOLDER/pause\" }\non-start = \"never\"\n";
    let agent = pod.rule(&format!("exec = {{ argv = [\"sh\", \"-c\", '{script}'] }}\n{hold}"));
    let written = |pod: &Scene, file: &str| pod.text(file);
    // A change that is undone before it is applied is not reported.
    fs::write(pod.path("pause"), "").unwrap();
    pod.change("2");
    agent.wait_for("held", 1);
    pod.change("1");
    agent.wait_for("cancelled", 1);
    fs::remove_file(pod.path("pause")).unwrap();
    pod.kubelet.write(&payload(&[("app.conf", "1"), ("ünï.conf", "")]));
    agent.wait_for(ROLLED_OUT, 1);
    assert_eq!(
        (written(&pod, "keys"), written(&pod, "cut")),
        ("ünï.conf\n".into(), "cut=\n".into())
    );
    // A list longer than a variable can hold is truncated, and marked as such.
    let names: Vec<String> = (0..3000).map(|n| format!("{n:0>60}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    pod.kubelet.write(&payload(&many));
    agent.wait_for(ROLLED_OUT, 2);
    let keys = written(&pod, "keys");
    assert!(keys.lines().count() > 1000 && keys.lines().all(|key| key.len() == 60));
    assert_eq!(written(&pod, "cut"), "cut=1\n");
}

#[test]
fn actions_run_in_the_order_of_the_configuration_file() {
    let mut pod = start();
    let socket = pod.path("app.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let order = pod.path("order");
    let kept = order.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            if BufReader::new(&stream).read_line(&mut line).unwrap() == 0 {
                // The preflight only connects.
                continue;
            }
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&kept).unwrap();
            write!(file, "command {line}").unwrap();
            let good = line == "reload now\n";
            (&stream).write_all(if good { b"ok\n" } else { b"no\n" }).unwrap();
        }
    });
    let settings = "on-start = \"never\"\n\
                    exec = { argv = [\"sh\", \"-c\", \"echo exec >> FOLDER/order\"] }\n\
                    command = { socket = \"FOLDER/app.sock\", send = \"reload now\\n\", answer-matches = \"^ok\" }\n";
    let agent = pod.rule(settings);
    pod.roll_out(&agent, "2");
    assert_eq!(fs::read_to_string(&order).unwrap(), "exec\ncommand reload now\n");
    assert!(agent.last("accepted", "answer").contains("answered: ok"), "{}", agent.log());
    drop(agent);
    fs::remove_file(&order).unwrap();
    let agent = pod.rule(&settings.replace("reload now", "reload later"));
    pod.change("3");
    agent.wait_for("retrying", 1);
    assert!(agent.last("retrying", "reason").contains("does not match `^ok`: no"));
}

#[test]
fn a_signal_is_not_repeated_forever_while_the_url_after_it_is_unreachable() {
    in_namespace!();
    let mut pod = start();
    let hups = pod.path("hups");
    let script = format!("trap 'echo >> {}' HUP; while :; do sleep 0.05; done", hups.display());
    let application = pod.supervised(&script);
    let settings = format!(
        "{TARGET}on-start = \"never\"\nsignal = {{ name = \"HUP\" }}\n\
         http = {{ url = \"http://127.0.0.1:1/reload\" }}"
    );
    let agent = pod.rule(&settings);
    pod.change("2");
    agent.wait_for("gave-up", 1);
    let reason = agent.last("gave-up", "reason");
    assert!(reason.starts_with("signal sent to ") && reason.contains(", then: "), "{reason}");
    let hups = || fs::read_to_string(&hups).unwrap_or_default().lines().count();
    wait_until("both signals have arrived", || hups() == 2);
    assert_eq!((agent.count("retrying"), agent.count("target-absent")), (1, 0));
    drop(application);
}

/// The application is restarted before the next attempt; that does not make the content good.
#[test]
fn an_exit_after_the_first_of_two_actions_rolls_the_content_back() {
    in_namespace!();
    let mut pod = start();
    fs::create_dir(pod.path("config")).unwrap();
    let config = pod.path("config/app.conf");
    let dies = format!("! grep -q broken '{}' || exit 1", config.display());
    let application = pod.supervised(&format!("trap \"{dies}\" HUP; while :; do sleep 0.05; done"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let read = config.clone();
    thread::spawn(move || {
        for mut stream in requests(&listener) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if fs::read_to_string(&read).unwrap() != "broken" {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        }
    });
    let settings = format!(
        "{}publish = {{ dir = \"FOLDER/config\" }}\nsignal = {{ name = \"HUP\" }}\n\
         http = {{ url = \"http://{address}/reload\" }}",
        target_that_exits()
    );
    let agent = pod.rule(&settings);
    agent.wait_for(ROLLED_OUT, 1);
    application.hold(true);
    pod.change("broken");
    agent.wait_for("rolling-back", 1);
    application.hold(false);
    wait_until("the rollout has an outcome", || {
        agent.count("rolled-back") + agent.count(ROLLED_OUT) == 2
    });
    assert_eq!(fs::read_to_string(&config).unwrap(), "1", "{}", agent.log());
    let reason = agent.last("rolling-back", "reason");
    assert!(reason.starts_with("process ") && reason.contains(" ended"), "{reason}");
    assert_eq!(application.starts(), 2);
}

/// The same without a publish directory, so that there is no roll-back: nothing more is sent, and
/// the restarted process has read the content.
#[test]
fn an_exit_after_the_first_of_two_actions_without_rollback_is_in_sync_after_the_restart() {
    in_namespace!();
    let mut pod = start();
    let application = pod.supervised("trap 'sleep 0.05; exit 1' HUP; while :; do sleep 0.05; done");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in requests(&listener) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    });
    let settings = format!(
        "{}on-start = \"never\"\nsignal = {{ name = \"HUP\" }}\n\
         http = {{ url = \"http://{address}/reload\" }}",
        target_that_exits()
    );
    let agent = pod.rule(&settings);
    agent.wait_for("baseline", 1);
    pod.roll_out(&agent, "2");
    assert_eq!(application.starts(), 2, "{}", agent.log());
}

/// It ends some time after the signal was survived, and so does each process that is started then: no rollout waits
/// for these ends.
#[test]
fn an_application_that_keeps_ending_after_it_was_reloaded_is_not_in_sync() {
    in_namespace!();
    let mut pod = start();
    let file = pod.path("volume/app.conf");
    let application = pod.supervised(&format!(
        "trap 'cat \"{0}\"' HUP; while :; do grep -q broken '{0}' && {{ for n in $(seq 40); do sleep 0.05; done; exit 1; }}; sleep 0.05; done",
        file.display()
    ));
    let settings = format!(
        "{}on-start = \"never\"\nsignal = {{ name = \"HUP\" }}",
        TARGET.replace("min-interval", "jitter = \"0s\"\nmin-interval")
    );
    let agent = pod.rule(&settings);
    agent.wait_for("baseline", 1);
    pod.change("broken");
    agent.wait_for("delivered", 1);
    agent.wait_for("keeps-ending", 1);
    let reason = agent.last("keeps-ending", "reason");
    assert!(reason.starts_with("the target ended 3 times in "), "{reason}");
    assert_eq!(agent.last("keeps-ending", "hint"), "the log of its container says why");
    assert_eq!((agent.count("tripped"), agent.count("sent")), (0, 1), "{}", agent.log());
    assert!(application.starts() >= 3);
    pod.roll_out(&agent, "fixed");
    assert_eq!(agent.count("keeps-ending"), 1);
}

#[test]
fn an_application_that_keeps_ending_after_a_restart_is_reported_with_the_place_to_look() {
    in_namespace!();
    let mut pod = start();
    let file = pod.path("volume/app.conf");
    let application = pod.supervised(&format!(
        "grep -q broken '{}' && {{ sleep 0.3; exit 1; }}; {RUNS}",
        file.display()
    ));
    let settings = format!("{}on-start = \"never\"\nrestart = {{}}", target_that_exits());
    let agent = pod.rule(&settings);
    agent.wait_for("baseline", 1);
    pod.change("broken");
    agent.wait_for("keeps-ending", 1);
    let reason = agent.last("keeps-ending", "reason");
    assert!(reason.starts_with("the target ended 3 times in "), "{reason}");
    assert_eq!(agent.last("keeps-ending", "hint"), "the log of its container says why");
    assert_eq!((agent.count("restarted"), agent.count("tripped")), (1, 1), "{}", agent.log());
    assert!(application.starts() >= 4);
    pod.roll_out(&agent, "fixed");
    assert_eq!(agent.count("keeps-ending"), 1);
}

/// SIGTERM was sent and SIGKILL cannot be: this counts as a restart, whatever its outcome.
#[test]
fn a_restart_that_fails_halfway_counts_against_the_budget() {
    in_namespace!();
    let mut pod = start();
    let application = pod.supervised("trap '' TERM; while :; do sleep 0.05; done");
    let settings = format!(
        "{TARGET}restart = {{ grace = \"100ms\", most = 1, within = \"1h\" }}\non-start = \"never\"\n"
    );
    let settings = settings.replace("target = {", "target = { wait = \"1s\",");
    let settings = settings.replace("200ms\" }", "200ms\", timeout = \"1s\" }");
    // -D detaches the tracer, so that the child process is podnudge itself.
    let inject = "inject=pidfd_send_signal:error=EIO:when=2+";
    let strace = ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e", inject];
    let agent = pod.rule_by(pod.podnudge_by(&strace), &settings);
    pod.change("2");
    agent.wait_for("restarted", 1);
    let target = agent.target("restarted");
    assert!(target.contains("cannot send SIGKILL"), "{target}");
    agent.wait_for("held", 1);
    assert_eq!((agent.count("restarted"), application.starts()), (1, 1));
}
