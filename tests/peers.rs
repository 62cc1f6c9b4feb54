//! What podnudge prints for the command lines and environments of other reloaders (`crates/tools/src/compat/`): podnudge accepts it,
//! or a remark says what it refuses.

use std::ffi::OsString;

use podnudge::cli::{self, Command};
use podnudge_config as config;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::cases;

/// The remark with what podnudge refuses in its own translation.
const REFUSED: &str = "podnudge refuses in what follows: ";

/// What podnudge prints in place of the options and variables of another reloader.
#[derive(Debug, PartialEq)]
struct Printed {
    remarks: Vec<String>,
    instead: Instead,
}

#[derive(Debug, PartialEq)]
enum Instead {
    Arguments(String),
    File(String),
    Nothing,
}

fn printed(arguments: &[String], environment: &[(String, String)]) -> Printed {
    let own = std::iter::once("podnudge".to_owned()).chain(arguments.iter().cloned());
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let text = cli::parse(own.map(OsString::from), environment).unwrap_err().text;
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("podnudge: this is the "), "{arguments:?}: {text}");
    let (remarks, instead) = match rest.split_once("  for podnudge it is") {
        None => (rest.rsplit_once("  hint: ").unwrap().0, Instead::Nothing),
        Some((remarks, instead)) => {
            let (what, lines) = instead.split_once(":\n").unwrap();
            let lines = lines.lines().filter(|line| line.is_empty() || line.starts_with("    "));
            let lines: Vec<&str> = lines.map(|line| line.trim_start_matches("    ")).collect();
            let lines = lines.join("\n");
            let instead = if what.is_empty() {
                Instead::Arguments(lines.strip_prefix("podnudge ").unwrap().to_owned())
            } else {
                Instead::File(lines)
            };
            (remarks, instead)
        }
    };
    let remarks = remarks.lines().map(|line| line.strip_prefix("  ").unwrap().to_owned()).collect();
    Printed { remarks, instead }
}

/// The words of a line as a shell reads them, of which single quotes are all that is special.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = line.chars();
    let mut is_quoted = false;
    while let Some(letter) = letters.next() {
        let word = words.last_mut().unwrap();
        match letter {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.push(letters.next().unwrap()),
            ' ' if !is_quoted => words.push(String::new()),
            letter => word.push(letter),
        }
    }
    assert!(!is_quoted, "{line}");
    words
}

/// Whether podnudge accepts these arguments, or this file.
fn accepted(instead: &Instead) -> Result<config::Config, String> {
    let parse = |text: &str, overrides: &[config::Override]| {
        let parsed = config::parse("FILE", text, overrides, None);
        parsed.map(|(config, _)| config).map_err(|problems| problems.to_string())
    };
    match instead {
        Instead::Arguments(line) => {
            let own = std::iter::once("podnudge".to_owned()).chain(words(line));
            match cli::parse(own.map(OsString::from), []) {
                Ok(Command::Run(sources)) => parse("", &sources.overrides),
                other => Err(format!("{other:?}")),
            }
        }
        Instead::File(text) => parse(text, &[]),
        Instead::Nothing => Err("there is nothing".to_owned()),
    }
}

/// Whether the translation is accepted, or says what is not.
fn assert_honest(printed: &Printed) {
    let refused = printed.remarks.iter().any(|remark| remark.starts_with(REFUSED));
    match (&printed.instead, accepted(&printed.instead)) {
        (Instead::Nothing, _) => assert!(!printed.remarks.is_empty() && !refused, "{printed:?}"),
        (_, Ok(_)) => assert!(!refused, "accepted after all: {printed:?}"),
        (_, Err(problems)) => assert!(refused, "{problems}: {printed:?}"),
    }
}

fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// What podnudge prints for a line of options and variables.
fn of_line(line: &str) -> Printed {
    let is_variable = |word: &String| word.starts_with(|letter: char| letter.is_uppercase());
    let (given, arguments): (Vec<String>, _) = split(line).into_iter().partition(is_variable);
    printed(&arguments, &variables(&given.join(" ")))
}

