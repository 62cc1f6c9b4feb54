//! Which podnudge this is.

use std::sync::LazyLock;

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, if the build was told that (`PODNUDGE_COMMIT`).
pub const COMMIT: Option<&str> = option_env!("PODNUDGE_COMMIT");

/// Both, for people.
pub static SHOWN: LazyLock<String> = LazyLock::new(|| match COMMIT {
    Some(commit) if !commit.is_empty() => format!("{VERSION} ({commit})"),
    _ => VERSION.to_owned(),
});
