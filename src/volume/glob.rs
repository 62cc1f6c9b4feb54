//! Matches a pattern of the crate `glob` with the name of a key, in linear time. Pure.
//!
//! The crate's own matcher tries each way in which several `*` can share a text. The author of the
//! content chooses the names of the keys, and a name of 60 letters would occupy it for seconds.

/// A part of a pattern.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    AnyChar,
    /// `*`
    AnySequence,
    /// `**/`, or `**` at the end: folders.
    Folders,
    /// `[ab]`, or `[!ab]` if negated. Each range from its first to its last character.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl Token {
    /// Whether it matches this character. No class and no `?` matches a `/`.
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => c == *wanted,
            Self::AnyChar => c != '/',
            Self::Class { ranges, is_negated } => {
                let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
                c != '/' && is_in != *is_negated
            }
            Self::AnySequence | Self::Folders => false,
        }
    }

    /// Whether it matches this character and more.
    fn takes_more(&self, c: char) -> bool {
        match self {
            Self::AnySequence => c != '/',
            Self::Folders => true,
            Self::Char(_) | Self::AnyChar | Self::Class { .. } => false,
        }
    }

    /// Whether it matches nothing, too. Folders end with a `/`.
    fn may_end(&self, place: Place) -> bool {
        match self {
            Self::AnySequence => true,
            Self::Folders => place != Place::InName,
            Self::Char(_) | Self::AnyChar | Self::Class { .. } => false,
        }
    }
}

/// A place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the begin, or behind a `/`.
    BeginOfName,
    InName,
    End,
}

/// Whether the whole text matches. `*` and `?` do not match `/`; a leading dot is not special.
pub(super) fn matches(pattern: &glob::Pattern, text: &str) -> bool {
    let tokens = tokens(pattern.as_str());
    // For each number of tokens whether so many match what was read so far.
    let mut matched = vec![false; tokens.len() + 1];
    add(&mut matched, 0);
    skip(&tokens, &mut matched, Place::BeginOfName);
    for c in text.chars() {
        let mut next = vec![false; tokens.len() + 1];
        for (number, (token, _)) in
            tokens.iter().zip(&matched).enumerate().filter(|(_, (_, on))| **on)
        {
            if token.takes(c) {
                add(&mut next, number + 1);
            }
            if token.takes_more(c) {
                add(&mut next, number);
            }
        }
        skip(&tokens, &mut next, if c == '/' { Place::BeginOfName } else { Place::InName });
        matched = next;
    }
    skip(&tokens, &mut matched, Place::End);
    matched.last() == Some(&true)
}

fn add(matched: &mut [bool], number: usize) {
    if let Some(is_matched) = matched.get_mut(number) {
        *is_matched = true;
    }
}

/// Adds what matches by tokens that match nothing.
fn skip(tokens: &[Token], matched: &mut [bool], place: Place) {
    for (number, token) in tokens.iter().enumerate() {
        if token.may_end(place) && matched.get(number) == Some(&true) {
            add(matched, number + 1);
        }
    }
}

/// Reads a pattern that `glob::Pattern::new` has accepted.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (token, after) = if let Some(after) = rest.strip_prefix("**") {
            (Token::Folders, after.strip_prefix('/').unwrap_or(after))
        } else if let Some(class) = rest.strip_prefix('[') {
            class_token(class)
        } else {
            let token = match c {
                '*' => Token::AnySequence,
                '?' => Token::AnyChar,
                c => Token::Char(c),
            };
            (token, rest.get(c.len_utf8()..).unwrap_or_default())
        };
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// Reads `ab-d]…` or `!ab-d]…`. A `]` at the begin is a member of the class.
fn class_token(text: &str) -> (Token, &str) {
    let members = text.strip_prefix('!');
    let (is_negated, members) = (members.is_some(), members.unwrap_or(text));
    let first = members.chars().next().map_or(0, char::len_utf8);
    let length = members.get(first..).and_then(|rest| rest.find(']')).unwrap_or_default() + first;
    let (members, after) = members.split_at_checked(length).unwrap_or((members, ""));
    let mut ranges = Vec::new();
    let mut chars = members.chars();
    while let Some(first) = chars.next() {
        let mut others = chars.clone();
        match (others.next(), others.next()) {
            (Some('-'), Some(last)) => {
                ranges.push((first, last));
                chars = others;
            }
            _ => ranges.push((first, first)),
        }
    }
    (Token::Class { ranges, is_negated }, after.strip_prefix(']').unwrap_or(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten `*` and a name of 253 characters, the longest of a key, took longer than anybody waited.
    #[test]
    fn a_long_name_with_a_slash_does_not_occupy_the_matcher() {
        let pattern = glob::Pattern::new("*a*a*a*a*a*a*a*a*a*a*b/c").unwrap();
        assert!(!matches(&pattern, &format!("{}/", "a".repeat(252))));
        assert!(matches(&pattern, &format!("{}b/c", "a".repeat(250))));
    }

    #[test]
    fn classes_and_folders_match_as_the_crate_says() {
        for (pattern, text, wanted) in [
            ("[!]a-c]?", "dx", true),
            ("[!]a-c]?", "]x", false),
            ("[]-a]", "^", true),
            ("[a-]", "-", true),
            ("**/a", "a", true),
            ("**/a", "b/c/a", true),
            ("**/a", "ba", false),
            ("a/**", "a/b/c", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/cb", false),
            ("?", "/", false),
            ("[!a]", "/", false),
        ] {
            let pattern = glob::Pattern::new(pattern).unwrap();
            assert_eq!(matches(&pattern, text), wanted, "{pattern} {text}");
        }
    }
}
