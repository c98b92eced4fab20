//! `sluice manual`: a manual page for each command, as packages install them.

use std::path::PathBuf;

use clap::Command;

use super::Outcome;
use crate::say;

#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    sluice manual /usr/local/share/man/man1 && man sluice-admin-topic")]
pub struct Arguments {
    /// The directory that gets them, a file a command; it is made if it is not there.
    directory: PathBuf,
}

pub fn run(arguments: &Arguments, command: Command) -> Outcome {
    let directory = &arguments.directory;
    let failed = |error| format!("the manual cannot be written to {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), directory).map_err(failed)?;
    let count = std::fs::read_dir(directory).map_err(failed)?.count();
    say::line(format!("{count} pages in {}", directory.display()))
}
