//! Writes podnudge's manual pages, and its completions for bash, zsh and fish, from the definitions of its command
//! line: `cargo run --example manual -- DIR`.

use std::error::Error;
use std::path::Path;

use clap_complete::Shell;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name the directory to write to")?;
    write(Path::new(&folder))
}

/// Writes all files into this directory.
pub(crate) fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(podnudge::cli::command(), folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut podnudge::cli::command(), "podnudge", folder)?;
    }
    Ok(())
}
