//! `podnudge compat prometheus-config-reloader`: the same options, the same files, the same metrics. With a
//! small application, and with Prometheus itself.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    Agent, Application, Kubelet, MemoryLimit, Payload, Running, answering, ask, cases, command,
    in_network, payload, podnudge, wait_until,
};

/// The command of prometheus-config-reloader with these arguments.
fn reloader(arguments: &[&str]) -> Command {
    let mut command = podnudge();
    command.args(["compat", "prometheus-config-reloader", "--log-format=json"]).args(arguments);
    command.env("POD_NAME", "prometheus-web-12").env("SHARD", "3");
    command
}

const COMPAT: &str = include_str!("compat.txt");

/// podnudge in its place, with the options of a line.
fn compat(first: &[&str], line: &str) -> Command {
    let mut command = podnudge();
    command.arg("compat").args(first).arg("prometheus-config-reloader");
    command.args(line.split_whitespace());
    command
}

/// Runs it to its end: what it prints, and its exit code.
fn output(mut command: Command) -> (String, Option<i32>) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

/// The content, compressed by gzip.
fn gzip(content: &str) -> Vec<u8> {
    let mut gzip =
        command("gzip").arg("-nc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    gzip.wait_with_output().unwrap().stdout
}

fn compressed(content: &str) -> Payload {
    Payload::from([("prometheus.yaml.gz".to_owned(), gzip(content))])
}

const VARIABLES: &str = "replica: $(POD_NAME)\nshard: $(SHARD)\nnumber: $(STATEFULSET_ORDINAL_NUMBER)\n\
                         kept: $SHARD ${SHARD} $(a b) $( $()\n";
const EXPANDED: &str = "replica: prometheus-web-12\nshard: 3\nnumber: 12\n\
                        kept: $SHARD ${SHARD} $(a b) $( $()\n";

/// The folders that the operator's containers mount, and their options.
struct Pod {
    folder: tempfile::TempDir,
    config: Kubelet,
    rules: Kubelet,
}

impl Pod {
    fn new() -> Self {
        Self::below(tempfile::tempdir().unwrap())
    }

    fn below(folder: tempfile::TempDir) -> Self {
        fs::create_dir(folder.path().join("config_out")).unwrap();
        let config = Kubelet::new(folder.path().join("config"));
        let mut rules = Kubelet::new(folder.path().join("rules"));
        rules.write(&payload(&[("a.yaml", "one")]));
        Self { folder, config, rules }
    }

    fn at(&self, path: &str) -> String {
        self.folder.path().join(path).display().to_string()
    }

    /// The operator's arguments for its init container and its sidecar alike.
    fn files(&self) -> [String; 3] {
        [
            format!("--config-file={}", self.at("config/prometheus.yaml.gz")),
            format!("--config-envsubst-file={}", self.at("config_out/prometheus.env.yaml")),
            format!("--watched-dir={}", self.at("rules")),
        ]
    }

    fn written(&self) -> String {
        fs::read_to_string(self.at("config_out/prometheus.env.yaml")).unwrap_or_default()
    }

    fn start(&self, more: &[&str]) -> Agent {
        let mut command = reloader(more);
        command.args(self.files()).args(["--delay-interval=10ms", "--retry-interval=50ms"]);
        Agent::spawn(self.folder.path(), command)
    }
}

/// A sample of `/metrics`, in the older text format.
fn sample(address: &str, name: &str) -> f64 {
    let metrics = ask(address, "GET", "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

fn is_value(value: f64, expected: f64) -> bool {
    (value - expected).abs() < f64::EPSILON
}

#[test]
fn the_init_container_writes_the_file_and_ends() {
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let mut init = reloader(&["--watch-interval=0", "--listen-address=:8081"]);
    init.args(pod.files());
    let (log, exit_code) = output(init);
    assert_eq!((exit_code, pod.written().as_str()), (Some(0), EXPANDED), "{log}");
    let mode = fs::metadata(pod.at("config_out/prometheus.env.yaml")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o644);
}

#[test]
fn an_init_container_with_a_variable_that_is_not_set_fails() {
    let mut pod = Pod::new();
    pod.config.write(&compressed("a: $(NOT_SET)\n"));
    let mut init = reloader(&["--watch-interval=0"]);
    init.args(pod.files());
    let (log, exit_code) = output(init);
    assert_eq!(exit_code, Some(65), "{log}");
    assert!(log.contains("prometheus.yaml.gz` refers to `$(NOT_SET)`, which is not set"), "{log}");
    assert_eq!(pod.written(), "");
}

/// `cat one.gz other.gz` (RFC 1952, section 2.2).
#[test]
fn a_gzip_file_may_have_several_members_up_to_the_limit() {
    let half = "x".repeat(8 << 20);
    for (one, other) in [("a: $(SHA", "RD)\nb: 1\n"), (half.as_str(), half.as_str())] {
        let mut pod = Pod::new();
        let content = [gzip(one), gzip(other)].concat();
        pod.config.write(&Payload::from([("prometheus.yaml.gz".to_owned(), content)]));
        let mut init = reloader(&["--watch-interval=0"]);
        init.args(pod.files());
        let (log, exit_code) = output(init);
        assert_eq!(exit_code, Some(0), "{log}");
        assert!(pod.written() == [one, other].concat().replace("$(SHARD)", "3"), "{log}");
    }
}

#[test]
fn a_file_that_is_too_large_is_refused_with_the_limit() {
    let half = gzip(&"x".repeat(8 << 20));
    let cases = [
        ([half.clone(), half, gzip("x")].concat(), "has more than 16777216 bytes when it"),
        ("x".repeat((8 << 20) + 1).into_bytes(), "exceeds the 8 MiB that podnudge keeps"),
        (gzip(&"x".repeat((16 << 20) + 1)), "has more than 16777216 bytes when it is decompressed"),
    ];
    for (content, expected) in cases {
        let mut pod = Pod::new();
        pod.config.write(&Payload::from([("prometheus.yaml.gz".to_owned(), content)]));
        let mut init = reloader(&["--watch-interval=0"]);
        init.args(pod.files());
        let (log, exit_code) = output(init);
        assert_eq!(exit_code, Some(65), "{log}");
        assert!(log.contains(&format!("/config/prometheus.yaml.gz` {expected}")), "{log}");
        assert_eq!(pod.written(), "");
    }
}

/// With the binary that ships.
mod shipped {
    use super::*;
    use crate::shipped::{FULL, binary};

    /// Little content may stand for much: what is refused and what is written are bounded under the limit of the shipped
    /// manifests, by both forms. The binary is the one that ships.
    #[test]
    fn gzip_of_any_content_is_expanded_or_refused_under_the_memory_limit() {
        let binary = binary(FULL);
        for (mebibytes, exit_code) in [(16, Some(0)), (17, Some(65))] {
            let plain = "\0".repeat(mebibytes << 20);
            let mut pod = Pod::new();
            pod.config.write(&compressed(&plain));
            let file = pod.at("podnudge.toml");
            let text = format!(
                "[[rule]]\nwatch = \"{}\"\nhttp.url = \"http://127.0.0.1:9/\"\n\
                 expand = {{ file = \"{}\", to = \"{}\" }}\n",
                pod.at("config"),
                pod.at("config/prometheus.yaml.gz"),
                pod.at("config_out/prometheus.env.yaml"),
            );
            fs::write(&file, text).unwrap();
            let drop_in = ["compat", "prometheus-config-reloader", "--watch-interval=0"];
            let drop_in = drop_in.map(str::to_owned).into_iter().chain(pod.files()).collect();
            for arguments in [drop_in, ["once", "--config", &file].map(str::to_owned).to_vec()] {
                let limit = MemoryLimit::new(32 << 20);
                let mut peak = limit.measure();
                let mut init = limit.command(&binary);
                init.args(&arguments);
                let (log, ended) = output(init);
                println!("{mebibytes} MiB, {}: at most {} KiB", arguments[0], peak.read());
                assert_eq!((ended, limit.ended()), (exit_code, 0), "{log}");
                let written =
                    fs::read(pod.at("config_out/prometheus.env.yaml")).unwrap_or_default();
                assert!(
                    written == if exit_code == Some(0) { plain.as_bytes() } else { b"" },
                    "{log}"
                );
                drop(fs::remove_file(pod.at("config_out/prometheus.env.yaml")));
            }
        }
    }
}

/// The operator's container has a read-only root, and no volume at /tmp.
#[test]
fn a_read_only_root_is_enough() {
    in_network!();
    let mut pod = Pod::below(tempfile::tempdir_in("/var/tmp").unwrap());
    pod.config.write(&compressed(VARIABLES));
    for options in [&["--bind", "/tmp"][..], &["-o", "remount,bind,ro"]] {
        let mounted = command("mount").args(options).arg("/tmp").status().unwrap();
        assert!(mounted.success());
    }
    let (url, _) = answering(&[("200 OK", "", "")]);
    let url = format!("--reload-url={url}");
    let agent = pod.start(&[&url]);
    agent.wait_for("applied", 1);
    assert_eq!(pod.written(), EXPANDED);
    assert!(!agent.log().contains("WARN"), "{}", agent.log());
}

/// The kubelet's swap of either volume leads to one reload, after the file was written.
#[test]
fn changes_are_written_and_reloaded_and_counted() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let application = Application::start(Path::new(&pod.at("config_out")), "prometheus.env.yaml");
    let url = format!("--reload-url={}", application.url());
    let address = "127.0.0.1:18080";
    let agent = pod.start(&[&url, "--listen-address=127.0.0.1:18080"]);
    wait_until("the first reload", || application.reloads() == [EXPANDED]);
    pod.config.write(&payload(&[("prometheus.yaml.gz", "plain: $(SHARD)\n")]));
    wait_until("the second reload", || application.reloads() == [EXPANDED, "plain: 3\n"]);
    pod.rules.write(&payload(&[("a.yaml", "two")]));
    wait_until("the third reload", || application.reloads().len() == 3);
    agent.wait_for("applied", 3);
    assert_eq!(pod.written(), "plain: 3\n");

    assert!(ask(address, "GET", "/healthz").ends_with("{\"status\":\"up\"}"));
    let expected = [
        ("reloader_last_reload_successful", 1.0),
        ("reloader_reloads_total", 3.0),
        ("reloader_reloads_failed_total", 0.0),
        ("reloader_config_apply_operations_total", 3.0),
        ("reloader_config_apply_operations_failed_total", 0.0),
        ("reloader_watches", 2.0),
        ("reloader_watch_events_total", 2.0),
        ("reloader_watch_errors_total", 0.0),
    ];
    for (name, value) in expected {
        assert!(is_value(sample(address, name), value), "{name}: {}", sample(address, name));
    }
    let succeeded = sample(address, "reloader_last_reload_success_timestamp_seconds");
    assert!(succeeded > 1e9, "{succeeded}");
    let metrics = ask(address, "GET", "/metrics");
    assert!(metrics.contains("\n# TYPE reloader_reloads_total counter\n"), "{metrics}");
    assert!(metrics.contains("\n# TYPE reloader_last_reload_successful gauge\n"), "{metrics}");
    assert!(metrics.contains("\nprometheus_config_reloader_build_info{branch=\"\","), "{metrics}");

    // What cannot be expanded is not written, and nothing is reloaded.
    pod.config.write(&payload(&[("prometheus.yaml.gz", "a: $(NOT_SET)\n")]));
    agent.wait_for("rejected", 1);
    assert!(agent.last("rejected", "reason").contains("`$(NOT_SET)`"), "{}", agent.log());
    assert_eq!((pod.written().as_str(), application.reloads().len()), ("plain: 3\n", 3));
    assert!(is_value(sample(address, "reloader_config_apply_operations_failed_total"), 1.0));
    assert!(is_value(sample(address, "reloader_last_reload_successful"), 1.0));
}

/// Prometheus reads the rule files itself: podnudge needs their digests and not their contents.
#[test]
fn rule_volumes_may_hold_more_than_podnudge_keeps() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let content = "a".repeat(500_000);
    let mut volumes: Vec<Kubelet> =
        (0..18).map(|n| Kubelet::new(pod.folder.path().join(format!("rules-{n}")))).collect();
    for volume in &mut volumes {
        volume.write(&payload(&[("rules.yaml", &content)]));
    }
    let watched: Vec<String> =
        (0..18).map(|n| format!("--watched-dir={}", pod.at(&format!("rules-{n}")))).collect();
    let (url, seen) = answering(&[("200 OK", "", ""), ("200 OK", "", "")]);
    let url = format!("--reload-url={url}");
    let options: Vec<&str> = watched.iter().map(String::as_str).chain([url.as_str()]).collect();
    let agent = pod.start(&options);
    agent.wait_for("applied", 1);
    assert_eq!(pod.written(), EXPANDED);
    volumes[17].write(&payload(&[("rules.yaml", "b")]));
    agent.wait_for("applied", 2);
    assert_eq!((agent.count("rejected"), seen.lock().unwrap().len()), (0, 2));
}

#[test]
fn a_failed_reload_is_counted_and_repeated() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed("a: 1\n"));
    let answers = &[("500 Broken", "", "no"), ("503 Busy", "", "not yet"), ("200 OK", "", "")];
    let (url, seen) = answering(answers);
    let address = "127.0.0.1:18080";
    let url = format!("--reload-url={url}");
    let agent = pod.start(&[&url, "--listen-address=127.0.0.1:18080"]);
    agent.wait_for("applied", 1);
    assert!(seen.lock().unwrap()[0].starts_with("POST /-/reload "));
    assert!(is_value(sample(address, "reloader_reloads_total"), 3.0));
    assert!(is_value(sample(address, "reloader_reloads_failed_total"), 2.0));
    assert!(is_value(sample(address, "reloader_last_reload_successful"), 1.0));
}

