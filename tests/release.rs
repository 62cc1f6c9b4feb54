//! What a release promises besides the program: the same source gives the same bytes, and the Dockerfile and `./test`
//! agree on how it is built.

use std::fs;

use crate::support::manifests::root;

/// The shipped binaries. `./test` builds them.
const WITH_TLS: &str = "target/x86_64-unknown-linux-gnu/release/podnudge";
const WITHOUT_TLS: &str = "target/plain/x86_64-unknown-linux-gnu/release/podnudge";

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

#[test]
fn the_image_is_built_with_the_flags_and_the_tools_of_the_tested_binary() {
    let dockerfile = text("Dockerfile");
    let test = text("test");
    for file in [&dockerfile, &test, &text(".ci/run")] {
        assert!(file.contains(". .ci/static-flags"), "{file}");
        assert!(file.contains("CARGO_ENCODED_RUSTFLAGS=\"$static\""), "{file}");
    }
    assert!(text(".dockerignore").lines().any(|line| line == "!.ci/static-flags"));
}
