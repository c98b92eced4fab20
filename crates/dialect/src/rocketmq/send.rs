//! Sends: single and batch, of every kind of header; their replies leave when the watermarks they wait for have passed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use base::limits::{BATCH_RECORDS_SIZE_MAX, PUBLISH_BATCH_SIZE_MAX};
use base::{GroupName, Monotonic, Now, QueueId, Refusal, Timestamp};
use broker::{Added, Broker, Message, Position, PublishBatch, Published, Standing, Topic, Wait};
use bytes::BytesMut;
use format::batch_body::{self, BatchItem};
use format::properties::{self, names};
use format::record::{OffsetMessageId, offset_message_id};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command};
use wire::rocketmq::header::{SendRequest, SendRequestV1};

use super::answer::{Asked, bad_body, header, response_header};
use super::connection::Connection;
use super::error::code_of;

/// Bytes a connection keeps for the ids of its next pass's messages: several hundred of the usual ones.
const SPARE_SIZE_MAX: usize = 16 * 1024;

/// Sends of one pass over the readable bytes.
#[derive(Default)]
pub(super) struct SendPass {
    batch: Option<PublishBatch>,
    sends: Vec<StagedSend>,
    unique_keys: Vec<u8>,
    /// Bytes its records will take, roughly.
    expected_size: usize,
    /// Sends are held: earlier ones are, or the log is behind.
    pub(super) is_held: bool,
}

impl SendPass {
    /// A pass over `size` bytes of frames.
    pub(super) fn over(size: usize, is_held: bool) -> Self {
        // A record takes about as much as the frame it came in.
        Self { expected_size: size.min(PUBLISH_BATCH_SIZE_MAX) * 9 / 8, is_held, ..Self::default() }
    }

    pub(super) fn size(&self) -> usize {
        self.batch.as_ref().map_or(0, PublishBatch::size)
    }
}

/// One send of a pass: its request, and which of the pass's messages are its own.
#[derive(Debug)]
struct StagedSend {
    asked: Asked,
    first: usize,
    count: usize,
    queue: QueueId,
    /// Where the id its producer gave it lies among the pass's.
    unique_key: Range<usize>,
}

/// Sends that wait for watermarks.
struct WaitingSends {
    published: Published,
    wait: Wait,
    sends: Vec<StagedSend>,
    unique_keys: Vec<u8>,
    /// When they came.
    received: Monotonic,
}

/// The sends of one connection.
#[derive(Default)]
pub(super) struct Sends {
    /// Those whose watermarks have not passed yet, in the order of the log.
    waiting: VecDeque<WaitingSends>,
    /// The topic last sent to, and the catalog's generation it is of.
    last_topic: Option<(u64, Arc<Topic>)>,
    /// Room for the ids of the next pass's messages.
    spare_unique_keys: Vec<u8>,
}

