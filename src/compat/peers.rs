//! The command lines and environments of other reloaders, translated. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::options::{self, Given};
use super::words::{argument, list, quoted};
use super::{COMMAND, PROMETHEUS_CONFIG_RELOADER};
use crate::reason::Reason;

type Environment = BTreeMap<String, String>;

/// What to start instead.
struct Translation {
    /// The program whose options or variables these are.
    peer: &'static str,
    /// What podnudge does not do, and what to do instead.
    remarks: Vec<String>,
    instead: Instead,
}

enum Instead {
    /// These arguments of podnudge.
    Arguments(Vec<String>),
    /// This file, for what options cannot express.
    File(String),
    /// Nothing.
    Nothing,
}

/// The message for the command line or the environment of another reloader. `None` if it is of none.
pub(super) fn translate(arguments: &[String], environment: &Environment) -> Option<Reason> {
    let translation = if arguments.is_empty() {
        config_reloader_sidecar(environment).or_else(|| k8s_sidecar(arguments, environment))
    } else {
        prometheus_config_reloader(arguments)
            .or_else(|| configmap_reload(arguments))
            .or_else(|| nats_server_config_reloader(arguments))
            .or_else(|| k8s_sidecar(arguments, environment))
    };
    translation.map(|translation| translation.reason(arguments.is_empty()))
}

impl Translation {
    fn reason(self, is_environment: bool) -> Reason {
        let Self { peer, remarks, instead } = self;
        let what = if is_environment { "environment" } else { "command line" };
        let mut message = format!("this is the {what} of {peer}");
        for remark in remarks {
            _ = write!(message, "\n  {remark}");
        }
        match instead {
            Instead::Arguments(arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|word| argument(word)).collect();
                _ = write!(
                    message,
                    "\n  for podnudge it is:\n    podnudge {}",
                    arguments.join(" ")
                );
            }
            Instead::File(file) => {
                _ = write!(
                    message,
                    "\n  for podnudge it is `podnudge --config FILE` with this file:"
                );
                for line in file.lines() {
                    let indent = if line.is_empty() { "" } else { "    " };
                    _ = write!(message, "\n{indent}{line}");
                }
            }
            Instead::Nothing => {}
        }
        Reason::new(message).hint(format!("docs/migration.md#{peer}"))
    }
}

/// Its own options, without `podnudge compat` before them.
fn prometheus_config_reloader(arguments: &[String]) -> Option<Translation> {
    const OWN: [&str; 6] = [
        "config-envsubst-file",
        "reload-url",
        "reload-method",
        "watched-dir",
        "config-file",
        "statefulset-ordinal-from-envvar",
    ];
    let is_own = |argument: &String| {
        let name = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
        argument.starts_with('-') && OWN.contains(&name)
    };
    arguments.iter().any(is_own).then(|| {
        let command = [COMMAND, PROMETHEUS_CONFIG_RELOADER].map(str::to_owned);
        Translation {
            peer: PROMETHEUS_CONFIG_RELOADER,
            remarks: Vec::new(),
            instead: Instead::Arguments(
                command.into_iter().chain(arguments.iter().cloned()).collect(),
            ),
        }
    })
}

fn configmap_reload(arguments: &[String]) -> Option<Translation> {
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
    let (volumes, urls) = (given.all("volume-dir"), given.all("webhook-url"));
    if volumes.is_empty() && urls.is_empty() {
        return None;
    }
    let mut remarks = Vec::new();
    let path = given.last("web.telemetry-path").filter(|path| path != "/metrics");
    remarks
        .extend(path.map(|path| format!("podnudge has no `{path}`: its metrics are at /metrics")));
    let (method, status) = (given.last("webhook-method"), given.last("webhook-status-code"));
    let method = method.filter(|method| method != "POST");
    let status = status.filter(|status| status != "200");
    let retries = given.last("webhook-retries");
    let listen = given.last("web.listen-address").filter(|address| address != ":9533");
    let [url] = urls.as_slice() else {
        return Some(Translation {
            peer: "configmap-reload",
            remarks,
            instead: Instead::File(rules(&volumes, &urls, &given)),
        });
    };
    let instead = if status.is_some() || retries.is_some() {
        Instead::File(rules(&volumes, &urls, &given))
    } else {
        let mut own = watch(&volumes);
        own.extend(["--url".to_owned(), url.clone()]);
        own.extend(method.into_iter().flat_map(|method| ["--method".to_owned(), method]));
        own.extend(listen.into_iter().flat_map(|address| ["--listen".to_owned(), address]));
        Instead::Arguments(own)
    };
    Some(Translation { peer: "configmap-reload", remarks, instead })
}

