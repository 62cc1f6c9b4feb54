//! Writes podnudge's manual pages, and its completions for bash, zsh and fish, from the definitions of its command
//! line: `cargo run --example manual -- DIR`.

use std::error::Error;
use std::path::Path;

use podnudge::cli;

/// The shells, each with the file in which it looks for its completions.
const FILES: [(&str, &str); 3] =
    [("bash", "podnudge.bash"), ("fish", "podnudge.fish"), ("zsh", "_podnudge")];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name the directory to write to")?;
    write(Path::new(&folder))
}

/// Writes all files into this directory.
pub(crate) fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(cli::command(), folder)?;
    for (shell, file) in FILES {
        std::fs::write(folder.join(file), cli::script(shell).ok_or("the shell is not known")?)?;
    }
    Ok(())
}
