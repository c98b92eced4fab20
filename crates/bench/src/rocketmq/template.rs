//! Sends encoded once: a body of each size, and a header for each queue and size, in which a few fixed-width numbers are patched in place.
//!
//! A send is then two copies (header, body) and three or four short ones over them (opaque, born timestamp, the
//! changing end of each UNIQ_KEY). The offsets are found by encoding with marks that stand nowhere else.

use bytes::BytesMut;
use client::rocketmq::control::CLIENT_VERSION;
use client::rocketmq::producer::send_request;
use client::rocketmq::unique_key::{Stamp, TAIL_AT, TAIL_SIZE, TIMESTAMP_SIZE, put_digits};
use format::batch_body::BatchItem;
use format::properties::{append, names};
use wire::rocketmq::code::request::{SEND_BATCH_MESSAGE, SEND_MESSAGE_V2};
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::{FLAG_ONE_WAY, Form, Header, Language, encode_head};
use wire::rocketmq::header::SendRequest;

use crate::load::options::SendOptions;
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::reply::OPAQUE_AT;
use crate::rocketmq::route::TopicQueues;

const JSON_OPAQUE_NAME: &str = "\"opaque\":";
const OPAQUE_DIGITS: usize = 10;

const OPAQUE_MARK: i32 = 1_987_654_321;
const BORN_MARK: i64 = 9_876_543_210_987;
const TAIL_MARK: &str = "FFFFFFFFFFFF";
const _: () = assert!(TAIL_MARK.len() == TAIL_SIZE);

/// Bytes with the offsets of what changes.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    /// Where the tails of ids stand; those of one message follow each other.
    tails_at: Vec<usize>,
}

#[derive(Debug)]
struct Head {
    part: Part,
    opaque_at: usize,
    born_at: usize,
}

/// Everything one broker's sends are made of.
#[derive(Debug)]
pub struct Template {
    /// For each size those of all queues.
    heads: Vec<Head>,
    bodies: Vec<Part>,
    form: Form,
    /// How often each message's id stands in it: 1, or 2 with KEYS.
    tails_per_message: usize,
}

impl Template {
    /// Encodes the sends `options` ask for, to every queue of `topics`; `prefix` begins every id.
    pub fn new(options: &SendOptions, rocketmq: RocketMq, topics: &[TopicQueues], prefix: &str) -> Self {
        let id = format!("{prefix}{TAIL_MARK}");
        let properties = property_block(options, rocketmq, &id);
        let batched = options.batch > 1;
        let bodies: Vec<_> =
            options.message_sizes.iter().map(|&size| Part::new(body_of(options, size, &properties), &id)).collect();
        let mut wait = Vec::new();
        append(&mut wait, names::WAIT, "true");
        let head_properties = String::from_utf8_lossy(if batched { &wait } else { &properties });
        let form = rocketmq.form.wire();
        let queues = || topics.iter().flat_map(|topic| (0..topic.queues).map(|queue| (&*topic.topic, queue)));
        let head =
            |queue, body: &Part| encode_queue_head(options, form, queue, &head_properties, &id, body.bytes.len());
        let heads = bodies.iter().flat_map(|body| queues().map(move |queue| head(queue, body))).collect();
        Self { heads, bodies, form, tails_per_message: 1 + usize::from(options.keys) }
    }

