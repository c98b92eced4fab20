//! One connection that publishes: its channels in turn, each with a window of confirms of its own.

use std::sync::Arc;

use client::link::Link;

use crate::amqp::confirms::{Confirmed, Confirms};
use crate::amqp::conversation::{Conversation, Delivery, Listener};
use crate::amqp::mark::Marker;
use crate::amqp::template::Template;
use crate::load::sender::{Answered, Appended, SendLane};

/// What a message that is not stored is counted under: the number of the method that says so.
const NACK_CODE: i32 = 120;

/// Of a connection that is still open when its run is over.
pub const NOT_ENDED: &str =
    "the broker did not answer the end of the connection in time: it may not have read all of it";

/// A connection.
#[derive(Debug)]
pub struct PublishLane {
    link: Link,
    conversation: Conversation,
    channels: Vec<PublishChannel>,
    /// Which of them is next.
    turn: usize,
    template: Arc<Template>,
    /// Number of the next message: it says where that goes.
    next: usize,
}

#[derive(Debug)]
struct PublishChannel {
    /// Its number on the connection.
    number: u16,
    /// Its number in the run.
    mark: u16,
    /// What is in flight; nothing where there are no confirms.
    confirms: Option<Confirms>,
}

impl PublishChannel {
    fn has_room(&self) -> bool {
        self.confirms.as_ref().is_none_or(Confirms::has_room)
    }

    fn in_flight(&self) -> usize {
        self.confirms.as_ref().map_or(0, Confirms::in_flight)
    }
}

impl PublishLane {
    /// The connection with this number in the run, with `channels` that are open; without a window nothing is confirmed.
    pub fn new(
        link: Link,
        conversation: Conversation,
        (connection, channels): (usize, usize),
        window: Option<usize>,
        template: Arc<Template>,
    ) -> Self {
        let channel = |number: u16| {
            let mark = (connection * channels) as u16 + number;
            PublishChannel { number, mark, confirms: window.map(Confirms::new) }
        };
        let channels = (1..=u16::MAX).take(channels).map(channel).collect();
        Self { link, conversation, channels, turn: 0, template, next: connection }
    }

    /// The channel that is to publish next: the first with room from that on whose turn it is.
    fn find_room(&mut self) -> bool {
        let count = self.channels.len();
        let has_room = |at: &usize| self.channels.get(*at).is_some_and(PublishChannel::has_room);
        let found = (self.turn..count).chain(0..self.turn).find(has_room);
        self.turn = found.unwrap_or(self.turn);
        found.is_some()
    }
}

impl SendLane for PublishLane {
    type Stamp = Marker;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn takes_more(&mut self) -> bool {
        self.find_room()
    }

    fn append(&mut self, due_ns: u64, now_ns: u64, marker: &mut Marker) -> Option<Appended> {
        let channel = self.channels.get_mut(self.turn).filter(|channel| channel.has_room())?;
        let mark = marker.next(channel.mark, due_ns);
        let id = mark.id();
        if let Some(confirms) = &mut channel.confirms {
            confirms.publish(due_ns, now_ns, id);
        }
        let before = self.link.out().len();
        self.template.append(self.link.out(), self.next, channel.number, mark);
        self.next = self.next.wrapping_add(1);
        self.turn += 1;
        if self.turn == self.channels.len() {
            self.turn = 0;
        }
        Some(Appended { bytes: (self.link.out().len() - before) as u64, id })
    }

    fn settle(&mut self, answered: &mut dyn FnMut(Answered<'_>)) {
        let Self { link, conversation, channels, .. } = self;
        conversation.hear(link, &mut Answers { channels, answered });
    }

    fn expire(&mut self, until_ns: u64, given_up: &mut dyn FnMut(u64)) {
        for confirms in self.channels.iter_mut().filter_map(|channel| channel.confirms.as_mut()) {
            confirms.expire(until_ns, |published| given_up(published.due_ns));
        }
    }

    fn in_flight(&self) -> usize {
        self.channels.iter().map(PublishChannel::in_flight).sum()
    }

    /// Closes the connection in order: whoever hears that has read all that was published.
    fn end(&mut self, is_overdue: bool) -> bool {
        if !self.link.is_open() || is_overdue {
            return true;
        }
        if self.in_flight() == 0 {
            self.conversation.close(&mut self.link);
        }
        false
    }

    fn faults(&mut self) -> Vec<String> {
        let note = self.conversation.note().map(|note| format!("{}: {note}", self.link.address()));
        let unheard = self.link.is_open().then(|| format!("{}: {NOT_ENDED}", self.link.address()));
        self.link.fault().into_iter().chain(unheard).chain(note).collect()
    }
}

struct Answers<'a> {
    channels: &'a mut [PublishChannel],
    answered: &'a mut dyn FnMut(Answered<'_>),
}

impl Listener for Answers<'_> {
    fn delivered(&mut self, _channel: u16, _delivery: &Delivery) {}

    fn confirmed(&mut self, channel: u16, tag: u64, multiple: bool, is_stored: bool) {
        let index = usize::from(channel).wrapping_sub(1);
        let Some(confirms) = self.channels.get_mut(index).and_then(|channel| channel.confirms.as_mut()) else { return };
        let words = || ("basic.nack", "the broker could not take it".to_owned());
        confirms.settle(tag, multiple, |Confirmed { due_ns, counter }| {
            let refusal = (!is_stored).then_some((NACK_CODE, &words as _));
            (self.answered)(Answered { due_ns, counter, refusal });
        });
    }
}
