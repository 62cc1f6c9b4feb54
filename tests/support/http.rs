//! Small HTTP servers, and a runtime for their clients.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Each request that a server received: everything up to the empty line, and the body.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

/// Serves each connection with `serve`, one after the other, and returns the URL.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/-/reload", listener.local_addr().unwrap());
    thread::spawn(move || requests(&listener).for_each(serve));
    url
}

/// The connections on which a client sends something: the preflight only connects.
pub(crate) fn requests(listener: &TcpListener) -> impl Iterator<Item = TcpStream> {
    let streams = listener.incoming().map(Result::unwrap);
    streams.filter(|stream| stream.peek(&mut [0]).unwrap_or(0) > 0)
}

/// Reads a request with its body.
pub(crate) fn request(stream: impl std::io::Read) -> String {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        text.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

/// Sends a request without a body, and returns the whole response.
pub(crate) fn ask(address: &str, method: &str, path: &str) -> String {
    try_to_ask(address, method, path).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The same where the connection may be reset.
pub(super) fn try_to_ask(address: &str, method: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub(crate) fn respond(mut stream: impl std::io::Write, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    drop(stream.write_all((head + body).as_bytes()));
}

/// A server that answers with these responses in turn, and with the last one from then on.
pub(crate) fn answering(
    answers: &'static [(&'static str, &'static str, &'static str)],
) -> (String, Seen) {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let url = server(move |stream| {
        let text = request(&stream);
        let mut seen = kept.lock().unwrap();
        let (status, headers, body) = answers[seen.len().min(answers.len() - 1)];
        seen.push(text);
        respond(stream, status, headers, body);
    });
    (url, seen)
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    podnudge::exchange::install_crypto();
    podnudge::run::runtime().unwrap().block_on(future)
}