    /// Appends send number `number` to `out`: sends go to all queues in turn, and once round to each with the next size.
    pub fn append(&self, out: &mut Vec<u8>, number: usize, opaque: u32, stamp: &mut Stamp) {
        let at = number % self.heads.len().max(1);
        let body = self.bodies.get(at * self.bodies.len() / self.heads.len().max(1));
        let (Some(head), Some(body)) = (self.heads.get(at), body) else { return };
        let start = out.len();
        out.extend_from_slice(&head.part.bytes);
        out.extend_from_slice(&body.bytes);
        let (head_bytes, body_bytes) = out[start..].split_at_mut(head.part.bytes.len());
        match self.form {
            Form::Binary => head_bytes[head.opaque_at..head.opaque_at + 4].copy_from_slice(&opaque.to_be_bytes()),
            Form::Json => put_digits(&mut head_bytes[head.opaque_at..head.opaque_at + OPAQUE_DIGITS], opaque.into()),
        }
        head_bytes[head.born_at..head.born_at + TIMESTAMP_SIZE].copy_from_slice(stamp.born());
        patch_tails(head_bytes, &head.part.tails_at, self.tails_per_message, stamp);
        patch_tails(body_bytes, &body.tails_at, self.tails_per_message, stamp);
    }
}

impl Part {
    fn new(bytes: Vec<u8>, id: &str) -> Self {
        let tails_at = find_all(&bytes, id.as_bytes()).map(|at| at + TAIL_AT).collect();
        Self { bytes, tails_at }
    }
}

fn patch_tails(bytes: &mut [u8], tails_at: &[usize], per_message: usize, stamp: &mut Stamp) {
    for message in tails_at.chunks(per_message) {
        let tail = stamp.next_tail();
        for &at in message {
            bytes[at..at + TAIL_SIZE].copy_from_slice(tail);
        }
    }
}

/// A body of `size` bytes, or a batch of them.
fn body_of(options: &SendOptions, size: usize, properties: &[u8]) -> Vec<u8> {
    let payload: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
    if options.batch == 1 {
        return payload;
    }
    let mut body = BytesMut::new();
    for _ in 0..options.batch {
        BatchItem { flag: 0, body: &payload, properties }.encode(&mut body);
    }
    body.to_vec()
}

/// The properties as an official client orders its own: id, WAIT, KEYS, TAGS, then the user's.
fn property_block(options: &SendOptions, rocketmq: RocketMq, id: &str) -> Vec<u8> {
    let mut block = Vec::new();
    if rocketmq.unique_key {
        append(&mut block, names::UNIQUE_KEY, id);
    }
    append(&mut block, names::WAIT, "true");
    if options.keys {
        append(&mut block, names::KEYS, id);
    }
    if let Some(tag) = &options.tag {
        append(&mut block, names::TAGS, tag);
    }
    for (name, value) in &options.properties {
        append(&mut block, name, value);
    }
    block
}

fn encode_queue_head(
    options: &SendOptions,
    form: Form,
    (topic, queue): (&str, u32),
    properties: &str,
    id: &str,
    body_len: usize,
) -> Head {
    let batched = options.batch > 1;
    let fields = SendRequest { batch: Some(batched), ..send_request((topic, queue), BORN_MARK, properties) };
    let header = Header {
        code: if batched { SEND_BATCH_MESSAGE } else { SEND_MESSAGE_V2 },
        language: Language::RUST,
        version: CLIENT_VERSION,
        opaque: OPAQUE_MARK,
        flag: if options.one_way { FLAG_ONE_WAY } else { 0 },
        remark: None,
    };
    let mut bytes = BytesMut::new();
    encode_head(&mut bytes, form, &header, |sink| fields.encode(sink), body_len);
    let opaque_at = match form {
        Form::Binary => OPAQUE_AT,
        Form::Json => {
            let mark = format!("{JSON_OPAQUE_NAME}{OPAQUE_MARK}");
            find_all(&bytes, mark.as_bytes()).last().unwrap_or_default() + JSON_OPAQUE_NAME.len()
        }
    };
    let born_at = find_all(&bytes, BORN_MARK.to_string().as_bytes()).next().unwrap_or_default();
    Head { part: Part::new(bytes.to_vec(), id), opaque_at, born_at }
}

