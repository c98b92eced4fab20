//! Copies of stored messages that an operator asks for: dead letters for their group once more, and messages for another topic.
//!
//! **Always holds**: how far the dead letters of a group were resent is the offset of the group [`RESENDER`] in their topic, so that none is
//! resent twice unless that is asked for. **On a crash** the log has the copies before it has that offset: some may be resent again, none is
//! left out.

use std::sync::Arc;

use base::{Now, QueueId, QueueOffset, Refusal, Timestamp, TopicName};
use format::properties::{self, names};
use format::record::Record;
use parking_lot::Mutex;

use crate::RawOffset;
use crate::catalog::{Catalog, Topic};
use crate::cursor::offset::{Boundary, Offsets};
use crate::error::internal;
use crate::fetch::{Fetch, Fetched, Fetcher};
use crate::filter::Filter;
use crate::publish::{Message, PublishBatch, Publisher};
use crate::queue::Queue;

/// The group whose offset in a topic of dead letters says how far they were resent.
pub const RESENDER: &str = "sluice_resend";

/// Messages that are copied at once,
const BATCH_COUNT_MAX: usize = 256;
/// and bytes of their records; one is always copied.
const BATCH_SIZE_MAX: usize = 1 << 20;

/// What copies do not keep: when and where to the message was to be delivered at first.
const LEFT_OUT: [&str; 7] = [
    names::DELAY,
    names::REAL_TOPIC,
    names::REAL_QUEUE_ID,
    names::WAIT,
    names::TIMER_DELIVER_MS,
    names::TIMER_DELAY_MS,
    names::TIMER_DELAY_SECONDS,
];

/// Where dead letters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResendTo {
    /// To the group's retry topic: no other group sees them.
    Group,
    /// To the topics they came from, and so to every group.
    Topics,
}

/// Which dead letters are wanted again.
#[derive(Clone, Copy, Debug)]
pub struct Resend<'a> {
    /// Their group.
    pub group: &'a str,
    /// Where to.
    pub to: ResendTo,
    /// Those alone that died then or later.
    pub since: Option<Timestamp>,
    /// Goes back to the oldest: those too that were resent before. What is left then is asked for without this.
    pub again: bool,
    /// Passes over those whose topic is gone: they stay where they are, and count as resent.
    pub passes_over: bool,
    /// So many at most; with 0 it is only counted.
    pub count_max: usize,
}

/// What was resent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resent {
    /// Dead letters that were resent.
    pub count: u64,
    /// Those that were asked for and are left.
    pub left: u64,
    /// Those that could not go anywhere, since the topic they came from is gone.
    pub passed_over: u64,
    /// The one that ended it, where it is, and why: those before it are resent and remembered.
    pub failure: Option<(QueueId, QueueOffset, Refusal)>,
}

/// Where a copy goes and what it no longer says there; `None`: nowhere, it is passed over.
type Way = Option<(Arc<Topic>, &'static [&'static str])>;

/// What became of messages that were to be copied.
#[derive(Debug)]
struct Copied {
    count: u64,
    passed_over: u64,
    /// Behind the last.
    next: QueueOffset,
    /// What ended it.
    failure: Option<Refusal>,
}

/// Copies messages.
#[derive(Debug)]
pub struct Copies {
    fetcher: Fetcher,
    publisher: Arc<Publisher>,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    /// Held while dead letters are resent: two would resend the same ones.
    resending: Mutex<()>,
}

impl Copies {
    pub(crate) fn new(
        fetcher: Fetcher,
        publisher: &Arc<Publisher>,
        catalog: &Arc<Catalog>,
        offsets: &Arc<Offsets>,
    ) -> Self {
        let (publisher, catalog, offsets) = (publisher.clone(), catalog.clone(), offsets.clone());
        Self { fetcher, publisher, catalog, offsets, resending: Mutex::default() }
    }

    /// Sends dead letters of a group once more, as messages that were never delivered; they stay where they are. Waits for the disk.
    ///
    /// A letter that cannot be sent ends it: that is no error of this call, see [`Resent::failure`].
    pub fn resend(&self, asked: &Resend<'_>, now: Now) -> Result<Resent, Refusal> {
        self.catalog.check_is_leader()?;
        if self.catalog.group(asked.group).is_none() {
            return Err(Refusal::NoSuchGroup(asked.group.to_owned()));
        }
        let _alone = self.resending.lock();
        let mut resent = Resent::default();
        let Some(letters) = self.catalog.topic(TopicName::dead_letters_of(asked.group).as_str()) else {
            return Ok(resent);
        };
        for queue in &letters.queues {
            self.resend_queue(asked, (&letters, queue), &mut resent, now)?;
            if resent.failure.is_some() {
                break;
            }
        }
        Ok(resent)
    }

    fn resend_queue(
        &self,
        asked: &Resend<'_>,
        (letters, queue): (&Topic, &Queue),
        resent: &mut Resent,
        now: Now,
    ) -> Result<(), Refusal> {
        let mut at = self.begin_of(asked, (letters, queue))?;
        loop {
            let left = asked.count_max.saturating_sub(usize::try_from(resent.count).unwrap_or(usize::MAX));
            if left == 0 || at >= queue.end() {
                break;
            }
            let found = self.read((letters, queue), at, left)?;
            let copied = self.copy_all(&found, now, |record| self.way_of(asked, record, now))?;
            let Copied { count, passed_over, next, failure } = copied;
            resent.count += count;
            resent.passed_over += passed_over;
            self.offsets.commit(letters.name.as_str(), RESENDER, queue.id(), next.0 as RawOffset)?;
            at = next;
            if let Some(refusal) = failure {
                resent.failure = Some((queue.id(), next, refusal));
                break;
            }
        }
        resent.left += queue.end().0.saturating_sub(at.0);
        Ok(())
    }