/// A full disk, say: no watched file changes when that is over.
#[test]
fn a_cause_outside_of_the_watched_files_is_retried() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    fs::remove_dir(pod.at("config_out")).unwrap();
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let url = format!("--reload-url={url}");
    let agent = pod.start(&[&url]);
    agent.wait_for("retrying", 3);
    assert!(seen.lock().unwrap().is_empty());
    fs::create_dir(pod.at("config_out")).unwrap();
    agent.wait_for("applied", 1);
    assert_eq!((pod.written().as_str(), agent.count("gave-up")), (EXPANDED, 0));
}

/// prometheus-config-reloader ends then; docs/migration.md says so.
#[test]
fn a_watched_directory_that_is_missing_is_waited_for() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let missing = format!("--watched-dir={}", pod.at("more"));
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let url = format!("--reload-url={url}");
    let address = "127.0.0.1:18080";
    let agent = pod.start(&[&url, &missing, "--listen-address=127.0.0.1:18080"]);
    agent.wait_for("volume-missing", 1);
    assert!(ask(address, "GET", "/healthz").ends_with("{\"status\":\"up\"}"));
    assert!(ask(address, "GET", "/healthz").starts_with("HTTP/1.1 200 "));
    Kubelet::new(pod.folder.path().join("more")).write(&payload(&[("b.yaml", "two")]));
    agent.wait_for("applied", 1);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// As long as nothing listens, each attempt fails, as it does for prometheus-config-reloader.
