//! Records of the log, one after the other, for people and programs that want to see them.

use format::index_rules::IndexRules;
use format::properties::names;
use format::record::Record;
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
    /// Only records of this topic.
    pub topic: Option<String>,
    /// Only records of this queue.
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
    /// The body.
    #[serde(skip)]
    pub body: &'a [u8],
}

impl DumpOptions {
    fn wants(&self, record: &Record<'_>) -> bool {
        let has_key = |key: &String| {
            record.property(names::UNIQUE_KEY) == Some(key)
                || record.property(names::KEYS).is_some_and(|keys| keys.split(' ').any(|word| word == key))
        };
        self.topic.as_ref().is_none_or(|topic| record.topic == topic)
            && self.queue.is_none_or(|queue| record.queue.0 == queue)
            && self.key.as_ref().is_none_or(has_key)
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
        Event::Record { record, is_intact } if options.wants(record) => {
            let state = words(record, is_intact, &store.index_rules);
            visit(Dumped::Record(dumped(record, &state, is_intact)))
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
fn words(record: &Record<'_>, is_intact: bool, rules: &IndexRules) -> Vec<String> {
    if !is_intact || !rules.apply_to(record).is_state {
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
        body: record.body,
    }
}

/// A time in UTC: `2026-11-21 07:18:04.370`; the number if no calendar has it.
pub fn time_text(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| time_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}
