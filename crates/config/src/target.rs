//! `[rule.target]`: the process to act on. Pure.

use super::prelude::*;

settings! {
    /// The process to act on. Without `process`, `exe`, `cmdline` and `pidfile` it is the process that mounts the watched volumes, or the publish directory.
    pub struct Target = "[rule.target]",
        &[Relation::AtMostOne(&["process", "exe", "cmdline", "pidfile"])];
        validated
    {
        /// The process with this name; of several, the root of their process tree.
        process: Option<String> = optional("", checked("a name", parsers::process_name)).option("process", "NAME", TargetProcess).common();
        /// The process that runs this executable.
        exe: Option<PathBuf> = optional("", path()).option("exe", "PATH", TargetProcess);
        /// The process whose arguments, joined by spaces, match.
        cmdline: Option<regex_lite::Regex> = optional("", regex()).option("cmdline", "REGEX", TargetProcess);
        /// The process whose pid is in this file, unless it started after the file was written.
        pidfile: Option<PathBuf> = optional("", path()).option("pidfile", "FILE", TargetProcess);
        /// Only processes with this user id.
        uid: Option<u32> = optional("any", number(0, u32::MAX - 1)).option("uid", "UID", TargetProcess);
        /// Every process that matches, not only the root of the process tree.
        all: bool = default("false", boolean());
        /// How long to wait for a missing target before that is a failure.
        wait: Duration = default("5m", duration(ZERO, DAY));
        /// How to find the process.
        by: TargetBy = computed();
    }
}

/// How to find the target process.
#[derive(Debug, Clone, Default)]
pub enum TargetBy {
    /// The process that mounts the watched volumes.
    #[default]
    Mount,
    /// The process name, as in `/proc/PID/comm`, or for names over 15 characters the base name
    /// of the executable or of the first argument.
    Process(String),
    /// The path of the executable.
    Exe(PathBuf),
    /// A regular expression over the arguments, joined by spaces.
    Cmdline(regex_lite::Regex),
    /// A file with the pid, in podnudge's pid namespace.
    Pidfile(PathBuf),
}

impl Target {
    fn validate(&mut self, _place: &Place<'_>) {
        let by = [
            self.process.clone().map(TargetBy::Process),
            self.exe.clone().map(TargetBy::Exe),
            self.cmdline.clone().map(TargetBy::Cmdline),
            self.pidfile.clone().map(TargetBy::Pidfile),
        ];
        self.by = by.into_iter().flatten().next().unwrap_or_default();
    }
}
