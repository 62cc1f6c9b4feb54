//! Presets as data: each file is complete, and the rule's own settings take precedence. What the
//! presets do to real applications is in `applications/presets/`.

use std::collections::BTreeSet;
use std::fs;

use podnudge_config::{self as config, Action, Condition, Preset, ProofBy, Rule, preset, presets};

use crate::applications::presets::subjects;
use crate::support::{Agent, Behaviour, Scene, Target, command, in_namespace};

fn rule(text: &str) -> Rule {
    let parsed = config::parse("test", text, &[], None);
    let (mut config, _) = parsed.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    config.rules.remove(0)
}

fn actions(rule: &Rule) -> String {
    format!("{:?} {:?}", rule.actions, rule.verify)
}

#[test]
fn every_file_of_a_preset_is_read() {
    let name = |file: fs::DirEntry| file.file_name().to_str().unwrap().replace(".toml", "");
    let files: BTreeSet<String> = fs::read_dir("presets").unwrap().flatten().map(name).collect();
    let known: BTreeSet<String> = presets().iter().map(|preset| preset.name.clone()).collect();
    assert_eq!(files, known);
    assert!(known.len() >= 28);
}

/// The page about applications. `UPDATE=1` writes its tables instead of comparing them.
#[test]
fn the_page_about_applications_matches_the_presets() {
    const PAGE: &str = "docs/applications.md";
    const MARK: &str =
        "<!-- Made from presets/: UPDATE=1 cargo test --test all the_page_about -->\n";
    let use_it = |preset: &Preset| {
        let subject = subjects().find(|subject| subject.preset == preset.name);
        let tested = subject.map(|subject| release(&subject.package)).unwrap_or_default();
        let Preset { name, about, evidence, .. } = preset;
        let (set, proof) = (set(preset), proof(preset));
        format!("| {name} | {tested} | {set} | {about} | {proof} | `{evidence}` |\n")
    };
    let protect = |preset: &Preset| {
        let check = match preset.check.join(" ") {
            check if check.is_empty() => "none".to_owned(),
            check => format!("`{check}`"),
        };
        let limits = preset.limits.iter().chain(&preset.no_reload_because);
        let limits = limits.map(String::as_str).collect::<Vec<_>>().join("; ");
        format!("| {} | {} | {check} | {limits} |\n", preset.name, preset.broken)
    };
    let used: String = presets().iter().map(use_it).collect();
    let protected: String = presets().iter().map(protect).collect();
    let page = fs::read_to_string(PAGE).unwrap();
    let (text, _) = page.split_once(MARK).expect("the page has the mark");
    let made = format!(
        "{text}{MARK}\n| preset | tested | set | action | proof | evidence |\n\
         | --- | --- | --- | --- | --- | --- |\n{used}\n## With a broken configuration\n\n\
         | preset | without a check, the application | check | limits |\n\
         | --- | --- | --- | --- |\n{protected}"
    );
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PAGE, made).unwrap();
    } else {
        assert!(
            page == made,
            "{PAGE} is out of date: run `UPDATE=1 cargo test --test all the_page_about`"
        );
    }
}

/// The README has some of them.
#[test]
fn the_checks_in_the_readme_are_those_of_the_presets() {
    let readme = fs::read_to_string("README.md").unwrap();
    let (_, section) =
        readme.split_once("\n## Applications\n").expect("the README has the section");
    let (section, _) = section.split_once("\n## ").unwrap();
    let cells = section.split('|').map(|cell| cell.trim().trim_matches('`'));
    let checks: Vec<&str> = cells.filter(|cell| cell.contains("{dir}")).collect();
    assert!(checks.len() >= 9, "{checks:?}");
    for check in checks {
        assert!(presets().iter().any(|preset| preset.check.join(" ") == check), "{check}");
    }
}

/// What a user sets besides the volumes: nothing if podnudge takes the preset by itself.
fn set(preset: &Preset) -> String {
    match preset.programs.first().map(|program| Preset::chosen_for(program.as_str())) {
        Some(Ok(chosen)) if chosen.name == preset.name => "nothing".to_owned(),
        _ => format!("`--preset {}`", preset.name),
    }
}

