//! What a slave's consumers did while its master was away, and telling the master: one thing after another, offsets only forward.

use std::collections::VecDeque;

use base::{LogOffset, QueueOffset};
use format::document::GroupDocument;
use serde_json::Value;
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{
    OffsetResponse, QueryConsumeQueueRequest, QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest,
};

/// A message in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its offset there.
    pub queue_offset: QueueOffset,
    /// Where the log has it.
    pub log_offset: LogOffset,
}

/// How far a group has come in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
    /// Queue.
    pub queue: u32,
    /// Its committed offset.
    pub offset: i64,
    /// The newest message that the slave has in the queue. The master's queue is another if it does not have it there: one of a topic that
    /// was removed and made again.
    pub newest: Option<Place>,
}

impl Settled {
    fn queue_id(&self) -> i32 {
        i32::try_from(self.queue).unwrap_or(i32::MAX)
    }

    /// Asks for the master's message in the place of `newest`.
    pub(super) fn look(&self, newest: Place) -> QueryConsumeQueueRequest<'_> {
        QueryConsumeQueueRequest {
            topic: self.topic.as_str().into(),
            queue_id: self.queue_id(),
            index: i64::try_from(newest.queue_offset.0).unwrap_or(i64::MAX),
            count: 1,
            ..QueryConsumeQueueRequest::default()
        }
    }

    pub(super) fn query(&self) -> QueryConsumerOffsetRequest<'_> {
        QueryConsumerOffsetRequest {
            consumer_group: self.group.as_str().into(),
            topic: self.topic.as_str().into(),
            queue_id: self.queue_id(),
            set_zero_if_not_found: Some(false),
            ..QueryConsumerOffsetRequest::default()
        }
    }

    pub(super) fn commit(&self) -> UpdateConsumerOffsetRequest<'_> {
        UpdateConsumerOffsetRequest {
            consumer_group: self.group.as_str().into(),
            topic: self.topic.as_str().into(),
            queue_id: self.queue_id(),
            commit_offset: self.offset,
            // Where a consumer is further by then. A master of Java takes it anyway.
            only_forward: Some(true),
            ..UpdateConsumerOffsetRequest::default()
        }
    }
}

/// What consumers did at the slave, and the master does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owed {
    /// Groups that the master does not have.
    pub groups: Vec<GroupDocument>,
    /// Offsets that are beyond the master's.
    pub offsets: Vec<Settled>,
}

/// One request to the master.
#[derive(Clone, Debug)]
pub(super) enum Saying {
    Group(Box<GroupDocument>),
    /// Asks for a message that the slave has: the queue may be another by now.
    Queue(Settled, Place),
    /// Asks where the group stands: its consumers may be back at the master already.
    Where(Settled),
    Offset(Settled),
}

/// Telling a master.
#[derive(Debug, Default)]
pub(super) struct Telling {
    left: VecDeque<Saying>,
    /// What an answer is waited for.
    said: Option<Saying>,
    told: Vec<Settled>,
}

impl Telling {
    pub(super) fn of(Owed { groups, offsets }: Owed) -> Self {
        let mut telling = Self::default();
        telling.left.extend(groups.into_iter().map(|group| Saying::Group(Box::new(group))));
        for settled in offsets {
            match settled.newest {
                Some(newest) => telling.left.push_back(Saying::Queue(settled, newest)),
                // Nothing is skipped for it.
                None if settled.offset == 0 => telling.left.push_back(Saying::Where(settled)),
                // Nor would it be known of which queue it is.
                None => telling.told.push(settled),
            }
        }
        telling
    }

    /// What is to be said next.
    pub(super) fn next(&mut self) -> Option<&Saying> {
        self.said = self.left.pop_front();
        self.said.as_ref()
    }

    /// The master has answered.
    pub(super) fn take(&mut self, answer: &Command<'_>) {
        let code = answer.header.code;
        let is_taken = code == response::SUCCESS;
        // That the topic or the group is gone is the last word too. Whatever else is refused is said again in the next round.
        let is_gone = [response::TOPIC_NOT_EXIST, response::SUBSCRIPTION_GROUP_NOT_EXIST].contains(&code);
        match self.said.take() {
            Some(Saying::Queue(settled, newest)) if is_taken => match place_in(answer.body) {
                Some(found) if found == newest.log_offset => self.left.push_front(Saying::Where(settled)),
                // What was settled in the queue of before is nothing to this one.
                _ => self.told.push(settled),
            },
            Some(Saying::Queue(settled, _)) if is_gone => self.told.push(settled),
            Some(Saying::Where(settled)) => {
                let offset =
                    OffsetResponse::decode(&answer.fields).ok().filter(|_| is_taken).map(|fields| fields.offset);
                if is_gone || offset.is_some_and(|offset| offset >= settled.offset) {
                    self.told.push(settled);
                } else if is_taken || code == response::QUERY_NOT_FOUND {
                    self.left.push_front(Saying::Offset(settled));
                }
            }
            Some(Saying::Offset(settled)) if is_taken || is_gone => self.told.push(settled),
            _ => {}
        }
    }

    /// What the master knows now, or does not have to know any more.
    pub(super) fn told(self) -> Vec<Settled> {
        self.told
    }
}

/// Where the log has the first message that an answer about a queue tells of.
fn place_in(body: &[u8]) -> Option<LogOffset> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["queueData"][0]["physicOffset"].as_u64().map(LogOffset)
}