#[test]
fn an_application_that_is_not_there_counts_as_failed() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let address = "127.0.0.1:18080";
    let url = "--reload-url=http://127.0.0.1:9/-/reload";
    let agent = pod.start(&[url, "--listen-address=127.0.0.1:18080"]);
    agent.wait_for("waiting-for-target", 1);
    // It may start only when the file is there.
    assert_eq!(pod.written(), EXPANDED);
    wait_until("a failure", || sample(address, "reloader_reloads_failed_total") > 0.0);
    assert!(is_value(sample(address, "reloader_last_reload_successful"), 0.0));
    assert!(is_value(sample(address, "reloader_last_reload_success_timestamp_seconds"), 0.0));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (line, expected) in cases(COMPAT, "not supported") {
        let (text, exit_code) = output(compat(&[], line));
        assert_eq!(exit_code, Some(64), "{line}: {text}");
        assert!(text.contains(expected[0]), "{line}: {text}");
    }
}

/// A configuration that podnudge made of options is read by nobody: problems of it name the option.
#[test]
fn a_value_that_podnudge_cannot_use_is_refused_by_the_name_of_its_option() {
    for (line, expected) in cases(COMPAT, "not usable") {
        let (text, exit_code) = output(compat(&[], line));
        assert_eq!(exit_code, Some(64), "{line}: {text}");
        assert!(text.starts_with(expected[0]), "{line}: {text}");
    }
}

