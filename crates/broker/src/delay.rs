//! Delay levels: messages parked in one queue per level until they are due, then published where they belong.
//!
//! A level is strictly first in, first out, and its entries keep the due time. How far each level has been delivered is
//! written to `delayOffset.json` in the background: after a crash some messages may be delivered again, none is lost. A power
//! cut may take the end of a level, so what was delivered never counts beyond it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::document::TopicDocument;
use base::properties::{self, names};
use base::record::Record;
use base::{QueueId, QueueOffset, Refusal, Timestamp, TopicName};
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{Entry, QueueIndex, ReadMode, StorageError, Store};

use crate::broker::{Broker, internal};
use crate::catalog::{Catalog, Topic};
use crate::publish::Message;

/// Topic that holds parked messages.
pub const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

const FILE: &str = "delayOffset.json";

/// Messages of one level delivered in one turn.
const TURN_COUNT_MAX: usize = 256;

/// Longest sleep of whoever delivers: a new message may be due earlier than all known ones.
const LOOK_AGAIN_MS: u64 = 100;

/// The delay of each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayLevels {
    delays_ms: Vec<u64>,
}

impl DelayLevels {
    /// Levels of these delays, ms, the first level first.
    pub fn new(delays_ms: Vec<u64>) -> Result<Self, Refusal> {
        if delays_ms.is_empty() {
            return Err(Refusal::BadRequest("there must be at least one delay level".to_owned()));
        }
        Ok(Self { delays_ms })
    }

    /// Delays in ms, the first level first.
    pub fn delays_ms(&self) -> &[u64] {
        &self.delays_ms
    }

    /// The level meant and its delay in ms: what is above the highest level means the highest.
    pub fn clip(&self, level: usize) -> (usize, u64) {
        let level = level.clamp(1, self.delays_ms.len());
        (level, self.delays_ms.get(level - 1).copied().unwrap_or_default())
    }
}

/// Delivery of parked messages.
#[derive(Debug)]
pub(crate) struct Delay {
    pub(crate) levels: DelayLevels,
    /// Next offset to deliver, by level.
    delivered: Mutex<BTreeMap<usize, u64>>,
    unsaved: AtomicBool,
    /// Held from the look at `unsaved` to the end of the write: an older table never replaces a newer one, and who finds
    /// nothing unsaved knows it is written.
    saving: Mutex<()>,
}

impl Delay {
    pub(crate) fn open(store: &Store, catalog: &Catalog, levels: DelayLevels) -> Result<Self, StorageError> {
        let mut delivered = BTreeMap::new();
        if let Some(value) = store.read_document(FILE)? {
            for (level, offset) in value.get("offsetTable").and_then(Value::as_object).into_iter().flatten() {
                if let (Ok(level), Some(offset)) = (level.parse::<usize>(), offset.as_u64()) {
                    let queue = QueueId(level.saturating_sub(1) as u32);
                    let end = catalog.end_of(DELAY_TOPIC, queue).unwrap_or_default();
                    delivered.insert(level, offset.min(end.0));
                }
            }
        }
        Ok(Self { levels, delivered: Mutex::new(delivered), unsaved: AtomicBool::new(false), saving: Mutex::default() })
    }

    pub(crate) fn save(&self, store: &Store, now: Timestamp) -> Result<(), StorageError> {
        let _one_at_a_time = self.saving.lock();
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let text = json!({
            "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": now.0},
            "offsetTable": *self.delivered.lock(),
        });
        store.write_document(FILE, &text.to_string()).inspect_err(|_| self.unsaved.store(true, Ordering::Release))
    }
}

impl Broker {
    /// The topic of parked messages.
    pub(crate) fn delay_topic(&self, now: Timestamp) -> Result<Arc<Topic>, Refusal> {
        let levels = self.delay.levels.delays_ms.len() as u32;
        match self.catalog().topic(DELAY_TOPIC) {
            Some(topic) if topic.queues.len() as u32 >= levels => Ok(topic),
            _ => {
                let settings =
                    TopicDocument { read_queue_nums: levels, write_queue_nums: levels, ..TopicDocument::default() };
                self.catalog().put_topic(self.store(), TopicName::trusted(DELAY_TOPIC), settings, now)
            }
        }
    }

    /// Delivers parked messages that are due; returns how long to wait before looking again, ms. Waits for the disk.
    pub fn deliver_due(&self, now: Timestamp) -> Result<u64, Refusal> {
        let Some(topic) = self.catalog().topic(DELAY_TOPIC) else { return Ok(LOOK_AGAIN_MS) };
        let mut wait_ms = LOOK_AGAIN_MS;
        for level in 1..=self.delay.levels.delays_ms.len() {
            if let Ok(queue) = topic.queue(QueueId(level as u32 - 1)) {
                wait_ms = wait_ms.min(self.deliver_level(level, queue, now)?);
            }
        }
        Ok(wait_ms)
    }

