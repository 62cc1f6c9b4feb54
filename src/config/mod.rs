//! What the program needs to know, fully decided: every default is filled in, every file name,
//! number, pattern and URL has been checked.
//!
//! Three levels, from the outside in: `raw.rs` mirrors the TOML file and the flags one to one,
//! `validate.rs` turns it into the types below and collects every problem on the way, and the
//! rest of the program sees only these types. `effective.rs` writes them as a file again. All of
//! this is pure; `load.rs` does the reading.

mod action;
mod check;
mod effective;
mod load;
mod places;
mod problem;
mod program;
mod proof;
mod publish;
mod raw;
mod request;
mod socket;
mod table;
mod types;
mod validate;
mod verify;
mod window;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use action::{Action, Budget, Restart, SignalAction, Step};
pub use check::{Check, Condition, Syntax};
pub use effective::effective;
pub use load::{LoadError, Settings, load};
pub(crate) use problem::nearest;
pub use problem::{At, Problem, Problems};
pub use program::Program;
pub use proof::{BodyProof, HttpProof, ProofBy, Scalar, Verify};
pub use publish::Publish;
pub use raw::{Override, Overrides};
pub use request::HttpCheck;
pub use socket::{SocketAddress, SocketCommand};
pub(crate) use types::{duration, url};
pub use window::{Hold, Window};

/// Makes the configuration from the file's text (empty without one) and from what goes before
/// it. `bundle` is the system's CA bundle, for https without `ca-file`. No time zone is known by
/// its name. Pure.
///
/// # Errors
///
/// All problems at once.
pub fn parse(
    file_name: &str,
    text: &str,
    overrides: &Overrides,
    bundle: Option<&Path>,
) -> Result<(Config, Vec<Problem>), Problems> {
    parse_with_zones(file_name, text, overrides, bundle, &|_| None)
}

/// The same, with the time zones of the system.
fn parse_with_zones(
    file_name: &str,
    text: &str,
    overrides: &Overrides,
    bundle: Option<&Path>,
    zones: window::Zones<'_>,
) -> Result<(Config, Vec<Problem>), Problems> {
    let report = problem::Report::new(file_name, text, zones);
    let config = raw::read(text, &report).and_then(|mut root| {
        raw::overlay(&mut root, overrides, &report);
        validate::config(table::Table::root(root, &report), bundle)
    });
    report.judge(config)
}

/// The whole effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What concerns podnudge itself.
    pub agent: Agent,
    /// At least one rule, in the order of the file; names are unique.
    pub rules: Vec<Rule>,
}

/// What concerns podnudge itself, not one rule.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Where `/metrics`, `/livez`, `/readyz` and `/status` are served.
    pub listen: Listen,
    /// Who may `POST /reload`.
    pub reload: ReloadEndpoint,
    /// How log lines look.
    pub log: LogFormat,
    /// How much is logged.
    pub log_level: LogLevel,
    /// Where private copies for checks are made.
    pub work_dir: PathBuf,
    /// Where the applied digests survive a restart of podnudge.
    pub state_dir: Option<PathBuf>,
    /// Whether inotify is used at all.
    pub watch: WatchMode,
    /// How often every volume is compared with what was read last.
    pub audit: Duration,
    /// How often a volume is looked at while inotify does not serve it.
    pub poll: Duration,
    /// How long a running action may go on after SIGTERM.
    pub grace: Duration,
}

/// The admin listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// No admin listener.
    Off,
    /// The default address: a port in use is a warning, not the end.
    Default(SocketAddr),
    /// An address that the user named: a port in use ends podnudge.
    Explicit(SocketAddr),
}

/// Who may force a reload over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadEndpoint {
    /// There is no `POST /reload`.
    Off,
    /// Only clients whose address is a loopback address.
    Loopback,
    /// Only clients that present the bearer token in this file, re-read for each request.
    Token(PathBuf),
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what needs a person.
    Error,
    /// Also what may need one.
    Warn,
    /// Also what an operator acts on; the default.
    Info,
    /// Also every hint and every decision.
    Debug,
}

/// Whether inotify is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchMode {
    /// inotify, with polling while it cannot serve.
    Inotify,
    /// Polling by choice.
    Poll,
}

/// Some watched volumes, one target, and what is done to it.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Unique; a DNS label, so that it can stand in metrics and file names.
    pub name: String,
    /// The watched directories and files, absolute.
    pub watch: Vec<PathBuf>,
    /// Which keys count.
    pub keys: KeyFilter,
    /// What the content must be like before it is used, in their order.
    pub checks: Vec<Check>,
    /// Where the application reads instead of from the volumes.
    pub publish: Option<Publish>,
    /// How long a volume must be quiet before it is read.
    pub settle: Duration,
    /// The longest wait for quiet.
    pub settle_max: Duration,
    /// How replicas are spread.
    pub jitter: Jitter,
    /// The shortest time between two actions.
    pub min_interval: Duration,
    /// What happens after a failure that may pass.
    pub retry: Retry,
    /// What happens at start when nothing is known about the application.
    pub on_start: OnStart,
    /// Whom the rule concerns.
    pub target: Target,
    /// What is done, in this order; at least one action.
    pub actions: Vec<Action>,
    /// How the target is restarted, where it is.
    pub restart: Restart,
    /// What is done about content that did not take.
    pub on_failure: Vec<Step>,
    /// When nothing new is begun.
    pub hold: Hold,
    /// How it is known that the application took the change.
    pub verify: Verify,
}

