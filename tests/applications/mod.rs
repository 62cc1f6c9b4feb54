//! Real applications under load, through the example files that ship.
//!
//! By the examples that only reload: every change is served, no request fails, and what was
//! signalled is the master. By those that check and publish: the application never meets what is
//! broken. The same without the checks: what it does not take is rolled back.

mod apache;
mod haproxy;
mod load;
mod nginx;
mod plain;
mod plays;
mod pod;
mod prometheus;
