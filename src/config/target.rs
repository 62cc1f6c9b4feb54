//! `[rule.target]`: the process that is acted on. Pure.

use std::path::PathBuf;
use std::time::Duration;

use super::define::Heading::Target as TARGET;
use super::define::{Relation, option};
use super::place::Place;
use super::types::{DAY, ZERO, duration, expression, file, number, process_name, string, truth};

settings! {
    /// The process to act on. Without `process`, `exe`, `cmdline` and `pidfile` it is the process that mounts the watched volumes, or the publish directory.
    pub struct Target = "[rule.target]",
        &[Relation::AtMostOne(&["process", "exe", "cmdline", "pidfile"])];
        judge judge_by
    {
        /// The process with this name; of several, the root of their process tree.
        process: Option<String> = optional("", string("a name", process_name)), option("process", "NAME", TARGET).common();
        /// The process that runs this executable.
        exe: Option<PathBuf> = optional("", file("a path")), option("exe", "PATH", TARGET);
        /// The process whose arguments, joined by spaces, match.
        cmdline: Option<regex_lite::Regex> = optional("", expression()), option("cmdline", "REGEX", TARGET);
        /// The process whose pid is in this file.
        pidfile: Option<PathBuf> = optional("", file("a path")), option("pidfile", "FILE", TARGET);
        /// Only processes with this user id.
        uid: Option<u32> = optional("any", number(0, u32::MAX - 1)), option("uid", "UID", TARGET);
        /// Every process that matches, not only the root of the process tree.
        all: bool = default("false", truth());
        /// How long to wait for a missing target before that is a failure.
        wait: Duration = default("5m", duration(ZERO, DAY));
        /// How the process is found.
        by: TargetBy = computed;
    }
}

/// How the target process is found.
#[derive(Debug, Clone, Default)]
pub enum TargetBy {
    /// Whoever mounts the watched volumes.
    #[default]
    Mount,
    /// The process name, as in `/proc/PID/comm`, or for names over 15 characters the base name
    /// of the executable or of the first argument.
    Process(String),
    /// The path of the executable.
    Exe(PathBuf),
    /// A regular expression over the arguments, joined by spaces.
    Cmdline(regex_lite::Regex),
    /// A file that holds the pid, as podnudge sees it.
    Pidfile(PathBuf),
}

impl Target {
    fn judge_by(&mut self, _place: &Place<'_>) {
        let by = [
            self.process.clone().map(TargetBy::Process),
            self.exe.clone().map(TargetBy::Exe),
            self.cmdline.clone().map(TargetBy::Cmdline),
            self.pidfile.clone().map(TargetBy::Pidfile),
        ];
        self.by = by.into_iter().flatten().next().unwrap_or_default();
    }
}
