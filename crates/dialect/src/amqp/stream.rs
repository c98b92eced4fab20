//! Consumers of streams: each reads by an offset of its own, as fast as it acknowledges, and takes nothing away.
//!
//! Source: RabbitMQ's documentation of streams. Here filters are exact: what has another value is not delivered at all.

use std::sync::Arc;

use base::{QueueOffset, Refusal, Timestamp};
use broker::{MessageQueue, Shown, StreamPlace, StreamRead, Waiter};
use format::model::Text;
use format::routed::Routed;
use wire::amqp::argument::ShortString;
use wire::amqp::content::ContentHeader;
use wire::amqp::method::basic::{Consume, Deliver};
use wire::amqp::table::{Table, Value};

use super::arguments::age_ms;
use super::channel::Channel;
use super::consume::{COUNT_MAX, Look};
use super::error::Fault;
use super::headers::with_headers;
use super::link::{Done, Link, READ_SIZE_MAX};
use super::methods::Core;
use super::session::AmqpSession;
use super::unacked::Delivered;
use crate::jobs::Begun;

/// Header of deliveries, and argument of consumers: an offset.
const OFFSET: &str = "x-stream-offset";

/// How soon a stream is read again that could not be read, ms.
const UNREAD_LOOK_MS: u64 = 1000;

/// Header of messages: what they are filtered by.
const FILTER_VALUE: &str = "x-stream-filter-value";

/// How a consumer reads a stream.
pub(super) struct StreamReader {
    /// From where it goes on.
    place: StreamPlace,
    filter: Option<Filter>,
    /// Where it waits.
    waiter: Option<Waiter>,
}

/// Which messages are wanted.
struct Filter {
    values: Vec<Text>,
    /// Whether those without a value are, too.
    with_others: bool,
}

/// What a job reads for a consumer.
pub(super) struct Asked {
    pub(super) channel: u16,
    pub(super) serial: u64,
    pub(super) consumer: u64,
    /// Messages that its channel counts as given meanwhile.
    pub(super) promised: u32,
    queue: Arc<MessageQueue>,
    place: StreamPlace,
    count_max: usize,
}

/// Messages that a job has read.
pub(super) struct Streamed {
    pub(super) asked: Asked,
    result: Result<StreamRead, Refusal>,
}

/// Refuses what no stream can be asked for.
pub(super) fn check_is_none(queue: &MessageQueue, what: &str) -> Result<(), Fault> {
    if !queue.is_stream() {
        return Ok(());
    }
    let (name, host) = (Shown(queue.name()), queue.host());
    Err(Fault::not_implemented(format!(
        "{what} is not supported by queue '{name}' in vhost '{host}', which is a stream"
    )))
}

impl StreamReader {
    /// How a consumer reads its queue, if that is a stream.
    pub(super) fn of(
        queue: &MessageQueue,
        channel: &Channel,
        consume: &Consume<'_>,
        now: Timestamp,
    ) -> Result<Option<Self>, Fault> {
        if !queue.is_stream() {
            return Ok(None);
        }
        let shown = format!("queue '{}' in vhost '{}'", Shown(queue.name()), queue.host());
        if channel.shared_prefetch > 0 {
            return Err(Fault::not_implemented(format!("{shown} does not support global qos: it is a stream")));
        }
        if consume.no_ack {
            return Err(Fault::not_implemented(format!("{shown} does not support no_ack: it is a stream")));
        }
        if channel.prefetch == 0 {
            return Err(Fault::precondition(format!("consumer prefetch count is not set for {shown}")));
        }
        let place = place_of(consume.arguments.get(OFFSET), queue, now);
        let place = place.ok_or_else(|| {
            let wanted = "first, last, next, an offset, a time, or an age such as 1h";
            Fault::precondition(format!("invalid arg '{OFFSET}' for {shown}: it must be {wanted}"))
        })?;
        Ok(Some(Self { place, filter: Filter::of(consume.arguments, &shown)?, waiter: None }))
    }

    /// Bytes of what it looks for.
    pub(super) fn size(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.values.iter().map(|value| size_of::<Text>() + value.len()).sum())
    }
}

