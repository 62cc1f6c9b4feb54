//! A second reader of the text formats of Prometheus, strict, by their specifications.

use std::collections::BTreeMap;

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The name and the labels as they are printed.
    pub(crate) printed: String,
    pub(crate) name: String,
    /// The labels, unescaped.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// The sample of a line; `None` if the line is no sample.
pub(crate) fn sample(line: &str) -> Option<Sample> {
    let end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let is_label = !label.is_empty() && label.chars().all(is_name);
            let (value, after) = quoted(after)?;
            is_label.then_some(())?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
            (rest.len() < after.len() || rest.starts_with('}')).then_some(())?;
        }
        rest = &rest[1..];
    }
    let printed = line[..line.len() - rest.len()].to_owned();
    rest.starts_with([' ', '\t']).then_some(())?;
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { printed, name: name.to_owned(), labels, value })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// A label's value up to its closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other @ ('"' | '\\') => other,
                _ => return None,
            }),
            _ => value.push(c),
        }
    }
    None
}
