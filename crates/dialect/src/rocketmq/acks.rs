//! What consumers that pop say of messages: done, several done, or later again.
//!
//! A receipt names the grant; only what that grant still has is done by it. Whatever else it names, nothing happens: acknowledgements are
//! sent twice or late, which is no error.

use base::{QueueId, QueueOffset, Refusal};
use broker::lease::Grant;
use broker::{Broker, GrantName};
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::pop::batch_ack::{BatchAck, BatchAckRequest};
use wire::rocketmq::pop::header::{AckRequest, ChangeInvisibleTimeRequest};
use wire::rocketmq::pop::receipt::Receipt;

use super::answer::{Answer, bad_body, header};
use super::connection::Connection;
use super::pop::name_of_grant;
use super::queue::queue_of;
use super::readings::{Reading, Readings};

/// Messages that one acknowledgement of a batch names at most: a pop gives 32, of a stretch of the queue that may be longer.
const BATCH_COUNT_MAX: usize = 4096;

/// Bytes of a batch that is read.
const BATCH_SIZE_MAX: usize = 64 * 1024;

/// Settles a message.
pub(super) fn ack(connection: &mut Connection, command: &Command<'_>) -> Result<(), Answer> {
    let request: AckRequest<'_> = header(command)?;
    let Connection { broker, readings, .. } = connection;
    let reading = readings.find(&request.topic, &request.consumer_group, broker)?;
    let (queue, offset) = place_of(reading, request.queue_id, request.offset, broker)?;
    let receipt = read(&request.extra_info)?;
    if receipt.is_of(queue, offset, broker)
        && let Some(lane) = reading.lane(queue, broker)
    {
        lane.settle(receipt.name().owner(), [QueueOffset(offset)]);
    }
    Ok(())
}

/// Settles several. All that can be are; of those that cannot, the first is told of.
pub(super) fn ack_batch(connection: &mut Connection, command: &Command<'_>) -> Result<(), Answer> {
    if command.body.len() > BATCH_SIZE_MAX {
        let size = command.body.len();
        return Err(Refusal::BadRequest(format!(
            "the body has {size} bytes; send at most {BATCH_SIZE_MAX} of acknowledgements at once"
        ))
        .into());
    }
    let request = BatchAckRequest::decode(command.body).map_err(bad_body)?;
    if request.acks.is_empty() {
        return Err(no_message("the batch names no message".to_owned()));
    }
    let Connection { broker, readings, .. } = connection;
    let outcomes: Vec<_> = request.acks.iter().map(|ack| ack_some(ack, readings, broker)).collect();
    outcomes.into_iter().collect()
}

fn ack_some(ack: &BatchAck, readings: &mut Readings, broker: &Broker) -> Result<(), Answer> {
    if ack.bits.len() > BATCH_COUNT_MAX {
        let count = ack.bits.len();
        return Err(Refusal::BadRequest(format!(
            "an acknowledgement names {count} messages; no pop gives more than {BATCH_COUNT_MAX}"
        ))
        .into());
    }
    let stored = ack.origin.stored_topic(&ack.topic, &ack.consumer_group);
    let reading = readings.find(&stored, &ack.consumer_group, broker)?;
    let (queue, _) = place_of(reading, ack.queue_id, ack.start_offset, broker)?;
    let name = name_of(ack.pop_timestamp, ack.revive_queue_id);
    if let Some(lane) = reading.lane(queue, broker) {
        let offsets = ack.offsets().filter_map(|offset| u64::try_from(offset).ok());
        lane.settle(name.owner(), offsets.map(QueueOffset));
    }
    Ok(())
}

/// Has a message stay with its consumer for another time from now on; the answer has the parts of its new receipt.
pub(super) fn change(connection: &mut Connection, command: &Command<'_>) -> Result<Answer, Answer> {
    let request: ChangeInvisibleTimeRequest<'_> = header(command)?;
    let Connection { broker, readings, now, .. } = connection;
    let reading = readings.find(&request.topic, &request.consumer_group, broker)?;
    let (queue, offset) = place_of(reading, request.queue_id, request.offset, broker)?;
    let receipt = read(&request.extra_info)?;
    let invisible_ms = u64::try_from(request.invisible_ms).unwrap_or_default();
    let name = name_of_grant(receipt.0.is_in_order(), broker, *now);
    let grant = Grant { owner: name.owner(), deadline: Some(now.monotonic.plus_ms(invisible_ms)) };
    let lane = if receipt.is_of(queue, offset, broker) { reading.lane(queue, broker) } else { None };
    let is_held = lane.is_some_and(|lane| lane.renew(receipt.name().owner(), QueueOffset(offset), grant));
    if !is_held {
        return Err(no_message(format!(
            "message {offset} of queue {} in topic [{}] is not held by this receipt: it was acknowledged, or its time was over",
            queue.0, request.topic
        )));
    }
    Ok(Answer::ok().field("popTime", name.time_ms).field("invisibleTime", invisible_ms).field("reviveQid", name.number))
}

/// A receipt that was read.
struct Held<'a>(Receipt<'a>);

impl Held<'_> {
    fn name(&self) -> GrantName {
        name_of(self.0.pop_timestamp, self.0.revive_queue_id)
    }

    /// Whether it is this broker's, of this message.
    fn is_of(&self, queue: QueueId, offset: u64, broker: &Broker) -> bool {
        let Receipt { broker_name, queue_id, message_offset, .. } = self.0;
        broker_name == broker.options().broker_name
            && u32::try_from(queue_id) == Ok(queue.0)
            && message_offset.is_none_or(|known| u64::try_from(known) == Ok(offset))
    }
}

fn read(text: &str) -> Result<Held<'_>, Answer> {
    Receipt::parse(text).map(Held).map_err(|error| Refusal::BadRequest(error.to_string()).into())
}

/// The grant that a receipt names. Numbers that none has are made one that has nothing.
fn name_of(time_ms: i64, number: i32) -> GrantName {
    GrantName { time_ms: u64::try_from(time_ms).unwrap_or_default(), number: u32::try_from(number).unwrap_or_default() }
}

/// A place that the topic has.
fn place_of(reading: &mut Reading, queue_id: i32, offset: i64, broker: &Broker) -> Result<(QueueId, u64), Answer> {
    let topic = reading.topic(broker)?;
    let queue = queue_of(&topic, queue_id).map_err(|refusal| Answer {
        code: response::MESSAGE_ILLEGAL,
        remark: Some(refusal.to_string()),
        ..Answer::default()
    })?;
    let (first, end) = topic.queue(queue).map_or((0, 0), |queue| (queue.first().0, queue.end().0));
    match u64::try_from(offset) {
        Ok(offset) if offset < end => Ok((queue, offset)),
        _ => Err(no_message(format!(
            "offset {offset} is not in queue {} of topic [{}], which has {first} to {end}",
            queue.0, topic.name
        ))),
    }
}

fn no_message(remark: String) -> Answer {
    Answer { code: response::NO_MESSAGE, remark: Some(remark), ..Answer::default() }
}
