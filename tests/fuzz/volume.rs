//! Fuzzes mountinfo, keys, the patterns of keys, digests and the recognition of tokens (`src/volume/`).

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::mounts::{self, Mount};
use super::{filter, mounts::containing};
use crate::fuzz::{Target, assert_harmless, first_line, fuzz, text, words};
use podnudge_core::snapshot::{Digest, Key};

/// A line of mountinfo as the kernel writes it (`show_mountinfo` in `fs/proc_namespace.c`).
fn line(mount: &Mount) -> Vec<u8> {
    let escape = |path: &Path| {
        let mut escaped = String::new();
        for byte in path.as_os_str().as_bytes() {
            // More than the kernel escapes, so that the line is text.
            if byte.is_ascii_alphanumeric() || b"/.".contains(byte) {
                escaped.push(char::from(*byte));
            } else {
                write!(escaped, "\\{byte:03o}").unwrap();
            }
        }
        escaped
    };
    let (id, (major, minor)) = (mount.id, mount.device);
    let options = if mount.is_read_only { "ro" } else { "rw" };
    let (root, point) = (escape(&mount.root), escape(&mount.mount_point));
    let fs_type = &mount.fs_type;
    format!("{id} 35 {major}:{minor} {root} {point} {options},noatime master:1 - {fs_type} none rw")
        .into_bytes()
}

#[test]
fn mountinfo_is_read_as_it_is_printed() {
    let seeds = [
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
        "1 2 0:5 / / rw - overlay overlay rw\n3 1 0:6 /..2026_11_21_10_06_20.1/a\\040b /etc/a\\134b ro shared:2 - tmpfs tmpfs rw\n",
        "4 1 8:1 /a//deleted /b rw - xfs /dev/sda rw\n",
    ];
    let dictionary = words("mountinfo");
    let target = Target { dictionary, inputs: 6000, ..Target::new("mountinfo", &seeds) };
    fuzz(target, |input| {
        let mounts = mounts::parse(input);
        for mount in &mounts {
            if !mount.fs_type.contains('\u{fffd}') {
                assert_eq!(mounts::parse(&line(mount)), std::slice::from_ref(mount));
            }
            let bytes = mount.mount_point.as_os_str().len() + mount.root.as_os_str().len();
            assert!(bytes <= input.len(), "unescaping makes nothing longer");
            let found = containing(&mount.mount_point, &mounts).expect("it is in a mount");
            assert_eq!(
                found.mount_point.components().count(),
                mount.mount_point.components().count()
            );
        }
        format!("{} {}", "x".repeat(mounts.len()), mounts.iter().any(Mount::is_subpath))
    });
}

/// What is an octal escape of the kernel, byte by byte: a second reader.
#[test]
fn only_three_octal_digits_are_an_escape() {
    let dictionary =
        &["\\040", "\\134", "\\400", "\\+12", "\\-12", "\\08", "\\", "\\\\", "1", "7", "8"];
    let target =
        Target { dictionary, longest: 64, inputs: 6000, ..Target::new("octal", &["/a\\040b"]) };
    fuzz(target, |input| {
        let field: Vec<u8> = input.iter().copied().filter(|byte| !b" \n".contains(byte)).collect();
        let text = [b"1 2 0:5 /x ".as_slice(), &field, b" rw - tmpfs none rw"].concat();
        let mut wanted = Vec::new();
        let mut at = 0;
        while let Some(byte) = field.get(at) {
            let digits = field.get(at + 1..at + 4).unwrap_or_default();
            let is_octal =
                digits.len() == 3 && digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
            let code = digits
                .iter()
                .fold(0_u32, |code, digit| code * 8 + u32::from(digit.wrapping_sub(b'0')));
            match u8::try_from(code) {
                Ok(code) if *byte == b'\\' && is_octal => {
                    wanted.push(code);
                    at += 4;
                }
                _ => {
                    wanted.push(*byte);
                    at += 1;
                }
            }
        }
        let mounts = mounts::parse(&text);
        assert_eq!(
            mounts.first().map(|mount| mount.mount_point.as_os_str().as_bytes()),
            Some(wanted.as_slice())
        );
        (wanted.len() < field.len()).to_string()
    });
}

