//! How content is named to people, in the log, the status and the history of changes.
//!
//! Whoever reads the digest of a short secret can guess and confirm the secret. So the content of a rule that may watch
//! a Secret is named by another digest, which nobody can compute without a key that only this podnudge has.

use sha2::{Digest as _, Sha256};

use podnudge_core::snapshot::Digest;

/// How the content of a rule is named.
#[derive(Clone, Copy)]
pub enum Naming {
    /// By its digest.
    Plain,
    /// By a digest of this key and its digest.
    Keyed([u8; 32]),
}

impl Naming {
    /// What stands for the digest.
    #[must_use]
    pub fn of(&self, digest: Digest) -> Digest {
        match self {
            Self::Plain => digest,
            // Both have a fixed length, so no other key and digest have the same bytes.
            Self::Keyed(key) => {
                Digest(Sha256::new().chain_update(key).chain_update(digest.0).finalize().into())
            }
        }
    }

    /// The short form of that.
    #[must_use]
    pub fn short(&self, digest: Digest) -> String {
        format!("{:.12}", self.of(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_tells_which_digest_has_a_name() {
        let [one, other] = [Digest([1; 32]), Digest([2; 32])];
        let (key, new_key) = (Naming::Keyed([7; 32]), Naming::Keyed([8; 32]));
        assert_eq!(Naming::Plain.of(one), one);
        assert_eq!(key.of(one), key.of(one));
        for different in [one, key.of(other), new_key.of(one)] {
            assert_ne!(key.of(one), different);
        }
    }
}
