//! `docs/migration.md`: podnudge prints what the page shows, and each translation does the work of the other
//! reloader. `UPDATE=1` writes what podnudge prints into the page.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::program::PATH;
use crate::support::{
    Agent, Behaviour, Kubelet, ROLLED_OUT, Target, command, in_network, payload, podnudge, request,
    requests, respond, tmpfs, wait_until,
};

const PAGE: &str = "docs/migration.md";
const FENCE: &str = "```console\n";

/// What a shell prints for a command of the page, and podnudge's exit code.
fn printed(line: &str) -> (String, Option<i32>) {
    let folder = Path::new(podnudge().get_program()).parent().unwrap().display().to_string();
    let mut shell = command("sh");
    shell.args(["-c", line]).env("PATH", format!("{folder}:{PATH}"));
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{line}");
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

/// The commands of the page.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split(FENCE).skip(1).map(|part| part.split_once("```").unwrap().0);
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ "));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_page_shows_what_podnudge_prints() {
    let page = fs::read_to_string(PAGE).unwrap();
    let mut made = String::new();
    for (n, part) in page.split(FENCE).enumerate() {
        if n == 0 {
            made.push_str(part);
            continue;
        }
        let (block, after) = part.split_once("```").unwrap();
        made.push_str(FENCE);
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let (text, exit_code) = printed(line);
            assert_eq!(exit_code, Some(64), "{line}: {text}");
            made.extend(["$ ", line, "\n", &text]);
        }
        made.push_str("```");
        made.push_str(after);
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PAGE, made).unwrap();
    } else {
        assert!(
            page == made,
            "{PAGE} is out of date: run `UPDATE=1 cargo test --test all migration`"
        );
    }
    assert!(commands(&page).len() >= 12);
}

/// What podnudge prints in place of a command.
enum Instead {
    Arguments(Vec<String>),
    File(String),
    Nothing,
}

fn translated(line: &str) -> Instead {
    let (text, _) = printed(line);
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let lines: Vec<&str> = lines.collect();
    match lines.first().and_then(|line| line.strip_prefix("podnudge ")) {
        // None of them quotes an argument.
        Some(arguments) => Instead::Arguments(arguments.split(' ').map(str::to_owned).collect()),
        None if lines.is_empty() => Instead::Nothing,
        None => Instead::File(lines.join("\n")),
    }
}

/// The texts behind this key of a configuration, or this option.
fn values(text: &str, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split(key).skip(1) {
        let quoted = |line: &str| line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        let line = part.lines().next().unwrap();
        let values: Vec<String> = match line.trim_start_matches(['=', ' ']) {
            list if list.starts_with('[') => quoted(list.split(']').next().unwrap()),
            text if text.starts_with('"') => vec![text.split('"').nth(1).unwrap().to_owned()],
            word => vec![word.split(' ').next().unwrap().to_owned()],
        };
        found.extend(values);
    }
    found
}

