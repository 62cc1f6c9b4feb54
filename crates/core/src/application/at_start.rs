//! What the application may have read at its start, and has not passed the checks yet: an application may run on without
//! content that it cannot use. Until it has passed, there is no evidence that the application runs it.

use crate::snapshot::Digest;

/// Content that the application may have read at its start.
#[derive(Debug)]
pub(super) struct AtStart {
    digest: Digest,
    /// Whether the target is known to have started after the content was in place.
    is_read: bool,
    /// Whether the checks have rejected it since.
    is_rejected: bool,
}

/// What the checks of such content mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// The application runs it.
    Runs,
    /// Look whether the target has started after the content was in place.
    LookAgain,
    /// The application has read it when it was not valid.
    RollOut,
}

impl AtStart {
    pub(super) fn new(digest: Digest, is_read: bool) -> Self {
        Self { digest, is_read, is_rejected: false }
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    pub(super) fn is_rejected(&self) -> bool {
        self.is_rejected
    }

    /// Another process may run now.
    pub(super) fn target_ended(&mut self) {
        self.is_read = false;
    }

    /// The checks have rejected this content.
    pub(super) fn rejected(&mut self, content: Digest) {
        self.is_rejected |= self.digest == content;
    }

    /// What it means that the content has passed the checks now.
    pub(super) fn passed(&self) -> Started {
        match (self.is_rejected, self.is_read) {
            (true, _) => Started::RollOut,
            (false, true) => Started::Runs,
            (false, false) => Started::LookAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_may_not_have_read_what_the_one_before_has_read() {
        let content = Digest([1; 32]);
        let mut at_start = AtStart::new(content, true);
        assert_eq!(at_start.passed(), Started::Runs);
        at_start.target_ended();
        assert_eq!(at_start.passed(), Started::LookAgain);
    }

    #[test]
    fn only_the_rejection_of_that_content_counts() {
        let mut at_start = AtStart::new(Digest([1; 32]), true);
        at_start.rejected(Digest([2; 32]));
        assert!(!at_start.is_rejected());
        at_start.rejected(Digest([1; 32]));
        assert_eq!((at_start.is_rejected(), at_start.passed()), (true, Started::RollOut));
    }
}
