//! Real applications under load, with the shipped example files.
//!
//! With the examples that only reload, every change is served, no request fails, and only the
//! master is signalled. With those that check and publish, the application never loads a broken
//! configuration. With the same examples without checks, such a configuration is rolled back.
//! Applications that take signals without a handler get them, also below an init.

mod apache;
mod caddy;
mod certificates;
mod ends_on_signal;
mod haproxy;
mod keystore;
mod load;
mod nginx;
mod php_ini;
pub(crate) mod plain;
mod plays;
mod pod;
mod preset_check;
pub(crate) mod presets;
mod prometheus;
mod respawn;
mod several_processes;
mod waiting;
mod without_preset;