    fn deliver_level(&self, level: usize, queue: &QueueIndex, now: Timestamp) -> Result<u64, Refusal> {
        let start = self.delay.delivered.lock().get(&level).copied().unwrap_or_default();
        let start = self.pass_expired(level, QueueOffset(start), queue.first());
        if start >= queue.end() {
            return Ok(LOOK_AGAIN_MS);
        }
        let mut entries = Vec::new();
        queue.read(start, TURN_COUNT_MAX, ReadMode::MayWait, &mut entries).map_err(internal)?;
        let (_, delay_ms) = self.delay.levels.clip(level);
        // A clock that was set back must not hold messages longer than their level says.
        let due_of = |entry: &Entry| Timestamp(entry.tag_code.max(0) as u64).min(now.plus_ms(delay_ms));
        let places = (0..).map(|number| start.after(number));
        let due: Vec<_> = places.zip(entries.iter().take_while(|entry| due_of(entry) <= now).copied()).collect();
        if !due.is_empty() {
            self.publish_due(queue, &due, now)?;
            self.delay.delivered.lock().insert(level, start.after(due.len() as u64).0);
            self.delay.unsaved.store(true, Ordering::Release);
        }
        Ok(match entries.get(due.len()) {
            Some(next) => due_of(next).ms_since(now).clamp(1, LOOK_AGAIN_MS),
            None if due.len() == TURN_COUNT_MAX => 0,
            None => LOOK_AGAIN_MS,
        })
    }

    /// Steps over messages that retention has removed: they are lost, and that is said.
    fn pass_expired(&self, level: usize, start: QueueOffset, first: QueueOffset) -> QueueOffset {
        if start >= first {
            return start;
        }
        let messages = first.0 - start.0;
        tracing::error!(
            level,
            messages,
            "delayed messages were removed with their log segments before they were delivered; raise retention.age, retention.size or the room on the disk"
        );
        self.metrics().delayed_expired.add(messages);
        self.delay.delivered.lock().insert(level, first.0);
        self.delay.unsaved.store(true, Ordering::Release);
        first
    }

    fn publish_due(&self, queue: &QueueIndex, due: &[(QueueOffset, Entry)], now: Timestamp) -> Result<(), Refusal> {
        let size = due.iter().map(|(_, entry)| entry.size as usize).sum();
        let mut turn = self.begin_turn(size, now);
        let records = self.store().read(queue, due, ReadMode::MayWait).map_err(internal)?;
        for record in records.iter().flatten() {
            let Ok(record) = Record::decode(record) else { continue };
            if let Err(refusal) = self.add_due(&mut turn, &record, now) {
                // Its topic was removed meanwhile, say: it must not hold up those behind it.
                tracing::warn!(log_offset = %record.log_offset, %refusal, "a delayed message cannot be delivered");
            }
        }
        if !turn.is_empty() {
            self.metrics().delayed_delivered.add(turn.len() as u64);
            self.append(turn, now)?;
        }
        Ok(())
    }

    fn add_due(&self, turn: &mut crate::Turn, record: &Record<'_>, now: Timestamp) -> Result<(), Refusal> {
        let name = record.property(names::REAL_TOPIC).unwrap_or_default();
        let queue: Option<u32> = record.property(names::REAL_QUEUE_ID).and_then(|queue| queue.parse().ok());
        let topic = match self.catalog().topic(name) {
            Some(topic) => topic,
            None => {
                let queues = queue.unwrap_or_default().saturating_add(1);
                self.topic_for_publish(name, crate::publish::TEMPLATE_TOPIC, queues, now)?
            }
        };
        let block = properties::without(record.properties, &[names::DELAY, names::REAL_TOPIC, names::REAL_QUEUE_ID]);
        let message = Message {
            queue: queue.map(QueueId).filter(|queue| topic.queue(*queue).is_ok()),
            body: record.body,
            properties: &block,
            flag: record.flag,
            system_flag: record.system_flag,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            reconsume_times: record.reconsume_times,
        };
        self.add(turn, &topic, &message).map(|_| ())
    }

    /// How far each level is: (level, delivered, end).
    pub fn delay_progress(&self) -> Vec<(usize, u64, u64)> {
        let Some(topic) = self.catalog().topic(DELAY_TOPIC) else { return Vec::new() };
        let delivered = self.delay.delivered.lock();
        (1..=self.delay.levels.delays_ms.len())
            .filter_map(|level| {
                let queue = topic.queue(QueueId(level as u32 - 1)).ok()?;
                Some((level, delivered.get(&level).copied().unwrap_or_default(), queue.end().0))
            })
            .collect()
    }

    /// The delivery offsets as the document has them.
    pub fn delay_document(&self) -> Value {
        json!({"offsetTable": *self.delay.delivered.lock()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_above_the_highest_means_the_highest() {
        let levels = DelayLevels::new(vec![1000, 5000, 120_000]).expect("levels");
        assert_eq!([levels.clip(0), levels.clip(2), levels.clip(99)], [(1, 1000), (2, 5000), (3, 120_000)]);
        assert!(DelayLevels::new(Vec::new()).is_err());
    }
}
