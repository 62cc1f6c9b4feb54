//! The output of the binary, as snapshots: for the invalid files of `tests/bad`, for invalid and
//! valid command lines, and the effective configuration, which must be a valid configuration.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use insta::assert_snapshot;
use podnudge::cli;
use podnudge_config::{self as config, OnUnreachable, Overrides};
use proptest::prelude::{any, proptest};

mod mistakes;
#[expect(dead_code, reason = "the rest is for the tests of tests/all.rs")]
#[path = "support/program.rs"]
mod program;

/// Runs podnudge in `tests/bad`, so that the output contains no path of this machine.
fn podnudge<A: AsRef<OsStr>>(arguments: &[A], environment: &[(&str, &str)]) -> String {
    let output = program::podnudge()
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad"))
        .output()
        .unwrap();
    format!(
        "exit code {}\n── stdout\n{}── stderr\n{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    )
}

#[test]
fn every_invalid_file_is_refused_with_all_its_problems() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 80, "only {} files in tests/bad", names.len());
    for name in names {
        let output = podnudge(&["check", &name], &[]);
        assert!(!output.starts_with("exit code 0"), "{name} was accepted: {output}");
        assert!(!output.contains("hunter2"), "{name}: a secret was printed: {output}");
        assert_snapshot!(name.trim_end_matches(".toml"), output);
    }
}

#[test]
fn invalid_command_lines() {
    let text = include_str!("command_lines.toml");
    let cases: BTreeMap<String, Vec<String>> = toml::from_str(text).unwrap();
    assert!(cases.len() >= 8);
    for (name, arguments) in cases {
        let output = podnudge(&arguments, &[]);
        assert!(!output.starts_with("exit code 0"), "{name} was accepted: {output}");
        assert_snapshot!(format!("command_line_{name}"), output);
    }
}

#[test]
fn names_that_are_not_utf8() {
    let bytes = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0xff);
        OsString::from_vec(bytes)
    };
    let word = |text: &str| OsString::from(text);
    let watch = [word("--watch"), bytes("/etc/"), word("--signal"), word("HUP")];
    assert_snapshot!("not_utf8_watched_path", podnudge(&watch, &[]));
    assert_snapshot!("not_utf8_file_name", podnudge(&[word("check"), bytes("nowhere")], &[]));
    assert_snapshot!("not_utf8_command", podnudge(&[bytes("check")], &[]));
    assert_snapshot!("not_utf8_option", podnudge(&[bytes("--watch")], &[]));
}

#[test]
fn an_unreadable_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    // Permissions do not apply to root: use a link to itself instead.
    if fs::read(&file).is_ok() {
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("secret.toml", &file).unwrap();
    }
    let output = podnudge(&[OsStr::new("check"), file.as_os_str()], &[]);
    assert!(output.starts_with("exit code 66"), "{output}");
    assert!(output.contains("cannot read the configuration `"), "{output}");
}

#[test]
fn a_file_larger_than_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.toml");
    fs::write(&file, "#".repeat(1024 * 1024 + 1)).unwrap();
    let output = podnudge(&[OsStr::new("check"), file.as_os_str()], &[]);
    assert!(output.starts_with("exit code 78"), "{output}");
    assert!(output.contains("is larger than 1024 KiB"), "{output}");
}

#[test]
fn invalid_and_misspelt_environment_variables() {
    let simple = [("PODNUDGE_WATCH", "/etc/app"), ("PODNUDGE_SIGNAL", "HUP")];
    let with = |more: &[(&str, &str)]| podnudge(&["check"], &[&simple[..], more].concat());
    let wrong =
        [("PODNUDGE_SETTLE", "5"), ("PODNUDGE_UID", "-1"), ("PODNUDGE_CHILDREN_NEWER", "yes")];
    assert_snapshot!("invalid_variables", with(&wrong));
    assert_snapshot!(
        "a_misspelt_variable",
        with(&[
            ("PODNUDGE_SETLE", "5s"),
            ("PODNUDGE_PORT", "tcp://10.0.0.1:9533"),
            ("PODNUDGE_SERVICE_HOST", "10.0.0.1"),
            ("PODNUDGE_URL", ""),
        ])
    );
}

