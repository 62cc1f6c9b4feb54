//! Which keys of a volume count, and how much of it is read. Pure.

/// The most bytes of a volume that are read without a delay for other rules.
pub const SMALL: u64 = 2 * 1024 * 1024;

/// Selects the keys that count. `only` and `ignore` are matched against the key's path below the
/// volume's content root.
#[derive(Debug, Clone)]
pub struct KeyFilter {
    /// The most bytes of a volume that are read.
    pub most_bytes: u64,
    /// When not empty, only keys that match one of these count.
    pub only: Vec<glob::Pattern>,
    /// Keys that match one of these never count.
    pub ignore: Vec<glob::Pattern>,
    /// The key that pauses the rule. Only its presence matters, so it never counts.
    pub pause: Option<String>,
}

impl Default for KeyFilter {
    fn default() -> Self {
        let most_bytes = 64 * 1024 * 1024;
        Self { most_bytes, only: Vec::new(), ignore: Vec::new(), pause: None }
    }
}
