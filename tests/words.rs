//! Checks that the tree uses one word for one thing: the words of the Kubernetes documentation and
//! of ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};

/// The banned words and their replacements.
const WORDS: [(&str, &str); 18] = [
    ("taken back", "rolled back"),
    ("takes back", "rolls back"),
    ("take back", "roll back"),
    ("taking back", "rolling back"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("bear repetition", "be idempotent"),
    ("has no use beside", "cannot be combined with"),
    ("has a use only beside", "is only valid with"),
    ("exclude each other", "cannot be combined"),
    ("asks for nothing", "has no condition"),
    ("does not turn", "not responding"),
    ("spent", "exhausted"),
    ("audit", "resync"),
    ("forced", "triggered"),
    ("force", "trigger"),
    ("are all there may be", "budget exhausted"),
];

/// Files where a banned word has another meaning.
const EXCEPTIONS: [(&str, &str, &str); 5] = [
    ("CHANGELOG.md", "audit", "the old name of a setting"),
    ("CHANGELOG.md", "forced", "the old name of a log event"),
    ("docs/checks.md", "force", "a certificate is in force"),
    ("src/checks/certificates/mod.rs", "force", "a certificate is in force"),
    ("src/checks/certificates/certificate.rs", "force", "a certificate is in force"),
];

#[test]
fn no_file_uses_a_banned_word() {
    let mut wrong = Vec::new();
    for file in files(Path::new(".")) {
        let name = file.strip_prefix(".").expect("it is below").display().to_string();
        let text = fs::read_to_string(&file).expect("it is text").to_lowercase();
        for (word, instead) in WORDS {
            let is_excepted = EXCEPTIONS.iter().any(|(of, not, _)| name == *of && *not == word);
            let line = text.lines().position(|line| has(line, word));
            if let Some(line) = line.filter(|_| !is_excepted) {
                wrong.push(format!("{name}:{}: not `{word}` but `{instead}`", line + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the line contains the word as a whole word.
fn has(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        let after = line[at + word.len()..].chars().next().unwrap_or(' ');
        !before.is_alphanumeric() && !after.is_alphanumeric()
    })
}

/// All files that people read: sources, scenarios, documents, examples and manifests, but no build
/// artifacts.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path));
        }
        let is_read = ["rs", "md", "txt", "toml", "yaml"];
        let is_text = path.extension().is_some_and(|ending| is_read.iter().any(|e| ending == *e));
        if path.is_file() && is_text && name != "words.rs" && !folder.ends_with("bad") {
            found.push(path);
        }
    }
    found
}
