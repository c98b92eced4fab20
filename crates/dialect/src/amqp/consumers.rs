//! Who consumes on a channel: how they come, are found, and go.
//!
//! **Always holds**: no two consumers of a channel have one tag; what all of a connection take is counted, and bounded.

use std::collections::BTreeMap;

use broker::{Consumer as QueueConsumer, OnlyIf};
use format::model::Text;
use wire::amqp::argument::ShortString;
use wire::amqp::method::basic::{Cancel, CancelOk, Consume, ConsumeOk};
use wire::amqp::table::Table;

use super::channel::Channel;
use super::consume::{Consumer, reader_of};
use super::error::Fault;
use super::methods::Core;
use super::replies::{REPLY_TO, ReplyConsumer};
use super::stream::StreamReader;
use super::topology;

/// What a consumer takes beside its tag and what it looks for, here and where it waits, bytes.
const CONSUMER_SIZE: usize = 640;

/// Bytes that the consumers of a connection take: about 50 000.
const CONSUMERS_SIZE_MAX: usize = 32 * 1024 * 1024;

/// The consumers of one channel.
#[derive(Default)]
pub(super) struct Consumers {
    /// In the order they came.
    by_number: BTreeMap<u64, Box<Consumer>>,
    numbers: BTreeMap<Text, u64>,
}

impl Consumers {
    /// The one of that number.
    pub(super) fn get(&mut self, number: u64) -> Option<&mut Consumer> {
        self.by_number.get_mut(&number).map(|consumer| &mut **consumer)
    }

    fn has(&self, tag: &[u8]) -> bool {
        self.numbers.contains_key(tag)
    }

    fn add(&mut self, consumer: Consumer) {
        self.numbers.insert(consumer.tag.clone(), consumer.number);
        self.by_number.insert(consumer.number, Box::new(consumer));
    }

    fn remove(&mut self, number: u64) -> Option<Box<Consumer>> {
        let consumer = self.by_number.remove(&number)?;
        self.numbers.remove(&consumer.tag);
        Some(consumer)
    }

    fn remove_called(&mut self, tag: &[u8]) -> Option<Box<Consumer>> {
        let number = self.numbers.remove(tag)?;
        self.by_number.remove(&number)
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Box<Consumer>> + use<> {
        std::mem::take(self).by_number.into_values()
    }

    /// Those that had to settle first and may have room now: each is looked after once, until it is stalled again.
    pub(super) fn take_stalled(&mut self) -> impl Iterator<Item = u64> {
        self.by_number.values_mut().filter_map(|one| std::mem::take(&mut one.is_stalled).then_some(one.number))
    }
}

impl Core {
    /// Has a consumer come.
    pub(super) fn consume(&mut self, channel: &mut Channel, consume: &Consume<'_>) -> Result<(), Fault> {
        let tag = match consume.consumer_tag.bytes() {
            b"" => topology::generated_name(&self.link.broker, "amq.ctag-"),
            tag => tag.into(),
        };
        if channel.consumers.has(&tag) || channel.replies.as_ref().is_some_and(|known| known.tag == tag) {
            let tag = String::from_utf8_lossy(&tag).into_owned();
            return Err(Fault::not_allowed(format!("attempt to reuse consumer tag '{tag}'")));
        }
        if consume.queue.bytes() == REPLY_TO {
            return self.consume_replies(channel, tag, consume);
        }
        let queue = self.queue_of(channel, consume.queue)?;
        let stream = StreamReader::of(&queue, channel, consume, self.link.now.wall)?;
        let size = CONSUMER_SIZE + 2 * tag.len() + stream.as_ref().map_or(0, StreamReader::size);
        if self.consumers_size + size > CONSUMERS_SIZE_MAX {
            let text = format!("the consumers of a connection take at most {CONSUMERS_SIZE_MAX} bytes");
            return Err(Fault::not_allowed(text));
        }
        self.last_consumer += 1;
        let number = reader_of(channel.number) | self.last_consumer;
        let (mailbox, priority) = (self.link.mailbox.clone(), priority_of(consume.arguments)?);
        let is_exclusive = consume.exclusive && stream.is_none();
        let joining = QueueConsumer { mailbox, number, is_exclusive, priority };
        let seat = queue.add_consumer(joining, self.link.now.monotonic)?;
        if !consume.no_wait {
            self.link.send(channel.number, ConsumeOk { consumer_tag: ShortString::cut(&tag) });
        }
        self.consumers_size += size;
        channel.consumers.add(Consumer {
            number,
            size,
            tag,
            queue,
            seat,
            no_ack: consume.no_ack,
            prefetch: channel.prefetch,
            priority,
            unsettled: 0,
            is_stalled: false,
            is_reading: false,
            takers: Vec::new(),
            stream,
            has_room_since: None,
        });
        self.ready.push_back(number);
        Ok(())
    }

    /// Has direct replies come to the channel.
    fn consume_replies(&mut self, channel: &mut Channel, tag: Text, consume: &Consume<'_>) -> Result<(), Fault> {
        if !consume.no_ack {
            return Err(Fault::precondition("reply consumer cannot acknowledge"));
        }
        if channel.replies.is_some() {
            return Err(Fault::precondition("reply consumer already set"));
        }
        if !consume.no_wait {
            self.link.send(channel.number, ConsumeOk { consumer_tag: ShortString::cut(&tag) });
        }
        let (number, mailbox, replies) = (self.link.broker.random(), &self.link.mailbox, &self.link.options.replies);
        channel.replies = Some(ReplyConsumer::new(tag, number, mailbox, replies));
        Ok(())
    }

    /// Has one go.
    pub(super) fn cancel(&mut self, channel: &mut Channel, cancel: &Cancel<'_>) {
        let tag = cancel.consumer_tag.bytes();
        if channel.replies.as_ref().is_some_and(|known| *known.tag == *tag) {
            channel.replies = None;
        }
        if let Some(consumer) = channel.consumers.remove_called(tag) {
            let number = consumer.number;
            self.end_reads(channel, |reader| reader == number);
            self.leave(*consumer);
        }
        if !cancel.no_wait {
            self.link.send(channel.number, CancelOk { consumer_tag: cancel.consumer_tag });
        }
    }

    /// A consumer goes; its queue with it, if that is how the queue is.
    pub(super) fn leave(&mut self, consumer: Consumer) {
        let Consumer { queue, seat, takers, size, .. } = consumer;
        self.consumers_size -= size;
        let goes = queue.remove_consumer(seat, self.link.now.monotonic);
        // Others are told of what it was told of.
        drop(takers);
        if goes {
            let Ok(host) = self.link.login().map(|login| login.host.clone()) else { return };
            let only_if = OnlyIf { unused: true, ..OnlyIf::default() };
            // Somebody may have come meanwhile: then it stays.
            let _ = self.link.broker.model.remove_queue(&host, &queue, only_if, self.link.now);
        }
    }

    /// A queue that a consumer has is gone.
    pub(super) fn dismiss(&mut self, channel: &mut Channel, number: u64) {
        let Some(consumer) = channel.consumers.remove(number) else { return };
        self.consumers_size -= consumer.size;
        self.end_reads(channel, |reader| reader == number);
        if self.link.hears_of_cancelled {
            self.link.send(channel.number, Cancel { consumer_tag: ShortString::cut(&consumer.tag), no_wait: true });
        }
    }
}

fn priority_of(arguments: Table<'_>) -> Result<i32, Fault> {
    let Some(priority) = arguments.get("x-priority") else { return Ok(0) };
    let number = priority.integer().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| Fault::precondition("invalid arg 'x-priority': it must be a whole number"))
}
