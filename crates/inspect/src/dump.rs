//! Records of the log, one after the other, for people and programs that want to see them.

use base::QueueId;
use base::name::MessageQueueName;
use format::index_rules::IndexRules;
use format::properties::names;
use format::record::Record;
use format::routed::{Reference, Routed};
use format::state;
use jiff::Timestamp;
use serde::Serialize;
use storage::{Options, StorageError};

use crate::finding::Findings;
use crate::log_files::LogFiles;
use crate::walk::{Event, Walk};

/// Which records: all of them, unless it says less.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Log offset to begin at, or after.
    pub from: u64,
    /// Only records of this topic, or of this message queue: `%MQ%7`.
    pub topic: Option<String>,
    /// Only records of this queue, or of this lane of a message queue.
    pub queue: Option<u32>,
    /// Only records with this key or unique id.
    pub key: Option<String>,
}

/// One record, or a stretch where there should be one.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Dumped<'a> {
    /// A record.
    Record(DumpedRecord<'a>),
    /// A damaged stretch of the log.
    Broken {
        /// Where it begins.
        log_offset: u64,
        /// Where the next whole record is.
        next: u64,
        /// What is there.
        damaged: &'a str,
    },
}

/// One record.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DumpedRecord<'a> {
    /// Byte position in the log.
    pub log_offset: u64,
    /// When it was stored, ms since 1970.
    pub store_time_ms: u64,
    /// Topic.
    pub topic: &'a str,
    /// Queue.
    pub queue: u32,
    /// Offset in the queue.
    pub queue_offset: u64,
    /// Bytes of the record.
    pub size: usize,
    /// Tag.
    pub tags: Option<&'a str>,
    /// Keys.
    pub keys: Option<&'a str>,
    /// The id its producer gave it.
    pub unique_id: Option<&'a str>,
    /// Bytes of the body.
    pub body_size: usize,
    /// Whether the body is what was stored.
    pub crc_ok: bool,
    /// What a state record says, in words.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub state: &'a [String],
    /// What a routed message says beside its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routed: Option<&'a DumpedRouted>,
    /// The body; of a routed message, the message's own.
    #[serde(skip)]
    pub body: &'a [u8],
}

/// A routed message, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DumpedRouted {
    /// Name of the exchange.
    pub exchange: String,
    /// Routing key.
    pub key: String,
    /// Bytes of the header block.
    pub header_size: usize,
    /// The lanes that list it.
    pub queues: Vec<DumpedReference>,
}

/// Where a routed message is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DumpedReference {
    /// Number of the message queue.
    pub queue: u32,
    /// Its lane.
    pub lane: u8,
    /// Offset in the lane.
    pub offset: u64,
    /// Time to live from the store time on, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<u64>,
}

impl DumpedRouted {
    fn of(routed: &Routed<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let queues = routed.references().map(|Reference { destination, offset }| DumpedReference {
            queue: destination.queue.0,
            lane: destination.lane,
            offset: offset.0,
            time_to_live_ms: destination.time_to_live_ms,
        });
        Self {
            exchange: text(routed.exchange),
            key: text(routed.key),
            header_size: routed.header.len(),
            queues: queues.collect(),
        }
    }
}

impl DumpOptions {
    fn wants(&self, record: &Record<'_>, rules: &IndexRules) -> bool {
        let has_key = |key: &String| {
            record.property(names::UNIQUE_KEY) == Some(key)
                || record.property(names::KEYS).is_some_and(|keys| keys.split(' ').any(|word| word == key))
        };
        let is_at = |topic: &str, queue: QueueId| {
            self.topic.as_ref().is_none_or(|wanted| topic == wanted)
                && self.queue.is_none_or(|wanted| queue.0 == wanted)
        };
        // Routed messages are wanted by the queues that list them, too.
        let is_listed_at = || {
            let of_message_queue = |topic: &String| MessageQueueName::number_of(topic).is_some();
            self.topic.as_ref().is_some_and(of_message_queue)
                && rules.apply_to(record).listings(record).any(|listing| is_at(listing.topic.as_str(), listing.queue))
        };
        (is_at(record.topic, record.queue) || is_listed_at()) && self.key.as_ref().is_none_or(has_key)
    }
}

/// Calls `visit` with every record wanted, until it says that it has enough (false).
pub fn dump(
    store: &Options,
    options: &DumpOptions,
    visit: &mut dyn FnMut(Dumped<'_>) -> bool,
) -> Result<(), StorageError> {
    let directory = super::log_directory(&store.directory, store.log_directory.as_deref());
    super::must_exist(&store.disk, &directory)?;
    let log = LogFiles::open(&store.disk, &store.directory, &directory, 0, &mut Findings::default())?;
    let walk = Walk { log: &log, unsure_from: u64::MAX };
    walk.run(options.from, &mut |event| match event {
        Event::Record { record, is_intact } if options.wants(record, &store.index_rules) => {
            let indexed = store.index_rules.apply_to(record);
            let state = words(record, is_intact && indexed.is_state);
            let routed = indexed.is_routed.then(|| Routed::parse(record.body).ok()).flatten();
            let shown = routed.as_ref().map(DumpedRouted::of);
            let body = routed.map_or(record.body, |routed| routed.body);
            let dumped = DumpedRecord { routed: shown.as_ref(), body, ..dumped(record, &state, is_intact) };
            visit(Dumped::Record(DumpedRecord { body_size: body.len(), ..dumped }))
        }
        // Where the walk begins there need be no record.
        Event::Broken { from, to, why, .. } if from != options.from => {
            visit(Dumped::Broken { log_offset: from, next: to, damaged: &why })
        }
        _ => true,
    });
    Ok(())
}

/// What a state record says; nothing of any other.
fn words(record: &Record<'_>, is_state: bool) -> Vec<String> {
    if !is_state {
        return Vec::new();
    }
    match state::decode(record.body) {
        Ok(changes) => changes.iter().map(ToString::to_string).collect(),
        Err(problem) => vec![problem.to_string()],
    }
}

fn dumped<'a>(record: &Record<'a>, state: &'a [String], crc_ok: bool) -> DumpedRecord<'a> {
    DumpedRecord {
        log_offset: record.log_offset.0,
        store_time_ms: record.store_timestamp.0,
        topic: record.topic,
        queue: record.queue.0,
        queue_offset: record.queue_offset.0,
        size: record.size,
        tags: record.property(names::TAGS),
        keys: record.property(names::KEYS),
        unique_id: record.property(names::UNIQUE_KEY),
        body_size: record.body.len(),
        crc_ok,
        state,
        routed: None,
        body: record.body,
    }
}

/// A time in UTC: `2026-11-21 07:18:04.370`; the number if no calendar has it.
pub fn time_text(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| time_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}