impl Sends {
    /// Takes a request into the pass.
    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        asked: Asked,
        pass: &mut SendPass,
        connection: &mut Connection,
    ) {
        if let Err(refusal) = self.stage(command, asked, pass, connection) {
            connection.broker.metrics().publish_refused.add(1);
            connection.refuse(asked, &refusal);
        }
    }

    fn stage(
        &mut self,
        command: &Command<'_>,
        asked: Asked,
        pass: &mut SendPass,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        let send: SendRequest<'_> = match command.header.code {
            request::SEND_MESSAGE => header::<SendRequestV1<'_>>(command)?.into(),
            _ => header(command)?,
        };
        let Connection { broker, now, .. } = connection;
        let topic = self.topic_of(&send, broker, *now)?;
        let is_batch = command.header.code == request::SEND_BATCH_MESSAGE || send.batch == Some(true);
        if is_batch && topic.name.retried_group().is_some() {
            return Err(Refusal::BadMessage("batch request does not support retry group".to_owned()));
        }
        let properties = send.properties.as_deref().unwrap_or_default().as_bytes();
        let mut message = Message {
            queue: u32::try_from(send.queue_id).ok().map(QueueId),
            body: command.body,
            properties,
            flag: send.flag,
            system_flag: send.system_flag,
            born_timestamp: Timestamp(u64::try_from(send.born_timestamp).unwrap_or_default()),
            born_host: connection.peer.address,
            delivery_count: send.reconsume_times.unwrap_or_default(),
        };
        let without_delay;
        let topic = match dead_letter_topic_if_spent(&send, &topic, broker, *now)? {
            Some(dead_letters) => {
                // Queue and delay were meant for the retry topic.
                without_delay = properties::without(properties, &[names::DELAY]);
                (message.queue, message.properties) = (None, &without_delay);
                dead_letters
            }
            None => topic,
        };
        if pass.batch.is_none() {
            pass.unique_keys = std::mem::take(&mut self.spare_unique_keys);
        }
        let open = pass.batch.get_or_insert_with(|| broker.publisher.begin_batch(pass.expected_size, *now));
        let first = open.len();
        let added = if is_batch {
            stage_batch(broker, open, &topic, &message)?
        } else {
            broker.publisher.add(open, &topic, &message)?
        };
        let unique_key = pass.unique_keys.len()..pass.unique_keys.len() + added.unique_key.len();
        pass.unique_keys.extend_from_slice(added.unique_key);
        pass.sends.push(StagedSend { asked, first, count: open.len() - first, queue: added.queue, unique_key });
        Ok(())
    }

    /// The topic of a send. Connections mostly send to one topic: its name is looked up once.
    fn topic_of(&mut self, send: &SendRequest<'_>, broker: &Broker, now: Now) -> Result<Arc<Topic>, Refusal> {
        let generation = broker.catalog.generation();
        if let Some((known, topic)) = &self.last_topic
            && *known == generation
            && topic.name.as_str() == send.topic
        {
            return Ok(topic.clone());
        }
        let queues = u32::try_from(send.default_topic_queue_nums).unwrap_or_default();
        let topic = broker.catalog.topic_for_publish(&send.topic, &send.default_topic, queues, now)?;
        // Of before it was looked up: who removed it meanwhile is seen with the next send. One that was made here is looked up once more.
        self.last_topic = Some((generation, topic.clone()));
        Ok(topic)
    }

    /// Appends what the pass has gathered; the replies wait for their watermarks.
    pub(super) fn end_pass(&mut self, pass: &mut SendPass, connection: &mut Connection) {
        let sends = std::mem::take(&mut pass.sends);
        let unique_keys = std::mem::take(&mut pass.unique_keys);
        let Some(gathered) = pass.batch.take().filter(|gathered| !gathered.is_empty()) else {
            return;
        };
        let ack_policy = gathered.ack_policy();
        let now = connection.now;
        match connection.broker.publisher.append(gathered, now) {
            Ok(published) => {
                let (options, received) = (&connection.options, now.monotonic);
                let replicas_until = received.plus_ms(options.replica_timeout_ms);
                let sync_until = Some(received.plus_ms(options.flush_timeout_ms));
                let wait = Wait::new(ack_policy, published.end(), replicas_until, sync_until);
                self.waiting.push_back(WaitingSends { published, wait, sends, unique_keys, received });
                self.release(connection);
            }
            Err(refusal) => sends.iter().for_each(|send| connection.refuse(send.asked, &refusal)),
        }
    }

    /// Answers sends whose watermarks have passed, whose time is up, or which will never be kept. A message that does not wait for the sync may
    /// overtake one that does.
    pub(super) fn release(&mut self, connection: &mut Connection) {
        let mut at = 0;
        while let Some(waiting) = self.waiting.get_mut(at) {
            let Connection { broker, peer, now, .. } = &*connection;
            match waiting.wait.look(&broker.durability, now.monotonic, || peer.mailbox.waker()) {
                Standing::Kept => self.answer_sent(at, None, connection),
                Standing::Lacks(lack) => self.answer_sent(at, Some(&lack), connection),
                Standing::Lost(refusal) => self.answer_refused(at, &refusal, connection),
                Standing::Waits => at += 1,
            }
        }
    }

    fn answer_refused(&mut self, at: usize, refusal: &Refusal, connection: &mut Connection) {
        if let Some(waiting) = self.waiting.remove(at) {
            waiting.sends.iter().for_each(|send| connection.refuse(send.asked, refusal));
        }
    }

    /// Tells producers where their messages are, and what these still lack.
    fn answer_sent(&mut self, at: usize, lack: Option<&Refusal>, connection: &mut Connection) {
        let Some(mut waiting) = self.waiting.remove(at) else { return };
        let Connection { broker, now, output, scratch, .. } = connection;
        broker.note_put_time(now.monotonic.ms_since(waiting.received), waiting.published.count() as u64);
        for send in waiting.sends.iter().filter(|send| !send.asked.one_way) {
            let positions = waiting.published.positions(send.first..send.first + send.count);
            let unique_key = waiting.unique_keys.get(send.unique_key.clone()).unwrap_or_default();
            encode_sent(scratch, send, positions, unique_key, lack, broker.options());
        }
        // The next pass's go into the same bytes.
        if waiting.unique_keys.capacity() <= SPARE_SIZE_MAX {
            waiting.unique_keys.clear();
            self.spare_unique_keys = waiting.unique_keys;
        }
        output.push(scratch.split().freeze());
    }

    /// When they are to be released though nothing has woken the session.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waiting.iter().filter_map(|sends| sends.wait.deadline()).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A client that retries by itself sends to the retry topic, with the number of the try that follows; once its tries are spent, the
