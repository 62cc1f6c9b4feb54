//! The options of configmap-reload. Pure.

use std::fmt::Write as _;

use super::given::{self, Remarks};
use super::translation::{Instead, Translation, option, watch};
use crate::compat::options::{self, Given};
use crate::compat::words::{list, quoted};

const PEER: &str = "configmap-reload";

/// What its options say.
struct Options {
    volumes: Vec<String>,
    /// Each with the line for its credentials, if it has some.
    urls: Vec<(String, Option<String>)>,
    method: Option<String>,
    status: Option<i64>,
    /// How many requests it sends for a change until one succeeds.
    attempts: Option<u32>,
    listen: Option<String>,
}

pub(super) fn configmap_reload(arguments: &[String]) -> Option<Translation> {
    const OPTIONS: [&str; 7] = [
        "volume-dir",
        "webhook-url",
        "webhook-method",
        "webhook-status-code",
        "webhook-retries",
        "web.listen-address",
        "web.telemetry-path",
    ];
    let given = options::read(arguments, &OPTIONS, &[]).ok()?;
    let (volumes, urls) = (given::paths(given.all("volume-dir")), given.all("webhook-url"));
    let missing = match (volumes.is_empty(), urls.is_empty()) {
        (true, true) => return None,
        (true, false) => Some("volume-dir"),
        (false, true) => Some("webhook-url"),
        (false, false) => None,
    };
    if let Some(option) = missing {
        let remark = format!("`--{option}` is missing: {PEER} does not start without it");
        return Some(Translation::new(PEER, vec![remark], Instead::Nothing));
    }
    let mut remarks = Remarks::new();
    let path = given.last("web.telemetry-path").filter(|path| path != "/metrics");
    remarks
        .extend(path.map(|path| format!("podnudge has no `{path}`: its metrics are at /metrics")));
    let options = read(&given, volumes, &urls, &mut remarks);
    let instead = match options.urls.as_slice() {
        [(url, None)] if options.status.is_none() && options.attempts.is_none() => {
            let mut own = watch(&options.volumes);
            own.extend(option("--url", url));
            own.extend(options.method.iter().flat_map(|method| option("--method", method)));
            let listen = options.listen.iter().filter(|address| *address != ":9533");
            own.extend(listen.flat_map(|address| option("--listen", address)));
            remarks.push("success is any status from 200 to 299, and for configmap-reload only 200: that takes a file, with `expect = [200]` in [rule.http]".to_owned());
            Instead::Arguments(own)
        }
        _ => Instead::File(rules(&options)),
    };
    Some(Translation::new(PEER, remarks, instead))
}

fn read(given: &Given, volumes: Vec<String>, urls: &[String], remarks: &mut Remarks) -> Options {
    let mut number = |name: &str| {
        let text = given.last(name)?;
        given::number(&format!("--{name}"), &text, remarks)
    };
    let status = number("webhook-status-code");
    let attempts = number("webhook-retries");
    let attempts = attempts.map(|attempts| {
        // A negative number of them is never used up.
        let least = if attempts < 0 { u32::MAX } else { 1 };
        given::bounded("--webhook-retries", attempts, (least, u32::MAX), remarks)
    });
    let url = |(number, url): (usize, &String)| {
        let file = format!("/etc/podnudge/webhook-{}", number + 1);
        given::without_credentials(url, &file, remarks)
    };
    let urls = urls.iter().enumerate().map(url).collect();
    let listen = given.last_address("web.listen-address");
    let method = given.all("webhook-method").pop().filter(|method| method != "POST");
    // Go takes no method for GET.
    let method = method.map(|method| if method.is_empty() { "GET".to_owned() } else { method });
    Options { volumes, urls, method, status, attempts, listen }
}

/// A rule for each URL: each of them is to get a request.
fn rules(options: &Options) -> String {
    let mut file = String::new();
    if let Some(address) = &options.listen {
        _ = writeln!(file, "[agent]\nlisten = {}\n", quoted(address));
    }
    for (number, (url, credentials)) in options.urls.iter().enumerate() {
        let volumes = list(&options.volumes);
        _ = writeln!(file, "[[rule]]\nname = \"webhook-{}\"\nwatch = {volumes}", number + 1);
        if let Some(attempts) = options.attempts {
            // configmap-reload waits for 10 s after each failure.
            let retry = format!("first = \"10s\", max = \"10s\", attempts = {attempts}");
            _ = writeln!(file, "retry = {{ {retry} }}");
        }
        _ = writeln!(file, "[rule.http]\nurl = {}", quoted(url));
        if let Some(method) = &options.method {
            _ = writeln!(file, "method = {}", quoted(method));
        }
        _ = writeln!(file, "expect = [{}]", options.status.unwrap_or(200));
        file.push_str(credentials.as_deref().unwrap_or_default());
        file.push('\n');
    }
    file.trim_end().to_owned()
}
