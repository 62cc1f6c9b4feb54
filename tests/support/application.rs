//! An application that reloads on an HTTP request.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use super::http::requests;

/// An application that reloads on any request, and records the content of each reload.
pub(crate) struct Application {
    port: u16,
    reloads: Arc<Mutex<Vec<String>>>,
}

impl Application {
    /// Answers 200 after reading `key` of the volume, or 400 if the content contains `broken`.
    pub(crate) fn start(volume: &Path, key: &str) -> Self {
        Self::start_reading(volume, key, PathBuf::new())
    }

    /// The same, and reads another file before.
    pub(crate) fn start_reading(volume: &Path, key: &str, before: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let reloads = Arc::new(Mutex::new(Vec::new()));
        let (file, seen) = (volume.join(key), Arc::clone(&reloads));
        thread::spawn(move || {
            for stream in requests(&listener) {
                drop(fs::read(&before));
                let content = fs::read_to_string(&file).unwrap_or_default();
                let status = if content.contains("broken") { "400 Broken" } else { "200 OK" };
                seen.lock().unwrap().push(content);
                answer(stream, status);
            }
        });
        Self { port, reloads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/-/reload", self.port)
    }

    pub(crate) fn reloads(&self) -> Vec<String> {
        self.reloads.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, status: &str) {
    let mut request = [0; 4096];
    drop(stream.read(&mut request));
    let rest = "content-length: 0\r\nconnection: close\r\n\r\n";
    drop(stream.write_all(format!("HTTP/1.1 {status}\r\n{rest}").as_bytes()));
}