/// How podnudge finds out that the application runs the content: the keys of the proof, or what the action
/// itself shows.
fn proof(preset: &Preset) -> String {
    let rule = rule(&preset.as_file());
    let text = preset.as_file();
    let (_, verify) = text.split_once("[rule.verify]\n").unwrap_or_default();
    let settings = verify.lines().map_while(|line| line.split_once(" = "));
    let (places, keys): (Vec<_>, Vec<_>) = settings
        .filter(|(key, _)| *key != "alive-for")
        .partition(|(key, _)| ["http", "socket"].contains(key));
    let keys: Vec<String> = keys.iter().map(|(key, _)| format!("`{key}`")).collect();
    let at = |(_, place): &(&str, &str)| format!(" at `{}`", place.trim_matches('"'));
    let place = places.first().map(at).unwrap_or_default();
    match &rule.actions[0] {
        _ if !keys.is_empty() => keys.join(", ") + &place,
        Action::Signal(_) => "none: it survives".to_owned(),
        Action::Http(_) => "its answer".to_owned(),
        Action::Exec(_) | Action::Command(_) => "the exit code".to_owned(),
        _ => "a new process that survives".to_owned(),
    }
}

/// The release of the software in a Debian package: without the numbers that a security update
/// changes.
fn release(package: &str) -> String {
    let mut query = command("dpkg-query");
    let output = query.args(["--show", "--showformat=${Version}", package]).output().unwrap();
    assert!(output.status.success(), "the package {package} is not installed: run ./test");
    // An epoch, a colon, the version of the software, and what Debian made of it.
    let version = String::from_utf8(output.stdout).unwrap();
    let software = version.split_once(':').map_or(version.as_str(), |(_, software)| software);
    let end = software.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let numbers: Vec<&str> = software[..end.unwrap_or(software.len())].split('.').collect();
    // PostgreSQL's second number counts the fixes.
    let count = if package.starts_with("postgresql-") { 1 } else { 2 };
    numbers[..count].join(".")
}

#[test]
fn the_test_command_installs_every_tested_application() {
    let script = fs::read_to_string("test").unwrap();
    for package in subjects().map(|subject| &subject.package) {
        let is_installed =
            |line: &str| line.starts_with("need ") && line.ends_with(&format!(" {package}"));
        assert!(script.lines().any(is_installed), "./test does not install {package}");
    }
}

/// Where the preset alone is not enough: a broken configuration ends the application.
#[test]
fn every_application_that_a_broken_configuration_ends_has_an_example() {
    for preset in presets().iter().filter(|preset| preset.ends) {
        let file = format!("examples/{}-published.toml", preset.name);
        let example = rule(&fs::read_to_string(&file).unwrap());
        assert!(example.settings.publish.is_some(), "{file} publishes");
        let checks = example.checks.iter().filter_map(|check| match &check.condition {
            Condition::Exec(program) => program.arguments.first(),
            _ => None,
        });
        let checker = preset.check.first();
        assert_eq!(checks.collect::<Vec<_>>(), Vec::from_iter(checker), "{file} checks");
        let alone = rule(&format!("[[rule]]\npreset = \"{}\"\nwatch = \"/etc\"", preset.name));
        assert_eq!(example.actions.len(), alone.actions.len(), "{file}");
    }
}

#[test]
fn a_preset_stands_for_the_settings_that_it_prints() {
    for preset in presets() {
        let printed = rule(&preset.as_file());
        let named =
            rule(&format!("[[rule]]\nwatch = \"/etc/app\"\npreset = \"{}\"\n", preset.name));
        assert_eq!(actions(&printed), actions(&named));
        let effective = config::effective(&config::Config {
            agent: config::parse("test", &preset.as_file(), &[], None).unwrap().0.agent,
            cluster: None,
            rules: vec![named.clone()],
        });
        assert_eq!(actions(&rule(&effective)), actions(&named));
    }
}

/// What a preset says about its evidence follows from its action and its proofs.
#[test]
fn the_evidence_of_a_preset_is_what_podnudge_can_get() {
    for preset in presets() {
        let rule = rule(&preset.as_file());
        let [action] = rule.actions.as_slice() else { panic!("{} has one action", preset.name) };
        let evidence = match action {
            _ if !rule.verify.proofs.is_empty() => "verified",
            Action::Signal(_) => "read",
            Action::Restart | Action::RestartPod(_) | Action::Evict(_) => "read-at-start",
            Action::Http(_) | Action::Exec(_) | Action::Command(_) => "accepted",
        };
        assert_eq!(preset.evidence, evidence, "{}", preset.name);
        assert_eq!(preset.no_reload_on.is_empty(), preset.no_reload_because.is_none());
    }
}

