//! What a broker says on a connection with load. Deliveries and confirms are read for their numbers alone; the rest, which is rare, is
//! decoded by `wire`.

use bytes::BytesMut;
use client::amqp::control::{closed, closing, encode_method};
use client::link::Link;
use wire::amqp::frame::{self, Frame, Kind};
use wire::amqp::method::Method;

use crate::amqp::mark::{self, Mark};

/// Class and number of the methods that are read by hand.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
const ACK: [u8; 4] = [0, 60, 0, 80];
const NACK: [u8; 4] = [0, 60, 0, 120];
/// Where their arguments begin.
const ARGUMENTS_AT: usize = 4;
/// Where a content header says how long the body is.
const BODY_SIZE_AT: usize = 4;

/// A message that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// By which it is acknowledged.
    pub tag: u64,
    /// Somebody had it before.
    pub redelivered: bool,
    /// Bytes of its body.
    pub body_size: u64,
    /// What its body begins with, if that is long enough.
    pub mark: Option<Mark>,
}

/// Who is told what a broker says.
pub trait Listener {
    /// A message came.
    fn delivered(&mut self, channel: u16, delivery: &Delivery);
    /// A message that was published, or all up to it, are stored; or they are not.
    fn confirmed(&mut self, channel: u16, tag: u64, multiple: bool, is_stored: bool);
}

/// A message of which some frames have come.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    delivery: Delivery,
    awaits: Awaits,
    /// Bytes of the body that have not come.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaits {
    #[default]
    Method,
    Header,
    Body,
}

/// One connection's.
#[derive(Debug)]
pub struct Conversation {
    frame_max: usize,
    /// By channel.
    partials: Vec<Partial>,
    is_closing: bool,
    /// How often the broker said that it takes no messages, and why at first.
    blocked: u64,
    blocked_why: String,
}

impl Conversation {
    /// On a connection with the channels `1..=channels`.
    pub fn new(channels: usize, frame_max: usize) -> Self {
        let partials = vec![Partial::default(); channels + 1];
        Self { frame_max, partials, is_closing: false, blocked: 0, blocked_why: String::new() }
    }

    /// Says that nothing more is to come, once.
    pub fn close(&mut self, link: &mut Link) {
        if !self.is_closing {
            self.is_closing = true;
            say(link, 0, &closing());
        }
    }

    /// What people should know of it.
    pub fn note(&self) -> Option<String> {
        let (times, why) = (self.blocked, &self.blocked_why);
        (times > 0).then(|| format!("the broker blocked publishers (connection.blocked, {times} times): {why}"))
    }

    /// Takes in all complete frames that were read.
    pub fn hear(&mut self, link: &mut Link, listener: &mut impl Listener) {
        let mut rest = link.unread();
        let size = rest.len();
        let mut heard = Heard::default();
        loop {
            match frame::decode(rest, self.frame_max) {
                Ok(Some(frame)) => {
                    if let Err(problem) = self.take(frame, listener, &mut heard) {
                        heard.problem = Some(problem);
                        break;
                    }
                    rest = rest.get(frame.size()..).unwrap_or_default();
                }
                Ok(None) => break,
                Err(error) => {
                    heard.problem = Some(format!("what it says is not AMQP: {error}"));
                    break;
                }
            }
        }
        let taken = size - rest.len();
        link.take(taken);
        if heard.is_over {
            link.end();
        }
        if let Some(problem) = heard.problem {
            say(link, 0, &closed());
            link.flush();
            link.fail(problem);
        }
    }

    fn take(&mut self, frame: Frame<'_>, listener: &mut impl Listener, heard: &mut Heard) -> Result<(), String> {
        let Frame { kind, channel, payload } = frame;
        let Some(partial) = self.partials.get_mut(usize::from(channel)) else {
            return Err(format!("it speaks of channel {channel}, which is not open"));
        };
        match (kind, partial.awaits) {
            (Kind::Heartbeat, _) => {}
            (Kind::Method, Awaits::Method) => match payload.first_chunk() {
                Some(&DELIVER) => {
                    let (tag, redelivered) = delivery_of(payload).ok_or("a basic.deliver is cut off")?;
                    *partial = Partial { awaits: Awaits::Header, ..Partial::default() };
                    (partial.delivery.tag, partial.delivery.redelivered) = (tag, redelivered);
                }
                Some(id @ (&ACK | &NACK)) => {
                    let (tag, multiple) = confirm_of(payload).ok_or("a confirm is cut off")?;
                    listener.confirmed(channel, tag, multiple, *id == ACK);
                }
                _ => return self.take_other(payload, heard),
            },
            (Kind::Header, Awaits::Header) => {
                let size = payload.get(BODY_SIZE_AT..).and_then(<[u8]>::first_chunk);
                let size = u64::from_be_bytes(*size.ok_or("a content header is cut off")?);
                (partial.delivery.body_size, partial.left, partial.awaits) = (size, size, Awaits::Body);
            }
            (Kind::Body, Awaits::Body) => {
                if partial.left == partial.delivery.body_size {
                    partial.delivery.mark = payload.first_chunk::<{ mark::SIZE }>().map(|bytes| Mark::read(*bytes));
                }
                let left = partial.left.checked_sub(payload.len() as u64);
                partial.left = left.ok_or("a body is longer than its header says")?;
            }
            _ => return Err(format!("a {kind:?} frame came out of turn")),
        }
        if partial.awaits == Awaits::Body && partial.left == 0 {
            partial.awaits = Awaits::Method;
            listener.delivered(channel, &partial.delivery);
        }
        Ok(())
    }

