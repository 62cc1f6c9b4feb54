//! The definition of a setting: its key, type, bounds, default, command line option and help. Parsing,
//! `podnudge check`, `--help`, the reference and the JSON schema are all derived from it. Pure.

use std::time::Duration;

use podnudge_core::reason::Reason;

/// A table of the configuration file, with all its settings.
#[derive(Debug)]
pub struct Section {
    /// The header as the file writes it: `[rule.retry]`; without brackets for an inline table.
    pub header: &'static str,
    /// The description, with the blanks of a doc comment.
    pub(super) about: &'static str,
    /// The settings of the table.
    pub definitions: &'static [Definition],
    /// The constraints between the settings.
    pub relations: &'static [Relation],
}

/// One setting of a table.
#[derive(Debug)]
pub struct Definition {
    /// The field's name; the key has hyphens in place of underscores.
    pub(super) name: &'static str,
    /// The description, with the blanks of a doc comment.
    pub(super) help: &'static str,
    /// The type of the value.
    pub form: Form,
    /// If the file may give a list of values, the least number of them.
    pub list: Option<usize>,
    /// Whether the setting is required, and its default otherwise.
    pub presence: Presence,
    /// The command line option.
    pub option: Option<CommandLine>,
}

/// Whether a setting is required, and its default otherwise.
#[derive(Debug, Clone, Copy)]
pub enum Presence {
    /// The default, as the file would write it.
    Default(&'static str),
    /// No value by default; what that means, or nothing if that is obvious.
    Optional(&'static str),
    /// A missing value is a problem; an example line.
    Required(&'static str),
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Text, and what it stands for.
    Text(&'static str),
    /// A number with a unit of time, and its bounds.
    Duration(Duration, Duration),
    /// A whole number, and its bounds.
    Number(u32, u32),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text or a number with the same meaning, and what it stands for.
    TextOrNumber(&'static str),
    /// Text, a number or a boolean, which differ.
    Scalar,
    /// A table of names and texts.
    Pairs,
    /// A table; a value in its place sets this key of the table.
    Table(&'static Section, Option<&'static str>),
    /// A list of tables, and what may stand in its place.
    Tables(&'static Section, Single),
    /// No value of its own: the settings of another struct.
    Flatten(&'static Section),
}

/// What may stand in place of a list of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single {
    /// Nothing may.
    No,
    /// A single table; the list must not be empty.
    Table,
    /// Text, which sets this key of a single table.
    Key(&'static str),
}

/// A constraint between settings of one table.
#[derive(Debug)]
pub enum Relation {
    /// At most one of these keys.
    AtMostOne(&'static [&'static str]),
    /// At least one of these keys; else this message and this hint.
    AtLeastOne(&'static [&'static str], &'static str, &'static str),
    /// Each of the first keys is only valid together with one of the second.
    Needs(&'static [&'static str], &'static [&'static str]),
    /// All of these keys, or none.
    Together(&'static [&'static str]),
}

/// The command line option of a setting. The environment variable has the same name.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    /// The option, without its dashes.
    pub name: &'static str,
    /// The placeholder for the value in the help.
    pub value: &'static str,
    /// The heading in the help.
    pub heading: Heading,
    /// Whether `-h` lists it as well; `--help` lists all options.
    pub is_common: bool,
    /// Whether its value is a list that is split at blanks.
    pub is_split: bool,
}

/// The headings of `--help`, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// Volumes and keys.
    Volumes,
    /// Checks of new content.
    Checks,
    /// Actions of a rule.
    Actions,
    /// The publish directory.
    PublishDirectory,
    /// The target process.
    TargetProcess,
    /// The timing of actions.
    Timing,
    /// Verification of an action.
    Verification,
    /// podnudge itself.
    Podnudge,
}

/// How values of a type are parsed and printed.
#[derive(Debug)]
pub(super) struct Type<T: 'static> {
    pub(super) form: Form,
    /// Parses text that is within the bounds of the form.
    pub(super) parse: fn(&str) -> Result<T, Reason>,
    pub(super) print: fn(&T) -> String,
}

impl Definition {
    /// The key as the file writes it.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.name)
    }

    /// The description of the setting, on one line.
    #[must_use]
    pub fn text(&self) -> String {
        one_line(self.help)
    }
}

impl Section {
    /// The description of the table, on one line.
    #[must_use]
    pub fn text(&self) -> String {
        one_line(self.about)
    }

    /// All settings, including flattened ones.
    #[must_use]
    pub fn settings(&self) -> Vec<&'static Definition> {
        let all = self.definitions.iter().map(|definition| match definition.form {
            Form::Flatten(section) => section.settings(),
            _ => vec![definition],
        });
        all.flatten().collect()
    }

    /// The setting with this key.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&'static Definition> {
        self.settings().into_iter().find(|definition| definition.key() == key)
    }

    /// All constraints, including those of flattened settings.
    #[must_use]
    pub fn all_relations(&self) -> Vec<&'static Relation> {
        let flattened = self.definitions.iter().filter_map(|definition| match definition.form {
            Form::Flatten(section) => Some(section.all_relations()),
            _ => None,
        });
        self.relations.iter().chain(flattened.flatten()).collect()
    }

    /// Whether the file writes it as an inline table.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        !self.header.is_empty() && !self.header.starts_with('[')
    }
}

/// The key of a field as the file writes it.
pub(super) fn key_of(field: &str) -> String {
    field.replace('_', "-")
}

fn one_line(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}
