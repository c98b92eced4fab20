//! `sluice completions`: what a shell needs to complete commands and options.

use clap::Command;
use clap_complete::{Shell, generate};

use super::Outcome;
use crate::say;

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    sluice completions bash > /etc/bash_completion.d/sluice\n  \
    sluice completions zsh > ~/.zfunc/_sluice\n  \
    sluice completions fish > ~/.config/fish/completions/sluice.fish")]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

pub fn run(arguments: &Arguments, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, "sluice", &mut script);
    say::line(String::from_utf8_lossy(&script).trim_end())
}
