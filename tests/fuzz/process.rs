//! Fuzzes the readers of `/proc` and of pidfiles (`src/process/`).

use super::sigwait::{self, SystemCall};
use super::{select, texts};
use crate::fuzz::{Target, assert_harmless, fuzz, text};

#[test]
fn the_masks_of_a_status_are_those_of_their_lines() {
    let seeds = [
        "Name:\tnginx\nUid:\t0\t101\t0\t0\nThreads:\t1\nSigBlk:\t0000000000000000\nSigIgn:\t0000000040001000\nSigCgt:\t0000000198016a07\nCapEff:\t000001ffffffffff\n",
        "Name:\ta\\nb\nUid:\t4294967295\t4294967295\nSigCgt:\tffffffffffffffff\nSigCgt:\t0\n",
    ];
    let dictionary = &["SigCgt:", "SigBlk:", "Uid:\t", "\t", "+", "0x", "\n", "ffffffffffffffff0"];
    let target = Target { dictionary, inputs: 4000, ..Target::new("status", &seeds) };
    fuzz(target, |input| {
        let status = text(input);
        let mut seen = String::new();
        for field in ["SigCgt:", "SigBlk:", "CapEff:", "sigmask:"] {
            let mask = texts::parse_mask(&status, field);
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let of_line = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
            assert_eq!(mask, of_line);
            if let Some(mask) = mask {
                let shown = [format!("{mask:x}"), format!("{mask:016x}")];
                let is_shown = |line: &str| {
                    let line = line.trim().trim_start_matches('+').to_ascii_lowercase();
                    let line = line.trim_start_matches('0').to_owned();
                    shown.iter().any(|shown| shown.trim_start_matches('0') == line)
                };
                let line = line.expect("a line");
                assert!(is_shown(line), "{line:?} is {mask:x}");
            }
            seen += &mask.is_some().to_string();
        }
        let uid = texts::parse_uid(&status);
        assert!(uid.is_none_or(|uid| status.contains(&uid.to_string())));
        format!("{seen} {}", uid.is_some())
    });
}

#[test]
fn arguments_are_separated_by_nul() {
    let dictionary = &["\0", "\0\0", "nginx: master process", "-c"];
    let target =
        Target { dictionary, ..Target::new("cmdline", &["nginx\0-c\0/etc/nginx.conf\0", "\0"]) };
    fuzz(target, |input| {
        let arguments = texts::parse_arguments(input);
        let ended = input.strip_suffix(b"\0").unwrap_or(input);
        assert_eq!(arguments.join("\0"), text(ended));
        assert!(arguments.iter().all(|argument| !argument.contains('\0')));
        "x".repeat(arguments.len().min(5))
    });
}

#[test]
fn a_container_is_named_by_its_digits() {
    let id = "0123456789abcdef".repeat(4);
    let seeds = [
        format!("0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-{id}.scope\n"),
        format!("12:cpu:/kubepods/pod1/{id}\n0::/\n"),
        format!("0::/../crio-{id}.scope/container\n"),
        format!("0::/../cri-containerd-{id}.scope/system.slice/nginx.service\n"),
        "0::/\n".to_owned(),
    ];
    for (seed, is_in_container) in seeds.iter().zip([true, true, true, true, false]) {
        let container = texts::parse_container(seed.as_bytes());
        assert_eq!(container.contains(&id), is_in_container, "{seed}");
    }
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let dictionary = &["0::/", "/", "\n", "crio-", ".scope", "0123456789abcdef0123456789abcdef"];
    fuzz(Target { dictionary, ..Target::new("cgroup", &seeds) }, |input| {
        let container = texts::parse_container(input);
        assert!(text(input).contains(&container) && !container.contains(['/', '\n']));
        container.is_empty().to_string()
    });
}

#[test]
fn a_pidfile_holds_one_positive_number() {
    let target =
        Target { longest: 64, inputs: 6000, ..Target::new("pidfile", &["41\n", " 1 ", ""]) };
    fuzz(target, |input| {
        let pid = texts::parse_pid(input);
        if let Ok(Some(pid)) = pid {
            assert!(pid > 0);
            let shown = text(input);
            assert_eq!(shown.trim().trim_start_matches(['+', '0']), pid.to_string());
        }
        format!("{:?}", pid.map(|pid| pid.is_some()))
    });
}

#[test]
fn a_waiting_thread_is_known_by_its_system_call() {
    let seeds = [
        "128 0x7ffd1c2b3a40 0x0 0x0 0x8 0x0 0x0 0x7ffd1c2b3a00 0x7f1\n",
        "running\n",
        "-1 0x7ffd 0x1\n",
        "7 0x1 0x2\n",
    ];
    let dictionary = &["128 ", "0x", "0xffffffffffffffff", "0x+1", " ", "\n"];
    let target =
        Target { dictionary, longest: 128, inputs: 6000, ..Target::new("syscall", &seeds) };
    fuzz(target, |input| {
        let shown = text(input);
        let call = sigwait::parse_syscall(&shown);
        let words: Vec<&str> = shown.split_ascii_whitespace().collect();
        let is_waiting = words.first().and_then(|word| word.parse().ok()) == Some(128_i64);
        let address = words.get(1).and_then(|word| word.strip_prefix("0x"));
        let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let waits_for = SystemCall::WaitsFor(address.unwrap_or(0));
        let wanted = if is_waiting { waits_for } else { SystemCall::Other };
        assert_eq!(call, wanted);
        format!("{is_waiting} {}", address.is_some())
    });
}

#[test]
fn the_name_of_a_process_is_shown_escaped() {
    fuzz(Target { longest: 64, ..Target::new("process name", &["nginx", "a b", "ü"]) }, |input| {
        let process = select::Process {
            identity: super::Identity { pid: 41, start_ticks: 1 },
            parent: 1,
            comm: text(input),
            arguments: Vec::new(),
            exe: None,
            uid: None,
            container: String::new(),
            pod: select::in_pod::Pod::Own,
            mounts: select::Mounts::No,
        };
        assert_harmless(&process.display_name());
        String::new()
    });
}
