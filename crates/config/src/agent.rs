//! `[agent]`: settings of podnudge itself. Pure.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::prelude::*;

/// The default address of the admin listener: all interfaces, because the kubelet's probes and
/// Prometheus use the pod's address, which may be IPv4 or IPv6.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 9533);

settings! {
    /// Settings of podnudge itself.
    pub struct Agent = "[agent]",
        &[Relation::AtMostOne(&["reload", "reload-token-file"])];
        validated
    {
        /// Serve the page, the metrics, the probes and the status at this address or port, such as `:9533`; or `off`.
        listen: Option<Listen> = optional("`[::]:9533`, IPv6 and IPv4; if that port is in use, podnudge warns and tries again", parsed("an address, a port or `off`", listen, show_listen)).option("listen", "ADDRESS", Podnudge).common();
        /// Who may send `POST /reload`: nobody (`off`), or clients in the same pod (`loopback`).
        reload: Option<Reload> = optional("`off`, unless `reload-token-file` is set", choice()).option("reload", "WHO", Podnudge);
        /// A file with a bearer token, read for each request. Clients that present it may send `POST /reload`.
        reload_token_file: Option<PathBuf> = optional("", path());
        /// Whose digests `/metrics` shows: those of rules that watch nothing but ConfigMaps, those of all rules, or none. The digest of a short secret can be guessed, so the log and `/status` also name content otherwise, unless this is `all`.
        digests_in_metrics: DigestsInMetrics = default("configmaps", choice());
        /// Also serve `/healthz`, and the metrics of prometheus-config-reloader under their names.
        reloader_metrics: bool = default("false", boolean());
        /// The log format.
        log: LogFormat = default("text", choice()).option("log", "FORMAT", Podnudge);
        /// The lowest level that is logged.
        log_level: LogLevel = default("info", choice()).option("log-level", "LEVEL", Podnudge);
        /// The directory for the private copies that checks read, and for what podnudge remembers of its checks.
        work_dir: PathBuf = default("/tmp", path());
        /// A directory in which podnudge remembers what the application runs and which content it checks, for its own restarts.
        state_dir: Option<PathBuf> = optional("nothing is remembered", path()).option("state-dir", "DIR", Podnudge);
        /// Watch volumes with inotify, and poll those that it cannot serve; or poll all of them.
        watch: WatchMode = default("inotify", choice()).option("watch-mode", "MODE", Podnudge);
        /// How often to compare every volume with what was read last.
        resync: Duration = default("30s", duration(SECOND, HOUR)).option("resync", "TIME", Podnudge);
        /// How often to poll a volume.
        poll: Duration = default("5s", duration(MS.saturating_mul(100), MINUTE.saturating_mul(10))).option("poll", "TIME", Podnudge);
        /// How long a running action may continue after SIGTERM.
        grace: Duration = default("10s", duration(ZERO, MINUTE.saturating_mul(10))).option("grace", "TIME", Podnudge);
    }
}

/// The admin listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// No admin listener.
    Off,
    /// The default address; if the port is in use, podnudge warns, and tries again to open it.
    Default(SocketAddr),
    /// An address from the configuration; if the port is in use, podnudge exits.
    Explicit(SocketAddr),
}

words! {
    /// Who may send `POST /reload` without a token.
    pub enum Reload {
        /// Nobody may.
        Off = "off",
        /// Clients whose address is a loopback address.
        Loopback = "loopback",
    }
}

words! {
    /// Whose digests the metrics show.
    pub enum DigestsInMetrics {
        /// The digests of rules that watch nothing but ConfigMaps.
        Configmaps = "configmaps",
        /// The digests of all rules.
        All = "all",
        /// No digests.
        None = "none",
    }
}

/// Who may send `POST /reload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadEndpoint {
    /// Nobody: `POST /reload` is off.
    Off,
    /// Only clients whose address is a loopback address.
    Loopback,
    /// Only clients that present the bearer token in this file, re-read for each request.
    Token(PathBuf),
}

words! {
    /// The format of the log.
    pub enum LogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

words! {
    /// The lowest level that is logged.
    pub enum LogLevel {
        /// Only what needs an operator.
        Error = "error",
        /// Also what may need an operator.
        Warn = "warn",
        /// Also changes, actions and their results; the default.
        Info = "info",
        /// Also every inotify event and every decision.
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
    /// The address of the admin listener.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen.unwrap_or(Listen::Default(DEFAULT_LISTEN))
    }

    /// Who may send `POST /reload`.
    #[must_use]
    pub fn reload(&self) -> ReloadEndpoint {
        match (&self.reload_token_file, self.reload) {
            (Some(file), _) => ReloadEndpoint::Token(file.clone()),
            (None, Some(Reload::Loopback)) => ReloadEndpoint::Loopback,
            (None, Some(Reload::Off) | None) => ReloadEndpoint::Off,
        }
    }

    fn validate(&mut self, place: &Place<'_>) {
        if let Some(Listen::Explicit(address)) = self.listen
            && address.port() == 0
        {
            let reason = Reason::new("port 0 means a different port at each start");
            place.warn(Value("listen"), reason.hint("set the port that probes and Prometheus use"));
        }
        if self.listen == Some(Listen::Off) && self.reload() != ReloadEndpoint::Off {
            let has_token = self.reload_token_file.is_some();
            let key = if has_token { "reload-token-file" } else { "reload" };
            let reason = Reason::new("`POST /reload` needs the listener, which is off");
            place.problem(Value(key), reason.hint("leave out `listen = \"off\"`"));
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
pub(super) fn listen(text: &str) -> Result<Listen, Reason> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    match full.parse::<SocketAddr>() {
        Ok(address) => Ok(Listen::Explicit(address)),
        Err(_) => Err(is_not(text, "an address to listen on")
            .hint("`off`, a port such as `:9533`, or an IP address such as `127.0.0.1:9533`")),
    }
}
