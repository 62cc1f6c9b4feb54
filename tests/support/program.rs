//! The only place where tests start processes. These inherit nothing from the test runner: no
//! ignored or blocked signals (`nohup` ignores HUP, a background job of a shell INT and QUIT), no
//! limits, no umask, no environment, and no standard input.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use nix::sys::signal::SigSet;
use podnudge::exchange::children;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use signal_hook::consts::{FORBIDDEN, SIGPIPE};

/// The search path of Debian images.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most descriptors of a process.
pub(crate) const DESCRIPTORS: u64 = 16_384;

/// The command for a program.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    inherit_nothing();
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).stdin(Stdio::null());
    command
}

/// Writes a script that is to be run. Another process writes it: what a test itself has open for writing, a process that
/// another test starts at that moment has open, too, and then the kernel does not run it (ETXTBSY).
pub(crate) fn write_script(path: &Path, text: &str) {
    let mut shell = command("sh");
    shell.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = shell.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// The command for podnudge.
pub(crate) fn podnudge() -> Command {
    command(env!("CARGO_BIN_EXE_podnudge"))
}

/// The environment that is passed on when this program starts itself again.
pub(crate) fn passed_on() -> impl Iterator<Item = (&'static str, OsString)> {
    let names = [
        "LLVM_PROFILE_FILE",
        "PODNUDGE_FLEET_SEED",
        "PODNUDGE_PLACE",
        "PODNUDGE_TABLE",
        "RUST_BACKTRACE",
        "TMPDIR",
    ];
    names.into_iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)))
}

/// Sets up this process and thread so that their children start like processes in a container.
/// For code that starts processes without `command`.
pub(crate) fn inherit_nothing() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        stop_ignoring_signals();
        set_limits();
        umask(Mode::WGRP | Mode::WOTH);
        // Programs that this process runs by the library are supervised by podnudge, too.
        children::use_executable(env!("CARGO_BIN_EXE_podnudge").into());
    });
    SigSet::empty().thread_set_mask().expect("a thread can unblock its signals");
}

/// Replaces `SIG_IGN` with a handler that does nothing: this process still ignores the signal, but
/// its children have the default disposition, since execve(2) resets handlers but not `SIG_IGN`.
fn stop_ignoring_signals() {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).expect("a mask");
    for signal in (1..32).filter(|signal| ignored & (1 << (signal - 1)) != 0) {
        // The standard library ignores PIPE in this process, but not in its children.
        if signal != SIGPIPE && !FORBIDDEN.contains(&signal) {
            let handled = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
            handled.expect("a handler can be installed");
        }
    }
}

/// The usual soft limits, except that of descriptors: all tests of this process share it. A hard
/// limit below them can only be raised with `CAP_SYS_RESOURCE`.
fn set_limits() {
    for (resource, wanted) in [
        (Resource::Nofile, Some(DESCRIPTORS)),
        (Resource::Core, Some(0)),
        (Resource::Stack, Some(8 << 20)),
        (Resource::Fsize, None),
        (Resource::As, None),
    ] {
        let maximum = getrlimit(resource).maximum;
        let is_enough = maximum.is_none_or(|most| wanted.is_some_and(|wanted| wanted <= most));
        let maximum = if is_enough { maximum } else { wanted };
        let set = setrlimit(resource, Rlimit { current: wanted, maximum });
        set.expect("a hard limit is too low for the tests: see `ulimit -Ha`");
    }
}
