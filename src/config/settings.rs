//! Declares tables of settings. The macro `settings!` turns each line into a field with its definition:
//!
//! ```text
//! /// Spread replicas over this time.
//! window: Duration = default("0s", duration(ZERO, DAY)).option("jitter", "TIME", When).common();
//! ```
//!
//! The doc comment is the help, and the field's name is the key. The functions behind `=` are those of
//! this file: they say what a missing key means, and whether the value is a list or a table. Pure.

use super::define::{CommandLine, Definition, Form, Heading, Presence, Section, Type};
use super::place::Place;
use super::problem::Report;
use super::table::{Pair, Table};
use super::tree::Entry;
use super::write::Page;
use crate::reason::Reason;

/// The settings of a table.
pub(super) trait Settings: Sized + 'static {
    const SECTION: &'static Section;

    /// `None` only after a problem was reported.
    fn read(table: &mut Table<'_>) -> Option<Self>;

    fn write(&self, page: &mut Page);

    /// Reports invalid combinations, and sets the computed fields.
    fn after_read(&mut self, place: &Place<'_>);
}

/// A field of type `V`, whose single values have the type `T`.
pub(super) struct Setting<V: 'static, T: 'static> {
    kind: Type<T>,
    list: Option<usize>,
    presence: Presence,
    option: Option<CommandLine>,
    /// Whether [`resolved`](Self::resolved) was called.
    is_resolved: bool,
    read: Read<V, T>,
    write: Write<V, T>,
}

const AT_LEAST_ONE: &str = "list at least one value, or leave it out";

/// Reads the field with this name; `None` only after a problem was reported.
type Read<V, T> = fn(&Setting<V, T>, &str, &mut Table<'_>) -> Option<V>;

type Write<V, T> = fn(&Setting<V, T>, &str, &V, &mut Page);

/// A value that has a default, written as in the file.
pub(super) const fn default<T>(text: &'static str, kind: Type<T>) -> Setting<T, T> {
    let read: Read<T, T> = |setting, name, table| {
        let given = table.value(name, &setting.kind);
        given.or_else(|| (setting.kind.parse)(setting.text()).ok())
    };
    setting(kind, Presence::Default(text), read, write_value)
}

/// A value that must be given; `text` is an example line.
pub(super) const fn required<T>(text: &'static str, kind: Type<T>) -> Setting<T, T> {
    let read: Read<T, T> = |setting, name, table| {
        table.require(name, setting.text());
        table.value(name, &setting.kind)
    };
    setting(kind, Presence::Required(text), read, write_value)
}

/// A value that may be missing; `text` is what that means.
pub(super) const fn optional<T>(text: &'static str, kind: Type<T>) -> Setting<Option<T>, T> {
    let read: Read<Option<T>, T> = |setting, name, table| Some(table.value(name, &setting.kind));
    setting(kind, Presence::Optional(text), read, |setting, name, value, page| match value {
        Some(value) => write_value(setting, name, value, page),
        None if setting.is_resolved => {}
        None => page.unset(name, setting.text()),
    })
}

/// A list, or a single value; `text` is what a missing key means.
pub(super) const fn list<T>(text: &'static str, kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, name, table| Some(table.values(name, &setting.kind));
    let write: Write<Vec<T>, T> = |setting, name, values, page| {
        if values.is_empty() && !setting.is_resolved {
            return page.unset(name, setting.text());
        }
        page.list(name, &setting.kind.form, values.iter().map(setting.kind.print));
    };
    Setting { list: Some(0), ..setting(kind, Presence::Optional(text), read, write) }
}

/// A list that must be given and must not be empty; `text` is an example line.
pub(super) const fn required_list<T>(text: &'static str, kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, name, table| {
        table.require(name, setting.text());
        let values = table.values(name, &setting.kind);
        table.refuse_empty_list(name, &format!("for example `{}`", setting.text()));
        Some(values)
    };
    Setting { presence: Presence::Required(text), list: Some(1), read, ..list(text, kind) }
}

/// A list that may be missing, but not empty.
pub(super) const fn optional_list<T>(kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, name, table| {
        let values = table.values(name, &setting.kind);
        table.refuse_empty_list(name, AT_LEAST_ONE);
        Some(values)
    };
    Setting { list: Some(1), read, ..list("", kind) }
}

/// A table; if it is missing, its defaults.
pub(super) const fn table<S: Settings>() -> Setting<S, ()> {
    nested(
        Form::Table(S::SECTION, None),
        |_, name, table| read_table(name, table, None),
        |_, name, value, page| write_tables(name, [value], page),
    )
}

/// A table; a value in its place sets the key `short` of the table.
pub(super) const fn table_or<S: Settings>(short: &'static str) -> Setting<S, ()> {
    nested(
        Form::Table(S::SECTION, Some(short)),
        |setting, name, table| match setting.kind.form {
            Form::Table(_, short) => read_table(name, table, short),
            _ => None,
        },
        |_, name, value, page| write_tables(name, [value], page),
    )
}

/// A table that may be missing.
pub(super) const fn optional_table<S: Settings>() -> Setting<Option<S>, ()> {
    nested(
        Form::Table(S::SECTION, None),
        |_, name, table| {
            let inner = table.inner(name, S::SECTION, None);
            Some(inner.and_then(|(place, entries)| read(place, table.root, entries)))
        },
        |_, name, value, page| write_tables(name, value, page),
    )
}

/// A list of tables.
pub(super) const fn tables<S: Settings>() -> Setting<Vec<S>, ()> {
    nested(
        Form::Tables(S::SECTION, false),
        |_, name, table| Some(read_tables(name, table, false)),
        |_, name, value, page| write_tables(name, value, page),
    )
}

/// A list of tables that is not empty, or a single table; it may be missing.
pub(super) const fn one_or_more<S: Settings>() -> Setting<Vec<S>, ()> {
    nested(
        Form::Tables(S::SECTION, true),
        |_, name, table| {
            let tables = read_tables(name, table, true);
            table.refuse_empty_list(name, AT_LEAST_ONE);
            Some(tables)
        },
        |_, name, value, page| write_tables(name, value, page),
    )
}

/// The settings of another struct, as if they were declared here.
pub(super) const fn flatten<S: Settings>() -> Setting<S, ()> {
    nested(
        Form::Flatten(S::SECTION),
        |_, _, table| S::read(table),
        |_, _, value, page| value.write(page),
    )
}

/// A table whose keys are free to choose.
pub(super) const fn pairs<P: Pair>() -> Setting<Vec<P>, ()> {
    nested(
        Form::Pairs,
        |_, name, table| Some(table.pairs(name)),
        |_, name, value, page| page.pairs(name, value.iter().map(Pair::print)),
    )
}

/// No setting: a field that [`Settings::after_read`] derives from the others.
pub(super) const fn computed<V: Default>() -> Setting<V, ()> {
    const NONE: &Section = &Section { header: "", about: "", definitions: &[], relations: &[] };
    nested(Form::Flatten(NONE), |_, _, _| Some(V::default()), |_, _, _, _| {})
}

const fn nested<V>(form: Form, read: Read<V, ()>, write: Write<V, ()>) -> Setting<V, ()> {
    let kind = Type { form, parse: |_| Err(Reason::new("not a value")), print: |()| String::new() };
    setting(kind, Presence::Optional(""), read, write)
}

const fn setting<V, T>(
    kind: Type<T>,
    presence: Presence,
    read: Read<V, T>,
    write: Write<V, T>,
) -> Setting<V, T> {
    Setting { kind, list: None, presence, option: None, is_resolved: false, read, write }
}

impl<V, T> Setting<V, T> {
    /// Adds a command line option, with the placeholder for its value.
    pub(super) const fn option(
        self,
        name: &'static str,
        value: &'static str,
        heading: Heading,
    ) -> Self {
        let line = CommandLine { name, value, heading, is_common: false, is_split: false };
        Self { option: Some(line), ..self }
    }

    /// Lists the option in `-h`, too.
    pub(super) const fn common(self) -> Self {
        let option = match self.option {
            Some(line) => Some(CommandLine { is_common: true, ..line }),
            None => None,
        };
        Self { option, ..self }
    }

    /// Splits the option's value at blanks.
    pub(super) const fn split(self) -> Self {
        let option = match self.option {
            Some(line) => Some(CommandLine { is_split: true, ..line }),
            None => None,
        };
        Self { option, ..self }
    }

    /// Writes the value that the rule's other settings determine, not the meaning of a missing key.
    pub(super) const fn resolved(self) -> Self {
        Self { is_resolved: true, ..self }
    }

    pub(super) const fn definition(&self, name: &'static str, help: &'static str) -> Definition {
        Definition {
            name,
            help,
            form: self.kind.form,
            list: self.list,
            presence: self.presence,
            option: self.option,
        }
    }

    pub(super) fn read(&self, name: &str, table: &mut Table<'_>) -> Option<V> {
        (self.read)(self, name, table)
    }

    pub(super) fn write(&self, name: &str, value: &V, page: &mut Page) {
        (self.write)(self, name, value, page);
    }

    fn text(&self) -> &'static str {
        match self.presence {
            Presence::Default(text) | Presence::Optional(text) | Presence::Required(text) => text,
        }
    }
}

