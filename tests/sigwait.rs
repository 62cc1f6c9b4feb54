//! Processes that take signals without a handler: C programs that wait for them (sigwait(3)) or read them
//! from a signalfd(2), as named, mysqld and keepalived do.

use crate::support::{Agent, Running, Scene, command, in_namespace, wait_until, wait_until_old};

/// The first argument selects what the program does, the second is the file to which it appends a line
/// for each HUP.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const char *report;

static void note(const char *text) {
    int fd = open(report, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (write(fd, text, strlen(text)) < 0) _exit(1);
    close(fd);
}

static void *wait_for(void *set) {
    int number;
    while (sigwait(set, &number) == 0)
        if (number == SIGHUP) note("hup\n");
    return NULL;
}

// The first 15 bytes of a name are kept, and may end within a character.
static void *idle(void *name) {
    prctl(PR_SET_NAME, name);
    while (pause() != 0) {}
    return NULL;
}

int main(int count, char **arguments) {
    const char *kind = arguments[1];
    sigset_t set;
    pthread_t thread;
    struct signalfd_siginfo info;
    if (count != 3) return 1;
    report = arguments[2];
    sigemptyset(&set);
    sigaddset(&set, strcmp(kind, "other") == 0 ? SIGUSR1 : SIGHUP);
    if (strcmp(kind, "init") == 0) sigfillset(&set);
    if (strcmp(kind, "unblocked") != 0) pthread_sigmask(SIG_BLOCK, &set, NULL);
    note("ready\n");
    if (strcmp(kind, "signalfd") == 0) {
        int fd = signalfd(-1, &set, 0);
        while (read(fd, &info, sizeof info) > 0) note("hup\n");
    }
    if (strcmp(kind, "thread") == 0 || strcmp(kind, "unblocked") == 0) {
        pthread_create(&thread, NULL, wait_for, &set);
        for (;;) pause();
    }
    if (strcmp(kind, "named") == 0) pthread_create(&thread, NULL, idle, "caf\xc3");
    wait_for(&set);
}
"#;

/// The uid 65532 without capabilities.
const USER: [&str; 7] = [
    "setpriv",
    "--reuid=65532",
    "--regid=65532",
    "--clear-groups",
    "--bounding-set=-all",
    "--no-new-privs",
    "--",
];

/// A volume, and the program under its own name.
fn start(kind: &str) -> (Scene, Running) {
    let scene = Scene::new();
    let mut cc = command("cc");
    cc.args(["-pthread", "-Wall", "-Werror", "-o"]).arg(scene.path("app"));
    cc.arg(scene.write("program.c", PROGRAM));
    assert!(cc.status().expect("cc is installed (package gcc)").success());
    let mut program = command(USER[0]);
    program.args(&USER[1..]).arg(scene.path("app")).arg(kind).arg(scene.path("report"));
    let running = Running::start(&mut program);
    wait_until("the program is ready", || lines(&scene, "ready") == 1);
    (scene, running)
}

fn lines(scene: &Scene, wanted: &str) -> usize {
    scene.text("report").lines().filter(|line| *line == wanted).count()
}

fn nudge(scene: &Scene) -> Agent {
    scene.nudge_by(scene.podnudge_by(&USER), &["--process", "app", "--signal", "HUP"])
}

fn assert_takes(kind: &str) {
    let (mut scene, mut program) = start(kind);
    let agent = nudge(&scene);
    for n in 1..=3 {
        scene.roll_out(&agent, &format!("{n} and more"));
    }
    assert_eq!(lines(&scene, "hup"), 3, "{}", agent.log());
    assert!(program.is_running());
    assert_eq!(agent.count("preflight") + agent.count("refused"), 0, "{}", agent.log());
}

#[test]
fn a_main_thread_that_waits_for_the_signal_gets_it() {
    in_namespace!(assert_takes("main"));
}

#[test]
fn another_thread_that_waits_for_the_signal_gets_it() {
    in_namespace!(assert_takes("thread"));
}

#[test]
fn a_thread_whose_name_is_not_utf8_blocks_the_signal_as_others_do() {
    in_namespace!(assert_takes("named"));
}

#[test]
fn a_process_that_reads_the_signal_from_a_signalfd_gets_it() {
    in_namespace!(assert_takes("signalfd"));
}

/// The reason of the refusal says what would happen, and its hint what podnudge saw of the threads.
fn assert_refused(kind: &str, wanted: &str, seen: &str) {
    let (mut scene, mut program) = start(kind);
    wait_until_old(|| vec![i32::try_from(program.0.id()).unwrap()]);
    let agent = nudge(&scene);
    scene.change("2");
    agent.wait_for("refused", 1);
    let reason = agent.last("refused", "reason");
    assert!(reason.contains(wanted), "{reason}");
    let hint = agent.last("refused", "hint");
    assert!(hint.contains(seen), "{hint}");
    assert!(program.is_running());
    assert_eq!((lines(&scene, "hup"), agent.count("sent")), (0, 0));
}

#[test]
fn a_process_that_waits_for_another_signal_is_not_signalled() {
    in_namespace!();
    let seen = "its thread neither waits for SIGHUP nor blocks it; allow-unhandled";
    assert_refused("other", "does not handle SIGHUP: it would end", seen);
}

/// The kernel would deliver the signal to the main thread, which ends the process.
#[test]
fn a_thread_that_waits_while_another_one_does_not_block_the_signal_is_not_enough() {
    in_namespace!();
    let seen = "1 of its 2 threads neither waits for SIGHUP nor blocks it";
    assert_refused("unblocked", "does not handle SIGHUP: it would end", seen);
}

#[test]
fn an_init_that_passes_signals_on_is_not_signalled() {
    in_namespace!();
    let wanted = "is an init, which passes SIGHUP on to its child";
    assert_refused("init", wanted, "name the application's own process");
}
