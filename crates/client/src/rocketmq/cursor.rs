//! Where a reader is in one queue.

use std::sync::Arc;

use wire::rocketmq::code::request;
use wire::rocketmq::code::response::{QUERY_NOT_FOUND, SUCCESS};
use wire::rocketmq::header::{
    PullRequest, QueryConsumerOffsetRequest, QueueRequest, SearchOffsetRequest, UpdateConsumerOffsetRequest, pull_flag,
};

use crate::error::ClientError;
use crate::message::Start;
use crate::rocketmq::control::{Answer, Control};
use crate::rocketmq::pulled::Filter;

/// How long a broker may hold a pull that finds nothing.
const SUSPEND_MS: i64 = 15_000;

/// A queue of a topic at one of a reader's brokers, in the order in which members share them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Topic.
    pub topic: Arc<str>,
    /// Name of its broker.
    pub broker: String,
    /// Number.
    pub queue: u32,
}

/// Where a reader is in a queue.
#[derive(Debug)]
pub struct Cursor {
    /// The queue.
    pub place: Place,
    /// Its broker among the reader's.
    pub broker: usize,
    /// Everything before this offset was read, and has arrived where it was to go.
    pub settled: i64,
    /// What the broker was last told of that.
    told: i64,
    /// What it waits for.
    pub state: State,
}

/// What a cursor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For its next pull.
    Ready,
    /// For the answer of that number.
    Asked(i32),
    /// For what it brought to be settled, up to that offset.
    Read(i64),
    /// For nothing: it is at the end of its queue.
    AtEnd,
}

impl Cursor {
    /// A cursor that begins at `offset`.
    pub const fn new(place: Place, broker: usize, offset: i64) -> Self {
        Self { place, broker, settled: offset, told: offset, state: State::Ready }
    }

    /// A pull of what comes next: at most `most` messages; `commits` tells how far the group is by the way.
    pub fn pull<'a>(
        &'a mut self,
        group: &'a str,
        filter: &'a Filter,
        most: i32,
        (commits, waits): (bool, bool),
    ) -> PullRequest<'a> {
        let tells = commits && self.settled != self.told;
        if tells {
            self.told = self.settled;
        }
        let flag = |is_set: bool, flag: i32| if is_set { flag } else { 0 };
        PullRequest {
            consumer_group: group.into(),
            topic: (&*self.place.topic).into(),
            queue_id: queue_id(self.place.queue),
            queue_offset: self.settled,
            max_message_count: most,
            system_flag: pull_flag::SUBSCRIPTION
                | flag(waits, pull_flag::SUSPEND)
                | flag(tells, pull_flag::COMMIT_OFFSET),
            commit_offset: self.settled,
            suspend_timeout_ms: if waits { SUSPEND_MS } else { 0 },
            subscription: Some(filter.expression().into()),
            sub_version: 0,
            expression_type: Some("TAG".into()),
            ..PullRequest::default()
        }
    }

    /// Tells the broker how far `group` is, if that is news.
    pub fn commit(&mut self, broker: &mut Control, group: &str) -> Result<(), ClientError> {
        if self.settled == self.told {
            return Ok(());
        }
        commit(broker, group, (&self.place.topic, self.place.queue), self.settled)?;
        self.told = self.settled;
        Ok(())
    }
}

/// Tells a broker how far `group` is in a queue.
pub fn commit(broker: &mut Control, group: &str, (topic, queue): (&str, u32), offset: i64) -> Result<(), ClientError> {
    let header = UpdateConsumerOffsetRequest {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id: queue_id(queue),
        commit_offset: offset,
        ..UpdateConsumerOffsetRequest::default()
    };
    broker.demand(request::UPDATE_CONSUMER_OFFSET, &header).map(drop)
}

/// Where `group` goes on in a queue; `None` if it was never there.
pub fn committed(broker: &mut Control, group: &str, (topic, queue): (&str, u32)) -> Result<Option<i64>, ClientError> {
    let header = QueryConsumerOffsetRequest {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id: queue_id(queue),
        set_zero_if_not_found: Some(false),
        ..QueryConsumerOffsetRequest::default()
    };
    let answer = broker.ask(request::QUERY_CONSUMER_OFFSET, &header)?;
    match answer.code {
        SUCCESS => Ok(Some(offset_of(&answer))),
        QUERY_NOT_FOUND => Ok(None),
        _ => Err(broker.refused(request::QUERY_CONSUMER_OFFSET, &answer)),
    }
}

/// The offset in a queue at which `start` is.
pub fn offset_at(broker: &mut Control, (topic, queue): (&str, u32), start: Start) -> Result<i64, ClientError> {
    let header = || QueueRequest { topic: topic.into(), queue_id: queue_id(queue), ..QueueRequest::default() };
    // A broker may answer -1 for a queue nothing was ever sent to.
    let mut ask = |code| broker.demand(code, &header()).map(|answer| offset_of(&answer).max(0));
    match start {
        Start::Earliest => ask(request::GET_MIN_OFFSET),
        Start::Latest => ask(request::GET_MAX_OFFSET),
        Start::Last(count) => {
            let (begin, end) = (ask(request::GET_MIN_OFFSET)?, ask(request::GET_MAX_OFFSET)?);
            Ok(end.saturating_sub_unsigned(count).max(begin))
        }
        Start::Offset(offset) => Ok(i64::try_from(offset).unwrap_or(i64::MAX)),
        Start::Time(ms) => {
            let header = SearchOffsetRequest {
                topic: topic.into(),
                queue_id: queue_id(queue),
                timestamp: i64::try_from(ms).unwrap_or(i64::MAX),
                ..SearchOffsetRequest::default()
            };
            broker.demand(request::SEARCH_OFFSET_BY_TIMESTAMP, &header).map(|answer| offset_of(&answer).max(0))
        }
    }
}

fn offset_of(answer: &Answer) -> i64 {
    answer.number("offset").unwrap_or(0)
}

fn queue_id(queue: u32) -> i32 {
    i32::try_from(queue).unwrap_or(i32::MAX)
}
