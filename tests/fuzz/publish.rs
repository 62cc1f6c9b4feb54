//! Fuzzes the names of generations and the record of a publish directory (`src/publish/`).

use super::generation::Name;
use super::record::Record;
use crate::fuzz::{Target, assert_harmless_lines, fuzz, text, words};
use podnudge_core::event::Published;

#[test]
fn the_name_of_a_generation_is_read_as_it_is_printed() {
    let digest = "07".repeat(32);
    let seeds = [
        format!("..2026_11_21_10_06_20.120000000.{digest}"),
        format!("..1970_01_01_00_00_00.000000000.{digest}"),
        format!("..9999_12_31_23_59_59.999999999.{digest}"),
        "..data".to_owned(),
    ];
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let dictionary = &["..", ".", "_", "0", "60", "29", "-", "T", "Z", "0101010101010101"];
    let target =
        Target { dictionary, longest: 160, inputs: 8000, ..Target::new("generation", &seeds) };
    fuzz(target, |input| match Name::parse(&text(input)) {
        Some(name) => {
            let shown = name.to_string();
            assert_eq!(Name::parse(&shown), Some(name));
            assert!(shown.len() < 255 && !shown.contains('/'), "{shown}");
            assert!(crate::volume::mounts::is_generation_name(shown.as_bytes()), "{shown}");
            "name".to_owned()
        }
        None => String::new(),
    });
}

#[test]
fn a_record_is_bounded_and_shown_without_control_characters() {
    let (one, other) = ("07".repeat(32), "08".repeat(32));
    let seeds = [
        format!(
            "{{\"for-start\":\"{one}\",\"evidence\":\"verified\",\"is-open\":true,\"bad\":[]}}"
        ),
        format!(
            "{{\"good\":\"{one}\",\"evidence\":\"none\",\"is-open\":false,\"bad\":[{{\"digest\":\"{other}\",\"message\":\"a\\u001b[31m\\nb\",\"hint\":\"c\\u202e\"}},{{\"digest\":\"{one}\",\"message\":\"x\"}}]}}"
        ),
        "{}".to_owned(),
    ];
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let dictionary = words("record");
    let target = Target { dictionary, longest: 32 * 1024, ..Target::new("record", &seeds) };
    fuzz(target, |input| match Record::parse(input) {
        Ok(record) => {
            let saved = serde_json::to_vec(&record).unwrap();
            assert_eq!(Record::parse(&saved).unwrap(), record);
            let quarantined = record.bad.len();
            assert!(quarantined <= Published::MOST_QUARANTINED);
            for bad in record.bad {
                let (_, reason) = bad.into_pair();
                assert_harmless_lines(&reason.to_string());
                assert!(reason.message.len() <= 3000);
            }
            "x".repeat(quarantined.min(5))
        }
        Err(error) => error.to_string(),
    });
}
