//! What administrators do to topics and groups, whoever asks: `mqadmin` by its requests, or the admin API.
//!
//! **Always holds**: what returns without an error is in the log, on the disk where answers wait for it.

use base::{Now, QueueId, Refusal, Timestamp, TopicName};
use broker::{Boundary, Broker, Queue, RawOffset};
use format::document::TopicDocument;

/// Bits a permission may have: inherit, write, read.
const PERMISSION_MASK: u32 = 0b111;

/// Does what administrators ask for at one broker.
#[derive(Debug)]
pub struct Administrator<'a> {
    broker: &'a Broker,
    now: Now,
}

/// Where a group is to go on in each queue of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTo {
    /// Before the oldest message.
    First,
    /// Behind the newest.
    End,
    /// At the first message that was stored then or later.
    Time(Timestamp),
    /// There, or as near to it as the queue goes.
    Offset(u64),
}

/// How a group is reset.
#[derive(Clone, Copy, Debug)]
pub struct Reset<'a> {
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// This queue alone; none: all of them.
    pub queue: Option<u32>,
    /// Where to.
    pub to: ResetTo,
    /// A group that is further back stays where it is.
    pub only_back: bool,
}

/// How a reset moves a group in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The queue.
    pub queue: QueueId,
    /// Where the group has come to, if it has consumed anything.
    pub from: Option<RawOffset>,
    /// Where it goes on.
    pub to: RawOffset,
    /// It would have been forward, and was not to be.
    pub stays: bool,
}

impl<'a> Administrator<'a> {
    /// Who works at that broker.
    pub const fn new(broker: &'a Broker, now: Now) -> Self {
        Self { broker, now }
    }

    /// Makes topics or changes their settings: all, or none if one of them is refused. Name servers are told.
    pub fn put_topics(&self, topics: Vec<TopicDocument>) -> Result<(), Refusal> {
        let mut checked = Vec::with_capacity(topics.len());
        for settings in topics {
            let name = self.checked_name(&settings.topic_name)?;
            settings.attributes.iter().try_for_each(|(key, value)| check_attribute(key, value))?;
            if settings.perm & !PERMISSION_MASK != 0 {
                return Err(Refusal::BadRequest(format!(
                    "the permission {} of topic [{name}] is not a sum of 1 (inherit), 2 (write) and 4 (read)",
                    settings.perm as i32
                )));
            }
            checked.push((name, settings));
        }
        self.broker.catalog.put_topics(checked, self.now)?;
        self.keep()?;
        self.broker.catalog.announce();
        Ok(())
    }

    /// The name of a topic that administrators may make or change.
    pub(super) fn checked_name(&self, name: &str) -> Result<TopicName, Refusal> {
        let checked = TopicName::checked(name)?;
        let reserved = self.broker.catalog.system_topics();
        if reserved.iter().any(|system| system == name) || name.starts_with("rmq_sys_") {
            return Err(Refusal::ReservedTopic(name.to_owned()));
        }
        Ok(checked)
    }

    /// Removes a topic with its messages and all offsets in it.
    pub fn remove_topic(&self, name: &str) -> Result<(), Refusal> {
        if name.trim().is_empty() {
            return Err(Refusal::BadRequest("The specified topic is blank.".to_owned()));
        }
        self.broker.removals.topic(name, self.now)
    }

    /// Removes a group's settings, and how far it has come if that is to be forgotten.
    pub fn remove_group(&self, name: &str, forget_offsets: bool) -> Result<(), Refusal> {
        self.broker.removals.group(name, forget_offsets, self.now)
    }

    /// Where a reset would lead, without doing anything.
    pub fn plan(&self, reset: &Reset<'_>) -> Result<Vec<Move>, Refusal> {
        let queues = self.broker.catalog.queues_of(reset.topic)?;
        if self.broker.catalog.group(reset.group).is_none() {
            return Err(Refusal::NoSuchGroup(reset.group.to_owned()));
        }
        let is_meant = |queue: &&Queue| reset.queue.is_none_or(|number| number == queue.id().0);
        queues.iter().filter(is_meant).map(|queue| self.move_in(queue, reset)).collect()
    }

    fn move_in(&self, queue: &Queue, reset: &Reset<'_>) -> Result<Move, Refusal> {
        let (first, end) = (queue.first().0, queue.end().0);
        let target = match reset.to {
            ResetTo::First => first,
            ResetTo::End => end,
            ResetTo::Offset(offset) => offset.clamp(first, end),
            ResetTo::Time(time) => self.broker.offsets.search(queue, time, Boundary::Lower)?.0,
        } as RawOffset;
        let from = self.broker.offsets.committed(reset.topic, reset.group, queue.id());
        let before = from.filter(|from| reset.only_back && target > *from);
        Ok(Move { queue: queue.id(), from, to: before.unwrap_or(target), stays: before.is_some() })
    }

    /// Resets a group; its consumers hear of it with their next pull, or the one that waits.
    pub fn reset(&self, reset: &Reset<'_>) -> Result<Vec<Move>, Refusal> {
        let moves = self.plan(reset)?;
        for Move { queue, to, stays, .. } in &moves {
            let offsets = &self.broker.offsets;
            if *stays {
                offsets.stay(reset.topic, reset.group, *queue, *to)?;
            } else {
                offsets.reset(reset.topic, reset.group, *queue, *to)?;
            }
        }
        self.keep()?;
        Ok(moves)
    }

    fn keep(&self) -> Result<(), Refusal> {
        self.broker.keep(self.now).map_err(|error| Refusal::Internal(error.to_string()))
    }
}

/// Other attributes are kept and have no effect. A Java broker that takes over does not start if the files of a topic's queues are not of the
/// kind its attribute says.
pub(super) fn check_attribute(key: &str, value: &str) -> Result<(), Refusal> {
    if key.trim_start_matches('+').trim() == "queue.type" && value.trim() != "SimpleCQ" {
        return Err(Refusal::NotSupported(format!(
            "Sluice does not support queues of the type [{value}] (attribute queue.type); SimpleCQ is the one it has"
        )));
    }
    Ok(())
}
