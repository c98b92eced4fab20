//! `sluice broker`: a broker alone, with the flags of mqbroker.

use settings::Role;

use super::Outcome;
use super::settings::Sources;

/// Arguments of `sluice broker`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDR[;ADDR]")]
    name_servers: Option<String>,
    /// Prints every setting and ends.
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let flags = arguments.name_servers.clone().map(|addresses| ("broker.name_servers", addresses));
    let flags: Vec<_> = flags.into_iter().collect();
    if arguments.print {
        return super::config::print(&arguments.sources.load(Role::Broker, flags)?);
    }
    arguments.sources.run(Role::Broker, flags)
}
