//! Checks by a URL of the application: the status of its response says whether content is good.
//! Without a response, content is neither passed nor rejected.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use podnudge::checks::url;
use podnudge_config::{self as config, Condition, HttpCheck, Overrides};
use podnudge_core::event::Checked;
use podnudge_core::reason::Reason;

use crate::support::http::{Seen, wait};
use crate::support::{
    Agent, Application, Kubelet, Scene, answering, payload, request, requests, respond, server,
};

/// Parses a check as written in the configuration file.
fn check(settings: &str) -> HttpCheck {
    let file = format!(
        "[[rule]]\nwatch = \"/a\"\nsignal.name = \"HUP\"\n[[rule.check]]\ntimeout = \"5s\"\n{settings}"
    );
    let (config, _) = config::parse("c.toml", &file, &Overrides::default(), None).unwrap();
    match config.rules[0].checks[0].condition.clone() {
        Condition::Http(check) => *check,
        other => panic!("not a URL check: {other:?}"),
    }
}

fn ask(check: &HttpCheck, content: &[u8]) -> Checked {
    wait(url::check_key(check, "a.conf", content.to_vec()))
}

fn rejection(check: &HttpCheck) -> Reason {
    match ask(check, b"content") {
        Checked::Rejected(reason) => reason,
        other => panic!("not rejected: {other:?}"),
    }
}

fn failure(check: &HttpCheck) -> Reason {
    match ask(check, b"content") {
        Checked::Failed(reason) => reason,
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn the_content_is_sent_as_the_body_and_any_2xx_passes() {
    let (url, seen) = answering(&[("204 No Content", "", "")]);
    assert_eq!(ask(&check(&format!("http = \"{url}\"")), b"a {\n}\n"), Checked::Passed);
    let settings = format!(
        "http = \"{url}\"\nmethod = \"PUT\"\ncontent-type = \"text/caddyfile\"\n\
         headers = {{ X-Dry-Run = \"1\" }}\nexpect = [200, 204]"
    );
    assert_eq!(ask(&check(&settings), b""), Checked::Passed);
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("POST /-/reload HTTP/1.1\r\n"), "{}", seen[0]);
    assert!(seen[0].contains("content-type: text/plain\r\n"), "{}", seen[0]);
    assert!(seen[0].ends_with("a {\n}\n"), "{}", seen[0]);
    assert!(seen[1].starts_with("PUT "), "{}", seen[1]);
    assert!(seen[1].contains("content-type: text/caddyfile\r\n"), "{}", seen[1]);
    assert!(seen[1].contains("x-dry-run: 1\r\n"), "{}", seen[1]);
    assert!(seen[1].contains("content-length: 0\r\n"), "{}", seen[1]);
}

#[test]
fn a_url_check_uses_the_unix_socket_and_the_bearer_token() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, token) = (folder.path().join("app.sock"), folder.path().join("token"));
    fs::write(&token, "hunter2\n").unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            kept.lock().unwrap().push(request(&stream));
            respond(stream, "200 OK", "", "");
        }
    });
    let settings = format!(
        "http = \"http://localhost/check\"\nunix-socket = \"{}\"\nbearer-file = \"{}\"",
        socket.display(),
        token.display()
    );
    assert_eq!(ask(&check(&settings), b"content"), Checked::Passed);
    assert!(seen.lock().unwrap()[0].contains("authorization: Bearer hunter2\r\n"));
}

#[test]
fn only_a_status_about_the_content_rejects_it_and_the_reason_quotes_the_answer() {
    let (url, _) = answering(&[
        ("400 Bad Request", "", "Caddyfile:3: unrecognized \u{1b}[31mdirective:\nrespnd\n"),
        ("302 Found", "location: /other\r\n", ""),
        ("404 Not Found", "", ""),
        ("415 Unsupported Media Type", "", ""),
        ("503 Service Unavailable", "", "starting"),
        ("200 OK", "", "fine"),
    ]);
    let one = check(&format!("http = \"{url}?token=hunter2\"\nexpect = 204"));
    let message = rejection(&one);
    assert_eq!(
        message.message,
        format!(
            "POST {url} answered 400 Bad Request for `a.conf`: Caddyfile:3: unrecognized  \
             [31mdirective: respnd"
        )
    );
    assert!(failure(&one).hint.unwrap().contains("redirects are not followed"));
    assert!(failure(&one).hint.unwrap().contains("check the path and the method"));
    assert!(failure(&one).hint.unwrap().contains("`content-type`"));
    assert!(failure(&one).message.ends_with("503 Service Unavailable for `a.conf`: starting"));
    assert_eq!(rejection(&one).message, format!("POST {url} answered 200 OK for `a.conf`: fine"));
    // The reason quotes the beginning of a long answer.
    let long = server(|stream| {
        request(&stream);
        respond(stream, "422 Unprocessable Content", "", &"é".repeat(1_000_000));
    });
    let message = rejection(&check(&format!("http = \"{long}\""))).message;
    assert!(message.ends_with(&"é".repeat(100)) && message.len() < 1000, "{} bytes", message.len());
}

