//! What the binaries that ship contain: the same bytes from the same source, the list of what they are made of, and
//! without TLS, what they say of what they cannot do.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{FULL, PLAIN, binary};
use crate::support::command;
use crate::support::manifests::{output_of, root};

/// Prints a file that zlib has compressed.
const DECOMPRESS: &str =
    "import sys, zlib; print(zlib.decompress(open(sys.argv[1], 'rb').read()).decode())";

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// The build without TLS is made for `./test nightly`.
mod nightly {
    use super::{PLAIN, fs};

    #[test]
    fn the_build_without_tls_contains_no_folder_of_the_machine_that_built_it() {
        super::contains_no_folder(PLAIN);
    }

    #[test]
    fn the_build_without_tls_lists_the_dependencies_that_it_is_made_of() {
        super::lists_its_dependencies(PLAIN, false);
    }

    /// Each file needs what the build without TLS has not, but for one.
    #[test]
    fn the_build_without_tls_says_what_it_cannot_do() {
        let folder = super::root().join("tests/bad_without_tls");
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in names {
            let mut podnudge = super::command(super::binary(PLAIN));
            let checked = podnudge.arg("check").arg(&name).current_dir(&folder).output().unwrap();
            let is_accepted = name.ends_with("_are_accepted.toml");
            assert_eq!(checked.status.code(), Some(if is_accepted { 0 } else { 78 }), "{name}");
            if !is_accepted {
                let said = String::from_utf8(checked.stderr).unwrap();
                insta::assert_snapshot!(name.trim_end_matches(".toml"), said);
            }
        }
    }
}

#[test]
fn the_binary_contains_no_folder_of_the_machine_that_built_it() {
    contains_no_folder(FULL);
}

#[test]
fn the_binary_lists_the_dependencies_that_it_is_made_of() {
    lists_its_dependencies(FULL, true);
}

/// Otherwise two builds of the same source differ, and the binary says who built it.
fn contains_no_folder(path: &str) {
    let here = root().display().to_string();
    // Below the home of cargo, wherever that is; in what the build made; and in the component rust-src.
    let folders = [here.as_str(), "registry/src", "/tokio-", "/target/", "rustlib/src"];
    let binary = fs::read(binary(path)).unwrap();
    // Panics name the file, which shows that the folders were removed and the names were not.
    assert!(contains(&binary, "src/") && contains(&binary, ".rs"), "{path} names no source");
    for folder in folders {
        assert!(!contains(&binary, folder), "{path} contains {folder}");
    }
}

/// The packages in the list that cargo-auditable writes, as `name version`.
fn listed(path: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let section = folder.path().join("section");
    let mut objcopy = command("objcopy");
    objcopy.arg(format!("--dump-section=.dep-v0={}", section.display()));
    objcopy.arg(binary(path)).arg(folder.path().join("copy"));
    output_of(objcopy).unwrap();
    assert!(section.exists(), "{path} has no list of its dependencies: run .ci/shipped nightly");
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
fn lists_its_dependencies(path: &str, has_tls: bool) {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
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

    let list = listed(path);
    assert_eq!(list.difference(&locked).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(list.contains(concat!("podnudge ", env!("CARGO_PKG_VERSION"))), "{list:?}");
    assert!(has(&list, "tokio") && !has(&list, "proptest"), "{list:?}");
    assert_eq!(has(&list, "rustls"), has_tls, "{list:?}");
}
