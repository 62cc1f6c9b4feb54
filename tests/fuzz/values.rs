//! Fuzzes the configuration: the file, the presets, and the text values (`crates/config/src/`).

use std::cell::OnceCell;
use std::time::Duration;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use super::{FILE, Overrides, effective, file, parsers, preset};
use crate::fuzz::{Target, assert_harmless_lines, assert_reason, fuzz, text, words};
use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;

const FILES: &[&str] = &[
    "[[rule]]\nwatch = \"/etc/nginx/conf.d\"\npreset = \"nginx\"\n",
    include_str!("../../examples/prometheus.toml"),
    include_str!("../../examples/haproxy-published.toml"),
    include_str!("../../examples/nginx.toml"),
    "[agent]\nlisten = \"[::]:9533\"\nstate-dir = \"/var/lib/podnudge\"\nreload = \"loopback\"\n[[rule]]\nname = \"a\"\nwatch = [\"/a\", \"/b\"]\nonly = [\"*.conf\"]\nsettle = \"1s\"\nsettle-max = \"10s\"\nsignal = \"HUP\"\n[rule.target]\nprocess = \"nginx\"\n[rule.verify]\nhttp = \"http://127.0.0.1/\"\njson-equals = { pointer = \"/a\", value = 1 }\n",
    "[[rule]]\nwatch = \"/a\"\n[rule.hold]\nwindow = [\"Mon-Fri 09:00-17:00\"]\ntime-zone = \"CET-1CEST,M3.5.0,M10.5.0/3\"\n[[rule.check]]\nsyntax = \"json\"\nkeys = [\"*.json\"]\n[[rule.check]]\nexec = [\"nginx\", \"-t\"]\ntimeout = \"5s\"\n[rule.publish]\ndir = \"/out\"\n[rule.restart]\n",
    "[[rule]]\nwatch = \"/a\"\n[rule.http]\nurl = \"https://localhost/x\"\nheaders = { a = \"b\" }\nbasic = { username = \"u\", password-file = \"/p\" }\nca-file = \"/ca\"\n[rule.command]\nsocket = \"tcp://127.0.0.1:9\"\nsend = \"a\\n\"\nanswer-matches = \"ok\"\n",
];

struct Schema(Schemas, SchemaIndex);

impl Schema {
    fn new() -> Self {
        let schema: Value = serde_json::from_str(&super::schema(FILE)).expect("it is JSON");
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("podnudge.json", schema).expect("it has a name");
        let index = compiler.compile("podnudge.json", &mut schemas).expect("it is a schema");
        Self(schemas, index)
    }

    fn assert_valid(&self, text: &str) {
        let table: toml::Table = toml::from_str(text).expect("it is TOML");
        let json = serde_json::to_value(table).expect("it has no dates");
        if let Err(error) = self.0.validate(&json, self.1) {
            panic!("the schema refuses it: {error}");
        }
    }
}

#[test]
fn what_is_accepted_is_printed_read_back_and_valid_by_the_schema() {
    let target =
        Target { dictionary: words("configuration"), ..Target::new("configuration", FILES) };
    let schema = OnceCell::new();
    fuzz(target, move |input| {
        let text = text(input);
        let zones = |_: &str| None;
        match file::parse_with_zones("a\nfile", &text, &[], &Overrides::default(), None, &zones) {
            Ok((config, warnings)) => {
                let schema = schema.get_or_init(Schema::new);
                schema.assert_valid(&text);
                let shown = effective(&config);
                schema.assert_valid(&shown);
                let again = file::parse("b", &shown, &Overrides::default(), None);
                let (again, _) = again.unwrap_or_else(|problems| panic!("{problems}\n{shown}"));
                assert_eq!(effective(&again), shown);
                warnings.iter().map(|warning| assert_reason(&warning.reason)).collect()
            }
            Err(problems) => {
                let shown = problems.to_string();
                assert_harmless_lines(&shown);
                let places = shown.lines().filter_map(|line| line.strip_prefix("a\\nfile:"));
                for place in places {
                    let mut numbers = place.splitn(3, ':').filter_map(|part| part.parse().ok());
                    let (line, column): (usize, usize) =
                        (numbers.next().unwrap(), numbers.next().unwrap());
                    let at = text.split('\n').nth(line - 1).expect("there is such a line");
                    assert!(column <= at.chars().count() + 1, "{place}");
                }
                shown
            }
        }
    });
}

#[test]
fn a_preset_is_read_or_not() {
    let seeds = [
        include_str!("../../presets/nginx.toml"),
        include_str!("../../presets/haproxy.toml"),
        include_str!("../../presets/postgres.toml"),
    ];
    let dictionary = &["[rule]\n", "programs = ", "[rule.", "]\n", "\n\n", "\"", "'''", "= {}\n"];
    fuzz(Target { dictionary, ..Target::new("preset", &seeds) }, |input| {
        let read = preset::Preset::read("a", &text(input));
        read.is_some().to_string()
    });
}