/// The programs that check the content of a rule, each with its arguments.
fn checkers(rule: &Rule) -> Vec<&[String]> {
    let programs = rule.checks.iter().filter_map(|check| match &check.condition {
        Condition::Exec(program) => Some(program.arguments.as_slice()),
        _ => None,
    });
    programs.collect()
}

#[test]
fn a_rule_can_be_checked_by_the_program_of_its_preset() {
    let nginx = preset("nginx").unwrap();
    let with = |more: &str| format!("[[rule]]\nwatch = \"/etc/app\"\n{more}");
    for text in [
        "preset = \"nginx\"\ncheck = \"preset\"",
        "preset = \"nginx\"\n[[rule.check]]\nby = \"preset\"",
    ] {
        assert_eq!(checkers(&rule(&with(text))), [&nginx.check], "{text}");
    }
    // The program of the target has that preset.
    let by_target = with("target = \"nginx\"\nsignal = \"HUP\"\ncheck = \"preset\"");
    assert_eq!(checkers(&rule(&by_target)), [&nginx.check]);
    assert_eq!(checkers(&rule(&with("preset = \"nginx\""))).len(), 0);
    // What is written stands for the same.
    let text = with("preset = \"nginx\"\ncheck = \"preset\"");
    let (parsed, _) = config::parse("test", &text, &[], None).unwrap();
    assert_eq!(checkers(&rule(&config::effective(&parsed))), [&nginx.check]);
    // The preset is chosen later.
    let late = rule(&with("check = \"preset\""));
    assert_eq!(checkers(&late.with_preset(nginx).unwrap()), [&nginx.check]);
    let reason = late.with_preset(preset("mosquitto").unwrap()).unwrap_err();
    assert_eq!(reason.message, "the preset `mosquitto` has no check");
}

#[test]
fn a_check_by_a_preset_that_cannot_be_is_refused() {
    for (settings, wanted) in [
        ("preset = \"redis\"", "test:3:1: the preset `redis` has no check"),
        (
            "signal.name = \"HUP\"",
            "test:3:1: the rule has no preset, whose check it could use\n  \
             hint: set `preset`, or name the program: `exec`",
        ),
    ] {
        let text = format!("[[rule]]\nwatch = \"/etc/app\"\ncheck = \"preset\"\n{settings}\n");
        let problems = config::parse("test", &text, &[], None).unwrap_err().to_string();
        assert!(problems.starts_with(wanted), "{problems}");
    }
}

#[test]
fn settings_of_the_rule_take_precedence_over_its_preset() {
    let with = |preset: &str, more: &str| {
        rule(&format!("[[rule]]\nwatch = \"/etc/app\"\npreset = \"{preset}\"\n{more}\n"))
    };
    let moved = with("prometheus", "http.url = \"http://127.0.0.1:9091/-/reload\"");
    let Action::Http(http) = &moved.actions[0] else { panic!("{:?}", moved.actions) };
    assert_eq!(http.endpoint.url.port(), Some(9091));
    assert!(matches!(moved.verify.proofs.as_slice(), [ProofBy::Http(_)]), "its proof stays");
    let signal = with("nginx", "signal.name = \"USR1\"");
    assert!(
        matches!(signal.actions.as_slice(), [Action::Signal(signal)] if signal.name as i32 == 10)
    );
    assert!(matches!(signal.verify.proofs.as_slice(), [ProofBy::ChildrenNewer]));
    let unproven = with("nginx", "verify.children-newer = false");
    assert!(unproven.verify.proofs.is_empty());
    // New workers prove nothing about a request.
    let other = with("nginx", "http.url = \"http://127.0.0.1/reload\"");
    assert!(matches!(other.actions.as_slice(), [Action::Http(_)]));
    assert!(other.verify.proofs.is_empty());
}

#[test]
fn a_program_is_known_by_the_name_that_the_kernel_cuts() {
    for (comm, name) in [
        ("nginx", Some("nginx")),
        ("apache2", Some("apache")),
        ("httpd", Some("apache")),
        ("blackbox_export", Some("blackbox-exporter")),
        ("prometheus-blac", Some("blackbox-exporter")),
        ("prometheus-aler", Some("alertmanager")),
        ("php-fpm8.2", Some("php-fpm")),
        ("named", Some("bind9")),
        ("java", None),
        ("nginx-exporter", None),
        ("", None),
    ] {
        let found = Preset::of_program(comm).map(|preset| preset.name.as_str());
        assert_eq!(found, name, "{comm}");
    }
    assert!(preset("ngnix").unwrap_err().hint.unwrap().contains("`nginx`"));
}

