//! Fuzzes the command line and the environment (`src/cli/mod.rs`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::{Command, parse};
use crate::fuzz::{Target, assert_harmless_lines, assert_reason, fuzz, words};
use podnudge_config as config;

#[test]
fn arguments_and_variables_are_understood_or_refused() {
    let seeds = [
        "--watch\n/etc/nginx/conf.d\n--signal=HUP\n--process\nnginx",
        "--config=/etc/podnudge.toml\nPODNUDGE_LOG=json\nPODNUDGE_WATCH=/a:/b",
        "check\n--watch=/a\n--url=http://127.0.0.1/\n--jitter=5m",
        "status\n--json\n--url=http://127.0.0.1:9533",
        "trigger\nweb\n--token-file=/t",
        "once\n--wait=5s\n--watch=/a\n--publish=/b\nPODNUDGE_PRESET=nginx",
        "doctor\n--before-start\n--watch=/a",
        "presets\nnginx",
        "install\n/shared",
        "--watch=/a\n--check-exec=nginx -t -c {dir}/nginx.conf\n--verify-url=http://localhost/",
    ];
    let target = Target {
        dictionary: words("command line"),
        longest: 512,
        inputs: 800,
        ..Target::new("command line", &seeds)
    };
    fuzz(target, |input| {
        let mut arguments = vec![OsString::from("podnudge")];
        let mut environment = Vec::new();
        for line in input.split(|byte| *byte == b'\n' || *byte == 0) {
            let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            let middle = line.iter().position(|byte| *byte == b'=');
            match middle.filter(|_| line.starts_with(b"PODNUDGE_")) {
                Some(middle) => {
                    environment.push((text(&line[..middle]), text(&line[middle + 1..])));
                }
                None => arguments.push(text(line)),
            }
        }
        match parse(arguments, environment) {
            Err(stop) => {
                assert_harmless_lines(&stop.text);
                assert!(stop.text.ends_with('\n'));
                stop.text.chars().take(60).collect()
            }
            Ok(Command::Run(sources) | Command::Check(sources)) => {
                for warning in &sources.warnings {
                    assert_harmless_lines(&warning.to_string());
                }
                match config::parse("(no file)", "", &sources.overrides, None) {
                    Ok((config, _)) => {
                        let shown = config::effective(&config);
                        let again = config::parse("a", &shown, &Vec::new(), None);
                        let (again, _) =
                            again.unwrap_or_else(|problems| panic!("{problems}\n{shown}"));
                        assert_eq!(config::effective(&again), shown);
                        "a configuration".to_owned()
                    }
                    Err(problems) => {
                        let shown = problems.to_string();
                        assert_harmless_lines(&shown);
                        shown
                    }
                }
            }
            Ok(Command::Presets(text)) => {
                assert_harmless_lines(&text);
                text.chars().take(20).collect()
            }
            Ok(Command::Status(status)) => {
                let url = status.url.as_ref().map_or("", |url| url.as_str());
                drop(assert_reason(&podnudge_core::reason::Reason::new(url)));
                "status".to_owned()
            }
            Ok(_) => "another command".to_owned(),
        }
    });
}
