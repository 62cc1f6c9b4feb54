//! Answers of an endpoint that a check, an action or a proof asks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Input;
use crate::support::requests;

/// Answers a request, until the client gives up.
type Answer = fn(&mut TcpStream) -> std::io::Result<()>;

/// The hostile endpoint.
pub(super) struct Server {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(never));
        let current = Arc::clone(&answer);
        thread::spawn(move || {
            for mut stream in requests(&listener) {
                let answer = *current.lock().unwrap();
                thread::spawn(move || drop(answer(&mut stream)));
            }
        });
        Self { address, answer }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }
}

/// Waits for the client to end the connection.
fn never(stream: &mut TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 1024])? > 0 {}
    Ok(())
}

/// Reads the request, whose body is short.
fn read(stream: &mut TcpStream) -> std::io::Result<usize> {
    stream.read(&mut [0; 4096])
}

fn send(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    read(stream)?;
    stream.write_all(text.as_bytes())
}

/// Sends a text, and then another one again and again.
fn endless(stream: &mut TcpStream, begin: &str, part: &str) -> std::io::Result<()> {
    send(stream, begin)?;
    let part = part.repeat(8192 / part.len() + 1);
    loop {
        stream.write_all(part.as_bytes())?;
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

fn all() -> Vec<(&'static str, Answer)> {
    vec![
        ("no answer", never),
        ("an end without an answer", |_| Ok(())),
        ("bytes, one after the other", |stream| {
            read(stream)?;
            for byte in OK.bytes().cycle() {
                stream.write_all(&[byte])?;
                crate::support::wait::pause();
            }
            Ok(())
        }),
        ("endless headers", |stream| endless(stream, OK, "x: y\r\n")),
        ("an endless header", |stream| endless(stream, &format!("{OK}x: "), "y")),
        ("an endless status line", |stream| endless(stream, "HTTP/1.1 200 ", "x")),
        ("an endless body", |stream| endless(stream, &format!("{OK}\r\n"), "x")),
        ("endless chunks", |stream| {
            endless(stream, &format!("{OK}transfer-encoding: chunked\r\n\r\n"), "8\r\nxxxxxxxx\r\n")
        }),
        ("an endless chunk", |stream| {
            endless(stream, &format!("{OK}transfer-encoding: chunked\r\n\r\nffffffff\r\n"), "x")
        }),
        ("an endless extension of a chunk", |stream| {
            endless(stream, &format!("{OK}transfer-encoding: chunked\r\n\r\n8;"), "x")
        }),
        ("endless trailers", |stream| {
            endless(stream, &format!("{OK}transfer-encoding: chunked\r\n\r\n0\r\n"), "x: y\r\n")
        }),
        ("endless informational responses", |stream| {
            endless(stream, "", "HTTP/1.1 103 Early Hints\r\n\r\n")
        }),
        ("an endless informational response", |stream| {
            endless(stream, "HTTP/1.1 103 Early Hints\r\n", "link: </x>\r\n")
        }),
        ("a status that no request has asked for", |stream| {
            endless(stream, "", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")
        }),
        ("an impossible length", |stream| {
            endless(stream, &format!("{OK}content-length: 18446744073709551615\r\n\r\n"), "x")
        }),
        ("two lengths", |stream| {
            send(stream, &format!("{OK}content-length: 1\r\ncontent-length: 2\r\n\r\nxx"))
        }),
        ("a body that is too short", |stream| {
            send(stream, &format!("{OK}content-length: 9\r\n\r\nx"))
        }),
        ("a redirection to itself", |stream| {
            send(stream, "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n")
        }),
        ("a status that does not exist", |stream| {
            send(stream, "HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n")
        }),
        ("no HTTP", |stream| endless(stream, "\0", "\0")),
        ("a body that is not UTF-8", |stream| {
            read(stream)?;
            stream.write_all(OK.as_bytes())?;
            stream.write_all(b"content-length: 4\r\n\r\n\xff\xfe\xff\xfe")
        }),
    ]
}

/// A JSON document of nearly 1 MiB, which is the most that is read.
fn document(stream: &mut TcpStream, begin: &str, part: &str, end: &str) -> std::io::Result<()> {
    let times = ((1 << 20) - begin.len() - end.len()) / part.len();
    let length = begin.len() + part.len() * times + end.len();
    send(stream, &format!("{OK}content-length: {length}\r\n\r\n{begin}"))?;
    stream.write_all(part.repeat(times).as_bytes())?;
    stream.write_all(end.as_bytes())
}

fn documents() -> Vec<(&'static str, Answer)> {
    vec![
        ("a long list", |stream| document(stream, "{\"a\":[", "0,", "1]}")),
        ("empty objects", |stream| document(stream, "{\"a\":[", "{},", "{}]}")),
        ("empty names", |stream| document(stream, "{\"b\":[", "{\"\":0},", "1]}")),
        ("many names", |stream| document(stream, "{", "\"b\":[0],", "\"a\":0}")),
        ("open brackets", |stream| document(stream, "{\"a\":", "[", "")),
        ("a long text", |stream| document(stream, "{\"a\":\"", "y", "\"}")),
        ("escapes", |stream| document(stream, "{\"a\":\"", "\\u00e9", "\"}")),
    ]
}

/// Sends bytes, and then others again and again.
fn records(stream: &mut TcpStream, begin: &[u8], part: &[u8]) -> std::io::Result<()> {
    read(stream)?;
    stream.write_all(begin)?;
    let part = part.repeat(8192 / part.len() + 1);
    loop {
        stream.write_all(&part)?;
    }
}

/// The beginning of a record with part of a handshake message: 22, TLS 1.2, 16 KiB.
const RECORD: &[u8] = &[22, 3, 3, 0x40, 0];

/// Answers to the greeting of a TLS client.
fn handshakes() -> Vec<(&'static str, Answer)> {
    vec![
        ("no answer", never),
        ("an end without an answer", |_| Ok(())),
        ("no TLS", |stream| endless(stream, OK, "x: y\r\n")),
        ("zeros", |stream| records(stream, &[], &[0])),
        ("bytes, one after the other", |stream| {
            read(stream)?;
            for byte in RECORD.iter().chain(&[2, 0, 0xff, 0xff]).chain([0; 1000].iter()) {
                stream.write_all(&[*byte])?;
                crate::support::wait::pause();
            }
            Ok(())
        }),
        ("empty records", |stream| records(stream, &[], &[22, 3, 3, 0, 0])),
        ("warnings", |stream| records(stream, &[], &[21, 3, 3, 0, 2, 1, 90])),
        ("changes of the cipher", |stream| records(stream, &[], &[20, 3, 3, 0, 1, 1])),
        ("a record that is too large", |stream| records(stream, &[22, 3, 3, 0xff, 0xff], &[0])),
        ("a message of 16 MiB", |stream| {
            let piece = [RECORD, &[0; 0x4000]].concat();
            records(stream, &[RECORD, &[2, 0xff, 0xff, 0xff], &[0; 0x3ffc]].concat(), &piece)
        }),
        ("a message of 64 KiB in small pieces", |stream| {
            records(stream, &[22, 3, 3, 0, 4, 2, 0, 0xff, 0xff], &[22, 3, 3, 0, 1, 0])
        }),
        ("many messages", |stream| {
            let greetings = [0, 0, 0, 0].repeat(0x1000);
            records(stream, &[], &[RECORD, &greetings].concat())
        }),
    ]
}

/// Any end of the attempt: which one depends on the rule.
const OUTCOMES: [(&str, &str); 5] = [
    ("check", "check-failed|passed|rejected"),
    ("action", "gave-up|applied|unread"),
    ("proof", "gave-up|applied|unread"),
    ("document", "gave-up|applied|unread"),
    ("handshake", "gave-up"),
];

/// The hostile answers to these rules.
pub(super) fn inputs(rules: &[&str]) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (rule, outcome) in OUTCOMES.into_iter().filter(|(rule, _)| rules.contains(rule)) {
        let answers = match rule {
            "document" => documents(),
            "handshake" => handshakes(),
            _ => all(),
        };
        for (what, answer) in answers {
            inputs.push(Input {
                rule,
                what: what.to_owned(),
                put: Box::new(move |scene| {
                    scene.server.set(answer);
                    if rule == "handshake" { scene.renew() } else { scene.nudge(rule) }
                }),
                outcome,
                remove: None,
            });
        }
    }
    inputs
}
