//! What a release promises besides the binaries (`shipped/contents.rs`): the Dockerfile, the workflows and `./test`
//! agree on how it is built.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::manifests::{output_of, root, templated, tool};
use crate::support::program::PATH;
use crate::support::{command, yaml};

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
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
    let shipped = text(".ci/shipped");
    for file in [&dockerfile, &shipped, &text(".ci/run")] {
        assert!(file.contains(". .ci/static-flags"), "{file}");
        assert!(file.contains("CARGO_ENCODED_RUSTFLAGS=\"$static\""), "{file}");
        assert!(file.contains("cargo auditable "), "{file}");
    }
    assert!(text(".dockerignore").lines().any(|line| line == "!.ci/static-flags"));
    let versions = between(&dockerfile, "cargo-auditable@", '\n');
    assert_eq!(versions, between(&shipped, "cargo-tool auditable ", '\n'));
    assert_eq!(versions.len(), 1);
}

/// `kubectl exec POD -c podnudge -- podnudge status` works in both, as in an image that podnudge was installed into.
#[test]
fn both_images_have_one_binary_which_is_also_in_the_path() {
    let dockerfile = text("Dockerfile");
    let (_, layout) = dockerfile.split_once(" && install -D ").unwrap();
    let (layout, stages) = layout.split_once("\n\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("built"), "the binary").unwrap();
    let here = |path: &str| format!(" {}{path}", folder.path().display());
    let script = format!("install -D {layout}")
        .replace("\"target/$target/release/podnudge\"", here("/built").trim())
        .replace(" /image", &here("/image"))
        .replace(" /reloader", &here("/reloader"));
    let made = command("sh").args(["-ec", &script]).output().unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));

    for (stage, image) in [("prometheus-config-reloader", "reloader"), ("podnudge", "image")] {
        let (_, stage) = stages.split_once(&format!("FROM scratch AS {stage}\n")).unwrap();
        let stage = stage.split("FROM ").next().unwrap();
        assert!(stage.contains(&format!("COPY --from=build /{image} /\n")), "{stage}");
        let [path] = between(stage, "ENV PATH=", '\n')[..] else { panic!("{stage}") };
        assert!(path.split(':').any(|folder| folder == "/usr/local/bin"), "{path}");
        let root = folder.path().join(image);
        assert_eq!(fs::read_to_string(root.join("podnudge")).unwrap(), "the binary");
        // Relative: an absolute one would lead out of the folder in which the image is unpacked.
        let link = fs::read_link(root.join("usr/local/bin/podnudge")).unwrap();
        assert_eq!(link, Path::new("../../../podnudge"));
        assert!(root.join("usr/local/bin").join(link).exists());
    }
    let reloader = folder.path().join("reloader/bin/prometheus-config-reloader");
    assert_eq!(fs::read_link(reloader).unwrap(), Path::new("../podnudge"));
}

/// A fork sets it, and publishes its own image and chart.
#[test]
fn one_variable_names_the_image_and_the_chart_of_a_release() {
    let release = text(".github/workflows/release.yml");
    let variables: BTreeSet<&str> = between(&release, "${{ vars.", ' ').into_iter().collect();
    assert_eq!(variables, BTreeSet::from(["PUBLISH_TO"]));

    let all = workflow("release")["jobs"]["version"]["steps"].clone();
    let naming = all.as_array().unwrap().iter().find(|it| it["id"] == "names").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let writes = |to: &str| {
        let mut bash = command("bash");
        bash.args(["-ec", naming["run"].as_str().unwrap()]);
        bash.env("PUBLISH_TO", to).env("GITHUB_OUTPUT", &output).output().unwrap().status.success()
    };
    assert!(writes("registry.example:5000/Team/tools"));
    let wanted = "registry=registry.example:5000\nimage=registry.example:5000/team/tools/podnudge\n\
                  charts=registry.example:5000/team/tools/charts\n";
    assert_eq!(fs::read_to_string(&output).unwrap(), wanted);
    assert!(!writes(""));
}

/// What `kubectl apply -f URL` and `helm install` get from a release.
#[test]
fn the_manifests_and_the_chart_of_a_release_name_its_image_by_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let image =
        format!("registry.example:5000/team/podnudge@sha256:{}", "0123456789abcdef".repeat(4));
    let mut write = command(root().join(".ci/manifests"));
    let tools = root().join("target/checks/bin");
    write.env("PATH", format!("{}:{PATH}", tools.display()));
    write.args([&*image, version, "team/fork"]).arg(folder.path());
    output_of(write).unwrap();

    let mut images = 0;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        names.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(!yaml::documents(&text).is_empty(), "{}", path.display());
            assert!(!text.contains("podnudge:0"), "{}", path.display());
            images += text.matches(&image).count();
        }
    }
    assert!(images >= 10, "only {images} images");
    let chart = format!("podnudge-{version}.tgz");
    for name in
        ["nginx-published.yaml", "injection.yaml", "injection-kyverno.yaml", "sync.yaml", &chart]
    {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    let chart = folder.path().join(chart);
    let made = templated(&chart, &["sync.enabled=true", "injection=true"]).unwrap();
    assert_eq!(made.matches(&image).count(), 2, "{made}");
    let mut show = tool("helm");
    show.args(["show", "chart"]).arg(&chart);
    let about = output_of(show).unwrap();
    assert!(about.contains(&image) && !about.contains("OWNER"), "{about}");
    assert!(about.contains("home: https://github.com/team/fork\n"), "{about}");
}

/// A job that runs code of dependencies must not be able to write to the repository, and no text that others choose
/// may become a part of a script.
#[test]
fn jobs_that_build_cannot_write_and_scripts_contain_no_expressions() {
    for name in ["release", "test", "advisories", "site"] {
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
            let builds =
                scripts.iter().any(|script| script.contains("cargo ") || script.contains(".ci/"));
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
    let [version] = between(&run, "cargo-tool deny ", '\n')[..] else { panic!(".ci/run") };
    assert!(advisories.contains(&format!("cargo-deny@{version}\n")), "{version}");
}
