//! What became of every message that was sent, parked or given back.

use std::collections::{BTreeMap, BTreeSet};

use super::queues::{Identity, Queues};
use super::{Checked, Moment, Oracle, Rule, Scene, Stopped, Taken, Violation, check};
use crate::connection::Reply;
use crate::request::{Asked, Queue, Sending};
use crate::roster::{DEAD_TOPIC, POP_DEAD_TOPICS, RETRY_TOPIC, TOPICS};

/// Answers that say that nothing was stored.
const NOT_STORED: [i32; 8] = [1, 2, 3, 13, 16, 17, 26, 29];

/// Answers that say that it was: kept as promised; and not synced in time.
const STORED: i32 = 0;
const STORED_NOT_SYNCED: i32 = 10;

/// The topic's name as stories have it.
pub(super) fn known_topic(name: &str) -> Option<&'static str> {
    TOPICS.iter().chain(&[RETRY_TOPIC, DEAD_TOPIC]).chain(&POP_DEAD_TOPICS).find(|known| **known == name).copied()
}

/// A message in a topic, as far as requests have told.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Requests to store it.
    asked: u32,
    /// Answers that say that it is.
    stored: u32,
    is_durable: bool,
    is_refused: bool,
    body_size: u64,
    /// The life of the topic when it was sent; `None` if that is not sure.
    epoch: Option<u64>,
    /// Crashes before it was sent: with each a delayed message may come once more, if its copy was written and not yet its progress.
    crashes: u64,
    /// When it was sent, by the clock that is never set.
    sent_lived: u64,
    /// When it is due, if it is delayed, by either clock.
    due: Option<Moment>,
    /// Where the log ended when it was sent: it lies behind.
    log_floor: u64,
    /// Where it is parked in the log.
    parked_at: Option<u64>,
    /// Connection it came on.
    sender: (usize, u64),
}

/// What one connection sends to one queue of one life of a topic.
type Stream = ((usize, u64), Queue, u64);

/// Everything that was sent.
#[derive(Debug)]
pub(super) struct Messages {
    delays_ms: Vec<u64>,
    crashes: u64,
    expected: BTreeMap<(&'static str, Identity), Expected>,
    /// Lives of topics that ended.
    removed: BTreeMap<&'static str, u64>,
    /// Offsets that answers gave to messages of one connection, by queue and message.
    answered: BTreeMap<Stream, BTreeMap<u64, u64>>,
}

impl Messages {
    pub(super) fn new(delays_ms: &[u64]) -> Self {
        Self {
            delays_ms: delays_ms.to_vec(),
            crashes: 0,
            expected: BTreeMap::new(),
            removed: BTreeMap::new(),
            answered: BTreeMap::new(),
        }
    }

    fn due(&self, level: usize, scene: &Scene) -> Option<Moment> {
        let level = level.min(self.delays_ms.len());
        let delay = self.delays_ms.get(level.checked_sub(1)?)?;
        Some(Moment { lived: scene.now.lived + delay, wall: scene.now.wall + delay })
    }

    pub(super) fn sent(&mut self, sending: &Sending, epoch: Option<u64>, scene: &Scene) {
        let due = self.due(sending.level, scene);
        for number in sending.first..sending.first + sending.count {
            let expected = Expected {
                asked: 1,
                stored: 0,
                is_durable: false,
                is_refused: false,
                body_size: sending.size as u64 + 24,
                epoch,
                crashes: self.crashes,
                sent_lived: scene.now.lived,
                due,
                log_floor: scene.log_end,
                parked_at: None,
                sender: (0, 0),
            };
            self.expected.insert((sending.topic, (number, 0)), expected);
        }
    }

