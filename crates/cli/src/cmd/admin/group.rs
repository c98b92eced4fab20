//! `sluice admin group`.

use serde_json::{Value, json};

use super::Asking;
use super::client::{Client, Failure, flag, path, query};
use super::moment::moment;
use super::show::{self, rows};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin group list                                   who is behind\n  \
    sluice admin group describe billing                       and where\n  \
    sluice admin group reset billing --topic orders --to-time 2h --dry-run\n  \
    sluice admin group reset billing --topic orders --to-offset 4711 --queue 3     skip a message\n  \
    sluice admin group resend billing                         its dead letters")]
pub(super) enum Action {
    /// Lists groups with their members and how many messages they have not consumed.
    List,
    /// Shows a group's members, and how far it has come in each queue.
    Describe {
        /// Its name.
        name: String,
    },
    /// Has a group go on elsewhere in a topic; its members hear of it at once.
    Reset {
        /// The group's name.
        name: String,
        /// The topic.
        #[arg(long, value_name = "NAME")]
        topic: String,
        #[command(flatten)]
        to: To,
        /// In this queue alone.
        #[arg(long, value_name = "NUMBER")]
        queue: Option<u32>,
        /// At this broker alone, where a process has several.
        #[arg(long, value_name = "NAME")]
        broker: Option<String>,
        /// Shows where it would lead, and does nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Sends a group its dead letters once more, as messages that were never delivered; they stay where they are.
    Resend {
        /// The group's name.
        name: String,
        /// Sends them to the topics they came from, and so to every group; for a group whose consumers pop.
        #[arg(long)]
        to_topics: bool,
        /// Those alone that died then or later: a date as 2026-11-25T10:00:00Z, or an age as 10m.
        #[arg(long, value_name = "TIME", value_parser = moment)]
        since: Option<u64>,
        /// Those too that were resent before.
        #[arg(long)]
        again: bool,
        /// Passes over those whose topic is gone: they stay where they are, and count as resent.
        #[arg(long, requires = "to_topics")]
        pass_over: bool,
        /// Counts them, and does nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Removes a group and how far it has come; who consumes by it makes it anew.
    Delete {
        /// Its name.
        name: String,
        /// Keeps how far it has come.
        #[arg(long)]
        keep_offsets: bool,
    },
}

/// Where to.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct To {
    /// To the oldest message that is kept.
    #[arg(long)]
    to_first: bool,
    /// Behind the newest message.
    #[arg(long)]
    to_end: bool,
    /// To the first message that was stored then or later: a date as 2026-11-25T10:00:00Z, or an age as 10m.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to_time: Option<u64>,
    /// To this offset, or as near to it as a queue goes.
    #[arg(long, value_name = "OFFSET")]
    to_offset: Option<u64>,
}

impl To {
    fn json(&self) -> Value {
        match (self.to_time, self.to_offset) {
            (Some(time), _) => json!({"time": time}),
            (_, Some(offset)) => json!({"offset": offset}),
            _ if self.to_first => json!("first"),
            _ => json!("end"),
        }
    }
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    match action {
        Action::List => asking.list("/groups", &["name", "members", "lag"]),
        Action::Describe { name } => asking.tell(&client.get(&path(["groups", name]))?, described),
        Action::Reset { name, topic, to, queue, broker, dry_run } => {
            let asked = json!({"topic": topic, "to": to.json(), "queue": queue, "broker": broker, "dry_run": dry_run});
            let answer = client.post(&path(["groups", name, "reset"]), &asked)?;
            asking.tell(&answer, |told| {
                let how = if *dry_run { "would go on" } else { "goes on" };
                let items = rows(told, "items");
                let table = show::list(items, &["broker", "queue", "from", "to"]);
                let is_other = |offset: u64| items.iter().any(|item| item["to"] != offset);
                let remark = match to.to_offset.filter(|offset| is_other(*offset)) {
                    Some(offset) => {
                        format!("\n\nNot at {offset} everywhere: as near to it as the messages of a queue allow.")
                    }
                    None => String::new(),
                };
                format!("group {name} {how} in {topic}\n\n{table}{remark}")
            })
        }
        Action::Resend { name, to_topics, since, again, pass_over, dry_run } => {
            let to = if *to_topics { "topics" } else { "group" };
            let asked = json!({"to": to, "since": since, "again": again, "pass_over": pass_over, "dry_run": dry_run});
            asking.tell(&resend(client, name, asked)?, |told| match told["left"].as_u64() {
                Some(left) if *dry_run => format!("{left} dead letters of group {name} would be resent"),
                _ => format!("{} dead letters of group {name} were resent{}", told["resent"], passed_over(told)),
            })
        }
        Action::Delete { name, keep_offsets } => {
            let query = query(&Vec::from_iter(flag("keep_offsets", *keep_offsets)));
            let answer = client.delete(&format!("{}{query}", path(["groups", name])))?;
            asking.tell(&answer, |_| format!("group {name} was deleted"))
        }
    }
}

/// Asks until none is left: a broker resends so many at once that it can answer soon.
fn resend(client: &Client, name: &str, mut asked: Value) -> Result<Value, Failure> {
    let page = path(["groups", name, "resend"]);
    let (mut resent, mut passed_over) = (0, 0);
    loop {
        let mut told = client.post(&page, &asked)?;
        let [count, passed] = ["resent", "passed_over"].map(|name| told[name].as_u64().unwrap_or_default());
        (resent, passed_over) = (resent + count, passed_over + passed);
        (told["resent"], told["passed_over"]) = (resent.into(), passed_over.into());
        if count + passed == 0 || told["left"] == 0 {
            return Ok(told);
        }
        asked["again"] = false.into();
    }
}

/// What is to be known of dead letters that could not go anywhere.
fn passed_over(told: &Value) -> String {
    match told["passed_over"].as_u64().unwrap_or_default() {
        0 => String::new(),
        count => format!("; {count} stay where they are, since the topics they came from are gone"),
    }
}

fn described(group: &Value) -> String {
    let members = rows(group, "members");
    let queues = rows(group, "queues");
    let mut parts = vec![format!("{}: {} messages behind", group["name"].as_str().unwrap_or_default(), group["lag"])];
    if group["dead_letters"] != 0 {
        let (kept, left) = (&group["dead_letters"], &group["dead_letters_not_resent"]);
        parts.push(format!("{kept} dead letters, {left} of them not resent (sluice admin group resend)"));
    }
    parts.push(match members {
        [] => "no members".to_owned(),
        _ => show::list(members, &["client", "address", "broker", "language", "seen_ms"]),
    });
    parts.push(match queues {
        [] => "it has consumed nothing".to_owned(),
        _ => show::list(queues, &["topic", "broker", "queue", "committed", "end", "lag", "consumed_time_ms"]),
    });
    parts.join("\n\n")
}
