//! `sluice admin broker`.

use serde_json::{Map, Value, json};

use super::Asking;
use super::client::Failure;
use super::show::{self, rows};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin broker list                  is it well, how full, how fast\n  \
    sluice admin broker describe              and what it has, with its slaves\n  \
    sluice admin broker ready                 ends with 0 while clients may be sent there, for scripts\n  \
    sluice admin broker settings --changed    what is not as by default\n  \
    sluice admin broker set retention.age=48h\n  \
    sluice admin broker drain                 producers go elsewhere, consumers finish\n  \
    sluice admin broker resume")]
pub(super) enum Action {
    /// Lists the brokers of the process that is asked.
    List,
    /// Shows all there is to say of each, and its slaves.
    Describe,
    /// Asks whether clients are to be sent there: not while it starts, drains or stops, nor with a full disk.
    Ready,
    /// Lists the settings of the process, and which of them can change while it runs.
    Settings {
        /// Only those that are not as by default.
        #[arg(long)]
        changed: bool,
    },
    /// Changes settings until the process ends, by Sluice's names or RocketMQ's; what is to stay belongs into its settings file.
    Set {
        /// New values: all are taken, or none.
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        settings: Vec<(String, String)>,
    },
    /// Takes no more messages, so that producers go to other brokers, and hands out what there is: before it is stopped.
    Drain,
    /// Takes messages again.
    Resume,
}

/// A MiB, and a GiB, in bytes.
const UNITS: [(f64, &str); 2] = [((1_u64 << 30) as f64, "GiB"), ((1_u64 << 20) as f64, "MiB")];

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    match action {
        Action::List => asking.tell(&asking.client.get("/brokers")?, |told| {
            let items: Vec<_> = rows(told, "items").iter().map(in_short).collect();
            show::list(&items, &["name", "role", "state", "in/s", "out/s", "disk", "slaves"])
        }),
        Action::Describe => {
            let answer = asking.client.get("/brokers")?;
            asking.tell(&answer, |told| rows(told, "items").iter().map(described).collect::<Vec<_>>().join("\n\n"))
        }
        Action::Ready => asking.tell(&asking.client.ready()?, |told| match rows_by_name(told) {
            lines if lines.is_empty() => "ready".to_owned(),
            lines => lines.join("\n"),
        }),
        Action::Settings { changed } => {
            let mut items = rows(&asking.client.get("/settings")?, "items").to_vec();
            items.retain(|item| !changed || item["from"] != "default");
            asking.tell_list(items, &["name", "value", "from", "changes_at_once"])
        }
        Action::Set { settings } => change(settings, asking),
        Action::Drain => change(&[permission(READ)], asking),
        Action::Resume => change(&[permission(READ_AND_WRITE)], asking),
    }
}

/// Of several brokers: which is ready, and why the others are not.
fn rows_by_name(told: &Value) -> Vec<String> {
    let brokers = told["brokers"].as_object().into_iter().flatten();
    let line = |(name, broker): (&String, &Value)| {
        let said = broker.get("reason").unwrap_or(&broker["status"]);
        format!("{name}: {}", said.as_str().unwrap_or_default())
    };
    brokers.map(line).collect()
}

/// Values of `broker.permission`.
const READ: &str = "4";
const READ_AND_WRITE: &str = "6";

fn permission(value: &str) -> (String, String) {
    ("broker.permission".to_owned(), value.to_owned())
}

/// A name and a value, as they are written on a command line.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is not of the form NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn change(settings: &[(String, String)], asking: &Asking) -> Result<(), Failure> {
    let wanted: Map<_, _> = settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let answer = asking.client.patch("/settings", &wanted.into())?;
    asking.tell(&answer, |told| {
        let changed = |row: &Value| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            format!("{} = {} (was {})", text("name"), text("to"), text("from"))
        };
        match rows(told, "items") {
            [] => "nothing is different".to_owned(),
            rows => format!("{}\nuntil the next start", rows.iter().map(changed).collect::<Vec<_>>().join("\n")),
        }
    })
}

fn state(broker: &Value) -> Value {
    if broker["is_well"] != true {
        return broker["problem"].clone();
    }
    match (broker["is_draining"] == true, broker["is_readable"] == false) {
        (false, false) => "well",
        (true, false) => "well, drains: takes no messages",
        (false, true) => "well, but hands out no messages (broker.permission)",
        (true, true) => "well, but takes and hands out no messages (broker.permission)",
    }
    .into()
}

fn in_short(broker: &Value) -> Value {
    let rate = |name: &str| format!("{:.0}", broker[name].as_f64().unwrap_or_default());
    json!({
        "name": broker["name"],
        "role": broker["role"],
        "state": state(broker),
        "in/s": rate("messages_in_per_second"),
        "out/s": rate("messages_out_per_second"),
        "disk": disk(broker),
        "slaves": rows(broker, "slaves").len(),
    })
}

fn disk(broker: &Value) -> String {
    let bytes = |name: &str| broker[name].as_f64().unwrap_or_default();
    let (used, total) = (bytes("disk_used_bytes"), bytes("disk_total_bytes").max(1.0));
    format!("{:.0} % of {}", 100.0 * used / total, size(total))
}

fn size(bytes: f64) -> String {
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(|| format!("{bytes:.0} bytes"), |(size, name)| format!("{:.1} {name}", bytes / size))
}

fn described(broker: &Value) -> String {
    let bytes = |name: &str| broker[name].as_f64().unwrap_or_default();
    let mut lines = broker.clone();
    lines["state"] = state(broker);
    lines["disk"] = disk(broker).into();
    lines["kept"] = size(bytes("log_end") - bytes("log_first")).into();
    lines["not synced"] = size(bytes("unsynced_bytes")).into();
    for (short, long) in [("in/s", "messages_in_per_second"), ("out/s", "messages_out_per_second")] {
        lines[short] = format!("{:.1}", bytes(long)).into();
    }
    let columns = [
        "cluster",
        "role",
        "state",
        "in/s",
        "out/s",
        "topics",
        "groups",
        "kept",
        "oldest_message_ms",
        "not synced",
        "disk",
    ];
    let slaves = match rows(broker, "slaves") {
        [] => "no slaves".to_owned(),
        slaves => show::list(slaves, &["address", "behind_bytes", "sent_bytes_per_second", "caught_up_ms"]),
    };
    let name = broker["name"].as_str().unwrap_or_default();
    format!("{name}\n{}\n\n{slaves}", show::below_each_other(&lines, &columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_told_in_units_that_people_read() {
        let broker = json!({
            "name": "broker-a", "role": "master", "is_well": false, "problem": "the disk is full",
            "messages_in_per_second": 1234.6, "messages_out_per_second": 0.0, "slaves": [],
            "disk_used_bytes": 3_u64 << 30, "disk_total_bytes": 4_u64 << 30, "log_first": 0, "log_end": 5 << 20,
        });
        let short = in_short(&broker);
        assert_eq!((&short["in/s"], &short["disk"]), (&json!("1235"), &json!("75 % of 4.0 GiB")));
        let text = described(&broker);
        assert!(text.contains("state the disk is full") && text.contains("kept 5.0 MiB"), "{text}");
        let state =
            |takes: bool, gives: bool| state(&json!({"is_well": true, "is_draining": !takes, "is_readable": gives}));
        assert_eq!((state(true, true), state(false, true)), (json!("well"), json!("well, drains: takes no messages")));
        assert_eq!(state(true, false), json!("well, but hands out no messages (broker.permission)"));
    }
}
