//! The manual pages and the completions that are made from the definitions of the command line.

use std::fs;

use clap::Command;
use tempfile::TempDir;

use crate::support::{command, podnudge};

#[path = "../examples/manual.rs"]
#[expect(dead_code, reason = "its `main` is that of the example")]
mod example;

fn written() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    example::write(folder.path()).unwrap();
    folder
}

fn options(command: &Command) -> Vec<String> {
    command.get_arguments().filter_map(|one| one.get_long().map(str::to_owned)).collect()
}

#[test]
fn the_manual_has_a_page_for_each_command_and_each_of_its_options() {
    let folder = written();
    let mut podnudge = podnudge::cli::command();
    podnudge.build();
    let pages = podnudge.get_subcommands().map(|one| (format!("-{}", one.get_name()), one));
    let pages: Vec<_> = pages.chain([(String::new(), &podnudge)]).collect();
    assert!(pages.len() >= 11, "{}", pages.len());
    for (name, command) in pages {
        let page = fs::read_to_string(folder.path().join(format!("podnudge{name}.1"))).unwrap();
        for option in options(command) {
            let shown = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&shown), "podnudge{name}.1 has no --{option}");
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = written();
    let completed = |words: &str| {
        let script = format!(
            "source podnudge.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _podnudge podnudge \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\""
        );
        let output = command("bash").args(["-c", &script]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed("podnudge stat"), "status");
    assert_eq!(completed("podnudge --jit"), "--jitter --jitter-by");
    assert_eq!(completed("podnudge status --j"), "--json");
    assert_eq!(completed("podnudge help comp"), "completion compat");
    assert_eq!(completed("podnudge presets ng"), "nginx");
}

#[test]
fn podnudge_prints_the_completions() {
    let folder = written();
    for (shell, file) in
        [("bash", "podnudge.bash"), ("zsh", "_podnudge"), ("fish", "podnudge.fish")]
    {
        let output = podnudge().args(["completion", shell]).output().unwrap();
        assert_eq!(output.stderr, b"", "{shell}");
        assert!(output.stdout == fs::read(folder.path().join(file)).unwrap(), "{shell}");
    }
}

#[test]
fn zsh_and_fish_complete_each_option() {
    let folder = written();
    let options = options(&podnudge::cli::command());
    for file in ["_podnudge", "podnudge.fish"] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        for option in &options {
            assert!(text.contains(&format!("--{option} ")), "{file} has no --{option}");
        }
    }
}
