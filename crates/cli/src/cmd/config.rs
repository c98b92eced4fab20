//! `sluice config`: what is set and where it came from, or a sample file.

use settings::{Role, reference, sample_toml};

use super::Outcome;
use super::settings::{Sources, print};
use crate::say;

/// Arguments of `sluice config`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Prints a commented sample file with every default.
    #[arg(long)]
    default: bool,
    /// Explains one setting, by Sluice's name or RocketMQ's.
    #[arg(long, value_name = "NAME")]
    explain: Option<String>,
    #[command(flatten)]
    sources: Sources,
}

pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.default {
        return say::line(sample_toml().trim_end());
    }
    if let Some(name) = &arguments.explain {
        return match (reference::help_for(name), reference::matches(name)) {
            (Some(text), _) => say::line(text),
            (None, Some(names)) => {
                Err(format!("there is no setting [{name}]; these look like it:\n{}", names.trim_end()))
            }
            (None, None) => Err(format!("there is no setting [{name}]; `sluice config --default` lists all")),
        };
    }
    print(&arguments.sources.load(Role::Serve, Vec::new())?)
}
