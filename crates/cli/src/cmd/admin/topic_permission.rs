//! `sluice admin topic-permission`.

use serde_json::{Value, json};

use super::client::{Failure, path};
use super::{Asking, In};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin topic-permission set alice amq.topic --write \"^{username}\\.\" --read \".*\"\n  \
    sluice admin topic-permission list")]
pub(super) enum Action {
    /// Lists what was said of keys.
    List,
    /// Says by which keys a user may publish to a topic exchange and bind from it, beside what its permission says.
    ///
    /// Each is a regular expression of keys; {username} and {vhost} in it stand for these names. The empty one allows none.
    Set {
        /// The user.
        user: String,
        /// The exchange; it need not be there yet.
        exchange: String,
        #[command(flatten)]
        place: In,
        /// Keys to publish by.
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        write: String,
        /// Keys to bind by.
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        read: String,
    },
    /// Lets a user use all keys of an exchange again.
    Clear {
        /// The user.
        user: String,
        /// The exchange.
        exchange: String,
        #[command(flatten)]
        place: In,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    let of = |vhost: &str, user: &str, exchange: &str| path(["vhosts", vhost, "topic-permissions", user, exchange]);
    let told = |how: &'static str, user: &str, exchange: &str, vhost: &str| {
        let text = format!("topic permission of user {user} for {exchange} in {vhost} was {how}");
        move |_: &Value| text
    };
    match action {
        Action::List => asking.list("/topic-permissions", &["user", "vhost", "exchange", "write", "read"]),
        Action::Set { user, exchange, place: In { vhost }, write, read } => {
            let answer = client.put(&of(vhost, user, exchange), &json!({"write": write, "read": read}))?;
            asking.tell(&answer, told("set", user, exchange, vhost))
        }
        Action::Clear { user, exchange, place: In { vhost } } => {
            let answer = client.delete(&of(vhost, user, exchange))?;
            asking.tell(&answer, told("cleared", user, exchange, vhost))
        }
    }
}