/// message is a dead letter. One that consumes in order tries at its own place and sends only what is spent.
fn dead_letter_topic_if_spent(
    send: &SendRequest<'_>,
    topic: &Topic,
    broker: &Broker,
    now: Now,
) -> Result<Option<Arc<Topic>>, Refusal> {
    let Some(group) = topic.name.retried_group() else { return Ok(None) };
    let settings = broker.catalog.group_for_use(&GroupName::checked(group)?, now)?;
    let tries_max = send.max_reconsume_times.filter(|&times| times >= 0).unwrap_or(settings.retry_max_times);
    if send.reconsume_times.unwrap_or_default() <= tries_max && !broker.locks.is_consumed_in_order(group, now) {
        return Ok(None);
    }
    broker.metrics().dead_letters.add(1);
    broker.catalog.dead_letter_topic(group, now).map(Some)
}

fn stage_batch<'a>(
    broker: &Broker,
    batch: &mut PublishBatch,
    topic: &Topic,
    whole: &Message<'a>,
) -> Result<Added<'a>, Refusal> {
    if whole.body.len() > broker.running.message_size_max() {
        return Err(Refusal::BadMessage(format!(
            "the batch has {} bytes; at most {} are allowed (message.size_max)",
            whole.body.len(),
            broker.running.message_size_max()
        )));
    }
    let items: Vec<_> = batch_body::items(whole.body).collect::<Result<_, _>>().map_err(bad_body)?;
    if items.is_empty() {
        return Err(Refusal::BadMessage("the batch has no messages".to_owned()));
    }
    if properties::find(whole.properties, names::DELAY).is_some()
        || items.iter().any(|item| properties::find(item.properties, names::DELAY).is_some())
    {
        return Err(Refusal::BadMessage("delayed messages cannot be sent in a batch".to_owned()));
    }
    let queue = match whole.queue {
        Some(queue) => queue,
        None => QueueId((broker.random() % u64::from(topic.settings.write_queue_nums.max(1))) as u32),
    };
    let common = properties::without(whole.properties, &[]);
    check_batch_size(broker, topic, &Message { properties: &common, ..whole.clone() }, &items)?;
    let first = batch.len();
    let mut block = Vec::new();
    for item in &items {
        block.clear();
        block.extend_from_slice(item.properties);
        properties::append_all(&mut block, &common);
        let message =
            Message { queue: Some(queue), body: item.body, properties: &block, flag: item.flag, ..whole.clone() };
        if let Err(refusal) = broker.publisher.add(batch, topic, &message) {
            // All or nothing.
            batch.truncate(first);
            return Err(refusal);
        }
    }
    // Its messages have ids of their own; its frame mostly has none.
    let unique_key = properties::find(whole.properties, names::UNIQUE_KEY).unwrap_or_default();
    Ok(Added { queue, unique_key: unique_key.as_bytes() })
}

/// Each item becomes a record with the frame's properties behind its own, which may be many times what came.
fn check_batch_size(
    broker: &Broker,
    topic: &Topic,
    whole: &Message<'_>,
    items: &[BatchItem<'_>],
) -> Result<(), Refusal> {
    let each = broker.publisher.record_size(topic, &Message { body: &[], ..whole.clone() });
    let own: usize = items.iter().map(|item| item.body.len() + item.properties.len()).sum();
    let size = items.len() * each + own;
    if size <= BATCH_RECORDS_SIZE_MAX {
        return Ok(());
    }
    Err(Refusal::BadMessage(format!(
        "the batch's {} messages take {size} bytes as they are stored, {each} of them for each message besides its own body and properties; at most {BATCH_RECORDS_SIZE_MAX} are allowed: send fewer at once",
        items.len()
    )))
}

fn encode_sent(
    out: &mut BytesMut,
    send: &StagedSend,
    positions: impl ExactSizeIterator<Item = Position> + Clone,
    unique_key: &[u8],
    lack: Option<&Refusal>,
    options: &broker::Options,
) {
    let Some(first) = positions.clone().next() else { return };
    let remark = lack.map(Refusal::to_string);
    let code = lack.map_or(response::SUCCESS, code_of);
    let header = response_header(send.asked.opaque, code, remark.as_deref());
    let id = |position: Position| offset_message_id(options.store_host, position.log_offset);
    let fields = |sink: &mut FieldSink<'_>| {
        if positions.len() == 1 {
            sink.text("msgId", id(first).as_str());
        } else {
            let ids: Vec<OffsetMessageId> = positions.map(id).collect();
            sink.text("msgId", &ids.iter().map(OffsetMessageId::as_str).collect::<Vec<_>>().join(","));
        }
        sink.number("queueId", i64::from(send.queue.0));
        sink.number("queueOffset", first.queue_offset.0 as i64);
        if let Ok(id) = std::str::from_utf8(unique_key)
            && !id.is_empty()
        {
            sink.text("transactionId", id);
        }
        sink.text("MSG_REGION", &options.region);
        sink.boolean("TRACE_ON", options.trace_on);
    };
    frame::encode(out, send.asked.form, &header, fields, &[]);
}
