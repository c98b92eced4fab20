//! `sluice admin queue`.

use serde_json::json;

use super::client::{Failure, flag, path, query};
use super::{Asking, In, With, show};

/// What is listed of a queue.
const COLUMNS: [&str; 5] = ["name", "ready", "unacknowledged", "consumers", "arguments"];

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin queue list --vhost /shop\n  \
    sluice admin queue add orders --argument x-max-length=1000000 --argument x-overflow=reject-publish\n  \
    sluice admin queue delete orders --if-empty --if-unused")]
pub(super) enum Action {
    /// Lists queues with the messages that are ready and those that consumers have not acknowledged.
    List(In),
    /// Shows one queue.
    Show {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: In,
    },
    /// Makes a queue.
    #[command(visible_alias = "create")]
    Add {
        /// Its name.
        name: String,
        /// It goes with the process.
        #[arg(long)]
        transient: bool,
        /// It goes with its last consumer.
        #[arg(long)]
        auto_delete: bool,
        #[command(flatten)]
        with: With,
        #[command(flatten)]
        place: In,
    },
    /// Removes a queue with its messages and bindings.
    Delete {
        /// Its name.
        name: String,
        /// Only if it has no messages.
        #[arg(long)]
        if_empty: bool,
        /// Only if it has no consumers.
        #[arg(long)]
        if_unused: bool,
        #[command(flatten)]
        place: In,
    },
    /// Drops all messages of a queue that are ready.
    Purge {
        /// Its name.
        name: String,
        #[command(flatten)]
        place: In,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    let of = |vhost: &str, name: &str| path(["vhosts", vhost, "queues", name]);
    match action {
        Action::List(In { vhost }) => asking.list(&path(["vhosts", vhost, "queues"]), &COLUMNS),
        Action::Show { name, place: In { vhost } } => {
            let queue = client.get(&of(vhost, name))?;
            if asking.is_json {
                return asking.tell(&queue, |_| String::new());
            }
            let columns: Vec<_> = COLUMNS.iter().copied().chain(["durable", "auto_delete", "exclusive"]).collect();
            asking.tell_list(vec![queue], &columns)
        }
        Action::Add { name, transient, auto_delete, with, place: In { vhost } } => {
            let new = json!({
                "name": name, "durable": !transient, "auto_delete": auto_delete, "arguments": with.json(),
            });
            let answer = client.post(&path(["vhosts", vhost, "queues"]), &new)?;
            asking.tell(&answer, |_| format!("queue {name} is there in {vhost}"))
        }
        Action::Delete { name, if_empty, if_unused, place: In { vhost } } => {
            let condition: Vec<_> =
                flag("if_empty", *if_empty).into_iter().chain(flag("if_unused", *if_unused)).collect();
            let answer = client.delete(&(of(vhost, name) + &query(&condition)))?;
            asking.tell(&answer, |answer| {
                format!("queue {name} was deleted from {vhost}, with {} ready", show::messages(&answer["messages"]))
            })
        }
        Action::Purge { name, place: In { vhost } } => {
            let answer = client.delete(&(of(vhost, name) + "/messages"))?;
            asking.tell(&answer, |answer| {
                format!("dropped {} of queue {name} in {vhost}", show::messages(&answer["messages"]))
            })
        }
    }
}
