//! Stored messages of topics: found by id, by key, or by their place in a queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use base::{Now, QueueId, QueueOffset, Refusal, Timestamp};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use broker::{Broker, Fetch, Filter, KeyKind, Message, RawOffset};
use bytes::Bytes;
use format::properties::{self, names};
use format::record::{self, Record, log_offset_of_message_id, offset_message_id};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::problem::Problem;
use super::topic::{self, Places, found_at};
use super::{Admin, Answer};

/// Messages of one answer.
const COUNT_MAX: usize = 100;

/// Bytes of the records of one answer; one is always given.
const SIZE_MAX: usize = 8 * 1024 * 1024;

/// Which messages of a topic are wanted: with a key, with an id that a producer made, or from a place in a queue on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    key: Option<String>,
    id: Option<String>,
    queue: Option<u32>,
    offset: Option<u64>,
    count: Option<usize>,
    /// At this broker alone, if a process has several.
    broker: Option<String>,
    /// ms since 1970; of those with a key or an id.
    from: Option<u64>,
    /// The same.
    until: Option<u64>,
}

impl Wanted {
    fn count(&self) -> usize {
        self.count.unwrap_or(1).clamp(1, COUNT_MAX)
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (Timestamp(self.from.unwrap_or_default()), Timestamp(self.until.unwrap_or(u64::MAX / 2)))
    }

    /// The brokers to look at. Of a queue those that have it: another may have fewer.
    fn places<'a>(&self, name: &str, brokers: &'a [Arc<Broker>]) -> Result<Places<'a>, Problem> {
        let mut places = found_at(name, brokers, self.broker.as_deref())?;
        let Some(queue) = self.queue else { return Ok(places) };
        let names = topic::names(&places);
        places.retain(|(_, topic)| topic.queue(QueueId(queue)).is_ok());
        if places.is_empty() {
            return Err(Problem::not_found(format!("topic '{name}' has no queue {queue} at [{names}]")));
        }
        Ok(places)
    }

    /// What a broker has of it; nothing is no error, another broker may have it.
    fn find(&self, broker: &Broker, topic: &str) -> Result<Vec<Bytes>, Refusal> {
        let by = |key: &str, kind| {
            let limits = (self.count(), SIZE_MAX);
            match broker.lookup.by_key(topic, key, kind, self.times(), limits) {
                Err(Refusal::NoSuchMessage(_)) => Ok(Vec::new()),
                found => found,
            }
        };
        match (&self.key, &self.id, self.queue) {
            (Some(key), None, None) => by(key, KeyKind::Key),
            (None, Some(id), None) => by(id, KeyKind::Unique),
            (None, None, Some(queue)) => self.read(broker, topic, QueueId(queue)),
            _ => Err(Refusal::BadRequest("name one of key, id and queue".to_owned())),
        }
    }

    fn read(&self, broker: &Broker, topic: &str, queue: QueueId) -> Result<Vec<Bytes>, Refusal> {
        let Some(topic) = broker.catalog.topic(topic) else { return Ok(Vec::new()) };
        let first = topic.queue(queue)?.first().0;
        let fetched = broker.fetcher.read(&Fetch {
            topic: &topic,
            queue,
            offset: self.offset.unwrap_or(first).max(first) as RawOffset,
            count_max: self.count(),
            size_max: SIZE_MAX,
            filter: &Filter::All,
        })?;
        Ok(fetched.records().map(Bytes::copy_from_slice).collect())
    }
}

/// A message, as it is shown.
fn shown(record: &Record<'_>, broker: &Broker) -> Value {
    let properties: BTreeMap<_, _> = properties::iterate(record.properties)
        .map(|property| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(property.name), text(property.value))
        })
        .collect();
    json!({
        "id": offset_message_id(record.store_host, record.log_offset).as_str(),
        "topic": record.topic,
        "broker": broker.options().broker_name,
        "queue": record.queue.0,
        "offset": record.queue_offset.0,
        "stored_ms": record.store_timestamp.0,
        "born_ms": record.born_timestamp.0,
        "born_host": record.born_host.to_string(),
        "deliveries": record.reconsume_times,
        "properties": properties,
        "is_compressed": record.system_flag & record::system_flag::COMPRESSED != 0,
        "is_intact": record.body_is_intact(),
        "body_size": record.body.len(),
        "body_base64": BASE64_STANDARD.encode(record.body),
    })
}

fn decoded(bytes: &[u8], broker: &Broker) -> Result<Value, Problem> {
    let record = Record::decode(bytes).map_err(|error| Problem::failed(format!("a record cannot be read: {error}")))?;
    Ok(shown(&record, broker))
}