/// Starts podnudge for a process with this name, and changes the content of its volume.
fn refused(name: &str, arguments: &[&str]) -> (Scene, Agent, Target) {
    let mut scene = Scene::new();
    let target = scene.target(name, Behaviour::Handles);
    let agent = scene.nudge(&[&["--process", name], arguments].concat());
    agent.wait_for("preflight", 1);
    scene.change("2");
    (scene, agent, target)
}

/// An unknown program, and one that only a restart reloads: podnudge says so at the start, and does
/// nothing to it.
#[test]
fn a_program_without_a_harmless_preset_is_left_alone() {
    in_namespace!();
    for (name, reason, hint) in [
        ("myapp", "podnudge does not know how `myapp` reloads", "`--signal HUP`"),
        ("redis-server", "takes a new configuration by a restart", "`--preset redis`"),
    ] {
        let (_scene, agent, mut target) = refused(name, &[]);
        assert_eq!(agent.last("preflight", "problem"), "no-preset");
        assert!(agent.last("preflight", "reason").contains(reason), "{}", agent.log());
        assert!(agent.last("preflight", "hint").contains(hint), "{}", agent.log());
        agent.wait_for("refused", 1);
        assert!(agent.last("refused", "reason").contains(reason), "{}", agent.log());
        assert!(target.is_running());
        assert_eq!(target.signals(), 0);
    }
}

/// The signal is sent, because a person asked for it, but not without a warning at the start.
#[test]
fn a_signal_that_does_not_reload_the_program_is_reported() {
    in_namespace!();
    for (name, because, instead) in [
        ("rsyslogd", "only closes and reopens its files", "`--preset rsyslog`"),
        ("dnsmasq", "but not dnsmasq.conf", "`--preset dnsmasq`"),
        ("mariadbd", "does not read my.cnf", "`--preset mariadb`"),
        ("lighttpd", "only reopens its logs", "`--preset lighttpd`"),
        ("stunnel4", "reads the old files again", "`--preset stunnel`"),
    ] {
        let (_scene, agent, _target) = refused(name, &["--signal", "HUP"]);
        assert_eq!(agent.last("preflight", "problem"), "signal-does-not-reload");
        assert!(agent.last("preflight", "reason").contains(because), "{}", agent.log());
        assert!(agent.last("preflight", "hint").contains(instead), "{}", agent.log());
        agent.wait_for("delivered", 1);
        assert_eq!(agent.count("applied"), 0);
    }
}

/// What a preset sends or reads must be content of its rule, wherever the volume is mounted: a path of the
/// application's own image may exist in podnudge's container, too, with other content.
#[test]
fn no_preset_names_a_file_by_a_fixed_path() {
    for preset in presets() {
        let settings = preset.as_file();
        let (_, settings) = settings.split_once("\n\n[[rule]]\n").unwrap();
        let (_, settings) = settings.split_once("\n\n").unwrap();
        let words = settings.lines().filter(|line| {
            !line.starts_with(['#', 'r']) && !line.contains("-because") && !line.contains("json-")
        });
        for word in words.flat_map(|line| line.split(['"', '\'', ' ', ',', '='])) {
            assert!(!word.starts_with('/'), "{}: {word}", preset.name);
        }
        let is_fixed = |argument: &String| argument.split('=').any(|part| part.starts_with('/'));
        assert!(!preset.check.iter().any(is_fixed), "{}: {:?}", preset.name, preset.check);
    }
}

/// A shell that has just started may be about to start the application: podnudge waits, and refuses only one that
/// has started nothing that it knows.
#[test]
fn below_a_young_shell_podnudge_waits_for_the_application() {
    in_namespace!();
    let mut scene = Scene::new();
    let script = "sleep 600; exec true";
    let mut shell = command("sh").args(["-c", script, "entrypoint"]).spawn().unwrap();
    let agent = scene.nudge(&["--cmdline", "entrypoint"]);
    scene.change("2");
    agent.wait_for("waiting-for-target|refused", 1);
    assert_eq!(agent.count("refused"), 0, "{}", agent.log());
    let reason = agent.last("waiting-for-target", "reason");
    assert!(reason.ends_with("(sh) starts is not known yet"), "{reason}");
    agent.wait_for("refused", 1);
    let hint = agent.last("refused", "hint");
    assert!(hint.contains("--preset") && hint.contains("--process"), "{hint}");
    shell.kill().unwrap();
    shell.wait().unwrap();
}
