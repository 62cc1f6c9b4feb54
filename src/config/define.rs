//! What a setting is, in one place: its key, type, bounds and default, its option on the command line
//! and its help. Reading, `podnudge check`, `--help`, the reference and the JSON schema are made from
//! these definitions. Pure.

use std::time::Duration;

use super::place::Place;
use crate::reason::Reason;

/// A table of the file, and all that it may hold.
#[derive(Debug)]
pub struct Section {
    /// As the file writes it: `[rule.retry]`; without brackets where it is written in one line.
    pub header: &'static str,
    /// What it is for; with the blanks of a comment.
    about: &'static str,
    /// Its settings.
    pub definitions: &'static [Definition],
    /// Which of them go together.
    pub relations: &'static [Relation],
}

/// One setting.
#[derive(Debug)]
pub struct Definition {
    /// The field's name; the key has hyphens for its low lines.
    name: &'static str,
    /// What it means; with the blanks of a comment.
    help: &'static str,
    /// What its value looks like.
    pub form: Form,
    /// Whether there may be several values.
    pub is_list: bool,
    /// What holds without it.
    pub presence: Presence,
    /// The option of the command line that sets it.
    pub option: Option<&'static CommandLine>,
}

/// What holds where a setting is not there.
#[derive(Debug, Clone, Copy)]
pub enum Presence {
    /// This value, as the file would write it.
    Default(&'static str),
    /// Nothing is set; what that means, if that is to be told.
    Optional(&'static str),
    /// It is a problem; this is an example.
    Required(&'static str),
}

/// What a value looks like.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Text, and what it says.
    Text(&'static str),
    /// A number with a unit, with its bounds.
    Duration(Duration, Duration),
    /// A whole number, with its bounds.
    Number(u32, u32),
    /// `true` or `false`.
    Truth,
    /// One of a few words.
    Choice(fn() -> Vec<&'static str>),
    /// Text or a number, which mean the same.
    Word(&'static str),
    /// Text, a number, or `true` or `false`, which differ.
    Scalar,
    /// Names and texts.
    Pairs,
    /// A table; text in its place is the value of this key in it.
    Table(&'static Section, Option<&'static str>),
    /// A list of tables, or where that is true, a table alone.
    Tables(&'static Section, bool),
    /// No value of its own: the settings of another struct.
    Flatten(&'static Section),
}

/// Which settings of a table go together.
#[derive(Debug)]
pub enum Relation {
    /// At most one of these.
    AtMostOne(&'static [&'static str]),
    /// At least one of these; what is wrong otherwise, and how to fix it.
    AtLeastOne(&'static [&'static str], &'static str, &'static str),
    /// Each of the first is only valid together with one of the others.
    Needs(&'static [&'static str], &'static [&'static str]),
    /// All of these, or none.
    Together(&'static [&'static str]),
    /// The first cannot be combined with any of the others.
    Excludes(&'static str, &'static [&'static str]),
}

/// How the command line sets it. The environment variable has the same name.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    /// The option, without its dashes.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value: &'static str,
    /// Where the help shows it.
    pub heading: Heading,
    /// Whether `-h` shows it, too; `--help` shows all.
    pub is_common: bool,
    /// Whether its value is a list, split at blanks.
    pub is_split: bool,
}

/// The headings of `--help`, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// The volumes.
    Watch,
    /// The checks.
    Check,
    /// The actions.
    Act,
    /// The publish directory.
    Publish,
    /// The target.
    Target,
    /// Waits.
    When,
    /// Proofs.
    Verify,
    /// What concerns no single rule.
    Agent,
}

/// How values of this type are written and read.
#[derive(Debug)]
pub(super) struct Type<T: 'static> {
    pub(super) form: Form,
    /// From the text, which fits the form.
    pub(super) parse: fn(&str) -> Result<T, Reason>,
    /// Gives the text again.
    pub(super) show: fn(&T) -> String,
}

/// The settings of a table.
pub(super) trait Settings: Sized {
    const SECTION: &'static Section;

    /// `None` only after a problem was reported.
    fn read(reader: &mut impl Reader) -> Option<Self>;

    fn write(&self, writer: &mut impl Writer);