pub(super) async fn find(
    State(admin): State<Admin>,
    Path(topic): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let mut items = Vec::new();
        for (broker, _) in wanted.places(&topic, brokers)? {
            let messages = wanted.find(broker, &topic)?;
            for message in messages {
                items.push(decoded(&message, broker)?);
            }
        }
        Ok(json!({"items": items}))
    };
    admin.read_all(work).await
}

/// Which messages of a queue are to be copied, and where to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Copying {
    queue: u32,
    /// The first one.
    offset: u64,
    /// So many at most, and no more than one answer has.
    count: Option<usize>,
    /// The topic that gets them.
    to: String,
    /// Where the queue is, if a process has several brokers.
    broker: Option<String>,
}

/// Puts copies of messages into another topic, at the broker that has them.
pub(super) async fn copy(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<Copying>,
) -> Answer {
    let Copying { queue, offset, count, to, broker: only } = asked;
    let count = count.unwrap_or(1).clamp(1, COUNT_MAX);
    let what =
        format!("{count} messages of queue {queue} of topic [{name}] from {offset} on are copied to topic [{to}]");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        let places = found_at(&name, brokers, only.as_deref())?;
        let [(broker, topic)] = &places[..] else { return Err(topic::ambiguous(&name, &places)) };
        let Some(target) = broker.catalog.topic(&to) else { return Err(topic::none(&to, brokers)) };
        let queue = topic.queue(QueueId(queue))?;
        let at = QueueOffset(offset);
        if at < queue.first() || at >= queue.end() {
            return Err(Problem::not_found(format!(
                "queue {} has no message at {offset}: it has {} up to, not including, {}",
                queue.id().0,
                queue.first().0,
                queue.end().0
            )));
        }
        let (copied, next) = broker.copies.copy((topic, queue, at), count, &target, now)?;
        broker.keep(now).map_err(|error| Problem::failed(error.to_string()))?;
        Ok(json!({"topic": name, "to": to, "copied": copied, "next": next.0}))
    };
    admin.change_all(caller, what, work).await
}

/// A message that somebody sends by hand.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    /// Text; it becomes the body as UTF-8.
    body: String,
    /// What it can be found by; several are separated by spaces.
    #[serde(default)]
    key: String,
    #[serde(default)]
    tag: String,
    /// The broker chooses if none is named.
    queue: Option<u32>,
    /// Which one, if a process has several brokers; the first if none is named.
    broker: Option<String>,
}

impl New {
    fn properties(&self) -> Result<Vec<u8>, Problem> {
        let mut block = Vec::new();
        for (name, value) in [(names::KEYS, &self.key), (names::TAGS, &self.tag)] {
            if value.bytes().any(|byte| byte == properties::NAME_END || byte == properties::VALUE_END) {
                return Err(Problem::bad("keys and tags have none of the control characters 1 and 2"));
            }
            if !value.is_empty() {
                properties::append(&mut block, name, value);
            }
        }
        Ok(block)
    }
}

/// Sends a message to a topic, from this process.
pub(super) async fn send(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(new): Body<New>,
) -> Answer {
    let what = format!("a message of {} bytes is sent to topic [{name}]", new.body.len());
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        let places = found_at(&name, brokers, new.broker.as_deref())?;
        let Some((broker, topic)) = places.first() else { return Err(topic::none(&name, brokers)) };
        if broker.catalog.is_write_protected(&name) {
            return Err(Refusal::ReservedTopic(name).into());
        }
        let message = Message {
            queue: new.queue.map(QueueId),
            body: new.body.as_bytes(),
            properties: &new.properties()?,
            flag: 0,
            system_flag: 0,
            born_timestamp: now.wall,
            born_host: broker.options().store_host,
            delivery_count: 0,
        };
        let (queue, offset) = broker.send(topic, &message, now)?;
        Ok(json!({"topic": name, "broker": broker.options().broker_name, "queue": queue.0, "offset": offset.0}))
    };
    admin.change_all(caller, what, work).await
}

/// The message of an id that a broker gave it.
pub(super) async fn show(State(admin): State<Admin>, Path(id): Path<String>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let Some(place) = log_offset_of_message_id(&id) else {
            let text =
                "this is no id of a broker, which has 32 hexadecimal digits: ask for an id of a producer by its topic";
            return Err(Problem::bad(text));
        };
        for broker in brokers {
            let Ok(bytes) = broker.lookup.at(place) else { continue };
            let Ok(record) = Record::decode(&bytes) else { continue };
            let is_same = offset_message_id(record.store_host, record.log_offset).as_str().eq_ignore_ascii_case(&id);
            if is_same && broker.catalog.topic(record.topic).is_some() {
                return Ok(shown(&record, broker));
            }
        }
        Err(Problem::not_found(format!(
            "no broker gave a message the id {id}, or it is no longer kept; the id of a producer needs its topic"
        )))
    };
    admin.read_all(work).await
}
