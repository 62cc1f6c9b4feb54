//! What no pod needs: the translation of other reloaders' options ([`compat`]), the simulation of a change on all
//! replicas ([`plan`]), and what happens when volumes change, in sentences ([`summary`]).
//!
//! Pure: it gets the configuration, options and the content of files, and returns texts.

#[cfg(feature = "compat")]
pub mod compat;
#[cfg(feature = "plan")]
pub mod plan;
#[cfg(feature = "plan")]
pub mod plan_options;
#[cfg(feature = "plan")]
pub mod summary;