/// Go connects to its own host if a URL names none.
#[test]
fn a_url_without_a_host_is_one_of_the_pod() {
    in_network!();
    let mut pod = Pod::new();
    pod.config.write(&compressed(VARIABLES));
    let (url, seen) = answering(&[("200 OK", "", "")]);
    let (_, port) = url.split_once("127.0.0.1").unwrap();
    let agent = pod.start(&[&format!("--reload-url=http://{port}")]);
    agent.wait_for("applied", 1);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// Without it, the port would be open although the file says otherwise.
#[test]
fn a_web_configuration_that_protects_the_port_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let option = format!("--web-config-file={}", file.display());
    let run = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        let mut command = podnudge();
        command.args(["compat", "--print", "prometheus-config-reloader"]);
        command.args(["--watched-dir=/etc/rules", &option]);
        output(command)
    };
    let accepted = [
        "",
        "# nothing\n",
        "---\n",
        "~\n",
        "null\n",
        "{}",
        "---\n{}\n...\n",
        "{\"http_server_config\": {\"http2\": true}}",
        "http_server_config:\n  http2: true\n  headers: {X-Frame-Options: deny}\n",
        "%YAML 1.2\n---\n  http_server_config: {http2: false}\n",
    ];
    for content in accepted {
        let (text, exit_code) = run(content.as_bytes());
        assert_eq!(exit_code, Some(0), "{content}: {text}");
    }
    let refused: [(&[u8], &str); 18] = [
        (b"# TLS\ntls_server_config:\n  cert_file: a\n", "it has `tls_server_config`"),
        (b"--- {tls_server_config: {cert_file: a}}", "it has `tls_server_config`"),
        (b" tls_server_config:\n   cert_file: a\n", "it has `tls_server_config`"),
        (b" basic_auth_users:\n  a: b\n", "it has `basic_auth_users`"),
        (b"{http_server_config: {http2: true}, basic_auth_users: {a: b}}", "`basic_auth_users`"),
        (b"http_server_config: [a, {b: c}]\n'basic_auth_users': {a: b}", "`basic_auth_users`"),
        (b"http_server_config:\n? \"\\x74ls_server_config\"\n: {}", "it has `tls_server_config`"),
        (b"a: &a {}\n<<: *a", "it has `a`"),
        (b"http_server_config: &a {tls_server_config: {}}\n<<: *a", "it has `<<`"),
        (b"? {a: b}\n: c", "it has a key that is not text"),
        (b"http_server_config: &a b\n*a : c", "it has a key that is not text"),
        (b"rate_limit: {}", "it has `rate_limit`"),
        (b"{}\n---\ntls_server_config: {}", "it has several documents"),
        (b"[tls_server_config]", "it is not a YAML map"),
        (b"'null'", "it is not a YAML map"),
        (b"tls_server_config", "it is not a YAML map"),
        (b"{http_server_config: {http2: true}", "it is not YAML: see line"),
        (b"\xfft", "it is not UTF-8 text"),
    ];
    for (content, why) in refused {
        let (text, exit_code) = run(content);
        let content = content.escape_ascii();
        assert_eq!(exit_code, Some(64), "{content}: {text}");
        assert!(text.contains("/web.yaml` is not supported: it "), "{content}: {text}");
        assert!(text.contains(why), "{content}: {text}");
    }
}

