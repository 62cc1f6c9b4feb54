//! Which keys of a TOML text may follow those before it. What may be defined twice follows the TOML
//! specification as the crate `toml` reads it. Keys are kept as hashes of their paths. Pure.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

/// The most keys of a text: 6 MiB.
pub(super) const MAX_KEYS: usize = 150_000;
/// The deepest nesting of values, and the most parts of a dotted key.
pub(super) const MAX_DEPTH: u32 = 80;

/// A key, by the hash of its path.
type Id = u64;

/// What a key is defined as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A table above another one in a header: `a` in `[a.b]`.
    Implicit,
    /// A table above a dotted key: `a` in `a.b = 1`.
    Dotted,
    /// A table with a header.
    Table,
    /// Tables with the header `[[a]]`, of which this many came before the last one.
    Tables(u32),
    /// Any other value, also an inline table.
    Value,
}

/// The part of the text in which a key's path begins.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// The table in which the path begins.
    table: Id,
    /// The table above the next part of the key.
    above: Id,
    /// What that table is, if the key is dotted.
    above_kind: Option<Kind>,
    is_inline: bool,
}

impl Scope {
    fn new(table: Id, is_inline: bool) -> Self {
        Self { table, above: table, above_kind: None, is_inline }
    }

    fn begin_key(&mut self) {
        (self.above, self.above_kind) = (self.table, None);
    }
}

/// The keys so far.
pub(super) struct Keys {
    hasher: RandomState,
    kinds: BTreeMap<Id, Kind>,
    /// The root, or the table of the last header.
    scope: Scope,
    /// The inline tables around the current value.
    inline_scopes: Vec<Scope>,
    /// Whether the key is in a header.
    in_header: bool,
    /// The last part of a key, until what follows it is known.
    pending: Option<Id>,
    /// The number of inline tables so far.
    inline_tables: u64,
    parts: u32,
}

const ROOT: Id = 0;

impl Keys {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            kinds: BTreeMap::new(),
            scope: Scope::new(ROOT, false),
            inline_scopes: Vec::new(),
            in_header: false,
            pending: None,
            inline_tables: 0,
            parts: 0,
        }
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.kinds.len() > MAX_KEYS
    }

    /// Takes a part of a key. What follows says what it is.
    pub(super) fn part(&mut self, name: &str) {
        let above = self.innermost().above;
        self.pending = Some(self.hasher.hash_one((above, name)));
    }

    /// The key has more parts: descends into its table.
    pub(super) fn descend(&mut self) -> Result<(), &'static str> {
        let Some(id) = self.pending.take() else { return Ok(()) };
        let (in_header, is_inline) = (self.in_header, self.innermost().is_inline);
        self.parts += 1;
        if self.parts >= MAX_DEPTH {
            return Err("too many parts");
        }
        let (above, kind) = match (self.kinds.get(&id).copied(), in_header) {
            (None, true) => (self.define(id, Kind::Implicit), Kind::Implicit),
            (None | Some(Kind::Implicit), false) => (self.define(id, Kind::Dotted), Kind::Dotted),
            (Some(Kind::Dotted), false) => (id, Kind::Dotted),
            (Some(kind @ (Kind::Implicit | Kind::Dotted | Kind::Table)), true) => (id, kind),
            (Some(Kind::Tables(number)), _) if !is_inline => {
                (self.last_of(id, number), Kind::Table)
            }
            (Some(Kind::Table | Kind::Tables(_) | Kind::Value), _) => {
                return Err("the key has a value already");
            }
        };
        let scope = self.innermost();
        (scope.above, scope.above_kind) = (above, Some(kind));
        Ok(())
    }

    /// Ends a key that has a value.
    pub(super) fn assign(&mut self) -> Result<(), &'static str> {
        let above = self.innermost().above_kind;
        self.innermost().begin_key();
        self.parts = 0;
        let Some(id) = self.pending.take() else { return Ok(()) };
        let is_mixed = !matches!(above, None | Some(Kind::Dotted | Kind::Implicit));
        if is_mixed || self.kinds.contains_key(&id) {
            return Err("duplicate key");
        }
        self.define(id, Kind::Value);
        Ok(())
    }

    pub(super) fn open_header(&mut self) {
        self.scope = Scope::new(ROOT, false);
        self.inline_scopes.clear();
        (self.in_header, self.parts, self.pending) = (true, 0, None);
    }

    /// Ends a header.
    pub(super) fn close_header(&mut self, is_list: bool) -> Result<(), &'static str> {
        (self.in_header, self.parts) = (false, 0);
        let Some(id) = self.pending.take() else { return Ok(()) };
        let kind = match (self.kinds.get(&id), is_list) {
            (None, true) => Ok(Kind::Tables(0)),
            (Some(Kind::Tables(number)), true) => Ok(Kind::Tables(number + 1)),
            (None | Some(Kind::Implicit), false) => Ok(Kind::Table),
            _ => Err("duplicate table"),
        };
        let id = self.define(id, kind.unwrap_or(Kind::Table));
        let table = match kind {
            Ok(Kind::Tables(number)) => self.last_of(id, number),
            _ => id,
        };
        self.scope = Scope::new(table, false);
        kind.map(drop)
    }

    pub(super) fn open_inline_table(&mut self) {
        self.inline_tables += 1;
        let table = self.hasher.hash_one(("inline", self.inline_tables));
        self.inline_scopes.push(Scope::new(table, true));
    }

    pub(super) fn close_inline_table(&mut self) {
        self.inline_scopes.pop();
    }

    fn innermost(&mut self) -> &mut Scope {
        self.inline_scopes.last_mut().unwrap_or(&mut self.scope)
    }

    /// The last of the tables with a header `[[…]]`.
    fn last_of(&self, id: Id, number: u32) -> Id {
        self.hasher.hash_one((id, "last", number))
    }

    fn define(&mut self, id: Id, kind: Kind) -> Id {
        self.kinds.insert(id, kind);
        id
    }
}
