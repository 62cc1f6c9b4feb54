//! How a test sees which version of its configuration an application runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::support::command;

/// Where the version is visible.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Seen {
    /// In the answer to this request on this port. An error page counts, too.
    Http(u16, String),
    /// In what the server at this port sends to a client that sends this text.
    Tcp(u16, String),
    /// In the TXT record of `version.bind` in this class, from the server at port 5353.
    Dns(Class),
    /// In the output of a client program.
    Output(Vec<String>),
    /// In the title of a process.
    Title,
    /// In the path of a file that a process has open.
    OpenFile,
    /// In an IPv6 address of this network namespace.
    Address,
    /// The version is a port that accepts connections.
    Port,
}

/// A class of DNS records.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Class {
    Internet = 1,
    /// The class for what a server says about itself (RFC 4892).
    Chaos = 3,
}

impl Default for Seen {
    fn default() -> Self {
        Self::Http(8080, "/".to_owned())
    }
}

impl Seen {
    /// Whether the application shows this text.
    pub(in super::super) fn shows(&self, text: &str) -> bool {
        let found = match self {
            Self::Http(port, path) => http(*port, path),
            Self::Tcp(port, request) => tcp(*port, request),
            Self::Dns(class) => dns(*class),
            Self::Output(arguments) => Some(output(arguments)),
            Self::Title => of_all_processes(title),
            Self::OpenFile => of_all_processes(open_files),
            Self::Address => fs::read_to_string("/proc/self/net/if_inet6").ok(),
            Self::Port => connect(text.parse().unwrap()).map(|_| text.to_owned()),
        };
        found.is_some_and(|found| found.contains(text))
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    Some(stream)
}

fn http(port: u16, path: &str) -> Option<String> {
    let mut stream = connect(port)?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").ok()?;
    Some(everything_from(stream))
}

fn tcp(port: u16, request: &str) -> Option<String> {
    let mut stream = connect(port)?;
    stream.write_all(request.as_bytes()).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    Some(everything_from(stream))
}

/// What the server sends until it closes the connection, or fails to.
fn everything_from(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn dns(class: Class) -> Option<String> {
    let mut query =
        b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07version\x04bind\x00\x00\x10\x00"
            .to_vec();
    query.push(class as u8);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.connect("127.0.0.1:5353").unwrap();
    socket.send(&query).ok()?;
    let mut answer = [0; 512];
    let count = socket.recv(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..count]).into_owned())
}

fn output(arguments: &[String]) -> String {
    let output = command(&arguments[0]).args(&arguments[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{arguments:?}: {error}; run ./test"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn of_all_processes(text: fn(&Path) -> Option<String>) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    Some(processes.filter_map(|process| text(&process.path())).collect())
}

fn title(process: &Path) -> Option<String> {
    fs::read_to_string(process.join("cmdline")).ok()
}

/// The paths, without pipes and sockets.
fn open_files(process: &Path) -> Option<String> {
    let files = fs::read_dir(process.join("fd")).ok()?.flatten();
    let paths = files.filter_map(|file| fs::read_link(file.path()).ok());
    Some(paths.filter(|path| path.is_absolute()).map(|path| path.display().to_string()).collect())
}
