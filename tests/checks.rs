//! Checks of real contents: which pass, which are rejected, and that the reason gives the position
//! but never the content.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use podnudge::checks::contents::check;
use podnudge::checks::copy::PrivateCopy;
use podnudge::volume::scan::read;
use podnudge_config::{Check, Condition, KeyFilter, Syntax};
use podnudge_core::clock::UnixTime;
use podnudge_core::event::Checked;
use podnudge_core::snapshot::{Digest, digest};

use crate::support::{Agent, Application, Kubelet, Payload, Scene, payload};

fn condition(condition: Condition) -> Check {
    Check { keys: Vec::new(), condition }
}

fn syntax(syntax: Syntax, keys: &str) -> Check {
    Check { keys: vec![glob::Pattern::new(keys).unwrap()], condition: Condition::Syntax(syntax) }
}

fn on_disk(path: &Path) -> Digest {
    digest([read(path, &KeyFilter::default()).unwrap().snapshot.unwrap().digest()])
}

/// The result of checks that do not depend on the time.
fn at_any_time<'a>(
    volumes: impl IntoIterator<Item = &'a Path>,
    asked: Digest,
    checks: &[Check],
) -> Checked {
    let checked = check(volumes, &KeyFilter::default(), asked, checks, UnixTime::default());
    checked.err().unwrap_or(Checked::Passed)
}

/// The result of the checks for a volume with this content.
fn judge(content: &Payload, checks: &[Check]) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    kubelet.write(content);
    at_any_time([folder.path()], on_disk(folder.path()), checks)
}

fn rejection(content: &Payload, one: Check) -> String {
    match judge(content, &[one]) {
        Checked::Rejected(reason) => reason.message,
        other => panic!("not rejected: {other:?}"),
    }
}

