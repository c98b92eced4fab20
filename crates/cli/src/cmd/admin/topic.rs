//! `sluice admin topic`.

use serde_json::{Value, json};

use super::Asking;
use super::client::{Failure, path, query};
use super::moment::moment;
use super::show::{self, rows};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin topic create orders --queues 16\n  \
    sluice admin topic describe orders\n  \
    sluice admin topic alter orders --permission r          drain it: nobody publishes to it any more\n  \
    sluice admin topic offsets orders --time 10m")]
pub(super) enum Action {
    /// Lists topics.
    List {
        /// Also those that the broker keeps for itself.
        #[arg(long)]
        system: bool,
    },
    /// Makes a topic.
    #[command(visible_alias = "add")]
    Create {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Changes a topic's settings; what is not named stays.
    Alter {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Removes a topic with its messages, and how far groups have come in it.
    Delete {
        /// Its name.
        name: String,
    },
    /// Shows settings, queues and groups of a topic.
    Describe {
        /// Its name.
        name: String,
    },
    /// Shows where messages of a time begin in each queue.
    Offsets {
        /// Its name.
        name: String,
        /// A date as 2026-11-25T10:00:00Z, or an age as 10m.
        #[arg(long, value_name = "TIME", value_parser = moment)]
        time: u64,
    },
}

#[derive(clap::Args, Debug)]
pub(super) struct Settings {
    /// Queues, at each broker of the process; a new topic has 8.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    queues: Option<u32>,
    /// Queues that consumers read, if these are others.
    #[arg(long, value_name = "COUNT")]
    read_queues: Option<u32>,
    /// Queues that producers write, if these are others.
    #[arg(long, value_name = "COUNT")]
    write_queues: Option<u32>,
    /// What clients may do.
    #[arg(long, value_name = "WHAT", value_parser = ["rw", "r", "w", "none"])]
    permission: Option<String>,
    /// Whether producers keep to the order of queues over several brokers.
    #[arg(long, value_name = "BOOLEAN")]
    order: Option<bool>,
}

impl Settings {
    fn json(&self) -> Value {
        let Self { queues, read_queues, write_queues, permission, order } = self;
        json!({
            "queues": queues,
            "read_queues": read_queues,
            "write_queues": write_queues,
            "permission": permission,
            "order": order,
        })
    }
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    match action {
        Action::List { system } => {
            let mut items = client.list("/topics")?;
            items.retain(|item| *system || item["system"] != true);
            asking.tell_list(items, &["name", "read_queues", "write_queues", "permission", "messages"])
        }
        Action::Create { name, settings } => {
            let mut new = settings.json();
            new["name"] = name.as_str().into();
            let answer = client.post("/topics", &new)?;
            asking.tell(&answer, |told| format!("topic {name} was made: {}", settings_of(told)))
        }
        Action::Alter { name, settings } => {
            let answer = client.put(&path(["topics", name]), &settings.json())?;
            asking.tell(&answer, |told| format!("topic {name} was altered: {}", settings_of(told)))
        }
        Action::Delete { name } => {
            let answer = client.delete(&path(["topics", name]))?;
            asking.tell(&answer, |_| format!("topic {name} was deleted"))
        }
        Action::Describe { name } => asking.tell(&client.get(&path(["topics", name]))?, described),
        Action::Offsets { name, time } => {
            let query = query(&[("time", time.to_string())]);
            let answer = client.get(&format!("{}{query}", path(["topics", name, "offsets"])))?;
            asking.tell(&answer, |told| show::list(rows(told, "items"), &["broker", "queue", "offset", "messages"]))
        }
    }
}

/// What a topic is set to: once if all brokers have it so, otherwise at each of them.
fn settings_of(topic: &Value) -> String {
    let whole = settings_at(topic);
    let brokers = rows(topic, "brokers");
    if brokers.iter().all(|broker| settings_at(broker) == whole) {
        return whole;
    }
    let at = |broker: &Value| format!("{} at {}", settings_at(broker), broker["name"].as_str().unwrap_or_default());
    brokers.iter().map(at).collect::<Vec<_>>().join("; ")
}

fn settings_at(settings: &Value) -> String {
    let (read, write, permission) = (&settings["read_queues"], &settings["write_queues"], &settings["permission"]);
    format!("{read} queues to read, {write} to write, {}", permission.as_str().unwrap_or_default())
}

fn described(topic: &Value) -> String {
    let groups: Vec<_> = rows(topic, "groups").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let rate = topic["messages_in_per_second"].as_f64().unwrap_or_default();
    let queues = show::list(rows(topic, "queues"), &["broker", "queue", "first", "end", "messages", "last_stored_ms"]);
    format!(
        "{}: {}\nmessages in: {rate:.1} a second\ngroups: {}\n\n{queues}",
        topic["name"].as_str().unwrap_or_default(),
        settings_of(topic),
        show::words(&groups)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_once_or_of_each_broker_where_they_differ() {
        let at = |name: &str, permission: &str| json!({"name": name, "read_queues": 4, "write_queues": 2, "permission": permission});
        let mut topic = at("orders", "rw");
        topic["brokers"] = json!([at("a", "rw"), at("b", "rw")]);
        assert_eq!(settings_of(&topic), "4 queues to read, 2 to write, rw");
        topic["brokers"] = json!([at("a", "rw"), at("b", "r")]);
        assert_eq!(settings_of(&topic), "4 queues to read, 2 to write, rw at a; 4 queues to read, 2 to write, r at b");
    }
}
