//! Reads the output of a program, and keeps the end of it.
//!
//! Reads a pipe; changes nothing.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use podnudge_core::shown;

/// The most bytes of output that are kept: the end, where programs report errors.
const MAX_OUTPUT: usize = 4 * 1024;

/// The output of a program: all is read, so that the program never blocks, and the end is kept.
pub(super) struct Output {
    pipe: Option<Receiver>,
    kept: Vec<u8>,
}

impl Output {
    pub(super) fn new(reader: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(reader.as_fd(), true)?;
        Ok(Self { pipe: Some(Receiver::from_owned_fd(reader)?), kept: Vec::new() })
    }

    /// Reads output until `done` completes.
    pub(super) async fn read_until(&mut self, done: impl Future<Output = ()>) {
        let mut done = std::pin::pin!(done);
        let mut reading = std::pin::pin!(self.read_all());
        let mut is_read = false;
        std::future::poll_fn(|context| {
            if !is_read && reading.as_mut().poll(context).is_ready() {
                is_read = true;
            }
            done.as_mut().poll(context)
        })
        .await;
    }

    pub(super) async fn read_all(&mut self) {
        let mut piece = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut piece).await {
                Ok(length @ 1..) => self.keep(piece.get(..length).unwrap_or_default()),
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }

    /// The end of what was read, as text.
    pub(super) fn text(&self) -> String {
        shown::lines(&self.kept)
    }

    fn keep(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
        let surplus = self.kept.len().saturating_sub(MAX_OUTPUT);
        self.kept.drain(..surplus);
    }
}
