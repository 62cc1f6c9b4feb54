//! Holds the README, the example files and the manifests to what podnudge takes and shows: what
//! stands there can be copied, and nothing is left out.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use podnudge::cli;
use podnudge::config::{self, Overrides};

const README: &str = include_str!("../README.md");

/// The code of this language, block by block.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let parts = README.split(&fence).skip(1);
    parts.map(|part| part.split_once("\n```").unwrap().0).collect()
}

/// What podnudge says of a configuration: it must neither refuse it nor warn of it.
fn assert_is_taken(file: &str, text: &str, overrides: &Overrides) {
    match config::parse(file, text, overrides, None) {
        Ok((_, warnings)) => assert_eq!(warnings, [], "{file}:\n{text}"),
        Err(problems) => panic!("{problems}\n{text}"),
    }
}

/// A whole file as it stands; a part of a rule in a rule that has what the part lacks.
#[test]
fn every_configuration_in_the_readme_can_be_copied() {
    let blocks = blocks("toml");
    let whole = blocks.iter().filter(|block| block.contains("[[rule]]"));
    assert!(whole.clone().count() >= 2);
    for block in whole {
        assert_is_taken("README.md", block, &Overrides::default());
    }
    let parts: Vec<_> = blocks.iter().filter(|block| !block.contains("[[rule]]")).collect();
    assert!(parts.len() >= 6);
    for part in parts {
        let (mut agent, mut rule) = ("", *part);
        if part.starts_with("[agent]") {
            (agent, rule) = (part, "");
        }
        let action =
            if rule.contains("[rule.signal]") { "" } else { "signal = { name = \"HUP\" }\n" };
        let whole = format!("{agent}\n[[rule]]\nwatch = \"/etc/app\"\n{action}{rule}\n");
        assert_is_taken("README.md", &whole, &Overrides::default());
    }
}

/// The words of lists such as `["--watch=/a", "--signal=HUP"]`, and of those with a dash and an
/// option a line.
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
        words.retain(|word| word != "/opt/podnudge/podnudge");
        let is_ours =
            words.iter().any(|word| ["--watch=", "--config="].iter().any(|o| word.starts_with(o)));
        found.extend(is_ours.then_some(words));
    }
    found
}

fn assert_are_taken(place: &str, words: &[String]) {
    let words =
        ["podnudge"].into_iter().map(OsString::from).chain(words.iter().map(OsString::from));
    match cli::parse(words, []) {
        Ok(cli::Command::Run(run)) if run.config.is_none() => {
            assert_is_taken(place, "", &run.overrides);
        }
        // The file is looked at where it stands.
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
fn every_command_line_in_the_readme_and_the_manifests_can_be_copied() {
    let mut count = 0;
    let mut look = |place: &str, yaml: &str| {
        for words in options(yaml) {
            assert_are_taken(place, &words);
            count += 1;
        }
    };
    for block in blocks("yaml") {
        look("README.md", block);
    }
    for file in files("k8s").into_iter().filter(|file| file.extension().is_some()) {
        look(&file.display().to_string(), &fs::read_to_string(&file).unwrap());
    }
    assert!(count >= 8, "only {count} command lines were found");
}

#[test]
fn every_example_file_and_every_file_in_a_manifest_is_taken() {
    for file in
        files("examples").iter().filter(|file| file.extension().is_some_and(|e| e == "toml"))
    {
        let text = fs::read_to_string(file).unwrap();
        assert_is_taken(&file.display().to_string(), &text, &Overrides::default());
    }
    let manifest = include_str!("../k8s/nginx-published.yaml");
    let (_, rest) = manifest.split_once("  podnudge.toml: |\n").unwrap();
    let (indented, _) = rest.split_once("\n---\n").unwrap();
    let text: Vec<&str> = indented.lines().map(|line| line.strip_prefix("    ").unwrap()).collect();
    assert_is_taken("k8s/nginx-published.yaml", &text.join("\n"), &Overrides::default());
}

/// Every key of the configuration file that has all of them.
fn keys(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                found.push(key.clone());
                // Its keys are free to choose.
                if key != "headers" {
                    keys(value, found);
                }
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_readme_names_every_setting() {
    let everything: toml::Table = toml::from_str(include_str!("good/everything.toml")).unwrap();
    let mut found = Vec::new();
    keys(&toml::Value::Table(everything), &mut found);
    found.sort();
    found.dedup();
    assert!(found.len() >= 80, "only {} keys", found.len());
    let is_named = |key: &String| {
        README.match_indices(key.as_str()).any(|(at, _)| {
            let before = README[..at].chars().next_back().unwrap_or(' ');
            let after = README[at + key.len()..].chars().next().unwrap_or(' ');
            "`[.{ ".contains(before) && "`].}, =".contains(after)
        })
    };
    found.retain(|key| !is_named(key));
    assert_eq!(found, Vec::<String>::new(), "missing in README.md");
}

#[test]
fn the_readme_names_every_metric_every_state_and_every_event() {
    let metrics = include_str!("snapshots/all__admin__metrics_are_openmetrics_text.snap");
    let mut missing = Vec::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let total = if kind == "counter" { "_total" } else { "" };
        let name = format!("`{name}{total}");
        if ["{", "`"].iter().all(|end| !README.contains(&format!("{name}{end}"))) {
            missing.push(name);
        }
    }
    let mut names: Vec<&str> = metrics.split("state=\"").skip(1).collect();
    assert!(names.len() >= 19);
    let sources = ["src", "src/run", "src/admin"].into_iter().flat_map(files);
    let sources =
        sources.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    let sources: String = sources.map(|file| fs::read_to_string(file).unwrap()).collect();
    for before in ["event = \"", " line(\"", "Line::new(\""] {
        names.extend(sources.split(before).skip(1));
    }
    assert!(names.len() >= 19 + 37);
    for name in names {
        let name = format!("`{}`", name.split_once('"').unwrap().0);
        if !README.contains(&name) && !missing.contains(&name) {
            missing.push(name);
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "missing in README.md");
}
