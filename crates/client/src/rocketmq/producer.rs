//! Stores messages in a topic: each queue gets its messages in order, in batches, of which one is under way at a time.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::limits::{FRAME_HEADER_SIZE_MAX, FRAME_SIZE_MAX};
use bytes::BytesMut;
use format::batch_body::BatchItem;
use format::properties::{NAME_END, VALUE_END, append, names};
use serde_json::Value;
use wire::rocketmq::code::request::{SEND_BATCH_MESSAGE, SEND_MESSAGE_V2};
use wire::rocketmq::code::response::{FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE, SUCCESS};
use wire::rocketmq::header::SendRequest;

use crate::error::ClientError;
use crate::message::{Message, NotStored, Store};
use crate::rocketmq::peer::{Heard, Peer, wait};
use crate::rocketmq::pulled::is_own_property;
use crate::rocketmq::route::{Access, TEMPLATE_QUEUES, TEMPLATE_TOPIC};
use crate::rocketmq::topic::{Directory, QueueName, chosen};
use crate::rocketmq::unique_key::{Stamp, prefix};

const PRODUCER_GROUP: &str = "sluice_producer";
/// How long a broker may be silent while something is under way.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a name server may take to hear of a new topic, and how often it is asked.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Messages of a batch, and bytes of their bodies and properties: well below what brokers take by default (4 MiB).
const BATCH_COUNT_MAX: usize = 1000;
const BATCH_SIZE_MAX: usize = 1 << 20;

/// How messages are stored.
#[derive(Clone, Debug, Default)]
pub struct ProduceOptions {
    /// The queue all go to; otherwise each in turn.
    pub queue: Option<QueueName>,
    /// Held back for as long as this delay level says.
    pub delay_level: Option<u32>,
    /// A first message makes the topic, if the broker lets it.
    pub may_create: bool,
}

/// A producer to one topic.
#[derive(Debug)]
pub struct Producer {
    topic: String,
    peers: Vec<Peer>,
    lanes: Vec<Lane>,
    /// The lane the next message goes to.
    turn: usize,
    delay_level: Option<u32>,
    id_prefix: String,
    stamp: Stamp,
    is_at_risk: bool,
    /// Who is to hear of the topic, if it is made here, and whether it is by now.
    told: Option<Directory>,
    has_stored: bool,
}

/// A queue, and what is to be stored in it.
#[derive(Debug)]
struct Lane {
    peer: usize,
    queue: u32,
    waiting: VecDeque<Parcel>,
    under_way: Option<(i32, Parcel)>,
}

/// Messages that go in one request, by their places among those that were given.
#[derive(Debug, Default)]
struct Parcel {
    indexes: Vec<usize>,
    size: usize,
}

impl Producer {
    /// Connects to the brokers that have `topic`.
    pub fn open(mut directory: Directory, topic: &str, options: &ProduceOptions) -> Result<Self, ClientError> {
        let found = directory.find(topic, Access::Write)?;
        let is_new = found.is_none();
        let brokers = match found {
            Some(brokers) => brokers,
            None if options.may_create => directory.find_template()?,
            None => return Err(directory.unknown(topic, true)),
        };
        if brokers.is_empty() {
            let problem =
                format!("no broker takes messages for topic {topic:?}: it is read-only, or its masters are away");
            return Err(ClientError::Unsendable { what: "a message".to_owned(), problem });
        }
        let queues = chosen(topic, &brokers, options.queue.as_ref())?;
        let peers = brokers.iter().map(|broker| Peer::open(&broker.address)).collect::<Result<_, _>>()?;
        let lane = |(peer, queue)| Lane { peer, queue, waiting: VecDeque::new(), under_way: None };
        let started = wall_ms();
        Ok(Self {
            topic: topic.to_owned(),
            peers,
            lanes: queues.into_iter().map(lane).collect(),
            turn: 0,
            delay_level: options.delay_level,
            id_prefix: prefix(std::process::id(), 0, started),
            stamp: Stamp::new(started),
            is_at_risk: false,
            told: is_new.then_some(directory),
            has_stored: false,
        })
    }