/// The operator runs `/bin/prometheus-config-reloader` with a command of its own.
#[test]
fn the_name_of_the_program_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("prometheus-config-reloader");
    std::os::unix::fs::symlink(podnudge().get_program(), &program).unwrap();
    let mut version = command(&program);
    version.arg("--version");
    let (text, exit_code) = output(version);
    assert!(text.starts_with("podnudge ") && exit_code == Some(0), "{text}");
    for (options, is_helped) in [
        (&["-h"][..], true),
        (&["--help-long"], true),
        (&["--help=false", "--version=false", "--watch-interval=0"], false),
    ] {
        let mut command = command(&program);
        command.args(options);
        let (text, exit_code) = output(command);
        assert_eq!((text.contains("[OPTIONS]"), exit_code), (is_helped, Some(0)), "{text}");
    }
    let (refused, exit_code) = output({
        let mut command = command(&program);
        command.arg("--signal=HUP");
        command
    });
    assert_eq!((exit_code, refused.contains("`--signal` is not supported")), (Some(64), true));
}

/// The options that the operator and charts render, in full.
#[test]
fn the_options_of_the_operator_make_a_valid_configuration() {
    for (options, _) in cases(COMPAT, "of the operator and of charts") {
        let (text, exit_code) = output(compat(&["--print"], options));
        assert_eq!(exit_code, Some(0), "{options}: {text}");
        let parsed = podnudge_config::parse("translated", &text, &Vec::new(), None);
        let (config, warnings) = parsed.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert_eq!(warnings, [], "{text}");
        // It ends before it would retry.
        let attempts = if options.contains("--watch-interval=0") { 10 } else { u32::MAX };
        assert_eq!(config.rules[0].settings.retry.attempts, attempts, "{text}");
    }
}

