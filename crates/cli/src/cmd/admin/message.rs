//! `sluice admin message`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::Asking;
use super::client::{Failure, path, query};
use super::layout::laid_out;
use super::moment::moment;
use super::show::{self, rows};
use crate::say::clean_but;

/// Bytes of a body in a list.
const SHOWN_SIZE: usize = 60;

/// Bytes of a line of hexadecimal digits.
const HEX_LINE: usize = 16;

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin message find orders --key 4711\n  \
    sluice admin message find orders --queue 3 --offset 1000 --count 10\n  \
    sluice admin message find %DLQ%billing --queue 0                dead letters of a group\n  \
    sluice admin message copy orders --queue 3 --offset 1000 --count 10 --to orders-again\n  \
    sluice admin message show 7F0000010000ACF90000000000001D2A --body hex")]
pub(super) enum Action {
    /// Finds messages of a topic, a line each.
    Find {
        /// The topic.
        topic: String,
        #[command(flatten)]
        by: By,
        /// The first offset, of those in a queue; without it the oldest.
        #[arg(long, value_name = "OFFSET", requires = "queue")]
        offset: Option<u64>,
        /// Messages at most, up to 100.
        #[arg(long, value_name = "COUNT", default_value_t = 10)]
        count: u32,
        /// At this broker alone, where a process has several.
        #[arg(long, value_name = "NAME")]
        broker: Option<String>,
        /// Stored then or later: a date as 2026-11-25T10:00:00Z, or an age as 10m.
        #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "queue")]
        from: Option<u64>,
        /// Stored then or before.
        #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "queue")]
        until: Option<u64>,
    },
    /// Puts copies of messages of a queue into another topic.
    Copy {
        /// The topic that has them.
        topic: String,
        /// The queue.
        #[arg(long, value_name = "NUMBER")]
        queue: u32,
        /// The first offset.
        #[arg(long, value_name = "OFFSET")]
        offset: u64,
        /// Messages at most, up to 100.
        #[arg(long, value_name = "COUNT", default_value_t = 1)]
        count: u32,
        /// The topic that gets them.
        #[arg(long, value_name = "NAME")]
        to: String,
        /// The broker that has them, where a process has several.
        #[arg(long, value_name = "NAME")]
        broker: Option<String>,
    },
    /// Shows a message with its properties and body.
    Show {
        /// Its id, as a broker gave it; with --topic, as its producer made it.
        id: String,
        /// The topic, for the id of a producer.
        #[arg(long, value_name = "NAME")]
        topic: Option<String>,
        /// How its body is shown: as JSON or text if it is that, otherwise as hex.
        #[arg(long, value_name = "FORM", default_value = "auto", value_parser = ["auto", "text", "json", "hex", "none"])]
        body: String,
    },
}

/// By what.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct By {
    /// With this key.
    #[arg(long)]
    key: Option<String>,
    /// With this id, which its producer made.
    #[arg(long)]
    id: Option<String>,
    /// In this queue.
    #[arg(long, value_name = "NUMBER")]
    queue: Option<u32>,
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    match action {
        Action::Find { topic, by: By { key, id, queue }, offset, count, broker, from, until } => {
            let numbers = [
                ("queue", queue.map(u64::from)),
                ("offset", *offset),
                ("count", Some(u64::from(*count))),
                ("from", *from),
                ("until", *until),
            ];
            let numbers = numbers.map(|(name, number)| Some((name, number?.to_string())));
            let texts = [("key", key), ("id", id), ("broker", broker)].map(|(name, text)| Some((name, text.clone()?)));
            let wanted: Vec<_> = numbers.into_iter().chain(texts).flatten().collect();
            let answer = client.get(&format!("{}{}", path(["topics", topic, "messages"]), query(&wanted)))?;
            asking.tell(&answer, listed)
        }
        Action::Copy { topic, queue, offset, count, to, broker } => {
            let asked = json!({"queue": queue, "offset": offset, "count": count, "to": to, "broker": broker});
            let answer = client.post(&path(["topics", topic, "copies"]), &asked)?;
            asking.tell(&answer, |told| format!("{} messages of {topic} were copied to {to}", told["copied"]))
        }
        Action::Show { id, topic, body } => {
            let answer = match topic {
                None => client.get(&path(["messages", id]))?,
                Some(topic) => {
                    let wanted = query(&[("id", id.clone())]);
                    let mut found = client.get(&format!("{}{wanted}", path(["topics", topic, "messages"])))?;
                    let first = found["items"].get_mut(0).map(Value::take);
                    first.ok_or_else(|| Failure::Refused {
                        why: format!("no message of topic {topic} has the id {id}, or it is no longer kept"),
                        nearest: Vec::new(),
                    })?
                }
            };
            asking.tell(&answer, |message| shown(message, body))
        }
    }
}

