//! `sluice admin exchange`.

use serde_json::json;

use super::client::{Failure, flag, path, query};
use super::{Asking, In, With};

/// How exchanges can route.
const KINDS: [&str; 4] = ["direct", "fanout", "topic", "headers"];

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin exchange add events --type topic\n  \
    sluice admin exchange add events --type topic --argument alternate-exchange=unrouted\n  \
    sluice admin exchange delete events --if-unused")]
pub(super) enum Action {
    /// Lists exchanges.
    List(In),
    /// Makes an exchange.
    #[command(visible_alias = "create")]
    Add {
        /// Its name.
        name: String,
        /// How it routes.
        #[arg(long = "type", value_name = "TYPE", default_value = "direct", value_parser = KINDS)]
        kind: String,
        /// It goes with the process.
        #[arg(long)]
        transient: bool,
        /// It goes with its last binding.
        #[arg(long)]
        auto_delete: bool,
        /// Only exchanges give it messages.
        #[arg(long)]
        internal: bool,
        #[command(flatten)]
        with: With,
        #[command(flatten)]
        place: In,
    },
    /// Removes an exchange with its bindings.
    Delete {
        /// Its name.
        name: String,
        /// Only if nothing is bound to it.
        #[arg(long)]
        if_unused: bool,
        #[command(flatten)]
        place: In,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    match action {
        Action::List(In { vhost }) => {
            let columns = ["name", "type", "durable", "auto_delete", "internal", "arguments"];
            asking.list(&path(["vhosts", vhost, "exchanges"]), &columns)
        }
        Action::Add { name, kind, transient, auto_delete, internal, with, place: In { vhost } } => {
            let new = json!({
                "name": name, "type": kind, "durable": !transient, "auto_delete": auto_delete, "internal": internal,
                "arguments": with.json(),
            });
            let answer = asking.client.post(&path(["vhosts", vhost, "exchanges"]), &new)?;
            asking.tell(&answer, |_| format!("exchange {name} is there in {vhost}"))
        }
        Action::Delete { name, if_unused, place: In { vhost } } => {
            let condition: Vec<_> = flag("if_unused", *if_unused).into_iter().collect();
            let answer = asking.client.delete(&(path(["vhosts", vhost, "exchanges", name]) + &query(&condition)))?;
            asking.tell(&answer, |_| format!("exchange {name} was deleted from {vhost}"))
        }
    }
}