#[test]
fn an_unreachable_application_fails_the_check_but_does_not_reject_the_content() {
    let failure = |check: &HttpCheck| failure(check).message;
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = failure(&check(&format!("http = \"http://{unused}/adapt\"")));
    assert!(message.starts_with(&format!("POST http://{unused}/adapt failed: ")), "{message}");
    // A server that reads the request and never answers.
    let silent = server(|stream| {
        request(&stream);
        std::mem::forget(stream);
    });
    let mut hangs = check(&format!("http = \"{silent}\""));
    hangs.endpoint.timeout = Duration::from_millis(200);
    assert_eq!(failure(&hangs), format!("POST {silent} got no answer within 200ms"));
    let rude = server(|stream| drop(request(&stream)));
    assert!(failure(&check(&format!("http = \"{rude}\""))).contains("failed: "));
    let missing = check(&format!("http = \"{silent}\"\nbearer-file = \"/nowhere/token\""));
    assert!(failure(&missing).contains("cannot read `/nowhere/token`"));
}

/// A server that answers 400 to content with `bad` in it and 200 to any other, and the contents
/// that it was sent.
fn validator() -> (String, Seen) {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let url = server(move |stream| {
        let text = request(&stream);
        let (_, content) = text.rsplit_once("\r\n").unwrap();
        kept.lock().unwrap().push(content.to_owned());
        if content.contains("bad") {
            respond(stream, "400 Bad Request", "", "this is bad");
        } else {
            respond(stream, "200 OK", "", "");
        }
    });
    (url, seen)
}

fn start(folder: &Path, volume: &Path, application: &Application, checks: &str) -> Agent {
    let config = format!(
        "[agent]\nwork-dir = \"{}\"\n[[rule]]\nname = \"app\"\nwatch = \"{}\"\nsettle = \"0s\"\n\
         on-start = \"never\"\nretry.first = \"50ms\"\n[rule.http]\nurl = \"{}\"\n{checks}",
        folder.join("work").display(),
        volume.display(),
        application.url()
    );
    let file = folder.join("podnudge.toml");
    fs::write(&file, config).unwrap();
    Agent::start(folder, &["--config", file.to_str().unwrap()])
}

/// End to end: podnudge's own checks run first, then the others in the order of the file, each for
/// its keys in sorted order.
#[test]
fn a_url_check_is_sent_for_each_key_and_only_accepted_content_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    let content = |a: &str, b: &str, json: &str| {
        payload(&[("a.conf", a), ("sites/b.conf", b), ("c.json", json)])
    };
    kubelet.write(&content("a", "b", "{}"));
    let application = Application::start(&kubelet.volume, "a.conf");
    let (url, seen) = validator();
    fs::create_dir(folder.path().join("work")).unwrap();
    let checks = format!(
        "[[rule.check]]\nhttp = \"{url}\"\nkeys = [\"*.conf\"]\n\
         [[rule.check]]\nexec = [\"grep\", \"-q\", \"-v\", \"wrong\", \"{{dir}}/a.conf\"]\n\
         [[rule.check]]\nhttp = \"{url}\"\nkeys = \"none\"\n\
         [[rule.check]]\nhttp = \"{url}\"\nkeys = \"*.json\"\n\
         [[rule.check]]\nsyntax = \"json\"\nkeys = \"*.json\"\n"
    );
    let agent = start(folder.path(), &kubelet.volume, &application, &checks);
    let received = || std::mem::take(&mut *seen.lock().unwrap());
    // podnudge's own check rejects it, and no request is sent.
    kubelet.write(&content("a", "b", "{"));
    agent.wait_for("rejected", 1);
    assert!(agent.last("rejected", "reason").contains("is not JSON"));
    assert_eq!(received(), Vec::<String>::new());
    // The URL rejects the second key.
    kubelet.write(&content("good", "bad", "{}"));
    agent.wait_for("rejected", 2);
    let reason = agent.last("rejected", "reason");
    let wanted = format!("POST {url} answered 400 Bad Request for `sites/b.conf`: this is bad");
    assert_eq!(reason, wanted);
    assert_eq!(received(), ["good", "bad"]);
    // The program runs after the first URL check and before the last.
    kubelet.write(&content("wrong", "good", "{}"));
    agent.wait_for("rejected", 3);
    assert!(agent.last("rejected", "reason").contains("ended with 1"));
    assert_eq!(received(), ["wrong", "good"]);
    kubelet.write(&content("right", "good", "{\"hunter2\": 1}"));
    agent.wait_for("applied", 1);
    assert_eq!(received(), ["right", "good", "{\"hunter2\": 1}"]);
    assert_eq!(application.reloads(), ["right"]);
    assert_eq!(fs::read_dir(folder.path().join("work")).unwrap().count(), 0);
    assert!(!agent.log().contains("hunter2"));
}

/// A check that gets no answer is repeated later; a URL check needs no private copy.
#[test]
fn a_url_check_is_retried_until_the_application_answers() {
    let mut scene = Scene::new();
    let application = scene.application();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let checks = format!("[[rule.check]]\nhttp = \"http://{address}/check\"\n");
    let agent = start(scene.folder.path(), &scene.kubelet.volume, &application, &checks);
    scene.change("2");
    agent.wait_for("check-failed", 2);
    assert_eq!(agent.count("rejected"), 0);
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for stream in requests(&listener) {
            request(&stream);
            respond(stream, "200 OK", "", "");
        }
    });
    agent.wait_for("applied", 1);
    assert_eq!(application.reloads(), ["2"]);
    assert!(!scene.path("work").exists());
}