#[test]
fn a_syntax_error_is_reported_with_its_position_but_not_its_content() {
    for (kind, key, good, broken, place) in [
        (
            Syntax::Json,
            "a.json",
            "{\"a\": [1, null]}",
            "{\n  \"a\": hunter2\n}",
            "line 2, column 8",
        ),
        (Syntax::Json, "a.json", "\"\"", "{\"a\": 1", "line 1, column 7"),
        (Syntax::Json, "a.json", "1", "", "it is empty"),
        (Syntax::Yaml, "a.yaml", "a: 1\n---\nb: [2]\n", "a: 1\nb: [hunter2\n", "line 3, column 1"),
        (Syntax::Yaml, "a.yaml", "", "a: 1\n\tb: hunter2\n", "line 1, column 4"),
        (Syntax::Toml, "a.toml", "a = 1\n", "a = 1\nb = hunter2\n", "line 2, column 5"),
        (Syntax::Toml, "a.toml", "", "a = 1\na = 2\n", "line 2, column 1"),
    ] {
        assert_eq!(judge(&payload(&[(key, good)]), &[syntax(kind, "a.*")]), Checked::Passed);
        let message = rejection(&payload(&[(key, broken)]), syntax(kind, "a.*"));
        assert!(message.starts_with(&format!("`{key}` is not")), "{message}");
        assert!(message.ends_with(place), "{broken:?}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
        // Keys that do not match the pattern are not checked.
        assert_eq!(judge(&payload(&[(key, broken)]), &[syntax(kind, "b.*")]), Checked::Passed);
    }
    let mut binary = Payload::new();
    binary.insert("a.json".to_owned(), b"{\n\"\xff\"}".to_vec());
    let message = rejection(&binary, syntax(Syntax::Json, "*.json"));
    assert_eq!(message, "`a.json` is not UTF-8 text: see line 2, column 2");
}

/// The README documents what the syntax checks do not detect.
#[test]
fn duplicate_keys_are_an_error_in_toml_only() {
    for (kind, text) in [
        (Syntax::Json, "{\"a\": 1, \"a\": 2}"),
        (Syntax::Yaml, "a: 1\na: 2\n"),
        (Syntax::Yaml, "a: yes\nb: 010\nc: !!int text\n"),
    ] {
        assert_eq!(judge(&payload(&[("a", text)]), &[syntax(kind, "a")]), Checked::Passed);
    }
    assert!(!rejection(&payload(&[("a", "a = 1\na = 2\n")]), syntax(Syntax::Toml, "a")).is_empty());
    // Errors that a YAML parser finds without building values.
    for text in ["a: *nobody\n", "a: b: c\n", "a: [1\n", "a: 'b\n", "a: @b\n", "- a\nb: 1\n"] {
        assert!(
            !rejection(&payload(&[("a", text)]), syntax(Syntax::Yaml, "a")).is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_deeply_nested_document_is_rejected_without_a_crash() {
    let deep = "[".repeat(1_000_000);
    for (kind, key) in
        [(Syntax::Json, "a.json"), (Syntax::Yaml, "a.yaml"), (Syntax::Toml, "a.toml")]
    {
        let text = if kind == Syntax::Toml { format!("a = {deep}") } else { deep.clone() };
        assert!(!rejection(&payload(&[(key, &text)]), syntax(kind, "*")).is_empty());
    }
}

#[test]
fn names_are_escaped_once() {
    let not_empty = condition(Condition::NotEmpty);
    assert_eq!(rejection(&payload(&[("a\x1b[0m", "")]), not_empty), r"`a\x1b[0m` is empty");
    let required = condition(Condition::RequiredKeys(vec!["a \"b\"\t".to_owned()]));
    assert_eq!(rejection(&payload(&[("a", "")]), required), r#"`a "b"\t` is missing"#);
}

#[test]
fn missing_empty_and_large_keys_are_named() {
    let content = payload(&[("a.conf", "1"), ("sites/b.conf", " \n"), ("c.conf", "")]);
    let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let required = |names: &[&str]| condition(Condition::RequiredKeys(keys(names)));
    assert_eq!(judge(&content, &[required(&["a.conf", "sites/b.conf"])]), Checked::Passed);
    assert_eq!(
        rejection(&content, required(&["a.conf", "b.conf", "d.conf"])),
        "`b.conf`, `d.conf` are missing"
    );
    assert_eq!(
        rejection(&content, condition(Condition::NotEmpty)),
        "`c.conf`, `sites/b.conf` are empty"
    );
    assert_eq!(judge(&content, &[condition(Condition::MaxBytes(3))]), Checked::Passed);
    assert_eq!(
        rejection(&content, condition(Condition::MaxBytes(2))),
        "the keys hold 3 bytes, more than the 2 allowed"
    );
    let many: Payload = (0..9).map(|n| (format!("{n}"), Vec::new())).collect();
    assert_eq!(
        rejection(&many, condition(Condition::NotEmpty)),
        "`0`, `1`, `2`, `3`, `4` and 4 more are empty"
    );
}

#[test]
fn the_8_mib_limit_applies_to_the_sum_of_all_files() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..8 {
        fs::write(folder.path().join(n.to_string()), vec![b'x'; 1024 * 1024]).unwrap();
    }
    let not_empty = [condition(Condition::NotEmpty)];
    let judge = || at_any_time([folder.path()], on_disk(folder.path()), &not_empty);
    assert_eq!(judge(), Checked::Passed);
    fs::write(folder.path().join("more"), "x").unwrap();
    let Checked::Rejected(reason) = judge() else { panic!("{:?}", judge()) };
    let message = &reason.message;
    assert!(message.ends_with("/more` exceeds the 8 MiB that podnudge keeps of a rule's volumes"));
    assert!(reason.hint.is_some_and(|hint| hint.contains("`only`") && !hint.contains("max-")));
}

/// A program in the volume stays executable; all other access is for podnudge only.
#[test]
fn a_private_copy_keeps_the_execute_permission() {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    fs::create_dir(&volume).unwrap();
    for (name, mode) in [("run.sh", 0o755), ("a.conf", 0o666), ("for-others", 0o655)] {
        fs::write(volume.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(volume.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (asked, keys) = (on_disk(&volume), KeyFilter::default());
    let copy = PrivateCopy::make(&[volume], &keys, asked, folder.path(), "copy-").unwrap();
    for (name, mode) in [("run.sh", 0o700), ("a.conf", 0o600), ("for-others", 0o600)] {
        let copied = copy.first().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(copied, mode, "{name}");
    }
}

#[test]
fn content_that_changed_before_the_check_is_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    kubelet.write(&payload(&[("a.json", "{}")]));
    let asked = on_disk(folder.path());
    kubelet.write(&payload(&[("a.json", "{")]));
    let checks = [syntax(Syntax::Json, "*")];
    let volumes = || [folder.path()];
    assert_eq!(at_any_time(volumes(), asked, &checks), Checked::Moved);
    kubelet.remove();
    assert_eq!(at_any_time(volumes(), asked, &checks), Checked::Moved);
}

/// End to end: the application keeps the last good content, and a fix is applied at once.
#[test]
fn a_broken_configuration_never_reaches_the_application() {
    let mut scene = Scene::with(&[("a.json", "1")]);
    let application = Application::start(&scene.kubelet.volume, "a.json");
    let config = format!(
        "[[rule]]\nname = \"app\"\nwatch = \"{}\"\nsettle = \"0s\"\non-start = \"never\"\n\
         [rule.http]\nurl = \"{}\"\n\
         [[rule.check]]\nrequired-keys = [\"a.json\"]\n\
         [[rule.check]]\nsyntax = \"json\"\nkeys = [\"*.json\"]\n",
        scene.kubelet.volume.display(),
        application.url()
    );
    let file = scene.path("podnudge.toml");
    fs::write(&file, config).unwrap();
    let agent = Agent::start(scene.folder.path(), &["--config", file.to_str().unwrap()]);
    let broken = [
        ("{\"password\": \"hunter2\"\n", "it ends too early, in line 1"),
        ("]", "see line 1, column 1"),
        ("", "it is empty"),
    ];
    for (n, (broken, what)) in broken.into_iter().enumerate() {
        scene.change(broken);
        agent.wait_for("rejected", n + 1);
        assert_eq!(agent.last("rejected", "reason"), format!("`a.json` is not JSON: {what}"));
        let fixed = (n + 2).to_string();
        scene.roll_out(&agent, &fixed);
    }
    scene.kubelet.write(&payload(&[("b.json", "5")]));
    agent.wait_for("rejected", 4);
    assert_eq!(agent.last("rejected", "reason"), "`a.json` is missing");
    assert_eq!(application.reloads(), ["2", "3", "4"]);
    assert!(!agent.log().contains("hunter2"));
}