impl Rule {
    /// Whether it is about a process. A request or a program needs none; one that is named all the
    /// same is waited for and watched.
    #[must_use]
    pub fn names_process(&self) -> bool {
        self.actions.iter().any(Action::needs_process) || !matches!(self.target.by, TargetBy::Mount)
    }

    /// What the application mounts and reads: the volumes, or what is published from them.
    #[must_use]
    pub fn read_by_application(&self) -> &[PathBuf] {
        match &self.publish {
            Some(publish) => std::slice::from_ref(&publish.dir),
            None => &self.watch,
        }
    }

    /// Whether its actions themselves restart the target.
    #[must_use]
    pub fn restarts_target(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Restart))
    }
}

/// Which keys of the rule's volumes count. `only` and `ignore` are matched against the key's
/// path below the volume's content root.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// When not empty, only keys that match one of these count.
    pub only: Vec<glob::Pattern>,
    /// Keys that match one of these never count.
    pub ignore: Vec<glob::Pattern>,
    /// The key that pauses the rule, [`Hold::pause_key`]. It never counts: it is there or not.
    pub pause: Option<String>,
}

/// The deliberate, per-replica wait before acting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// The wait is at least 0 and less than this.
    pub window: Duration,
    /// What decides the place in the window.
    pub by: JitterBy,
}

/// What decides a replica's place in the jitter window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterBy {
    /// The pod's identity and the digest: another order for each change.
    Pod,
    /// The `StatefulSet` ordinal at the end of the pod's name.
    Ordinal,
    /// A random number.
    Random,
}

/// Retries with exponential backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The wait after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// How many times a digest is acted on at most.
    pub attempts: u32,
}

/// What the first look at the volumes may cause, where no state directory tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStart {
    /// Act once if the newest commit is newer than the target's start.
    IfNewer,
    /// Never act on the first look.
    Never,
    /// Always act on the first look.
    Always,
}

/// Whom the rule concerns.
#[derive(Debug, Clone)]
pub struct Target {
    /// How the process is found.
    pub by: TargetBy,
    /// Only processes of this effective uid.
    pub uid: Option<u32>,
    /// Every match, instead of the root of the matching process tree.
    pub all: bool,
    /// How long a target that is not there yet is not called a failure.
    pub wait: Duration,
}

/// How the target process is found.
#[derive(Debug, Clone)]
pub enum TargetBy {
    /// Whoever mounts the watched volumes.
    Mount,
    /// The process name, as in `/proc/PID/comm`, or for names over 15 characters the base name
    /// of the executable or of the first argument.
    Process(String),
    /// The path of the executable.
    Exe(PathBuf),
    /// A regular expression over the arguments, joined by spaces.
    Cmdline(regex_lite::Regex),
    /// A file that holds the pid, as podnudge sees it.
    Pidfile(PathBuf),
}

/// An HTTP request that makes the application reload.
#[derive(Debug, Clone)]
pub struct HttpAction {
    /// Where it goes and how one gets in.
    pub endpoint: Endpoint,
    /// The request method.
    pub method: reqwest::Method,
    /// The request body.
    pub body: Body,
    /// Statuses that mean success; empty: any 2xx.
    pub expect: Vec<u16>,
}

/// A request body.
#[derive(Debug, Clone)]
pub enum Body {
    /// None.
    Empty,
    /// This text.
    Text(String),
    /// The content of this file, read for each request.
    File(PathBuf),
}

/// Where a request goes, and how one gets in.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `http` or `https`.
    pub url: reqwest::Url,
    /// Connect here instead of to the URL's host.
    pub unix_socket: Option<PathBuf>,
    /// Extra request headers.
    pub headers: Vec<(reqwest::header::HeaderName, reqwest::header::HeaderValue)>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Files for https; `None` for http.
    pub tls: Option<Tls>,
    /// The limit for the whole exchange.
    pub timeout: Duration,
}

/// Credentials; the secrets are in files, read for each request.
#[derive(Debug, Clone)]
pub enum Auth {
    /// `Authorization: Basic`.
    Basic {
        /// The user name.
        username: String,
        /// The file that holds the password.
        password_file: PathBuf,
    },
    /// `Authorization: Bearer`.
    Bearer {
        /// The file that holds the token.
        token_file: PathBuf,
    },
}

/// Files for https, read for each request.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM certificates that sign the server's.
    pub ca_file: PathBuf,
    /// The client's certificate chain and its key.
    pub client: Option<ClientCertificate>,
}

/// The client's certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate chain.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}