fn variables(line: &str) -> Vec<(String, String)> {
    let pair = |word: String| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    split(line).into_iter().map(pair).collect()
}

/// Whether one of the remarks has these words.
fn remarks(printed: &Printed, words: &str) -> bool {
    printed.remarks.iter().any(|remark| remark.contains(words))
}

const PEERS: &str = include_str!("peers.txt");
const WEBHOOK: &str = "--volume-dir=/a --webhook-url=http://127.0.0.1:9090/-/reload";
const NATS: &str = "-c /etc/nats/nats.conf -P /run/nats.pid";
const PROCESS: &str = "CONFIG_DIR=/a PROCESS_NAME=app";

#[test]
fn what_podnudge_refuses_is_said() {
    for (line, words) in cases(PEERS, "refused") {
        let printed = of_line(line);
        assert!(remarks(&printed, REFUSED) && remarks(&printed, words[0]), "{line}: {printed:#?}");
        assert_honest(&printed);
    }
}

#[test]
fn what_can_be_translated_is_accepted() {
    for (line, words) in cases(PEERS, "accepted") {
        let printed = of_line(line);
        accepted(&printed.instead).unwrap();
        assert_honest(&printed);
        let (Instead::Arguments(text) | Instead::File(text)) = &printed.instead else { panic!() };
        assert!(text.contains(words[0]), "{line}: {printed:#?}");
    }
    let printed = of_line("CONFIG_DIR=/a,/b,/a PROCESS_NAME=app");
    let line = "--watch /a --watch /b --process app --signal HUP";
    assert_eq!(printed.instead, Instead::Arguments(line.to_owned()));
}

#[test]
fn what_is_left_out_or_changed_is_said() {
    for (line, words) in cases(PEERS, "left out or changed") {
        let printed = of_line(line);
        assert!(remarks(&printed, words[0]), "{line}: {printed:#?}");
        assert_honest(&printed);
    }
}

#[test]
fn configmap_reload_expects_one_status() {
    let printed = of_line(WEBHOOK);
    assert!(matches!(printed.instead, Instead::Arguments(_)), "{printed:#?}");
    assert!(remarks(&printed, "any status from 200 to 299"), "{printed:#?}");
    for (more, status) in [
        ("--webhook-status-code=200", 200),
        ("--webhook-status-code=204", 204),
        ("--webhook-retries=2", 200),
        ("--webhook-url=http://127.0.0.1:9093/-/reload", 200),
    ] {
        let printed = of_line(&format!("{WEBHOOK} {more}"));
        let config = accepted(&printed.instead).unwrap();
        for rule in &config.rules {
            let config::Action::Http(http) = &rule.actions[0] else { panic!() };
            assert_eq!(http.expect, [status], "{printed:#?}");
        }
        assert_eq!(printed.remarks, Vec::<String>::new());
    }
    let printed = of_line(&format!("{WEBHOOK} --webhook-method="));
    assert!(format!("{:?}", printed.instead).contains("--method GET"), "{printed:#?}");
}

#[test]
fn what_the_other_reloader_lacks_itself_is_said() {
    for (line, words) in cases(PEERS, "lacking") {
        let printed = of_line(line);
        assert!(remarks(&printed, words[0]), "{printed:#?}");
        assert_eq!(printed.instead, Instead::Nothing);
    }
}

