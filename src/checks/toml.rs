//! Checks TOML without a tree of its values: a tree of 1 MiB may take 500 MiB. Pure.
//!
//! The text is read one expression at a time, and of its keys only hashes are kept. What a key may be
//! defined as twice follows the TOML specification as the crate `toml` reads it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use toml::value::Datetime;
use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::{EventReceiver, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

use super::refusal;

/// The most tokens of one expression, such as a list of several lines: 3 MiB.
const MAX_TOKENS: usize = 1 << 17;
/// The most keys of a text: 6 MiB.
const MAX_KEYS: usize = 150_000;
/// The deepest nesting of values, and the most parts of a dotted key.
const MAX_DEPTH: u32 = 80;

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// It is no TOML, at this byte.
    Syntax(usize),
    /// It has more tokens in one expression, or more keys, than podnudge checks.
    TooLarge,
}

pub(super) fn parse(text: &str) -> Result<(), refusal::Refusal> {
    read(text).map_err(|refused| match refused {
        Refusal::Syntax(at) => refusal::Refusal::Syntax(refusal::place(text.as_bytes(), at)),
        Refusal::TooLarge => refusal::Refusal::TooLarge(format!(
            "more than {MAX_KEYS} keys, or one value of more than {MAX_TOKENS} parts"
        )),
    })
}

fn read(text: &str) -> Result<(), Refusal> {
    let source = Source::new(text);
    let mut keys = Keys::new(source);
    let mut tokens: Vec<Token> = Vec::new();
    let mut depth = 0_usize;
    for token in source.lex() {
        tokens.push(token);
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        let is_end = match token.kind() {
            TokenKind::Newline => depth == 0,
            TokenKind::Eof => true,
            _ => false,
        };
        if is_end {
            keys.read(&tokens)?;
            tokens.clear();
            depth = 0;
        } else if tokens.len() > MAX_TOKENS {
            return Err(Refusal::TooLarge);
        }
    }
    Ok(())
}

/// A key, by the hash of its path.
type Id = u64;

/// What a key is defined as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A table above another one in a header: `a` in `[a.b]`.
    Implicit,
    /// A table above a dotted key: `a` in `a.b = 1`.
    Dotted,
    /// A table with a header.
    Table,
    /// Tables with the header `[[a]]`, of which this many came before the last one.
    Tables(u32),
    /// Any other value, also an inline table.
    Value,
}

/// A key that was read, and what follows it is not known yet.
struct Pending {
    id: Id,
    span: Span,
}

/// The part of the text in which a key's path begins.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// The table.
    table: Id,
    /// The table above the next part of the key.
    above: Id,
    /// What that table is, if the key is dotted.
    above_kind: Option<Kind>,
    is_inline: bool,
}

impl Scope {
    fn new(table: Id, is_inline: bool) -> Self {
        Self { table, above: table, above_kind: None, is_inline }
    }

    fn begin_key(&mut self) {
        (self.above, self.above_kind) = (self.table, None);
    }
}

/// The keys so far. Receives the events of the parser.
struct Keys<'a> {
    source: Source<'a>,
    hasher: RandomState,
    kinds: BTreeMap<Id, Kind>,
    /// The root, or the table of the last header.
    scope: Scope,
    /// The inline tables around the current value.
    inline_scopes: Vec<Scope>,
    /// Whether the key is in a header.
    in_header: bool,
    pending: Option<Pending>,
    /// The number of inline tables so far.
    inline_tables: u64,
    parts: u32,
    scratch: Cow<'a, str>,
    is_too_large: bool,
}

const ROOT: Id = 0;

impl<'a> Keys<'a> {
    fn new(source: Source<'a>) -> Self {
        Self {
            source,
            hasher: RandomState::new(),
            kinds: BTreeMap::new(),
            scope: Scope::new(ROOT, false),
            inline_scopes: Vec::new(),
            in_header: false,
            pending: None,
            inline_tables: 0,
            parts: 0,
            scratch: Cow::Borrowed(""),
            is_too_large: false,
        }
    }

    fn read(&mut self, tokens: &[Token]) -> Result<(), Refusal> {
        let mut first: Option<ParseError> = None;
        let source = self.source;
        let mut checked = ValidateWhitespace::new(self, source);
        parse_document(tokens, &mut RecursionGuard::new(&mut checked, MAX_DEPTH), &mut first);
        match first {
            _ if self.is_too_large => Err(Refusal::TooLarge),
            Some(error) => {
                let span = error.unexpected().or(error.context());
                Err(Refusal::Syntax(span.map_or(0, |span| span.start())))
            }
            None => Ok(()),
        }
    }

