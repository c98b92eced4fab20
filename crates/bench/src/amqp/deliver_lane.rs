//! One connection that consumes: channels with their consumers, the messages that wait for their turn there, and the acknowledgements.
//!
//! A channel handles one message at a time. Where that takes time it is a time on the run's clock, not a thread that sleeps: a channel
//! whose next message is there already begins with it at the very moment the last was done.

use std::collections::VecDeque;

use client::link::Link;
use wire::amqp::argument::ShortString;
use wire::amqp::frame::END;
use wire::amqp::method::basic::Consume;

use crate::amqp::conversation::{Conversation, Delivery, Listener, say};
use crate::amqp::observer::{LastMarks, Observer};
use crate::amqp::send_lane::NOT_ENDED;

/// How messages are handled.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Messages that are acknowledged at once; nothing where nobody acknowledges.
    pub ack_every: Option<usize>,
    /// How long a message takes.
    pub work_ns: u64,
}

/// When a channel of a lane is done with its message.
pub type Done = (u64, u32);

/// A connection.
#[derive(Debug)]
pub struct DeliverLane {
    link: Link,
    conversation: Conversation,
    channels: Vec<DeliverChannel>,
    /// Acknowledgements that are yet to be appended to what is written.
    acks: Vec<u8>,
}

#[derive(Debug, Default)]
struct DeliverChannel {
    number: u16,
    /// Queues it consumes from.
    queues: Vec<String>,
    /// Messages that came; the first of them is being handled.
    waiting: VecDeque<(u64, u64)>,
    /// The last message that was handled, and how many were that are not acknowledged.
    handled_tag: u64,
    handled: usize,
    last_marks: LastMarks,
}

impl DeliverLane {
    /// A connection whose channels, which are open, consume from these queues.
    pub fn new(link: Link, conversation: Conversation, queues_of_channels: Vec<Vec<String>>) -> Self {
        let channel = |(number, queues)| DeliverChannel { number, queues, ..DeliverChannel::default() };
        let channels = (1..).zip(queues_of_channels).map(channel).collect();
        Self { link, conversation, channels, acks: Vec::new() }
    }

    /// The connection.
    pub const fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Whether it can still be used.
    pub const fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// Messages that wait or are being handled.
    pub fn waiting(&self) -> usize {
        self.channels.iter().map(|channel| channel.waiting.len()).sum()
    }

    /// Asks for messages.
    pub fn start(&mut self, terms: Terms) {
        for channel in &self.channels {
            for (number, queue) in (0..).zip(&channel.queues) {
                let tag = u32::to_string(&number);
                let consume = Consume {
                    queue: ShortString::cut(queue.as_bytes()),
                    consumer_tag: ShortString::cut(tag.as_bytes()),
                    no_ack: terms.ack_every.is_none(),
                    // Who may not consume is told by the end of the channel.
                    no_wait: true,
                    ..Consume::default()
                };
                say(&mut self.link, channel.number, &consume.into());
            }
        }
    }

    /// Takes in what was read; tells `done` when which channel will be done with the message it begins with.
    pub fn hear(&mut self, terms: Terms, observer: &mut Observer<'_>, done: impl FnMut(Done)) {
        let Self { link, conversation, channels, acks } = self;
        conversation.hear(link, &mut Handling { channels, acks, terms, observer, done });
        link.out().append(acks);
    }

    /// The channel with this index is done with its message, at that time; gives when it will be with its next.
    pub fn finish(&mut self, terms: Terms, observer: &mut Observer<'_>, (at_ns, index): Done) -> Option<Done> {
        let channel = self.channels.get_mut(index as usize)?;
        let (tag, body_size) = channel.waiting.pop_front()?;
        observer.handled(body_size, observer.is_measuring());
        channel.settle(terms, tag, self.link.out());
        (!channel.waiting.is_empty()).then_some((at_ns + terms.work_ns, index))
    }

    /// Acknowledges the rest of what was handled, and asks for the end.
    pub fn close(&mut self, terms: Terms) {
        for channel in self.channels.iter_mut().filter(|channel| channel.handled > 0 && terms.ack_every.is_some()) {
            put_ack(self.link.out(), channel.number, channel.handled_tag, true);
            channel.handled = 0;
        }
        self.conversation.close(&mut self.link);
    }

    /// Takes in what was read after that: messages that come so late are not this run's.
    pub fn hear_end(&mut self) {
        self.conversation.hear(&mut self.link, &mut Deaf);
    }

    /// What went wrong.
    pub fn fault(&self) -> Option<String> {
        let unheard = || self.link.is_open().then(|| format!("{}: {NOT_ENDED}", self.link.address()));
        self.link.fault().or_else(unheard)
    }
}

impl DeliverChannel {
    /// The message with that tag was handled.
    fn settle(&mut self, terms: Terms, tag: u64, out: &mut Vec<u8>) {
        let Some(ack_every) = terms.ack_every else { return };
        self.handled_tag = tag;
        self.handled += 1;
        if self.handled >= ack_every {
            put_ack(out, self.number, tag, self.handled > 1);
            self.handled = 0;
        }
    }
}

struct Handling<'a, 'o, F> {
    channels: &'a mut [DeliverChannel],
    acks: &'a mut Vec<u8>,
    terms: Terms,
    observer: &'a mut Observer<'o>,
    done: F,
}

impl<F: FnMut(Done)> Listener for Handling<'_, '_, F> {
    fn delivered(&mut self, number: u16, delivery: &Delivery) {
        let index = usize::from(number).wrapping_sub(1);
        let Some(channel) = self.channels.get_mut(index) else { return };
        let is_measured = self.observer.arrived(delivery, &mut channel.last_marks);
        if self.terms.work_ns == 0 {
            self.observer.handled(delivery.body_size, is_measured);
            return channel.settle(self.terms, delivery.tag, self.acks);
        }
        channel.waiting.push_back((delivery.tag, delivery.body_size));
        if channel.waiting.len() == 1 {
            (self.done)((self.observer.now_ns() + self.terms.work_ns, u32::from(number) - 1));
        }
    }

    fn confirmed(&mut self, _channel: u16, _tag: u64, _multiple: bool, _is_stored: bool) {}
}

/// Nobody listens any more.
struct Deaf;

impl Listener for Deaf {
    fn delivered(&mut self, _channel: u16, _delivery: &Delivery) {}

    fn confirmed(&mut self, _channel: u16, _tag: u64, _multiple: bool, _is_stored: bool) {}
}

/// A frame with `basic.ack`, whose bytes are known but for its numbers.
fn put_ack(out: &mut Vec<u8>, channel: u16, tag: u64, multiple: bool) {
    let mut frame = [1, 0, 0, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, END];
    frame[1..3].copy_from_slice(&channel.to_be_bytes());
    frame[11..19].copy_from_slice(&tag.to_be_bytes());
    frame[19] = multiple.into();
    out.extend_from_slice(&frame);
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::amqp::method::basic::Ack;

    use super::*;
    use client::amqp::control::encode_method;

    #[test]
    fn an_acknowledgement_is_what_the_codec_writes() {
        for (channel, delivery_tag, multiple) in [(1, 1, false), (0x1234, 0x0102_0304_0506_0708, true)] {
            let (mut by_hand, mut by_codec) = (Vec::new(), BytesMut::new());
            put_ack(&mut by_hand, channel, delivery_tag, multiple);
            encode_method(&mut by_codec, channel, &Ack { delivery_tag, multiple }.into());
            assert_eq!(by_hand, by_codec);
        }
    }
}
