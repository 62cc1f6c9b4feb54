//! What a release promises besides the program: the same source gives the same bytes, the binary says what it is made
//! of, and the Dockerfile, the workflows and `./test` agree on how it is built.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::command;
use crate::support::manifests::{output_of, root};
use crate::support::yaml;

/// The shipped binaries. `./test` builds them.
const WITH_TLS: &str = "target/x86_64-unknown-linux-gnu/release/podnudge";
const WITHOUT_TLS: &str = "target/plain/x86_64-unknown-linux-gnu/release/podnudge";

/// Prints a file that zlib has compressed.
const DECOMPRESS: &str =
    "import sys, zlib; print(zlib.decompress(open(sys.argv[1], 'rb').read()).decode())";

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn shipped(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}: run ./test"))
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// Otherwise two builds of the same source differ, and the binary says who built it.
#[test]
fn the_binaries_contain_no_folder_of_the_machine_that_built_them() {
    let here = root().display().to_string();
    // Below the home of cargo, wherever that is; in what the build made; and in the component rust-src.
    let folders = [here.as_str(), "registry/src", "/tokio-", "/target/", "rustlib/src"];
    for path in [WITH_TLS, WITHOUT_TLS] {
        let binary = shipped(path);
        // Panics name the file, which shows that the folders were removed and the names were not.
        assert!(contains(&binary, "src/") && contains(&binary, ".rs"), "{path} names no source");
        for folder in folders {
            assert!(!contains(&binary, folder), "{path} contains {folder}");
        }
    }
}

/// Each file needs what the build without TLS has not, but for one.
#[test]
fn the_build_without_tls_says_what_it_cannot_do() {
    let folder = root().join("tests/bad_without_tls");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let mut podnudge = command(root().join(WITHOUT_TLS));
        let checked = podnudge.arg("check").arg(&name).current_dir(&folder).output().unwrap();
        let is_accepted = name.ends_with("_are_accepted.toml");
        assert_eq!(checked.status.code(), Some(if is_accepted { 0 } else { 78 }), "{name}");
        if !is_accepted {
            let said = String::from_utf8(checked.stderr).unwrap();
            insta::assert_snapshot!(name.trim_end_matches(".toml"), said);
        }
    }
}

/// The packages in the list that cargo-auditable writes, as `name version`.
fn listed(path: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let section = folder.path().join("section");
    let mut objcopy = command("objcopy");
    objcopy.arg(format!("--dump-section=.dep-v0={}", section.display()));
    objcopy.arg(root().join(path)).arg(folder.path().join("copy"));
    output_of(objcopy).unwrap();
    assert!(section.exists(), "{path} has no list of its dependencies: run ./test");
    let mut python = command("python3");
    python.arg("-c").arg(DECOMPRESS).arg(&section);
    let list: Value = serde_json::from_str(&output_of(python).unwrap()).unwrap();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
    let packages = list["packages"].as_array().unwrap().iter();
    packages
        .map(|package| format!("{} {}", text(package, "name"), text(package, "version")))
        .collect()
}

/// Scanners and the SBOM of the image read this list. Without it, they find nothing in the image.
#[test]
fn the_binaries_list_the_dependencies_that_they_are_made_of() {
    let lock = text("Cargo.lock");
    let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let lines: Vec<&str> = lock.lines().collect();
    let locked: BTreeSet<String> = lines
        .windows(2)
        .filter_map(|pair| match pair {
            [name, version] if name.starts_with("name = ") => {
                Some(format!("{} {}", quoted(name), quoted(version)))
            }
            _ => None,
        })
        .collect();
    let has = |list: &BTreeSet<String>, name: &str| {
        list.iter().any(|package| package.split(' ').next() == Some(name))
    };

    let with_tls = listed(WITH_TLS);
    let without_tls = listed(WITHOUT_TLS);
    for list in [&with_tls, &without_tls] {
        assert_eq!(list.difference(&locked).collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(list.contains(concat!("podnudge ", env!("CARGO_PKG_VERSION"))), "{list:?}");
        assert!(has(list, "tokio") && !has(list, "proptest"), "{list:?}");
    }
    assert!(has(&with_tls, "rustls") && !has(&without_tls, "rustls"));
}

/// A workflow, as JSON.
fn workflow(name: &str) -> Value {
    yaml::documents(&text(&format!(".github/workflows/{name}.yml"))).remove(0)
}

/// The part of each line between these two.
fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
    let part = |line: &'a str| line.split_once(before)?.1.split(after).next();
    text.lines().filter_map(part).collect()
}

