//! Which keys of a volume count, and how much of it is read. Pure.

/// How much of a volume is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MostBytes {
    /// Of a file.
    pub file: u64,
    /// Of all files of a volume.
    pub volume: u64,
}

impl MostBytes {
    /// What is read without a delay for other rules.
    pub const SMALL: Self = Self { file: 2 * 1024 * 1024, volume: 2 * 1024 * 1024 };
}

impl Default for MostBytes {
    fn default() -> Self {
        Self { file: 16 * 1024 * 1024, volume: 64 * 1024 * 1024 }
    }
}

/// Selects the keys that count. `only` and `ignore` are matched against the key's path below the
/// volume's content root.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// How much is read.
    pub most: MostBytes,
    /// When not empty, only keys that match one of these count.
    pub only: Vec<glob::Pattern>,
    /// Keys that match one of these never count.
    pub ignore: Vec<glob::Pattern>,
    /// The key that pauses the rule. Only its presence matters, so it never counts.
    pub pause: Option<String>,
}