#[test]
fn credentials_in_a_url_are_not_printed() {
    for line in [
        "--volume-dir=/a --webhook-url=http://user:hidden@127.0.0.1/reload",
        "--volume-dir=/a --webhook-url=http://hidden@127.0.0.1/reload",
        "--volume-dir=/a --webhook-url=http://user:hid/den@127.0.0.1/reload",
        "--volume-dir=/a --webhook-url=user:hidden@127.0.0.1/reload",
    ] {
        let printed = of_line(line);
        assert!(
            !printed.remarks.is_empty() && !format!("{printed:?}").contains("hid"),
            "{printed:#?}"
        );
        assert_honest(&printed);
    }
    let printed = of_line("--volume-dir=/a --webhook-url=http://user:hidden@127.0.0.1/reload?a=@");
    let config = accepted(&printed.instead).unwrap();
    let config::Action::Http(http) = &config.rules[0].actions[0] else { panic!() };
    assert_eq!(http.endpoint.url.as_str(), "http://127.0.0.1/reload?a=@");
    let Some(config::Auth::Basic(basic)) = &http.endpoint.auth else { panic!() };
    assert_eq!(basic.username, "user");
    let file = basic.password_file.to_str().unwrap();
    assert!(remarks(&printed, file), "{printed:#?}");
}

#[test]
fn control_characters_are_not_printed() {
    let arguments = ["--volume-dir=/a\u{1b}[31m".to_owned(), "--webhook-url=http://a/".to_owned()];
    let printed = printed(&arguments, &[]);
    assert!(remarks(&printed, "control characters"), "{printed:?}");
    assert!(!format!("{printed:?}").contains("u{1b}"), "{printed:?}");
}

#[test]
fn a_payload_of_several_lines_is_translated_exactly() {
    let payload = "{\n  \"a\": \"b\\n\"\n}";
    let variables = variables("LABEL=a FOLDER=/b REQ_URL=http://a/ REQ_METHOD=POST");
    let payload_variable = ("REQ_PAYLOAD".to_owned(), payload.to_owned());
    let printed = printed(&[], &[variables, vec![payload_variable]].concat());
    let config = accepted(&printed.instead).unwrap();
    let config::Action::Http(http) = &config.rules[0].actions[0] else { panic!() };
    let config::Body::Text(body) = &http.body else { panic!() };
    assert_eq!(body, payload);
}

#[test]
fn a_signal_that_ends_the_application_becomes_a_restart() {
    for name in ["SIGTERM", "SIGINT", "SIGQUIT", "SIGKILL"] {
        let printed = of_line(&format!("{PROCESS} RELOAD_SIGNAL={name}"));
        let line = "--watch /a --process app --restart".to_owned();
        assert_eq!(printed.instead, Instead::Arguments(line));
        assert!(remarks(&printed, &format!("{name} ends most programs")), "{printed:#?}");
        // podnudge sends KILL only after TERM.
        let option = format!("use `--signal {}`", name.trim_start_matches("SIG"));
        assert_eq!(remarks(&printed, &option), name != "SIGKILL", "{printed:#?}");
    }
    for (number, name) in [("2", "INT"), ("3", "QUIT"), ("9", "KILL"), ("15", "TERM")] {
        let printed = of_line(&format!("{NATS} -signal {number}"));
        let line = "--watch /etc/nats/nats.conf --pidfile /run/nats.pid --restart".to_owned();
        assert_eq!(printed.instead, Instead::Arguments(line));
        assert!(remarks(&printed, &format!("SIG{name} ends most programs")), "{printed:#?}");
        let printed = of_line(&format!("{NATS} -signal {number} -max-retries 3"));
        let config = accepted(&printed.instead).unwrap();
        assert!(matches!(config.rules[0].actions[..], [config::Action::Restart]), "{printed:#?}");
    }
    let printed = of_line(&format!("{PROCESS} RELOAD_SIGNAL=SIGUSR1"));
    let line = "--watch /a --process app --signal USR1".to_owned();
    assert_eq!(printed, Printed { remarks: Vec::new(), instead: Instead::Arguments(line) });
}

const SIDECAR: &str = "LABEL=app FOLDER=/a REQ_URL=http://127.0.0.1:3000/reload REQ_METHOD=POST";