#[test]
fn help() {
    for (name, arguments) in [
        ("help_short", &["-h"][..]),
        ("help_long", &["--help"]),
        ("help_check", &["check", "-h"]),
        ("help_plan", &["plan", "-h"]),
        ("help_status", &["status", "--help"]),
        ("help_supervise", &["supervise", "--help"]),
        ("version", &["--version"]),
    ] {
        let output = podnudge(arguments, &[]);
        assert!(output.starts_with("exit code 0"), "{output}");
        assert_snapshot!(name, output);
    }
}

#[test]
fn help_and_the_version_are_commands_and_options() {
    for (command, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "status"], &["status", "--help"]),
        (&["help", "supervise"], &["supervise", "--help"]),
        (&["version"], &["--version"]),
    ] {
        assert_eq!(podnudge(command, &[]), podnudge(option, &[]), "{command:?}");
    }
}

#[test]
fn options_override_the_environment_and_the_environment_overrides_the_file() {
    let file = "[agent]\nlog = \"json\"\nresync = \"1m\"\npoll = \"1m\"\n\
                [[rule]]\nwatch = \"/file\"\njitter = \"1s\"\nsignal = { name = \"USR1\" }\n";
    let words = ["podnudge", "--resync", "2m", "--jitter-by", "ordinal", "--config", "c.toml"];
    let variables = [
        ("PODNUDGE_WATCH", "/one:/two\n/three"),
        ("PODNUDGE_RESYNC", "3m"),
        ("PODNUDGE_POLL", "3m"),
    ];
    let arguments = words.map(OsString::from);
    let environment = variables.map(|(name, value)| (name.into(), value.into()));
    let cli::Command::Run(run) = cli::parse(arguments, environment).unwrap() else {
        unreachable!("the default command is `run`")
    };
    let (config, warnings) = config::parse("c.toml", file, &run.overrides, None).unwrap();
    assert_eq!(warnings, []);
    assert_snapshot!("effective_layers", config::effective(&config));
}

#[test]
fn a_switch_is_an_option_without_a_value_or_a_variable_set_to_true_or_false() {
    let file = |truth: &str| {
        format!(
            "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\nverify.children-newer = {truth}\n"
        )
    };
    let children_newer = |words: &[&str], variable: Option<&str>, file: &str| {
        let words = ["podnudge", "--config=c.toml"].iter().chain(words).map(OsString::from);
        let variable = variable.map(|value| ("PODNUDGE_CHILDREN_NEWER".into(), value.into()));
        let Ok(cli::Command::Run(run)) = cli::parse(words, variable) else {
            unreachable!("the command line is valid")
        };
        let (config, _) = config::parse("c.toml", file, &run.overrides, None).unwrap();
        config::effective(&config).contains("children-newer = true\n")
    };
    let (on, off) = (file("true"), file("false"));
    assert!(children_newer(&["--children-newer"], None, &off));
    assert!(children_newer(&["--children-newer"], Some("false"), &off));
    assert!(children_newer(&[], Some("true"), &off));
    assert!(!children_newer(&[], Some("false"), &on));
    assert!(!children_newer(&[], Some(""), &off));
    assert!(children_newer(&[], None, &on));
}

