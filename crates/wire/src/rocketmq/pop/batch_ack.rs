//! Many acknowledgements at once (200151 BATCH_ACK_MESSAGE, since 5.1.3), as RocketMQ's proxy sends them.
//!
//! Messages of one queue that were handed out together are bits: bit 0 is the message at the start offset. Bit 0 is the lowest of the first
//! byte, and the bytes stand in JSON as Base64.

use std::collections::BTreeSet;

use base::cursor::DecodeError;
use base::limits::FRAME_SIZE_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose};
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::origin::Origin;
use crate::rocketmq::body::json::{JsonDialect, decode, encode, null_as_default};

/// The body of 200151.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAckRequest {
    /// Acknowledgements; Java answers a body without any with `NO_MESSAGE`.
    #[serde(deserialize_with = "null_as_default")]
    pub acks: Vec<BatchAck>,
    /// Broker it goes to.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_name: String,
}

impl BatchAckRequest {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("batch of acknowledgements", body)
    }

    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode(self, JsonDialect::Strict)
    }
}

/// Messages of one queue that were handed out together. All but the bits must be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchAck {
    /// Which of them, from the start offset on.
    #[serde(rename = "b", alias = "bitSet", default)]
    pub bits: BitSet,
    /// Group.
    #[serde(rename = "c", alias = "consumerGroup")]
    pub consumer_group: String,
    /// How long they are invisible.
    #[serde(rename = "it", alias = "invisibleTime")]
    pub invisible_ms: i64,
    /// When they were handed out.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_timestamp: i64,
    /// Queue.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// Where they are stored.
    #[serde(rename = "r", alias = "retry", with = "flag")]
    pub origin: Origin,
    /// Queue of the revive topic, or `ORDER_REVIVE_QUEUE_ID`.
    #[serde(rename = "rq", alias = "reviveQueueId")]
    pub revive_queue_id: i32,
    /// The start offset of their receipts.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// The topic that was asked for.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl BatchAck {
    /// Their offsets, ascending; those that are no numbers of 64 bits left out.
    pub fn offsets(&self) -> impl Iterator<Item = i64> {
        self.bits.iter().map_while(|bit| self.start_offset.checked_add(i64::from(bit)))
    }
}

/// The flag of an origin.
mod flag {
    use super::{Deserialize, Deserializer, Origin, Serializer};

    pub(super) fn serialize<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(origin.flag())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
        let flag = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Origin::from_flag(&flag).ok_or_else(|| serde::de::Error::custom("the retry flag must be 0, 1 or 2"))
    }
}

/// Numbers from 0 on, a bit each: `java.util.BitSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitSet {
    /// Up to the last that is not zero.
    bytes: Vec<u8>,
}

impl BitSet {
    /// The largest number a frame has room for.
    pub const NUMBER_MAX: u32 = (FRAME_SIZE_MAX / 4 * 3 * 8 - 1) as u32;

    /// A set of `numbers`; those beyond `NUMBER_MAX` are left out.
    pub fn of(numbers: &BTreeSet<u32>) -> Self {
        let mut bytes = Vec::new();
        for number in numbers.range(..=Self::NUMBER_MAX) {
            bytes.resize(number.div_euclid(8) as usize + 1, 0_u8);
            if let Some(last) = bytes.last_mut() {
                *last |= 1 << (number % 8);
            }
        }
        Self { bytes }
    }

    /// Its numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bits_of = |byte: u8| (0..8_u32).filter(move |bit| byte >> bit & 1 == 1);
        (0_u32..).step_by(8).zip(&self.bytes).flat_map(move |(first, &byte)| bits_of(byte).map(move |bit| first + bit))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// As `java.util.Base64` reads it: padding may be missing, what is left over of the last character may be anything.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true),
);

impl Serialize for BitSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.bytes))
    }
}

