//! Delivery: parked messages that are due are published where they belong.
//!
//! What was acknowledged when it was parked is not judged again: no permission, size, transaction or timer keeps it back.
//! **Always holds**: a message leaves its level by its copy being in the log, or by being damaged or removed, which is told
//! and counted; a level that fails, or a message that cannot be delivered now, is tried again and holds up nothing else.

use std::sync::Arc;
use std::time::Duration;

use base::limits::QUEUES_PER_TOPIC_MAX;
use base::metric::{Metrics, Timings};
use base::{Now, QueueId, QueueOffset, Refusal, Timestamp, TopicName};
use format::properties::{self, names};
use format::queue_entry::Entry;
use format::record::Record;
use format::state::StateChange;
use storage::{QueueIndex, ReadMode, Store};

use crate::catalog::Catalog;
use crate::durability::Durability;
use crate::error::internal;
use crate::parked::delay::{Delay, Progress};
use crate::publish::{Message, PublishBatch, Publisher};

/// Messages of one level delivered in one pass.
const PASS_COUNT_MAX: usize = 256;

/// Bytes of one level's messages delivered in one pass; one message is always delivered. They are in memory twice.
const PASS_SIZE_MAX: usize = 1 << 20;

/// Longest sleep of whoever delivers: a new message may be due earlier than all known ones.
const LOOK_AGAIN_MS: u64 = 100;

/// Sleep while too much waits to be written.
const BEHIND_MS: u64 = 10;

/// What is due so much later than it could be was stored before the clock was set back; less may be somebody who read it a little later.
const CLOCK_SLACK_MS: u64 = 1000;

/// How long a level rests after it failed, and a message before it is tried again.
const REST_MS: u64 = 1000;

/// Messages of one level that may be held; then the level waits for them.
const HELD_COUNT_MAX: usize = 10_000;

/// Properties of a parked message that its copy does not have: where and how long it waited (a level wins over a timer), and
/// what is the broker's own for each record.
const LEFT_BEHIND: &[&str] = &[
    names::DELAY,
    names::REAL_TOPIC,
    names::REAL_QUEUE_ID,
    names::TIMER_DELIVER_MS,
    names::TIMER_DELAY_MS,
    names::TIMER_DELAY_SECONDS,
    names::FAN_OUT_OFFSETS,
    names::CHECKSUM,
];

/// A parked message with its place in its level.
type Parked = (QueueOffset, Entry);

/// Why a message could not be delivered.
enum Undelivered {
    /// It may go later.
    NotNow(Refusal),
    /// It says of no topic that could be that it is for it.
    Never,
}

/// How the messages of one pass ended.
struct PassEnd {
    /// Those that could not be delivered, by number, and why the first could not.
    held: Vec<usize>,
    refusal: Option<Refusal>,
}

/// Publishes what is due.
#[derive(Debug)]
pub struct Delivery {
    delay: Arc<Delay>,
    publisher: Arc<Publisher>,
    catalog: Arc<Catalog>,
    durability: Arc<Durability>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    timings: Arc<Timings>,
}

impl Delivery {
    pub(crate) fn new(
        delay: &Arc<Delay>,
        publisher: &Arc<Publisher>,
        catalog: &Arc<Catalog>,
        durability: &Arc<Durability>,
        store: &Arc<Store>,
        metrics: &Arc<Metrics>,
        timings: &Arc<Timings>,
    ) -> Self {
        Self {
            delay: delay.clone(),
            publisher: publisher.clone(),
            catalog: catalog.clone(),
            durability: durability.clone(),
            store: store.clone(),
            metrics: metrics.clone(),
            timings: timings.clone(),
        }
    }

