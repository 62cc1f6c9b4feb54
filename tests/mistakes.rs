//! Mistakes on the command line, in the environment and in files, as a table: `tests/mistakes.toml`. Each message
//! names the place and the reason, and says what to do, in two lines.

use std::collections::BTreeMap;
use std::fs::{self, File};

use serde::Deserialize;

use crate::program::podnudge;

/// A mistake, and what podnudge says of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// The arguments. `podnudge.toml` is the file, and so is standard input.
    run: Vec<String>,
    /// The environment.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// The text of the file.
    #[serde(default)]
    file: String,
    /// The place: what is wrong, as the first line names it.
    at: String,
    /// The whole of standard error.
    says: String,
}

#[test]
fn every_mistake_is_reported_with_its_place_the_reason_and_a_remedy() {
    let mistakes: BTreeMap<String, Mistake> =
        toml::from_str(include_str!("mistakes.toml")).unwrap();
    assert!(mistakes.len() >= 45, "only {} mistakes", mistakes.len());
    let mut wrong = String::new();
    for (name, mistake) in mistakes {
        let said = said(&mistake);
        if said != mistake.says {
            wrong.extend([&name, ":\n", &said]);
        }
        let lines: Vec<&str> = mistake.says.lines().collect();
        let [reason, remedy @ ..] = lines.as_slice() else { panic!("{name} says nothing") };
        assert!(reason.contains(&mistake.at), "{name}: the place is not in: {reason}");
        match remedy {
            [] => assert!(reason.contains(" must be "), "{name}: no remedy: {reason}"),
            [hint] => assert!(hint.starts_with("  hint: "), "{name}: {hint}"),
            _ => panic!("{name}: more than two lines: {}", mistake.says),
        }
    }
    assert!(wrong.is_empty(), "the table differs from what podnudge says:\n{wrong}");
}

/// What podnudge says on standard error.
fn said(mistake: &Mistake) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("podnudge.toml");
    fs::write(&file, &mistake.file).unwrap();
    let mut podnudge = podnudge();
    podnudge.args(&mistake.run).envs(&mistake.variables).current_dir(&folder);
    let output = podnudge.stdin(File::open(&file).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), said.starts_with("warning: "), "{:?}: {said}", mistake.run);
    said
}
