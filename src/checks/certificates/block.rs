//! Parses the blocks of a PEM file, each with its first line. Pure.
//!
//! Text between two blocks is ignored, as in OpenSSL and RFC 7468. Within a block nothing is
//! ignored: a PEM parser that skips unknown text would let broken files pass.

use rustls::pki_types::pem::{PemObject as _, SectionKind};

use podnudge_core::reason::Reason;
use podnudge_core::snapshot::Key;

/// A parsed block.
pub(super) struct Block {
    /// The first line of the block, starting at 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// The decoded content of the block.
    pub(super) der: Vec<u8>,
}

/// The kind of a block's content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Certificate,
    /// A private key, RFC 5958.
    Pkcs8,
    /// A private key for RSA, RFC 8017.
    Pkcs1,
    /// A private key for ECDSA, RFC 5915.
    Sec1,
    /// Something else that may accompany certificates and keys; it is not examined.
    Other,
}

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

/// The kinds by their labels; first those of RFC 7468, then OpenSSL's.
const KINDS: [(&str, Kind); 12] = [
    ("CERTIFICATE", Kind::Certificate),
    ("PRIVATE KEY", Kind::Pkcs8),
    ("X509 CRL", Kind::Other),
    ("CERTIFICATE REQUEST", Kind::Other),
    ("PUBLIC KEY", Kind::Other),
    ("RSA PRIVATE KEY", Kind::Pkcs1),
    ("EC PRIVATE KEY", Kind::Sec1),
    ("RSA PUBLIC KEY", Kind::Other),
    ("ECHCONFIG", Kind::Other),
    ("DH PARAMETERS", Kind::Other),
    ("X9.42 DH PARAMETERS", Kind::Other),
    ("EC PARAMETERS", Kind::Other),
];

/// A block whose end was not read yet.
struct Open<'a> {
    line: usize,
    label: &'a str,
    body: Vec<u8>,
}

/// Parses all blocks of a key; at least one.
///
/// # Errors
/// If the content is not PEM, or a block is invalid.
pub(super) fn parse_blocks(key: &Key, content: &[u8]) -> Result<Vec<Block>, Reason> {
    let mut blocks = Vec::new();
    let mut open: Option<Open<'_>> = None;
    let unterminated = |line| {
        let message = format!("the PEM block that begins in line {line} of `{key}` has no end");
        Err(Reason::new(message))
    };
    for (line, text) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii_end();
        match (marker(text), &mut open) {
            (Some(Marker::Begin(_)), Some(open)) => return unterminated(open.line),
            (Some(Marker::Begin(label)), None) => {
                open = Some(Open { line, label, body: Vec::new() });
            }
            (Some(Marker::End(label)), _) => match open.take() {
                Some(open) if open.label == label => blocks.push(read(key, &open)?),
                Some(open) => return unterminated(open.line),
                None => {
                    let message =
                        format!("line {line} of `{key}` ends a PEM block that has no beginning");
                    return Err(Reason::new(message));
                }
            },
            (Some(Marker::Broken), _) => {
                let reason = Reason::new(format!("line {line} of `{key}` is a broken PEM marker"));
                return Err(reason.hint(
                    "it must be a line of its own, without blanks before it: \
                     `-----BEGIN CERTIFICATE-----`",
                ));
            }
            (None, Some(open)) => {
                open.body.extend_from_slice(text);
                open.body.push(b'\n');
            }
            (None, None) => {}
        }
    }
    match open {
        Some(open) => unterminated(open.line),
        None if blocks.is_empty() => Err(no_block(key, content)),
        None => Ok(blocks),
    }
}

enum Marker<'a> {
    Begin(&'a str),
    End(&'a str),
    Broken,
}

fn marker(line: &[u8]) -> Option<Marker<'_>> {
    let has = |word: &[u8]| line.windows(word.len()).any(|part| part == word);
    if !has(b"-----BEGIN") && !has(b"-----END") {
        return None;
    }
    let label = |begin: &str| {
        let label = std::str::from_utf8(line).ok()?.strip_prefix(begin)?.strip_suffix("-----")?;
        (!label.is_empty() && !label.contains('-')).then_some(label)
    };
    let begin = label("-----BEGIN ").map(Marker::Begin);
    Some(begin.or_else(|| label("-----END ").map(Marker::End)).unwrap_or(Marker::Broken))
}

fn read(key: &Key, open: &Open<'_>) -> Result<Block, Reason> {
    let Open { line, label, body } = open;
    let mut headers = body.split(|byte| *byte == b'\n');
    if *label == ENCRYPTED || headers.any(|text| text.starts_with(b"Proc-Type: 4,ENCRYPTED")) {
        let reason = Reason::new(format!("the private key in line {line} of `{key}` is encrypted"));
        return Err(reason.hint(
            "an application cannot read it without a passphrase; if it has one, exclude the key \
             by `keys`",
        ));
    }
    let Some((_, kind)) = KINDS.iter().find(|(of, _)| of == label) else {
        let reason =
            Reason::new(format!("the PEM block in line {line} of `{key}` is of an unknown kind"));
        let labels = KINDS.map(|(label, _)| label).join("`, `");
        return Err(reason.hint(format!("known are `{labels}`; exclude other keys by `keys`")));
    };
    let der = decode(body).ok_or_else(|| {
        Reason::new(format!("the PEM block that begins in line {line} of `{key}` is broken"))
    })?;
    Ok(Block { line: *line, kind: *kind, der })
}

/// Decodes base64 in constant time, by the parser's decoder for private keys.
fn decode(body: &[u8]) -> Option<Vec<u8>> {
    let block = [b"-----BEGIN PRIVATE KEY-----\n", body, b"\n-----END PRIVATE KEY-----\n"].concat();
    let (_, der) = <(SectionKind, Vec<u8>)>::from_pem_slice(&block).ok()?;
    (!der.is_empty()).then_some(der)
}

/// Why a file has no block.
fn no_block(key: &Key, content: &[u8]) -> Reason {
    if content.trim_ascii().is_empty() {
        let reason = Reason::new(format!("`{key}` is empty, and not PEM"));
        return reason.hint("if it is always empty, exclude it by `keys`");
    }
    if std::str::from_utf8(content).is_err() {
        let reason = Reason::new(format!("`{key}` is binary, and not PEM"));
        return reason.hint("convert DER and PKCS #12 to PEM; exclude other keys by `keys`");
    }
    let reason = Reason::new(format!("there is no PEM block in `{key}`"));
    reason.hint("a block begins with `-----BEGIN …-----`; exclude other keys by `keys`")
}
