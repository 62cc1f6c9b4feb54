//! What the declaration of a table needs.

pub(super) use std::path::PathBuf;
pub(super) use std::time::Duration;

pub(super) use super::define::Heading::{
    Actions, Checks, Podnudge, PublishDirectory, TargetProcess, Timing, Verification, Volumes,
};
pub(super) use super::define::{Form, Relation, Type};
pub(super) use super::parsers::{self, is_not};
pub(super) use super::place::Place;
pub(super) use super::place::Spot::{self, Key, Value};
pub(super) use super::settings::{
    Validated, computed, default, flatten, list, one_or_more, optional, optional_list,
    optional_table, optional_table_or, required, required_list, table, table_or, tables, tables_or,
};
pub(super) use super::types::*;
pub(super) use super::words::{Words as _, choice};
pub(super) use podnudge_core::reason::Reason;
pub(super) use podnudge_core::shown::{literal, path_literal};
