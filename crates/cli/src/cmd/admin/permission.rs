//! `sluice admin permission`.

use serde_json::{Value, json};

use super::client::{Failure, path};
use super::{Asking, In};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin permission set alice                         everything in the virtual host /\n  \
    sluice admin permission set reader --vhost /shop --configure \"\" --write \"\" --read \"^orders\"\n  \
    sluice admin permission list --user alice")]
pub(super) enum Action {
    /// Lists permissions.
    List {
        /// Only of this virtual host.
        #[arg(long, value_name = "NAME")]
        vhost: Option<String>,
        /// Only of this user.
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Says what a user may do, instead of what was said before.
    ///
    /// Each right is a regular expression of names of exchanges and queues; the empty one allows none.
    Set {
        /// The user.
        user: String,
        #[command(flatten)]
        place: In,
        /// What may be made and removed.
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        configure: String,
        /// What may be published and bound to.
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        write: String,
        /// What may be consumed and bound from.
        #[arg(long, value_name = "PATTERN", default_value = ".*")]
        read: String,
    },
    /// Lets a user do nothing in a virtual host any more.
    Clear {
        /// The user.
        user: String,
        #[command(flatten)]
        place: In,
    },
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    let of = |vhost: &str, user: &str| path(["vhosts", vhost, "permissions", user]);
    match action {
        Action::List { vhost, user } => {
            let is_wanted = |item: &Value, name: &str, wanted: &Option<String>| {
                wanted.as_deref().is_none_or(|wanted| item[name] == wanted)
            };
            let mut items = client.list("/permissions")?;
            items.retain(|item| is_wanted(item, "vhost", vhost) && is_wanted(item, "user", user));
            asking.tell_list(items, &["user", "vhost", "configure", "write", "read"])
        }
        Action::Set { user, place: In { vhost }, configure, write, read } => {
            let patterns = json!({"configure": configure, "write": write, "read": read});
            let answer = client.put(&of(vhost, user), &patterns)?;
            asking.tell(&answer, |_| format!("permission of user {user} in {vhost} was set"))
        }
        Action::Clear { user, place: In { vhost } } => {
            let answer = client.delete(&of(vhost, user))?;
            asking.tell(&answer, |_| format!("permission of user {user} in {vhost} was cleared"))
        }
    }
}
