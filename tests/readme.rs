//! Checks the README, the docs, the example files and the manifests against podnudge: everything in
//! them is valid, and nothing is missing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use podnudge::cli;
use podnudge_config::{self as config, Overrides};

/// The README and the pages of docs/ and docs/reference/, by their names.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![PathBuf::from("README.md")];
    let is_page = |file: &PathBuf| file.extension().is_some_and(|end| end == "md");
    for folder in ["docs", "docs/reference"] {
        let docs = files(folder).into_iter().filter(is_page);
        pages.extend(docs.map(|file| Path::new(folder).join(file.file_name().unwrap())));
    }
    pages.sort();
    let page = |path: PathBuf| (path.display().to_string(), fs::read_to_string(path).unwrap());
    pages.into_iter().map(page).collect()
}

/// The code blocks in this language, each with the name of its page.
fn blocks(language: &str) -> Vec<(String, String)> {
    let fence = format!("```{language}\n");
    let mut blocks = Vec::new();
    for (name, page) in pages() {
        for part in page.split(&fence).skip(1) {
            blocks.push((name.clone(), part.split_once("\n```").unwrap().0.to_owned()));
        }
    }
    blocks
}

/// Asserts that podnudge accepts a configuration without a warning.
fn assert_is_valid(file: &str, text: &str, overrides: &Overrides) {
    // The name of a manifest does not tell the format of the file in it.
    match config::parse("podnudge.toml", text, overrides, None) {
        Ok((_, warnings)) => assert_eq!(warnings, [], "{file}:\n{text}"),
        Err(problems) => panic!("{problems}\n{text}"),
    }
}

/// A complete file is checked as it is; a part of a rule is completed first.
#[test]
fn every_configuration_in_the_docs_is_valid() {
    let blocks = blocks("toml");
    assert!(blocks.len() >= 15, "only {} blocks", blocks.len());
    for (page, block) in blocks {
        if block.contains("[[rule]]") {
            assert_is_valid(&page, &block, &Overrides::default());
            continue;
        }
        let (agent, rule) =
            if block.starts_with("[agent]") { (block.as_str(), "") } else { ("", block.as_str()) };
        let has_action = ["signal", "http", "exec", "command", "restart"]
            .iter()
            .any(|action| rule.contains(&format!("[rule.{action}]")));
        let needs_signal = !has_action || rule.contains("children-newer");
        let action = if needs_signal && !rule.contains("[rule.signal]") {
            "signal = { name = \"HUP\" }\n"
        } else {
            ""
        };
        let whole = format!("{agent}\n[[rule]]\nwatch = \"/etc/app\"\n{action}{rule}\n");
        assert_is_valid(&page, &whole, &Overrides::default());
    }
}

/// Every linked page exists, and so does its linked section.
#[test]
fn every_link_has_an_existing_target() {
    let mut count = 0;
    for (name, page) in pages() {
        let folder = Path::new(&name).parent().unwrap().to_owned();
        for part in page.split("](").skip(1) {
            let (link, _) = part.split_once(')').unwrap();
            if link.contains("://") {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { PathBuf::from(&name) } else { folder.join(file) };
            assert!(file.exists(), "{name}: {link}");
            if !part.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let anchor = |line: &str| {
                    let title = line.trim_start_matches('#').trim().to_lowercase();
                    let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
                    kept.collect::<String>().replace(' ', "-")
                };
                let mut titles = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(titles.any(|title| title == part), "{name}: {link}");
            }
            count += 1;
        }
    }
    assert!(count >= 40, "only {count} links");
}

/// Where a user looks for it: on the page of what it does.
#[test]
fn the_docs_mention_every_command() {
    let docs: Vec<(String, String)> =
        pages().into_iter().filter(|(name, _)| name.starts_with("docs/")).collect();
    let is_mentioned = |command: &str| {
        let mut parts = docs.iter().flat_map(|(_, page)| page.split(command).skip(1));
        parts.any(|rest| rest.starts_with([' ', '`', '\n']))
    };
    let commands = cli::command();
    let names = commands.get_subcommands().map(|one| format!("podnudge {}", one.get_name()));
    let missing: Vec<String> = names.filter(|name| !is_mentioned(name)).collect();
    assert_eq!(missing, Vec::<String>::new());
    assert!(commands.get_subcommands().count() >= 11);
}

/// The README stays short enough to be read to its end.
#[test]
fn the_readme_has_at_most_150_lines() {
    assert!(include_str!("../README.md").lines().count() <= 150);
}

