//! From a message to a record with a place: check, route, encode; then append the batch once.

pub(crate) mod promised;
pub(crate) mod published;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::PROPERTIES_SIZE_MAX;
use base::metric::Metrics;
use base::offset::AckPolicy;
use base::{Now, QueueId, Refusal, Timestamp};
use format::index_rules::DELAY_TOPIC;
use format::noted_properties::NotedProperties;
use format::properties::{self, VALUE_END, names};
use format::record::{Draft, system_flag};
use format::routed::RoutedDraft;
use format::state::StateChange;
use storage::{AppendBatch, QueueIndex, StorageError, Store};

use crate::catalog::{Catalog, Topic};
use crate::error::refusal_of;
use crate::host::Host;
use crate::options::Options;
use crate::parked::delay::Delay;
use crate::publish::promised::PromisedPlace;
use crate::publish::published::Published;
use crate::running::Running;
use crate::state::StateLog;

/// Bytes of a value that cannot be stored that are shown to its sender.
const SHOWN_SIZE: usize = 40;

/// A message as its producer gave it.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Queue it is for; `None` lets the broker choose.
    pub queue: Option<QueueId>,
    /// Body.
    pub body: &'a [u8],
    /// Property block.
    pub properties: &'a [u8],
    /// The user's own number.
    pub flag: i32,
    /// System flag; bits that are no sender's are left out of its record.
    pub system_flag: i32,
    /// When it was made.
    pub born_timestamp: Timestamp,
    /// Where it was made.
    pub born_host: SocketAddr,
    /// How often it was delivered before, in vain: 0 for a new message, and one more for each copy that a consumer gave back.
    pub delivery_count: i32,
}

/// A message that became part of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Added<'a> {
    /// Queue it is for.
    pub queue: QueueId,
    /// Id its producer gave it; none is empty.
    pub unique_key: &'a [u8],
}

/// Messages gathered to be appended at once: those of one pass over a connection's bytes, or of one pass over a delay level.
#[derive(Debug)]
pub struct PublishBatch {
    records: AppendBatch,
    now: Now,
    ack_policy: AckPolicy,
    /// Those that were parked: their numbers and levels.
    parked: Vec<(usize, usize)>,
    /// Places that its messages were promised in queues that refuse what is too much.
    places: Vec<PromisedPlace>,
}

impl PublishBatch {
    /// Messages so far.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of records so far.
    pub fn size(&self) -> usize {
        self.records.size()
    }

    /// Drops all but the first `count` messages.
    pub fn truncate(&mut self, count: usize) {
        self.records.truncate(count);
        self.parked.retain(|(number, _)| *number < count);
    }

    /// When its messages are stored.
    pub(crate) const fn now(&self) -> Now {
        self.now
    }

    /// Has none of its messages answered before that has happened.
    pub(crate) fn require(&mut self, ack_policy: AckPolicy) {
        self.ack_policy = self.ack_policy.and(ack_policy);
    }

    /// Keeps a place in a queue until its message is in the log.
    pub(crate) fn keep_place(&mut self, place: Option<PromisedPlace>) {
        self.places.extend(place);
    }

    /// Adds one record for lanes of message queues, each with the time to live that it has there, ms.
    pub(crate) fn push_routed(&mut self, draft: &RoutedDraft<'_>, destinations: &[(Arc<QueueIndex>, Option<u64>)]) {
        self.records.push_routed(draft, destinations);
    }

    /// What has to happen before any of its messages is answered.
    pub const fn ack_policy(&self) -> AckPolicy {
        self.ack_policy
    }
}

/// Puts messages into the log.
#[derive(Debug)]
pub struct Publisher {
    store: Arc<Store>,
    state: Arc<StateLog>,
    catalog: Arc<Catalog>,
    delay: Arc<Delay>,
    host: Arc<dyn Host>,
    options: Arc<Options>,
    running: Arc<Running>,
    metrics: Arc<Metrics>,
    /// Appended to every message's properties.
    stamp: Vec<u8>,
    next_queue: AtomicU64,
}

impl Publisher {
    /// `seed` drives the queue of messages that name none.
    pub(crate) fn new(
        state: Arc<StateLog>,
        catalog: Arc<Catalog>,
        delay: Arc<Delay>,
        host: Arc<dyn Host>,
        (options, running): (&Arc<Options>, &Arc<Running>),
        metrics: Arc<Metrics>,
        seed: u64,
    ) -> Self {
        let stamp = stamp(options);
        let store = state.store().clone();
        let (options, running) = (options.clone(), running.clone());
        Self { store, state, catalog, delay, host, options, running, metrics, stamp, next_queue: AtomicU64::new(seed) }
    }

    /// A queue for a message that names none. The starting point is random, then they take turns.
    pub(crate) fn random_below(&self, count: u32) -> u32 {
        (self.next_queue.fetch_add(1, Ordering::Relaxed) % u64::from(count.max(1))) as u32
    }

