//! Decides which keys are included in the digest. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::glob;
use podnudge_config::KeyFilter;

/// Whether a key is included in the digest.
pub(crate) fn is_included(filter: &KeyFilter, key: &[u8]) -> bool {
    if pauses(filter, key) {
        return false;
    }
    if filter.only.is_empty() && filter.ignore.is_empty() {
        return true;
    }
    let matches = |pattern| matches(pattern, key);
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
pub(crate) fn matches(pattern: &::glob::Pattern, key: &[u8]) -> bool {
    let path = String::from_utf8_lossy(key);
    let name = path.rsplit_once('/').map_or(path.as_ref(), |(_, name)| name);
    let text = if pattern.as_str().contains('/') { path.as_ref() } else { name };
    glob::matches(pattern, text)
}

/// The largest service account token, in bytes. Those of the kubelet have 1 to 2 KiB.
pub(super) const LARGEST_TOKEN: usize = 8 * 1024;

/// Whether a whole file beside `ca.crt` and `namespace` is the service account token: a signed JWT and
/// nothing else (RFC 7519, RFC 7515).
pub(super) fn is_token(content: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Header {
        alg: String,
    }
    if content.len() > LARGEST_TOKEN || !content.starts_with(b"eyJ") {
        return false;
    }
    let decode = |part: &[u8]| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
    let parts: Vec<&[u8]> = content.split(|byte| *byte == b'.').collect();
    let [header, claims, signature] = parts.as_slice() else { return false };
    let header = decode(header).and_then(|json| serde_json::from_slice::<Header>(&json).ok());
    let is_object = |json: Vec<u8>| json.starts_with(b"{") && json.ends_with(b"}");
    header.is_some_and(|header| !header.alg.is_empty())
        && decode(claims).is_some_and(is_object)
        && decode(signature).is_some_and(|signature| !signature.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(only: &[&str], ignore: &[&str]) -> KeyFilter {
        let patterns = |texts: &[&str]| {
            texts.iter().map(|text| ::glob::Pattern::new(text).expect("a pattern")).collect()
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
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl";
        assert!(is_token(token.as_bytes()));
        for other in [
            format!("{token}\n"),
            format!("{token}\nkey: value\n"),
            format!("{token}.c2lnbmF0dXJl"),
            format!("{token}{}", "A".repeat(LARGEST_TOKEN)),
            // No signature, no algorithm, no JSON.
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.".to_owned(),
            "eyJpc3MiOiJrOHMifQ.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl".to_owned(),
            "eyJhbGciOiJSUzI1NiJ.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl".to_owned(),
            "eyJhbGciOiJSUzI1NiJ9.c2lnbmF0dXJl.c2lnbmF0dXJl".to_owned(),
        ] {
            assert!(!is_token(other.as_bytes()), "{other}");
        }
        assert!(!is_token(b"eyJ is how some sentences begin. Not this. One"));
        assert!(!is_token(b"-----BEGIN CERTIFICATE-----"));
    }
}