#[test]
fn the_first_screen_of_the_readme_names_the_demo_and_the_tests() {
    let (first, _) = include_str!("../README.md").split_once("\n## ").unwrap();
    assert!(first.lines().count() <= 30);
    for command in ["`cargo run --release --example demo`", "`./test`"] {
        assert!(first.contains(command), "{command} is not before the first section");
    }
}

/// The words of command lines, written as `["--watch=/a", "--signal=HUP"]` or as one option per
/// line with a dash.
fn options(yaml: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = yaml.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix("args:").or_else(|| line.strip_prefix("command:"))
        else {
            continue;
        };
        let mut words: Vec<String> =
            rest.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        while let Some(word) = lines.peek().and_then(|line| line.strip_prefix("- --")) {
            words.push(format!("--{word}"));
            lines.next();
        }
        words.retain(|word| word != "/usr/local/bin/podnudge");
        let is_ours =
            words.iter().any(|word| ["--watch=", "--config="].iter().any(|o| word.starts_with(o)));
        found.extend(is_ours.then_some(words));
    }
    found
}

fn assert_command_line_is_valid(place: &str, words: &[String]) {
    let words =
        ["podnudge"].into_iter().map(OsString::from).chain(words.iter().map(OsString::from));
    match cli::parse(words, []) {
        Ok(cli::Command::Run(run)) if run.config.is_none() => {
            assert_is_valid(place, "", &run.overrides);
        }
        // The configuration file itself is checked where it is defined.
        Ok(cli::Command::Run(_) | cli::Command::Once(..)) => {}
        other => panic!("{place}: {other:?}"),
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.collect()
}

#[test]
fn every_command_line_in_the_docs_and_the_manifests_is_valid() {
    let mut count = 0;
    let mut look = |place: &str, yaml: &str| {
        for words in options(yaml) {
            assert_command_line_is_valid(place, &words);
            count += 1;
        }
    };
    for (page, block) in blocks("yaml") {
        look(&page, &block);
    }
    for file in files("k8s").into_iter().filter(|file| file.extension().is_some()) {
        look(&file.display().to_string(), &fs::read_to_string(&file).unwrap());
    }
    assert!(count >= 8, "only {count} command lines were found");
}

/// The containers of a manifest or of a part of one: each with its image, and what is said of it.
fn containers(yaml: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = yaml.lines().collect();
    let starts = lines.iter().enumerate().filter(|(n, line)| {
        let next = lines.get(n + 1).is_some_and(|next| next.trim_start().starts_with("image:"));
        line.trim_start().starts_with("- name:") && next
    });
    let container = |(n, first): (usize, &&str)| {
        let rest = lines[n + 1..].iter().take_while(|line| indent(line) > indent(first));
        std::iter::once(first).chain(rest).copied().collect::<Vec<_>>().join("\n")
    };
    starts.map(container).collect()
}

/// The pod security standard "restricted" in full, a read-only root, read-only mounts and limits, for each
/// container; and a stated port wherever a probe relies on it.
#[test]
fn every_container_in_the_docs_and_the_manifests_is_restricted() {
    let mut sources = blocks("yaml");
    for file in files("k8s").into_iter().filter(|file| file.extension().is_some()) {
        sources.push((file.display().to_string(), fs::read_to_string(&file).unwrap()));
    }
    let mut count = 0;
    for (place, yaml) in sources {
        for container in containers(&yaml) {
            count += 1;
            let is_anchored = container.contains("securityContext: *");
            let for_all = ["runAsNonRoot: true", "seccompProfile:", "type: RuntimeDefault"];
            for wanted in for_all {
                assert!(yaml.contains(wanted), "{place}: {wanted}");
            }
            let for_each = [
                "allowPrivilegeEscalation: false",
                "readOnlyRootFilesystem: true",
                "capabilities: {drop: [ALL]}",
            ];
            for wanted in for_each {
                let text = if is_anchored { &yaml } else { &container };
                assert!(text.contains(wanted), "{place}: {wanted}:\n{container}");
            }
            let is_ours = container.contains("podnudge");
            if is_ours {
                assert!(container.contains("resources:"), "{place}: resources:\n{container}");
            }
            // The files that a container writes: temporary ones, what podnudge publishes, its state and its own
            // copy, and what an init container renders.
            for mount in container.split("mountPath: ").skip(1) {
                let (mount, _) = mount.split_once('}').unwrap();
                let may_write = match mount.trim() {
                    "/tmp" => true,
                    "/config" | "/var/lib/podnudge" => is_ours,
                    "/rendered" => container.contains("- name: render\n"),
                    "/opt/podnudge" => container.contains("\"install\""),
                    other => other.ends_with("readOnly: true"),
                };
                assert!(may_write, "{place}: {mount}:\n{container}");
            }
            let listens = ["--listen=:9533", "listen = \":9533\""];
            if is_ours && container.contains("Probe:") {
                assert!(listens.iter().any(|text| yaml.contains(text)), "{place}:\n{container}");
            }
        }
    }
    assert!(count >= 18, "only {count} containers");
}

#[test]
fn every_example_file_and_every_file_in_a_manifest_is_valid() {
    for file in
        files("examples").iter().filter(|file| file.extension().is_some_and(|e| e == "toml"))
    {
        let text = fs::read_to_string(file).unwrap();
        assert_is_valid(&file.display().to_string(), &text, &Overrides::default());
    }
    let manifests = [
        ("k8s/nginx-published.yaml", include_str!("../k8s/nginx-published.yaml")),
        ("k8s/slots.yaml", include_str!("../k8s/slots.yaml")),
        ("k8s/eager-sync.yaml", include_str!("../k8s/eager-sync.yaml")),
        ("k8s/certificates.yaml", include_str!("../k8s/certificates.yaml")),
        ("k8s/certificates-java.yaml", include_str!("../k8s/certificates-java.yaml")),
    ];
    for (name, manifest) in manifests {
        assert_is_valid(name, &configuration_in(manifest), &Overrides::default());
    }
}

/// The file `podnudge.toml` of a ConfigMap in a manifest.
fn configuration_in(manifest: &str) -> String {
    let (_, rest) = manifest.split_once("  podnudge.toml: |\n").unwrap();
    let (indented, _) = rest.split_once("\n---\n").unwrap();
    let lines = indented.lines().map(|line| line.strip_prefix("    ").unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// It has to outlive podnudge's container.
#[test]
fn the_state_directory_of_the_manifest_with_slots_is_an_empty_dir() {
    let manifest = include_str!("../k8s/slots.yaml");
    let (_, rest) = manifest.split_once("state-dir = \"").unwrap();
    let (state_dir, _) = rest.split_once('"').unwrap();
    let mount = format!(", mountPath: {state_dir}}}");
    let ours = containers(manifest).into_iter().find(|one| one.contains(&mount)).unwrap();
    assert!(ours.contains("--config=/etc/podnudge/podnudge.toml"), "{ours}");
    let (before, _) = ours.split_once(&mount).unwrap();
    let (_, volume) = before.rsplit_once("name: ").unwrap();
    let volume = format!("- name: {volume}\n          emptyDir:");
    assert!(manifest.contains(&volume), "{volume}");
}

#[test]
fn the_reference_lists_every_metric_state_and_event() {
    let page = [
        include_str!("../docs/reference/metrics.md"),
        include_str!("../docs/reference/states.md"),
        include_str!("../docs/reference/events.md"),
        // For the lines of `podnudge status`.
        include_str!("../docs/monitoring.md"),
    ]
    .concat();
    let metrics = include_str!("snapshots/all__admin__metrics_are_openmetrics_text.snap");
    let eager =
        include_str!("snapshots/all__admin__eager_sync_has_series_and_lines_of_its_own.snap");
    let mut missing = Vec::new();
    for line in metrics.lines().chain(eager.lines()).filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let (name, kind) = line.split_once(' ').unwrap();
        let total = if kind == "counter" { "_total" } else { "" };
        let name = format!("`{name}{total}");
        if ["{", "`"].iter().all(|end| !page.contains(&format!("{name}{end}"))) {
            missing.push(name);
        }
    }
    let mut names: Vec<&str> = metrics.split("state=\"").skip(1).collect();
    assert!(names.len() >= 19);
    let sources = ["src", "src/run", "src/admin", "src/report"].into_iter().flat_map(files);
    let sources =
        sources.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let sources: String = sources.map(|file| fs::read_to_string(file).unwrap()).collect();
    for before in ["event = \"", " line(\"", "Line::new(\""] {
        names.extend(sources.split(before).skip(1));
    }
    assert!(names.len() >= 19 + 37);
    for name in names {
        let name = format!("`{}`", name.split_once('"').unwrap().0);
        if !page.contains(&name) && !missing.contains(&name) {
            missing.push(name);
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "missing in docs/reference/");
}
