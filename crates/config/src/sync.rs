//! The options of `podnudge sync`. Pure.

use std::path::PathBuf;
use std::time::Duration;

use super::agent::{DEFAULT_LISTEN, Listen, LogFormat, LogLevel, listen};
use super::cluster::{Cluster, check_url};
use super::parsers::{is_subdomain, namespace, url};
use podnudge_core::duration::bounded_duration;
use podnudge_core::reason::Reason;
use podnudge_core::shown;

/// What the options say.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// How to reach the API server.
    pub cluster: Cluster,
    /// The names of the Secrets that are followed.
    pub secrets: Vec<String>,
    /// The most requests about pods in a second.
    pub rate: u32,
    /// The name of the Lease.
    pub lease: String,
    /// After which time without a renewal another podnudge takes over.
    pub lease_duration: Duration,
    /// Where metrics and probes are served.
    pub listen: Listen,
    /// The format of the log.
    pub log: LogFormat,
    /// What is logged.
    pub log_level: LogLevel,
}

/// An option: its name, the name of its value, its default, and what it means.
type SyncOption = (&'static str, &'static str, Option<&'static str>, &'static str);

/// The name of the option that can be repeated.
pub const SECRET: &str = "secret";

/// All options of `podnudge sync`.
pub const SYNC_OPTIONS: [SyncOption; 11] = [
    (
        SECRET,
        "NAME",
        None,
        "Also follow the Secret with this name. Repeatable. The right to list a Secret is the right to read it",
    ),
    ("rate", "N", Some("50"), "The most requests about pods in a second"),
    (
        "lease",
        "NAME",
        Some("podnudge-sync"),
        "The Lease whose holder works; the other replicas wait",
    ),
    (
        "lease-duration",
        "TIME",
        Some("15s"),
        "After this time without a renewal, another replica takes over",
    ),
    (
        "listen",
        "ADDRESS",
        Some("[::]:9533"),
        "Serve /metrics, /livez, /readyz and /status at this address or port; or `off`",
    ),
    ("log", "FORMAT", Some("text"), "The log format: text or json"),
    (
        "log-level",
        "LEVEL",
        Some("info"),
        "The lowest level that is logged: error, warn, info or debug",
    ),
    ("namespace", "NAME", None, "The namespace [default: that of the service account]"),
    ("url", "URL", None, "The URL of the API server [default: that of the cluster]"),
    (
        "ca-file",
        "FILE",
        Some("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"),
        "The CA certificates to trust for the API server",
    ),
    (
        "token-file",
        "FILE",
        Some("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        "The token of the service account, read for each request",
    ),
];

/// The most Secrets: each has a connection of its own.
const MOST_SECRETS: usize = 16;
const MOST_RATE: u32 = 1000;

impl SyncOptions {
    /// Reads the values that were given for each option.
    ///
    /// # Errors
    /// What is wrong with an option, which its name stands for.
    pub fn parse(
        given: impl Fn(&'static str) -> Vec<String>,
    ) -> Result<Self, (&'static str, Reason)> {
        let value = |wanted: &'static str| {
            let default = SYNC_OPTIONS.iter().find(|(name, ..)| *name == wanted);
            let default = default.and_then(|(_, _, default, _)| *default).map(str::to_owned);
            given(wanted).pop().or(default)
        };
        let text = |name| value(name).unwrap_or_default();
        let path = |name| Some(PathBuf::from(value(name)?));
        let of = |name: &'static str| move |reason: Reason| (name, reason);
        let secrets = given(SECRET);
        if secrets.len() > MOST_SECRETS {
            let message = format!("there are {} of them", secrets.len());
            let hint = format!("at most {MOST_SECRETS} Secrets can be followed");
            return Err((SECRET, Reason::new(message).hint(hint)));
        }
        for secret in &secrets {
            object_name(secret, "a Secret").map_err(of(SECRET))?;
        }
        let url = value("url").map(|text| url(&text).and_then(check_url)).transpose();
        let namespace = value("namespace").map(|text| namespace(&text)).transpose();
        let (least, most) = (Duration::from_secs(5), Duration::from_hours(1));
        Ok(Self {
            cluster: Cluster {
                url: url.map_err(of("url"))?,
                ca_file: path("ca-file").unwrap_or_default(),
                token_file: path("token-file").unwrap_or_default(),
                namespace: namespace.map_err(of("namespace"))?,
                eager_sync: false,
                eager_sync_spread: None,
                objects: Vec::new(),
                events: false,
            },
            secrets,
            rate: rate(&text("rate")).map_err(of("rate"))?,
            lease: object_name(&text("lease"), "a Lease").map_err(of("lease"))?,
            lease_duration: bounded_duration(&text("lease-duration"), least, most)
                .map_err(of("lease-duration"))?,
            listen: match given("listen").pop() {
                Some(text) => listen(&text).map_err(of("listen"))?,
                None => Listen::Default(DEFAULT_LISTEN),
            },
            log: match text("log").as_str() {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                other => return Err(("log", is_none_of(other, "text or json"))),
            },
            log_level: match text("log-level").as_str() {
                "error" => LogLevel::Error,
                "warn" => LogLevel::Warn,
                "info" => LogLevel::Info,
                "debug" => LogLevel::Debug,
                other => {
                    return Err(("log-level", is_none_of(other, "error, warn, info or debug")));
                }
            },
        })
    }
}

fn is_none_of(text: &str, words: &str) -> Reason {
    Reason::new(format!("{} is unknown", shown::literal(text))).hint(format!("write {words}"))
}

fn object_name(text: &str, what: &str) -> Result<String, Reason> {
    if is_subdomain(text) {
        return Ok(text.to_owned());
    }
    let text = shown::literal(text);
    let hint = "write the name alone, in lower case, such as `web-tls`";
    Err(Reason::new(format!("{text} is not the name of {what}")).hint(hint))
}

fn rate(text: &str) -> Result<u32, Reason> {
    let rate = text.parse().ok().filter(|rate| (1..=MOST_RATE).contains(rate));
    rate.ok_or_else(|| {
        let text = shown::literal(text);
        Reason::new(format!("{text} is not a number of requests a second"))
            .hint(format!("write a whole number from 1 to {MOST_RATE}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[(&str, &str)]) -> Result<SyncOptions, (&'static str, Reason)> {
        SyncOptions::parse(|wanted| {
            let values = given.iter().filter(|(name, _)| *name == wanted);
            values.map(|(_, value)| (*value).to_owned()).collect()
        })
    }

    #[test]
    fn every_option_has_a_default() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.rate, options.lease.as_str()), (50, "podnudge-sync"));
        assert_eq!(options.lease_duration, Duration::from_secs(15));
        assert_eq!(options.listen, Listen::Default(DEFAULT_LISTEN));
        let Cluster { url, namespace, token_file, .. } = options.cluster;
        assert_eq!((url, namespace), (None, None));
        assert!(token_file.ends_with("serviceaccount/token"));
    }

    #[test]
    fn wrong_values_are_refused_with_a_remedy() {
        for (name, value) in [
            ("secret", "secret/tls"),
            ("secret", "A"),
            ("rate", "0"),
            ("rate", "fast"),
            ("rate", "1001"),
            ("lease", ""),
            ("lease-duration", "15"),
            ("listen", "here"),
            ("log", "xml"),
            ("log-level", "all"),
            ("url", "http://10.0.0.1"),
        ] {
            let (of, reason) = parse(&[(name, value)]).unwrap_err();
            assert_eq!(of, name);
            assert!(reason.hint.is_some(), "{name} {value}: {reason}");
        }
        let (_, short) = parse(&[("lease-duration", "1s")]).unwrap_err();
        assert!(short.message.contains("at least `5s`"), "{short}");
        let many = [("secret", "a"); 17];
        assert!(parse(&many).is_err());
        let some = parse(&[("secret", "a"), ("secret", "b"), ("url", "http://127.0.0.1:1")]);
        assert_eq!(some.unwrap().secrets, ["a", "b"]);
    }
}
