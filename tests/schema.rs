//! The JSON schema for editors accepts every configuration that podnudge accepts, and rejects every
//! error that a schema can detect, according to an independent validator.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use podnudge_config::{self as config, FILE, Overrides};
use serde_json::Value;

struct Schema(Schemas, SchemaIndex);

impl Schema {
    fn new() -> Self {
        let schema: Value = serde_json::from_str(&config::schema(FILE)).expect("it is JSON");
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("podnudge.json", schema).expect("it has a name");
        let index = compiler.compile("podnudge.json", &mut schemas).expect("it is a schema");
        Self(schemas, index)
    }

    /// The error in a file; `None` if it is valid.
    fn problem(&self, text: &str) -> Option<String> {
        let file: toml::Table = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => return Some(error.to_string()),
        };
        let json = serde_json::to_value(file).expect("TOML without dates converts to JSON");
        self.0.validate(&json, self.1).err().map(|error| error.to_string())
    }
}

/// Editors must not mark a valid configuration as wrong.
#[test]
fn the_schema_accepts_every_valid_configuration() {
    let schema = Schema::new();
    let files = ["tests/good", "examples"].map(Path::new).into_iter().flat_map(files);
    let is_toml = |name: &str| Path::new(name).extension().is_some_and(|ending| ending == "toml");
    let files: Vec<_> = files.filter(|(name, _)| is_toml(name)).collect();
    assert!(files.len() >= 9, "only {} files", files.len());
    for (name, text) in files {
        assert_eq!(schema.problem(&text), None, "{name}");
        let effective = config::parse(&name, &text, &Overrides::default(), None)
            .map(|(config, _)| config::effective(&config));
        let effective = effective.unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(schema.problem(&effective), None, "{name}: {effective}");
    }
}

#[test]
fn the_schema_and_podnudge_accept_the_same_durations() {
    let schema = Schema::new();
    for duration in [
        "1.5s", "0.5h", "1h 30m", "1h30m", " 5s ", "1 000 ms", "1. 5 s", "1 day", "s", ".5s",
        "1.s", "5", "5 M", "5w", "",
    ] {
        let file = format!("[[rule]]\nwatch = \"/a\"\njitter = \"{duration}\"\nsignal.name = 1\n");
        let parsed = config::parse("", &file, &Overrides::default(), None);
        assert_eq!(schema.problem(&file).is_none(), parsed.is_ok(), "`{duration}`");
    }
}

#[test]
fn the_schema_rejects_empty_lists_of_conditions() {
    let schema = Schema::new();
    let check = ["exec", "required-keys"].map(|key| ("check", key));
    let verify = [
        "exec",
        "body-matches",
        "json-grew",
        "json-changed",
        "json-equals",
        "json-contains",
        "metric-grew",
        "metric-equals",
    ];
    for (table, key) in check.into_iter().chain(verify.map(|key| ("verify", key))) {
        let header =
            if table == "check" { "[[rule.check]]" } else { "[rule.verify]\nhttp = \"http://a/\"" };
        let file = format!("[[rule]]\nwatch = \"/a\"\nsignal.name = 1\n{header}\n{key} = []\n");
        assert!(schema.problem(&file).is_some(), "{key}");
    }
}

/// The errors that the schema cannot detect, and why.
#[rustfmt::skip] // a table
const BEYOND: [(&str, &[&str]); 4] = [
    ("the syntax of a text: a path, a name, a URL, a pattern, a signal", &[
        "a_broken_url_with_a_password", "a_mode_that_keeps_podnudge_out", "a_name_in_capitals",
        "a_name_too_long", "a_name_with_control_characters", "a_process_that_is_a_path",
        "a_real_time_signal", "a_real_time_signal_by_number", "an_invalid_regular_expression",
        "a_regular_expression_that_matches_anything", "a_secret_among_the_headers",
        "an_invalid_signal_number", "a_state_directory_that_is_not_absolute",
        "a_url_that_is_a_file", "an_invalid_url", "a_url_with_a_blank",
        "a_url_with_a_host_that_is_not_ascii", "a_url_with_a_password",
        "a_url_with_an_invalid_port", "a_url_without_a_host", "a_watch_with_an_empty_path",
        "a_watched_path_with_a_nul", "a_watched_path_with_an_escape_sequence",
        "a_watched_path_with_dots", "an_invalid_address", "an_empty_name",
        "an_empty_process_name",
        "an_api_server_without_tls",
        "an_eviction_at_each_start", "an_expanded_file_that_cannot_be_written",
        "an_unknown_method", "an_unknown_signal", "invalid_patterns",
        "an_invalid_json_pointer", "an_invalid_metric_name", "signal_number_zero",
        "invalid_sockets", "the_root_as_watched_path", "the_signal_kill", "the_signal_stop",
        "unknown_time_zones", "watched_paths_inside_the_hidden_part",
        "watched_paths_that_are_not_absolute",
    ]),
    ("the length of a duration", &[
        "a_first_retry_later_than_the_last", "a_timeout_in_which_no_child_can_survive", "durations_beyond_their_limits",
        "settle_longer_than_settle_max",
    ]),
    ("relations between two tables, or between two values of a list", &[
        "a_reload_endpoint_without_a_listener", "a_state_directory_inside_a_watched_volume",
        "a_watched_path_twice", "on_start_with_an_invalid_publish_directory",
        "bodies_that_are_not_published",
        "problems_after_an_invalid_watched_path", "repeated_steps_on_failure", "headers_that_differ_in_case_only", "alive_for_after_a_url", "certificates_without_https",
        "new_children_after_a_url", "two_rules_with_the_same_name", "two_rules_without_names",
    ]),
    ("a rule that command line options add", &[
        "a_drain_without_a_listener",
        "a_file_that_is_empty", "a_file_with_podnudge_settings_only",
    ]),
];

#[test]
fn the_schema_rejects_every_error_that_a_schema_can_detect() {
    let schema = Schema::new();
    let beyond: BTreeSet<_> = BEYOND.iter().flat_map(|(_, names)| *names).copied().collect();
    let bad = files(Path::new("tests/bad"));
    let accepted = bad.iter().filter(|(_, text)| schema.problem(text).is_none());
    let accepted: BTreeSet<_> = accepted.map(|(name, _)| name.trim_end_matches(".toml")).collect();
    assert_eq!(accepted, beyond);
}

/// The text files of a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name().into_string().expect("a name in ASCII");
        Some((name, fs::read_to_string(entry.path()).ok()?))
    };
    entries.filter_map(file).collect()
}
