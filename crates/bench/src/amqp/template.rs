//! Publishes encoded once: for each size of bodies one to each place messages go to. A publish is then one copy, with the channel's number
//! and a mark written over it.

use bytes::BytesMut;
use client::amqp::control::table_of;
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind, OVERHEAD_SIZE};
use wire::amqp::method::Method;
use wire::amqp::method::basic::Publish;
use wire::amqp::table::{Value, write_table};

use crate::amqp::mark::{self, Mark};
use crate::amqp::topology::Place;
use crate::load::options::SendOptions;

const TRANSIENT: u8 = 1;

/// One publish.
#[derive(Debug)]
struct Publication {
    bytes: Vec<u8>,
    /// Where its frames have their channel.
    channels_at: Vec<usize>,
    /// Where its body begins, if that has room for a mark.
    mark_at: Option<usize>,
}

/// What a run publishes.
#[derive(Debug)]
pub struct Template {
    /// For each size those to all places.
    publications: Vec<Publication>,
}

impl Template {
    /// Encodes what `options` ask for, in frames of at most `frame_max` bytes.
    pub fn new(options: &SendOptions, is_transient: bool, places: &[Place], frame_max: usize) -> Self {
        let publication = |size, place| Publication::new(options, is_transient, size, place, frame_max);
        let of_size = |&size: &usize| places.iter().map(move |place| publication(size, place));
        Self { publications: options.message_sizes.iter().flat_map(of_size).collect() }
    }

    /// Appends message number `number` to `out`: messages go to all places in turn, and once round to each with the next size.
    #[inline]
    pub fn append(&self, out: &mut Vec<u8>, number: usize, channel: u16, mark: Mark) {
        let Some(publication) = self.publications.get(number % self.publications.len().max(1)) else { return };
        let start = out.len();
        out.extend_from_slice(&publication.bytes);
        let bytes = &mut out[start..];
        for &at in &publication.channels_at {
            bytes[at..at + size_of::<u16>()].copy_from_slice(&channel.to_be_bytes());
        }
        if let Some(at) = publication.mark_at {
            bytes[at..at + mark::SIZE].copy_from_slice(&mark.bytes());
        }
    }
}

impl Publication {
    fn new(options: &SendOptions, is_transient: bool, size: usize, place: &Place, frame_max: usize) -> Self {
        let body: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
        let exchange = ShortString::cut(place.exchange.as_bytes());
        let routing_key = ShortString::cut(place.routing_key.as_bytes());
        let publish = Publish { exchange, routing_key, ..Publish::default() };
        let mut headers = BytesMut::new();
        write_table(&mut headers, |table| {
            for (name, value) in &options.properties {
                table.put(name, Value::LongString(value.as_bytes()));
            }
        });
        let properties = Properties {
            headers: (!options.properties.is_empty()).then(|| table_of(&headers)),
            delivery_mode: Some(if is_transient { TRANSIENT } else { PERSISTENT }),
            ..Properties::default()
        };
        let (mut out, mut frames_at, mut mark_at) = (BytesMut::new(), vec![0], None);
        frame::encode(&mut out, Kind::Method, 0, |out| Method::from(publish).encode(out));
        frames_at.push(out.len());
        let header = ContentHeader { body_size: size as u64, properties };
        frame::encode(&mut out, Kind::Header, 0, |out| header.encode(out));
        for part in body.chunks(frame_max - OVERHEAD_SIZE) {
            frames_at.push(out.len());
            mark_at.get_or_insert(out.len() + frame::HEAD_SIZE);
            frame::encode(&mut out, Kind::Body, 0, |out| out.extend_from_slice(part));
        }
        // The kind stands in front of the channel.
        let channels_at = frames_at.into_iter().map(|at| at + 1).collect();
        Self { bytes: out.to_vec(), channels_at, mark_at: mark_at.filter(|_| size >= mark::SIZE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { channel: 3, number: 77, due_ns: 5 };

    fn frames(bytes: &[u8]) -> Vec<frame::Frame<'_>> {
        let (mut frames, mut rest) = (Vec::new(), bytes);
        while let Some(frame) = frame::decode(rest, 4096).expect("frames") {
            frames.push(frame);
            rest = &rest[frame.size()..];
        }
        assert!(rest.is_empty());
        frames
    }

    #[test]
    fn publishes_go_to_all_places_in_all_sizes_with_channel_and_mark() {
        let places = ["one", "two"].map(|key| Place { exchange: "e".to_owned(), routing_key: key.to_owned() });
        let properties = vec![("name".to_owned(), "value".to_owned())];
        let options = SendOptions { message_sizes: vec![15, 16, 10_000], properties, ..SendOptions::default() };
        let template = Template::new(&options, false, &places, 4096);
        let mut keys = Vec::new();
        for (number, size) in [(0, 15), (1, 15), (2, 16), (3, 16), (4, 10_000), (5, 10_000), (6, 15)] {
            let mut out = b"before".to_vec();
            template.append(&mut out, number, 513, MARK);
            let frames = frames(&out[6..]);
            assert!(frames.iter().all(|frame| frame.channel == 513 && frame.size() <= 4096));
            let Ok(Method::Publish(publish)) = Method::decode(frames[0].payload) else { panic!("no publish") };
            keys.push(publish.routing_key.text().expect("text").to_owned());
            let header = ContentHeader::decode(frames[1].payload).expect("a header");
            assert_eq!((header.body_size, header.properties.delivery_mode), (size, Some(PERSISTENT)));
            let headers = header.properties.headers.expect("headers");
            assert_eq!(headers.get("name"), Some(Value::LongString(b"value")));
            let body: Vec<u8> = frames[2..].iter().flat_map(|frame| frame.payload).copied().collect();
            assert_eq!(body.len() as u64, size);
            let mark = body.first_chunk().filter(|_| size >= 16).map(|bytes| Mark::read(*bytes));
            assert_eq!(mark, (size >= 16).then_some(MARK));
        }
        assert_eq!(keys, ["one", "two", "one", "two", "one", "two", "one"]);
    }
}
