//! What a slave's consumers did while its master was away, and telling the master: one thing after another, offsets only forward.

use std::collections::VecDeque;

use format::document::GroupDocument;
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{OffsetResponse, QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest};

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
}

impl Settled {
    fn queue_id(&self) -> i32 {
        i32::try_from(self.queue).unwrap_or(i32::MAX)
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
        let groups = groups.into_iter().map(|group| Saying::Group(Box::new(group)));
        Self { left: groups.chain(offsets.into_iter().map(Saying::Where)).collect(), ..Self::default() }
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
