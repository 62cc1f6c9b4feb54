//! Decompresses a file and replaces the environment variables in it, for `[rule.expand]`.
//!
//! Reads podnudge's environment. The messages contain the names of variables, and no values.

#[cfg(test)]
#[path = "../tests/fuzz/expand.rs"]
mod fuzz;

use std::path::{Path, PathBuf};

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF as ONE_BUFFER;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::config::Expand;
use crate::reason::Reason;
use crate::shown;

/// How many bytes a file may have after it was decompressed.
const LARGEST: usize = 16 << 20;
/// How many bytes to have room for at first. That doubles.
const FIRST_BUFFER: usize = 64 << 10;
/// The variable that stands for the number at the end of a pod's name.
const ORDINAL: &str = "STATEFULSET_ORDINAL_NUMBER";

/// The first bytes of gzip, with its only method (RFC 1952).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// The bits of its flags: a header checksum, extra fields, a name, a comment.
const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// The file of these that is to be written, expanded.
///
/// # Errors
/// If it is missing, cannot be decompressed, or names a variable that is not set.
pub(crate) fn of_volumes<'a>(
    expand: &Expand,
    mut files: impl Iterator<Item = (PathBuf, &'a [u8])>,
) -> Result<Vec<u8>, Reason> {
    let Some((path, content)) = files.find(|(path, _)| *path == expand.file) else {
        let reason = Reason::new(format!("`{}` is missing", shown::path(&expand.file)));
        return Err(reason.hint("it is the `file` of `[rule.expand]`"));
    };
    of_content(expand, &path, content)
}

/// This content of the file, expanded.
///
/// # Errors
/// If it cannot be decompressed, or names a variable that is not set.
pub(crate) fn of_content(expand: &Expand, path: &Path, content: &[u8]) -> Result<Vec<u8>, Reason> {
    let variable = |name: &str| match (&expand.ordinal_from, name) {
        (Some(pod), ORDINAL) => Some(ordinal(&value(pod).unwrap_or_default())),
        _ => value(name),
    };
    let named = |Reason { message, hint }: Reason| {
        let message = format!("`{}` {message}", shown::path(path));
        Reason { message, hint }
    };
    let plain = decompressed(content).map_err(named)?;
    substituted(plain.as_deref().unwrap_or(content), variable).map_err(named)
}

/// The value of an environment variable.
fn value(name: &str) -> Option<Vec<u8>> {
    std::env::var_os(name).map(std::ffi::OsString::into_encoded_bytes)
}

/// The digits at the end of a pod's name.
fn ordinal(pod: &[u8]) -> Vec<u8> {
    let digits = pod.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    pod.get(pod.len() - digits..).unwrap_or_default().to_vec()
}

/// The content of a gzip file; `None` if it is no such file. Such a file has one member or several, whose
/// contents follow each other (RFC 1952, section 2.2).
fn decompressed(content: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
    if !content.starts_with(&GZIP) {
        return Ok(None);
    }
    let broken = || Reason::new("is gzip that cannot be decompressed");
    let mut state = Box::<DecompressorOxide>::default();
    let (mut plain, mut length, mut rest) = (Vec::new(), 0, content);
    while !rest.is_empty() {
        let start = length;
        rest = body(rest).ok_or_else(broken)?;
        state.init();
        loop {
            let member = plain.get_mut(start..).unwrap_or_default();
            let (status, read, written) =
                decompress(&mut state, rest, member, length - start, ONE_BUFFER);
            length += written;
            rest = rest.get(read..).unwrap_or_default();
            let is_full = length > LARGEST;
            match status {
                TINFLStatus::Done if !is_full => break,
                TINFLStatus::HasMoreOutput if !is_full => {
                    plain.resize((2 * plain.len()).clamp(FIRST_BUFFER, LARGEST + 1), 0);
                }
                TINFLStatus::Done | TINFLStatus::HasMoreOutput => {
                    let message = format!("has more than {LARGEST} bytes when it is decompressed");
                    return Err(Reason::new(message));
                }
                _ => return Err(broken()),
            }
        }
        let (trailer, after) = rest.split_at_checked(8).ok_or_else(broken)?;
        let member = plain.get(start..length).unwrap_or_default();
        // The length modulo 2^32: a member has fewer bytes.
        let size = u32::try_from(member.len()).unwrap_or(u32::MAX);
        if trailer != [crc32(member).to_le_bytes(), size.to_le_bytes()].concat() {
            return Err(broken());
        }
        rest = after;
    }
    plain.truncate(length);
    Ok(Some(plain))
}

/// What follows the header of a gzip member: the compressed data, eight bytes with a checksum and the length,
/// and the next member.
fn body(content: &[u8]) -> Option<&[u8]> {
    let flags = *content.strip_prefix(&GZIP)?.first()?;
    let mut rest = content.get(10..)?;
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(rest.get(..2)?.try_into().ok()?);
        rest = rest.get(2 + usize::from(length)..)?;
    }
    for _ in [NAME, COMMENT].into_iter().filter(|flag| flags & flag != 0) {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = rest.get(end + 1..)?;
    }
    if flags & HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

/// The checksum of gzip (RFC 1952, section 8), bit by bit: the files are small.
fn crc32(content: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !content.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// The content with the values of variables in place of `$(NAME)`, where `NAME` is made of letters, digits
/// and underscores. Anything else stays as it is.
fn substituted(
    content: &[u8],
    variable: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Reason> {
    let mut output = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"$(") {
        let (before, reference) = rest.split_at(at);
        output.extend_from_slice(before);
        let Some((name, after)) = name(reference) else {
            output.extend_from_slice(b"$(");
            rest = reference.get(2..).unwrap_or_default();
            continue;
        };
        let Some(value) = variable(name) else {
            let reason = Reason::new(format!("refers to `$({name})`, which is not set"));
            return Err(reason.hint("set it in the environment of podnudge's container"));
        };
        output.extend_from_slice(&value);
        if output.len() > LARGEST {
            return Err(Reason::new(format!("has more than {LARGEST} bytes with its variables")));
        }
        rest = after;
    }
    output.extend_from_slice(rest);
    Ok(output)
}

/// The name in a reference such as `$(NAME)`, and what follows.
fn name(reference: &[u8]) -> Option<(&str, &[u8])> {
    let inner = reference.strip_prefix(b"$(")?;
    let end = inner.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    let (name, after) = inner.split_at_checked(end)?;
    let after = after.strip_prefix(b")")?;
    (!name.is_empty()).then_some((std::str::from_utf8(name).ok()?, after))
}
