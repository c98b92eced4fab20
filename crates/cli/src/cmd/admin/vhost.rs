//! `sluice admin vhost`.

use serde_json::json;

use super::Asking;
use super::client::{Failure, path};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  sluice admin vhost add /shop --description \"the shop's events\"\n  \
    sluice admin vhost limit /shop --queues 1000\n  sluice admin vhost list")]
pub(super) enum Action {
    /// Lists virtual hosts.
    List,
    /// Makes a virtual host.
    #[command(visible_alias = "create")]
    Add {
        /// Its name.
        name: String,
        /// What it is for.
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
    },
    /// Says how much there may be in a virtual host, instead of what was said before; what is there stays.
    Limit {
        /// Its name.
        name: String,
        /// Connections; without it any number.
        #[arg(long, value_name = "COUNT")]
        connections: Option<u32>,
        /// Queues; without it any number.
        #[arg(long, value_name = "COUNT")]
        queues: Option<u32>,
    },
    /// Removes a virtual host with its exchanges, queues and messages; connections to it are closed.
    Delete {
        /// Its name.
        name: String,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    match action {
        Action::List => asking.list("/vhosts", &["name", "queues", "queues_max", "connections_max", "description"]),
        Action::Add { name, description } => {
            let answer = asking.client.post("/vhosts", &json!({"name": name, "description": description}))?;
            asking.tell(&answer, |_| format!("virtual host {name} was made"))
        }
        Action::Limit { name, connections, queues } => {
            let limits = json!({"connections": connections, "queues": queues});
            let answer = asking.client.put(&path(["vhosts", name, "limits"]), &limits)?;
            asking.tell(&answer, |_| format!("virtual host {name} is limited"))
        }
        Action::Delete { name } => {
            let answer = asking.client.delete(&path(["vhosts", name]))?;
            asking.tell(&answer, |_| format!("virtual host {name} was deleted"))
        }
    }
}
