//! Tests of the binaries that ship. `./test` builds `FULL` while the other tests run, and runs the tests in modules
//! `shipped` last, but for those in `nightly`; `./test nightly` also builds `PLAIN`, and runs these.

mod contents;
mod hostile_table;
mod promises;

use std::path::{Path, PathBuf};

/// The binary that ships.
pub(crate) const FULL: &str = "target/x86_64-unknown-linux-gnu/release/podnudge";
/// The one without TLS, the page, `podnudge plan` and `podnudge compat`.
pub(crate) const PLAIN: &str = "target/plain/x86_64-unknown-linux-gnu/release/podnudge";

/// The path of a binary that ships.
pub(crate) fn binary(path: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(binary.exists(), "{path} is not built: run .ci/shipped nightly");
    binary
}