fn listed(found: &Value) -> String {
    let mut items = rows(found, "items").to_vec();
    for item in &mut items {
        let mut body = body_of(item);
        body.truncate(SHOWN_SIZE);
        let text = String::from_utf8(body).unwrap_or_else(|_| format!("({} bytes)", item["body_size"]));
        item["key"] = item["properties"]["KEYS"].clone();
        item["body"] = text.into();
    }
    if items.is_empty() {
        return "no messages".to_owned();
    }
    let columns = ["id", "broker", "queue", "offset", "stored_ms", "key", "body"];
    let is_of_one_broker = items.iter().all(|item| item["broker"] == items[0]["broker"]);
    show::list(&items, &columns.into_iter().filter(|name| *name != "broker" || !is_of_one_broker).collect::<Vec<_>>())
}

fn body_of(message: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(message["body_base64"].as_str().unwrap_or_default()).unwrap_or_default()
}

fn shown(message: &Value, form: &str) -> String {
    let columns =
        ["id", "topic", "broker", "queue", "offset", "stored_ms", "born_ms", "born_host", "deliveries", "body_size"];
    let mut parts = vec![show::below_each_other(message, &columns)];
    if let Some(properties) = message["properties"].as_object().filter(|properties| !properties.is_empty()) {
        let names: Vec<_> = properties.keys().map(String::as_str).collect();
        parts.push(format!("properties\n{}", show::below_each_other(&message["properties"], &names)));
    }
    if message["is_intact"] == false {
        parts.push("The body is damaged: its checksum is another.".to_owned());
    }
    if message["is_compressed"] == true {
        parts.push("The body is compressed by its producer.".to_owned());
    }
    if form != "none" {
        parts.push(body_as(&body_of(message), form));
    }
    parts.join("\n\n")
}

/// A body in lines that cannot move the cursor of a terminal.
fn body_as(body: &[u8], form: &str) -> String {
    let json = || laid_out(std::str::from_utf8(body).ok()?);
    let text = || String::from_utf8(body.to_vec()).ok();
    let plain = |text: String| clean_but(&text, &['\n', '\t']);
    let found = match form {
        "auto" => json().or_else(text).map(plain),
        "json" => json().map(plain),
        "text" => Some(plain(String::from_utf8_lossy(body).into_owned())),
        _ => None,
    };
    found.unwrap_or_else(|| hex(body))
}

fn hex(body: &[u8]) -> String {
    let lines = body.chunks(HEX_LINE).enumerate().map(|(number, line)| {
        let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text: String = line.iter().map(|byte| if is_shown(byte) { char::from(*byte) } else { '.' }).collect();
        format!("{:08x}  {:47}  {text}", number * HEX_LINE, digits.join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_as_what_they_are_and_move_no_cursor() {
        assert_eq!(body_as(b"{\"a\":1}", "auto"), "{\n  \"a\": 1\n}");
        assert_eq!(body_as(b"[12345678901234567890123,1.10]", "json"), "[\n  12345678901234567890123,\n  1.10\n]");
        assert_eq!(body_as(b"{\"a\":1}", "text"), "{\"a\":1}");
        assert_eq!(body_as("gr\u{fc}n\n\u{1b}[2J".as_bytes(), "auto"), "gr\u{fc}n\n\\u{1b}[2J");
        assert_eq!(body_as(b"no json", "json"), hex(b"no json"));
        assert_eq!(
            body_as(b"\xff0123456789abcdef", "auto"),
            "00000000  ff 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65  .0123456789abcde\n00000010  66                                               f"
        );
    }
}
