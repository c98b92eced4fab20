//! `sluice serve`: everything in one process.

use std::path::PathBuf;

use server::settings::Role;

use super::Outcome;
use super::settings::Sources;

/// Arguments of `sluice serve`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let data = arguments.data.as_ref().map(|data| ("storage.directory", data.display().to_string()));
    arguments.sources.run(Role::Serve, data.into_iter().collect())
}
