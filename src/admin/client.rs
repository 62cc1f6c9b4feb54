//! Requests to a running podnudge: `podnudge status` and `podnudge trigger`, because an image
//! without a shell has no curl either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Client, Response, Url};

use super::order::Order;
use super::status_table::{self, Columns};
use crate::exchange::client::base_client;
use crate::system::exit::Exit;
use crate::system::files;
use crate::system::own_socket;
use podnudge_config::{Listen, url as url_of};
use podnudge_core::reason::Reason;
use podnudge_core::shown::{self, Colours};

/// `podnudge status`.
#[derive(Debug, Clone)]
pub struct Status {
    /// What is printed.
    pub output: Output,
    /// Print it again each time that it has changed.
    pub watch: bool,
    /// The admin listener, without a path; the podnudge of this container if it is not given.
    pub url: Option<Url>,
}

/// What `podnudge status` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A table.
    Table,
    /// A table with more columns.
    Wide,
    /// The JSON unchanged.
    Json,
}

/// The output of `podnudge status`.
#[derive(Debug, Clone)]
pub struct Shown {
    /// What is printed.
    pub text: String,
    /// The exit code.
    pub exit: Exit,
    /// A text that differs when something has changed, and not only because time has passed.
    pub state: String,
}

/// `podnudge trigger`, `approve`, `pause` and `resume`.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is asked for.
    pub order: Order,
    /// The rule's name; `None` for all rules.
    pub rule: Option<String>,
    /// The file with the bearer token, if one is required.
    pub token_file: Option<PathBuf>,
    /// The admin listener, without a path; the podnudge of this container if it is not given.
    pub url: Option<Url>,
}

/// Where podnudge listens unless `listen` says otherwise.
const USUAL: &str = "http://127.0.0.1:9533";
const LIMIT: Duration = Duration::from_secs(5);
/// The most bytes of an answer. The status of a rule takes some KiB.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Asks for the status.
///
/// # Errors
/// If there is no answer, or another program answers.
pub async fn show(arguments: &Status, colours: Colours) -> Result<Shown, Reason> {
    let json = status(&Podnudge::find(arguments.url.as_ref()).await?).await?;
    let columns = if arguments.output == Output::Wide { Columns::All } else { Columns::Most };
    let (table, is_right) = status_table::render(&json, columns, colours)?;
    let exit = if is_right { Exit::Ok } else { Exit::NotInSync };
    let text = if arguments.output == Output::Json { shown::json(&json) } else { table };
    Ok(Shown { text, exit, state: status_table::state(&json)? })
}

/// Asks a running podnudge for something. Returns its answer.
///
/// # Errors
/// If there is no answer, or it refuses.
pub async fn ask(arguments: &Ask) -> Result<String, Reason> {
    let token = arguments.token_file.as_deref().map(files::secret).transpose()?;
    let podnudge = Podnudge::find(arguments.url.as_ref()).await?;
    let mut address = podnudge.at(arguments.order.path());
    if let Some(rule) = &arguments.rule {
        address.query_pairs_mut().append_pair("rule", rule);
    }
    if let Order::Pause(time) = arguments.order {
        address.query_pairs_mut().append_pair("for", &format!("{}s", time.as_secs()));
    }
    let ask = async {
        let mut request = podnudge.client()?.post(address);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok((answer.status(), read(answer).await?))
    };
    let (status, text) = ask.await.map_err(|error| no_answer(&podnudge.url, error))?;
    let text = shown::message(&text);
    if status.is_success() {
        return Ok(text);
    }
    // The second line, if there is one, says what to do.
    let (message, hint) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    let reason = Reason::new(format!("podnudge refused the request with {status}: {message}"));
    Err(if hint.is_empty() { reason } else { reason.hint(hint) })
}

/// Reads an answer. Any process may have sent it.
async fn read(mut answer: Response) -> Result<String, AnswerError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MOST_BYTES {
            return Err(AnswerError::TooLarge);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why there is no answer.
enum AnswerError {
    Failed(reqwest::Error),
    TooLarge,
}

impl From<reqwest::Error> for AnswerError {
    fn from(error: reqwest::Error) -> Self {
        Self::Failed(error)
    }
}

/// Where the podnudge is that is asked.
struct Podnudge {
    /// The URL of podnudge's port, without a path.
    url: Url,
    /// The socket of podnudge, if it runs in this container.
    socket: Option<PathBuf>,
}

impl Podnudge {
    /// The one at this URL; without one, the podnudge of this container, or that of the pod at its usual port.
    ///
    /// # Errors
    /// Never, because the usual port is valid.
    async fn find(url: Option<&Url>) -> Result<Self, Reason> {
        Ok(match url {
            Some(url) => Self { url: url.clone(), socket: None },
            None => Self { url: url_of(USUAL)?, socket: own_socket::path_of_running().await },
        })
    }

    fn at(&self, path: &str) -> Url {
        self.url.join(path).unwrap_or_else(|_| self.url.clone())
    }

    fn client(&self) -> Result<Client, reqwest::Error> {
        let client = base_client(LIMIT);
        match &self.socket {
            Some(socket) => client.unix_socket(socket.clone()).build(),
            None => client.build(),
        }
    }
}

/// The status as JSON.
///
/// # Errors
/// If there is no answer, or another program answers.
async fn status(podnudge: &Podnudge) -> Result<String, Reason> {
    let ask = async {
        let answer = podnudge.client()?.get(podnudge.at("/status")).send().await?;
        read(answer.error_for_status()?).await
    };
    ask.await.map_err(|error| no_answer(&podnudge.url, error))
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
    status(&Podnudge { url, socket: None })
        .await
        .is_ok_and(|status| status_table::render(&status, Columns::Most, Colours::Off).is_ok())
}

fn no_answer(url: &Url, error: AnswerError) -> Reason {
    let shown = url.as_str().trim_end_matches('/');
    let what = match error {
        AnswerError::Failed(error) if error.is_connect() => "no process listens there".to_owned(),
        AnswerError::Failed(error) if error.is_timeout() => "no answer in 5 seconds".to_owned(),
        AnswerError::Failed(error) => error.without_url().to_string(),
        AnswerError::TooLarge => format!("its answer is longer than {} MiB", MOST_BYTES >> 20),
    };
    Reason::new(format!("cannot reach podnudge at {shown}: {what}"))
        .hint("run it in podnudge's own container, or give its listen address by --url")
}
