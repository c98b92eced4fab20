//! The three texts of a pop's answer that receipts are made of, both ways.
//!
//! ```text
//! startOffsetInfo   flag queue offset                    0 0 100;1 0 7
//! msgOffsetInfo     flag queue offset,offset,..          0 0 100,101,105;1 0 7
//! orderCountInfo    flag queue count                     0 1 1
//!                   flag qo(queue)%(offset) count        0 qo1%105 2
//! ```
//!
//! Parts are joined by `;`. A queue is named once in each text, and every message of the answer stands in the second, in the order of the
//! records: clients count. Empty texts are none. Read more strictly than in Java: queues are numbers and flags are known.

use std::collections::BTreeMap;
use std::str::FromStr;

use base::cursor::{DecodeError, preview};

use super::header::PopResponse;
use super::origin::Origin;
use super::receipt::Receipt;

/// A queue of a topic, or of its retry topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoppedQueue {
    /// Which of the two.
    pub origin: Origin,
    /// Number.
    pub queue_id: i32,
}

impl PoppedQueue {
    /// Begins the queue's part of a text.
    fn put(self, out: &mut String) {
        if !out.is_empty() {
            out.push(';');
        }
        out.push_str(self.origin.flag());
        out.push(' ');
    }

    fn put_with_number(self, out: &mut String) {
        self.put(out);
        put_number(out, self.queue_id);
        out.push(' ');
    }
}

/// Adds to `startOffsetInfo` where the answer's part of a queue begins.
pub fn put_start_offset(out: &mut String, queue: PoppedQueue, offset: i64) {
    queue.put_with_number(out);
    put_number(out, offset);
}

/// Adds to `msgOffsetInfo` the messages of a queue. Nothing for no message: clients cannot read an empty list.
pub fn put_message_offsets(out: &mut String, queue: PoppedQueue, offsets: impl IntoIterator<Item = i64>) {
    let mut offsets = offsets.into_iter();
    let Some(first) = offsets.next() else { return };
    queue.put_with_number(out);
    put_number(out, first);
    for offset in offsets {
        out.push(',');
        put_number(out, offset);
    }
}

/// Adds to `orderCountInfo` how often the messages of a queue were delivered before, where nothing is said of a message itself.
pub fn put_queue_order_count(out: &mut String, queue: PoppedQueue, count: i32) {
    queue.put_with_number(out);
    put_number(out, count);
}

/// Adds to `orderCountInfo` how often one message was delivered before.
pub fn put_message_order_count(out: &mut String, queue: PoppedQueue, offset: i64, count: i32) {
    queue.put(out);
    out.push_str("qo");
    put_number(out, queue.queue_id);
    out.push('%');
    put_number(out, offset);
    out.push(' ');
    put_number(out, count);
}

fn put_number(out: &mut String, number: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Where the answer's part of each queue begins.
pub fn start_offsets(text: &str) -> Result<BTreeMap<PoppedQueue, i64>, DecodeError> {
    let mut offsets = BTreeMap::new();
    for part in parts(text) {
        let (queue, offset) = part?;
        insert(&mut offsets, number_queue(queue, text)?, number(offset, text)?, text)?;
    }
    Ok(offsets)
}

/// The messages of each queue.
pub fn message_offsets(text: &str) -> Result<BTreeMap<PoppedQueue, Vec<i64>>, DecodeError> {
    let mut messages = BTreeMap::new();
    for part in parts(text) {
        let (queue, offsets) = part?;
        let offsets = without_empty_end(offsets, ',').map(|offset| number(offset, text)).collect::<Result<_, _>>()?;
        insert(&mut messages, number_queue(queue, text)?, offsets, text)?;
    }
    Ok(messages)
}

/// How often messages were delivered before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Of single messages, by offset.
    pub messages: BTreeMap<(PoppedQueue, i64), i32>,
    /// Of the others in a queue.
    pub queues: BTreeMap<PoppedQueue, i32>,
}