    /// Delivers parked messages that are due; returns how long to wait before looking again, ms. Waits for the disk. What
    /// fails is logged and tried again.
    pub fn deliver_due(&self, now: Now) -> u64 {
        // A poisoned log takes no copies, and what its disk says of damage does not count. A slave's master delivers.
        if self.durability.poisoned().is_some() || self.store.follows() {
            return REST_MS;
        }
        let mut wait_ms = LOOK_AGAIN_MS;
        // What is parked from here on was stored after `now`: it is for the next pass.
        let queue_of = |level| Some((level, self.delay.queue(level)?));
        let levels: Vec<_> = (1..=self.delay.level_count()).filter_map(queue_of).collect();
        let ends: Vec<_> = levels.iter().map(|(_, queue)| queue.end()).collect();
        for ((level, queue), end) in levels.into_iter().zip(ends) {
            if self.delay.at(level, |progress| progress.rests(now, REST_MS)) {
                continue;
            }
            if self.durability.is_behind() {
                return BEHIND_MS;
            }
            let outcome =
                self.deliver_held(level, &queue, now).and_then(|()| self.deliver_level(level, (&queue, end), now));
            wait_ms = wait_ms.min(self.note_pass(level, outcome, now));
        }
        wait_ms
    }

    /// Takes in how a pass over a level ended: a failure is counted, told once, and lets the level rest.
    fn note_pass(&self, level: usize, outcome: Result<u64, Refusal>, now: Now) -> u64 {
        let failed_at = outcome.is_err().then_some(now.monotonic);
        let is_news = self.delay.at(level, |progress| progress.note_pass(failed_at));
        match outcome {
            Ok(wait_ms) => {
                if is_news {
                    tracing::info!(level, "delayed messages of this level are delivered again");
                }
                wait_ms
            }
            Err(refusal) => {
                self.metrics.delayed_failures.add(1);
                if is_news {
                    tracing::error!(level, %refusal, "delayed messages of this level wait, and are tried again every second");
                }
                LOOK_AGAIN_MS
            }
        }
    }

    /// Delivers what is due of a level, up to `end`.
    fn deliver_level(&self, level: usize, (queue, end): (&QueueIndex, QueueOffset), now: Now) -> Result<u64, Refusal> {
        let (next, held_count) = self.delay.at(level, |progress| (progress.next(), progress.held_count()));
        let start = self.pass_expired(level, QueueOffset(next), queue.first(), now)?;
        if start >= end || held_count >= HELD_COUNT_MAX {
            return Ok(LOOK_AGAIN_MS);
        }
        let mut entries = Vec::new();
        queue.read(start, PASS_COUNT_MAX, ReadMode::MayWait, &mut entries).map_err(internal)?;
        let wait_ms = |progress: &Progress, parked: &Parked| progress.wait_ms(parked.0.0, due_of(parked), now);
        let parked: Vec<Parked> =
            (0..).map(|number| start.after(number)).zip(entries).take_while(|(offset, _)| *offset < end).collect();
        let Some(first) = parked.first() else { return Ok(LOOK_AGAIN_MS) };
        let (due_count, next_wait_ms) = self.delay.at(level, |progress| {
            bound_due(progress, first, self.store.index_rules().clip_level(level).1, end, now);
            let due_count = parked.iter().take_while(|parked| wait_ms(progress, parked) == 0).count();
            (due_count, parked.get(due_count).map(|next| wait_ms(progress, next)))
        });
        let due = &parked[..due_count.min(count_within(&parked, PASS_SIZE_MAX))];
        if !due.is_empty() {
            let ended = self.publish_due(level, queue, due, now, |progress, held| {
                for &(place, entry) in held.iter().filter_map(|number| due.get(*number)) {
                    progress.hold(place.0, entry, now);
                }
                progress.advance(start.after(due.len() as u64).0);
            })?;
            self.tell_held(level, &ended);
        }
        Ok(match next_wait_ms {
            _ if due.len() < due_count || due.len() == PASS_COUNT_MAX => 0,
            next_wait_ms => next_wait_ms.unwrap_or(LOOK_AGAIN_MS).clamp(1, LOOK_AGAIN_MS),
        })
    }