/// Applications that take requests, each at a port: they stay when podnudge has ended.
#[derive(Default)]
struct Applications {
    ports: BTreeSet<String>,
    /// The status of each answer.
    status: Arc<Mutex<String>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Applications {
    /// Answers requests at these URLs with this status.
    fn serve(&mut self, urls: &[String], status: &str) {
        status.clone_into(&mut self.status.lock().unwrap());
        self.seen.lock().unwrap().clear();
        for url in urls {
            let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
            let (_, port) = address.split_once(':').unwrap();
            if !self.ports.insert(port.to_owned()) {
                continue;
            }
            let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
            let (seen, status) = (Arc::clone(&self.seen), Arc::clone(&self.status));
            thread::spawn(move || {
                for stream in requests(&listener) {
                    let text = request(&stream);
                    respond(stream, &status.lock().unwrap(), "", "");
                    seen.lock().unwrap().push(text);
                }
            });
        }
    }
}

/// The volumes at these paths, of which some are files in them.
fn volumes(paths: &BTreeSet<String>) -> Vec<Kubelet> {
    let is_file = |path: &str| Path::new(path).extension().is_some();
    let volume_of = |path: &String| {
        let path = path.trim_end_matches('/');
        let folder =
            if is_file(path) { Path::new(path).parent().unwrap() } else { Path::new(path) };
        (folder.to_str().unwrap().to_owned(), path.to_owned())
    };
    let folders: BTreeSet<(String, String)> = paths.iter().map(volume_of).collect();
    folders.into_iter().map(|(folder, _)| tmpfs(&folder)).collect()
}

/// The content of every volume, in each version.
fn content(paths: &BTreeSet<String>, version: usize) -> crate::support::kubelet::Payload {
    let names = paths.iter().filter_map(|path| Path::new(path).file_name()?.to_str());
    let text = format!("version {version}\n");
    let mut pairs = vec![("app.conf", text.as_str())];
    pairs.extend(names.filter(|name| name.contains('.')).map(|name| (name, text.as_str())));
    payload(&pairs)
}

fn does_the_same(applications: &mut Applications, line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut command = podnudge();
    command.env("PODNUDGE_LOG", "json").env("PODNUDGE_ON_START", "never");
    let text = match translated(line) {
        Instead::Nothing => return,
        Instead::Arguments(arguments) => {
            if arguments[0] == "compat" {
                // Its configuration takes no variables.
                command.arg("compat").arg(&arguments[1]).arg("--log-format=json");
                command.args(&arguments[2..]);
            } else {
                command.args(&arguments);
            }
            arguments.join(" ")
        }
        Instead::File(file) => {
            fs::write(at.join("podnudge.toml"), &file).unwrap();
            command.arg("--config").arg(at.join("podnudge.toml"));
            // Valid for a file with one rule only.
            command.env_remove("PODNUDGE_ON_START");
            file
        }
    };
    let is = |key| values(&text, key);
    let mut watched: BTreeSet<String> = is("--watch ").into_iter().chain(is("watch =")).collect();
    watched.extend(is("--config-file=").into_iter().chain(is("--watched-dir=")));
    let mut kubelets = volumes(&watched);
    for file in is("--config-envsubst-file=") {
        tmpfs(Path::new(&file).parent().unwrap());
    }
    for kubelet in &mut kubelets {
        kubelet.write(&content(&watched, 1));
    }
    let urls: Vec<String> =
        is("--url ").into_iter().chain(is("url =")).chain(is("--reload-url=")).collect();
    let status = if text.contains("expect = [204]") { "204 No Content" } else { "200 OK" };
    applications.serve(&urls, status);
    let seen = Arc::clone(&applications.seen);
    let process =
        is("--process ").into_iter().chain(is("--pidfile ")).chain(is("target.pidfile ="));
    let target = process.last().map(|name| {
        let process = if name.contains('/') { "nats-server" } else { name.as_str() };
        let target = Target::start(at, process, Behaviour::Handles);
        if name.contains('/') {
            tmpfs(Path::new(&name).parent().unwrap());
            fs::write(&name, format!("{}\n", target.pid())).unwrap();
        }
        target
    });
    let ran = at.join("ran");
    for script in is("argv =") {
        tmpfs(Path::new(&script).parent().unwrap());
        let mut file = fs::File::create(&script).unwrap();
        writeln!(file, "#!/bin/sh\necho ran >> {}", ran.display()).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
    }
    let actions = || {
        let runs = fs::read_to_string(&ran).unwrap_or_default().lines().count();
        target.as_ref().map_or(0, Target::signals) + seen.lock().unwrap().len() + runs
    };
    let agent = Agent::spawn(at, command);
    let rules = text.matches("[[rule]]").count().max(1);
    agent.wait_for("baseline|fresh|scheduled|applied", rules);
    if text.starts_with("compat") {
        agent.wait_for("applied", 1);
    }
    let before = actions();
    for kubelet in &mut kubelets {
        kubelet.write(&content(&watched, 2));
    }
    wait_until(&format!("an action of {line}"), || actions() >= before + rules);
    let method =
        is("--method ").into_iter().chain(is("method =")).last().unwrap_or("POST".to_owned());
    for request in seen.lock().unwrap().iter() {
        assert!(request.starts_with(&format!("{method} ")), "{line}: {request}");
    }
    agent.wait_for(ROLLED_OUT, rules);
}

#[test]
fn each_translation_reloads_the_application() {
    in_network!();
    let page = fs::read_to_string(PAGE).unwrap();
    let commands = commands(&page);
    let mut applications = Applications::default();
    for line in &commands {
        println!("{line}");
        does_the_same(&mut applications, line);
    }
    assert!(commands.len() >= 12, "{commands:?}");
}
