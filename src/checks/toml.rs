//! Checks TOML without a tree of its values: a tree of 1 MiB may take 500 MiB. Pure.
//!
//! The text is read one expression at a time, and of its keys only hashes are kept (`keys.rs`).

mod keys;

use std::borrow::Cow;

use toml::value::Datetime;
use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::{EventReceiver, RecursionGuard, ValidateWhitespace, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

use super::refusal;
use keys::{Keys, MAX_DEPTH, MAX_KEYS};

/// The most tokens of one expression, such as a list of several lines: 3 MiB.
const MAX_TOKENS: usize = 1 << 17;

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The text is no TOML, at this byte.
    Syntax(usize),
    /// The text has more tokens in one expression, or more keys, than podnudge checks.
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
    let mut reader = Reader::new(source);
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
            reader.read(&tokens)?;
            tokens.clear();
            depth = 0;
        } else if tokens.len() > MAX_TOKENS {
            return Err(Refusal::TooLarge);
        }
    }
    Ok(())
}

/// Receives the events of the parser.
struct Reader<'a> {
    source: Source<'a>,
    keys: Keys,
    /// Where the last part of a key was.
    key_at: Span,
    scratch: Cow<'a, str>,
}

impl<'a> Reader<'a> {
    fn new(source: Source<'a>) -> Self {
        let at_start = Span::new_unchecked(0, 0);
        Self { source, keys: Keys::new(), key_at: at_start, scratch: Cow::Borrowed("") }
    }

    fn read(&mut self, tokens: &[Token]) -> Result<(), Refusal> {
        let mut first: Option<ParseError> = None;
        let source = self.source;
        let mut checked = ValidateWhitespace::new(self, source);
        parse_document(tokens, &mut RecursionGuard::new(&mut checked, MAX_DEPTH), &mut first);
        match first {
            _ if self.keys.are_too_many() => Err(Refusal::TooLarge),
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

    /// What is wrong with the last key, if anything is.
    fn judge(&self, defined: Result<(), &'static str>, errors: &mut dyn ErrorSink) {
        if let Err(what) = defined {
            report(errors, self.key_at, what);
        }
    }
}

fn report(errors: &mut dyn ErrorSink, span: Span, what: &'static str) {
    errors.report_error(ParseError::new(what).with_unexpected(span));
}

impl EventReceiver for Reader<'_> {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.keys.open_header();
    }

    fn std_table_close(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        let defined = self.keys.close_header(false);
        self.judge(defined, errors);
    }

    fn array_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.keys.open_header();
    }

    fn array_table_close(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        let defined = self.keys.close_header(true);
        self.judge(defined, errors);
    }

    fn inline_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) -> bool {
        self.keys.open_inline_table();
        true
    }

    fn inline_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.keys.close_inline_table();
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let Some(raw) = self.raw(span, encoding) else { return };
        self.scratch = Cow::Borrowed("");
        raw.decode_key(&mut self.scratch, errors);
        self.key_at = span;
        self.keys.part(&self.scratch);
    }

    fn key_sep(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        let defined = self.keys.descend();
        self.judge(defined, errors);
    }

    fn key_val_sep(&mut self, _: Span, errors: &mut dyn ErrorSink) {
        let defined = self.keys.assign();
        self.judge(defined, errors);
    }

    /// Checks what the parser leaves open: escapes, numbers and dates.
    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
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

        /// Checks that the parser without a tree accepts the texts that the parser with a tree does.
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
