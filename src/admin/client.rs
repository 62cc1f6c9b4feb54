//! Requests to a running podnudge: `podnudge status` and `podnudge trigger`, because an image
//! without a shell has no curl either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

use super::table;
use crate::config::Listen;
use crate::exchange::http::base_client;
use crate::exit::Exit;
use crate::files;
use crate::reason::Reason;
use crate::shown::Colours;

/// `podnudge status`.
#[derive(Debug, Clone)]
pub struct Status {
    /// Print the JSON unchanged instead of a table.
    pub json: bool,
    /// The admin listener, without a path.
    pub url: Url,
}

/// `podnudge trigger`.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// The rule's name; `None` for all rules.
    pub rule: Option<String>,
    /// The file with the bearer token, if one is required.
    pub token_file: Option<PathBuf>,
    /// The admin listener, without a path.
    pub url: Url,
}

const LIMIT: Duration = Duration::from_secs(5);

/// The output of `podnudge status`, and its exit code.
///
/// # Errors
/// If there is no answer, or another program answers.
pub async fn show(arguments: &Status, colours: Colours) -> Result<(String, Exit), Reason> {
    let json = status(&arguments.url).await?;
    let (table, is_right) = table::render(&json, colours)?;
    let exit = if is_right { Exit::Ok } else { Exit::NotInSync };
    Ok((if arguments.json { json } else { table }, exit))
}

/// Triggers an action in a running podnudge. Returns its answer.
///
/// # Errors
/// If there is no answer, or it refuses.
pub async fn trigger(arguments: &Trigger) -> Result<String, Reason> {
    let token = arguments.token_file.as_deref().map(files::secret).transpose()?;
    let mut address = arguments.url.join("/reload").unwrap_or_else(|_| arguments.url.clone());
    if let Some(rule) = &arguments.rule {
        address.query_pairs_mut().append_pair("rule", rule);
    }
    let ask = async {
        let mut request = base_client(LIMIT).build()?.post(address);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok((answer.status(), answer.text().await?))
    };
    let (status, text) = ask.await.map_err(|error| no_answer(&arguments.url, error))?;
    if status.is_success() {
        return Ok(text);
    }
    Err(Reason::new(format!("podnudge refused the request with {status}: {}", text.trim())))
}

/// The status as JSON. `url` is the admin listener's, without a path.
///
/// # Errors
/// If there is no answer, or another program answers.
async fn status(url: &Url) -> Result<String, Reason> {
    let ask = async {
        let client = base_client(LIMIT).build()?;
        let address = url.join("/status").unwrap_or_else(|_| url.clone());
        client.get(address).send().await?.error_for_status()?.text().await
    };
    ask.await.map_err(|error| no_answer(url, error))
}

/// Whether a podnudge listens at this address.
pub(crate) async fn is_podnudge(listen: Listen) -> bool {
    let (Listen::Default(address) | Listen::Explicit(address)) = listen else { return false };
    let local = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let url = format!("http://{}", SocketAddr::new(local, address.port()));
    let Ok(url) = url.parse() else { return false };
    status(&url).await.is_ok_and(|status| table::render(&status, Colours::Off).is_ok())
}

fn no_answer(url: &Url, error: reqwest::Error) -> Reason {
    let shown = url.as_str().trim_end_matches('/');
    let what = if error.is_connect() {
        "no process listens there".to_owned()
    } else if error.is_timeout() {
        "no answer in 5 seconds".to_owned()
    } else {
        error.without_url().to_string()
    };
    Reason::new(format!("cannot reach podnudge at {shown}: {what}"))
        .hint("run it in podnudge's own container, and give its listen address by --url if that is not the default")
}