/// A text that is empty or null is the empty set: Java writes that one so, and cannot read it.
impl<'de> Deserialize<'de> for BitSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<std::borrow::Cow<'_, str>>::deserialize(deserializer)?.unwrap_or_default();
        let mut bytes = BASE64.decode(text.as_bytes()).map_err(D::Error::custom)?;
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        Ok(Self { bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(bits: &[u32]) -> BatchAck {
        BatchAck {
            bits: BitSet::of(&bits.iter().copied().collect()),
            consumer_group: "g".to_owned(),
            invisible_ms: 60_000,
            pop_timestamp: 1_700_000_000_123,
            queue_id: 3,
            origin: Origin::Retry,
            revive_queue_id: 5,
            start_offset: 100,
            topic: "t".to_owned(),
        }
    }

    fn body(acks: &[BatchAck]) -> BatchAckRequest {
        BatchAckRequest { acks: acks.to_vec(), broker_name: "broker-a".to_owned() }
    }

    /// What `BatchAckMessageRequestBody.encode` gives for these bits.
    const OF_JAVA: &str = r#"{"acks":[{"b":"Iw==","c":"g","it":60000,"pt":1700000000123,"q":3,"r":"1","rq":5,"so":100,"t":"t"},{"b":"gAEAgAAAAIAB","c":"g","it":60000,"pt":1700000000123,"q":3,"r":"1","rq":5,"so":100,"t":"t"}],"brokerName":"broker-a"}"#;

    #[test]
    fn a_batch_is_the_bytes_of_java() {
        let request = body(&[ack(&[0, 1, 5]), ack(&[7, 8, 31, 63, 64])]);
        assert_eq!(request.encode(), OF_JAVA);
        assert_eq!(BatchAckRequest::decode(OF_JAVA.as_bytes()), Ok(request.clone()));
        let offsets: Vec<Vec<i64>> = request.acks.iter().map(|ack| ack.offsets().collect()).collect();
        assert_eq!(offsets, [vec![100, 101, 105], vec![107, 108, 131, 163, 164]]);
        assert_eq!(request.acks.iter().map(|ack| ack.bits.len()).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(body(&[]).encode(), r#"{"acks":[],"brokerName":"broker-a"}"#);
        assert_eq!(serde_json::to_string(&ack(&[]).bits).expect("writes"), r#""""#);
        assert_eq!(serde_json::to_string(&ack(&[0]).bits).expect("writes"), r#""AQ==""#);
        // The bits of 1000 alone.
        let far = format!("\"{}B\"", "A".repeat(167));
        assert_eq!(serde_json::to_string(&ack(&[1000]).bits).expect("writes"), far);
    }

    #[test]
    fn the_long_names_and_what_java_leaves_out_are_read() {
        let long = br#"{"acks":[{"bitSet":"Iw==","consumerGroup":"g","topic":"t","retry":"2","startOffset":5,"queueId":1,"reviveQueueId":2,"popTime":3,"invisibleTime":4}]}"#;
        let read = BatchAckRequest::decode(long).expect("reads");
        let expected = BatchAck {
            invisible_ms: 4,
            pop_timestamp: 3,
            queue_id: 1,
            origin: Origin::RetryV2,
            revive_queue_id: 2,
            start_offset: 5,
            ..ack(&[0, 1, 5])
        };
        assert_eq!(read, BatchAckRequest { acks: vec![expected], broker_name: String::new() });
        for none in ["{}", r#"{"acks":null,"brokerName":null}"#, r#"{"acks":[]}"#] {
            assert_eq!(BatchAckRequest::decode(none.as_bytes()), Ok(BatchAckRequest::default()), "{none}");
        }
    }

    #[test]
    fn bits_are_read_as_java_reads_them() {
        let read = |text: &str| serde_json::from_str::<BitSet>(text).ok().map(|bits| bits.iter().collect::<Vec<_>>());
        let first = Some(vec![0, 1, 5]);
        for text in [r#""Iw==""#, r#""Iw""#, r#""Iz==""#, r#""IwAA""#] {
            assert_eq!(read(text), first, "{text}");
        }
        assert_eq!(read(r#""/w==""#), Some((0..8).collect()));
        for none in [r#""""#, "null", r#""AAAA""#] {
            assert_eq!(read(none), Some(Vec::new()), "{none}");
        }
        for wrong in [r#""I""#, r#""I w==""#, r#""_w==""#, "[35]", "35", r#""Iw==x""#] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_batch_that_lacks_something_is_an_error() {
        for member in
            [r#""c":"g","#, r#""it":60000,"#, r#""pt":1700000000123,"#, r#""q":3,"#, r#""r":"1","#, r#""rq":5,"#]
        {
            assert!(BatchAckRequest::decode(OF_JAVA.replace(member, "").as_bytes()).is_err(), "without {member}");
        }
        for (right, wrong) in [
            (r#""r":"1""#, r#""r":"3""#),
            (r#""q":3"#, r#""q":99999999999"#),
            (r#""so":100,"#, ""),
            (r#""b":"Iw==""#, r#""b":"Iw*=""#),
            (r#""acks":[{"#, r#""acks":[null,{"#),
        ] {
            assert!(OF_JAVA.contains(right));
            assert!(BatchAckRequest::decode(OF_JAVA.replace(right, wrong).as_bytes()).is_err(), "{wrong}");
        }
        for text in ["", "[]", "{", r#"{"acks":{}}"#, OF_JAVA.split_at(100).0] {
            assert!(BatchAckRequest::decode(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn offsets_end_where_numbers_do() {
        let last = BatchAck { start_offset: i64::MAX - 1, ..ack(&[0, 1, 2]) };
        assert_eq!(last.offsets().collect::<Vec<_>>(), [i64::MAX - 1, i64::MAX]);
    }

    #[test]
    fn every_set_comes_back() {
        let mut state = 1_u32;
        for size in 0..200 {
            let numbers: BTreeSet<u32> = (0..size)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 20
                })
                .collect();
            let bits = BitSet::of(&numbers);
            let text = serde_json::to_string(&bits).expect("writes");
            assert_eq!(serde_json::from_str::<BitSet>(&text).expect("reads"), bits);
            assert_eq!(bits.iter().collect::<BTreeSet<_>>(), numbers);
            assert_eq!((bits.len(), bits.is_empty()), (numbers.len(), numbers.is_empty()));
        }
        let too_far = BTreeSet::from([1, BitSet::NUMBER_MAX + 1]);
        assert_eq!(BitSet::of(&too_far).iter().collect::<Vec<_>>(), [1]);
    }
}
