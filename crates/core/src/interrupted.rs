//! Content whose check has not passed when podnudge ended. If the check ended podnudge (the kernel, for want
//! of memory, or a bug), the content is checked again, while nothing else is checked, and rejected after
//! [`Interrupted::MOST`] times. Pure.

use crate::reason::Reason;
use crate::snapshot::Digest;

/// Content whose check had begun or was due, and had not passed, when an earlier podnudge ended: the
/// application may not run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    /// The digest of the content.
    pub digest: Digest,
    /// How many times its check has ended podnudge. 0 if podnudge was stopped meanwhile, if the check did not
    /// pass, or if it had not begun.
    pub times: u32,
}

impl Interrupted {
    /// How many times the check of a digest may end podnudge. It is not checked again then.
    pub const MOST: u32 = 2;

    /// How many times the check of this content has ended podnudge.
    #[must_use]
    pub fn times(known: &[Self], content: Digest) -> u32 {
        let known = known.iter().find(|known| known.digest == content);
        known.map_or(0, |known| known.times)
    }

    /// Why this content is not checked again, if that is so.
    #[must_use]
    pub fn rejection(known: &[Self], content: Digest) -> Option<Reason> {
        let times = Self::times(known, content);
        let message = format!("podnudge has ended {times} times while it checked this content");
        let hint = "it may have run out of memory: see why the container was terminated, and raise its memory limit or make the content smaller; a trigger lets podnudge check it once more";
        (times >= Self::MOST).then(|| Reason::new(message).hint(hint))
    }
}
