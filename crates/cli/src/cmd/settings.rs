//! What every subcommand that runs a process takes: a settings file, single settings, and the flags that official scripts share.

use std::path::PathBuf;

use settings::{Loaded, Origin, Role, load_file};

use super::Outcome;
use crate::say;

/// A settings file and single settings.
#[derive(clap::Args, Debug, Default)]
pub struct Given {
    /// Settings file: TOML, or a RocketMQ .properties/.conf file as it is.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, by Sluice's name or RocketMQ's; may be given often.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Given {
    /// Reads the file; `flags` overrule everything.
    pub fn origin(&self, role: Role, flags: Vec<(&'static str, String)>) -> Result<Origin, String> {
        let file = self.config.as_deref().map(load_file).transpose().map_err(|error| error.to_string())?;
        Ok(Origin::new(role, file, self.set.clone(), flags))
    }
}

/// Where settings come from. Later ones overrule earlier ones: file, --set, flags.
#[derive(clap::Args, Debug, Default)]
pub struct Sources {
    #[command(flatten)]
    given: Given,
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address to listen on; 0.0.0.0 opens every port to the network.
    #[arg(long, value_name = "HOST")]
    pub listen: Option<String>,
    /// Speaks TLS with clients that begin with it, by a self-signed certificate made in the data directory: for a trial.
    #[arg(long)]
    tls: bool,
}

impl Sources {
    /// Loads everything, with `flags` last.
    pub fn load(&self, role: Role, flags: Vec<(&'static str, String)>) -> Result<Loaded, String> {
        self.origin(role, flags)?.load().map_err(|errors| errors.to_string())
    }

    fn origin(&self, role: Role, mut flags: Vec<(&'static str, String)>) -> Result<Origin, String> {
        flags.extend(self.data.as_ref().map(|data| ("storage.directory", data.display().to_string())));
        flags.extend(self.listen.clone().map(|host| ("listen.host", host)));
        flags.extend(self.tls.then(|| ("tls.self_signed", "true".to_owned())));
        self.given.origin(role, flags)
    }

    /// Loads everything and runs the process.
    pub fn run(&self, role: Role, flags: Vec<(&'static str, String)>) -> Outcome {
        let origin = self.origin(role, flags)?;
        let loaded = origin.load().map_err(|errors| errors.to_string())?;
        server::run(origin, loaded).map_err(|error| error.to_string())
    }
}

/// What mqnamesrv and mqbroker both take.
#[derive(clap::Args, Debug)]
pub struct Official {
    /// Prints every setting and ends.
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,
    #[command(flatten)]
    sources: Sources,
}

impl Official {
    /// Runs the process, or shows its settings.
    pub fn run(&self, role: Role, flags: Vec<(&'static str, String)>) -> Outcome {
        if self.print {
            return print(&self.sources.load(role, flags)?);
        }
        self.sources.run(role, flags)
    }
}

/// Prints every setting with its value and the place it came from.
pub fn print(loaded: &Loaded) -> Outcome {
    for notice in &loaded.notices {
        say::note(notice);
    }
    let lines = loaded.effective.iter().map(|one| format!("{} = {}    # {}", one.name, one.value, one.place));
    say::line(lines.collect::<Vec<_>>().join("\n"))
}
