//! The application of a replica: it reads its version once, at its start, and needs some time for that. It
//! ends at TERM at once, as many do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

const BOOT: Duration = Duration::from_millis(400);

pub(crate) fn run(address: SocketAddr, file: &Path) {
    let version = fs::read_to_string(file).unwrap();
    std::thread::sleep(BOOT);
    // As servers do: an address with old connections can be used at once.
    let listener = TcpListener::bind(address).unwrap();
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let version = version.clone();
        std::thread::spawn(move || {
            drop(stream.read(&mut [0; 4096]));
            let length = version.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{version}"
            );
            drop(stream.write_all(answer.as_bytes()));
        });
    }
}
