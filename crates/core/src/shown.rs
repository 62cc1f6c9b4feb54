//! Escapes text from outside podnudge, so that it is harmless on a terminal and in a log. Pure.
//!
//! Names are escaped without loss; in the output of programs and servers, characters that control a
//! terminal become blanks. Keys escape themselves (`snapshot.rs`), because they are bytes.

use std::path::Path;

/// The longest excerpt of an output on one line, in characters.
const LONGEST: usize = 200;

/// Whether an output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// For a terminal.
    On,
    /// For a file, a pipe, or a person who wants none.
    Off,
}

/// Whether a terminal acts on a character instead of showing it: a control character, a break of the
/// line, one that changes the direction of the text around it, or one without a width.
fn controls(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// A name: control characters are escaped, quotes and backslashes are not.
#[must_use]
pub fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => safe.push(c),
            _ => safe.extend(c.escape_debug()),
        }
    }
    safe
}

/// A path: like a name; bytes that are not UTF-8 are replaced.
#[must_use]
pub fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

/// A program and its arguments.
#[must_use]
pub fn program(arguments: &[String]) -> String {
    text(&arguments.join(" "))
}

/// The beginning of an output, on one line.
#[must_use]
pub fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let printable = |c: char| if controls(c) { ' ' } else { c };
    text.trim().chars().take(LONGEST).map(printable).collect()
}

/// An output, with its lines.
#[must_use]
pub fn lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<String> = text.trim().lines().map(|line| line.replace(controls, " ")).collect();
    lines.join("\n")
}

/// A text of several lines, cut after `most` bytes: control characters are escaped.
#[must_use]
pub fn block(said: &str, most: usize) -> String {
    let lines: Vec<String> = said.lines().map(text).collect();
    let mut safe = lines.join("\n");
    if safe.len() > most {
        safe.truncate(safe.floor_char_boundary(most.saturating_sub('…'.len_utf8())));
        safe.push('…');
    }
    safe
}

/// A message that another process, or a file, claims to be of podnudge, with its lines.
#[must_use]
pub fn message(said: &str) -> String {
    said.replace(|c| c != '\n' && controls(c), " ")
}

/// JSON of another process: what a terminal would act on becomes an escape, so its values stay the same.
#[must_use]
pub fn json(said: &str) -> String {
    let mut safe = String::with_capacity(said.len());
    for c in said.chars() {
        match c {
            '\n' => safe.push(c),
            // Blanks, since they cannot be in a string.
            '\t' | '\r' => safe.push(' '),
            c if controls(c) => {
                let escape = |unit: &mut u16| format!("\\u{unit:04x}");
                safe.extend(c.encode_utf16(&mut [0; 2]).iter_mut().map(escape));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A path as a literal for a message.
#[must_use]
pub fn path_literal(path: &Path) -> String {
    literal(&path.to_string_lossy())
}

/// A literal for a message: in backticks, cut when long, with control characters escaped.
#[must_use]
pub fn literal(said: &str) -> String {
    const LONGEST: usize = 60;
    let cut = if said.chars().count() > LONGEST { "…" } else { "" };
    let head: String = said.chars().take(LONGEST).collect();
    format!("`{}{cut}`", text(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_control_a_terminal() {
        assert_eq!(text("a \"b\" 'c' \\d ü"), "a \"b\" 'c' \\d ü");
        assert_eq!(text("\u{1b}[31m\n\u{202e}"), "\\u{1b}[31m\\n\\u{202e}");
        assert_eq!(path(Path::new("/etc/a\tb")), "/etc/a\\tb");
        assert_eq!(one_line(b" one\ntwo\x1b[0m\n"), "one two [0m");
        assert_eq!(one_line("ü".repeat(300).as_bytes()), "ü".repeat(200));
        assert_eq!(lines(b"\none\r\ntwo\x07\xff\n"), "one\ntwo \u{fffd}");
        let turned = "a\u{202e}b\u{2066}c\u{200f}d\u{2028}e\u{feff}f";
        assert_eq!(one_line(turned.as_bytes()), "a b c d e f");
        assert_eq!(lines(turned.as_bytes()), "a b c d e f");
        assert_eq!(block("a\r\n\u{1b}[2Jb\u{202e}", 99), "a\n\\u{1b}[2Jb\\u{202e}");
        let cut = block(&"ü".repeat(1 << 20), 100);
        assert!(cut.len() <= 100 && cut.ends_with("ü…"), "{cut}");
        assert_eq!(block(&cut, 100), cut);
        // It shows the text behind it from right to left, and one that some viewers show as a line.
        assert_eq!(one_line("ok \u{202e}ko\u{2028}.".as_bytes()), "ok  ko .");
        assert_eq!(lines("a\u{202e}b\u{feff}.".as_bytes()), "a b .");
        let program = program(&["sh".to_owned(), "-c".to_owned(), "echo \"\\a\"\n".to_owned()]);
        assert_eq!(program, "sh -c echo \"\\a\"\\n");
    }
}
