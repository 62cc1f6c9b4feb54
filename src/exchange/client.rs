//! The clients of reqwest: without proxies, redirects and retries, and with only the configured CAs. Reads the
//! certificates for each client, because they rotate.

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, ClientBuilder};

#[cfg(feature = "tls")]
use super::session;
#[cfg(feature = "tls")]
use crate::system::files;
use podnudge_config::{Endpoint, Tls};
use podnudge_core::reason::Reason;

pub(super) const CANNOT_SET_UP: &str = "cannot set up the request";

/// Builds a client with one connection at a time, through the relay.
pub(super) fn client(endpoint: &Endpoint, socket: &Path) -> Result<Client, Reason> {
    let mut builder = base_client(endpoint.timeout).unix_socket(socket).pool_max_idle_per_host(1);
    if let Some(tls) = &endpoint.tls {
        builder = with_tls(builder, tls)?;
    }
    builder.build().map_err(|error| Reason::new(format!("{CANNOT_SET_UP}: {}", causes(&error))))
}

/// The settings of all HTTP clients: no proxy from the environment, no redirects, no retries, and
/// only the configured CAs (with the default ones, building a client fails if the image has none).
pub(crate) fn base_client(timeout: Duration) -> ClientBuilder {
    let builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .timeout(timeout)
        .connect_timeout(timeout * 3 / 4)
        .user_agent(concat!("podnudge/", env!("CARGO_PKG_VERSION")));
    #[cfg(feature = "tls")]
    let builder = builder.tls_certs_only([]);
    builder
}

#[cfg(feature = "tls")]
fn with_tls(builder: ClientBuilder, tls: &Tls) -> Result<ClientBuilder, Reason> {
    let bundle = files::read_with_hint(&tls.ca_file, files::LARGEST)?;
    let path = tls.ca_file.display();
    if tls.is_resumed {
        let config = session::config(&bundle)
            .ok_or_else(|| Reason::new(format!("`{path}` contains no PEM certificates")))?;
        return Ok(builder.tls_backend_preconfigured(config).https_only(true));
    }
    let certificates = reqwest::Certificate::from_pem_bundle(&bundle).map_err(|error| {
        Reason::new(format!("`{path}` contains no PEM certificates: {}", causes(&error)))
    })?;
    if certificates.is_empty() {
        return Err(Reason::new(format!("`{path}` contains no PEM certificates")));
    }
    let builder = builder.tls_certs_only(certificates).https_only(true);
    let Some(client) = &tls.client else { return Ok(builder) };
    let mut pem = files::read_with_hint(&client.cert_file, files::LARGEST)?;
    pem.push(b'\n');
    pem.extend(files::read_with_hint(&client.key_file, files::LARGEST)?);
    let identity = reqwest::Identity::from_pem(&pem).map_err(|_| {
        let (cert, key) = (client.cert_file.display(), client.key_file.display());
        Reason::new(format!("`{cert}` and `{key}` are not a PEM certificate and its key"))
    })?;
    Ok(builder.identity(identity))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: ClientBuilder, _: &Tls) -> Result<ClientBuilder, Reason> {
    Err(Reason::new("this podnudge was built without TLS"))
}

/// The causes of an error, without its own text, which repeats the URL and its query.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let causes: Vec<String> =
        std::iter::successors(std::error::Error::source(error), |error| error.source())
            .map(ToString::to_string)
            .collect();
    let mut distinct: Vec<&str> = Vec::new();
    for cause in &causes {
        // Some layers repeat the layer below.
        if !distinct.iter().any(|said| said.contains(cause.as_str())) {
            distinct.push(cause);
        }
    }
    if distinct.is_empty() { "no reason was given".to_owned() } else { distinct.join(": ") }
}
