//! Code shared by the tests.

pub(crate) mod pair;
pub(crate) mod policies;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod shelf;
pub(crate) mod store;
pub(crate) mod trace;
pub(crate) mod world;