#[test]
fn every_architecture_of_the_release_has_a_base_image_of_the_same_rust() {
    let dockerfile = text("Dockerfile");
    let release = workflow("release");
    let platforms = release["jobs"]["image"]["env"]["PLATFORMS"].as_str().unwrap();
    let architectures: BTreeSet<&str> =
        platforms.split(',').map(|platform| platform.split('/').nth(1).unwrap()).collect();
    assert!(architectures.len() >= 6, "{platforms}");
    let bases: BTreeSet<&str> = between(&dockerfile, " AS base-", '\n').into_iter().collect();
    assert_eq!(bases, architectures);

    let toolchain = text("rust-toolchain.toml");
    let [channel] = between(&toolchain, "channel = \"", '"')[..] else { panic!("{toolchain}") };
    let images = between(&dockerfile, "FROM rust:", '-');
    let test = workflow("test");
    let tested = test["jobs"]["all"]["container"]["image"].as_str().unwrap();
    for version in images.into_iter().chain(between(tested, "rust:", '-')) {
        assert!(channel == version || channel.starts_with(&format!("{version}.")), "{version}");
    }
    // What is tested is what ships.
    assert!(dockerfile.contains(&format!("FROM {tested} AS base-amd64\n")), "{tested}");
}

#[test]
fn the_image_is_built_with_the_flags_and_the_tools_of_the_tested_binary() {
    let dockerfile = text("Dockerfile");
    let test = text("test");
    for file in [&dockerfile, &test, &text(".ci/run")] {
        assert!(file.contains(". .ci/static-flags"), "{file}");
        assert!(file.contains("CARGO_ENCODED_RUSTFLAGS=\"$static\""), "{file}");
        assert!(file.contains("cargo auditable "), "{file}");
    }
    assert!(text(".dockerignore").lines().any(|line| line == "!.ci/static-flags"));
    let versions: BTreeSet<&str> = [&dockerfile, &test]
        .into_iter()
        .flat_map(|file| between(file, "cargo-auditable@", '\n'))
        .collect();
    assert_eq!(versions.len(), 1, "{versions:?}");
}

/// A job that runs code of dependencies must not be able to write to the repository, and no text that others choose
/// may become a part of a script.
#[test]
fn jobs_that_build_cannot_write_and_scripts_contain_no_expressions() {
    for name in ["release", "test", "advisories"] {
        let workflow = workflow(name);
        let jobs = workflow["jobs"].as_object().unwrap();
        assert!(!jobs.is_empty());
        for (job, definition) in jobs {
            let empty = Vec::new();
            let steps = definition["steps"].as_array().unwrap_or(&empty);
            let scripts: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
            let place = format!("{name}.{job}");
            for script in &scripts {
                assert!(!script.contains("${{"), "{place}: {script}");
            }
            let permissions =
                if definition["permissions"].is_null() { &workflow } else { definition };
            let may_write = permissions["permissions"]["contents"] == "write";
            let builds = scripts
                .iter()
                .any(|script| script.contains("cargo ") || script.contains(".ci/run"));
            let mut uses = steps.iter().chain([definition]).filter_map(|one| one["uses"].as_str());
            let builds =
                builds || uses.any(|uses| uses.contains("build-push") || uses.starts_with("./"));
            assert!(!(may_write && builds), "{place} builds and may write");
            // The builder of an image gets no login; what a script of this job builds could read it.
            let logs_in = steps.iter().any(|step| {
                step["uses"].as_str().is_some_and(|uses| uses.starts_with("docker/login-action@"))
            });
            let has_secrets = logs_in || !definition["environment"].is_null();
            let runs_cargo = scripts.iter().any(|script| script.contains("cargo "));
            assert!(!(has_secrets && runs_cargo), "{place} builds and has secrets");
            let checkouts = steps.iter().filter(|step| {
                step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@"))
            });
            for checkout in checkouts {
                assert_eq!(checkout["with"]["persist-credentials"], "false", "{place}");
            }
        }
    }
}

/// `(architecture of the image, target of Rust)`.
const TARGETS: [(&str, &str); 6] = [
    ("linux/amd64", "x86_64-unknown-linux-gnu"),
    ("linux/arm64", "aarch64-unknown-linux-gnu"),
    ("linux/arm/v7", "armv7-unknown-linux-gnueabihf"),
    ("linux/ppc64le", "powerpc64le-unknown-linux-gnu"),
    ("linux/s390x", "s390x-unknown-linux-gnu"),
    ("linux/riscv64", "riscv64gc-unknown-linux-gnu"),
];

/// A dependency of one architecture only has its licence and its advisories checked, too.
#[test]
fn the_dependencies_of_all_architectures_are_checked_and_their_advisories_each_week() {
    let release = workflow("release");
    let platforms = release["jobs"]["image"]["env"]["PLATFORMS"].as_str().unwrap();
    assert_eq!(platforms, TARGETS.map(|(platform, _)| platform).join(","));
    let deny: toml::Value = toml::from_str(&text("deny.toml")).unwrap();
    let targets = deny["graph"]["targets"].as_array().unwrap();
    let targets: Vec<&str> = targets.iter().map(|target| target.as_str().unwrap()).collect();
    assert_eq!(targets, TARGETS.map(|(_, target)| target));

    let advisories = text(".github/workflows/advisories.yml");
    assert!(advisories.contains("cron: ") && advisories.contains("check advisories"));
    // The same tool as in `.ci/run`.
    let run = text(".ci/run");
    let [version] = between(&run, "tool deny ", '\n')[..] else { panic!(".ci/run") };
    assert!(advisories.contains(&format!("cargo-deny@{version}\n")), "{version}");
}