    /// The property block of a message.
    fn properties(&mut self, message: &Message) -> Result<Vec<u8>, ClientError> {
        let mut block = Vec::new();
        let tail = self.stamp.next_tail();
        append(&mut block, names::UNIQUE_KEY, &format!("{}{}", self.id_prefix, String::from_utf8_lossy(tail)));
        append(&mut block, names::WAIT, "true");
        let own = [("key", names::KEYS, &message.key), ("tag", names::TAGS, &message.tag)];
        for (what, name, value) in
            own.into_iter().filter_map(|(what, name, value)| Some((what, name, value.as_deref()?)))
        {
            put(&mut block, name, value, what)?;
        }
        if let Some(level) = self.delay_level {
            append(&mut block, names::DELAY, &level.to_string());
        }
        for (name, value) in &message.headers {
            if is_own_property(name) {
                let problem = "the name is RocketMQ's own; --key, --tag and --delay set what may be set".to_owned();
                return Err(ClientError::Unsendable { what: format!("header {name:?}"), problem });
            }
            match value {
                Value::String(text) => put(&mut block, name, text, name)?,
                other => put(&mut block, name, &other.to_string(), name)?,
            }
        }
        Ok(block)
    }

    /// Deals messages to the queues, up to the first that cannot be sent: gives its place, and why.
    fn deal(&mut self, messages: &[Message], blocks: &mut Vec<Vec<u8>>) -> Option<(usize, ClientError)> {
        for (index, message) in messages.iter().enumerate() {
            let block = check_size(message).and_then(|()| self.properties(message));
            match block {
                Ok(block) => blocks.push(block),
                Err(why) => return Some((index, why)),
            }
            let size = message.body.len() + blocks.last().map_or(0, Vec::len);
            let turn = self.turn % self.lanes.len().max(1);
            self.turn = turn + 1;
            let is_batched = self.delay_level.is_none();
            if let Some(lane) = self.lanes.get_mut(turn) {
                lane.add(index, size, is_batched);
            }
        }
        None
    }

    /// Has the next parcel of every idle queue sent; tells whether something is under way.
    fn post(&mut self, messages: &[Message], blocks: &[Vec<u8>]) -> bool {
        let Self { lanes, peers, topic, .. } = self;
        for lane in lanes.iter_mut().filter(|lane| lane.under_way.is_none()) {
            let (Some(parcel), Some(peer)) = (lane.waiting.pop_front(), peers.get_mut(lane.peer)) else { continue };
            let opaque = post(peer, (topic, lane.queue), &parcel, messages, blocks);
            lane.under_way = Some((opaque, parcel));
        }
        self.lanes.iter().any(|lane| lane.under_way.is_some())
    }

    /// Takes in what has come; gives how many messages were stored, and the first that was refused.
    fn hear(&mut self, outcome: &mut Outcome) -> Result<bool, (usize, ClientError)> {
        let Self { lanes, peers, is_at_risk, .. } = self;
        let mut has_news = false;
        for (number, peer) in peers.iter_mut().enumerate() {
            let address = peer.address().to_owned();
            while let Some(heard) = peer.hear().map_err(|error| (number, error))? {
                has_news = true;
                let Heard::Answer(opaque, command) = heard else { continue };
                let is_its =
                    |lane: &Lane| lane.peer == number && lane.under_way.as_ref().is_some_and(|it| it.0 == opaque);
                let Some(lane) = lanes.iter_mut().find(|lane| is_its(lane)) else { continue };
                let Some((_, parcel)) = lane.under_way.take() else { continue };
                let code = command.header.code;
                *is_at_risk |= code != SUCCESS && is_stored(code);
                if is_stored(code) {
                    outcome.stored += parcel.indexes.len();
                } else if let [index] = *parcel.indexes {
                    let remark = command.header.remark.as_deref().unwrap_or_default().to_owned();
                    outcome.fail(
                        index,
                        ClientError::Refused { request: SEND_MESSAGE_V2, address: address.clone(), code, remark },
                    );
                } else {
                    // It was refused as a whole: one after the other shows which of them that was for.
                    for index in parcel.indexes.into_iter().rev() {
                        lane.waiting.push_front(Parcel { indexes: vec![index], size: 0 });
                    }
                }
            }
        }
        Ok(has_news)
    }

