//! Fuzzes the requests to the admin port, the metrics, and the answers that `podnudge status` and
//! `podnudge trigger` read (`src/admin/`).

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc;

use super::client::{self, Ask};
use super::order::Order;
use super::process_metrics::OwnProcess;
use super::server::{Accepted, AdminRequest, NotDone, Serves, connection};
use super::status_table::Columns;
use super::{metrics, status_table};
use crate::fuzz::{
    Target, assert_harmless_lines, assert_reason, exposition, first_line, fuzz, loopback, text,
    words,
};
use podnudge_config::ReloadEndpoint;
use podnudge_core::clock::UnixTime;
use podnudge_core::evidence::{Evidence, InSync};
use podnudge_core::reason::Reason;
use podnudge_core::shown::Colours;
use podnudge_core::snapshot::Digest;
#[cfg(feature = "page")]
use podnudge_core::status::{Change, ChangedKeys, Outcome};
use podnudge_core::status::{
    Counters, RuleStatus, SlotStatus, State, Status, TargetStatus, VolumeStatus,
};

/// Only for the pod, and for whoever has the token.
const SECRET: &str = "hunter2";
const TOKEN: &str = "s3cret";

fn status(rule: &str, path: &str, target: &str) -> Status {
    let at = |seconds| UnixTime(Duration::from_secs(seconds));
    let volume = VolumeStatus {
        path: path.to_owned(),
        present: true,
        committed_at: Some(at(1_700_000_090)),
        backend: "inotify",
        reason: Some(Reason::new(SECRET)),
    };
    let rule = RuleStatus {
        name: rule.to_owned(),
        state: State::Waiting,
        reason: Some(Reason::new(SECRET).hint(SECRET)),
        not_ready: Some(Reason::new(SECRET)),
        in_sync: InSync::No,
        evidence: Evidence::None,
        digest_on_disk: Some(Digest([0xab; 32])),
        digest_applied: Some(Digest([0xab; 32])),
        digest_running: Some(Digest([0xab; 32])),
        digest_published: Some(Digest([0xab; 32])),
        shows_digests: false,
        committed_at: Some(at(1_700_000_090)),
        applied_at: None,
        succeeded_at: None,
        certificates_expire_at: None,
        next_action_at: Some(at(1_700_000_112)),
        paused_until: Some(at(1_700_003_600)),
        slot: Some(SlotStatus { held: None, reason: Some(Reason::new(SECRET)) }),
        start_expected_at: Some(at(1_700_000_120)),
        start_delay_seconds: Some(20),
        action: "signal".into(),
        proof: "none".to_owned(),
        targets: vec![TargetStatus { pid: 41, name: target.to_owned() }],
        preflight: Vec::new(),
        volumes: vec![volume],
        #[cfg(feature = "page")]
        changes: vec![change()],
        counters: Counters::default(),
    };
    Status {
        version: "1.2.3",
        #[cfg(feature = "page")]
        pod: None,
        now: at(1_700_000_100),
        started: at(1_700_000_000),
        ready: false,
        serving: false,
        unhealthy: Some(Reason::new(SECRET)),
        rules: vec![rule],
        log_lines_dropped: 0,
        eager_sync: None,
        reloads: None,
    }
}

#[cfg(feature = "page")]
fn change() -> Change {
    let keys = ChangedKeys { added: vec![SECRET.to_owned()], ..ChangedKeys::default() };
    Change {
        digest: Some(Digest([0xab; 32])),
        triggered: false,
        keys: Some(keys),
        committed_at: None,
        ended_at: None,
        outcome: Outcome::Failed,
        evidence: Evidence::None,
        attempts: 3,
        attempts_allowed: Some(3),
        reason: Some(Reason::new(SECRET).hint(SECRET)),
        steps: Vec::new(),
    }
}