fn write_value<V, T>(setting: &Setting<V, T>, name: &str, value: &T, page: &mut Page) {
    page.value(name, &setting.kind.form, (setting.kind.print)(value));
}

fn read_table<S: Settings>(
    name: &str,
    table: &mut Table<'_>,
    short: Option<&'static str>,
) -> Option<S> {
    let inner = table.inner(name, S::SECTION, short);
    let (place, entries) = inner.unwrap_or_else(|| (table.place_of(name), Vec::new()));
    read(place, table.root, entries)
}

fn read_tables<S: Settings>(name: &str, table: &mut Table<'_>, may_be_one: bool) -> Vec<S> {
    let inner = table.inner_list(name, S::SECTION, may_be_one);
    inner.into_iter().filter_map(|(place, entries)| read(place, table.root, entries)).collect()
}

fn write_tables<'a, S: Settings>(
    name: &str,
    tables: impl IntoIterator<Item = &'a S>,
    page: &mut Page,
) {
    page.tables(name, S::SECTION, tables.into_iter().map(self::page).collect());
}

/// Reads the settings of a table; `None` only after a problem was reported.
pub(super) fn read<S: Settings>(
    place: Place<'_>,
    root: &'static Section,
    entries: Vec<Entry>,
) -> Option<S> {
    let mut table = Table::new(place, root, S::SECTION, entries);
    let settings = S::read(&mut table);
    let place = table.finish();
    let mut settings = settings?;
    settings.after_read(&place);
    Some(settings)
}