    /// Forgets what was not sent yet.
    fn forget(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.waiting.clear());
    }

    /// Gives up on what is under way at one broker, or at all of them.
    fn give_up(&mut self, peer: Option<usize>) -> Option<usize> {
        let lanes = self.lanes.iter_mut().filter(|lane| peer.is_none_or(|peer| peer == lane.peer));
        lanes.filter_map(|lane| lane.under_way.take()?.1.indexes.first().copied()).min()
    }
}

/// What became of messages so far.
#[derive(Debug, Default)]
struct Outcome {
    stored: usize,
    failed: Option<(usize, ClientError)>,
}

impl Outcome {
    fn fail(&mut self, index: usize, why: ClientError) {
        if self.failed.as_ref().is_none_or(|(first, _)| index < *first) {
            self.failed = Some((index, why));
        }
    }
}

/// Whether a frame has room for a message. What a broker takes is less, and it says so itself.
fn check_size(message: &Message) -> Result<(), ClientError> {
    let size = message.body.len();
    if size <= FRAME_SIZE_MAX - FRAME_HEADER_SIZE_MAX {
        return Ok(());
    }
    let problem = format!(
        "a frame of RocketMQ's protocol has {FRAME_SIZE_MAX} bytes at most, and brokers take 4 MiB unless told otherwise"
    );
    Err(ClientError::Unsendable { what: format!("a body of {size} bytes"), problem })
}

impl Store for Producer {
    fn store(&mut self, messages: &[Message]) -> Result<(), NotStored> {
        self.stamp.set_wall_time(wall_ms());
        let (mut blocks, mut outcome) = (Vec::with_capacity(messages.len()), Outcome::default());
        let unsendable = self.deal(messages, &mut blocks);
        let mut silent_since = Instant::now();
        while self.post(messages, &blocks) {
            let until = Instant::now() + Duration::from_millis(100);
            let heard = wait(&mut self.peers, until).map_err(|error| (None, error));
            let heard = heard.and_then(|()| self.hear(&mut outcome).map_err(|(peer, error)| (Some(peer), error)));
            match heard {
                Ok(true) => silent_since = Instant::now(),
                Ok(false) if silent_since.elapsed() >= SILENCE_MAX => {
                    let address = self.peers.first().map_or("", Peer::address).to_owned();
                    if let Some(index) = self.give_up(None) {
                        outcome.fail(index, ClientError::Lost { address, problem: "no answer in time".to_owned() });
                    }
                }
                Ok(false) => {}
                Err((peer, error)) => {
                    let index = self.give_up(peer).unwrap_or_default();
                    outcome.fail(index, error);
                    // A connection that is gone answers nothing more.
                    if let Some(broken) = peer.and_then(|peer| self.peers.get_mut(peer)) {
                        broken.link().end();
                    }
                }
            }
            if outcome.failed.is_some() {
                self.forget();
            }
        }
        self.has_stored |= outcome.stored > 0;
        if let Some((index, why)) = unsendable {
            outcome.fail(index, why);
        }
        match outcome.failed {
            None => Ok(()),
            Some((index, why)) => Err(NotStored { stored: outcome.stored, index: Some(index), why }),
        }
    }

    fn remark(&mut self) -> Option<String> {
        let remark = "stored, but not as safe as promised: a sync took too long, or too few replicas have it";
        std::mem::take(&mut self.is_at_risk).then(|| remark.to_owned())
    }