const REQUESTS: &[&str] = &[
    "cGET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "aGET /status HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "bPOST /reload?rule=app HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
    "cPOST /reload HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\r\n",
    "dPOST /reload HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer s3cret\r\n\r\n",
    "bPOST /pause?rule=app&for=1h HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "bPOST /pause?for=9y HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "bPOST /approve HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "dGET /status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer s3cre\r\n\r\n",
    "cGET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\nconnection: close\r\n\r\n",
    "cHEAD /readyz HTTP/1.0\r\n\r\n",
    "aPOST /reload HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "cGET http://x/livez HTTP/1.1\r\nhost: y\r\nexpect: 100-continue\r\n\r\n",
];

#[test]
fn a_request_to_the_admin_port_gets_what_its_sender_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let target = Target {
        dictionary: words("request"),
        longest: 12 * 1024,
        inputs: 400,
        ..Target::new("requests", REQUESTS)
    };
    let runtime = loopback::runtime();
    fuzz(target, move |input| {
        let _folder = &folder;
        let Some((mode, request)) = input.split_first() else { return String::new() };
        let (is_of_pod, reload) = match mode {
            b'a' => (true, ReloadEndpoint::Off),
            b'b' => (true, ReloadEndpoint::Loopback),
            b'c' => (false, ReloadEndpoint::Loopback),
            _ => (false, ReloadEndpoint::Token(file.clone())),
        };
        let reloads = Cell::new(0);
        let answer = runtime.block_on(async {
            let (listener, address) = loopback::listener().await;
            let (sender, mut requests) = mpsc::channel(1);
            let served = async {
                let (stream, own) = listener.accept().await.unwrap();
                let other: SocketAddr = "10.0.0.1:80".parse().unwrap();
                let accepted = Accepted::Port(stream, if is_of_pod { own } else { other });
                connection(accepted, Serves::Agent(sender, reload.clone())).await;
            };
            let answered = async {
                while let Some(request) = requests.recv().await {
                    match request {
                        AdminRequest::Status(reply) | AdminRequest::Health(reply) => {
                            drop(reply.send(status("app", "/a", "b")));
                        }
                        AdminRequest::Order { order: _, rule, reply } => {
                            reloads.set(reloads.get() + 1);
                            let is_known = rule.is_none_or(|rule| rule == "app");
                            let names = || NotDone::NoSuchRule("`app`".to_owned());
                            _ = reply.send((!is_known).then(names));
                        }
                    }
                }
            };
            tokio::join!(served, answered, loopback::ask(address, request)).2
        });
        let request = text(request);
        let has_token = request.contains("Bearer s3cret");
        if reloads.get() > 0 {
            let may = match reload {
                ReloadEndpoint::Off => false,
                ReloadEndpoint::Loopback => is_of_pod,
                ReloadEndpoint::Token(_) => has_token,
            };
            let mut head = request.lines().take_while(|line| !line.trim_end().is_empty());
            let is_from_page = head.any(|line| line.to_ascii_lowercase().starts_with("origin:"));
            assert!(may && request.contains("POST") && !is_from_page, "reloaded");
            assert_eq!(reloads.get(), 1, "one request is served");
        }
        let answer = text(&answer);
        let sees_all = is_of_pod || (has_token && matches!(reload, ReloadEndpoint::Token(_)));
        if !sees_all {
            assert!(!answer.contains(SECRET) && !answer.contains("abababababab"), "{answer}");
        }
        outcome(&request, &answer)
    });
}

