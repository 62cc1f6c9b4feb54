//! The small API server behind TLS, with a CA of its own.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::api_server::ApiServer;

/// A server with a certificate for this host, and the certificate of its CA.
pub(crate) fn start(host: &str) -> (ApiServer, String, String) {
    podnudge::exchange::install_crypto();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, &ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], secret)
        .unwrap();
    let (config, server) = (Arc::new(config), ApiServer::start());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = server.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            let serving = serving.clone();
            // A watch lasts.
            thread::spawn(move || {
                serving.serve(&mut stream);
                stream.conn.send_close_notify();
                drop(stream.flush());
            });
        }
    });
    (server, port.to_string(), ca.pem())
}
