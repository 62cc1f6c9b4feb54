//! What podnudge does besides signalling: HTTP requests, and programs to run.

pub mod exec;
pub mod http;

/// Makes ring the provider of cryptography for TLS. Must be called once before the first request:
/// without a provider, building a client panics.
pub fn install_crypto() {
    #[cfg(feature = "tls")]
    // It fails only if there is one already, and then that is the same one.
    drop(rustls::crypto::ring::default_provider().install_default());
}
