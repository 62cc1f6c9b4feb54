//! Fuzzes the file of `[rule.expand]`: gzip and references to variables (`src/expand.rs`).

use super::{decompressed, substituted};
use crate::fuzz::{Target, fuzz};

/// A gzip file with this content, with all the parts that its header may have.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3];
    file.extend(b"\x02\x00ab" as &[u8]);
    file.extend(b"name\0comment\0\x01\x02" as &[u8]);
    file.extend(miniz_oxide::deflate::compress_to_vec(content, 6));
    file.extend(super::crc32(content).to_le_bytes());
    file.extend(u32::try_from(content.len()).unwrap_or_default().to_le_bytes());
    file
}

#[test]
fn fuzz_gzip() {
    // RFC 1952 gives no example; this is the checksum's well-known test value.
    assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    let whole = gzip(b"global:\n  external_labels: {}\n");
    let seeds = vec![whole, b"plain".to_vec(), b"\x1f\x8b\x08".to_vec()];
    let target = Target { seeds, ..Target::new("gzip", &[]) };
    fuzz(target, |input| {
        // Whatever was packed is unpacked, and one changed byte of the checksum is noticed.
        let mut packed = gzip(input);
        assert_eq!(decompressed(&packed).unwrap().unwrap(), input);
        let several = [gzip(b"first"), gzip(b""), packed.clone()].concat();
        assert_eq!(decompressed(&several).unwrap().unwrap(), [b"first", input].concat());
        assert!(decompressed(&[packed.as_slice(), b"\0"].concat()).is_err());
        let sum = packed.len() - 5;
        packed[sum] ^= 1;
        assert!(decompressed(&packed).is_err());
        match decompressed(input) {
            Ok(None) => "no gzip".to_owned(),
            Ok(Some(_)) => "gzip".to_owned(),
            Err(reason) => reason.message,
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
        assert_eq!(substituted(input, same).unwrap(), input);
        match substituted(input, known) {
            Ok(output) if output == input => "unchanged".to_owned(),
            Ok(_) => "substituted".to_owned(),
            Err(_) => "not set".to_owned(),
        }
    });
}