    /// Whoever asks for a topic that was made here finds it then.
    fn close(mut self: Box<Self>) -> Result<(), ClientError> {
        let deadline = Instant::now() + KNOWN_WITHIN;
        if let Some(directory) = self.told.as_mut().filter(|_| self.has_stored) {
            while directory.find(&self.topic, Access::Read)?.is_none() && Instant::now() < deadline {
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
        Ok(())
    }
}

impl Lane {
    fn add(&mut self, index: usize, size: usize, is_batched: bool) {
        let has_room = |parcel: &&mut Parcel| {
            is_batched && parcel.indexes.len() < BATCH_COUNT_MAX && parcel.size + size <= BATCH_SIZE_MAX
        };
        if let Some(parcel) = self.waiting.back_mut().filter(has_room) {
            parcel.indexes.push(index);
            parcel.size += size;
        } else {
            self.waiting.push_back(Parcel { indexes: vec![index], size });
        }
    }
}

/// Whether that answer to a send means that the message is in the log.
const fn is_stored(code: i32) -> bool {
    matches!(code, SUCCESS | FLUSH_DISK_TIMEOUT | SLAVE_NOT_AVAILABLE | FLUSH_SLAVE_TIMEOUT)
}

fn put(block: &mut Vec<u8>, name: &str, value: &str, what: &str) -> Result<(), ClientError> {
    let unsendable =
        |problem: &str| Err(ClientError::Unsendable { what: format!("{what} {value:?}"), problem: problem.to_owned() });
    if name.is_empty() || value.is_empty() {
        return unsendable("RocketMQ has no properties with an empty name or value");
    }
    if name.bytes().chain(value.bytes()).any(|byte| byte == NAME_END || byte == VALUE_END) {
        return unsendable(
            "RocketMQ ends names and values of properties with the bytes 1 and 2, so none may be in them",
        );
    }
    append(block, name, value);
    Ok(())
}

fn post(peer: &mut Peer, queue: (&str, u32), parcel: &Parcel, messages: &[Message], blocks: &[Vec<u8>]) -> i32 {
    let born_ms = i64::try_from(wall_ms()).unwrap_or_default();
    let parts = |index: usize| Some((messages.get(index)?, blocks.get(index)?));
    if let [index] = *parcel.indexes
        && let Some((message, block)) = parts(index)
    {
        let properties = String::from_utf8_lossy(block);
        return peer.post(SEND_MESSAGE_V2, &send_request(queue, born_ms, &properties), &message.body);
    }
    let mut body = BytesMut::with_capacity(parcel.size + 32 * parcel.indexes.len());
    for (message, properties) in parcel.indexes.iter().filter_map(|index| parts(*index)) {
        BatchItem { flag: 0, body: &message.body, properties }.encode(&mut body);
    }
    let mut wait = Vec::new();
    append(&mut wait, names::WAIT, "true");
    let properties = String::from_utf8_lossy(&wait);
    let request = SendRequest { batch: Some(true), ..send_request(queue, born_ms, &properties) };
    peer.post(SEND_BATCH_MESSAGE, &request, &body)
}

/// A send of one message to one queue.
pub fn send_request<'a>((topic, queue): (&'a str, u32), born_ms: i64, properties: &'a str) -> SendRequest<'a> {
    SendRequest {
        producer_group: PRODUCER_GROUP.into(),
        topic: Cow::Borrowed(topic),
        default_topic: TEMPLATE_TOPIC.into(),
        default_topic_queue_nums: TEMPLATE_QUEUES as i32,
        queue_id: i32::try_from(queue).unwrap_or(i32::MAX),
        born_timestamp: born_ms,
        properties: Some(properties.into()),
        reconsume_times: Some(0),
        unit_mode: Some(false),
        batch: Some(false),
        ..SendRequest::default()
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