    fn take_other(&mut self, payload: &[u8], heard: &mut Heard) -> Result<(), String> {
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match Method::decode(payload).map_err(|error| error.to_string())? {
            Method::ConnectionClose(close) => {
                Err(format!("closed by the broker: {} {}", close.reply_code, text(close.reply_text.bytes())))
            }
            Method::ChannelClose(close) => Err(format!(
                "a channel was closed by the broker: {} {}",
                close.reply_code,
                text(close.reply_text.bytes())
            )),
            Method::Cancel(cancel) => {
                Err(format!("the broker cancelled consumer {}", text(cancel.consumer_tag.bytes())))
            }
            Method::Blocked(blocked) => {
                if self.blocked == 0 {
                    self.blocked_why = text(blocked.reason.bytes());
                }
                self.blocked += 1;
                Ok(())
            }
            Method::ConnectionCloseOk(_) => {
                heard.is_over = true;
                Ok(())
            }
            Method::Unblocked(_) => Ok(()),
            other => Err(format!("it says {}, which was not asked for", other.name())),
        }
    }
}

/// What became of a connection by what was heard.
#[derive(Default)]
struct Heard {
    is_over: bool,
    problem: Option<String>,
}

/// Appends a method to what is to be written.
pub fn say(link: &mut Link, channel: u16, method: &Method<'_>) {
    let mut out = BytesMut::new();
    encode_method(&mut out, channel, method);
    link.out().extend_from_slice(&out);
}

/// Tag, and whether it came before.
fn delivery_of(payload: &[u8]) -> Option<(u64, bool)> {
    let consumer_tag = usize::from(*payload.get(ARGUMENTS_AT)?);
    let rest = payload.get(ARGUMENTS_AT + 1 + consumer_tag..)?;
    tag_and_bit(rest)
}

/// Tag, and whether all before it are meant too.
fn confirm_of(payload: &[u8]) -> Option<(u64, bool)> {
    tag_and_bit(payload.get(ARGUMENTS_AT..)?)
}

fn tag_and_bit(bytes: &[u8]) -> Option<(u64, bool)> {
    let (tag, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*tag), rest.first()? & 1 != 0))
}

#[cfg(test)]
mod tests {
    use wire::amqp::argument::ShortString;
    use wire::amqp::method::basic::{Ack, Deliver, Nack};

    use super::*;

    fn payload(method: &Method<'_>) -> Vec<u8> {
        let mut out = BytesMut::new();
        method.encode(&mut out);
        out.to_vec()
    }

    #[test]
    fn what_is_read_by_hand_is_what_the_codec_writes() {
        for (consumer, delivery_tag, redelivered) in [("", 1, false), ("a consumer", u64::MAX - 7, true)] {
            let consumer_tag = ShortString::cut(consumer.as_bytes());
            let (exchange, routing_key) = (ShortString::cut(b"exchange"), ShortString::cut(b"key"));
            let deliver = Deliver { consumer_tag, delivery_tag, redelivered, exchange, routing_key };
            let bytes = payload(&deliver.into());
            assert_eq!(bytes.first_chunk(), Some(&DELIVER));
            assert_eq!(delivery_of(&bytes), Some((delivery_tag, redelivered)));
            for cut in 0..bytes.len() {
                let _ = delivery_of(&bytes[..cut]);
            }
        }
        for multiple in [false, true] {
            let ack = payload(&Ack { delivery_tag: 300, multiple }.into());
            assert_eq!((ack.first_chunk(), confirm_of(&ack)), (Some(&ACK), Some((300, multiple))));
            // Its second bit, requeue, is not this one.
            let nack = payload(&Nack { delivery_tag: 300, multiple, requeue: true }.into());
            assert_eq!((nack.first_chunk(), confirm_of(&nack)), (Some(&NACK), Some((300, multiple))));
        }
    }
}
