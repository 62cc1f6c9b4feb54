//! The directories between the top of a volume and what is read.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// A directory in the tree.
pub(super) struct Level<'a> {
    pub(super) fd: BorrowedFd<'a>,
    /// The directory's path below the content root, with a `/` at the end; empty for the root.
    pub(super) prefix: Vec<u8>,
    pub(super) depth: usize,
    /// The directory's full path, if it has to be watched.
    pub(super) path: Option<PathBuf>,
    /// The parent in the tree.
    pub(super) above: Option<&'a Level<'a>>,
    /// Whether a link leads from there to the directory.
    pub(super) is_behind_link: bool,
}

impl<'a> Level<'a> {
    /// The directory in which a reading begins. `path`: if it has to be watched.
    pub(super) fn top(fd: BorrowedFd<'a>, path: Option<PathBuf>) -> Self {
        Self { fd, prefix: Vec::new(), depth: 0, path, above: None, is_behind_link: false }
    }

    /// The directory, and those above it.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &Level<'a>> {
        std::iter::successors(Some(self), |level| level.above)
    }
}