    /// What messages say of where this broker is.
    pub(crate) fn store_host(&self) -> SocketAddr {
        self.options.store_host
    }

    /// What has to happen before a message is answered, unless its producer does not wait.
    pub(crate) fn ack_policy(&self) -> AckPolicy {
        self.options.ack_policy
    }

    /// Begins a batch of messages of about `size` bytes in all.
    pub fn begin_batch(&self, size: usize, now: Now) -> PublishBatch {
        let (parked, places) = (Vec::new(), Vec::new());
        PublishBatch { records: self.store.begin_batch(size), now, ack_policy: AckPolicy::WRITTEN, parked, places }
    }

    /// Checks a message and adds it to the batch as one record.
    pub fn add<'a>(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        message: &Message<'a>,
    ) -> Result<Added<'a>, Refusal> {
        let noted = NotedProperties::of(message.properties);
        self.check(topic, message, &noted)?;
        let queue = self.add_noted(batch, topic, message, &noted)?;
        Ok(Added { queue, unique_key: noted.indexed.unique_key })
    }

    /// Adds a message that was accepted once and comes again: only whether its topic takes messages is looked at.
    pub(crate) fn add_sent_back(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        message: &Message<'_>,
    ) -> Result<QueueId, Refusal> {
        self.check_permission(topic)?;
        self.add_noted(batch, topic, message, &NotedProperties::of(message.properties))
    }

    /// Adds the copy of a parked message that is due. It was accepted when it was parked, and has what the broker adds to
    /// properties from then: nothing is looked at.
    pub(crate) fn add_due_copy(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        queue: QueueId,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        let noted = NotedProperties::of(message.properties);
        let pieces = [message.properties, self.store.checksum_room()];
        self.push(batch, topic, queue, message, &pieces, &noted)
    }

    fn add_noted(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        message: &Message<'_>,
        noted: &NotedProperties<'_>,
    ) -> Result<QueueId, Refusal> {
        let queue = self.choose_queue(topic, message.queue)?;
        let block = &*noted.stored(message.properties);
        let separator: &[u8] = if block.last().is_some_and(|&last| last != VALUE_END) { &[VALUE_END] } else { &[] };
        if noted.waits {
            batch.ack_policy = batch.ack_policy.and(self.options.ack_policy);
        }
        if noted.delay_level > 0 && !topic.name.as_str().starts_with(DELAY_TOPIC) {
            self.park(batch, topic, queue, message, (block, separator), noted)?;
        } else {
            let pieces = [block, separator, &self.stamp, self.store.checksum_room()];
            self.push(batch, topic, queue, message, &pieces, noted)?;
        }
        Ok(queue)
    }

    /// Adds a delayed message to its level's queue, with the way back in its properties.
    fn park(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        queue: QueueId,
        message: &Message<'_>,
        (block, separator): (&[u8], &[u8]),
        noted: &NotedProperties<'_>,
    ) -> Result<(), Refusal> {
        let (level, _) = self.store.index_rules().clip_level(noted.delay_level);
        let parked = self.catalog.delay_topic(batch.now)?;
        let mut way_back = Vec::new();
        properties::append(&mut way_back, names::REAL_TOPIC, topic.name.as_str());
        properties::append(&mut way_back, names::REAL_QUEUE_ID, &queue.0.to_string());
        let pieces = [block, separator, &self.stamp, &way_back, self.store.checksum_room()];
        self.push(batch, &parked, QueueId(level as u32 - 1), message, &pieces, noted)?;
        batch.parked.push((batch.records.len() - 1, level));
        Ok(())
    }

    fn push(
        &self,
        batch: &mut PublishBatch,
        topic: &Topic,
        queue: QueueId,
        message: &Message<'_>,
        pieces: &[&[u8]],
        noted: &NotedProperties<'_>,
    ) -> Result<(), Refusal> {
        let draft = self.draft(topic, queue, message, pieces);
        let properties_len = draft.properties_len();
        if properties_len > PROPERTIES_SIZE_MAX {
            return Err(Refusal::BadMessage(format!(
                "the message's properties take {properties_len} bytes; at most {PROPERTIES_SIZE_MAX} are possible"
            )));
        }
        let (size, limit) = (draft.encoded_len(), self.store.record_size_max());
        if size > limit {
            return Err(refusal_of(StorageError::RecordTooLarge { size, limit }));
        }
        let indexed = self.store.index_rules().apply(draft.topic, draft.system_flag, &noted.indexed);
        batch.records.push(&topic.queue(queue)?.index, &draft, &indexed);
        Ok(())
    }

    fn check_permission(&self, topic: &Topic) -> Result<(), Refusal> {
        self.running.check_write(&self.options.broker_name)?;
        if !topic.permission().write {
            return Err(Refusal::NotPermitted(format!("the topic[{}] sending message is forbidden", topic.name)));
        }
        Ok(())
    }

    fn draft<'a>(
        &self,
        topic: &'a Topic,
        queue: QueueId,
        message: &Message<'a>,
        properties: &'a [&'a [u8]],
    ) -> Draft<'a> {
        Draft {
            topic: topic.name.as_str(),
            queue,
            flag: message.flag,
            system_flag: message.system_flag & system_flag::OF_SENDER,
            born_timestamp: message.born_timestamp,
            born_host: message.born_host,
            store_host: self.options.store_host,
            reconsume_times: message.delivery_count,
            prepared_transaction_offset: 0,
            body: message.body,
            properties,
        }
    }

    /// Bytes a message takes in the log if its properties are kept as they are and it is not delayed.
    pub fn record_size(&self, topic: &Topic, message: &Message<'_>) -> usize {
        let pieces = [message.properties, &self.stamp, self.store.checksum_room()];
        self.draft(topic, QueueId(0), message, &pieces).encoded_len()
    }

    fn check(&self, topic: &Topic, message: &Message<'_>, noted: &NotedProperties<'_>) -> Result<(), Refusal> {
        self.check_permission(topic)?;
        if message.body.len() > self.running.message_size_max() {
            return Err(Refusal::BadMessage(format!(
                "the message's body has {} bytes; at most {} are allowed (message.size_max)",
                message.body.len(),
                self.running.message_size_max()
            )));
        }
        if message.system_flag & system_flag::TRANSACTION_MASK != 0 {
            return Err(Refusal::NotSupported("Sluice does not support transactional messages yet".to_owned()));
        }
        topic.name.check_size()?;
        check_properties(noted)
    }

    fn choose_queue(&self, topic: &Topic, wanted: Option<QueueId>) -> Result<QueueId, Refusal> {
        let count = topic.settings.write_queue_nums;
        match wanted {
            None if count > 0 => Ok(QueueId(self.random_below(count))),
            Some(queue) if queue.0 < topic.queues.len() as u32 => Ok(queue),
            Some(queue) => Err(Refusal::no_queue_id(topic.name.as_str(), queue, topic.queues.len() as u32)),
            None => Err(Refusal::NotPermitted(format!("the topic [{}] has no queue to write to", topic.name))),
        }
    }

    /// As `append`, with changes of state behind the messages.
    pub(crate) fn append_with(
        &self,
        batch: PublishBatch,
        changes: Vec<StateChange>,
        now: Now,
    ) -> Result<Published, Refusal> {
        let (_, appended) = self.state.propose_with(batch.records, changes, now).map_err(refusal_of)?;
        batch.places.into_iter().for_each(PromisedPlace::note_appended);
        Ok(Published(appended))
    }

    /// Appends the batch's messages at once. Their places are known from here on, the promise holds once the watermark
    /// passes `Published::end`.
    pub fn append(&self, batch: PublishBatch, now: Now) -> Result<Published, Refusal> {
        let count = batch.records.len() as u64;
        let now = if batch.parked.is_empty() { now } else { self.delay.latest(now) };
        match self.state.settle(now).and_then(|()| self.store.append(batch.records, now.wall)) {
            Ok(appended) => {
                self.host.log_changed();
                batch.places.into_iter().for_each(PromisedPlace::note_appended);
                let published = Published(appended);
                self.delay.bound_parked(&published, &batch.parked, now);
                Ok(published)
            }
            Err(error) => {
                self.metrics.publish_refused.add(count);
                Err(refusal_of(error))
            }
        }
    }
}