#[test]
fn a_switch_set_to_false_removes_the_setting() {
    let parse = |options: &[&str], variable: (&str, &str), file: &str| {
        let words = ["podnudge"].iter().chain(options).map(OsString::from);
        match cli::parse(words, [(variable.0.into(), variable.1.into())]) {
            Ok(cli::Command::Run(run)) => config::parse("c.toml", file, &run.overrides, None)
                .map(|(config, _)| config::effective(&config))
                .map_err(|problems| problems.to_string()),
            Ok(_) => panic!("no command is given"),
            Err(stop) => Err(stop.text),
        }
    };
    let by_url = ["--watch=/a", "--url=http://127.0.0.1/"];
    for variable in ["PODNUDGE_CHILDREN_NEWER", "PODNUDGE_ALLOW_UNHANDLED", "PODNUDGE_RESTART"] {
        assert_eq!(parse(&by_url, (variable, "false"), ""), parse(&by_url, ("A", ""), ""));
    }
    // Also a setting of a preset.
    let off = ("PODNUDGE_CHILDREN_NEWER", "false");
    for preset in [
        "[[rule]]\nwatch = \"/a\"\npreset = \"nginx\"\n",
        "[[rule]]\nwatch = \"/a\"\npreset = \"nginx\"\nverify.children-newer = false\n",
    ] {
        let config = ["--config=c.toml"];
        let with = |variable| parse(&config, variable, preset).unwrap();
        assert!(!with(off).contains("children-newer"), "{}", with(off));
        assert!(preset.contains("false") || with(("A", "")).contains("children-newer = true"));
    }
    // Also of one that is found later, whatever its action is.
    let parsed = |(variable, value): (&str, &str)| {
        let variable = [(variable.into(), value.into())];
        let parsed = cli::parse(["podnudge", "--watch=/a"].map(OsString::from), variable);
        let Ok(cli::Command::Run(run)) = parsed else { panic!("no options for a run") };
        config::parse("c.toml", "", &run.overrides, None).unwrap().0.rules.remove(0)
    };
    for (name, is_by_http) in [("prometheus", true), ("nginx", false)] {
        let preset = config::presets().iter().find(|preset| preset.name == name).unwrap();
        let [on, off] = [("A", ""), off].map(|variable| {
            let rule = parsed(variable).with_preset(preset).unwrap();
            rule.verify.proofs.len()
        });
        assert_eq!(on == off, is_by_http, "{name}: {on} {off}");
    }
    let rule = "[[rule]]\nwatch = \"/a\"\n[rule.signal]\nname = \"HUP\"\n";
    let file = format!("{rule}allow-unhandled = true\n[rule.restart]\n");
    let config = ["--config=c.toml"];
    let restarts = |value| {
        parse(&config, ("PODNUDGE_RESTART", value), &file).unwrap().contains("[rule.restart]")
    };
    assert!(restarts("true") && !restarts("false"));
    let refused = parse(&config, ("PODNUDGE_ALLOW_UNHANDLED", "false"), &file).unwrap();
    assert!(refused.contains("allow-unhandled = false\n"), "{refused}");
    let no_action = parse(&["--watch=/a"], ("PODNUDGE_RESTART", "false"), "").unwrap();
    assert!(!no_action.contains("[rule.restart]"), "{no_action}");
    let unknown = parse(&config, ("PODNUDGE_RESTART", "yes"), &file).unwrap_err();
    assert_eq!(unknown, "PODNUDGE_RESTART: unknown value `yes`\n  hint: one of `true`, `false`");
}

#[test]
fn integers_are_accepted_in_every_toml_notation() {
    let file = |keep: &str, value: &str| {
        format!(
            "[[rule]]\nwatch = \"/a\"\nsignal.name = 0x1\npublish = {{ dir = \"/b\", keep = {keep} }}\n\
             [rule.verify]\nhttp = \"http://127.0.0.1/\"\n\
             json-equals = {{ pointer = \"/a\", value = {value} }}\n"
        )
    };
    let effective = |text: &str| {
        let parsed = config::parse("c.toml", text, &Overrides::default(), None);
        config::effective(&parsed.unwrap_or_else(|problems| panic!("{problems}")).0)
    };
    let decimal = effective(&file("16", "5"));
    for (keep, value) in [("0x10", "0x5"), ("0o20", "0o5"), ("0b1_0000", "0b101"), ("+16", "+5")] {
        assert_eq!(effective(&file(keep, value)), decimal);
    }
}

#[test]
fn the_effective_configuration_shows_what_happens_after_a_failure() {
    for (settings, written) in [
        ("on-failure = []\n", "on-failure = []\n"),
        ("on-failure = []\npublish = { dir = \"/b\", rollback = false }\n", "on-failure = []\n"),
        ("publish = { dir = \"/b\" }\n", "on-failure = []\n"),
        ("", "on-failure = [\"retry\"]\n"),
    ] {
        let file = format!("[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n{settings}");
        let parse =
            |text: &str| config::parse("c.toml", text, &Overrides::default(), None).unwrap().0;
        let effective = config::effective(&parse(&file));
        assert!(effective.contains(written), "{effective}");
        assert_eq!(config::effective(&parse(&effective)), effective);
        assert_eq!(effective.contains("on-start"), !settings.contains("publish"), "{effective}");
    }
}

/// The effective configuration of what options alone set.
fn effective(options: &[&str]) -> String {
    let words = ["podnudge", "--watch", "/etc/app"].iter().chain(options).map(OsString::from);
    let Ok(cli::Command::Run(run)) = cli::parse(words, []) else {
        panic!("the command line is valid")
    };
    let parsed = config::parse("", "", &run.overrides, None);
    config::effective(&parsed.unwrap_or_else(|problems| panic!("{problems}")).0)
}