    /// Tries those again that could not be delivered, some at a time.
    fn deliver_held(&self, level: usize, queue: &QueueIndex, now: Now) -> Result<(), Refusal> {
        let held: Vec<Parked> = self.delay.at(level, |progress| {
            let held = progress.held_next(PASS_COUNT_MAX);
            if held.is_empty() || !progress.tries_held(now, REST_MS) {
                return Vec::new();
            }
            held.into_iter().map(|(place, entry)| (QueueOffset(place), entry)).collect()
        });
        let held = &held[..count_within(&held, PASS_SIZE_MAX)];
        let Some((last, _)) = held.last() else { return Ok(()) };
        // Whatever comes of it: the others are next.
        self.delay.at(level, |progress| progress.note_held_tried(last.0));
        let expired = held.iter().take_while(|(place, _)| *place < queue.first()).count();
        self.tell_expired(level, expired as u64);
        self.publish_due(level, queue, &held[expired..], now, |progress, still_held| {
            for (number, (place, _)) in held.iter().enumerate() {
                if number.checked_sub(expired).is_none_or(|tried| !still_held.contains(&tried)) {
                    progress.let_go(place.0);
                }
            }
        })?;
        self.metrics.delayed_held.set(self.delay.held_count());
        Ok(())
    }

    /// Steps over messages that retention has removed: they are lost, and that is said.
    fn pass_expired(
        &self,
        level: usize,
        start: QueueOffset,
        first: QueueOffset,
        now: Now,
    ) -> Result<QueueOffset, Refusal> {
        if start < first {
            self.keep_progress(level, self.publisher.begin_batch(0, now), |progress| progress.advance(first.0), now)?;
            self.tell_expired(level, first.0 - start.0);
        }
        Ok(start.max(first))
    }

    fn tell_expired(&self, level: usize, messages: u64) {
        if messages > 0 {
            tracing::error!(
                level,
                messages,
                "delayed messages were removed with their log segments before they were delivered; raise retention.age, retention.size or the room on the disk"
            );
            self.metrics.delayed_expired.add(messages);
        }
    }

    fn tell_held(&self, level: usize, ended: &PassEnd) {
        let Some(refusal) = &ended.refusal else { return };
        tracing::warn!(
            level,
            messages = ended.held.len(),
            %refusal,
            "delayed messages cannot be delivered now; they are tried again every second"
        );
        self.metrics.delayed_held.set(self.delay.held_count());
    }

    /// Publishes all that can be, and has `note` take in those that are held, by number; nothing is published or taken in if that fails.
    fn publish_due(
        &self,
        level: usize,
        queue: &QueueIndex,
        due: &[Parked],
        now: Now,
        note: impl FnOnce(&mut Progress, &[usize]),
    ) -> Result<PassEnd, Refusal> {
        let size = due.iter().map(|(_, entry)| entry.size as usize).sum();
        let mut batch = self.publisher.begin_batch(size, now);
        let mut ended = PassEnd { held: Vec::new(), refusal: None };
        // What is damaged is passed over; the store has told of it.
        let records = self.store.read(queue, due, ReadMode::MayWait).map_err(internal)?;
        for (number, record) in records.iter().enumerate() {
            let Some(Ok(record)) = record.map(Record::decode) else { continue };
            match self.add_due(&mut batch, &record, now) {
                Ok(()) => {}
                Err(Undelivered::NotNow(refusal)) => {
                    ended.held.push(number);
                    ended.refusal.get_or_insert(refusal);
                }
                Err(Undelivered::Never) => {
                    self.metrics.delayed_undeliverable.add(1);
                    let topic = record.property(names::REAL_TOPIC).unwrap_or_default();
                    tracing::error!(
                        log_offset = %record.log_offset, topic,
                        "a delayed message is for no topic that there can be; it stays where it is in the log"
                    );
                }
            }
        }
        let count = batch.len() as u64;
        self.keep_progress(level, batch, |progress| note(progress, &ended.held), now)?;
        if count > 0 {
            self.metrics.delayed_delivered.add(count);
            // All of one pass: the first was due first.
            let late_ms = due.first().map_or(0, |first| now.wall.ms_since(due_of(first)));
            self.timings.delay.record(Duration::from_millis(late_ms), count);
        }
        Ok(ended)
    }

