//! What a broker tells a name server when it registers (body of 103): its topics, their version, its filter servers.
//!
//! There are two forms, chosen by the header's `compressed`. The plain one is one JSON object. The packed one is a zlib
//! stream of sections, every count and length a signed 32-bit number:
//!
//! ```text
//! length, data version as JSON
//! count of topics
//!   length, "name readQueues writeQueues permission filterType attributes", the attributes from 5.x on, as JSON
//! length, filter servers as a JSON array
//! count of static-queue mappings (brokers from 5.0.0 on)
//!   length, mapping as JSON
//! ```
//!
//! The packed form does not carry a topic's system flag and order; they take their defaults. It is read as a stream:
//! memory follows what is read, so a small body that unpacks to a huge one is refused at a limit, not after it.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base::cursor::DecodeError;
use base::limits::FRAME_SIZE_MAX;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use format::document::{DataVersion, TopicDocument, TopicTableDocument};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::json::{decode, decode_any, null_as_default};
pub use super::registered_topic::OddTopics;
use super::registered_topic::{PlainTopic, read_line};

/// First version whose packed form ends with mappings (`V5_0_0`).
pub const MAPPINGS_VERSION: i32 = 413;

/// Bytes a packed registration may unpack to. Topic lines shrink to about a quarter, so a full frame stays below it.
pub const UNPACKED_SIZE_MAX: usize = 4 * FRAME_SIZE_MAX;

/// Topics in one registration: the plain form fits some 100 000 into a frame, the packed form more.
pub const REGISTERED_TOPICS_MAX: usize = 300_000;

/// Bytes of one section of the packed form: far above a topic with all its attributes, or all filter servers.
pub const SECTION_SIZE_MAX: usize = 1024 * 1024;

/// Filter servers of one broker; the feature ended with 4.9 and never had more than a few.
pub const FILTER_SERVERS_MAX: usize = 1024;

/// First byte of every zlib stream with the usual window.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// A broker's registration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// Topics and their version.
    pub topics: TopicTableDocument,
    /// Addresses of filter servers.
    pub filter_servers: Vec<String>,
    /// Static-queue mappings by topic, kept as they came.
    pub mappings: BTreeMap<String, Value>,
    /// Topics that were not as they should be.
    pub odd: OddTopics,
}

/// Why a registration could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The body's checksum is not the header's.
    #[error("crc32 not match: the body was changed on its way; register again")]
    ChecksumMismatch,
    /// The body cannot be read, or exceeds a limit.
    #[error("the registration cannot be read: {0}")]
    Malformed(#[from] DecodeError),
}

/// The checksum of a body as RocketMQ writes it: CRC-32 without its top bit.
pub fn body_checksum(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7FFF_FFFF) as i32
}

/// Reads a data version as it travels alone (322).
pub fn decode_data_version(body: &[u8]) -> Result<DataVersion, DecodeError> {
    decode("data version", body)
}