/// The status line of an answer, which is complete.
fn outcome(request: &str, answer: &str) -> String {
    if answer.is_empty() {
        return "closed".to_owned();
    }
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has headers");
    assert!(head.starts_with("HTTP/1."), "{head}");
    let status = head.split(' ').nth(1).unwrap();
    assert!(status.len() == 3 && status != "500", "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let is_head = request.trim_start().starts_with("HEAD");
    if let Some(length) = length.filter(|_| !is_head && status != "100") {
        assert_eq!(length.parse(), Ok(body.len()), "{answer}");
    }
    format!(
        "status {} {}",
        status.replace(['1', '2', '3', '4', '5', '0'], "x"),
        body.get(..20).unwrap_or(body)
    )
}

const LABELS: &[&str] =
    &["\"", "\\", "\\n", "{", "}", "=\"", ",", "} 1", "# EOF", "\r", "\u{2028}"];

#[test]
fn labels_of_metrics_are_read_as_they_were_given() {
    let seeds = ["app\n/etc/\"app\"\nmy \\app", "a\n/b\u{1b}\nc,d=\"e\"} 1"];
    let target =
        Target { dictionary: LABELS, longest: 256, inputs: 300, ..Target::new("labels", &seeds) };
    fuzz(target, |input| {
        let (rule, rest) = first_line(input);
        let (path, target) = first_line(rest);
        let target = text(target);
        let rendered = metrics::render(&status(&rule, &path, &target), &OwnProcess::default());
        for page in [metrics::to_text_format(&rendered), rendered] {
            let mut found = 0;
            for line in page.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let sample =
                    exposition::sample(line).unwrap_or_else(|| panic!("no sample: {line:?}"));
                for (label, wanted) in [("rule", &rule), ("volume", &path), ("target", &target)] {
                    if let Some(value) = sample.labels.get(label) {
                        assert_eq!(value, wanted, "{line:?}");
                        found += 1;
                    }
                }
            }
            assert!(found > 50, "{found}");
        }
        String::new()
    });
}

/// As the server prints it.
fn json() -> String {
    serde_json::to_string_pretty(&status("app", "/a", "nginx")).unwrap()
}

#[test]
fn the_table_of_a_status_controls_no_terminal() {
    let target = Target {
        dictionary: words("status"),
        inputs: 3000,
        ..Target::new("status table", &[&json()])
    };
    fuzz(target, |input| match status_table::render(&text(input), Columns::All, Colours::Off) {
        Ok((table, _)) => {
            assert_harmless_lines(&table);
            let (coloured, _) =
                status_table::render(&text(input), Columns::All, Colours::On).unwrap();
            let plain = [0, 1, 31, 32, 33]
                .iter()
                .fold(coloured, |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
            assert_eq!(plain, table);
            "table".to_owned()
        }
        Err(reason) => assert_reason(&reason),
    });
}

/// Another process may have taken the port.
#[test]
fn an_answer_to_the_client_controls_no_terminal() {
    crate::exchange::install_crypto();
    let body = json();
    let length = body.len();
    let seeds = [
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"),
        "HTTP/1.1 202 Accepted\r\ncontent-length: 37\r\n\r\naccepted; `podnudge status` shows it\n"
            .to_owned(),
        "HTTP/1.1 403 Forbidden\r\n\r\n\u{1b}[31mno".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned(),
    ];
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let target =
        Target { dictionary: words("status"), inputs: 200, ..Target::new("client", &seeds) };
    let runtime = loopback::runtime();
    fuzz(target, move |input| {
        runtime.block_on(async {
            let (listener, address) = loopback::listener().await;
            let url: reqwest::Url = format!("http://{address}").parse().unwrap();
            let output = client::Output::Json;
            let asked = client::Status { output, watch: false, url: Some(url.clone()) };
            let answers = async {
                loopback::answer(&listener, input, 1).await;
                loopback::answer(&listener, input, 2).await;
            };
            let (order, rule) = (Order::HOUR, Some("a b".to_owned()));
            let asks = Ask { order, rule, token_file: None, url: Some(url) };
            let ask =
                async { (client::show(&asked, Colours::Off).await, client::ask(&asks).await) };
            let ((), (shown, triggered)) = tokio::join!(answers, ask);
            let mut seen = match shown {
                Ok(shown) => {
                    assert_harmless_lines(&shown.text);
                    "status".to_owned()
                }
                Err(reason) => assert_reason(&reason).replace(&address.port().to_string(), ""),
            };
            match triggered {
                Ok(text) => assert_harmless_lines(&text),
                Err(reason) => {
                    assert_harmless_lines(&reason.to_string());
                    seen += &reason.message.chars().take(80).collect::<String>();
                }
            }
            seen
        })
    });
}
