//! `sluice broker`: a broker alone, with the flags of mqbroker.

use settings::Role;

use super::Outcome;
use super::settings::Official;

/// Arguments of `sluice broker`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Name servers, separated by semicolons.
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDR[;ADDR]")]
    name_servers: Option<String>,
    #[command(flatten)]
    official: Official,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let flags = arguments.name_servers.clone().map(|addresses| ("broker.name_servers", addresses));
    arguments.official.run(Role::Broker, flags.into_iter().collect())
}
