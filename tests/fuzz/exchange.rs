//! Fuzzes the answers of applications: by HTTP and by a socket (`src/exchange/`).

use std::time::Duration;

use reqwest::Method;

use super::http::{self, unexpected_response};
use super::socket::{check_answer, send_command};
use super::{AnswerEnd, ExchangeError};
use crate::config::{Body, Endpoint, SocketAddress, SocketCommand};
use crate::fuzz::{Target, assert_reason, fuzz, loopback};

const LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of a body that the target reads.
const MOST: usize = 1000;

const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 503 Service Unavailable\r\n\r\nno\u{1b}[31m",
    "HTTP/1.0 302 Found\r\nlocation: http://evil.example/\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic\r\ncontent-length: 100\r\n\r\nshort",
];

const ANSWER_WORDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.1 999 \r\n",
    "HTTP/2 200\r\n",
    "content-length: 5\r\n",
    "content-length: -1\r\n",
    "content-length: 18446744073709551615\r\n",
    "transfer-encoding: chunked\r\n",
    "connection: close\r\n",
    "\r\n",
    "\r\n\r\n",
    "ffffffffffffffff\r\n",
    "0\r\n\r\n",
    "5\r\nabcde\r\n",
    ": ",
    "x: y\r\n",
    "\n\n",
];

#[test]
fn an_http_answer_is_the_same_in_one_piece_and_in_several() {
    super::install_crypto();
    let target =
        Target { dictionary: ANSWER_WORDS, inputs: 200, ..Target::new("http answers", ANSWERS) };
    let runtime = loopback::runtime();
    fuzz(target, move |input| {
        let ask = |pieces: usize| {
            runtime.block_on(async {
                let (listener, address) = loopback::listener().await;
                let endpoint = Endpoint {
                    url: format!("http://{address}/reload").parse().unwrap(),
                    unix_socket: None,
                    headers: Vec::new(),
                    auth: None,
                    tls: None,
                    timeout: LIMIT,
                };
                let asked = http::exchange(&endpoint, Method::POST, &Body::Empty, MOST);
                let (asked, ()) = tokio::join!(asked, loopback::answer(&listener, input, pieces));
                asked.map_err(ExchangeError::into_reason)
            })
        };
        match (ask(1), ask(7)) {
            (Ok(whole), Ok(pieces)) => {
                assert_eq!((whole.status, &whole.body), (pieces.status, &pieces.body));
                assert!(whole.body.len() <= MOST);
                assert!(whole.end != AnswerEnd::Truncated || whole.body.len() == MOST);
                assert!(whole.status.as_u16() >= 101, "it is no final status");
                let what = format!("{:?}", whole.end);
                assert_reason(&unexpected_response("POST http://x/", &whole)) + &what
            }
            (Err(whole), Err(pieces)) => {
                assert_reason(&pieces);
                let message = assert_reason(&whole);
                message.split(" failed: ").last().unwrap_or_default().to_owned()
            }
            (whole, pieces) => panic!("{whole:?}, and in pieces {pieces:?}"),
        }
    });
}

#[test]
fn the_answer_of_a_socket_is_the_same_in_one_piece_and_in_several() {
    let seeds = ["", "ok\n", "1 worker\n\u{1b}[31m\u{202e}", "\u{9b}2J\r\n"];
    let target = Target { inputs: 300, ..Target::new("socket answers", &seeds) };
    let runtime = loopback::runtime();
    fuzz(target, move |input| {
        let ask = |pieces: usize| {
            runtime.block_on(async {
                let (listener, address) = loopback::listener().await;
                let address = SocketAddress::Tcp(address);
                let asked = send_command(&address, "show\n", MOST, LIMIT);
                let (asked, ()) = tokio::join!(asked, loopback::answer(&listener, input, pieces));
                (asked.expect("there is an answer"), address)
            })
        };
        let ((whole, address), (pieces, _)) = (ask(1), ask(5));
        assert_eq!(whole, pieces);
        assert_eq!(whole.bytes, input[..input.len().min(MOST)]);
        assert_eq!(whole.end == AnswerEnd::Truncated, input.len() > MOST);
        let command = SocketCommand {
            socket: address,
            send: "show\n".to_owned(),
            answer_matches: regex_lite::Regex::new("^ok").unwrap(),
            timeout: LIMIT,
        };
        match check_answer(&command, &whole) {
            Ok(()) => assert!(input.starts_with(b"ok")),
            Err(reason) => drop(assert_reason(&reason)),
        }
        (whole.end == AnswerEnd::Complete).to_string()
    });
}