/// A rule for each URL: each of them is to get a request.
fn rules(volumes: &[String], urls: &[String], given: &Given) -> String {
    let mut file = String::new();
    if let Some(address) = given.last("web.listen-address") {
        _ = writeln!(file, "[agent]\nlisten = {}\n", quoted(&address));
    }
    for (number, url) in urls.iter().enumerate() {
        let volumes = list(volumes);
        _ = writeln!(file, "[[rule]]\nname = \"webhook-{}\"\nwatch = {volumes}", number + 1);
        if let Some(retries) =
            given.last("webhook-retries").and_then(|text| text.parse::<u32>().ok())
        {
            // The first attempt is none of its retries.
            _ = writeln!(file, "retry.attempts = {}", retries.saturating_add(1).min(1000));
        }
        _ = writeln!(file, "[rule.http]\nurl = {}", quoted(url));
        if let Some(method) = given.last("webhook-method") {
            _ = writeln!(file, "method = {}", quoted(&method));
        }
        if let Some(status) =
            given.last("webhook-status-code").and_then(|text| text.parse::<u16>().ok())
        {
            _ = writeln!(file, "expect = [{status}]");
        }
        file.push('\n');
    }
    file.trim_end().to_owned()
}

fn watch(paths: &[String]) -> Vec<String> {
    paths.iter().flat_map(|path| ["--watch".to_owned(), path.clone()]).collect()
}

fn config_reloader_sidecar(environment: &Environment) -> Option<Translation> {
    let (folders, process) = (environment.get("CONFIG_DIR")?, environment.get("PROCESS_NAME")?);
    let folders: Vec<String> = folders
        .split(',')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    let signal =
        environment.get("RELOAD_SIGNAL").map_or("HUP", |name| name.trim_start_matches("SIG"));
    let mut own = watch(&folders);
    own.extend(["--process", process, "--signal", signal].map(str::to_owned));
    if environment.get("VERBOSE").is_some_and(|value| value == "true") {
        own.extend(["--log-level", "debug"].map(str::to_owned));
    }
    let instead = Instead::Arguments(own);
    Some(Translation { peer: "config-reloader-sidecar", remarks: Vec::new(), instead })
}

fn nats_server_config_reloader(arguments: &[String]) -> Option<Translation> {
    const OPTIONS: [&str; 7] =
        ["P", "pid", "c", "config", "max-retries", "retry-wait-secs", "signal"];
    let given = options::read(arguments, &OPTIONS, &[]).ok()?;
    let pidfile = given.last("pid").or(given.last("P"));
    let mut files = given.all("config");
    files.extend(given.all("c"));
    // podnudge has a `--config` and a `--signal`, too.
    let is_own = |argument: &String| argument.split('=').next() == Some("-config");
    let has_file = !given.all("c").is_empty() || arguments.iter().any(is_own);
    if pidfile.is_none() && !has_file {
        return None;
    }
    if files.is_empty() {
        files.push("/etc/nats-config/gnatsd.conf".to_owned());
    }
    let pidfile = pidfile.unwrap_or("/var/run/nats/gnatsd.pid".to_owned());
    let signal = given.last("signal").filter(|number| number != "1").unwrap_or("HUP".to_owned());
    let remark = "podnudge does not look in the file for certificates and included files: also watch the directories that they are in";
    let (retries, wait) = (given.last("max-retries"), given.last("retry-wait-secs"));
    let number =
        |text: Option<String>, default| text.and_then(|text| text.parse().ok()).unwrap_or(default);
    let instead = if retries.is_some() || wait.is_some() {
        let (retries, wait): (u32, u32) = (number(retries, 30), number(wait, 4));
        Instead::File(format!(
            "[[rule]]\nwatch = {}\nretry = {{ first = \"{wait}s\", max = \"{wait}s\", attempts = {} }}\n\
             signal.name = {}\ntarget.pidfile = {}\n",
            list(&files),
            retries.clamp(1, 1000),
            quoted(&signal),
            quoted(&pidfile)
        ))
    } else {
        let mut own = watch(&files);
        own.extend(["--pidfile", &pidfile, "--signal", &signal].map(str::to_owned));
        Instead::Arguments(own)
    };
    let remarks = vec![remark.to_owned()];
    Some(Translation { peer: "nats-server-config-reloader", remarks, instead })
}

