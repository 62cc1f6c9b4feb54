//! The applications: for each preset, a configuration with a visible version.

mod requests;
mod restarts;
mod signals;

use super::seen::Seen;

/// An application, and how to see which version of its configuration it runs.
///
/// In its texts, `{dir}` is the directory that it reads, `{run}` another one that all users can
/// write to, and `{version}` a number of four digits that is also a free port.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) preset: &'static str,
    /// The Debian package with its program.
    pub(crate) package: &'static str,
    /// The name of its process.
    pub(super) process: &'static str,
    pub(super) command: &'static [&'static str],
    /// The directory that it reads.
    pub(super) dir: &'static str,
    /// The key, and its content.
    pub(super) file: (&'static str, &'static str),
    /// Files that are not part of the volume, in `{run}`.
    pub(super) others: &'static [(&'static str, &'static str)],
    /// Shell commands before its first start.
    pub(super) prepare: &'static str,
    /// A line that makes the configuration invalid.
    pub(super) fault: &'static str,
    pub(super) seen: Seen,
    /// What shows the version there.
    pub(super) mark: &'static str,
    /// Programs that the preset's check names otherwise than Debian, or that are not in `PATH`.
    pub(super) programs: &'static [(&'static str, &'static str)],
}

/// What most subjects have in common.
const COMMON: Subject = Subject {
    preset: "",
    package: "",
    process: "",
    command: &[],
    dir: "/mnt",
    file: ("", ""),
    others: &[],
    prepare: "",
    fault: "nothing here",
    seen: Seen::Http(8080, "/"),
    mark: "{version}",
    programs: &[],
};

/// All of them.
pub(crate) fn subjects() -> impl Iterator<Item = &'static Subject> {
    [requests::REQUESTS, restarts::RESTARTS, signals::SIGNALS].into_iter().flatten()
}

/// gunicorn with `--preload`, whose application reads its settings when it is loaded: once.
pub(super) static PRELOADED: Subject = Subject {
    preset: "gunicorn",
    process: "gunicorn",
    command: &["gunicorn", "--preload", "--chdir", "{run}", "-b", "127.0.0.1:8080", "app:app"],
    file: ("settings", "{version}"),
    others: &[(
        "app.py",
        "version = open('{dir}/settings').read().encode()\n\
         def app(environ, start):\n    start('200 OK', [])\n    return [version]\n",
    )],
    ..COMMON
};