fn find_all<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    bytes.windows(wanted.len()).enumerate().filter(move |(_, window)| *window == wanted).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocketmq::options::HeaderForm;
    use crate::rocketmq::window::OPAQUE_BASE;
    use client::rocketmq::unique_key::prefix;
    use format::batch_body::items;
    use format::properties::find;
    use wire::rocketmq::frame::{Command, frame_len};

    fn frames(options: &SendOptions, rocketmq: RocketMq, count: usize) -> Vec<Vec<u8>> {
        let topics: Vec<_> = ["first", "second"].map(|topic| TopicQueues { topic: topic.into(), queues: 6 }).into();
        let template = Template::new(options, rocketmq, &topics, &prefix(1, 2, 3));
        let mut stamp = Stamp::new(1_700_000_000_123);
        let append_one = |number: usize| {
            let mut out = b"before".to_vec();
            template.append(&mut out, number, OPAQUE_BASE + number as u32, &mut stamp);
            out.split_off(6)
        };
        (0..count).map(append_one).collect()
    }

    #[test]
    fn every_send_decodes_to_what_was_asked_for() {
        for form in [HeaderForm::Binary, HeaderForm::Json] {
            let options = SendOptions {
                keys: true,
                tag: Some("A".into()),
                properties: vec![("colour".into(), "dark \"blue\"".into())],
                message_sizes: vec![100, 30],
                ..SendOptions::default()
            };
            let mut ids = Vec::new();
            for (number, bytes) in frames(&options, RocketMq { form, unique_key: true }, 24).iter().enumerate() {
                assert_eq!(frame_len(bytes), Ok(Some(bytes.len())));
                let command = Command::decode(bytes).expect("decodes");
                assert_eq!((command.header.code, command.header.flag), (SEND_MESSAGE_V2, 0));
                assert_eq!(command.header.opaque, (OPAQUE_BASE as usize + number) as i32);
                let request = SendRequest::decode(&command.fields).expect("header");
                assert_eq!((request.queue_id, request.born_timestamp), ((number % 6) as i32, 1_700_000_000_123));
                let topic = if number % 12 < 6 { "first" } else { "second" };
                assert_eq!((&*request.topic, command.body.len()), (topic, if number < 12 { 100 } else { 30 }));
                let properties = request.properties.expect("properties").into_owned();
                let property = |name| find(properties.as_bytes(), name).map(str::to_owned);
                assert_eq!(property(names::TAGS).as_deref(), Some("A"));
                assert_eq!(property("colour").as_deref(), Some("dark \"blue\""));
                assert_eq!(property(names::KEYS), property(names::UNIQUE_KEY));
                ids.extend(property(names::UNIQUE_KEY));
            }
            ids.sort();
            ids.dedup();
            assert_eq!((ids.len(), ids[0].len()), (24, 32));
        }
    }

    #[test]
    fn batches_carry_their_items_each_with_its_id() {
        let options = SendOptions { batch: 7, one_way: true, message_sizes: vec![9], ..SendOptions::default() };
        let mut ids = Vec::new();
        for bytes in &frames(&options, RocketMq::default(), 3) {
            let command = Command::decode(bytes).expect("decodes");
            assert_eq!((command.header.code, command.header.flag), (SEND_BATCH_MESSAGE, FLAG_ONE_WAY));
            assert_eq!(SendRequest::decode(&command.fields).expect("header").batch, Some(true));
            for item in items(command.body) {
                let item = item.expect("item");
                assert_eq!(item.body, b"abcdefghi");
                ids.push(find(item.properties, names::UNIQUE_KEY).expect("id").to_owned());
            }
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 21);
    }

    #[test]
    fn without_an_id_nothing_is_patched_into_the_properties() {
        let without = RocketMq { unique_key: false, ..RocketMq::default() };
        let bytes = frames(&SendOptions::default(), without, 1).remove(0);
        let command = Command::decode(&bytes).expect("decodes");
        let request = SendRequest::decode(&command.fields).expect("header");
        assert_eq!(request.properties.as_deref(), Some("WAIT\u{1}true\u{2}"));
    }
}
