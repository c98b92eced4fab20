//! Messages a consumer could not handle: back to its group's retry topic after a while, at last to its dead letters.

use std::sync::Arc;

use base::metric::Metrics;
use base::{GroupName, LogOffset, Now, QueueId, Refusal, TopicName};
use format::properties::{self, names};
use format::record::Record;
use storage::Store;

use crate::catalog::{Catalog, Topic};
use crate::error::internal;
use crate::publish::published::Published;
use crate::publish::{Message, Publisher};

/// First delay level of a retry: the third (10 s by default), one more with each.
const RETRY_LEVEL_FIRST: i32 = 3;

/// A consumer's request to see a message again.
#[derive(Clone, Debug)]
pub struct SendBack {
    /// Group that could not handle it.
    pub group: GroupName,
    /// Where the message is.
    pub log_offset: LogOffset,
    /// Level to wait for; 0 leaves it to the number of tries, below 0 gives up at once.
    pub delay_level: i32,
    /// How often it is delivered again before it is a dead letter, if the consumer says so; else, or below 0, as the group's settings say.
    pub redeliveries_max: Option<i32>,
}

/// Takes back what consumers could not handle.
#[derive(Debug)]
pub struct Retries {
    publisher: Arc<Publisher>,
    catalog: Arc<Catalog>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
}

impl Retries {
    pub(crate) fn new(
        publisher: &Arc<Publisher>,
        catalog: &Arc<Catalog>,
        store: &Arc<Store>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self { publisher: publisher.clone(), catalog: catalog.clone(), store: store.clone(), metrics: metrics.clone() }
    }

    /// Stores a message again for its group: in the retry topic, delayed, or among the dead letters. Waits for the disk.
    /// `None` if the group keeps no retries.
    pub fn send_back(&self, request: &SendBack, now: Now) -> Result<Option<Published>, Refusal> {
        self.catalog.check_is_leader()?;
        let group_name = request.group.as_str();
        let group = self.catalog.group_for_use(&request.group, now)?;
        if group.retry_queue_nums == 0 {
            return Ok(None);
        }
        let bytes = self.store.record_at(request.log_offset).map_err(internal)?;
        let none = || Refusal::Internal(format!("look message by offset failed, {}", request.log_offset));
        let bytes = bytes.ok_or_else(none)?;
        let record = Record::decode(&bytes).map_err(internal)?;
        if !self.store.index_rules().apply_to(&record).is_listed {
            // Nobody was given it: half of a transaction, or what only looks like a record.
            return Err(none());
        }
        let delivery_count = record.reconsume_times;
        let redeliveries_max = request.redeliveries_max.filter(|&count| count >= 0).unwrap_or(group.retry_max_times);
        if delivery_count >= redeliveries_max || request.delay_level < 0 {
            return self.bury_record(group_name, &record, delivery_count.saturating_add(1), now).map(Some);
        }
        let mut block = kept_properties(&record);
        let level = match request.delay_level {
            0 => RETRY_LEVEL_FIRST.saturating_add(delivery_count),
            level => level,
        };
        properties::append(&mut block, names::DELAY, &level.to_string());
        self.metrics.retries.add(1);
        let name = TopicName::retry_of(group_name);
        name.check_size()?;
        self.catalog.ensure_retry_topic(&group, now)?;
        let topic = self.catalog.topic(name.as_str()).ok_or_else(|| Refusal::NoSuchTopic(name.as_str().to_owned()))?;
        self.store_again(&topic, &record, &block, delivery_count.saturating_add(1), now).map(Some)
    }

    /// Puts a copy of a record that was delivered so many times more than it says among the dead letters of a group.
    pub(crate) fn bury(
        &self,
        group: &GroupName,
        bytes: &[u8],
        deliveries: u32,
        now: Now,
    ) -> Result<Published, Refusal> {
        self.catalog.check_is_leader()?;
        let record = Record::decode(bytes).map_err(internal)?;
        let deliveries = i32::try_from(deliveries).unwrap_or(i32::MAX);
        self.bury_record(group.as_str(), &record, record.reconsume_times.saturating_add(deliveries), now)
    }

    fn bury_record(&self, group: &str, record: &Record<'_>, deliveries: i32, now: Now) -> Result<Published, Refusal> {
        let mut block = kept_properties(record);
        note_death(&mut block, record);
        let topic = self.catalog.dead_letter_topic(group, now)?;
        let published = self.store_again(&topic, record, &block, deliveries, now)?;
        self.metrics.dead_letters.add(1);
        Ok(published)
    }

    fn store_again(
        &self,
        topic: &Topic,
        record: &Record<'_>,
        block: &[u8],
        delivery_count: i32,
        now: Now,
    ) -> Result<Published, Refusal> {
        let queues = topic.settings.write_queue_nums.max(1);
        let message = Message {
            queue: Some(QueueId(self.publisher.random_below(queues))),
            body: record.body,
            properties: block,
            flag: record.flag,
            system_flag: record.system_flag,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            delivery_count,
        };
        let mut batch = self.publisher.begin_batch(record.size, now);
        self.publisher.add_sent_back(&mut batch, topic, &message)?;
        self.publisher.append(batch, now)
    }
}

/// What a copy keeps of a record's properties, with where it came from first.
fn kept_properties(record: &Record<'_>) -> Vec<u8> {
    let gone = [names::DELAY, names::REAL_TOPIC, names::REAL_QUEUE_ID, names::WAIT];
    let mut block = properties::without(record.properties, &gone);
    note_origin(&mut block, record);
    block
}

/// Where the message came from first: kept through all its tries.
fn note_origin(block: &mut Vec<u8>, record: &Record<'_>) {
    if record.property(names::RETRY_TOPIC).is_none() {
        properties::append(block, names::RETRY_TOPIC, record.topic);
    }
    if record.property(names::ORIGIN_MESSAGE_ID).is_none() {
        let stored_as = format::record::offset_message_id(record.store_host, record.log_offset);
        properties::append(block, names::ORIGIN_MESSAGE_ID, stored_as.as_str());
    }
}

fn note_death(block: &mut Vec<u8>, record: &Record<'_>) {
    if record.property(names::DEAD_LETTER_ORIGIN_TOPIC).is_none() {
        let topic = record.property(names::RETRY_TOPIC).unwrap_or(record.topic);
        properties::append(block, names::DEAD_LETTER_ORIGIN_TOPIC, topic);
    }
    if record.property(names::DEAD_LETTER_ORIGIN_MESSAGE_ID).is_none() {
        let stored_as = format::record::offset_message_id(record.store_host, record.log_offset);
        let id = record.property(names::ORIGIN_MESSAGE_ID).unwrap_or(stored_as.as_str());
        properties::append(block, names::DEAD_LETTER_ORIGIN_MESSAGE_ID, id);
    }
}
