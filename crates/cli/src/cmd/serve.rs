//! `sluice serve`: everything in one process.

use settings::Role;

use super::Outcome;
use super::settings::Sources;

/// Arguments of `sluice serve`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> Outcome {
    arguments.sources.run(Role::Serve, Vec::new())
}