    /// The text of a key or a value.
    fn raw(&self, span: Span, encoding: Option<Encoding>) -> Option<Raw<'a>> {
        let text = self.source.get(span)?.as_str();
        Some(Raw::new_unchecked(text, encoding, span))
    }

    fn innermost(&mut self) -> &mut Scope {
        self.inline_scopes.last_mut().unwrap_or(&mut self.scope)
    }

    /// The last of the tables with a header `[[…]]`.
    fn last_of(&self, id: Id, number: u32) -> Id {
        self.hasher.hash_one((id, "last", number))
    }

    fn define(&mut self, id: Id, kind: Kind) {
        self.kinds.insert(id, kind);
        self.is_too_large |= self.kinds.len() > MAX_KEYS;
    }

    /// Takes a part of a key that has more parts: descends into its table.
    fn descend(&mut self, errors: &mut dyn ErrorSink) {
        let Some(Pending { id, span }) = self.pending.take() else { return };
        let (in_header, is_inline) = (self.in_header, self.innermost().is_inline);
        self.parts += 1;
        if self.parts >= MAX_DEPTH {
            return report(errors, span, "too many parts");
        }
        let (above, kind) = match (self.kinds.get(&id).copied(), in_header) {
            (None, true) => {
                self.define(id, Kind::Implicit);
                (id, Kind::Implicit)
            }
            (None | Some(Kind::Implicit), false) => {
                self.define(id, Kind::Dotted);
                (id, Kind::Dotted)
            }
            (Some(Kind::Dotted), false) => (id, Kind::Dotted),
            (Some(kind @ (Kind::Implicit | Kind::Dotted | Kind::Table)), true) => (id, kind),
            (Some(Kind::Tables(number)), _) if !is_inline => {
                (self.last_of(id, number), Kind::Table)
            }
            (Some(Kind::Table | Kind::Tables(_) | Kind::Value), _) => {
                return report(errors, span, "the key has a value already");
            }
        };
        let scope = self.innermost();
        (scope.above, scope.above_kind) = (above, Some(kind));
    }

    /// Takes the last part of a key with a value.
    fn assign(&mut self, errors: &mut dyn ErrorSink) {
        let above = self.innermost().above_kind;
        self.innermost().begin_key();
        self.parts = 0;
        let Some(Pending { id, span }) = self.pending.take() else { return };
        let is_mixed = !matches!(above, None | Some(Kind::Dotted | Kind::Implicit));
        if is_mixed || self.kinds.contains_key(&id) {
            return report(errors, span, "duplicate key");
        }
        self.define(id, Kind::Value);
    }

    fn open_header(&mut self) {
        self.scope = Scope::new(ROOT, false);
        self.inline_scopes.clear();
        (self.in_header, self.parts, self.pending) = (true, 0, None);
    }

    /// Takes the last part of a header.
    fn close_header(&mut self, is_list: bool, errors: &mut dyn ErrorSink) {
        (self.in_header, self.parts) = (false, 0);
        let Some(Pending { id, span }) = self.pending.take() else { return };
        let kind = match (self.kinds.get(&id), is_list) {
            (None, true) => Kind::Tables(0),
            (Some(Kind::Tables(number)), true) => Kind::Tables(number + 1),
            (None | Some(Kind::Implicit), false) => Kind::Table,
            _ => {
                report(errors, span, "duplicate table");
                Kind::Table
            }
        };
        self.define(id, kind);
        let table = match kind {
            Kind::Tables(number) => self.last_of(id, number),
            _ => id,
        };
        self.scope = Scope::new(table, false);
    }

    /// Checks what the parser leaves open: escapes, numbers and dates.
    fn check_scalar(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let Some(raw) = self.raw(span, encoding) else { return };
        self.scratch = Cow::Borrowed("");
        let is_valid = match raw.decode_scalar(&mut self.scratch, errors) {
            ScalarKind::String | ScalarKind::Boolean(_) => true,
            ScalarKind::DateTime => self.scratch.parse::<Datetime>().is_ok(),
            ScalarKind::Float => {
                let float = self.scratch.parse::<f64>();
                float.is_ok_and(|float| !float.is_infinite() || self.scratch.contains("inf"))
            }
            ScalarKind::Integer(radix) => {
                let (text, radix) = (&self.scratch, radix.value());
                i128::from_str_radix(text, radix).is_ok()
                    || u128::from_str_radix(text, radix).is_ok()
            }
        };
        if !is_valid {
            report(errors, span, "invalid value");
        }
    }
}

fn report(errors: &mut dyn ErrorSink, span: Span, what: &'static str) {
    errors.report_error(ParseError::new(what).with_unexpected(span));
}

