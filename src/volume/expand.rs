//! Decompresses a file and replaces the environment variables in it, for `[rule.expand]`: in pieces, because little
//! content may stand for much. `checks/contents.rs` checks with it what `publish/expand.rs` writes before the action is
//! sent (`run/expand.rs`).
//!
//! Reads podnudge's environment. The messages contain the names of variables, and no values.

#[cfg(test)]
#[path = "../../tests/fuzz/expand.rs"]
mod fuzz;

use std::io::{self, Read as _, Write};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;

use podnudge_config::Expand;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// How many bytes a file may have after it was decompressed, and with its variables.
const LARGEST: usize = 16 << 20;
/// How many bytes are expanded at once.
const PIECE: usize = 32 << 10;
/// The longest name of a variable, in bytes.
const LONGEST_NAME: usize = 1024;
/// The variable that stands for the number at the end of a pod's name.
const ORDINAL: &str = "STATEFULSET_ORDINAL_NUMBER";

/// The first bytes of gzip, with its only method (RFC 1952).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// Why a file was not expanded.
#[derive(Debug)]
pub(crate) enum ExpandError {
    /// The file is missing, cannot be decompressed, is too large, or names a variable that is not set.
    Content(Reason),
    /// The expanded file cannot be written.
    Output(io::Error),
}

/// A file of the volumes that is to be expanded.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    expand: &'a Expand,
    path: PathBuf,
    content: &'a [u8],
}

impl<'a> Source<'a> {
    /// The file of these that is to be written.
    ///
    /// # Errors
    /// If it is missing.
    pub(crate) fn of_volumes(
        expand: &'a Expand,
        mut files: impl Iterator<Item = (PathBuf, &'a [u8])>,
    ) -> Result<Self, Reason> {
        let Some((path, content)) = files.find(|(path, _)| *path == expand.file) else {
            let reason = Reason::new(format!("`{}` is missing", shown::path(&expand.file)));
            return Err(reason.hint("it is the `file` of `[rule.expand]`"));
        };
        Ok(Self { expand, path, content })
    }

    /// Whether it can be expanded.
    ///
    /// # Errors
    /// If it cannot be decompressed, becomes too large, or names a variable that is not set.
    pub(crate) fn check(&self) -> Result<(), Reason> {
        match self.write_to(&mut io::sink()) {
            Ok(()) => Ok(()),
            Err(ExpandError::Content(reason)) => Err(reason),
            Err(ExpandError::Output(error)) => Err(Reason::new(error.to_string())),
        }
    }

    /// Writes it, expanded, in pieces.
    ///
    /// # Errors
    /// As [`Source::check`], or if the output takes no more: then a part of it was written.
    pub(crate) fn write_to(&self, output: &mut impl Write) -> Result<(), ExpandError> {
        let variable = |name: &str| match (&self.expand.ordinal_from, name) {
            (Some(pod), ORDINAL) => Some(ordinal(&value(pod).unwrap_or_default())),
            _ => value(name),
        };
        expanded(self.content, variable, output).map_err(|error| match error {
            ExpandError::Content(Reason { message, hint }) => {
                let message = format!("`{}` {message}", shown::path(&self.path));
                ExpandError::Content(Reason { message, hint })
            }
            error @ ExpandError::Output(_) => error,
        })
    }
}

fn expanded(
    content: &[u8],
    variable: impl Fn(&str) -> Option<Vec<u8>>,
    output: &mut impl Write,
) -> Result<(), ExpandError> {
    let mut substitution = Substitution { variable, output, pending: Vec::new(), written: 0 };
    if content.starts_with(&GZIP) {
        decompressed(content, |piece| substitution.take(piece))?;
    } else {
        content.chunks(PIECE).try_for_each(|piece| substitution.take(piece))?;
    }
    substitution.finish()
}

fn content_error(message: impl Into<String>) -> ExpandError {
    ExpandError::Content(Reason::new(message))
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

/// Decompresses a gzip file. Such a file has one member or several, whose contents follow each other (RFC 1952, section
/// 2.2).
fn decompressed(
    content: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), ExpandError>,
) -> Result<(), ExpandError> {
    let mut decoder = MultiGzDecoder::new(content);
    let (mut buffer, mut total) = (vec![0; PIECE], 0);
    loop {
        let read = decoder
            .read(&mut buffer)
            .map_err(|_| content_error("is gzip that cannot be decompressed"))?;
        total += read;
        if total > LARGEST {
            let message = format!("has more than {LARGEST} bytes when it is decompressed");
            return Err(content_error(message));
        }
        match buffer.get(..read) {
            None | Some([]) => return Ok(()),
            Some(piece) => take(piece)?,
        }
    }
}

/// Replaces `$(NAME)` by the value of the variable, where `NAME` is made of letters, digits and underscores.
/// Anything else stays as it is.
struct Substitution<'a, V, W> {
    variable: V,
    output: &'a mut W,
    /// The end of what was taken, which may be the beginning of a reference.
    pending: Vec<u8>,
    written: usize,
}

