//! Decides which keys are included in the digest. Pure.

use glob::MatchOptions;

use crate::config::KeyFilter;

/// `*` and `?` do not match `/`; a leading dot is not special.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Whether a key is included in the digest.
pub(super) fn is_included(filter: &KeyFilter, key: &[u8]) -> bool {
    if pauses(filter, key) {
        return false;
    }
    if filter.only.is_empty() && filter.ignore.is_empty() {
        return true;
    }
    let matches = |pattern: &glob::Pattern| matches(pattern, key);
    (filter.only.is_empty() || filter.only.iter().any(matches))
        && !filter.ignore.iter().any(matches)
}

/// Whether this key pauses the rule.
pub(super) fn pauses(filter: &KeyFilter, key: &[u8]) -> bool {
    filter.pause.as_ref().is_some_and(|pause| pause.as_bytes() == key)
}

/// Whether a pattern matches a key. A pattern with a `/` is matched against the key's whole path
/// below the content root, any other against the file name at any depth. Bytes that are not UTF-8
/// match `?` and `*`.
pub(crate) fn matches(pattern: &glob::Pattern, key: &[u8]) -> bool {
    let path = String::from_utf8_lossy(key);
    let name = path.rsplit_once('/').map_or(path.as_ref(), |(_, name)| name);
    let text = if pattern.as_str().contains('/') { path.as_ref() } else { name };
    pattern.matches_with(text, OPTIONS)
}

/// Whether a file beside `ca.crt` and `namespace` is the service account token, judged by its first
/// bytes: a JWT is base64url, and its first two characters are `{"`.
pub(super) fn is_token(content: &[u8]) -> bool {
    content.starts_with(b"eyJ")
        && content.split(|byte| *byte == b'.').count() == 3
        && content.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=\n".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(only: &[&str], ignore: &[&str]) -> KeyFilter {
        let patterns = |texts: &[&str]| {
            texts.iter().map(|text| glob::Pattern::new(text).expect("a pattern")).collect()
        };
        KeyFilter { only: patterns(only), ignore: patterns(ignore), ..KeyFilter::default() }
    }

    #[test]
    fn patterns_without_a_slash_match_file_names_and_others_match_paths() {
        let markdown = filter(&[], &["*.md"]);
        assert!(!is_included(&markdown, b"README.md") && !is_included(&markdown, b"docs/a.md"));
        assert!(is_included(&markdown, b"nginx.conf"));
        let top = filter(&["conf/*.conf"], &[]);
        assert!(is_included(&top, b"conf/a.conf"));
        assert!(!is_included(&top, b"a.conf") && !is_included(&top, b"conf/deep/a.conf"));
        assert!(is_included(&filter(&["conf/**/*.conf"], &[]), b"conf/deep/a.conf"));
    }

    #[test]
    fn ignore_takes_precedence_over_only() {
        let both = filter(&["*.conf"], &["secret*"]);
        assert!(is_included(&both, b"a.conf") && !is_included(&both, b"secret.conf"));
        assert!(!is_included(&both, b"a.txt"));
    }

    #[test]
    fn a_token_is_recognized_by_its_form() {
        assert!(is_token(b"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl"));
        assert!(!is_token(b"eyJ is how some sentences begin. Not this. One"));
        assert!(!is_token(b"-----BEGIN CERTIFICATE-----"));
    }
}
