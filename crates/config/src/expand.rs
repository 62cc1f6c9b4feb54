//! `[rule.expand]`: a file of the volumes that is written for the application, decompressed and with
//! environment variables in it. Pure.

use std::path::Path;

use super::action::{Restart, RestartOf};
use super::prelude::*;
use podnudge_core::OnStart;

settings! {
    /// Write a file of the volumes for the application, just before the actions: decompressed, if it is gzip, and with the value of the environment variable `NAME` in place of `$(NAME)`.
    #[derive(PartialEq, Eq)]
    pub struct Expand = "[rule.expand]"; {
        /// The file to read: a watched file, or a key of a watched directory. Content is rejected if it cannot be decompressed, if a variable is not set, or if the file has more than 8 MiB, or 16 MiB after that.
        file: PathBuf = required("file = \"/etc/prometheus/config/prometheus.yaml.gz\"", path());
        /// The file to write, in a directory that is not watched. A rename replaces it.
        to: PathBuf = required("to = \"/etc/prometheus/config_out/prometheus.env.yaml\"", path());
        /// The environment variable with the name of a pod: `$(STATEFULSET_ORDINAL_NUMBER)` is the number at its end.
        ordinal_from: Option<String> = optional("", checked("a name", variable));
    }
}

fn variable(text: &str) -> Result<String, Reason> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err(is_not(text, "the name of a variable").hint("for example `POD_NAME`"));
    }
    Ok(text.to_owned())
}

impl Expand {
    /// Whether to act at start by default. With a file to write always: a target that started after the
    /// commit has read what was written before.
    pub(super) fn on_start(this: Option<&Self>) -> OnStart {
        if this.is_some() { OnStart::Always } else { OnStart::IfNewer }
    }

    /// Checks the paths against the watched ones, and reports what it cannot be combined with.
    pub(super) fn validate_with(
        &self,
        rule: &Place<'_>,
        volumes: &[PathBuf],
        on_start: Option<OnStart>,
        restart: Option<&Restart>,
    ) {
        let place = rule.inner("expand");
        if !cfg!(feature = "compat") {
            let reason = Reason::new("this podnudge was built without `[rule.expand]`");
            place.problem(Spot::Table, reason.hint("use one with the default features"));
            return;
        }
        if on_start == Some(OnStart::IfNewer) {
            let reason = Reason::new("`if-newer` cannot be combined with `[rule.expand]`");
            let hint = "leave it out: podnudge writes the file and acts at start";
            rule.problem(Value("on-start"), reason.hint(hint));
        }
        if !volumes.iter().any(|volume| self.file.starts_with(volume)) {
            let message = format!("{} is not watched", path_literal(&self.file));
            let hint = "add it to `watch`, or the directory that it is in";
            place.problem(Value("file"), Reason::new(message).hint(hint));
        }
        if let Some(volume) = volumes.iter().find(|volume| self.to.starts_with(volume)) {
            let (to, volume) = (path_literal(&self.to), path_literal(volume));
            let message = format!("{to} is in the watched path {volume}");
            let hint =
                "write to a directory of its own, such as an emptyDir that both containers mount";
            place.problem(Value("to"), Reason::new(message).hint(hint));
        }
        if self.to.parent().is_none_or(|parent| parent == Path::new("/")) {
            let message = format!("{} is in no directory of its own", path_literal(&self.to));
            let hint = "write to an emptyDir that both containers mount";
            place.problem(Value("to"), Reason::new(message).hint(hint));
        }
        let of_pod = restart.map_or(RestartOf::Target, |restart| restart.what);
        let others = [
            (rule.has("publish"), "`[rule.publish]`"),
            (of_pod == RestartOf::Pod, "a restart of the pod"),
            (of_pod == RestartOf::Evict, "an eviction"),
        ];
        for (_, other) in others.iter().filter(|(is_there, _)| *is_there) {
            let message = format!("`[rule.expand]` cannot be combined with {other}");
            let hint = "the file is written before a request, a signal, a command or a restart of the target";
            place.problem(Spot::Table, Reason::new(message).hint(hint));
        }
    }
}