    pub(super) fn sent_back(&mut self, asked: &Asked, scene: &Scene) {
        let Asked::SendBack { number, tries, level, .. } = *asked else { return };
        let (topic, identity) = topic_of(number, tries, level);
        let due = if level < 0 {
            None
        } else {
            self.due(if level == 0 { 3 + tries as usize } else { level as usize }, scene)
        };
        let before = self.expected.get(&(topic, identity));
        let expected = Expected {
            asked: before.map_or(0, |before| before.asked) + 1,
            stored: before.map_or(0, |before| before.stored),
            is_durable: before.is_some_and(|before| before.is_durable),
            is_refused: false,
            body_size: 1024,
            epoch: Some(0),
            crashes: before.map_or(self.crashes, |before| before.crashes),
            sent_lived: before.map_or(scene.now.lived, |before| before.sent_lived),
            // The first that comes may be of either.
            due: before.map_or(due, |before| before.due.zip(due).map(|(one, other)| one.min_of(other))),
            log_floor: before.map_or(scene.log_end, |before| before.log_floor),
            parked_at: None,
            sender: (0, 0),
        };
        self.expected.insert((topic, identity), expected);
    }

    pub(super) fn sent_back_answered(&mut self, asked: &Asked, reply: &Reply, sync_flush: bool) -> Checked {
        let Asked::SendBack { number, tries, level, .. } = *asked else { return Ok(()) };
        if let Some(expected) = self.expected.get_mut(&topic_of(number, tries, level)).filter(|_| reply.code == 0) {
            expected.stored += 1;
            expected.is_durable |= sync_flush;
        }
        Ok(())
    }

    pub(super) fn topic_removed(&mut self, topic: &'static str) {
        *self.removed.entry(topic).or_default() += 1;
    }

    pub(super) fn synced(&mut self) {
        self.expected
            .values_mut()
            .filter(|expected| expected.stored > 0)
            .for_each(|expected| expected.is_durable = true);
    }

    pub(super) fn restarted(&mut self, how: Stopped, lost: &BTreeSet<(&'static str, Identity)>) {
        self.crashes += u64::from(how != Stopped::InOrder);
        for (key, expected) in &mut self.expected {
            if how == Stopped::PowerCut && (lost.contains(key) || !expected.is_durable) {
                expected.stored = 0;
            }
        }
    }

    /// A message was seen at an offset: somebody must have sent it there, and not too late.
    pub(super) fn seen(&self, topic: &'static str, identity: Identity, epoch: u64) -> Result<&Expected, Violation> {
        let what = || format!("m{} ({} tries) in {topic}", identity.0, identity.1);
        let Some(expected) = self.expected.get(&(topic, identity)) else {
            return Err(Violation::of(Rule::NothingComesFromNowhere, what()));
        };
        check(!expected.is_refused, Rule::RefusedIsNotStored, what)?;
        let is_of_before = expected.due.is_none() && expected.epoch.is_some_and(|sent| sent < epoch);
        check(!is_of_before, Rule::RemovedStaysRemoved, what)?;
        Ok(expected)
    }

    /// What was delayed or given back, and stored, is where consumers find it.
    pub(super) fn all_has_arrived(&self, queues: &Queues, scene: &Scene) -> Checked {
        for ((topic, identity), expected) in &self.expected {
            let is_certain = expected.stored > 0 && (expected.due.is_some() || identity.1 > 0);
            let is_excused = !scene.once_unreadable.is_empty()
                || expected.log_floor < scene.log_first
                || expected.parked_at.is_some_and(|at| at < scene.log_first)
                || self.removed.contains_key(topic)
                || queues.epoch_of(Some(topic)).is_none();
            if is_certain && !is_excused {
                check(queues.count_of(topic, *identity) > 0, Rule::DelayedArrives, || {
                    format!("m{} ({} tries) is not in {topic}, due at {:?}", identity.0, identity.1, expected.due)
                })?;
            }
        }
        Ok(())
    }
}

impl Expected {
    /// How often it may be there after so many crashes.
    pub(super) const fn count_max(&self, crashes: u64) -> usize {
        if self.due.is_none() {
            self.asked as usize
        } else {
            self.asked as usize * (1 + crashes - self.crashes) as usize
        }
    }

