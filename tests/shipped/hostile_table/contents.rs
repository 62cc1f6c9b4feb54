//! Contents that cost memory or time, by the syntax of their check.

use super::Input;

const MIB: usize = 1024 * 1024;
const PASSES: &str = "passed";
const REJECTED: &str = "rejected";

/// `text` again and again, up to 1 MiB less what surrounds it.
fn full_of(begin: &str, text: &str, end: &str) -> Vec<u8> {
    let times = (MIB - 1000 - begin.len() - end.len()) / text.len();
    format!("{begin}{}{end}", text.repeat(times)).into_bytes()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

/// The syntax of the check, what the content is, the content, and what becomes of it.
type Content = (&'static str, &'static str, Vec<u8>, &'static str);

fn contents() -> Vec<Content> {
    let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    vec![
        ("toml", "a key of many parts", full_of("a=[{", "a.", "a=1}]"), REJECTED),
        ("toml", "many keys of many parts", full_of("", "a.b.c.d.e.f.g.h=1\n", ""), REJECTED),
        ("toml", "a list of many numbers", full_of("a=[", "1,", "]"), REJECTED),
        ("toml", "many lists", full_of("", "[[a]]\n", ""), PASSES),
        ("toml", "open brackets", full_of("a=", "[", ""), REJECTED),
        ("toml", "open braces", full_of("a=", "{a=", ""), REJECTED),
        ("toml", "many inline tables", full_of("a=[", "{a=1},", "]"), REJECTED),
        (
            "toml",
            "many lines of inline tables",
            lines(40_000, |n| format!("k{n}={{a=1,b=2}}")),
            PASSES,
        ),
        ("toml", "many keys", lines(70_000, |n| format!("key{n}=1")), PASSES),
        ("toml", "many tables", lines(70_000, |n| format!("[t{n}]\na=1")), PASSES),
        ("toml", "a long text", full_of("a='", "x", "'"), PASSES),
        ("toml", "a long key", full_of("", "x", "=1"), PASSES),
        ("toml", "comments", full_of("", "#\n", ""), PASSES),
        ("toml", "blanks", full_of("", " ", ""), PASSES),
        ("toml", "a long number", full_of("a=", "1", ""), REJECTED),
        ("toml", "quotes", full_of("a=", "\"", ""), REJECTED),
        ("toml", "escapes", full_of("a=\"", "\\u00e9", "\""), PASSES),
        ("toml", "zeros", full_of("", "\0", ""), REJECTED),
        ("yaml", "pairs in a list", full_of("[", "a: b,", "]"), REJECTED),
        ("yaml", "JSON in one line", full_of("[", "{\"a\":[1,\"b\"]},", "1]"), PASSES),
        ("yaml", "almost JSON in one line", full_of("[", "{'a':[1,\"b\"]},", "1]"), REJECTED),
        ("yaml", "open brackets", full_of("", "[", ""), REJECTED),
        ("yaml", "open braces", full_of("", "{a: ", ""), REJECTED),
        ("yaml", "dashes", full_of("", "- ", ""), REJECTED),
        ("yaml", "question marks", full_of("", "? ", ""), REJECTED),
        ("yaml", "deep blocks", lines(1000, |n| format!("{}a:", " ".repeat(n))), REJECTED),
        ("yaml", "anchors and aliases", full_of("", "- &a b\n- *a\n", ""), PASSES),
        (
            "yaml",
            "aliases of aliases",
            lines(20_000, |n| format!("- &a{} [*a{n}, *a{n}]", n + 1)),
            REJECTED,
        ),
        ("yaml", "documents", full_of("", "---\na\n", ""), PASSES),
        ("yaml", "directives", full_of("", "%TAG ! tag:a,2000:\n", "---\na\n"), REJECTED),
        ("yaml", "a long text", full_of("a: \"", "x", "\""), PASSES),
        ("yaml", "a folded text", full_of("a: >\n", " x\n\n", ""), PASSES),
        ("yaml", "a long key", full_of("", "x", ": 1"), REJECTED),
        ("yaml", "many keys", lines(70_000, |n| format!("key{n}: 1")), PASSES),
        ("yaml", "tags", full_of("", "- !!a b\n", ""), PASSES),
        ("yaml", "comments", full_of("", "#\n", ""), PASSES),
        ("yaml", "zeros", full_of("", "\0", ""), REJECTED),
        (
            "yaml",
            "a long text, then an error",
            full_of("a: |\n", " x, [y]: {z}\n", "b: [1\ny: }\n@bad\n"),
            REJECTED,
        ),
        (
            "yaml",
            "long comments, then an error",
            full_of("", "# x\n", "b: [1\ny: }\n@bad\n"),
            REJECTED,
        ),
        (
            "yaml",
            "a long plain text, then an error",
            full_of("a: ", "x ", "\nb: [1\ny: }\n@bad\n"),
            REJECTED,
        ),
        ("yaml", "a long text in a list", full_of("a: [x, ", "y", ", z]\n"), PASSES),
        ("yaml", "blanks in a list", full_of("a: [", " ", "b]\n"), PASSES),
        ("yaml", "a comment in a list", full_of("a: [ # ", "x", "\n b]\n"), PASSES),
        ("json", "open brackets", full_of("", "[", ""), REJECTED),
        ("json", "a long list", full_of("[", "1,", "1]"), PASSES),
        ("json", "empty names", full_of("[", "{\"\":0},", "1]"), PASSES),
        ("json", "one name again and again", full_of("{", "\"a\":0,", "\"a\":0}"), PASSES),
        ("json", "a long text", full_of("\"", "x", "\""), PASSES),
        ("json", "escapes", full_of("\"", "\\u00e9", "\""), PASSES),
        ("json", "a long number", full_of("", "1", ""), PASSES),
        ("json", "not UTF-8", vec![0xff; MIB - 1000], REJECTED),
        ("pem", "many blocks", full_of("", pem, ""), REJECTED),
        ("pem", "an open block", full_of("-----BEGIN CERTIFICATE-----\n", "AAAA\n", ""), REJECTED),
        ("pem", "beginnings", full_of("", "-----BEGIN ", ""), REJECTED),
        ("toml", "not UTF-8", vec![0xff; MIB - 1000], REJECTED),
        ("toml", "a date again and again", full_of("a=[", "1979-05-27T07:32:00Z,", "]"), PASSES),
        ("toml", "dotted tables", full_of("", "[a.b.c.d.e.f]\n", ""), REJECTED),
        ("yaml", "not UTF-8", vec![0xff; MIB - 1000], REJECTED),
        ("yaml", "colons", full_of("", ":", ""), REJECTED),
        ("yaml", "quotes", full_of("", "\"", ""), REJECTED),
        ("yaml", "merge keys", full_of("a: &a {b: c}\n", "? {<<: *a}\n: d\n", ""), PASSES),
        ("json", "zeros", full_of("", "\0", ""), REJECTED),
        ("json", "open names", full_of("", "{\"a\":", ""), REJECTED),
        ("json", "a long exponent", full_of("1e", "9", ""), PASSES),
        ("json", "blanks", full_of("", " ", ""), REJECTED),
        ("pem", "a long line", full_of("-----BEGIN CERTIFICATE-----\n", "A", ""), REJECTED),
        ("pem", "zeros", full_of("", "\0", ""), REJECTED),
        ("pem", "ends", full_of("", "-----END CERTIFICATE-----\n", ""), REJECTED),
        ("text", "zeros", full_of("", "\0", ""), PASSES),
        ("text", "blanks", full_of("", " \n", ""), REJECTED),
        ("text", "not UTF-8", vec![0xff; MIB - 1000], PASSES),
    ]
}

pub(super) fn inputs() -> Vec<Input> {
    let input = |(rule, what, content, outcome): Content| Input {
        rule,
        what: what.to_owned(),
        put: Box::new(move |scene| scene.write(rule, content)),
        outcome,
        remove: None,
    };
    contents().into_iter().map(input).collect()
}