#[test]
fn a_key_is_shown_without_loss() {
    let dictionary = &["\\x1b", "\\n", "\\\\", "\\"];
    let target =
        Target { dictionary, inputs: 4000, ..Target::new("key", &["a.conf", "sites/ü\\n"]) };
    fuzz(target, |input| {
        let shown = Key(input.to_vec()).to_string();
        assert_harmless(&shown);
        assert!(shown.is_ascii());
        let mut read = Vec::new();
        let mut rest = shown.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            let (byte, length) = match (first, after) {
                (b'\\', [b'x', hex @ ..]) => (u8::from_str_radix(&text(&hex[..2]), 16).unwrap(), 4),
                (b'\\', [code, ..]) => {
                    (b"\t\n\r"[b"tnr".iter().position(|c| c == code).unwrap_or(0)], 2)
                }
                _ => (*first, 1),
            };
            let is_plain = length == 2 && b"\\'\"".contains(&after[0]);
            read.push(if is_plain { after[0] } else { byte });
            rest = &rest[length..];
        }
        assert_eq!(read, input);
        (shown.len() > input.len()).to_string()
    });
}

#[test]
fn a_digest_is_read_as_it_is_printed() {
    let seed = "0123456789abcdef".repeat(4);
    let target = Target {
        longest: 80,
        inputs: 6000,
        ..Target::new("digest", &[&seed, &seed.to_uppercase()])
    };
    fuzz(target, |input| {
        let text = text(input);
        match text.parse::<Digest>() {
            Ok(digest) => {
                assert_eq!(digest.to_string(), text.to_ascii_lowercase());
                assert_eq!(
                    serde_json::from_str::<Digest>(&format!("\"{digest}\"")).unwrap(),
                    digest
                );
                "digest".to_owned()
            }
            Err(error) => error.to_string(),
        }
    });
}

#[test]
fn only_a_whole_jwt_is_a_token() {
    let seeds = [
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2lnbmF0dXJl\n",
    ];
    let target = Target { inputs: 6000, ..Target::new("token", &seeds) };
    fuzz(target, |input| {
        let is_token = filter::is_token(input);
        if is_token {
            let text = std::str::from_utf8(input).expect("it is ASCII");
            assert!(text.starts_with("eyJ") && text.split('.').count() == 3);
            assert!(!text.contains([' ', '\t', '\r', '"', '{', '#', ';']), "it is a configuration");
        }
        is_token.to_string()
    });
}

#[test]
fn the_name_of_a_generation_of_the_kubelet_begins_with_a_date() {
    let seeds = ["..2006_01_02_15_04_05.123456789", "..data", "..2006_01_02_15_04_05.x"];
    fuzz(Target { longest: 64, ..Target::new("generation of the kubelet", &seeds) }, |input| {
        let is_one = mounts::is_generation_name(input);
        assert!(!is_one || input.starts_with(b".."));
        is_one.to_string()
    });
}

/// The patterns that the configuration accepts.
fn pattern_of(text: &str) -> Option<glob::Pattern> {
    let is_refused = text.is_empty() || text.starts_with('/');
    glob::Pattern::new(text).ok().filter(|_| !is_refused)
}

/// The crate `glob` is right, but takes exponential time: so only short keys are compared.
#[test]
fn a_glob_matches_what_another_matcher_matches() {
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: false,
    };
    let seeds = [
        "*.conf\na.conf",
        "conf/**/*.conf\nconf/a/b.conf",
        "**/a\nb/a",
        "[!a-c]?[]]\nxy]",
        "a/**\na/b/c",
        "a*b*c\nabbc",
        "..*\n..data",
        "[a-]\n-",
    ];
    let dictionary =
        &["*", "?", "**/", "/**", "[a-z]", "[!b]", "[]]", "[!]]", "/", ".", "a", "b", "ß", "-"];
    let target = Target { dictionary, longest: 24, inputs: 20_000, ..Target::new("glob", &seeds) };
    fuzz(target, move |input| {
        let (pattern, key) = first_line(input);
        let Some(pattern) = pattern_of(&pattern) else { return "refused".to_owned() };
        let path = text(key);
        let name = path.rsplit('/').next().unwrap_or_default();
        let of = if pattern.as_str().contains('/') { path.as_str() } else { name };
        let wanted = pattern.matches_with(of, options);
        assert_eq!(filter::matches(&pattern, key), wanted);
        wanted.to_string()
    });
}

/// The author of the content chooses the names of the keys.
#[test]
fn a_glob_takes_linear_time_for_any_key() {
    let seeds = [
        "*a*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/",
        "**/a*/**/b*/**/c\na/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/a/b/d",
        "*.conf\na.conf",
    ];
    let dictionary = &["*", "*a", "**/", "?", "[a]", "a", "a/", "aaaaaaaaaaaaaaaa", "/"];
    let target = Target { dictionary, longest: 1024, ..Target::new("long glob", &seeds) };
    fuzz(target, |input| {
        let (pattern, key) = first_line(input);
        let Some(pattern) = pattern_of(&pattern) else { return "refused".to_owned() };
        filter::matches(&pattern, key).to_string()
    });
}