impl EventReceiver for Keys<'_> {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn std_table_close(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        self.close_header(false, errors);
    }

    fn array_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn array_table_close(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        self.close_header(true, errors);
    }

    fn inline_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) -> bool {
        self.inline_tables += 1;
        let table = self.hasher.hash_one(("inline", self.inline_tables));
        self.inline_scopes.push(Scope::new(table, true));
        true
    }

    fn inline_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.inline_scopes.pop();
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let Some(raw) = self.raw(span, encoding) else { return };
        self.scratch = Cow::Borrowed("");
        raw.decode_key(&mut self.scratch, errors);
        let above = self.innermost().above;
        let id = self.hasher.hash_one((above, self.scratch.as_ref()));
        self.pending = Some(Pending { id, span });
    }

    fn key_sep(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        self.descend(errors);
    }

    fn key_val_sep(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        self.assign(errors);
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        self.check_scalar(span, encoding, errors);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    /// Lines that are valid alone, together or not at all.
    const LINES: &[&str] = &[
        "[a]",
        "[b]",
        "[a.b]",
        "[a.b.c]",
        "[b.a]",
        "[[a]]",
        "[[b]]",
        "[[a.b]]",
        "[[a.b.c]]",
        "[\"a\".'b']",
        "a = 1",
        "b = 'x'",
        "c = true",
        "a.b = 1",
        "a.c = 2",
        "a.b.c = 3",
        "b.c.d = 4",
        "\"a\".b = 5",
        "b.a.c = 1",
        "a = {}",
        "b = {a = 1, b.c = 2}",
        "a = {b.c = 1, b.d = 2}",
        "a = {b.c = 1, b = 2}",
        "a = {b = 1, b = 2}",
        "a = {b = {c = 1}, b.d = 2}",
        "a = [1, {b = 2}, [3, {c.d = 4, c.e = 5}]]",
        "b = [",
        "1, 2,",
        "]",
        "[",
        "}",
        "a =",
        "= 1",
        "a",
        "# comment",
        "",
        "  a = 1 # comment",
        "a = 2020-01-01",
        "a = 2020-13-01",
        "a = 10:61:00",
        "a = 1e9",
        "a = 1e999",
        "a = 99999999999999999999999999999999999999999",
        "a = 340282366920938463463374607431768211455",
        "a = 0x_1",
        "a = 0xff",
        "a = 1__2",
        "a = inf",
        "a = -nan",
        "a = \"\\u00e9\\n\"",
        "a = \"\\q\"",
        "a = 'it''s'",
        "a = '''",
        "'''",
        "a = \"\"\"x",
        "\"\"\"",
        "a = {",
        "b = 1,",
        "\u{feff}a = 1",
        "a\u{7f} = 1",
        "é = 1",
        "\"\" = 1",
        "a = 1\r",
        "a = 1\rb = 2",
        "a . b = 1",
        "a.b.",
        ".a = 1",
        "[a",
        "[[a]",
        "[]",
        "a = [[[[]]]]",
        "a = {b = [{c = 1}]}",
    ];

    fn is_valid(text: &str) -> bool {
        toml::from_str::<IgnoredAny>(text).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The same texts are valid as with a tree.
        #[test]
        fn what_is_valid_does_not_depend_on_the_tree(
            lines in prop::collection::vec(prop::sample::select(LINES), 0..7),
        ) {
            let text = lines.join("\n");
            prop_assert_eq!(read(&text).is_ok(), is_valid(&text), "{:?}", text);
        }
    }

    #[test]
    fn the_place_of_an_error_is_found() {
        assert_eq!(read("a = 1\nb = = 2\n"), Err(Refusal::Syntax(10)));
        assert_eq!(read("a = 1\n[b]\na = 1\na = 2\n"), Err(Refusal::Syntax(16)));
        assert_eq!(read("[a]\n[b]\n[a]\n"), Err(Refusal::Syntax(9)));
        assert_eq!(read("a = [\n1,\n2020-99-01]\n"), Err(Refusal::Syntax(9)));
    }

    #[test]
    fn what_is_nested_too_deeply_or_too_large_is_refused() {
        let nested = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(read(&nested(70)), Ok(()));
        assert!(read(&nested(100)).is_err() && !is_valid(&nested(100)));
        let dotted = |parts: usize| format!("{}a = 1", "a.".repeat(parts));
        assert_eq!(read(&dotted(70)), Ok(()));
        assert!(read(&dotted(100)).is_err() && !is_valid(&dotted(100)));
        let list = |items: usize| format!("a = [{}]", "1,".repeat(items));
        assert_eq!(read(&list(60_000)), Ok(()));
        assert_eq!(read(&list(70_000)), Err(Refusal::TooLarge));
        let keys: Vec<String> = (0..=MAX_KEYS).map(|n| format!("k{n} = 1")).collect();
        let keys = keys.join("\n");
        assert_eq!(read(&keys), Err(Refusal::TooLarge));
    }
}