fn k8s_sidecar(arguments: &[String], environment: &Environment) -> Option<Translation> {
    let given = options::read(arguments, &["req-username-file", "req-password-file"], &[]).ok()?;
    let (label, folder) = (environment.get("LABEL")?, environment.get("FOLDER")?);
    let get = |name: &str| environment.get(name).map(String::as_str);
    let kind = match get("RESOURCE") {
        Some("secret") => "Secrets",
        Some("both") => "ConfigMaps and Secrets",
        _ => "ConfigMaps",
    };
    let value = get("LABEL_VALUE").map(|value| format!("={value}")).unwrap_or_default();
    let mut remarks = vec![format!(
        "podnudge does not collect {kind} with the label `{label}{value}` through the API: mount those that you know at `{folder}`, as one projected volume; keep k8s-sidecar, without REQ_URL and SCRIPT, where they are not known beforehand"
    )];
    if get("METHOD") == Some("LIST") {
        remarks.push("as an init container it is not needed: the kubelet writes the volume before it starts a container".to_owned());
    }
    let unsupported =
        ["FOLDER_ANNOTATION", "UNIQUE_FILENAMES", "NAMESPACE", "REQ_SKIP_TLS_VERIFY", "ENABLE_5XX"];
    for name in unsupported.into_iter().filter(|name| get(name).is_some()) {
        remarks.push(format!("there is nothing for `{name}`"));
    }
    let instead = match (get("REQ_URL"), get("SCRIPT")) {
        _ if get("METHOD") == Some("LIST") => Instead::Nothing,
        (None, None) => {
            remarks.push(
                "without REQ_URL and SCRIPT nothing is left to do: the kubelet updates the volume"
                    .to_owned(),
            );
            Instead::Nothing
        }
        (url, script) => {
            Instead::File(k8s_sidecar_file(folder, url, script, &given, environment, &mut remarks))
        }
    };
    Some(Translation { peer: "k8s-sidecar", remarks, instead })
}

fn k8s_sidecar_file(
    folder: &str,
    url: Option<&str>,
    script: Option<&str>,
    given: &Given,
    environment: &Environment,
    remarks: &mut Vec<String>,
) -> String {
    let get = |name: &str| environment.get(name).map(String::as_str);
    let mut file = format!("[[rule]]\nwatch = {}\n", list(&[folder.to_owned()]));
    if let Some(script) = script {
        remarks.push(
            "podnudge's image has no shell: SCRIPT needs one in it, or `podnudge install`"
                .to_owned(),
        );
        _ = writeln!(file, "[rule.exec]\nargv = {}", list(&[script.to_owned()]));
    }
    let Some(url) = url else { return file };
    // k8s-sidecar sends GET unless it is told otherwise.
    let method = get("REQ_METHOD").unwrap_or("GET");
    _ = writeln!(file, "[rule.http]\nurl = {}\nmethod = {}", quoted(url), quoted(method));
    if let Some(payload) = get("REQ_PAYLOAD").filter(|_| method != "GET") {
        _ = writeln!(file, "body = {}", quoted(payload));
        _ = writeln!(file, "headers = {{ Content-Type = \"application/json\" }}");
    }
    let user = get("REQ_USERNAME").or(get("GF_SECURITY_ADMIN_USER"));
    let password = given.last("req-password-file");
    if get("REQ_USERNAME").is_some() || password.is_some() {
        if password.is_none() {
            remarks.push("podnudge reads passwords from files: mount the Secret of REQ_PASSWORD, and name its file".to_owned());
        }
        let password = password.unwrap_or("/etc/podnudge/password".to_owned());
        let user = quoted(user.unwrap_or("admin"));
        let password = quoted(&password);
        _ = writeln!(file, "basic = {{ username = {user}, password-file = {password} }}");
    }
    file
}
