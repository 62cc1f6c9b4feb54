//! The problems that would prevent the actions of a rule, found before there is anything to do.

use serde::Serialize;

use crate::reason::Reason;

/// A problem that would prevent the actions of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its kind. A rule has at most one problem of each kind.
    #[serde(rename = "problem")]
    pub kind: ProblemKind,
    /// What is wrong, and how to fix it.
    pub reason: Reason,
}

/// A kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// podnudge sees only its own container.
    NamespaceNotShared,
    /// No process matches the target, although other containers run processes.
    TargetNotFound,
    /// Several unrelated processes match.
    TargetAmbiguous,
    /// The target setting cannot work, such as with a volume that is mounted by subPath.
    TargetUnsupported,
    /// The target ignores the signal, or would end.
    SignalNotHandled,
    /// podnudge must not signal the target.
    NotPermitted,
    /// A program of the rule does not exist in podnudge's container.
    ProgramMissing,
    /// The rule has no action, and there is no preset for the target's program.
    NoPreset,
    /// The target's program does not reload on this signal.
    SignalDoesNotReload,
    /// A broken configuration ends the target, and the rule has no check.
    Unchecked,
}

impl ProblemKind {
    /// The name in status, log and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NamespaceNotShared => "namespace-not-shared",
            Self::TargetNotFound => "target-not-found",
            Self::TargetAmbiguous => "target-ambiguous",
            Self::TargetUnsupported => "target-unsupported",
            Self::SignalNotHandled => "signal-not-handled",
            Self::NotPermitted => "not-permitted",
            Self::ProgramMissing => "program-missing",
            Self::NoPreset => "no-preset",
            Self::SignalDoesNotReload => "signal-does-not-reload",
            Self::Unchecked => "unchecked",
        }
    }
}

/// The current problems of a rule.
#[derive(Debug, Default)]
pub(super) struct Preflight(Vec<Problem>);

impl Preflight {
    pub(super) fn problems(&self) -> &[Problem] {
        &self.0
    }

    pub(super) fn contains(&self, kind: ProblemKind) -> bool {
        self.0.iter().any(|problem| problem.kind == kind)
    }

    /// Takes the problems that were found now. Returns the new ones, and the kinds that are solved.
    pub(super) fn found(&mut self, problems: Vec<Problem>) -> (Vec<Problem>, Vec<ProblemKind>) {
        let before = std::mem::replace(&mut self.0, problems);
        let has = |problems: &[Problem], kind| problems.iter().any(|problem| problem.kind == kind);
        let new = self.0.iter().filter(|problem| !has(&before, problem.kind)).cloned().collect();
        let kinds = before.iter().map(|problem| problem.kind);
        (new, kinds.filter(|kind| !has(&self.0, *kind)).collect())
    }
}