/// The file that podnudge prints for the options and variables of k8s-sidecar.
fn of_sidecar(options: &str, more: &str) -> (Printed, String) {
    let printed = printed(&split(options), &variables(&format!("{SIDECAR} {more}")));
    accepted(&printed.instead).unwrap();
    let Instead::File(file) = &printed.instead else { panic!("{printed:?}") };
    let file = file.clone();
    (printed, file)
}

#[test]
fn what_k8s_sidecar_sends_and_when_is_translated() {
    for (more, setting) in [
        ("REQ_TIMEOUT=2.5", "timeout = \"2s 500ms\""),
        ("REQ_TIMEOUT=0", "timeout = \"10ms\""),
        ("REQ_RETRY_TOTAL=0", "retry.attempts = 1"),
        ("REQ_RETRY_TOTAL=7", "retry.attempts = 8"),
        ("REQ_SKIP_INIT=True", "on-start = \"never\""),
    ] {
        let (_, file) = of_sidecar("", more);
        assert!(file.contains(setting), "{more}: {file}");
        let (_, file) = of_sidecar("", "REQ_SKIP_INIT=false");
        assert!(!file.contains(setting), "{file}");
    }
}

#[test]
fn what_podnudge_lacks_of_k8s_sidecar_is_said() {
    for (more, words) in cases(PEERS, "lacks of k8s-sidecar") {
        let (printed, _) = of_sidecar("", more);
        assert!(remarks(&printed, words[0]), "{more}: {printed:#?}");
        assert!(!format!("{printed:?}").contains("hidden"), "{printed:#?}");
    }
    let (printed, _) = of_sidecar("", "UNIQUE_FILENAMES=false");
    assert!(!remarks(&printed, "UNIQUE_FILENAMES"), "{printed:#?}");
}

#[test]
fn a_user_name_in_a_file_is_not_guessed_without_a_word() {
    let files = "--req-username-file=/u --req-password-file=/p";
    for (options, more) in [(files, ""), ("", "REQ_USERNAME_FILE=/u REQ_PASSWORD_FILE=/p")] {
        let (printed, file) = of_sidecar(options, more);
        let basic = "basic = { username = \"admin\", password-file = \"/p\" }";
        assert!(file.contains(basic), "{file}");
        assert!(remarks(&printed, "write the content of `/u` as `username`"), "{printed:#?}");
    }
    let (printed, _) = of_sidecar("--req-password-file=/p", "");
    assert!(remarks(&printed, "nothing names the user"), "{printed:#?}");
    let (printed, file) = of_sidecar("--req-password-file=/p", "REQ_USERNAME=operator");
    assert!(file.contains("username = \"operator\", password-file = \"/p\""), "{file}");
    assert_eq!(printed.remarks.len(), 1, "{printed:#?}");
}

/// A value of an option: mostly a usual one.
fn value(usual: &'static [&'static str]) -> impl Strategy<Value = String> {
    let unusual = select(vec![
        "",
        " ",
        "-",
        "off",
        "0",
        "-1",
        "1e9",
        "a'b \"c\"",
        "/..data",
        "/a/../b",
        "{}",
    ]);
    prop_oneof![
        12 => select(usual.to_vec()).prop_map(str::to_owned),
        1 => unusual.prop_map(str::to_owned),
        1 => "\\PC{1,8}",
    ]
}

/// Options, each at most a few times, or variables.
fn given(
    options: &'static [(&'static str, &'static [&'static str])],
) -> impl Strategy<Value = Vec<(String, String)>> {
    let options: Vec<_> = options
        .iter()
        .map(|(name, usual)| (Just((*name).to_owned()), value(usual)).boxed())
        .collect();
    prop::collection::vec(prop::strategy::Union::new(options), 0..8)
}

/// With what makes it the command line of the reloader.
fn line(own: &[&str], given: Vec<(String, String)>) -> Vec<String> {
    let options = given.into_iter().map(|(name, value)| format!("-{name}={value}"));
    own.iter().map(|word| (*word).to_owned()).chain(options).collect()
}

