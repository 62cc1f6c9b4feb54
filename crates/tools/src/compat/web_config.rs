//! The `--web-config-file` of prometheus-config-reloader: podnudge serves its metrics without TLS and without
//! users, so it must not start where the file asks for them. Pure.

use std::path::Path;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::command::Read;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// The bytes that are read. The parser may need 200 for each.
const LARGEST: u64 = 64 << 10;
/// The one key that does not protect the port: HTTP/2, and headers of the answers.
const HARMLESS: &str = "http_server_config";

/// Refuses a file that asks for more than podnudge has.
///
/// # Errors
/// If it has a key but `http_server_config`, or cannot be read as one YAML map.
pub(super) fn refuse(file: &str, read: Read<'_>) -> Result<(), Reason> {
    let content = read(Path::new(file), LARGEST)?;
    let text = std::str::from_utf8(&content).map_err(|_| "it is not UTF-8 text".to_owned());
    text.and_then(find_refused).map_err(|why| {
        let file = shown::text(file);
        let message = format!("`--web-config-file={file}` is not supported: {why}");
        Reason::new(message).hint(
            "podnudge serves its metrics without TLS and without users: leave the option out, and \
             let `--listen-address` be on 127.0.0.1, or let a NetworkPolicy protect the port",
        )
    })
}

/// Finds what is neither null nor a map with the harmless key alone.
fn find_refused(text: &str) -> Result<(), String> {
    let no_map = || Err("it is not a YAML map".to_owned());
    let no_text = || Err("it has a key that is not text".to_owned());
    let (mut documents, mut depth, mut is_key) = (0, 0_usize, true);
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            format!("it is not YAML: see line {line}, column {column}")
        })?;
        match (event, depth) {
            (Event::DocumentStart(_), _) => {
                documents += 1;
                if documents > 1 {
                    return Err("it has several documents".to_owned());
                }
            }
            (Event::Scalar(text, style, _, None), 0)
                if style == ScalarStyle::Plain && is_null(&text) => {}
            (Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_), 0) => return no_map(),
            (Event::Scalar(key, ..), 1) if is_key => {
                if key != HARMLESS {
                    return Err(format!("it has `{}`", shown::text(&key)));
                }
                is_key = false;
            }
            (Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_), 1) if is_key => {
                return no_text();
            }
            (Event::Scalar(..) | Event::Alias(_), 1) => is_key = true,
            (Event::SequenceStart(..) | Event::MappingStart(..), _) => depth += 1,
            (Event::SequenceEnd | Event::MappingEnd, _) => {
                depth = depth.saturating_sub(1);
                is_key |= depth == 1;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_null(text: &str) -> bool {
    ["", "~", "null", "Null", "NULL"].contains(&text)
}