#[test]
fn options_set_switches_words_and_split_commands() {
    let unhandled = effective(&["--signal", "USR1", "--allow-unhandled"]);
    let reload = effective(&["--signal", "HUP", "--reload", "loopback"]);
    assert!(reload.contains("reload = \"loopback\"\n"), "{reload}");
    let restart = effective(&["--restart"]);
    assert!(restart.contains("[rule.restart]\nwhat = \"target\"\n"), "{restart}");
    let exec = effective(&["--exec", "/app/reload  --all"]);
    assert!(exec.contains("argv = [\"/app/reload\", \"--all\"]\n"), "{exec}");
    let check = effective(&["--signal", "HUP", "--check-exec", "nginx -t -c {dir}/nginx.conf"]);
    let of_check = "exec = [\"nginx\", \"-t\", \"-c\", \"{dir}/nginx.conf\"]\n";
    assert!(check.contains(of_check), "{check}");
    assert!(unhandled.contains("name = \"USR1\"\nallow-unhandled = true\n"), "{unhandled}");
}

#[test]
fn https_without_a_ca_file_uses_the_system_bundle_or_is_refused() {
    let file = "[[rule]]\nwatch = \"/a\"\nhttp = { url = \"https://localhost/\" }\n";
    let none = Overrides::default();
    let (config, _) = config::parse("c.toml", file, &none, Some(Path::new("/bundle.crt"))).unwrap();
    assert!(config::effective(&config).contains("ca-file = \"/bundle.crt\""));
    assert_snapshot!("https_without_a_ca", config::parse("c.toml", file, &none, None).unwrap_err());
}

#[test]
fn the_ca_file_option_applies_to_every_https_request_of_the_rule() {
    let file = "[[rule]]\nwatch = \"/a\"\nhttp = { url = \"http://localhost/\" }\n\
                verify = { http = \"https://localhost/\" }\n\
                [[rule.check]]\nsyntax = \"json\"\n\
                [[rule.check]]\nhttp = \"HTTPS://localhost/\"\n\
                [[rule.check]]\nhttp = \"http://localhost/\"\n";
    let arguments = ["podnudge", "--config=c.toml", "--ca-file=/ca.crt"].map(OsString::from);
    let Ok(cli::Command::Run(run)) = cli::parse(arguments, []) else { unreachable!() };
    let parse = |file| config::parse("c.toml", file, &run.overrides, None);
    let effective = config::effective(&parse(file).unwrap().0);
    assert_eq!(effective.matches("ca-file = \"/ca.crt\"").count(), 2, "{effective}");
    let problems = parse(&file.replace("ttps:", "ttp:").replace("TTPS:", "TTP:")).unwrap_err();
    assert!(problems.to_string().starts_with("--ca-file: a CA file is only valid"), "{problems}");
}