const PATHS: &[&str] =
    &["/etc/config", "/etc/config/", "/etc/secret", "/etc/other dir", "relative", "/"];
const URLS: &[&str] = &[
    "http://127.0.0.1:9090/-/reload",
    "http://localhost:9093/-/reload",
    "http://user:password@localhost/",
    "http://user@localhost/",
    "localhost:9090",
];
const NUMBERS: &[&str] =
    &["0", "1", "3", "200", "204", "1000", "86400", "-3", "42", "abc", "70000"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn translations_of_configmap_reload_are_honest(given in given(&[
        ("volume-dir", PATHS),
        ("webhook-url", URLS),
        ("webhook-method", &["POST", "GET", "PUT", "post", "FETCH"]),
        ("webhook-status-code", NUMBERS),
        ("webhook-retries", NUMBERS),
        ("web.listen-address", &[":9533", "localhost:9533", "127.0.0.1:9900", "[::1]:9533", "example:80"]),
        ("web.telemetry-path", &["/metrics", "/other"]),
    ])) {
        assert_honest(&printed(&line(&["--volume-dir=/etc/config"], given), &[]));
    }

    #[test]
    fn translations_of_nats_server_config_reloader_are_honest(given in given(&[
        ("pid", PATHS),
        ("config", PATHS),
        ("c", PATHS),
        ("max-retries", NUMBERS),
        ("retry-wait-secs", NUMBERS),
        ("signal", &["1", "2", "3", "9", "10", "12", "15", "34", "HUP"]),
    ])) {
        assert_honest(&printed(&line(&["-P", "/var/run/nats/nats.pid"], given), &[]));
    }

    #[test]
    fn translations_of_config_reloader_sidecar_are_honest(
        folders in value(&["/etc/app", "/etc/app,/etc/tls", "/etc/app, /etc/app", ",", "a"]),
        process in value(&["pgbouncer", "app", "/usr/bin/app", "a name"]),
        given in given(&[
            ("RELOAD_SIGNAL", &["SIGHUP", "SIGUSR1", "SIGTERM", "SIGQUIT", "SIGKILL", "SIGSTOP", "SIGRTMIN+1"]),
            ("VERBOSE", &["true", "false"]),
        ]),
    ) {
        prop_assume!(!folders.is_empty() && !process.is_empty());
        let own = [("CONFIG_DIR".to_owned(), folders), ("PROCESS_NAME".to_owned(), process)];
        assert_honest(&printed(&[], &[given, own.into()].concat()));
    }

    #[test]
    fn translations_of_k8s_sidecar_are_honest(
        folder in value(PATHS),
        given in given(&[
            ("LABEL_VALUE", &["1", "true"]),
            ("RESOURCE", &["configmap", "secret", "both"]),
            ("RESOURCE_NAME", &["a,b", "secret/a", "other/secret/a"]),
            ("METHOD", &["WATCH", "SLEEP", "LIST"]),
            ("REQ_URL", URLS),
            ("REQ_METHOD", &["GET", "POST", "FETCH"]),
            ("REQ_PAYLOAD", &["{\"a\": 1}", "text"]),
            ("REQ_USERNAME", &["admin", "a:b"]),
            ("REQ_PASSWORD", &["secret"]),
            ("REQ_PASSWORD_FILE", PATHS),
            ("REQ_TIMEOUT", NUMBERS),
            ("REQ_RETRY_TOTAL", NUMBERS),
            ("REQ_SKIP_INIT", &["true", "false"]),
            ("SCRIPT", &["/scripts/reload", "reload"]),
        ]),
        options in given(&[("req-username-file", PATHS), ("req-password-file", PATHS)]),
    ) {
        prop_assume!(!folder.is_empty());
        let own = [("LABEL".to_owned(), "app".to_owned()), ("FOLDER".to_owned(), folder)];
        assert_honest(&printed(&line(&[], options), &[given, own.into()].concat()));
    }
}