    /// Looks at what must fit together, and fills in what follows from it.
    fn judge(&mut self, place: &Place<'_>);
}

/// A table that is read: each key by its name and type.
pub(super) trait Reader {
    fn optional<T>(&mut self, name: &str, kind: &'static Type<T>) -> Option<T>;

    fn defaulted<T>(&mut self, name: &str, default: &str, kind: &'static Type<T>) -> Option<T>;

    fn required<T>(&mut self, name: &str, example: &str, kind: &'static Type<T>) -> Option<T>;

    fn list<T>(&mut self, name: &str, kind: &'static Type<T>) -> Vec<T>;

    fn filled<T>(&mut self, name: &str, example: &str, kind: &'static Type<T>) -> Vec<T>;

    /// The table at a key; where it is not there, its defaults. Text in its place is taken as the
    /// table's setting `short`, if there is one.
    fn table<S: Settings>(&mut self, name: &str, short: Option<&'static str>) -> Option<S>;

    /// `None` where it is not there, or a problem of it was reported.
    fn optional_table<S: Settings>(&mut self, name: &str) -> Option<S>;

    /// The tables in the list at a key, or the one that stands there alone, where `may_be_one`; but for
    /// those of which a problem was reported.
    fn tables<S: Settings>(&mut self, name: &str, may_be_one: bool) -> Vec<S>;

    /// The names and texts of the table at a key, whose keys are free to choose, as far as they are
    /// accepted.
    fn pairs<T>(
        &mut self,
        name: &str,
        accept: impl Fn(&str, &str) -> Result<T, PairError>,
    ) -> Vec<T>;
}

/// Names and texts, of which not all are accepted.
pub(super) trait Pairs: Sized {
    fn read(reader: &mut impl Reader, name: &str) -> Self;

    fn write(&self, writer: &mut impl Writer, name: &str);
}

/// What is wrong with a name and its text.
#[derive(Debug)]
pub(super) enum PairError {
    Name(Reason),
    Text(Reason),
}

/// A table that is written.
pub(super) trait Writer {
    fn value(&mut self, name: &str, form: &Form, text: String);

    /// What may not be set, and what that means.
    fn optional(&mut self, name: &str, form: &Form, text: Option<String>, without: &str);

    fn list(&mut self, name: &str, form: &Form, texts: Vec<String>, without: &str);

    /// Tables at one key; in one line, if they are written so.
    fn tables<'a, S: Settings + 'a>(&mut self, name: &str, tables: impl IntoIterator<Item = &'a S>);

    /// Names and texts.
    fn pairs(&mut self, name: &str, pairs: impl Iterator<Item = (String, String)>);
}

impl Definition {
    pub(super) const fn new(
        name: &'static str,
        help: &'static str,
        form: Form,
        is_list: bool,
        presence: Presence,
    ) -> Self {
        Self { name, help, form, is_list, presence, option: None }
    }

    pub(super) const fn on(self, option: &'static CommandLine) -> Self {
        Self { option: Some(option), ..self }
    }

    /// As the file writes it.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.name)
    }

    /// What it means.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(self.help)
    }
}

pub(super) fn key_of(name: &str) -> String {
    name.replace('_', "-")
}

fn text_of(comment: &str) -> String {
    comment.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Section {
    pub(super) const fn new(
        header: &'static str,
        about: &'static str,
        definitions: &'static [Definition],
        relations: &'static [Relation],
    ) -> Self {
        Self { header, about, definitions, relations }
    }

    /// What it is for.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(self.about)
    }

    /// Its settings, with those of others that it takes in.
    #[must_use]
    pub fn settings(&self) -> Vec<&'static Definition> {
        let all = self.definitions.iter().map(|definition| match definition.form {
            Form::Flatten(section) => section.settings(),
            _ => vec![definition],
        });
        all.flatten().collect()
    }

    /// Which of its settings go together, with those of others that it takes in.
    #[must_use]
    pub fn all_relations(&self) -> Vec<&'static Relation> {
        let taken_in = self.definitions.iter().filter_map(|definition| match definition.form {
            Form::Flatten(section) => Some(section.all_relations()),
            _ => None,
        });
        self.relations.iter().chain(taken_in.flatten()).collect()
    }

    /// Whether the file writes it in one line.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        !self.header.is_empty() && !self.header.starts_with('[')
    }
}

pub(super) const fn option(
    name: &'static str,
    value: &'static str,
    heading: Heading,
) -> CommandLine {
    CommandLine { name, value, heading, is_common: false, is_split: false }
}

impl CommandLine {
    pub(super) const fn common(self) -> Self {
        Self { is_common: true, ..self }
    }

    pub(super) const fn split(self) -> Self {
        Self { is_split: true, ..self }
    }
}

/// A choice with the words for it.
pub(super) trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];

    fn words() -> Vec<&'static str> {
        Self::WORDS.iter().map(|(word, _)| *word).collect()
    }

    fn of(word: &str) -> Result<Self, Reason> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).ok_or_else(|| Reason::new("unknown value"))
    }

    fn word(&self) -> String {
        let found = Self::WORDS.iter().find(|(_, value)| value == self);
        found.map(|(word, _)| (*word).to_owned()).unwrap_or_default()
    }
}

/// A table that another one holds, alone or in a list.
pub(super) trait Holds {
    type Of: Settings;
}

impl<S: Settings> Holds for Option<S> {
    type Of = S;
}

impl<S: Settings> Holds for Vec<S> {
    type Of = S;
}

/// What is no setting.
pub(super) const NO_SETTING: Section =
    Section { header: "", about: "", definitions: &[], relations: &[] };

pub(super) const fn section_of<S: Settings>() -> &'static Section {
    S::SECTION
}

pub(super) const fn section_in<H: Holds>() -> &'static Section {
    <H::Of as Settings>::SECTION
}
