//! Problems of a configuration: the place, the message and a hint. Pure.
//!
//! All problems are collected before any is printed, so one run shows everything there is to fix.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use super::define::Section;
use podnudge_core::reason::Reason;
use podnudge_core::shown;
use podnudge_core::week::Zones;

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The file, at this byte.
    File(usize),
    /// A command line option.
    Option(String),
    /// An environment variable.
    Environment(String),
    /// A preset.
    Preset(String),
}

/// A part of the text that comes from an option of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The place of the part in the text.
    pub bytes: Range<usize>,
    /// The option, with its dashes.
    pub option: String,
}

/// A problem or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `file:line:column`, an option, or an environment variable.
    pub place: String,
    /// What is wrong, and how to fix it.
    pub reason: Reason,
}

/// All problems of a configuration, at least one, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    problems: Vec<Problem>,
    are_in_options: bool,
}

impl Problems {
    /// Whether only command line options are wrong, and neither the file nor an environment variable.
    #[must_use]
    pub fn are_in_options(&self) -> bool {
        self.are_in_options
    }

    /// Iterates over the problems, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// The messages without their places, on one line.
    pub(super) fn summary(&self) -> String {
        let messages: Vec<&str> =
            self.problems.iter().map(|problem| problem.reason.message.as_str()).collect();
        messages.join("; ")
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason.message)?;
        match &self.reason.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Collects problems and warnings.
pub(super) struct Report<'a> {
    /// The definition of the whole file.
    pub(super) file: &'static Section,
    file_name: String,
    text: &'a str,
    /// Whether the file is YAML or JSON.
    pub(super) is_yaml: bool,
    /// The options that parts of the text come from.
    pub(super) origins: &'a [Origin],
    pub(super) zones: Zones<'a>,
    /// The system's CA bundle.
    pub(super) bundle: Option<&'a Path>,
    /// The places of each key and its value, by the path of the key.
    pub(super) places: RefCell<BTreeMap<String, (At, At)>>,
    problems: RefCell<Vec<(At, Reason)>>,
    warnings: RefCell<Vec<(At, Reason)>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        file: &'static Section,
        file_name: &str,
        text: &'a str,
        zones: Zones<'a>,
        bundle: Option<&'a Path>,
    ) -> Self {
        Self {
            file,
            file_name: shown::text(file_name),
            text,
            is_yaml: false,
            origins: &[],
            zones,
            bundle,
            places: RefCell::default(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// Where this byte of the text comes from.
    pub(super) fn at(&self, byte: usize) -> At {
        let origin = self.origins.iter().find(|origin| origin.bytes.contains(&byte));
        origin.map_or(At::File(byte), |origin| At::Option(origin.option.clone()))
    }

    /// Adds a problem, which makes the configuration invalid.
    pub(super) fn problem(&self, at: &At, reason: Reason) {
        self.problems.borrow_mut().push((at.clone(), reason));
    }

    pub(super) fn has_problem(&self, at: &At) -> bool {
        self.problems.borrow().iter().any(|(other, _)| other == at)
    }

    /// Adds a warning about something that is valid but probably a mistake.
    pub(super) fn warn(&self, at: &At, reason: Reason) {
        self.warnings.borrow_mut().push((at.clone(), reason));
    }

    /// The configuration with its warnings, or the problems.
    pub(super) fn finish<T>(self, config: Option<T>) -> Result<(T, Vec<Problem>), Problems> {
        let problems = self.problems.take();
        match config {
            Some(config) if problems.is_empty() => Ok((config, self.located(self.warnings.take()))),
            _ => {
                let are_in_options = problems.iter().all(|(at, _)| matches!(at, At::Option(_)));
                Err(Problems { problems: self.located(problems), are_in_options })
            }
        }
    }

    fn located(&self, mut found: Vec<(At, Reason)>) -> Vec<Problem> {
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let problem = |(at, reason): (At, Reason)| {
            #[cfg(feature = "wording")]
            let reason = if self.is_yaml { in_yaml(&reason) } else { reason };
            Problem { place: self.place(&at), reason }
        };
        found.into_iter().map(problem).collect()
    }

    /// `file:line:column`, both counted from one, the column in characters.
    pub(super) fn place(&self, at: &At) -> String {
        let offset = match at {
            At::File(offset) => *offset,
            At::Option(name) | At::Environment(name) => return name.clone(),
            At::Preset(name) => return format!("preset `{name}`"),
        };
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        format!("{}:{line}:{column}", self.file_name)
    }
}

/// The reason in YAML's form: `signal:` for `[rule.signal]`, and `name: "HUP"` for `name = "HUP"`. A message may quote
/// a text of the file, which stays as it is.
#[cfg(feature = "wording")]
fn in_yaml(reason: &Reason) -> Reason {
    let message = keys_for_headers(&reason.message).replace(" = {", ": {").replace(" = …", ": …");
    let hint = reason.hint.as_deref().map(|hint| keys_for_headers(hint).replace(" = ", ": "));
    Reason { message, hint }
}

#[cfg(feature = "wording")]
fn keys_for_headers(text: &str) -> String {
    let mut parts = text.split("`[");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let header = part.split_once("]`").filter(|(header, _)| {
            matches!(*header, "agent" | "cluster")
                || ["rule.", "[rule"].iter().any(|rule| header.starts_with(rule))
        });
        match header {
            Some((header, rest)) => {
                let key = header.rsplit(['.', '[']).next().unwrap_or_default();
                shown.extend(["`", key.trim_end_matches(']'), ":`", rest]);
            }
            None => shown.extend(["`[", part]),
        }
    }
    shown
}

/// The candidate that `word` was probably meant to be: with an edit distance of at most two, or one
/// for words of fewer than five characters.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = if word.chars().count() < 5 { 1 } else { 2 };
    let word = word.to_ascii_lowercase();
    let edits = |known: &str| strsim::osa_distance(&word, &known.to_ascii_lowercase());
    let distances = candidates.iter().map(|&candidate| (edits(candidate), candidate));
    distances.filter(|(edits, _)| *edits <= limit).min().map(|(_, candidate)| candidate)
}
