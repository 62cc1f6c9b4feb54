//! The environment of k8s-sidecar, of which podnudge only sends the requests and runs the script. Pure.

use std::fmt::Write as _;

use super::given::{self, Remarks};
use super::{Environment, Instead, Translation};
use crate::compat::options::{self, Given};
use crate::compat::words::{list, quoted};

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
    let (url, in_url) = given::without_credentials(url, "/etc/podnudge/password", remarks);
    _ = writeln!(file, "[rule.http]\nurl = {}\nmethod = {}", quoted(&url), quoted(method));
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
    } else {
        file.push_str(in_url.as_deref().unwrap_or_default());
    }
    file
}