    /// Appends copies and, behind them, how far the level is once `note` has taken them in. Takes nothing in if that fails.
    fn keep_progress(
        &self,
        level: usize,
        copies: PublishBatch,
        note: impl FnOnce(&mut Progress),
        now: Now,
    ) -> Result<(), Refusal> {
        let _not_between = self.delay.delivering.lock();
        let (mut after, before) = self.delay.at(level, |progress| (progress.clone(), progress.delivered()));
        note(&mut after);
        let delivered = after.delivered();
        if !copies.is_empty() || delivered != before {
            self.publisher.append_with(copies, vec![StateChange::Delay { level: level as u32, delivered }], now)?;
            self.delay.note_unexported();
        }
        self.delay.at(level, |progress| progress.take_in(after));
        Ok(())
    }

    fn add_due(&self, batch: &mut PublishBatch, record: &Record<'_>, now: Now) -> Result<(), Undelivered> {
        let name = record.property(names::REAL_TOPIC).unwrap_or_default();
        let queue: Option<u32> = record.property(names::REAL_QUEUE_ID).and_then(|queue| queue.parse().ok());
        let queue = queue.filter(|queue| *queue < QUEUES_PER_TOPIC_MAX);
        let topic = match self.catalog.topic(name) {
            Some(topic) => topic,
            None => {
                let name = TopicName::checked(name).ok().filter(|name| !self.catalog.is_write_protected(name.as_str()));
                let name = name.ok_or(Undelivered::Never)?;
                // Removed since, or not in a document yet when the process was killed.
                let queues = queue.unwrap_or_default() + 1;
                tracing::warn!(topic = %name, queues, "a delayed message is due for a topic that is not there; it is made");
                self.catalog.make_internal_topic(name, queues, now).map_err(Undelivered::NotNow)?
            }
        };
        // A queue that the topic had when the message was sent.
        let queues = topic.queues.len() as u32;
        let queue =
            queue.filter(|queue| *queue < queues).or_else(|| (queues > 0).then(|| self.publisher.random_below(queues)));
        let queue = queue.map(QueueId).ok_or_else(|| {
            Undelivered::NotNow(Refusal::NotPermitted(format!("the topic [{}] has no queue to write to", topic.name)))
        })?;
        let block = properties::without(record.properties, LEFT_BEHIND);
        let message = Message {
            queue: Some(queue),
            body: record.body,
            properties: &block,
            flag: record.flag,
            system_flag: record.system_flag,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            delivery_count: record.reconsume_times,
        };
        self.publisher.add_due_copy(batch, &topic, queue, &message).map_err(Undelivered::NotNow)
    }
}

/// When a parked message is due, as its entry says.
fn due_of((_, entry): &Parked) -> Timestamp {
    Timestamp(entry.tag_code.max(0) as u64)
}

/// If the first message of a level is due later than one parked now, the clock was set back since. How long it waited is not known:
/// it waits for its delay at most from now on, and so do those behind it, which is never too short; at once may be.
fn bound_due(progress: &mut Progress, first: &Parked, delay_ms: u64, end: QueueOffset, now: Now) {
    if progress.bound(first.0.0).is_none() && due_of(first) > now.wall.plus_ms(delay_ms + CLOCK_SLACK_MS) {
        tracing::warn!(
            due = due_of(first).0,
            delay_ms,
            "the clock was set back; delayed messages wait for their delay once more at most"
        );
        progress.bound_due(end.0, now.monotonic.plus_ms(delay_ms), delay_ms);
    }
}

/// How many of them are `size_max` bytes at most, or one.
fn count_within(parked: &[Parked], size_max: usize) -> usize {
    let mut size = 0;
    let fits = |(_, entry): &&Parked| {
        size += entry.size as usize;
        size <= size_max
    };
    parked.iter().take_while(fits).count().max(1).min(parked.len())
}
