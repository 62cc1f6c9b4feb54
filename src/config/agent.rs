//! `[agent]`: what concerns podnudge itself, not one rule. Pure.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::define::Heading::Agent as AGENT;
use super::define::{Relation, option};
use super::place::Place;
use super::types::{HOUR, MINUTE, MS, SECOND, ZERO, choice, duration, file, text};
use crate::reason::Reason;
use crate::shown::literal;

/// Where the admin listener is by default: all interfaces, because the kubelet's probes and
/// Prometheus come by the pod's address, which may be of either family.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 9533);

settings! {
    /// Settings of podnudge itself.
    pub struct Agent = "[agent]",
        &[Relation::AtMostOne(&["reload", "reload-token-file"])];
        judge judge_listener
    {
        /// Serve /metrics, /livez, /readyz and /status at this address or port, such as `:9533`; or `off`.
        listen: Option<Listen> = optional("`[::]:9533`, IPv6 and IPv4; if that port is in use, podnudge warns and runs without it", text("an address, a port or `off`", listen, show_listen)), option("listen", "ADDRESS", AGENT).common();
        /// Who may send `POST /reload`: nobody (`off`), or clients in the same pod (`loopback`).
        reload: Option<Reload> = optional("`off`, unless `reload-token-file` is set", choice::<Reload>()), option("reload", "WHO", AGENT);
        /// A file with a bearer token, read for each request. Clients that present it may send `POST /reload`.
        reload_token_file: Option<PathBuf> = optional("", file("a path"));
        /// The log format.
        log: LogFormat = default("text", choice::<LogFormat>()), option("log", "FORMAT", AGENT);
        /// The lowest level that is logged.
        log_level: LogLevel = default("info", choice::<LogLevel>()), option("log-level", "LEVEL", AGENT);
        /// The directory for the private copies that checks read.
        work_dir: PathBuf = default("/tmp", file("a path"));
        /// A directory in which podnudge remembers what the application runs, for its own restarts.
        state_dir: Option<PathBuf> = optional("nothing is remembered", file("a path")), option("state-dir", "DIR", AGENT);
        /// Watch volumes with inotify, and poll those that it cannot serve; or poll all of them.
        watch: WatchMode = default("inotify", choice::<WatchMode>()), option("watch-mode", "MODE", AGENT);
        /// How often to compare every volume with what was read last.
        resync: Duration = default("30s", duration(SECOND, HOUR)), option("resync", "TIME", AGENT);
        /// How often to poll a volume.
        poll: Duration = default("5s", duration(MS.saturating_mul(100), MINUTE.saturating_mul(10))), option("poll", "TIME", AGENT);
        /// How long a running action may continue after SIGTERM.
        grace: Duration = default("10s", duration(ZERO, MINUTE.saturating_mul(10))), option("grace", "TIME", AGENT);
    }
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

words! {
    /// Who may `POST /reload` without a token.
    pub enum Reload {
        /// Nobody.
        Off = "off",
        /// Clients whose address is a loopback address.
        Loopback = "loopback",
    }
}

/// Who may `POST /reload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadEndpoint {
    /// There is no `POST /reload`.
    Off,
    /// Only clients whose address is a loopback address.
    Loopback,
    /// Only clients that present the bearer token in this file, re-read for each request.
    Token(PathBuf),
}

words! {
    /// The format of the log.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

words! {
    /// How much is logged.
    pub enum LogLevel {
        /// Only what needs a person.
        Error = "error",
        /// Also what may need one.
        Warn = "warn",
        /// Also what an operator acts on; the default.
        Info = "info",
        /// Also every hint and every decision.
        Debug = "debug",
    }
}

words! {
    /// Whether inotify is used.
    pub enum WatchMode {
        /// inotify, with polling while it cannot serve.
        Inotify = "inotify",
        /// Polling by choice.
        Poll = "poll",
    }
}

impl Agent {
    /// Where the admin listener is.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen.unwrap_or(Listen::Default(DEFAULT_LISTEN))
    }

    /// Who may `POST /reload`.
    #[must_use]
    pub fn reload(&self) -> ReloadEndpoint {
        match (&self.reload_token_file, self.reload) {
            (Some(file), _) => ReloadEndpoint::Token(file.clone()),
            (None, Some(Reload::Loopback)) => ReloadEndpoint::Loopback,
            (None, Some(Reload::Off) | None) => ReloadEndpoint::Off,
        }
    }

    fn judge_listener(&mut self, place: &Place<'_>) {
        if let Some(Listen::Explicit(address)) = self.listen
            && address.port() == 0
        {
            let reason = Reason::new("port 0 means another port with each start");
            place.warn("listen", reason.hint("name a port that probes and Prometheus can know"));
        }
        if self.listen == Some(Listen::Off) && self.reload() != ReloadEndpoint::Off {
            let key = ["reload-token-file", "reload"].into_iter().find(|key| place.has(key));
            let reason = Reason::new("a reload by HTTP needs the listener, which is off");
            place.wrong(key.unwrap_or_default(), reason.hint("leave out `listen = \"off\"`"));
        }
    }
}

fn show_listen(listen: &Listen) -> String {
    match listen {
        Listen::Off => "off".to_owned(),
        Listen::Default(address) | Listen::Explicit(address) => address.to_string(),
    }
}

/// `off`, or an address to listen on.
fn listen(text: &str) -> Result<Listen, Reason> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    match full.parse::<SocketAddr>() {
        Ok(address) => Ok(Listen::Explicit(address)),
        Err(_) => Err(Reason::new(format!("{} is not an address to listen on", literal(text)))
            .hint("`off`, a port such as `:9533`, or a number address such as `127.0.0.1:9533`")),
    }
}
