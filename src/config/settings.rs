//! How settings are written down. The macro `settings!` makes a struct from the settings of a table. Each line is a field:
//!
//! ```text
//! /// Spread replicas over this window.
//! window: Duration = default("0s", duration(ZERO, DAY)), option("jitter", "TIME", WHEN).common();
//! ```
//!
//! The documentation is the help, the field's name is the key. The word behind `=` tells what holds
//! if the key is missing: `default` (a value, as the file would write it), `optional` (`None`, and what
//! that means), `required` (a problem; an example), `list` (none, and what that means), `filled` (a
//! list that must be there). `table`, `optional_table`, `tables` and `one_or_more` are tables within
//! this one, `flatten` adds the settings of another struct, and `computed` is no setting: what follows
//! from the others. Pure.

/// An enum whose variants the file names by a word each.
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
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident = $header:literal $(, $relations:expr)?; $(judge $judge:ident)? {
            $(
                $(#[doc = $help:literal])+
                $field:ident : $type:ty = $mode:ident $(($($arg:expr),+))? $(, $option:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone $($(, $derive)+)?)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        impl $crate::config::define::Settings for $name {
            const SECTION: &'static $crate::config::define::Section =
                &$crate::config::define::Section::new(
                    $header,
                    concat!($($about),+),
                    &[$(
                        setting!(@define $mode, $field, $type, concat!($($help),+) $(, $($arg),+)?)
                            $(.on(&const { $option }))?,
                    )*],
                    setting!(@relations $($relations)?),
                );

            fn read(table: &mut impl $crate::config::define::Reader) -> Option<Self> {
                $(let $field = setting!(@read table, $mode, $field $(, $($arg),+)?);)*
                Some(Self { $($field: $field?,)* })
            }

            fn write(&self, writer: &mut impl $crate::config::define::Writer) {
                $(setting!(@write writer, self.$field, $mode, $field $(, $($arg),+)?);)*
            }

            fn judge(&mut self, place: &$crate::config::place::Place<'_>) {
                _ = place;
                $(self.$judge(place);)?
            }
        }
    };
}

/// What [`settings!`] makes of one line, by the word behind `=`.
macro_rules! setting {
    (@relations $relations:expr) => { $relations };
    (@relations) => { &[] };

    (@define default, $field:ident, $type:ty, $help:expr, $text:expr, $kind:expr) => {
        setting!(@scalar $field, $help, $kind, false, Default($text))
    };
    (@define optional, $field:ident, $type:ty, $help:expr, $text:expr, $kind:expr) => {
        setting!(@scalar $field, $help, $kind, false, Optional($text))
    };
    (@define required, $field:ident, $type:ty, $help:expr, $text:expr, $kind:expr) => {
        setting!(@scalar $field, $help, $kind, false, Required($text))
    };
    (@define list, $field:ident, $type:ty, $help:expr, $text:expr, $kind:expr) => {
        setting!(@scalar $field, $help, $kind, true, Optional($text))
    };
    (@define filled, $field:ident, $type:ty, $help:expr, $text:expr, $kind:expr) => {
        setting!(@scalar $field, $help, $kind, true, Required($text))
    };
    (@define table, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Table($crate::config::define::section_of::<$type>(), None))
    };
    (@define table, $field:ident, $type:ty, $help:expr, $short:expr) => {
        setting!(@tables $field, $help, Table($crate::config::define::section_of::<$type>(), Some($short)))
    };
    (@define optional_table, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Table($crate::config::define::section_in::<$type>(), None))
    };
    (@define tables, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Tables($crate::config::define::section_in::<$type>(), false))
    };
    (@define one_or_more, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Tables($crate::config::define::section_in::<$type>(), true))
    };
    (@define flatten, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Flatten($crate::config::define::section_of::<$type>()))
    };
    (@define pairs, $field:ident, $type:ty, $help:expr) => {
        $crate::config::define::Definition::new(
            stringify!($field),
            $help,
            $crate::config::define::Form::Pairs,
            false,
            $crate::config::define::Presence::Optional(""),
        )
    };
    (@define computed, $field:ident, $type:ty, $help:expr) => {
        setting!(@tables $field, $help, Flatten(&$crate::config::define::NO_SETTING))
    };
    (@scalar $field:ident, $help:expr, $kind:expr, $is_list:expr, $presence:ident($text:expr)) => {
        $crate::config::define::Definition::new(
            stringify!($field),
            $help,
            $kind.form,
            $is_list,
            $crate::config::define::Presence::$presence($text),
        )
    };
    (@tables $field:ident, $help:expr, $form:ident($($arg:expr),+)) => {
        $crate::config::define::Definition::new(
            stringify!($field),
            $help,
            $crate::config::define::Form::$form($($arg),+),
            false,
            $crate::config::define::Presence::Optional(""),
        )
    };

    (@read $table:ident, default, $field:ident, $text:expr, $kind:expr) => {
        $table.defaulted(stringify!($field), $text, &const { $kind })
    };
    (@read $table:ident, optional, $field:ident, $text:expr, $kind:expr) => {
        Some($table.optional(stringify!($field), &const { $kind }))
    };
    (@read $table:ident, required, $field:ident, $text:expr, $kind:expr) => {
        $table.required(stringify!($field), $text, &const { $kind })
    };
    (@read $table:ident, list, $field:ident, $text:expr, $kind:expr) => {
        Some($table.list(stringify!($field), &const { $kind }))
    };
    (@read $table:ident, filled, $field:ident, $text:expr, $kind:expr) => {
        Some($table.filled(stringify!($field), $text, &const { $kind }))
    };
    (@read $table:ident, table, $field:ident $(, $short:expr)?) => {
        $table.table(stringify!($field), setting!(@short $($short)?))
    };
    (@read $table:ident, optional_table, $field:ident) => {
        Some($table.optional_table(stringify!($field)))
    };
    (@read $table:ident, tables, $field:ident) => {
        Some($table.tables(stringify!($field), false))
    };
    (@read $table:ident, one_or_more, $field:ident) => {
        Some($table.tables(stringify!($field), true))
    };
    (@read $table:ident, flatten, $field:ident) => { $crate::config::define::Settings::read($table) };
    (@read $table:ident, pairs, $field:ident) => {
        Some($crate::config::define::Pairs::read($table, stringify!($field)))
    };
    (@read $table:ident, computed, $field:ident) => { Some(Default::default()) };
    (@short $short:expr) => { Some($short) };
    (@short) => { None };

    (@write $writer:ident, $self:ident.$of:ident, default, $field:ident, $text:expr, $kind:expr) => {{
        let kind = const { &$kind };
        $writer.value(stringify!($field), &kind.form, (kind.show)(&$self.$of));
    }};
    (@write $writer:ident, $self:ident.$of:ident, required, $field:ident, $text:expr, $kind:expr) => {
        setting!(@write $writer, $self.$of, default, $field, $text, $kind)
    };
    (@write $writer:ident, $self:ident.$of:ident, optional, $field:ident, $text:expr, $kind:expr) => {{
        let kind = const { &$kind };
        let text = $self.$of.as_ref().map(kind.show);
        $writer.optional(stringify!($field), &kind.form, text, $text);
    }};
    (@write $writer:ident, $self:ident.$of:ident, list, $field:ident, $text:expr, $kind:expr) => {{
        let kind = const { &$kind };
        let texts = $self.$of.iter().map(kind.show).collect();
        $writer.list(stringify!($field), &kind.form, texts, $text);
    }};
    (@write $writer:ident, $self:ident.$of:ident, filled, $field:ident, $text:expr, $kind:expr) => {
        setting!(@write $writer, $self.$of, list, $field, "", $kind)
    };
    (@write $writer:ident, $self:ident.$of:ident, table, $field:ident $(, $short:expr)?) => {
        $writer.tables(stringify!($field), [&$self.$of])
    };
    (@write $writer:ident, $self:ident.$of:ident, flatten, $field:ident) => {
        $self.$of.write($writer)
    };
    (@write $writer:ident, $self:ident.$of:ident, pairs, $field:ident) => {
        $self.$of.write($writer, stringify!($field))
    };
    (@write $writer:ident, $self:ident.$of:ident, computed, $field:ident) => {};
    // An option or a list of tables.
    (@write $writer:ident, $self:ident.$of:ident, $tables:ident, $field:ident) => {
        $writer.tables(stringify!($field), &$self.$of)
    };
}