    pub(super) const fn due(&self) -> Option<Moment> {
        self.due
    }

    pub(super) const fn sent_lived(&self) -> u64 {
        self.sent_lived
    }

    pub(super) const fn body_size(&self) -> u64 {
        self.body_size
    }
}

impl Moment {
    fn min_of(self, other: Self) -> Self {
        Self { lived: self.lived.min(other.lived), wall: self.wall.min(other.wall) }
    }
}

/// Where a message that is given back goes, and as what.
const fn topic_of(number: u64, tries: i32, level: i32) -> (&'static str, Identity) {
    (if level < 0 { DEAD_TOPIC } else { RETRY_TOPIC }, (number, tries + 1))
}

impl Oracle {
    pub(super) fn send_answered(&mut self, sending: &Sending, taken: &Taken, reply: &Reply) -> Checked {
        let numbers = sending.first..sending.first + sending.count;
        if NOT_STORED.contains(&reply.code) {
            for number in numbers {
                if let Some(expected) = self.messages.expected.get_mut(&(sending.topic, (number, 0))) {
                    expected.is_refused = true;
                }
            }
            return Ok(());
        }
        if !matches!(reply.code, STORED | STORED_NOT_SYNCED) {
            return Ok(());
        }
        let is_durable = reply.code == STORED && self.sync_flush && sending.waits;
        let ids: Vec<u64> =
            reply.fields.get("msgId").map(|ids| ids.split(',').filter_map(log_offset_in).collect()).unwrap_or_default();
        let is_whole = ids.len() as u64 == sending.count;
        let stored = reply.number("queueId").zip(reply.number("queueOffset")).filter(|_| is_whole);
        let Some((queue, offset)) = stored else {
            return Err(Violation::of(Rule::AnswersAreWhole, format!("{sending:?} is answered with {reply}")));
        };
        let is_sure = taken.epoch.is_some() && taken.epoch == self.queues.epoch_of(Some(sending.topic));
        for ((number, log_offset), at) in numbers.zip(ids).zip(0..) {
            let Some(expected) = self.messages.expected.get_mut(&(sending.topic, (number, 0))) else { continue };
            expected.stored += 1;
            expected.is_durable |= is_durable;
            expected.sender = taken.sender;
            if expected.due.is_some() {
                expected.parked_at = Some(log_offset);
            } else if is_sure {
                let (queue, offset) = ((sending.topic, queue as u32), offset as u64 + at);
                self.queues.put(queue, offset, ((number, 0), expected.body_size), log_offset, is_durable)?;
                let epoch = taken.epoch.unwrap_or_default();
                let answered = self.messages.answered.entry((taken.sender, queue, epoch)).or_default();
                let earlier = answered.range(..number).next_back();
                let later = answered.range(number..).next();
                check(
                    earlier.is_none_or(|(_, one)| *one < offset) && later.is_none_or(|(_, one)| offset < *one),
                    Rule::QueuesKeepTheirOrder,
                    || {
                        format!(
                            "m{number} is at {offset} of {queue:?}, those sent before and after on its connection at {earlier:?}, {later:?}"
                        )
                    },
                )?;
                answered.insert(number, offset);
            }
        }
        Ok(())
    }

    pub(super) fn check_copies(&self, topic: &'static str, identity: Identity, expected: &Expected) -> Checked {
        let count = self.queues.count_of(topic, identity);
        check(count <= expected.count_max(self.messages.crashes), Rule::MessagesAreStoredOnce, || {
            format!("m{} ({} tries) is in {topic} {count} times", identity.0, identity.1)
        })
    }

    pub(super) const fn messages(&self) -> &Messages {
        &self.messages
    }
}

/// The log offset in an id that the broker made.
pub(crate) fn log_offset_in(id: &str) -> Option<u64> {
    u64::from_str_radix(id.get(id.len().checked_sub(16)?..)?, 16).ok()
}