    fn begin_of(&self, asked: &Resend<'_>, (letters, queue): (&Topic, &Queue)) -> Result<QueueOffset, Refusal> {
        let mut begin = queue.first();
        if !asked.again {
            let known = self.offsets.committed(letters.name.as_str(), RESENDER, queue.id()).unwrap_or_default();
            begin = begin.max(QueueOffset(u64::try_from(known).unwrap_or_default()));
        }
        if let Some(since) = asked.since {
            begin = begin.max(self.offsets.search(queue, since, Boundary::Lower)?);
        }
        Ok(begin)
    }

    /// The topic that a dead letter goes to, and what it no longer says there.
    fn way_of(&self, asked: &Resend<'_>, record: &Record<'_>, now: Now) -> Result<Way, Refusal> {
        match asked.to {
            ResendTo::Group => {
                let group =
                    self.catalog.group(asked.group).ok_or_else(|| Refusal::NoSuchGroup(asked.group.to_owned()))?;
                if group.retry_queue_nums == 0 {
                    return Err(Refusal::NotPermitted(format!(
                        "the group [{}] keeps no retries (retryQueueNums 0): resend its dead letters to their topics",
                        asked.group
                    )));
                }
                self.catalog.ensure_retry_topic(&group, now)?;
                let name = TopicName::retry_of(asked.group);
                let topic = self.catalog.topic(name.as_str());
                topic.map(|topic| Some((topic, [].as_slice()))).ok_or_else(|| Refusal::NoSuchTopic(name.to_string()))
            }
            ResendTo::Topics => {
                let origin = record.property(names::RETRY_TOPIC);
                let name = origin.or_else(|| record.property(names::DEAD_LETTER_ORIGIN_TOPIC)).unwrap_or_default();
                match self.catalog.topic(name) {
                    Some(topic) => Ok(Some((topic, &[names::RETRY_TOPIC]))),
                    None if asked.passes_over => Ok(None),
                    None => Err(Refusal::NoSuchTopic(name.to_owned())),
                }
            }
        }
    }

    /// Puts copies of messages of a queue, from an offset on, into another topic: so many at most. Gives how many were copied, and the
    /// offset behind them. Waits for the disk.
    pub fn copy(
        &self,
        (from, queue, at): (&Topic, &Queue, QueueOffset),
        count_max: usize,
        to: &Arc<Topic>,
        now: Now,
    ) -> Result<(u64, QueueOffset), Refusal> {
        self.catalog.check_is_leader()?;
        let found = self.read((from, queue), at, count_max)?;
        if self.catalog.is_write_protected(to.name.as_str()) {
            return Err(Refusal::ReservedTopic(to.name.to_string()));
        }
        let Copied { count, next, failure, .. } = self.copy_all(&found, now, |_| Ok(Some((to.clone(), &[]))))?;
        failure.map_or(Ok((count, next)), Err)
    }

    fn read(&self, (topic, queue): (&Topic, &Queue), at: QueueOffset, count_max: usize) -> Result<Fetched, Refusal> {
        self.fetcher.read(&Fetch {
            topic,
            queue: queue.id(),
            offset: at.0 as RawOffset,
            count_max: count_max.min(BATCH_COUNT_MAX),
            size_max: BATCH_SIZE_MAX,
            filter: &Filter::All,
        })
    }

    /// Appends copies of what was found, up to the first that cannot be copied.
    fn copy_all(
        &self,
        found: &Fetched,
        now: Now,
        way: impl Fn(&Record<'_>) -> Result<Way, Refusal>,
    ) -> Result<Copied, Refusal> {
        let mut batch = self.publisher.begin_batch(found.size, now);
        let (mut next, mut failure, mut passed_over) = (found.next, None, 0);
        for bytes in found.records() {
            let record = Record::decode(bytes).map_err(internal)?;
            let added = way(&record).and_then(|way| match way {
                Some((topic, gone)) => self.add(&mut batch, &record, &topic, gone),
                None => {
                    passed_over += 1;
                    Ok(())
                }
            });
            if let Err(refusal) = added {
                (next, failure) = (record.queue_offset, Some(refusal));
                break;
            }
        }
        let count = batch.len() as u64;
        if count > 0 {
            self.publisher.append(batch, now)?;
        }
        Ok(Copied { count, passed_over, next, failure })
    }

    fn add(
        &self,
        batch: &mut PublishBatch,
        record: &Record<'_>,
        topic: &Topic,
        gone: &[&'static str],
    ) -> Result<(), Refusal> {
        let block = properties::without(record.properties, &[&LEFT_OUT, gone].concat());
        let message = Message {
            queue: None,
            body: record.body,
            properties: &block,
            flag: record.flag,
            system_flag: record.system_flag,
            born_timestamp: record.born_timestamp,
            born_host: record.born_host,
            delivery_count: 0,
        };
        self.publisher.add_sent_back(batch, topic, &message).map(drop)
    }
}