/// What a text that begins with `$(` is.
enum Reference<'a> {
    /// A reference to this variable, and what follows.
    To(&'a str, &'a [u8]),
    /// No reference.
    None,
    /// What may become a reference with what follows.
    Open,
}

impl<V: Fn(&str) -> Option<Vec<u8>>, W: Write> Substitution<'_, V, W> {
    fn take(&mut self, piece: &[u8]) -> Result<(), ExpandError> {
        let mut taken = std::mem::take(&mut self.pending);
        taken.extend_from_slice(piece);
        let left = self.substitute(&taken, false)?;
        taken.drain(..taken.len() - left);
        self.pending = taken;
        Ok(())
    }

    fn finish(mut self) -> Result<(), ExpandError> {
        let taken = std::mem::take(&mut self.pending);
        self.substitute(&taken, true)?;
        self.output.flush().map_err(ExpandError::Output)
    }

    /// Writes a text with its values, except for an end that may be the beginning of a reference, if more follows.
    /// Returns the length of that end.
    fn substitute(&mut self, text: &[u8], is_end: bool) -> Result<usize, ExpandError> {
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"$(") {
            let (before, reference) = rest.split_at(at);
            self.write(before)?;
            rest = match Reference::of(reference) {
                Reference::To(name, after) => {
                    let Some(value) = (self.variable)(name) else {
                        let message = format!("refers to `$({name})`, which is not set");
                        let hint = "set it in the environment of podnudge's container";
                        return Err(ExpandError::Content(Reason::new(message).hint(hint)));
                    };
                    self.write(&value)?;
                    after
                }
                Reference::Open if !is_end => return Ok(reference.len()),
                Reference::Open | Reference::None => {
                    let (start, after) = reference.split_at(2);
                    self.write(start)?;
                    after
                }
            };
        }
        let left = usize::from(!is_end && rest.ends_with(b"$"));
        let (whole, _) = rest.split_at(rest.len() - left);
        self.write(whole)?;
        Ok(left)
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), ExpandError> {
        self.written += piece.len();
        if self.written > LARGEST {
            let message = format!("has more than {LARGEST} bytes with its variables");
            return Err(content_error(message));
        }
        self.output.write_all(piece).map_err(ExpandError::Output)
    }
}

impl<'a> Reference<'a> {
    fn of(text: &'a [u8]) -> Self {
        let inner = text.get(2..).unwrap_or_default();
        let longest = inner.get(..=LONGEST_NAME).unwrap_or(inner);
        let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let Some(end) = longest.iter().position(|byte| !is_in_name(byte)) else {
            return if inner.len() > LONGEST_NAME { Self::None } else { Self::Open };
        };
        let (name, after) = inner.split_at(end);
        match (std::str::from_utf8(name), after.strip_prefix(b")")) {
            (Ok(name), Some(after)) if !name.is_empty() => Self::To(name, after),
            _ => Self::None,
        }
    }
}
