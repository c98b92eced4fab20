//! Requests of clients as plain values, and the frames they are sent in.

use base::Timestamp;
use bytes::BytesMut;
use format::batch_body::BatchItem;
use format::document::GroupDocument;
use format::properties::{append, names};
use serde_json::json;
use wire::rocketmq::body::client::{ConsumerData, Heartbeat, SubscriptionData};
use wire::rocketmq::code::request;
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::{self, FLAG_ONE_WAY, Form, Header, Language};
use wire::rocketmq::header::{
    ConsumerGroupRequest, CreateTopicRequest, DeleteGroupRequest, GroupRequest, PullRequest,
    QueryConsumerOffsetRequest, QueryMessageRequest, ResetOffsetRequest, SendBackRequest, SendRequest, TopicRequest,
    UnregisterClientRequest, UpdateConsumerOffsetRequest, pull_flag,
};

use crate::popping::PopAsked;

/// A queue of a topic.
pub type Queue = (&'static str, u32);

/// One or more messages in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Topic.
    pub topic: &'static str,
    /// Queue; `None` lets the broker choose.
    pub queue: Option<u32>,
    /// Number of the first message.
    pub first: u64,
    /// How many: above 1 they are a batch.
    pub count: u64,
    /// Delay level; 0 for none.
    pub level: usize,
    /// Whether the answer waits for the sync, where the broker is set so.
    pub waits: bool,
    /// Whether there is an answer at all.
    pub is_one_way: bool,
    /// Whether each has the tag of its number.
    pub has_tag: bool,
    /// Bytes of each body beside its number.
    pub size: usize,
}