/// Where a consumer begins.
fn place_of(wanted: Option<Value<'_>>, queue: &MessageQueue, now: Timestamp) -> Option<StreamPlace> {
    let bounds = queue.stream_bounds();
    let place = match wanted {
        None | Some(Value::LongString(b"next")) => StreamPlace::At(bounds.end),
        Some(Value::LongString(b"first")) => StreamPlace::At(bounds.start),
        Some(Value::LongString(b"last")) => {
            StreamPlace::At(QueueOffset(bounds.end.0.saturating_sub(1)).max(bounds.start))
        }
        Some(Value::LongString(age)) => StreamPlace::Since(Timestamp(now.0.saturating_sub(age_ms(age)?))),
        Some(Value::Timestamp(seconds)) => StreamPlace::Since(Timestamp(seconds.saturating_mul(1000))),
        Some(value) => {
            let offset = QueueOffset(u64::try_from(value.integer()?).ok()?);
            StreamPlace::At(offset.clamp(bounds.start, bounds.end))
        }
    };
    Some(place)
}

impl Filter {
    fn of(arguments: Table<'_>, shown: &str) -> Result<Option<Self>, Fault> {
        let bad = |name: &str, wanted: &str| Fault::precondition(format!("invalid arg '{name}' for {shown}: {wanted}"));
        let with_others = match arguments.get("x-stream-match-unfiltered") {
            None => false,
            Some(Value::Bool(with_others)) => with_others,
            Some(_) => return Err(bad("x-stream-match-unfiltered", "it must be a boolean")),
        };
        let text = |value: Value<'_>| match value {
            Value::LongString(text) => Some(Text::from(text)),
            _ => None,
        };
        let values = match arguments.get("x-stream-filter") {
            None => return Ok(None),
            Some(Value::Array(values)) => values.iter().map(text).collect(),
            Some(value) => text(value).map(|value| vec![value]),
        };
        let values = values.ok_or_else(|| bad("x-stream-filter", "it must be a string or an array of strings"))?;
        Ok(Some(Self { values, with_others }))
    }

    fn wants(&self, headers: Table<'_>) -> bool {
        match headers.get(FILTER_VALUE) {
            Some(Value::LongString(value)) => self.values.iter().any(|wanted| **wanted == *value),
            _ => self.with_others,
        }
    }
}

/// A message's header as it is delivered, with its offset; `None` if it is not wanted, or cannot be read.
fn header_of(header: &[u8], offset: QueueOffset, filter: Option<&Filter>) -> Option<Vec<u8>> {
    let properties = ContentHeader::decode(header).ok()?.properties;
    let headers = properties.headers.unwrap_or_default();
    if filter.is_some_and(|filter| !filter.wants(headers)) {
        return None;
    }
    Some(with_headers(header, properties, |table| {
        for (name, value) in headers.iter().filter(|(name, _)| name.bytes() != OFFSET.as_bytes()) {
            table.put_bytes(name.bytes(), value);
        }
        table.put(OFFSET, Value::I64(offset.0 as i64));
    }))
}

/// Gives a consumer what there is for it, or has it told when there is something.
pub(super) fn look(channel: &mut Channel, number: u64, link: &mut Link) -> Look {
    let room = link.budget.room();
    let (of_channel, channel_number, serial) = (channel.credit(room), channel.number, channel.serial);
    let Some(consumer) = channel.consumers.get(number) else { return Look::Waits };
    let (credit, queue) = (consumer.credit(of_channel), consumer.queue.clone());
    consumer.is_stalled = credit == 0;
    let Some(reader) = &mut consumer.stream else { return Look::Waits };
    reader.waiter = None;
    if credit == 0 {
        if of_channel == 0 {
            channel.hold_back(room, link);
        }
        return Look::Waits;
    }
    // A filter may let few through.
    let count = if reader.filter.is_some() { COUNT_MAX } else { credit };
    let (place, count_max) = (reader.place, count as usize);
    if let Some(read) = link.broker.model.read_stream_cached(&queue, place, (count_max, READ_SIZE_MAX)) {
        return deliver(channel, number, &read, link);
    }
    consumer.is_reading = true;
    channel.given += credit;
    let asked = Asked { channel: channel_number, serial, consumer: number, promised: credit, queue, place, count_max };
    read(asked, READ_SIZE_MAX, link);
    Look::Waits
}