/// A Prometheus whose configuration and rule files are those of the operator.
struct Prometheus {
    pod: Pod,
    _process: Running,
}

const PROMETHEUS: &str = "127.0.0.1:9090";

impl Prometheus {
    fn start(more: &[&str]) -> Self {
        let mut pod = Pod::new();
        let rules = pod.at("rules");
        let config = |shard: &str| {
            format!(
                "global:\n  external_labels: {{shard: \"{shard}\"}}\nrule_files: [{rules}/*.yaml]\n"
            )
        };
        pod.config.write(&compressed(&config("$(SHARD)")));
        pod.rules.write(&rule("first"));
        let mut init = reloader(&["--watch-interval=0"]);
        init.args(pod.files());
        assert_eq!(output(init).1, Some(0));
        let file = format!("--config.file={}", pod.at("config_out/prometheus.env.yaml"));
        let data = format!("--storage.tsdb.path={}", pod.at("data"));
        let mut arguments = vec![file.as_str(), &data, "--web.listen-address=127.0.0.1:9090"];
        arguments.extend(more);
        let log = pod.folder.path().join("prometheus.log");
        let process = Running::logged(&[&["prometheus"], &arguments[..]].concat(), &log);
        wait_until("Prometheus is ready", || {
            TcpStream::connect(PROMETHEUS).is_ok()
                && ask(PROMETHEUS, "GET", "/-/ready").contains(" 200 ")
        });
        Self { pod, _process: process }
    }
}

fn rule(name: &str) -> Payload {
    let text = format!("groups:\n- name: a\n  rules: [{{record: {name}, expr: vector(1)}}]\n");
    payload(&[("a.yaml", &text)])
}

fn loaded_rules() -> Vec<String> {
    let answer = ask(PROMETHEUS, "GET", "/api/v1/rules");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let rules = body["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().map(|rule| rule["name"].as_str().unwrap().to_owned()).collect()
}

fn loads_changed_rules(prometheus: &mut Prometheus, options: &[&str]) {
    let agent = prometheus.pod.start(options);
    agent.wait_for("applied", 1);
    assert_eq!(loaded_rules(), ["first"]);
    prometheus.pod.rules.write(&rule("second"));
    agent.wait_for("applied", 2);
    assert_eq!(loaded_rules(), ["second"]);
    let config = ask(PROMETHEUS, "GET", "/api/v1/status/config");
    assert!(config.contains("shard: \\\"3\\\""), "{config}");
}

#[test]
fn prometheus_loads_changed_rule_files_by_its_url() {
    in_network!();
    let mut prometheus = Prometheus::start(&["--web.enable-lifecycle"]);
    loads_changed_rules(&mut prometheus, &["--reload-url=http://localhost:9090/-/reload"]);
}

#[test]
fn prometheus_loads_changed_rule_files_by_a_signal() {
    in_network!();
    let mut prometheus = Prometheus::start(&[]);
    let url = "--runtimeinfo-url=http://localhost:9090/api/v1/status/runtimeinfo";
    loads_changed_rules(&mut prometheus, &["--reload-method=signal", url]);
}
