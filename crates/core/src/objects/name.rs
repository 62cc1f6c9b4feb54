//! Which object: a kind and a name.

use std::fmt;

/// The name of an object whose content is in volumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The name of the object.
    pub name: String,
}

/// The kinds of objects whose content is in volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ObjectName {
    /// The most objects that a podnudge watches for its own pod: each has a connection of its own.
    pub const MOST: usize = 16;

    /// Reads `configmap/NAME` or `secret/NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kind = match kind {
            "configmap" => ObjectKind::ConfigMap,
            "secret" => ObjectKind::Secret,
            _ => return None,
        };
        Some(Self { kind, name: name.to_owned() })
    }
}

/// As kubectl writes it: `configmap/app`.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
        };
        write!(f, "{kind}/{}", self.name)
    }
}