impl OrderCounts {
    /// Reads `orderCountInfo`.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let mut counts = Self::default();
        for part in parts(text) {
            let ((origin, name), count) = part?;
            let count = number(count, text)?;
            match name.strip_prefix("qo") {
                None => insert(&mut counts.queues, number_queue((origin, name), text)?, count, text)?,
                Some(place) => {
                    let (queue, offset) = place.split_once('%').ok_or_else(|| bad(text, "a place without %"))?;
                    let queue = number_queue((origin, queue), text)?;
                    insert(&mut counts.messages, (queue, number(offset, text)?), count, text)?;
                }
            }
        }
        Ok(counts)
    }

    /// Of one message.
    pub fn of(&self, queue: PoppedQueue, offset: i64) -> i32 {
        self.messages.get(&(queue, offset)).or_else(|| self.queues.get(&queue)).copied().unwrap_or_default()
    }
}

/// An answer as a client takes it apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PopAnswer<'a> {
    header: &'a PopResponse<'a>,
    start_offsets: BTreeMap<PoppedQueue, i64>,
    message_offsets: BTreeMap<PoppedQueue, Vec<i64>>,
    order_counts: OrderCounts,
}

impl<'a> PopAnswer<'a> {
    /// Reads the texts of `header`.
    pub fn of(header: &'a PopResponse<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            header,
            start_offsets: start_offsets(header.start_offset_info.as_deref().unwrap_or_default())?,
            message_offsets: message_offsets(header.message_offset_info.as_deref().unwrap_or_default())?,
            order_counts: OrderCounts::parse(header.order_count_info.as_deref().unwrap_or_default())?,
        })
    }

    /// The receipt of a message in the answer's body, stored in `stored_topic`; `None` if the header says nothing of it.
    pub fn receipt(&self, broker_name: &'a str, stored_topic: &str, queue_id: i32, offset: i64) -> Option<Receipt<'a>> {
        let queue = PoppedQueue { origin: Origin::of(stored_topic), queue_id };
        let start_offset = *self.start_offsets.get(&queue)?;
        let is_there = self.message_offsets.get(&queue)?.contains(&offset);
        is_there.then_some(Receipt {
            start_offset,
            pop_timestamp: self.header.pop_timestamp,
            invisible_ms: self.header.invisible_ms,
            revive_queue_id: self.header.revive_queue_id,
            origin: queue.origin,
            broker_name,
            queue_id,
            message_offset: Some(offset),
        })
    }

    /// How often that message was delivered before, in an answer to a pop in order.
    pub fn order_count(&self, stored_topic: &str, queue_id: i32, offset: i64) -> i32 {
        self.order_counts.of(PoppedQueue { origin: Origin::of(stored_topic), queue_id }, offset)
    }
}

type Part<'a> = ((Origin, &'a str), &'a str);

/// Origin, name of the queue and value of each part.
fn parts(text: &str) -> impl Iterator<Item = Result<Part<'_>, DecodeError>> {
    without_empty_end(text, ';').map(move |part| {
        let mut fields = without_empty_end(part, ' ');
        let (Some(flag), Some(queue), Some(value), None) = (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(bad(text, "a part that has not three fields"));
        };
        let origin = Origin::from_flag(flag).ok_or_else(|| bad(text, "an unknown flag"))?;
        Ok(((origin, queue), value))
    })
}

/// What lies between separators, as Java splits a text: nothing is left of separators at its end.
fn without_empty_end(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let text = text.trim_end_matches(separator);
    (!text.is_empty()).then(|| text.split(separator)).into_iter().flatten()
}

fn number_queue((origin, queue): (Origin, &str), text: &str) -> Result<PoppedQueue, DecodeError> {
    Ok(PoppedQueue { origin, queue_id: number(queue, text)? })
}

fn number<T: FromStr>(field: &str, text: &str) -> Result<T, DecodeError> {
    field.parse().map_err(|_| bad(text, "no number where one must be"))
}

fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V, text: &str) -> Result<(), DecodeError> {
    if map.insert(key, value).is_some() { Err(bad(text, "a queue or message twice")) } else { Ok(()) }
}

