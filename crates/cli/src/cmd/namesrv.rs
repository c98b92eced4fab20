//! `sluice namesrv`: a name server alone, with the flags of mqnamesrv.

use settings::Role;

use super::Outcome;
use super::settings::Sources;

/// Arguments of `sluice namesrv`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Prints every setting and ends.
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.print {
        return super::config::print(&arguments.sources.load(Role::NameServer, Vec::new())?);
    }
    arguments.sources.run(Role::NameServer, Vec::new())
}