/// Has messages read by a job, none of them longer than `room` bytes.
fn read(asked: Asked, room: usize, link: &mut Link) {
    let broker = link.broker.clone();
    link.run_read((asked.consumer, room), move |begun| {
        let wanted = (asked.count_max, READ_SIZE_MAX, room);
        let result = match begun {
            Begun::Yes => broker.model.read_stream(&asked.queue, asked.place, wanted),
            Begun::No => Err(Refusal::Busy("the consumer is gone".to_owned())),
        };
        Done::Streamed(Box::new(Streamed { asked, result }))
    });
}

/// Delivers what was read, as far as the consumer has room for it.
fn deliver(channel: &mut Channel, number: u64, read: &StreamRead, link: &mut Link) -> Look {
    let (of_channel, channel_number) = (channel.credit(link.budget.room()), channel.number);
    let Channel { consumers, unacked, given, .. } = channel;
    let Some(consumer) = consumers.get(number) else { return Look::Waits };
    let credit = consumer.credit(of_channel);
    let Some(reader) = &mut consumer.stream else { return Look::Waits };
    let Some(lane) = consumer.queue.lanes().into_iter().next() else { return Look::Waits };
    let (mut next, mut count) = (read.next, 0);
    for (offset, piece, record) in read.messages() {
        if count == credit {
            next = offset;
            break;
        }
        let Ok(routed) = Routed::decode(record) else { continue };
        let Some(header) = header_of(routed.header, offset, reader.filter.as_ref()) else { continue };
        let (tag, queue, lane) = (unacked.next_tag(), consumer.queue.clone(), lane.clone());
        unacked.push(Delivered { tag, queue, lane, offset, consumer: Some(number), at: link.now.monotonic });
        link.note_delivered();
        let method = Deliver {
            consumer_tag: ShortString::cut(&consumer.tag),
            delivery_tag: tag,
            redelivered: false,
            exchange: ShortString::cut(routed.exchange),
            routing_key: ShortString::cut(routed.key),
        };
        link.send(channel_number, method);
        link.send_content(channel_number, &header, routed.body, Some(piece));
        count += 1;
    }
    consumer.unsettled += count;
    *given += count;
    reader.place = StreamPlace::At(next);
    if consumer.queue.stream_bounds().end > next {
        return Look::Again;
    }
    // What comes in between is seen by looking again after that.
    reader.waiter = consumer.queue.watch(&link.mailbox, number);
    if consumer.queue.stream_bounds().end > next { Look::Again } else { Look::Waits }
}

/// What a job has read for a consumer of the channel; `None` if it is read again, since there has to be more room.
pub(super) fn go_on(channel: &mut Channel, streamed: Streamed, link: &mut Link) -> Option<Result<StreamRead, Refusal>> {
    let Streamed { asked, result } = streamed;
    if let (Some(_), Ok(StreamRead { too_long: Some(size), .. })) = (channel.consumers.get(asked.consumer), &result) {
        read(asked, *size, link);
        return None;
    }
    Some(result)
}

/// Goes on with what was read for a consumer. What cannot be read now is read again after a while.
pub(super) fn take(channel: &mut Channel, number: u64, result: Result<StreamRead, Refusal>, link: &mut Link) -> Look {
    let Some(consumer) = channel.consumers.get(number) else { return Look::Waits };
    consumer.is_reading = false;
    let Ok(read) = result else {
        link.streams_look_at.get_or_insert(link.now.monotonic.plus_ms(UNREAD_LOOK_MS));
        link.unread_streams.push(number);
        return Look::Waits;
    };
    deliver(channel, number, &read, link)
}

impl AmqpSession {
    /// Looks after consumers whose streams could not be read when it is time for that.
    pub(super) fn watch_unread_streams(&mut self) {
        let Core { link, ready, .. } = &mut self.core;
        if link.streams_look_at.take_if(|at| *at <= link.now.monotonic).is_some() {
            ready.extend(link.unread_streams.drain(..));
        }
    }
}