/// The settings of a table in which nothing is set; `None` if one is required.
pub(super) fn defaults<S: Settings>() -> Option<S> {
    let report = Report::new("", "", &|_| None, None);
    read(Place::root(&report), S::SECTION, Vec::new())
}

/// The settings as the file writes them.
pub(super) fn page<S: Settings>(settings: &S) -> Page {
    let mut page = Page::default();
    settings.write(&mut page);
    page.drop_unneeded(S::SECTION);
    page
}

/// An enum with a word for each variant.
macro_rules! words {
    (
        $(#[$about:meta])+
        pub enum $name:ident { $($(#[$help:meta])+ $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$help])+ $variant,)+ }

        impl $crate::config::define::Words for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }
    };
}

/// A struct with the settings of a table: see the head of this file.
macro_rules! settings {
    (@relations $relations:expr) => { $relations };
    (@relations) => { &[] };
    (@after_read $settings:ident, $place:ident, validated) => { $settings.validate($place) };
    (@after_read $settings:ident, $place:ident) => { _ = $place };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident = $header:literal $(, $relations:expr)?; $($validated:ident)? {
            $(
                $(#[doc = $help:literal])+
                $field:ident : $type:ty = $setting:expr;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone $($(, $derive)+)?)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl $crate::config::settings::Settings for $name {
            const SECTION: &'static $crate::config::define::Section =
                &$crate::config::define::Section {
                    header: $header,
                    about: concat!($($about),+),
                    definitions: &[$({
                        let setting: $crate::config::settings::Setting<$type, _> = $setting;
                        setting.definition(stringify!($field), concat!($($help),+))
                    },)*],
                    relations: settings!(@relations $($relations)?),
                };

            fn read(table: &mut $crate::config::table::Table<'_>) -> Option<Self> {
                $(
                    let setting: &$crate::config::settings::Setting<$type, _> = &const { $setting };
                    let $field = setting.read(stringify!($field), table);
                )*
                Some(Self { $($field: $field?,)* })
            }

            fn write(&self, page: &mut $crate::config::write::Page) {
                $(
                    let setting: &$crate::config::settings::Setting<$type, _> = &const { $setting };
                    setting.write(stringify!($field), &self.$field, page);
                )*
            }

            fn after_read(&mut self, place: &$crate::config::place::Place<'_>) {
                settings!(@after_read self, place $(, $validated)?);
            }
        }
    };
}
