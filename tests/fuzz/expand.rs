//! Fuzzes the file of `[rule.expand]`: gzip and references to variables (`src/volume/expand.rs`).

use std::io::Write as _;

use flate2::{Compression, Crc, GzBuilder};

use super::{ExpandError, GZIP, Substitution};
use crate::fuzz::{Target, fuzz};

/// A gzip file with this content, with the parts that its header may have.
fn gzip(content: &[u8]) -> Vec<u8> {
    let header = GzBuilder::new().extra(b"ab".as_slice()).filename("name").comment("comment");
    let mut file = header.write(Vec::new(), Compression::default());
    file.write_all(content).unwrap();
    file.finish().unwrap()
}

/// The same without those parts, but with the checksum of the header, to which something is added.
fn with_header_checksum(added: u16) -> Vec<u8> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::default());
    packed.write_all(b"content").unwrap();
    let file = packed.finish().unwrap();
    let mut header = file[..10].to_vec();
    header[3] = 2;
    let mut checksum = Crc::new();
    checksum.update(&header);
    let low = u16::try_from(checksum.sum() & 0xffff).unwrap();
    [&header, low.wrapping_add(added).to_le_bytes().as_slice(), &file[10..]].concat()
}

fn message(error: ExpandError) -> String {
    match error {
        ExpandError::Content(reason) => reason.message,
        ExpandError::Output(error) => panic!("a vector takes all: {error}"),
    }
}

fn decompressed(content: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let taken = super::decompressed(content, |piece| {
        plain.extend_from_slice(piece);
        Ok(())
    });
    taken.map(|()| plain).map_err(message)
}

/// Takes the content in pieces of this length.
fn substituted(
    content: &[u8],
    variable: impl Fn(&str) -> Option<Vec<u8>>,
    length: usize,
) -> Result<Vec<u8>, String> {
    let mut output = Vec::new();
    let mut substitution =
        Substitution { variable, output: &mut output, pending: Vec::new(), written: 0 };
    let mut pieces = content.chunks(length);
    let taken = pieces.try_for_each(|piece| substitution.take(piece));
    taken.and_then(|()| substitution.finish()).map_err(message)?;
    Ok(output)
}

#[test]
fn fuzz_gzip() {
    assert_eq!(decompressed(&with_header_checksum(0)).unwrap(), b"content");
    assert!(decompressed(&with_header_checksum(1)).is_err());
    let whole = gzip(b"global:\n  external_labels: {}\n");
    let seeds = vec![whole, b"plain".to_vec(), b"\x1f\x8b\x08".to_vec()];
    let target = Target { seeds, ..Target::new("gzip", &[]) };
    fuzz(target, |input| {
        // Whatever was packed is unpacked, and one changed byte of the checksum is noticed.
        let mut packed = gzip(input);
        assert_eq!(decompressed(&packed).unwrap(), input);
        let several = [gzip(b"first"), gzip(b""), packed.clone()].concat();
        assert_eq!(decompressed(&several).unwrap(), [b"first", input].concat());
        assert!(decompressed(&[packed.as_slice(), b"\0"].concat()).is_err());
        let sum = packed.len() - 5;
        packed[sum] ^= 1;
        assert!(decompressed(&packed).is_err());
        match decompressed(input) {
            _ if !input.starts_with(&GZIP) => "no gzip".to_owned(),
            Ok(_) => "gzip".to_owned(),
            Err(message) => message,
        }
    });
}

#[test]
fn fuzz_references() {
    let seeds = ["a: $(NAME)\nb: $(UNSET)\n", "$($(NAME))$(a-b)$()", "$(NAME"];
    let dictionary = &["$(", ")", "$(NAME)", "_", "$"];
    fuzz(Target { dictionary, ..Target::new("references", &seeds) }, |input| {
        let known = |name: &str| (name == "NAME").then(|| b"value".to_vec());
        let same = |name: &str| Some(format!("$({name})").into_bytes());
        // A variable that is a reference to itself leaves all as it is.
        assert_eq!(substituted(input, same, 7).unwrap(), input);
        // Nothing depends on the pieces in which it comes.
        for length in [1, 2, 3] {
            assert_eq!(substituted(input, known, length), substituted(input, known, 1 << 20));
        }
        match substituted(input, known, 1 << 20) {
            Ok(output) if output == input => "unchanged".to_owned(),
            Ok(_) => "substituted".to_owned(),
            Err(_) => "not set".to_owned(),
        }
    });
}
