//! The rights in the table of podnudge, as the tests' API server takes them.

use std::collections::BTreeSet;

use podnudge::cluster::{Right, needs};
use podnudge_config::{self as config, Overrides};

use super::access::Access;

/// The rights of the features of this configuration.
pub(crate) fn rights_of(text: &str) -> BTreeSet<Access> {
    let (config, _) = config::parse("c.toml", text, &Overrides::default(), None).unwrap();
    needs(&config).into_iter().flat_map(|need| need.rights).map(access).collect()
}

pub(crate) fn access(Right { group, resource, name, verb }: Right) -> Access {
    Access { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned(), name }
}
