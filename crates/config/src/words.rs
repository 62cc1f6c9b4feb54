//! Enums whose variants are written as words. The macro `words!` defines one, or gives words to one of the core.

use super::define::Type;

/// An enum with a word for each variant.
pub(super) trait Words: Sized + 'static {
    /// How it is written, read and printed.
    const TYPE: Type<Self>;
}

/// One of the words of an enum.
pub(super) const fn choice<T: Words>() -> Type<T> {
    T::TYPE
}

/// An enum with a word for each variant, or the words of an enum of the core.
macro_rules! words {
    (
        $(#[$about:meta])+
        pub enum $name:ident { $($(#[$help:meta])+ $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$help])+ $variant,)+ }

        words! { impl $name { $($variant = $word,)+ } }
    };
    (impl $name:ident { $($variant:ident = $word:literal,)+ }) => {
        impl $crate::words::Words for $name {
            const TYPE: $crate::define::Type<Self> = {
                const WORDS: &[&str] = &[$($word),+];
                $crate::define::Type {
                    form: $crate::define::Form::Choice(WORDS),
                    parse: |word| match word {
                        $($word => Ok(Self::$variant),)+
                        _ => Err($crate::parsers::unknown_value(word, WORDS)),
                    },
                    print: |value| match value { $(Self::$variant => $word.to_owned()),+ },
                }
            };
        }
    };
}
