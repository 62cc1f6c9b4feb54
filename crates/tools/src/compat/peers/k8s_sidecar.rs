//! The environment of k8s-sidecar, of which podnudge only sends the requests and runs the script. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::given::{self, Remarks};
use super::translation::{Environment, Instead, Translation};
use crate::compat::options::{self, Given};
use crate::compat::words::{list, quoted};

/// What podnudge has no counterpart for.
const WITHOUT: [&str; 11] = [
    "FOLDER_ANNOTATION",
    "UNIQUE_FILENAMES",
    "NAMESPACE",
    "REQ_SKIP_TLS_VERIFY",
    "ENABLE_5XX",
    "REQ_RETRY_CONNECT",
    "REQ_RETRY_READ",
    "REQ_RETRY_BACKOFF_FACTOR",
    "REQ_BASIC_AUTH_ENCODING",
    "SLEEP_TIME",
    "HEALTH_PORT",
];

/// Where the password is to be mounted, if its file has no name yet.
const PASSWORD: &str = "/etc/podnudge/password";

pub(super) fn k8s_sidecar(arguments: &[String], environment: &Environment) -> Option<Translation> {
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
    if let Some(names) = get("RESOURCE_NAME") {
        remarks.push(format!(
            "mount `{names}`, which RESOURCE_NAME lists, if they are in the namespace of the pod"
        ));
    }
    if let Some(mode) = get("DEFAULT_FILE_MODE") {
        remarks.push(format!(
            "`DEFAULT_FILE_MODE`: write `defaultMode: 0{mode}` in the projected volume"
        ));
    }
    let is_set = |name: &&str| get(name).is_some_and(|value| value != "false");
    let without: Vec<&str> = WITHOUT.into_iter().filter(is_set).collect();
    if !without.is_empty() {
        remarks.push(format!("there is nothing for `{}`", without.join("`, `")));
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
    Some(Translation::new("k8s-sidecar", remarks, instead))
}

fn k8s_sidecar_file(
    folder: &str,
    url: Option<&str>,
    script: Option<&str>,
    given: &Given,
    environment: &Environment,
    remarks: &mut Remarks,
) -> String {
    let get = |name: &str| environment.get(name).map(String::as_str);
    let mut file = format!("[[rule]]\nwatch = {}\n", list(&[folder.to_owned()]));
    if get("REQ_SKIP_INIT").is_some_and(|skip| skip.eq_ignore_ascii_case("true")) {
        file.push_str("on-start = \"never\"\n");
    }
    let retries = get("REQ_RETRY_TOTAL").filter(|_| url.is_some());
    if let Some(retries) = retries.and_then(|text| given::number("REQ_RETRY_TOTAL", text, remarks))
    {
        // The first attempt is none of them.
        let retries = given::bounded("REQ_RETRY_TOTAL", retries, (0, u32::MAX - 1), remarks);
        _ = writeln!(file, "retry.attempts = {}", retries.saturating_add(1));
    }
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
    let own = basic(given, environment, remarks);
    // They take precedence over those in the URL.
    let mut of_url = Remarks::new();
    let (url, in_url) = given::without_credentials(url, PASSWORD, &mut of_url);
    if own.is_none() {
        remarks.append(&mut of_url);
    }
    _ = writeln!(file, "[rule.http]\nurl = {}\nmethod = {}", quoted(&url), quoted(method));
    let timeout = get("REQ_TIMEOUT")
        .and_then(|text| given::seconds("REQ_TIMEOUT", text, Duration::from_mins(10), remarks));
    if let Some(timeout) = timeout {
        _ = writeln!(file, "timeout = {timeout}");
    }
    if let Some(payload) = get("REQ_PAYLOAD").filter(|_| method != "GET") {
        _ = writeln!(file, "body = {}", quoted(payload));
        _ = writeln!(file, "headers = {{ Content-Type = \"application/json\" }}");
    }
    file.push_str(&own.or(in_url).unwrap_or_default());
    file
}

/// The line for the credentials, if there are some besides those in the URL.
fn basic(given: &Given, environment: &Environment, remarks: &mut Remarks) -> Option<String> {
    let get = |name: &str| environment.get(name).cloned();
    let user_file = given.last("req-username-file").or_else(|| get("REQ_USERNAME_FILE"));
    let password_file = given.last("req-password-file").or_else(|| get("REQ_PASSWORD_FILE"));
    let user = get("REQ_USERNAME");
    if user.is_none() && user_file.is_none() && password_file.is_none() {
        return None;
    }
    if let Some(file) = user_file {
        remarks.push(format!(
            "podnudge reads no user name from a file: write the content of `{file}` as `username`"
        ));
    } else if user.is_none() {
        remarks.push("nothing names the user: write it as `username`".to_owned());
    }
    if password_file.is_none() {
        remarks.push("podnudge reads passwords from files: mount the Secret of REQ_PASSWORD, and name its file".to_owned());
    }
    // The variable of Grafana's chart has the same name in it.
    let user = user.or_else(|| get("GF_SECURITY_ADMIN_USER"));
    let (user, file) = (user.as_deref().unwrap_or("admin"), password_file.as_deref());
    Some(format!(
        "basic = {{ username = {}, password-file = {} }}\n",
        quoted(user),
        quoted(file.unwrap_or(PASSWORD))
    ))
}