/// A duration as humantime reads it, with the units that podnudge knows.
fn duration(value: &str) -> Result<String, Reason> {
    let duration = podnudge_core::duration::duration(value)?;
    assert_eq!(humantime::parse_duration(value), Ok(duration));
    let shown = humantime::format_duration(duration).to_string();
    assert_eq!(humantime::parse_duration(&shown), Ok(duration), "{shown}");
    let (least, most) = (Duration::from_millis(10), Duration::from_hours(1));
    let is_within = (least..=most).contains(&duration);
    assert_eq!(bounded_duration(value, least, most).is_ok(), is_within);
    Ok("duration".to_owned())
}

/// A value that is printed as it was read, and can be read again.
fn stable(value: &str, parse: impl Fn(&str) -> Result<String, Reason>) -> Result<String, Reason> {
    let read = parse(value)?;
    assert_eq!(parse(&read), Ok(read.clone()), "read again");
    Ok("stable".to_owned())
}

fn absolute(
    value: &str,
    parse: fn(&str) -> Result<std::path::PathBuf, Reason>,
) -> Result<String, Reason> {
    let path = parse(value)?;
    assert!(path.is_absolute() && !path.components().any(|part| part.as_os_str() == ".."));
    stable(value, |text| Ok(parse(text)?.to_str().expect("it was text").to_owned()))
}

/// The parser that a letter names.
fn value(parser: u8, value: &str) -> Result<String, Reason> {
    match parser {
        b'd' => duration(value),
        b'g' => stable(value, |text| Ok(parsers::glob(text)?.as_str().to_owned())),
        b'r' => stable(value, |text| Ok(parsers::regex(text)?.as_str().to_owned())),
        b's' => stable(value, |text| Ok(parsers::signal(text)?.as_str().to_owned())),
        b'u' => {
            let url = parsers::url(value)?;
            assert!(matches!(url.scheme(), "http" | "https") && url.has_host(), "{url}");
            assert!(url.username().is_empty() && url.password().is_none(), "{url}");
            crate::fuzz::assert_harmless(url.as_str());
            stable(value, |text| Ok(parsers::url(text)?.as_str().to_owned()))
        }
        b'p' => absolute(value, parsers::path),
        b'w' => absolute(value, parsers::watched_path),
        b'k' => {
            let key = parsers::key(value)?;
            assert!(!key.split('/').any(|part| part.is_empty() || part == ".."));
            stable(value, parsers::key)
        }
        b'n' => {
            assert!(parsers::rule_name(value)?.len() <= 63);
            stable(value, parsers::rule_name)
        }
        b'c' => stable(value, parsers::process_name),
        b'm' => stable(value, |text| Ok(parsers::method(text)?.as_str().to_owned())),
        b'j' => stable(value, parsers::json_pointer),
        b'M' => stable(value, parsers::metric_name),
        b'b' => stable(value, |text| Ok(parsers::boolean(text)?.to_string())),
        b'l' => {
            let literal = podnudge_core::shown::literal(value);
            crate::fuzz::assert_harmless(&literal);
            assert!(super::nearest(value, &["nginx", "haproxy"]).is_none_or(|near| near.len() > 4));
            Ok("literal".to_owned())
        }
        _ => Ok(String::new()),
    }
}

#[test]
fn values_are_read_as_they_are_printed_and_refused_with_a_reason() {
    let seeds = [
        "d1h 30m",
        "d500ms",
        "d0s",
        "d1day2h",
        "g*.conf",
        "gconf/**/*.[ch]",
        "g[!a-z]?",
        "r^a+$",
        "sHUP",
        "sSIGUSR1",
        "s10",
        "uhttp://127.0.0.1:9090/-/reload?a=b#c",
        "uhttps://[::1]/",
        "p/etc/nginx",
        "w/etc/nginx/conf.d",
        "ksites/a.conf",
        "nweb-1",
        "cnginx",
        "mPOST",
        "j/a/b~1c",
        "Mup{a=\"b\"}",
        "btrue",
        "lngnix",
    ];
    let dictionary = words("values");
    let target =
        Target { dictionary, longest: 256, inputs: 10_000, ..Target::new("values", &seeds) };
    fuzz(target, |input| {
        let Some((parser, rest)) = input.split_first() else { return String::new() };
        match value(*parser, &text(rest)) {
            Ok(kind) => kind,
            Err(reason) => format!("{} {}", char::from(*parser), assert_reason(&reason)),
        }
    });
}
