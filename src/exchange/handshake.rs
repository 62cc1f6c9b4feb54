//! One TLS handshake, limited in time and size: which certificate a server presents.
//!
//! The server must prove that it has the private key. Whether the certificate is trusted, valid now or
//! for this name does not matter here. podnudge presents no certificate, and sends nothing after the
//! handshake. The signature of the server comes before anything that it may demand from its client: so
//! a server that refuses clients without a certificate has proven its own by then.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::ExchangeError;
use super::connect::{Stream, open};
use podnudge_config::SocketAddress;
use podnudge_core::reason::Reason;

/// The most bytes that are received. A certificate message has at most 64 KiB, and so has the list of
/// CAs in a request for the client's certificate.
const MOST: usize = 192 * 1024;
/// The bytes that are read at a time.
const PIECE: usize = 4 * 1024;

const NO_TLS: &str =
    "check the port: the application must expect TLS at once, as STARTTLS is not supported";

/// Connects to the address, and returns the certificate of the server, as DER: the key that belongs to
/// it has signed this handshake. Sends the server name, if there is one.
///
/// # Errors
/// If the server has presented and proven none within `limit`.
pub async fn presented(
    address: SocketAddr,
    server_name: Option<&str>,
    limit: Duration,
) -> Result<Vec<u8>, ExchangeError> {
    let witness = Arc::new(Witness::default());
    let what = format!("`{address}`");
    let ended = timeout(limit, async {
        let mut stream = open(&SocketAddress::Tcp(address)).await?;
        shake_hands(&mut *stream, address, server_name, &witness)
            .await
            .map_err(|ended| ExchangeError::Failed(ended.reason(&what)))
    })
    .await;
    if let Some(certificate) = witness.certificate.get() {
        return Ok(certificate.clone());
    }
    ended.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        let message = format!("{what} did not complete a TLS handshake within {limit}");
        let hint = "the application may hang, or not expect TLS on this port";
        Err(ExchangeError::Failed(Reason::new(message).hint(hint)))
    })?;
    let message = format!("{what} completed a handshake without a certificate");
    Err(ExchangeError::Failed(Reason::new(message)))
}

/// Why a handshake ended early.
enum Ended {
    SetUp(String),
    Closed,
    Broken(io::Error),
    TooMuch,
    Failed(Error),
}

impl Ended {
    fn reason(self, what: &str) -> Reason {
        let reason = |how: &str| Reason::new(format!("{what} {how}"));
        match self {
            Self::SetUp(why) => Reason::new(format!("cannot set up the handshake: {why}")),
            Self::Closed => reason("closed the connection during the TLS handshake").hint(NO_TLS),
            Self::Broken(error) => {
                reason(&format!("broke off the TLS handshake: {error}")).hint(NO_TLS)
            }
            Self::TooMuch => {
                reason("sends a TLS handshake that is too large").hint("check what listens there")
            }
            Self::Failed(Error::InvalidMessage(_)) => reason("does not speak TLS").hint(NO_TLS),
            Self::Failed(Error::AlertReceived(alert)) => {
                reason(&format!("refused the TLS handshake: {alert:?}")).hint(
                    "podnudge speaks TLS 1.2 and 1.3, and verifies RSA, P-256, P-384 and Ed25519; \
                     some servers refuse a client that sends no `tls-server-name`",
                )
            }
            Self::Failed(error) => reason(&format!("failed in the TLS handshake: {error}")),
        }
    }
}

async fn shake_hands(
    stream: &mut dyn Stream,
    address: SocketAddr,
    server_name: Option<&str>,
    witness: &Arc<Witness>,
) -> Result<(), Ended> {
    let mut connection = client(address, server_name, Arc::clone(witness))?;
    let (mut piece, mut received) = (vec![0; PIECE], 0);
    loop {
        send(stream, &mut connection).await?;
        if !connection.is_handshaking() {
            connection.send_close_notify();
            drop(send(stream, &mut connection).await);
            return Ok(());
        }
        let length = stream.read(&mut piece).await.map_err(Ended::Broken)?;
        received += length;
        let mut read = piece.get(..length).unwrap_or_default();
        if read.is_empty() {
            return Err(Ended::Closed);
        }
        if received > MOST {
            return Err(Ended::TooMuch);
        }
        while !read.is_empty() {
            connection.read_tls(&mut read).map_err(|_| Ended::TooMuch)?;
            if let Err(error) = connection.process_new_packets() {
                // The alert says to the server why the connection ends.
                drop(send(stream, &mut connection).await);
                return Err(Ended::Failed(error));
            }
        }
    }
}

async fn send(stream: &mut dyn Stream, connection: &mut ClientConnection) -> Result<(), Ended> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).map_err(Ended::Broken)?;
    }
    stream.write_all(&bytes).await.map_err(Ended::Broken)
}

/// A client that presents no certificate, and resumes no session: a resumed one has no certificate.
fn client(
    address: SocketAddr,
    server_name: Option<&str>,
    witness: Arc<Witness>,
) -> Result<ClientConnection, Ended> {
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(witness)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let name = match server_name {
        Some(name) => ServerName::try_from(name.to_owned())
            .map_err(|_| Ended::SetUp(format!("`{name}` is not a DNS name")))?,
        // An address is not sent.
        None => ServerName::from(address.ip()),
    };
    ClientConnection::new(Arc::new(config), name).map_err(|error| Ended::SetUp(error.to_string()))
}

/// Keeps the certificate whose key has signed the handshake, and accepts any.
struct Witness {
    algorithms: WebPkiSupportedAlgorithms,
    certificate: OnceLock<Vec<u8>>,
}

/// rustls asks for it, and nothing prints it.
impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

impl Default for Witness {
    fn default() -> Self {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Self { algorithms, certificate: OnceLock::new() }
    }
}

impl Witness {
    fn keep_if_signed(
        &self,
        certificate: &CertificateDer<'_>,
        verified: Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        if verified.is_ok() {
            self.certificate.get_or_init(|| certificate.to_vec());
        }
        verified
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls12_signature(message, certificate, signed, &self.algorithms);
        self.keep_if_signed(certificate, verified)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls13_signature(message, certificate, signed, &self.algorithms);
        self.keep_if_signed(certificate, verified)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