/// Whether a message with these properties can be taken.
fn check_properties(noted: &NotedProperties<'_>) -> Result<(), Refusal> {
    let unsupported = if noted.is_half {
        "transactional messages"
    } else if noted.is_inner_batch {
        "batches stored as one message"
    } else if noted.is_timed && noted.delay_level == 0 {
        "messages with a delivery time (use one of the 18 delay levels)"
    } else if let Some(delay) = noted.unreadable_delay() {
        let shown = String::from_utf8_lossy(delay.get(..SHOWN_SIZE).unwrap_or(delay));
        return Err(Refusal::BadMessage(format!(
            "the property DELAY is [{shown}]; it must be a number of ASCII digits, at most {}: a delay level, or 0 for none",
            i32::MAX
        )));
    } else {
        return Ok(());
    };
    Err(Refusal::NotSupported(format!("Sluice does not support {unsupported} yet")))
}

/// The properties every stored message gets.
fn stamp(options: &Options) -> Vec<u8> {
    use format::properties::{append, names};
    let mut stamp = Vec::new();
    append(&mut stamp, names::MESSAGE_REGION, &options.region);
    append(&mut stamp, names::TRACE_SWITCH, if options.trace_on { "true" } else { "false" });
    append(&mut stamp, names::CLUSTER, &options.cluster_name);
    stamp
}
