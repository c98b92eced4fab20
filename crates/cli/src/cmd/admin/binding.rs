//! `sluice admin binding`.

use serde_json::json;

use super::client::{Failure, path, query};
use super::{Asking, In, With};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin binding add events orders --key \"order.*\"\n  \
    sluice admin binding add events audit --to-exchange\n  \
    sluice admin binding delete events orders --key \"order.*\"")]
pub(super) enum Action {
    /// Lists bindings.
    List(In),
    /// Makes a binding.
    #[command(visible_alias = "create")]
    Add(Binding),
    /// Removes a binding; key and arguments must be those it was made with.
    Delete(Binding),
}

#[derive(clap::Args, Debug)]
pub(super) struct Binding {
    /// The exchange that messages come from.
    source: String,
    /// The queue that messages go to.
    destination: String,
    /// The destination is an exchange.
    #[arg(long)]
    to_exchange: bool,
    /// Key, or pattern of keys.
    #[arg(long, value_name = "KEY", default_value = "")]
    key: String,
    #[command(flatten)]
    with: With,
    #[command(flatten)]
    place: In,
}

impl Binding {
    const fn kind(&self) -> &'static str {
        if self.to_exchange { "exchange" } else { "queue" }
    }

    fn told(&self) -> String {
        let Self { source, destination, place: In { vhost }, .. } = self;
        format!("from {source} to {destination} in {vhost}")
    }
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let of = |vhost: &str| path(["vhosts", vhost, "bindings"]);
    match action {
        Action::List(In { vhost }) => {
            asking.list(&of(vhost), &["source", "destination", "destination_type", "key", "arguments"])
        }
        Action::Add(binding) => {
            let named = json!({
                "source": binding.source, "destination": binding.destination, "destination_type": binding.kind(),
                "key": binding.key, "arguments": binding.with.json(),
            });
            let answer = asking.client.post(&of(&binding.place.vhost), &named)?;
            asking.tell(&answer, |_| format!("binding {} is there", binding.told()))
        }
        Action::Delete(binding) => {
            let named = query(&[
                ("source", binding.source.clone()),
                ("destination", binding.destination.clone()),
                ("destination_type", binding.kind().to_owned()),
                ("key", binding.key.clone()),
                ("arguments", binding.with.json().to_string()),
            ]);
            let answer = asking.client.delete(&(of(&binding.place.vhost) + &named))?;
            asking.tell(&answer, |_| format!("binding {} was deleted", binding.told()))
        }
    }
}
