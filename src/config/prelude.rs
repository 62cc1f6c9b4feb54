//! What the declaration of a table needs.

pub(super) use super::define::{Form, Relation, Type};
pub(super) use super::place::Place;
pub(super) use super::settings::{
    computed, default, flatten, list, one_or_more, optional, optional_list, optional_table, pairs,
    required, required_list, table, table_or, tables,
};
pub(super) use super::types::*;
