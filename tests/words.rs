//! Checks that the tree uses one word for one thing: the words of the Kubernetes documentation and
//! of ARCHITECTURE.md. And that doc comments can be understood without the code below them.

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

/// The words that stand for the subject of a doc comment, which then says nothing where it is shown alone.
const PRONOUNS: [&str; 8] = ["It", "Its", "So", "That", "These", "They", "This", "Those"];
/// What follows `The same` where no noun does: the end of the sentence, or one of these words.
const NO_NOUN: [&str; 18] = [
    "", "about", "after", "and", "as", "at", "before", "but", "by", "for", "if", "in", "of", "on",
    "to", "when", "with", "without",
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

#[test]
fn doc_comments_name_their_subject() {
    let mut wrong = Vec::new();
    for file in ["crates", "src"].into_iter().flat_map(|folder| files(Path::new(folder))) {
        if file.extension().is_none_or(|ending| ending != "rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("it is text");
        let unnamed = doc_comments(&text).into_iter().filter(|(_, begin)| !names_subject(begin));
        wrong.extend(unnamed.map(|(line, begin)| format!("{}:{line}: {begin}", file.display())));
    }
    assert!(wrong.is_empty(), "without a subject of their own:\n{}", wrong.join("\n"));
}

#[test]
fn a_pronoun_is_no_subject() {
    let text =
        "//! That.\n//! It.\n\n/// Its pid.\n/// A pid.\nfn a() {\n    /// The same\n    b: u8,";
    assert_eq!(doc_comments(text), [(1, "That."), (4, "Its pid."), (7, "The same")]);
    for begin in ["Its pid.", "So many.", "The same", "The same, parsed.", "The same for all."] {
        assert!(!names_subject(begin), "{begin}");
    }
    for begin in ["Items.", "The pid.", "Sorts them.", "The same path with links resolved."] {
        assert!(names_subject(begin), "{begin}");
    }
}

/// The first line of each doc comment, with its number.
fn doc_comments(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let comment = comment.filter(|comment| !comment.starts_with('/'));
        found.extend(comment.filter(|_| !is_inside).map(|comment| (number, comment.trim())));
        is_inside = comment.is_some();
    }
    found
}

/// Whether a doc comment begins with a noun or a verb, and not with a word for what stands elsewhere.
fn names_subject(comment: &str) -> bool {
    let first_word = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    match comment.strip_prefix("The same") {
        Some(rest) => !NO_NOUN.contains(&first_word(rest.trim_start_matches(' ')).as_str()),
        None => !PRONOUNS.contains(&first_word(comment).as_str()),
    }
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