fn bad(text: &str, problem: &str) -> DecodeError {
    DecodeError::BadValue { what: "pop answer", found: format!("{:?} ({problem})", preview(text.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn queue(origin: Origin, queue_id: i32) -> PoppedQueue {
        PoppedQueue { origin, queue_id }
    }

    #[test]
    fn start_offsets_are_the_text_of_java() {
        let mut text = String::new();
        let offsets =
            [(queue(Origin::Topic, 0), 100), (queue(Origin::Retry, 0), 7), (queue(Origin::RetryV2, 2), i64::MAX)];
        offsets.iter().for_each(|&(queue, offset)| put_start_offset(&mut text, queue, offset));
        assert_eq!(text, "0 0 100;1 0 7;2 2 9223372036854775807");
        assert_eq!(start_offsets(&text), Ok(BTreeMap::from(offsets)));
    }

    #[test]
    fn message_offsets_are_the_text_of_java() {
        let mut text = String::new();
        let messages = [(queue(Origin::Topic, 0), vec![100, 101, 105]), (queue(Origin::Retry, 0), vec![7])];
        messages.iter().for_each(|(queue, offsets)| put_message_offsets(&mut text, *queue, offsets.iter().copied()));
        put_message_offsets(&mut text, queue(Origin::RetryV2, 2), []);
        assert_eq!(text, "0 0 100,101,105;1 0 7");
        assert_eq!(message_offsets(&text), Ok(BTreeMap::from(messages)));
    }

    #[test]
    fn order_counts_are_the_text_of_java() {
        let mut text = String::new();
        let first = queue(Origin::Topic, 1);
        put_message_order_count(&mut text, first, 105, 2);
        put_message_order_count(&mut text, first, 106, 1);
        put_queue_order_count(&mut text, first, 1);
        put_queue_order_count(&mut text, queue(Origin::Retry, 0), 0);
        assert_eq!(text, "0 qo1%105 2;0 qo1%106 1;0 1 1;1 0 0");
        let counts = OrderCounts::parse(&text).expect("reads");
        let of = |offset| counts.of(first, offset);
        assert_eq!((of(105), of(106), of(107)), (2, 1, 1), "a message of which nothing is said has its queue's count");
        assert_eq!((counts.of(queue(Origin::Retry, 0), 0), counts.of(queue(Origin::RetryV2, 1), 105)), (0, 0));
    }

    #[test]
    fn texts_are_split_as_in_java() {
        let one = BTreeMap::from([(queue(Origin::Topic, 1), 2)]);
        for (text, read) in [("", BTreeMap::new()), (";", BTreeMap::new()), ("0 1 2;", one.clone()), ("0 1 2 ", one)] {
            assert_eq!(start_offsets(text), Ok(read), "{text:?}");
        }
        assert_eq!(message_offsets("0 1 2,3,,"), Ok(BTreeMap::from([(queue(Origin::Topic, 1), vec![2, 3])])));
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for text in ["0 1 2;;0 2 3", "0 1", "0 1 2 3", "0 1 x", "0 1 2;0 1 3", "0 1 ,2", "0 0 100;2 2 "] {
            assert!(start_offsets(text).is_err(), "{text:?}");
            assert!(message_offsets(text).is_err(), "{text:?}");
            assert!(OrderCounts::parse(text).is_err(), "{text:?}");
        }
        assert!(start_offsets("0 1 2,3").is_err());
        // These Java reads and finds no message for.
        for text in ["9 1 2", "0  2", "0 x 2", "0 01 2;0 1 2", "0 qo1 2", "0 qo1%x 2", "0 qo1%5 2;0 qo01%5 2"] {
            assert!(OrderCounts::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn receipts_are_made_of_the_answer_as_a_client_makes_them() {
        let header = PopResponse {
            pop_timestamp: 1_700_000_000_123,
            invisible_ms: 60_000,
            revive_queue_id: 5,
            start_offset_info: Some("0 3 100;1 0 7".into()),
            message_offset_info: Some("0 3 107,109;1 0 7".into()),
            order_count_info: Some("0 qo3%107 1;0 3 0".into()),
            ..PopResponse::default()
        };
        let answer = PopAnswer::of(&header).expect("reads");
        let receipt = |topic, queue_id, offset| {
            answer.receipt("broker-a", topic, queue_id, offset).map(|receipt| receipt.to_string())
        };
        assert_eq!(receipt("orders", 3, 107).as_deref(), Some("100 1700000000123 60000 5 0 broker-a 3 107"));
        assert_eq!(receipt("orders", 3, 109).as_deref(), Some("100 1700000000123 60000 5 0 broker-a 3 109"));
        let of_retry = receipt("%RETRY%billing_orders", 0, 7);
        assert_eq!(of_retry.as_deref(), Some("7 1700000000123 60000 5 1 broker-a 0 7"));
        assert_eq!((receipt("orders", 3, 108), receipt("orders", 0, 7)), (None, None));
        assert_eq!((answer.order_count("orders", 3, 107), answer.order_count("orders", 3, 109)), (1, 0));
    }
}