/// A pull of everything from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulling {
    /// Group.
    pub group: &'static str,
    /// Queue.
    pub queue: Queue,
    /// First offset wanted.
    pub offset: i64,
    /// Messages at most.
    pub count: i32,
    /// How long it may wait; 0 if it may not.
    pub wait_ms: u64,
    /// An offset to commit by the way.
    pub commit: Option<i64>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Messages to store.
    Send(Sending),
    /// Messages to read.
    Pull(Pulling),
    /// A group has come so far.
    Commit {
        /// Group.
        group: &'static str,
        /// Queue.
        queue: Queue,
        /// Next offset to consume.
        offset: i64,
        /// Whether there is no answer.
        is_one_way: bool,
    },
    /// What consumers ask that pop.
    Pops(PopAsked),
    /// How far has a group come?
    Committed {
        /// Group.
        group: &'static str,
        /// Queue.
        queue: Queue,
    },
    /// A group is to begin again in every queue of a topic.
    Reset {
        /// Group.
        group: &'static str,
        /// Topic.
        topic: &'static str,
        /// Where.
        offset: i64,
    },
    /// A message could not be consumed.
    SendBack {
        /// Group.
        group: &'static str,
        /// Where it lies in the log.
        log_offset: u64,
        /// Its number.
        number: u64,
        /// How often it was tried before.
        tries: i32,
        /// Delay level; below 0 to give up.
        level: i32,
    },
    /// A topic is to be made, or changed.
    PutTopic {
        /// Name.
        topic: &'static str,
        /// Permission.
        perm: u32,
        /// Queues.
        queues: u32,
    },
    /// A topic is to be removed.
    RemoveTopic(&'static str),
    /// What are a topic's settings?
    ReadTopic(&'static str),
    /// A group is to be made, or changed.
    PutGroup {
        /// Name.
        group: &'static str,
        /// Its `retry_max_times`.
        tries: i32,
    },
    /// A group is to be removed.
    RemoveGroup(&'static str),
    /// What are a group's settings?
    ReadGroup(&'static str),
    /// Which messages have the key of this one?
    FindKey {
        /// Topic.
        topic: &'static str,
        /// The message's number.
        number: u64,
    },
    /// A client is there, and consumes in a group.
    Heartbeat {
        /// The client.
        client: &'static str,
        /// Group.
        group: &'static str,
        /// Topics it wants.
        topics: &'static [&'static str],
    },
    /// Who is in a group?
    Members(&'static str),
    /// A client leaves a group.
    Leave {
        /// The client.
        client: &'static str,
        /// Group.
        group: &'static str,
    },
}

/// The body of a message: its number, and as many bytes as are wanted.
pub(crate) fn body_of(number: u64, size: usize) -> String {
    format!("m{number} {}", "-".repeat(size))
}

/// The number in a body.
pub(crate) fn number_in(body: &[u8]) -> Option<u64> {
    std::str::from_utf8(body).ok()?.strip_prefix('m')?.split_once(' ')?.0.parse().ok()
}

/// The key of a message.
pub(crate) fn key_of(number: u64) -> String {
    format!("k{number}")
}

/// The tag of a message, if it has one.
pub(crate) const fn tag_of(number: u64) -> &'static str {
    if number.is_multiple_of(2) { "even" } else { "odd" }
}

fn properties_of(number: u64, sending: &Sending, level: usize) -> Vec<u8> {
    let mut block = Vec::new();
    append(&mut block, names::KEYS, &key_of(number));
    if sending.has_tag {
        append(&mut block, names::TAGS, tag_of(number));
    }
    if level > 0 {
        append(&mut block, names::DELAY, &level.to_string());
    }
    if !sending.waits {
        append(&mut block, names::WAIT, "false");
    }
    block
}

impl Asked {
    /// Whether nobody answers.
    pub(crate) const fn is_one_way(&self) -> bool {
        match self {
            Self::Send(sending) => sending.is_one_way,
            Self::Commit { is_one_way, .. } => *is_one_way,
            _ => false,
        }
    }

    /// The topic whose messages it is about.
    pub(crate) const fn topic(&self) -> Option<&'static str> {
        match self {
            Self::Send(sending) => Some(sending.topic),
            Self::Pull(pulling) => Some(pulling.queue.0),
            Self::Pops(asked) => asked.topic(),
            _ => None,
        }
    }

    /// The request as it is sent.
    pub(crate) fn frame(&self, opaque: i32, form: Form, now: Timestamp) -> BytesMut {
        let mut out = BytesMut::new();
        match self {
            Self::Send(sending) => sending.encode(&mut out, opaque, form, now),
            Self::Pull(pulling) => put(&mut out, (request::PULL_MESSAGE, opaque, 0, form), &pulling.header(), &[]),
            Self::Pops(asked) => asked.encode(&mut out, opaque, form),
            other => other.encode_rest(&mut out, opaque, form),
        }
        out
    }

    fn encode_rest(&self, out: &mut BytesMut, opaque: i32, form: Form) {
        let head = |code: i32| (code, opaque, if self.is_one_way() { FLAG_ONE_WAY } else { 0 }, form);
        match *self {
            Self::Send(_) | Self::Pull(_) | Self::Pops(_) => {}
            Self::Commit { group, queue: (topic, queue), offset, .. } => {
                let header = UpdateConsumerOffsetRequest {
                    consumer_group: group.into(),
                    topic: topic.into(),
                    queue_id: queue as i32,
                    commit_offset: offset,
                    ..Default::default()
                };
                put(out, head(request::UPDATE_CONSUMER_OFFSET), &header, &[]);
            }
            Self::Committed { group, queue: (topic, queue) } => {
                let header = QueryConsumerOffsetRequest {
                    consumer_group: group.into(),
                    topic: topic.into(),
                    queue_id: queue as i32,
                    ..Default::default()
                };
                put(out, head(request::QUERY_CONSUMER_OFFSET), &header, &[]);
            }
            Self::Reset { group, topic, offset } => {
                let header = ResetOffsetRequest {
                    topic: topic.into(),
                    group: group.into(),
                    offset: Some(offset),
                    is_force: true,
                    ..Default::default()
                };
                put(out, head(request::INVOKE_BROKER_TO_RESET_OFFSET), &header, &[]);
            }
            Self::PutTopic { topic, perm, queues } => {
                let header = CreateTopicRequest {
                    topic: topic.into(),
                    default_topic: "TBW102".into(),
                    read_queue_nums: queues as i32,
                    write_queue_nums: queues as i32,
                    permission: perm as i32,
                    topic_filter_type: "SINGLE_TAG".into(),
                    ..Default::default()
                };
                put(out, head(request::UPDATE_AND_CREATE_TOPIC), &header, &[]);
            }
            Self::RemoveTopic(topic) | Self::ReadTopic(topic) => {
                let header = TopicRequest { topic: topic.into(), ..Default::default() };
                let is_removal = matches!(self, Self::RemoveTopic(_));
                let code = if is_removal { request::DELETE_TOPIC_IN_BROKER } else { request::GET_TOPIC_CONFIG };
                put(out, head(code), &header, &[]);
            }
            Self::FindKey { topic, number } => {
                let header = QueryMessageRequest {
                    topic: topic.into(),
                    key: key_of(number).into(),
                    max_count: 32,
                    end_timestamp: i64::MAX,
                    ..Default::default()
                };
                put(out, head(request::QUERY_MESSAGE), &header, &[]);
            }
            _ => self.encode_group_request(out, head),
        }
    }

    fn encode_group_request(&self, out: &mut BytesMut, head: impl Fn(i32) -> (i32, i32, i32, Form)) {
        match *self {
            Self::PutGroup { group, tries } => {
                let settings =
                    GroupDocument { group_name: group.to_owned(), retry_max_times: tries, ..GroupDocument::default() };
                let code = request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP;
                put(out, head(code), &GroupRequest::default(), json!(settings).to_string().as_bytes());
            }
            Self::RemoveGroup(group) => {
                let header = DeleteGroupRequest { group_name: group.into(), ..Default::default() };
                put(out, head(request::DELETE_SUBSCRIPTION_GROUP), &header, &[]);
            }
            Self::ReadGroup(group) => {
                let header = GroupRequest { group: group.into(), ..Default::default() };
                put(out, head(request::GET_SUBSCRIPTION_GROUP_CONFIG), &header, &[]);
            }
            Self::Heartbeat { client, group, topics } => {
                let body = json!(heartbeat(client, group, topics)).to_string();
                put(out, head(request::HEART_BEAT), &GroupRequest::default(), body.as_bytes());
            }
            Self::SendBack { group, log_offset, level, .. } => {
                let header = SendBackRequest {
                    offset: log_offset as i64,
                    group: group.into(),
                    delay_level: level,
                    ..Default::default()
                };
                put(out, head(request::CONSUMER_SEND_MESSAGE_BACK), &header, &[]);
            }
            Self::Members(group) => {
                let header = ConsumerGroupRequest { consumer_group: group.into(), ..Default::default() };
                put(out, head(request::GET_CONSUMER_LIST_BY_GROUP), &header, &[]);
            }
            Self::Leave { client, group } => {
                let header = UnregisterClientRequest {
                    client_id: client.into(),
                    consumer_group: Some(group.into()),
                    ..Default::default()
                };
                put(out, head(request::UNREGISTER_CLIENT), &header, &[]);
            }
            _ => {}
        }
    }
}

impl Sending {
    fn encode(&self, out: &mut BytesMut, opaque: i32, form: Form, now: Timestamp) {
        let is_batch = self.count > 1;
        let block = if is_batch { Vec::new() } else { properties_of(self.first, self, self.level) };
        let header = SendRequest {
            producer_group: "producers".into(),
            topic: self.topic.into(),
            default_topic: "TBW102".into(),
            default_topic_queue_nums: 2,
            queue_id: self.queue.map_or(-1, |queue| queue as i32),
            born_timestamp: now.0 as i64,
            properties: Some(String::from_utf8_lossy(&block)),
            batch: Some(is_batch),
            ..Default::default()
        };
        let flag = if self.is_one_way { FLAG_ONE_WAY } else { 0 };
        if !is_batch {
            let body = body_of(self.first, self.size);
            return put(out, (request::SEND_MESSAGE_V2, opaque, flag, form), &header, body.as_bytes());
        }
        let mut body = BytesMut::new();
        for number in self.first..self.first + self.count {
            let (text, block) = (body_of(number, self.size), properties_of(number, self, 0));
            BatchItem { flag: 0, body: text.as_bytes(), properties: &block }.encode(&mut body);
        }
        put(out, (request::SEND_BATCH_MESSAGE, opaque, flag, form), &header, &body);
    }
}

impl Pulling {
    fn header(&self) -> PullRequest<'static> {
        let mut flags = pull_flag::SUBSCRIPTION;
        if self.wait_ms > 0 {
            flags |= pull_flag::SUSPEND;
        }
        if self.commit.is_some() {
            flags |= pull_flag::COMMIT_OFFSET;
        }
        PullRequest {
            consumer_group: self.group.into(),
            topic: self.queue.0.into(),
            queue_id: self.queue.1 as i32,
            queue_offset: self.offset,
            max_message_count: self.count,
            system_flag: flags,
            commit_offset: self.commit.unwrap_or_default(),
            suspend_timeout_ms: self.wait_ms as i64,
            subscription: Some("*".into()),
            expression_type: Some("TAG".into()),
            ..Default::default()
        }
    }
}

fn heartbeat(client: &str, group: &str, topics: &[&str]) -> Heartbeat {
    let wanted = |topic: &&str| SubscriptionData {
        topic: (*topic).to_owned(),
        sub_string: "*".to_owned(),
        ..SubscriptionData::default()
    };
    let consumer = ConsumerData {
        group_name: group.to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: "CONSUME_FROM_FIRST_OFFSET".to_owned(),
        subscription_data_set: topics.iter().map(wanted).collect(),
        unit_mode: false,
    };
    Heartbeat { client_id: client.to_owned(), consumers: vec![consumer], ..Heartbeat::default() }
}

pub(crate) fn put<'a>(
    out: &mut BytesMut,
    (code, opaque, flag, form): (i32, i32, i32, Form),
    header: &impl TypedHeader<'a>,
    body: &[u8],
) {
    let fixed = Header { code, language: Language::JAVA, version: 493, opaque, flag, remark: None };
    frame::encode(out, form, &fixed, |sink: &mut FieldSink<'_>| header.encode(sink), body);
}
