//! Declares tables of settings. The macro `settings!` turns each line into a field with its definition:
//!
//! ```text
//! /// Spread replicas over this time.
//! window: Duration = default("0s", duration(ZERO, DAY)).option("jitter", "TIME", Timing).common();
//! ```
//!
//! The doc comment is the help, and the field's name is the key. The functions behind `=` are those of
//! this file: they say what a missing key means, and whether the value is a list or a table. Pure.

use super::define::{
    CommandLine, Definition, Form, Heading, Presence, Section, Single, Type, key_of,
};
use super::place::Place;
use super::problem::Report;
use super::table::Table;
use super::tree::Entries;
use super::write::Page;
use podnudge_core::reason::Reason;

/// The settings of a table.
pub(super) trait Settings: Sized + 'static {
    const SECTION: &'static Section;

    /// `None` only after a problem was reported.
    fn read(table: &mut Table<'_>) -> Option<Self>;

    fn write(&self, page: &mut Page);

    /// Reports invalid combinations, and sets the computed fields.
    fn after_read(&mut self, place: &Place<'_>);
}

/// Settings of a struct of the core whose combinations are checked after they were read.
pub(super) trait Validated {
    /// Reports invalid combinations.
    fn validate(&mut self, place: &Place<'_>);
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

/// Reads the value at this key; `None` only after a problem was reported.
pub(super) type Read<V, T> = fn(&Setting<V, T>, &str, &mut Table<'_>) -> Option<V>;

pub(super) type Write<V, T> = fn(&Setting<V, T>, &str, &V, &mut Page);

/// A value that has a default, written as in the file.
pub(super) const fn default<T>(text: &'static str, kind: Type<T>) -> Setting<T, T> {
    let read: Read<T, T> = |setting, key, table| {
        let given = table.value(key, &setting.kind);
        given.or_else(|| (setting.kind.parse)(setting.text()).ok())
    };
    setting(kind, Presence::Default(text), read, write_value)
}

/// A value that must be given; `text` is an example line.
pub(super) const fn required<T>(text: &'static str, kind: Type<T>) -> Setting<T, T> {
    let read: Read<T, T> = |setting, key, table| {
        table.require(key, setting.text());
        table.value(key, &setting.kind)
    };
    setting(kind, Presence::Required(text), read, write_value)
}

/// A value that may be missing; `text` is what that means.
pub(super) const fn optional<T>(text: &'static str, kind: Type<T>) -> Setting<Option<T>, T> {
    let read: Read<Option<T>, T> = |setting, key, table| Some(table.value(key, &setting.kind));
    setting(kind, Presence::Optional(text), read, |setting, key, value, page| match value {
        Some(value) => write_value(setting, key, value, page),
        None if setting.is_resolved => {}
        None => page.unset(key, setting.text()),
    })
}

/// A list, or a single value; `text` is what a missing key means.
pub(super) const fn list<T>(text: &'static str, kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, key, table| Some(table.values(key, &setting.kind));
    let write: Write<Vec<T>, T> = |setting, key, values, page| {
        if values.is_empty() && !setting.is_resolved {
            return page.unset(key, setting.text());
        }
        page.list(key, &setting.kind.form, values.iter().map(setting.kind.print));
    };
    Setting { list: Some(0), ..setting(kind, Presence::Optional(text), read, write) }
}

/// A list that must be given and must not be empty; `text` is an example line.
pub(super) const fn required_list<T>(text: &'static str, kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, key, table| {
        table.require(key, setting.text());
        let values = table.values(key, &setting.kind);
        table.refuse_empty_list(key, &format!("for example `{}`", setting.text()));
        Some(values)
    };
    Setting { presence: Presence::Required(text), list: Some(1), read, ..list(text, kind) }
}

/// A list that may be missing, but not empty.
pub(super) const fn optional_list<T>(kind: Type<T>) -> Setting<Vec<T>, T> {
    let read: Read<Vec<T>, T> = |setting, key, table| {
        let values = table.values(key, &setting.kind);
        table.refuse_empty_list(key, AT_LEAST_ONE);
        Some(values)
    };
    Setting { list: Some(1), read, ..list("", kind) }
}

/// A table; if it is missing, its defaults.
pub(super) const fn table<S: Settings>() -> Setting<S, ()> {
    nested(Form::Table(S::SECTION, None), read_table, write_table)
}

/// A table; a value in its place sets the key `short` of the table.
pub(super) const fn table_or<S: Settings>(short: &'static str) -> Setting<S, ()> {
    nested(Form::Table(S::SECTION, Some(short)), read_table, write_table)
}

/// A table that may be missing.
pub(super) const fn optional_table<S: Settings>() -> Setting<Option<S>, ()> {
    nested(Form::Table(S::SECTION, None), read_optional_table, write_tables)
}

/// A table that may be missing; a value in its place sets the key `short` of the table.
pub(super) const fn optional_table_or<S: Settings>(short: &'static str) -> Setting<Option<S>, ()> {
    nested(Form::Table(S::SECTION, Some(short)), read_optional_table, write_tables)
}

/// A list of tables.
pub(super) const fn tables<S: Settings>() -> Setting<Vec<S>, ()> {
    nested(Form::Tables(S::SECTION, Single::No), read_tables, write_tables)
}

/// A list of tables; text in its place sets the key `short` of a single table.
pub(super) const fn tables_or<S: Settings>(short: &'static str) -> Setting<Vec<S>, ()> {
    nested(Form::Tables(S::SECTION, Single::Key(short)), read_tables, write_tables)
}

/// A list of tables that is not empty, or a single table; it may be missing.
pub(super) const fn one_or_more<S: Settings>() -> Setting<Vec<S>, ()> {
    nested(Form::Tables(S::SECTION, Single::Table), read_tables, write_tables)
}

/// The settings of another struct, as if they were declared here.
pub(super) const fn flatten<S: Settings>() -> Setting<S, ()> {
    let write: Write<S, ()> = |_, _, value, page| value.write(page);
    nested(Form::Flatten(S::SECTION), |_, _, table| S::read(table), write)
}

/// No setting: a field that [`Settings::after_read`] derives from the others.
pub(super) const fn computed<V: Default>() -> Setting<V, ()> {
    const NONE: &Section = &Section { header: "", about: "", definitions: &[], relations: &[] };
    nested(Form::Flatten(NONE), |_, _, _| Some(V::default()), |_, _, _, _| {})
}

/// A setting that is read and written by these functions.
pub(super) const fn nested<V>(
    form: Form,
    read: Read<V, ()>,
    write: Write<V, ()>,
) -> Setting<V, ()> {
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
        mut self,
        name: &'static str,
        value: &'static str,
        heading: Heading,
    ) -> Self {
        self.option = Some(CommandLine { name, value, heading, is_common: false, is_split: false });
        self
    }

    /// Lists the option in `-h`, too.
    pub(super) const fn common(mut self) -> Self {
        if let Some(option) = &mut self.option {
            option.is_common = true;
        }
        self
    }

    /// Splits the option's value at blanks.
    pub(super) const fn split(mut self) -> Self {
        if let Some(option) = &mut self.option {
            option.is_split = true;
        }
        self
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
        (self.read)(self, &key_of(name), table)
    }

    pub(super) fn write(&self, name: &str, value: &V, page: &mut Page) {
        (self.write)(self, &key_of(name), value, page);
    }

    fn text(&self) -> &'static str {
        match self.presence {
            Presence::Default(text) | Presence::Optional(text) | Presence::Required(text) => text,
        }
    }
}

fn write_value<V, T>(setting: &Setting<V, T>, key: &str, value: &T, page: &mut Page) {
    page.value(key, &setting.kind.form, (setting.kind.print)(value));
}

fn read_table<S: Settings>(
    setting: &Setting<S, ()>,
    key: &str,
    table: &mut Table<'_>,
) -> Option<S> {
    let Form::Table(section, short) = setting.kind.form else { return None };
    let entries = table.take_table(key, section, short).unwrap_or_default();
    read(table.place.inner(key), entries)
}

fn write_table<S: Settings>(_: &Setting<S, ()>, key: &str, value: &S, page: &mut Page) {
    page.tables(key, S::SECTION, vec![self::page(value)]);
}

#[expect(clippy::option_option, reason = "a table that is missing is read")]
fn read_optional_table<S: Settings>(
    setting: &Setting<Option<S>, ()>,
    key: &str,
    table: &mut Table<'_>,
) -> Option<Option<S>> {
    let Form::Table(section, short) = setting.kind.form else { return None };
    let entries = table.take_table(key, section, short);
    Some(entries.and_then(|entries| read(table.place.inner(key), entries)))
}

fn read_tables<S: Settings>(
    setting: &Setting<Vec<S>, ()>,
    key: &str,
    table: &mut Table<'_>,
) -> Option<Vec<S>> {
    let Form::Tables(section, single) = setting.kind.form else { return None };
    let tables = table.take_tables(key, section, single);
    if single == Single::Table {
        table.refuse_empty_list(key, AT_LEAST_ONE);
    }
    Some(tables.into_iter().filter_map(|(place, entries)| read(place, entries)).collect())
}

fn write_tables<V, S: Settings>(_: &Setting<V, ()>, key: &str, tables: &V, page: &mut Page)
where
    for<'a> &'a V: IntoIterator<Item = &'a S>,
{
    page.tables(key, S::SECTION, tables.into_iter().map(self::page).collect());
}

/// Reads the settings of a table; `None` only after a problem was reported.
pub(super) fn read<S: Settings>(place: Place<'_>, entries: Entries) -> Option<S> {
    let mut table = Table::new(place, S::SECTION, entries);
    let settings = S::read(&mut table);
    let place = table.finish();
    let mut settings = settings?;
    settings.after_read(&place);
    Some(settings)
}

/// The settings of a table in which nothing is set; `None` if one is required.
pub(super) fn defaults<S: Settings>() -> Option<S> {
    let report = Report::new(S::SECTION, "", "", &|_| None, None);
    read(Place::root(&report), Entries::new())
}

/// The settings as the file writes them.
pub(super) fn page<S: Settings>(settings: &S) -> Page {
    let mut page = Page::default();
    settings.write(&mut page);
    page.drop_unneeded(S::SECTION);
    page
}

/// A struct with the settings of a table, or the settings of a struct of the core: see the head of this file.
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

        settings! {
            $(#[doc = $about])+
            impl $name = $header $(, $relations)?; $($validated)? {
                $($(#[doc = $help])+ $field: $type = $setting;)*
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        impl $name:ident = $header:literal $(, $relations:expr)?; $($validated:ident)? {
            $(
                $(#[doc = $help:literal])+
                $field:ident : $type:ty = $setting:expr;
            )*
        }
    ) => {
        impl $crate::settings::Settings for $name {
            const SECTION: &'static $crate::define::Section =
                &$crate::define::Section {
                    header: $header,
                    about: concat!($($about),+),
                    definitions: &[$({
                        let setting: $crate::settings::Setting<$type, _> = $setting;
                        setting.definition(stringify!($field), concat!($($help),+))
                    },)*],
                    relations: settings!(@relations $($relations)?),
                };

            fn read(table: &mut $crate::table::Table<'_>) -> Option<Self> {
                $(
                    let setting: &$crate::settings::Setting<$type, _> = &const { $setting };
                    let $field = setting.read(stringify!($field), table);
                )*
                Some(Self { $($field: $field?,)* })
            }

            fn write(&self, page: &mut $crate::write::Page) {
                $(
                    let setting: &$crate::settings::Setting<$type, _> = &const { $setting };
                    setting.write(stringify!($field), &self.$field, page);
                )*
            }

            fn after_read(&mut self, place: &$crate::place::Place<'_>) {
                settings!(@after_read self, place $(, $validated)?);
            }
        }
    };
}
