//! What podnudge uses of the machine that it runs on, and what all modules share: files and folders, threads, signals to
//! podnudge itself, standard error, the environment, exit codes, its version.

pub mod exit;
pub(crate) mod files;
pub(crate) mod folder;
pub mod lockdown;
pub mod os_signals;
pub mod own_socket;
pub mod stderr;
pub mod surroundings;
pub(crate) mod threads;
pub mod version;
