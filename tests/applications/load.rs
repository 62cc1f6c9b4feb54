//! Clients that send requests continuously.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Whether requests may fail because the application itself is down.
#[derive(Debug, Default)]
pub(super) struct Outage(AtomicBool);

impl Outage {
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Sends one request on a new connection, and returns the whole response or the error.
pub(super) fn get(address: &str, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| format!("send: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| format!("receive: {error}"))?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(answer) }
}

/// At full speed, clients would take the processors from all other tests: two thousand requests take a few seconds, and
/// those of a longer test come at a lower rate, of a hundred per second in the end.
#[expect(clippy::disallowed_methods, reason = "clients send at a rate")]
fn pause(sent: usize) {
    thread::sleep(Duration::from_millis((u64::try_from(sent).unwrap() / 500).clamp(1, 20)));
}

/// Runs `changes` while two clients send requests, of which none may fail.
pub(super) fn under_load(address: &str, path: &str, changes: impl FnOnce()) {
    let excused = under_load_but_for_outages(address, path, |_| changes());
    assert_eq!(excused, 0);
}

/// The same, but requests may fail during an [`Outage`]; returns how many did.
pub(super) fn under_load_but_for_outages(
    address: &str,
    path: &str,
    changes: impl FnOnce(&Outage),
) -> usize {
    let (stop, sent, excused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let (outage, failed) = (Outage::default(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pause(sent.fetch_add(1, Ordering::Relaxed));
                    let was_on = outage.is_on();
                    match get(address, path) {
                        Ok(_) => {}
                        Err(_) if was_on || outage.is_on() => {
                            excused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => failed.lock().unwrap().push(error),
                    }
                }
            });
        }
        let play = std::panic::AssertUnwindSafe(|| changes(&outage));
        let done = std::panic::catch_unwind(play);
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    let (sent, excused) = (sent.into_inner(), excused.into_inner());
    let failed = failed.into_inner().unwrap();
    println!("{sent} requests, {} failed, {excused} more during outages", failed.len());
    assert!(failed.is_empty(), "{} requests failed, such as: {}", failed.len(), failed[0]);
    assert!(sent - excused > 1000, "there was no load");
    excused
}
