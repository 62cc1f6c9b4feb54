//! Fuzzes the answers of applications: by HTTP and by a socket (`src/exchange/`).

use std::time::Duration;

use reqwest::Method;

use super::http::{self, unexpected_response};
use super::socket::{check_answer, send_command};
use super::{AnswerEnd, ExchangeError};
use crate::fuzz::{Target, assert_reason, fuzz, loopback, words};
use podnudge_config::{Endpoint, SocketAddress, SocketCommand};

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

#[test]
fn an_http_answer_is_the_same_in_one_piece_and_in_several() {
    super::install_crypto();
    let target =
        Target { dictionary: words("answer"), inputs: 200, ..Target::new("http answers", ANSWERS) };
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
                let asked = http::exchange(&endpoint, Method::POST, None, MOST);
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

/// What a server of this version answers to a greeting, up to the point where it waits for the client.
#[cfg(feature = "tls")]
fn greeting(version: &'static rustls::SupportedProtocolVersion) -> Vec<u8> {
    use std::sync::Arc;

    use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};

    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["web.example".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let secret = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let server = rustls::ServerConfig::builder_with_protocol_versions(&[version])
        .with_no_client_auth()
        .with_single_cert(vec![certificate], secret)
        .unwrap();
    let client = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("web.example").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = rustls::ServerConnection::new(Arc::new(server)).unwrap();
    let (mut hello, mut answer) = (Vec::new(), Vec::new());
    client.write_tls(&mut hello).unwrap();
    server.read_tls(&mut hello.as_slice()).unwrap();
    server.process_new_packets().unwrap();
    while server.wants_write() {
        server.write_tls(&mut answer).unwrap();
    }
    answer
}

/// No answer that was made without knowing the client's greeting is a proof.
#[cfg(feature = "tls")]
#[test]
fn a_tls_handshake_is_never_completed_by_a_recorded_or_broken_one() {
    super::install_crypto();
    let mut seeds = [&rustls::version::TLS12, &rustls::version::TLS13].map(greeting).to_vec();
    seeds.push(b"\x15\x03\x03\x00\x02\x02\x28".to_vec());
    seeds.push(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let dictionary = words("tls answers");
    let target = Target { seeds, dictionary, inputs: 500, ..Target::new("tls answers", &[]) };
    let runtime = loopback::runtime();
    fuzz(target, move |input| {
        let ask = |pieces: usize| {
            runtime.block_on(async {
                let (listener, address) = loopback::listener().await;
                let asked = super::handshake::presented(address, Some("web.example"), LIMIT);
                let (asked, ()) = tokio::join!(asked, loopback::answer(&listener, input, pieces));
                let reason = asked.expect_err("it is a proof").into_reason();
                assert_reason(&reason).replace(&address.to_string(), "")
            })
        };
        // Where the connection ends decides what is said of it.
        drop(ask(5));
        ask(1)
    });
}