/// The configuration and the warnings for these options, or for this file.
fn parsed(options: &[&str], file: &str) -> (String, Vec<String>) {
    let arguments = ["podnudge"].iter().chain(options).map(OsString::from);
    let Ok(cli::Command::Run(run)) = cli::parse(arguments, []) else { unreachable!() };
    let (config, warnings) = config::parse("c.toml", file, &run.overrides, None).unwrap();
    (config::effective(&config), warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn what_check_prints_is_a_configuration_without_warnings() {
    let watch = "--watch=/a";
    for options in [
        &[watch][..],
        &[watch, "--signal=HUP"],
        &[watch, "--process=app", "--restart"],
        &[watch, "--url=http://127.0.0.1/"],
        &[watch, "--preset=nginx", "--publish=/config"],
    ] {
        let (printed, warnings) = parsed(options, "");
        assert_eq!(warnings, Vec::<String>::new(), "{options:?}");
        assert_eq!(parsed(&["--config=c.toml"], &printed), (printed.clone(), warnings));
    }
}

/// Runs `podnudge check -` with this file: its exit code, and its two outputs.
fn check(file: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("podnudge.toml");
    fs::write(&path, file).unwrap();
    let mut podnudge = program::podnudge();
    let output = podnudge.args(["check", "-"]).stdin(fs::File::open(&path).unwrap()).output();
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// All presets, all example files and the files of this test.
#[test]
fn the_output_of_check_passes_check_without_a_warning() {
    let mut files: Vec<String> = GOOD.iter().map(|(_, text)| (*text).to_owned()).collect();
    files.extend(config::presets().iter().map(config::Preset::as_file));
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") {
            files.push(fs::read_to_string(path).unwrap());
        }
    }
    assert!(files.len() >= 45, "{}", files.len());
    for file in files {
        let (code, printed, said) = check(&file);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{file}");
        assert!(printed.ends_with("\n# ok\n"), "{printed}");
        assert_eq!(check(&printed), (code, printed.clone(), said), "{file}");
    }
}

#[test]
fn check_ends_with_what_happens_when_the_volumes_change() {
    let sentences = |file: &str| {
        let (_, printed, said) = check(file);
        let lines = printed.lines().filter_map(|line| line.strip_prefix("# when "));
        let lines: Vec<&str> = lines.collect();
        assert!(!lines.is_empty(), "{file}: {printed}{said}");
        lines.join("\n")
    };
    let nginx = "[[rule]]\nwatch = \"/etc/nginx\"\npreset = \"nginx\"\njitter = \"30s\"\n\
                 target.process = \"nginx\"\n[[rule.check]]\nexec = [\"nginx\", \"-t\"]\n";
    for (file, sentence) in [
        (
            nginx,
            "/etc/nginx changes: check by nginx -t, wait up to 30s, HUP to nginx, proof by new workers",
        ),
        (
            "[[rule]]\nwatch = \"/etc/nginx\"\npreset = \"nginx\"\ntarget = \"nginx\"\n",
            "/etc/nginx changes: check by nginx -t -q -c {dir}/nginx.conf if it can run, HUP to nginx, proof by new workers",
        ),
        (
            "[[rule]]\nwatch = \"/etc/app\"\n",
            "/etc/app changes: reload and proof as the preset of the target's program says",
        ),
        (
            "[[rule]]\nwatch = [\"/a\", \"/b\"]\nhttp.url = \"http://127.0.0.1/reload?token=hunter2\"\n\
             publish.dir = \"/config\"\nhold.window = \"Mon-Fri 09:00-17:00\"\nhold.time-zone = \"UTC\"\n\
             limit = { lease = \"web\", max-concurrent = 2 }\n[[rule.check]]\nsyntax = \"json\"\n",
            "/a or /b change: check the syntax, wait for Mon-Fri 09:00-17:00, wait for a slot, \
             publish to /config, POST http://127.0.0.1/reload, no proof",
        ),
        (
            "[[rule]]\nwatch = \"/a\"\nrestart = {}\ndrain = {}\ntarget.pidfile = \"/run/a.pid\"\n\
             verify.http = \"http://localhost/\"\n",
            "/a changes: leave the Services for 5s, restart the process in /run/a.pid, \
             proof by GET http://localhost/",
        ),
        // What follows a restart is never performed.
        (
            "[[rule]]\nwatch = \"/a\"\nrestart = {}\nsignal = \"HUP\"\n",
            "/a changes: restart the process that mounts the volume, no proof",
        ),
    ] {
        assert_eq!(sentences(file), sentence);
    }
    let several = "[[rule]]\nname = \"a\"\nwatch = \"/a\"\nsignal.name = \"HUP\"\n\
                   [[rule]]\nname = \"b\"\nwatch = \"/b\"\nsignal.name = \"USR1\"\n";
    let (_, printed, _) = check(several);
    let end = "\n\n# a: when /a changes: HUP to the process that mounts the volume, no proof\n\
               # b: when /b changes: USR1 to the process that mounts the volume, no proof\n# ok\n";
    assert!(printed.ends_with(end), "{printed}");
}

#[test]
fn actions_of_options_have_one_order_and_none_follows_a_restart_unnoticed() {
    let order = |printed: &str| {
        let actions = ["[rule.signal]", "[rule.restart]"];
        printed.lines().filter(|line| actions.contains(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    for options in [["--restart", "--signal=HUP"], ["--signal=HUP", "--restart"]] {
        let (printed, warnings) = parsed(&[&["--watch=/a"], &options[..]].concat(), "");
        assert_eq!(order(&printed), ["[rule.signal]", "[rule.restart]"], "{options:?}");
        assert_eq!(warnings, Vec::<String>::new());
    }
    let rule = "[[rule]]\nwatch = \"/a\"\n[rule.restart]\n[rule.signal]\nname = \"HUP\"\n";
    let (printed, warnings) = parsed(&["--config=c.toml"], rule);
    assert_eq!(order(&printed), ["[rule.restart]", "[rule.signal]"]);
    let hint = "hint: put it before the restart, or leave one of them out";
    let expected =
        format!("c.toml:4:7: `signal` is never performed: it follows a restart\n  {hint}");
    assert_eq!(warnings, [expected]);
}

#[test]
fn port_zero_causes_a_warning() {
    assert_snapshot!(
        "warning_port_zero",
        podnudge(&["check", "--watch=/a", "--signal=1", "--listen=127.0.0.1:0"], &[])
    );
}

#[test]
fn content_sent_unencrypted_causes_a_warning() {
    let warnings = |check: &str| {
        let file =
            format!("[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n[[rule.check]]\n{check}\n");
        let (_, warnings) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("http = \"http://validator.other:8080/\""),
        ["c.toml:5:8: the content is sent over the network unencrypted\n  hint: use https"]
    );
    let once = warnings("http = \"http://validator.other/\"\nbearer-file = \"/token\"");
    assert_eq!(
        once,
        ["c.toml:5:8: the credentials are sent over the network unencrypted\n  hint: use https"]
    );
    assert_eq!(warnings("http = \"http://127.example.org/\"").len(), 1);
    assert!(warnings("http = \"http://localhost:2019/adapt\"").is_empty());
    assert!(warnings("http = \"http://127.0.1.1/\"").is_empty());
    assert!(warnings("http = \"http://[::1]/\"").is_empty());
    assert!(warnings("http = \"http://app/\"\nunix-socket = \"/run/app.sock\"").is_empty());
}

#[test]
fn credentials_sent_unencrypted_cause_a_warning() {
    let file = "[[rule]]\nwatch = \"/a\"\n[rule.http]\nurl = \"http://example.org/reload\"\n\
                bearer-file = \"/token\"\n";
    let (_, warnings) = config::parse("c.toml", file, &Overrides::default(), None).unwrap();
    assert_eq!(
        warnings.first().map(ToString::to_string).as_deref(),
        Some(
            "c.toml:4:7: the credentials are sent over the network unencrypted\n  hint: use https"
        )
    );
}

#[test]
fn the_api_server_is_reached_without_tls_on_a_loopback_address_only() {
    let parsed = |url: &str| {
        let file = format!(
            "[cluster]\nurl = \"{url}\"\n[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n"
        );
        config::parse("c.toml", &file, &Overrides::default(), None).map(|(_, warnings)| warnings)
    };
    for right in ["http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]/", "https://a"] {
        assert!(parsed(right).unwrap().is_empty(), "{right}");
    }
    for wrong in ["http://a", "http://10.96.0.1:443", "http://127.example.org", "HTTP://0.0.0.0/"] {
        let problem = parsed(wrong).unwrap_err().to_string();
        let start = "c.toml:2:7: the service account's token would be sent over the network";
        assert!(problem.starts_with(start), "{wrong}: {problem}");
    }
}

/// Without a slot, a restart may be one of many, also if it is the last resort, and so may a drain and an eviction.
#[test]
fn rules_that_may_interrupt_wait_by_default_while_the_slots_are_unreachable() {
    let default = |rule: &str| {
        let file = format!("[[rule]]\nname = \"a\"\nwatch = \"/a\"\nlimit.lease = \"web\"\n{rule}");
        let (config, _) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
        config.rules[0].settings.limit.as_ref().unwrap().on_unreachable
    };
    let signal = "signal.name = \"HUP\"\n";
    assert_eq!(default("restart = {}"), Some(OnUnreachable::Wait));
    assert_eq!(default(signal), Some(OnUnreachable::Act));
    assert_eq!(default(&format!("{signal}on-failure = \"retry\"")), Some(OnUnreachable::Act));
    let last_resort = format!("{signal}on-failure = [\"retry\", \"restart\"]");
    assert_eq!(default(&last_resort), Some(OnUnreachable::Wait));
    assert_eq!(default("restart = \"evict\""), Some(OnUnreachable::Wait));
    let drained = format!("{signal}drain.before = \"action\"\n");
    assert_eq!(default(&drained), Some(OnUnreachable::Wait));
    let acts = format!("{drained}limit.on-unreachable = \"act\"\n");
    assert_eq!(default(&acts), Some(OnUnreachable::Act));
}

#[test]
fn a_restart_with_a_slot_and_without_a_proof_causes_a_warning() {
    let warnings = |rule: &str| {
        let file = format!("[[rule]]\nname = \"a\"\nwatch = \"/a\"\nlimit.lease = \"web\"\n{rule}");
        let (_, warnings) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let restart = "restart = {}\n";
    let [warning] = &*warnings(restart) else { panic!("{:?}", warnings(restart)) };
    let start =
        "c.toml:4:15: if the target runs below `podnudge supervise`, the slot is given back before";
    assert!(warning.starts_with(start) && warning.contains("hint: add a proof"), "{warning}");
    assert_eq!(warnings("signal.name = \"HUP\"\non-failure = \"restart\"").len(), 1);
    for right in [
        "signal.name = \"HUP\"",
        "restart = {}\nlimit.bake = \"10s\"",
        "restart = {}\nverify.http = \"http://127.0.0.1/\"",
        "restart = {}\naccept = \"restart-unproven\"",
    ] {
        assert_eq!(warnings(right), [""; 0], "{right}");
    }
}

#[test]
fn an_approval_before_checks_that_give_content_to_nobody_causes_a_warning() {
    let warnings = |check: &str| {
        let file = format!(
            "[agent]\nreload = \"loopback\"\n[[rule]]\nwatch = \"/a\"\n\
             http.url = \"http://localhost/\"\nhold.approve-before = \"check\"\n\
             [[rule.check]]\n{check}\n"
        );
        let (config, warnings) =
            config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
        (config.rules[0].needs_approval_to_check(), warnings.len())
    };
    assert_eq!(warnings("syntax = \"json\""), (false, 1));
    assert_eq!(warnings("exec = [\"nginx\", \"-t\"]"), (true, 0));
    assert_eq!(warnings("http = \"http://localhost:2019/adapt\""), (true, 0));
}

#[test]
fn a_setting_of_another_kind_of_restart_causes_a_warning() {
    for (restart, key) in [
        ("what = \"target\", exit-code = 90", "exit-code"),
        ("what = \"pod\", grace = \"1m\"", "grace"),
        ("what = \"evict\", most = 3", "most"),
    ] {
        let file = format!(
            "[agent]\nstate-dir = \"/state\"\n[[rule]]\nwatch = \"/a\"\nrestart = {{ {restart} }}\n"
        );
        let (_, warnings) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
        let [warning] = &*warnings else { panic!("{warnings:?}") };
        let expected = format!("`{key}` has no effect if `what` is ");
        assert!(warning.to_string().contains(&expected), "{warning}");
    }
}

/// A file with every setting, a typical file, and a minimal one.
const GOOD: [(&str, &str); 3] = [
    ("everything", include_str!("good/everything.toml")),
    ("typical", include_str!("good/typical.toml")),
    ("short", "[[rule]]\nwatch = \"/etc/app\"\nsignal = { name = 1 }\n"),
];

#[test]
fn the_effective_configuration_parses_to_the_same_configuration() {
    for (name, text) in GOOD {
        let parse = |text: &str| {
            config::parse(name, text, &Overrides::default(), None).map_err(|p| p.to_string())
        };
        let (first, warnings) = parse(text).unwrap();
        assert_eq!(warnings, [], "{name}");
        let effective = config::effective(&first);
        let (second, _) = parse(&effective).unwrap();
        assert_eq!(format!("{first:#?}"), format!("{second:#?}"), "{name}");
        assert_eq!(effective, config::effective(&second), "{name}");
        assert_snapshot!(format!("effective_{name}"), effective);
    }
}

#[test]
fn a_file_is_the_same_in_yaml_and_json() {
    let effective = |name: &str, text: &str| {
        let (config, warnings) = config::parse(name, text, &Overrides::default(), None)
            .map_err(|p| p.to_string())
            .unwrap();
        assert_eq!(warnings, [], "{text}");
        config::effective(&config)
    };
    for (name, text) in GOOD {
        let json: serde_json::Value = toml::from_str(text).unwrap();
        let as_json = effective("podnudge.json", &format!("{json:#}"));
        // JSON has another order of the actions.
        if name != "everything" {
            assert_eq!(as_json, effective("podnudge.toml", text), "{name}");
        }
    }
    let yaml = "# A comment.\nagent:\n  listen: :9533\n  log: json\n  digests-in-metrics: none\nrule:\n\
                - name: web\n  watch: [/etc/nginx, \"/etc/tls\"]\n  jitter: 30s\n  ignore:\n    - '*.md'\n\
                \x20 signal: HUP\n  target: {process: nginx, uid: 101}\n  verify: {children-newer: true}\n\
                \x20 publish: {dir: /config, mode: 0644}\n";
    let toml = "[agent]\nlisten = \":9533\"\nlog = \"json\"\ndigests-in-metrics = \"none\"\n[[rule]]\nname = \"web\"\n\
                watch = [\"/etc/nginx\", \"/etc/tls\"]\njitter = \"30s\"\nignore = [\"*.md\"]\nsignal = \"HUP\"\n\
                target = { process = \"nginx\", uid = 101 }\nverify = { children-newer = true }\n\
                publish = { dir = \"/config\", mode = \"0644\" }\n";
    for name in ["podnudge.yaml", "podnudge.yml", "(standard input)"] {
        assert_eq!(effective(name, yaml), effective("podnudge.toml", toml), "{name}");
    }
}

#[test]
fn text_in_place_of_a_table_is_a_short_form() {
    let effective = |rule: &str| {
        let file = format!("[[rule]]\nwatch = \"/etc/app\"\n{rule}\n");
        let (config, _) = config::parse("c.toml", &file, &Overrides::default(), None)
            .map_err(|p| p.to_string())
            .unwrap();
        config::effective(&config)
    };
    for (short, long) in [
        ("signal = \"HUP\"", "signal = { name = \"HUP\" }"),
        ("signal = 1", "signal = { name = 1 }"),
        ("http = \"http://localhost/\"", "http = { url = \"http://localhost/\" }"),
        (
            "target = \"app\"\nsignal = \"HUP\"",
            "[rule.target]\nprocess = \"app\"\n[rule.signal]\nname = \"HUP\"",
        ),
        (
            "publish = \"/config\"\nsignal = \"HUP\"",
            "signal.name = \"HUP\"\npublish.dir = \"/config\"",
        ),
        ("jitter = \"5s\"\nsignal = \"HUP\"", "jitter.window = \"5s\"\nsignal.name = \"HUP\""),
        // The other settings of the preset stay.
        (
            "preset = \"prometheus\"\nhttp = \"http://127.0.0.1:9091/-/reload\"",
            "preset = \"prometheus\"\nhttp.url = \"http://127.0.0.1:9091/-/reload\"",
        ),
    ] {
        assert_eq!(effective(short), effective(long), "{short}");
    }
}

proptest! {
    /// Any file and any option give a configuration or a list of problems.
    #[test]
    fn no_input_causes_a_panic(
        cut in any::<proptest::sample::Index>(),
        length in 0_usize..40,
        insert in "[\\PC\\n\"'=.\\[\\]{}0-9a-zM-]{0,6}",
        option in "\\PC{0,12}",
    ) {
        let text: Vec<char> = GOOD[0].1.chars().collect();
        let start = cut.index(text.len());
        let end = (start + length).min(text.len());
        let file: String =
            text[..start].iter().copied().chain(insert.chars()).chain(text[end..].iter().copied())
                .collect();
        let words = ["podnudge", "--config=a", "--jitter", &option, "--signal", &option];
        let arguments = words.map(OsString::from);
        if let Ok(cli::Command::Run(run)) = cli::parse(arguments, []) {
            drop(config::parse("a", &file, &run.overrides, None));
            drop(config::parse("a.yaml", &file, &run.overrides, None));
        }
        if let Ok((config, _)) = config::parse("a", &file, &Overrides::default(), None) {
            let effective = config::effective(&config);
            let again = config::parse("b", &effective, &Overrides::default(), None);
            assert_eq!(effective, config::effective(&again.unwrap().0));
        }
    }

    #[test]
    fn a_printed_duration_parses_to_the_same_duration(millis in 0_u64..=86_400_000) {
        let file = format!("[[rule]]\nwatch = \"/a\"\njitter = \"{millis}ms\"\nsignal.name = \"HUP\"\n");
        let none = Overrides::default();
        let (first, _) = config::parse("a", &file, &none, None).unwrap();
        let (second, _) = config::parse("b", &config::effective(&first), &none, None).unwrap();
        assert_eq!(first.rules[0].settings.jitter, second.rules[0].settings.jitter);
    }
}