/// Writes a data version as it travels alone (322).
pub fn encode_data_version(version: &DataVersion) -> Bytes {
    // Three numbers always have a JSON form.
    serde_json::to_vec(version).unwrap_or_default().into()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlainBody {
    #[serde(deserialize_with = "null_as_default")]
    filter_server_list: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    topic_config_serialize_wrapper: PlainTopics,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlainTopics {
    #[serde(deserialize_with = "null_as_default")]
    data_version: DataVersion,
    #[serde(deserialize_with = "null_as_default")]
    topic_config_table: BTreeMap<String, Option<PlainTopic>>,
    #[serde(deserialize_with = "null_as_default")]
    topic_queue_mapping_info_map: BTreeMap<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlainBodyOut<'a> {
    filter_server_list: &'a [String],
    topic_config_serialize_wrapper: PlainTopicsOut<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlainTopicsOut<'a> {
    data_version: DataVersion,
    topic_config_table: &'a BTreeMap<String, TopicDocument>,
    topic_queue_mapping_info_map: &'a BTreeMap<String, Value>,
}

impl Registration {
    /// Reads a body. `version` is the sender's, from the header; `checksum` the header's, 0 or absent for none.
    pub fn decode(
        body: &[u8],
        is_packed: bool,
        version: i32,
        checksum: Option<i32>,
    ) -> Result<Self, RegistrationError> {
        if checksum.is_some_and(|checksum| checksum != 0 && checksum != body_checksum(body)) {
            return Err(RegistrationError::ChecksumMismatch);
        }
        // A broker without anything to tell sends no body.
        if body.is_empty() {
            return Ok(Self::default());
        }
        // Brokers of 5.4.0 pack the body of a single topic without saying so; no JSON begins like a zlib stream.
        let is_packed = is_packed || body.first() == Some(&ZLIB_FIRST_BYTE);
        let registration = if is_packed { decode_packed(body, version)? } else { decode_plain(body)? };
        within(registration.filter_servers.len(), FILTER_SERVERS_MAX, "filter servers")?;
        Ok(registration)
    }

    /// Writes the plain form.
    pub fn encode_plain(&self) -> Bytes {
        let body = PlainBodyOut {
            filter_server_list: &self.filter_servers,
            topic_config_serialize_wrapper: PlainTopicsOut {
                data_version: self.topics.data_version,
                topic_config_table: &self.topics.topic_config_table,
                topic_queue_mapping_info_map: &self.mappings,
            },
        };
        // Maps with text keys and plain numbers always have a JSON form.
        serde_json::to_vec(&body).unwrap_or_default().into()
    }

    /// Writes the packed form for a name server that takes the sender to be of `version`.
    ///
    /// A topic without attributes is written as 4.9 writes it; name servers of 4.9 cannot read a line with attributes.
    pub fn encode_packed(&self, version: i32) -> Bytes {
        let mut packer = Packer(ZlibEncoder::new(Vec::new(), Compression::best()));
        packer.json_section(&self.topics.data_version);
        packer.number(self.topics.topic_config_table.len());
        for topic in self.topics.topic_config_table.values() {
            packer.section(topic_line(topic).as_bytes());
        }
        packer.json_section(&self.filter_servers);
        if version >= MAPPINGS_VERSION {
            packer.number(self.mappings.len());
            for mapping in self.mappings.values() {
                packer.json_section(mapping);
            }
        }
        // Packing into memory cannot fail.
        packer.0.finish().unwrap_or_default().into()
    }
}

fn decode_plain(body: &[u8]) -> Result<Registration, DecodeError> {
    let PlainBody { filter_server_list, topic_config_serialize_wrapper: wrapper } = decode("registration", body)?;
    within(wrapper.topic_config_table.len(), REGISTERED_TOPICS_MAX, "topics")?;
    let mut odd = OddTopics::default();
    let mut topics = BTreeMap::new();
    for (key, topic) in wrapper.topic_config_table {
        match topic {
            Some(topic) => drop(topics.insert(key.clone(), topic.usable(&key, &mut odd))),
            None => odd.leave_out(&key, "it is null"),
        }
    }
    Ok(Registration {
        topics: TopicTableDocument { data_version: wrapper.data_version, topic_config_table: topics },
        filter_servers: filter_server_list,
        mappings: wrapper.topic_queue_mapping_info_map,
        odd,
    })
}

fn decode_packed(body: &[u8], version: i32) -> Result<Registration, DecodeError> {
    let mut unpacker = Unpacker::new(body);
    let mut registration = Registration::default();
    registration.topics.data_version = decode("data version", unpacker.section("data version")?)?;
    let topic_count = unpacker.count(REGISTERED_TOPICS_MAX, "topics")?;
    for _ in 0..topic_count {
        if let Some(topic) = read_line(unpacker.section("topic")?, &mut registration.odd) {
            registration.topics.topic_config_table.insert(topic.topic_name.clone(), topic);
        }
    }
    let filter_servers = unpacker.section("filter servers")?;
    if !filter_servers.is_empty() {
        registration.filter_servers = decode_any("filter servers", filter_servers)?;
    }
    if version >= MAPPINGS_VERSION {
        let mapping_count = unpacker.count(REGISTERED_TOPICS_MAX, "mappings")?;
        for _ in 0..mapping_count {
            let mapping: Value = decode("mapping", unpacker.section("mapping")?)?;
            if let Some(topic) = mapping.get("topic").and_then(Value::as_str) {
                registration.mappings.insert(topic.to_owned(), mapping);
            }
        }
    }
    Ok(registration)
}

fn within(count: usize, limit: usize, what: &'static str) -> Result<(), DecodeError> {
    if count > limit {
        return Err(DecodeError::BadLength { what, found: count as i64, limit: limit as i64 });
    }
    Ok(())
}

fn topic_line(topic: &TopicDocument) -> String {
    let mut line = format!(
        "{} {} {} {} {}",
        topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_filter_type
    );
    if !topic.attributes.is_empty() {
        line.push(' ');
        line.push_str(&serde_json::to_string(&topic.attributes).unwrap_or_default());
    }
    line
}

struct Packer(ZlibEncoder<Vec<u8>>);

impl Packer {
    fn number(&mut self, number: usize) {
        self.bytes(&(number as u32).to_be_bytes());
    }

    fn section(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.bytes(bytes);
    }

    fn json_section(&mut self, value: &impl Serialize) {
        self.section(&serde_json::to_vec(value).unwrap_or_default());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // Packing into memory cannot fail.
        let _ = self.0.write_all(bytes);
    }
}

/// Reads sections off a zlib stream, into one buffer that is reused.
struct Unpacker<'a> {
    stream: std::io::Take<ZlibDecoder<&'a [u8]>>,
    section: Vec<u8>,
}

impl<'a> Unpacker<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self { stream: ZlibDecoder::new(body).take(UNPACKED_SIZE_MAX as u64), section: Vec::new() }
    }

    fn fill(&mut self, len: usize, what: &'static str) -> Result<(), DecodeError> {
        self.section.clear();
        let read = (&mut self.stream).take(len as u64).read_to_end(&mut self.section);
        if read.is_err() {
            return Err(DecodeError::BadValue { what, found: "a zlib stream that is broken or not one".to_owned() });
        }
        if self.section.len() < len {
            if self.stream.limit() == 0 {
                let limit = UNPACKED_SIZE_MAX as i64;
                return Err(DecodeError::BadLength { what: "unpacked registration", found: limit + 1, limit });
            }
            return Err(DecodeError::Truncated { what, needed: len, found: self.section.len() });
        }
        Ok(())
    }

    fn count(&mut self, limit: usize, what: &'static str) -> Result<usize, DecodeError> {
        self.fill(4, what)?;
        base::cursor::Reader::new(&self.section).length_i32(limit, what)
    }

    fn section(&mut self, what: &'static str) -> Result<&[u8], DecodeError> {
        let len = self.count(SECTION_SIZE_MAX, what)?;
        self.fill(len, what)?;
        Ok(&self.section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packed by a broker of 5.4.0: topics t1 (4 read, 8 write queues, an attribute) and t2, filter server f:1.
    const PACKED_BY_5_4: &str = "78da636060b0a8564ace2fcd2b492d52b232d0512a2e492c490d4b2d2acecccf030b9464e6a60205730b94ac0ccd0d10a0968181\
        810988754a0c154c142c14cc14823dfddc7d5ce3431cdd15aa95b481ba8a13d353f54a2a0b5295ac94dc3cddfc95407ac44a8c14\
        8c8110553d48863d5a29cdca502916c8640000663f2667";
    /// Packed by a broker of 4.9.7: the same topics, no attributes, no filter server.
    const PACKED_BY_4_9: &str = "78da63606050af564ace2fcd2b492d52b232d0512ac9cc4d2d2e49cc2d50b23234b7343532310092a6c616b50c0c0c4c402c5c62\
        a860a260a160a610ece9e7eee31a1fe2e80e1636523006423461a6e85800adc11662";

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn topic(name: &str, read_queues: u32, write_queues: u32) -> TopicDocument {
        TopicDocument {
            topic_name: name.to_owned(),
            read_queue_nums: read_queues,
            write_queue_nums: write_queues,
            ..TopicDocument::default()
        }
    }

    fn registration() -> Registration {
        let mut fifo = topic("t1", 4, 8);
        fifo.attributes.insert("+message.type".to_owned(), "FIFO".to_owned());
        Registration {
            topics: TopicTableDocument {
                data_version: DataVersion { counter: 0, state_version: 0, timestamp: 1_700_000_000_000 },
                topic_config_table: BTreeMap::from([("t1".to_owned(), fifo), ("t2".to_owned(), topic("t2", 3, 3))]),
            },
            filter_servers: vec!["f:1".to_owned()],
            ..Registration::default()
        }
    }

    fn with_mapping() -> Registration {
        let mapping = serde_json::json!({"bname": "b-a", "currIdMap": {"0": 1}, "epoch": 3, "topic": "t1"});
        Registration { mappings: BTreeMap::from([("t1".to_owned(), mapping)]), ..registration() }
    }

    #[test]
    fn what_official_brokers_pack_is_read() {
        let packed = bytes_of(PACKED_BY_5_4);
        assert_eq!(Registration::decode(&packed, true, 493, Some(body_checksum(&packed))), Ok(registration()));
        let old = Registration::decode(&bytes_of(PACKED_BY_4_9), true, 407, None).expect("reads");
        assert!(old.filter_servers.is_empty() && old.topics.data_version.counter == 0);
        assert_eq!(old.topics.topic_config_table["t1"], topic("t1", 4, 8));
        assert_eq!(old.topics.topic_config_table["t2"], topic("t2", 3, 3));
    }

    #[test]
    fn what_official_brokers_write_plainly_is_read() {
        let text = br#"{"filterServerList":["f:1"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1795240605709},"topicConfigTable":{"t1":{"attributes":{"+message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"t1","topicSysFlag":0,"writeQueueNums":8},"t2":{"attributes":{},"order":false,"perm":6,"readQueueNums":3,"topicFilterType":"SINGLE_TAG","topicName":"t2","topicSysFlag":0,"writeQueueNums":3}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{"t1":{"bname":"b-a","currIdMap":{0:1},"epoch":3,"topic":"t1"}}}}"#;
        assert_eq!(Registration::decode(text, false, 493, Some(0)), Ok(with_mapping()));
        let old = br#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":5},"topicConfigTable":{"t2":{"order":false,"perm":6,"readQueueNums":3,"topicFilterType":"SINGLE_TAG","topicSysFlag":0,"writeQueueNums":3}}}}"#;
        let read = Registration::decode(old, false, 407, None).expect("reads");
        assert_eq!(read.topics.topic_config_table["t2"], topic("t2", 3, 3));
    }

    #[test]
    fn both_forms_come_back_as_they_went() {
        for registration in [Registration::default(), registration(), with_mapping()] {
            let plain = registration.encode_plain();
            let checksum = Some(body_checksum(&plain));
            assert_eq!(Registration::decode(&plain, false, 493, checksum).as_ref(), Ok(&registration));
            let packed = registration.encode_packed(493);
            assert_eq!(Registration::decode(&packed, true, 493, None).as_ref(), Ok(&registration));
        }
        let registration = registration();
        assert_eq!(Registration::decode(&registration.encode_packed(407), true, 407, None), Ok(registration));
    }

    #[test]
    fn a_data_version_that_travels_alone_comes_back_as_it_went() {
        let version = DataVersion { counter: 7, state_version: 2, timestamp: 1_700_000_000_000 };
        assert_eq!(decode_data_version(&encode_data_version(&version)), Ok(version));
        let official = br#"{"counter":3,"stateVersion":0,"timestamp":5}"#;
        assert_eq!(decode_data_version(official), Ok(DataVersion { counter: 3, state_version: 0, timestamp: 5 }));
        assert!(decode_data_version(b"x").is_err());
    }

    #[test]
    fn as_many_filter_servers_are_read_as_may_be_and_no_more() {
        let read = |count: usize| {
            let filter_servers = vec!["f:1".to_owned(); count];
            let body = Registration { filter_servers, ..registration() }.encode_plain();
            Registration::decode(&body, false, 493, None).map(|read| read.filter_servers.len())
        };
        assert_eq!(read(FILTER_SERVERS_MAX), Ok(FILTER_SERVERS_MAX));
        for count in [FILTER_SERVERS_MAX + 1, 2 * FILTER_SERVERS_MAX] {
            assert!(matches!(read(count), Err(RegistrationError::Malformed(DecodeError::BadLength { .. }))), "{count}");
        }
    }

    #[test]
    fn a_changed_body_is_told_by_its_checksum() {
        let body = registration().encode_plain();
        let checksum = Some(body_checksum(&body) ^ 1);
        assert_eq!(Registration::decode(&body, false, 493, checksum), Err(RegistrationError::ChecksumMismatch));
    }

    #[test]
    fn an_empty_body_registers_no_topics() {
        for is_packed in [false, true] {
            assert_eq!(Registration::decode(b"", is_packed, 493, Some(0)), Ok(Registration::default()));
        }
    }

    fn pack(write: impl FnOnce(&mut Packer)) -> Vec<u8> {
        let mut packer = Packer(ZlibEncoder::new(Vec::new(), Compression::fast()));
        write(&mut packer);
        packer.0.finish().expect("packs")
    }

    /// Each is refused for what it claims, before anything is read or made room for: another reason would mean that it was believed.
    #[test]
    fn no_packed_body_makes_reading_grow_without_bound() {
        let too_long = |what, found, limit: usize| DecodeError::BadLength { what, found, limit: limit as i64 };
        let count_of = |count: usize| {
            pack(|p| {
                p.section(b"{}");
                p.number(count);
            })
        };
        let (longest, section) = (i32::MAX as usize, SECTION_SIZE_MAX + 1);
        let lies = [
            ("a huge count", count_of(longest), too_long("topics", longest as i64, REGISTERED_TOPICS_MAX)),
            ("a count of one more", count_of(300_001), too_long("topics", 300_001, REGISTERED_TOPICS_MAX)),
            ("a negative count", count_of(u32::MAX as usize), too_long("topics", -1, REGISTERED_TOPICS_MAX)),
            (
                "a huge section that is there",
                pack(|p| p.section(&vec![b' '; section])),
                too_long("data version", section as i64, SECTION_SIZE_MAX),
            ),
            (
                "a negative section",
                pack(|p| p.number(u32::MAX as usize)),
                too_long("data version", -1, SECTION_SIZE_MAX),
            ),
            (
                "fewer topics than counted",
                count_of(REGISTERED_TOPICS_MAX),
                DecodeError::Truncated { what: "topic", needed: 4, found: 0 },
            ),
        ];
        for (name, body, reason) in lies {
            assert_eq!(
                Registration::decode(&body, true, 493, None),
                Err(RegistrationError::Malformed(reason)),
                "{name}"
            );
        }
    }

    /// Every section within its own limit, and as many as were announced: only their sum is too much.
    #[test]
    fn a_packed_body_is_read_up_to_its_limit_and_no_further() {
        let body = |count: usize| {
            pack(|p| {
                p.section(b"{}");
                p.number(count);
                for number in 0..count {
                    let name = "t".repeat(SECTION_SIZE_MAX - 30);
                    p.section(format!("{name}{number} 1 1 6 SINGLE_TAG").as_bytes());
                }
                p.section(b"");
                p.number(0);
            })
        };
        let sections = UNPACKED_SIZE_MAX / SECTION_SIZE_MAX;
        assert!(Registration::decode(&body(sections - 1), true, 493, None).is_ok());
        let limit = UNPACKED_SIZE_MAX as i64;
        let too_much = DecodeError::BadLength { what: "unpacked registration", found: limit + 1, limit };
        let refused = Registration::decode(&body(sections + 1), true, 493, None);
        assert_eq!(refused, Err(RegistrationError::Malformed(too_much)));
    }

    #[test]
    fn an_odd_topic_costs_itself_and_no_other() {
        let odd = br#"{"topicConfigSerializeWrapper":{"topicConfigTable":{
            "a":{"topicName":"a","readQueueNums":-1,"writeQueueNums":4},
            "b":{"topicName":"b","attributes":{"+x":null,"+y":"z"},"perm":null},
            "c":null,
            "d":{"topicName":"d","writeQueueNums":99999999999,"topicFilterType":null,"order":null},
            "t":{"topicName":"t","readQueueNums":3,"writeQueueNums":3,"attributes":null}}}}"#;
        let read = Registration::decode(odd, false, 493, None).expect("reads");
        let topics = &read.topics.topic_config_table;
        assert_eq!(topics.keys().collect::<Vec<_>>(), ["a", "b", "d", "t"]);
        assert_eq!((topics["a"].read_queue_nums, topics["a"].write_queue_nums), (0, 4));
        assert_eq!((topics["b"].attributes.len(), &*topics["b"].attributes["+y"], topics["b"].perm), (1, "z", 6));
        assert_eq!((topics["d"].write_queue_nums, &*topics["d"].topic_filter_type), (i32::MAX as u32, "SINGLE_TAG"));
        assert_eq!(topics["t"], topic("t", 3, 3));
        let first = "topic [a]: readQueueNums is -1, taken as 0".to_owned();
        assert_eq!(read.odd, OddTopics { count: 4, left_out: 1, first: Some(first) });
    }

    #[test]
    fn an_odd_line_costs_its_topic_and_no_other() {
        let of = |lines: &[&[u8]]| {
            let body = pack(|p| {
                p.section(b"{}");
                p.number(lines.len() + 1);
                lines.iter().for_each(|line| p.section(line));
                p.section(b"t 3 3 6 SINGLE_TAG");
                p.section(b"[]");
                p.number(0);
            });
            let read = Registration::decode(&body, true, 493, None).expect("reads");
            assert_eq!(read.topics.topic_config_table["t"], topic("t", 3, 3));
            (read.topics.topic_config_table.len() - 1, read.odd)
        };
        for line in ["", "x", "x 1 1 6", "x y 1 6 SINGLE_TAG", " 1 1 6 SINGLE_TAG", "x 1 1 6 "] {
            let (others, odd) = of(&[line.as_bytes()]);
            assert_eq!((others, odd.count), (0, 1), "{line:?}");
        }
        assert_eq!(of(&[b"\xFF 1 1 6 SINGLE_TAG"]).1.count, 1);
        let (others, odd) = of(&[b"x -1 1 6 SINGLE_TAG"]);
        assert_eq!((others, odd.first.as_deref()), (1, Some("topic [x]: readQueueNums is -1, taken as 0")));
        assert_eq!(
            of(&[b"x 1 1 6 SINGLE_TAG {broken", br#"y 1 1 6 SINGLE_TAG {"a": "b c"}"#]),
            (2, OddTopics::default())
        );
    }
    #[test]
    fn no_changed_or_missing_byte_makes_reading_fail_badly() {
        for (is_packed, body) in [(false, with_mapping().encode_plain()), (true, with_mapping().encode_packed(493))] {
            for cut in 0..body.len() {
                let _ = Registration::decode(&body[..cut], is_packed, 493, None);
                for value in [0, 0x22, 0x7F, 0xFF] {
                    let mut changed = body.to_vec();
                    changed[cut] = value;
                    let _ = Registration::decode(&changed, is_packed, 493, None);
                }
            }
        }
    }
}
