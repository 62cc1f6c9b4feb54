//! A server on the loopback that answers with given bytes, and a client that sends some.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// More than any answer takes.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Accepts one connection, reads something, sends `answer` in pieces, and closes the connection.
pub(crate) async fn answer(listener: &TcpListener, answer: &[u8], pieces: usize) {
    let served = async {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut request = [0; 4096];
        if stream.read(&mut request).await? == 0 {
            return Ok(());
        }
        for piece in answer.chunks(answer.len().div_ceil(pieces).max(1)) {
            stream.write_all(piece).await?;
            tokio::task::yield_now().await;
        }
        stream.shutdown().await?;
        // After a reset the client would not see what was sent.
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // The client may close the connection at any time.
    drop(timeout(LIMIT, served).await.expect("the client reads the answer"));
}

/// Sends `request`, and returns everything that is answered.
pub(crate) async fn ask(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may have closed the connection before it has read everything.
        drop(stream.write_all(request).await);
        drop(stream.shutdown().await);
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut piece).await {
                Ok(0) => return answer,
                Ok(length) => answer.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return answer,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(LIMIT, asked).await.expect("the server answers or closes the connection")
}
