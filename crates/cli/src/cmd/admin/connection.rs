//! `sluice admin connection`.

use super::Asking;
use super::client::{Failure, path};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  sluice admin connection list\n  sluice admin connection close 17")]
pub(super) enum Action {
    /// Lists clients that are connected: those of RocketMQ with their groups, and connections of AMQP.
    List,
    /// Closes a connection of AMQP; its client may come back.
    Close {
        /// Its number, as the list has it.
        number: u64,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    match action {
        Action::List => asking.list(
            "/connections",
            &[
                "number", "client", "address", "protocol", "language", "version", "user", "vhost", "consumes",
                "produces",
            ],
        ),
        Action::Close { number } => {
            let answer = asking.client.delete(&path(["connections", &number.to_string()]))?;
            asking.tell(&answer, |_| format!("connection {number} is closed"))
        }
    }
}
