//! Streams of request frames made of a target's input: the raw bytes, or requests that are right but for what the
//! input changes.

use std::collections::BTreeMap;

use bytes::BytesMut;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, FLAG_ONE_WAY, Form, Header, Language};

use crate::taker::Taker;

/// First byte of an input whose rest is the stream itself.
pub const RAW: u8 = 0;
/// First byte of an input that directs which requests are made.
pub const DIRECTED: u8 = 1;

/// Requests of one input at most.
const REQUESTS_MAX: usize = 48;

/// Every field of every request with a value that makes sense; handlers ignore what they do not know.
pub const DEFAULTS: &[(&str, &str)] = &[
    ("producerGroup", "g1"),
    ("topic", "orders"),
    ("defaultTopic", "TBW102"),
    ("defaultTopicQueueNums", "4"),
    ("queueId", "0"),
    ("sysFlag", "6"),
    ("bornTimestamp", "1000000"),
    ("flag", "0"),
    ("properties", "TAGS\u{1}A\u{2}KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}u1\u{2}"),
    ("reconsumeTimes", "0"),
    ("unitMode", "false"),
    ("maxReconsumeTimes", "3"),
    ("a", "g1"),
    ("b", "orders"),
    ("c", "TBW102"),
    ("d", "4"),
    ("e", "0"),
    ("f", "0"),
    ("g", "1000000"),
    ("h", "0"),
    ("i", "TAGS\u{1}A\u{2}KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}u1\u{2}"),
    ("j", "0"),
    ("k", "false"),
    ("l", "3"),
    ("queueOffset", "0"),
    ("consumerGroup", "g1"),
    ("maxMsgNums", "32"),
    ("commitOffset", "0"),
    ("suspendTimeoutMillis", "15000"),
    ("subscription", "*"),
    ("subVersion", "1"),
    ("expressionType", "TAG"),
    ("key", "k1"),
    ("maxNum", "32"),
    ("beginTimestamp", "0"),
    ("endTimestamp", "9000000000000"),
    ("readQueueNums", "4"),
    ("writeQueueNums", "4"),
    ("perm", "6"),
    ("topicFilterType", "SINGLE_TAG"),
    ("topicSysFlag", "0"),
    ("order", "false"),
    ("timestamp", "1000"),
    ("clientID", "c1"),
    ("group", "g1"),
    ("delayLevel", "1"),
    ("originMsgId", "u1"),
    ("originTopic", "orders"),
    ("offset", "0"),
    ("namespace", "ORDER_TOPIC_CONFIG"),
    ("value", "b-a:4"),
    ("brokerName", "b-a"),
    ("brokerAddr", "127.0.0.1:10911"),
    ("clusterName", "c"),
    ("haServerAddr", "127.0.0.1:10912"),
    ("brokerId", "0"),
    ("cluster", "c"),
    ("groupName", "g1"),
    ("isForce", "true"),
    ("clientId", "c1"),
    ("srcGroup", "g1"),
    ("destGroup", "g2"),
    ("statsName", "TOPIC_PUT_NUMS"),
    ("statsKey", "orders"),
    ("isOrder", "false"),
    ("index", "0"),
    ("count", "10"),
];

/// Fields that are only there when an input asks for them.
const MORE_FIELDS: &[&str] = &[
    "batch",
    "m",
    "n",
    "bname",
    "maxMsgBytes",
    "_UNIQUE_KEY_QUERY",
    "indexType",
    "lastKey",
    "setZeroIfNotFound",
    "attributes",
    "boundaryType",
    "committed",
    "heartbeatTimeoutMillis",
    "enableActingMaster",
    "compressed",
    "bodyCrc32",
    "acceptStandardJsonOnly",
    "cleanOffset",
    "offline",
    "topicList",
    "topicSeq",
    "maxTopicNum",
    "dataVersion",
    "__ZONE_NAME",
];

/// Values with a story.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "6",
    "7",
    "15",
    "19",
    "true",
    "false",
    "2147483647",
    "-2147483648",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "orders",
    "other",
    "g1",
    "g2",
    "c1",
    "c2",
    "%RETRY%g1",
    "%DLQ%g1",
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "BenchmarkTest",
    "b-a",
    "b-b",
    "c",
    "*",
    "A",
    "A || B",
    "SQL92",
    "a > 1",
    "TAG",
    "k1",
    "k2",
    "u1",
    "UPPER",
    "LOWER",
    "TAGS\u{1}B\u{2}",
    "KEYS\u{1}k1\u{2}DELAY\u{1}1\u{2}WAIT\u{1}false\u{2}",
    "DELAY\u{1}18",
    "INNER_NUM\u{1}2\u{2}",
    "RETRY_TOPIC\u{1}orders\u{2}MAX_RECONSUME_TIMES\u{1}1\u{2}",
    "TAGS\u{1}A\u{2}TAGS\u{1}B\u{2}KEYS\u{1}x\u{2}KEYS\u{1}y",
    "7F00000100002A9F0000000000000000",
    "{\"counter\":1,\"timestamp\":2}",
    "+message.type=NORMAL",
    "ä/../b",
];

/// Bodies with a story.
const BODIES: &[&str] = &[
    "body",
    r#"{"clientID":"c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g1","messageModel":"CLUSTERING","subscriptionDataSet":[{"codeSet":[65],"expressionType":"TAG","subString":"A","subVersion":5,"tagsSet":["A"],"topic":"orders"}],"unitMode":false}],"producerDataSet":[{"groupName":"p"}]}"#,
    r#"{"clientId":"c1","consumerGroup":"g1","mqSet":[{"brokerName":"b-a","queueId":0,"topic":"orders"},{"brokerName":"b-a","queueId":-1,"topic":"orders"}]}"#,
    r#"{"clientId":"c1","group":"g1","subscriptionData":{"expressionType":"SQL92","subString":"a > 1","topic":"orders"}}"#,
    r#"{"groupName":"g2","consumeEnable":true,"retryMaxTimes":1,"retryQueueNums":2,"consumeBroadcastEnable":false}"#,
    r#"{"groupConfigList":[{"groupName":"g3"}],"topicConfigList":[{"topicName":"other","readQueueNums":1,"writeQueueNums":2,"perm":6}]}"#,
    r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":5},"topicConfigTable":{"orders":{"perm":6,"readQueueNums":4,"topicName":"orders","writeQueueNums":4}}}}"#,
    r#"{"counter":2,"stateVersion":0,"timestamp":6}"#,
    r#"{"brokerDatas":[],"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":1,"writeQueueNums":1}]}"#,
    "orderMessageEnable=true\n",
];

/// The frames an input stands for, in pieces as they arrive from the peer.
pub fn pieces(data: &[u8], codes: &[i32]) -> Vec<BytesMut> {
    let mut taker = Taker::new(data);
    if taker.byte() != DIRECTED {
        let split = usize::from(taker.u16());
        return vec![taker.slice(split).into(), taker.all().into()];
    }
    let mut frames = Vec::new();
    while !taker.is_empty() && frames.len() < REQUESTS_MAX {
        frames.push(request(&mut taker, codes, frames.len() as i32));
    }
    frames
}

/// code | options: 1 binary, 2 one-way, 4 old version, the rest number of changed fields | fields | body
fn request(taker: &mut Taker<'_>, codes: &[i32], opaque: i32) -> BytesMut {
    let code = *taker.choice(codes);
    let options = taker.byte();
    let form = if options & 1 == 0 { Form::Json } else { Form::Binary };
    let header = Header {
        code,
        language: Language::JAVA,
        version: if options & 4 == 0 { 493 } else { 395 },
        opaque,
        flag: if options & 2 == 0 { 0 } else { FLAG_ONE_WAY },
        remark: None,
    };
    let mut fields: BTreeMap<&str, Option<String>> =
        DEFAULTS.iter().map(|&(name, value)| (name, Some(value.to_owned()))).collect();
    for _ in 0..options >> 3 {
        let at = usize::from(taker.byte()) % (DEFAULTS.len() + MORE_FIELDS.len());
        let name = DEFAULTS.get(at).map_or_else(|| MORE_FIELDS[at - DEFAULTS.len()], |&(name, _)| name);
        fields.insert(name, value(taker));
    }
    let body = body(taker);
    let mut out = BytesMut::new();
    let write = |sink: &mut FieldSink<'_>| {
        for (name, value) in &fields {
            if let Some(value) = value {
                sink.text(name, value);
            }
        }
    };
    frame::encode(&mut out, form, &header, write, &body);
    out
}

/// A value with a story, no value at all, or up to 63 bytes of the input.
fn value(taker: &mut Taker<'_>) -> Option<String> {
    match taker.byte() {
        kind @ 0..=127 => Some(VALUES[usize::from(kind) % VALUES.len()].to_owned()),
        128..=191 => None,
        kind => Some(String::from_utf8_lossy(taker.slice(usize::from(kind & 63))).into_owned()),
    }
}

fn body(taker: &mut Taker<'_>) -> Vec<u8> {
    match taker.byte() {
        0 => Vec::new(),
        kind @ 1..=127 => BODIES[usize::from(kind) % BODIES.len()].as_bytes().to_vec(),
        128..=159 => batch(taker),
        _ => {
            let size = usize::from(taker.u16() & 0x0FFF);
            taker.slice(size).to_vec()
        }
    }
}

fn batch(taker: &mut Taker<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    for _ in 0..taker.byte() % 8 {
        let size = usize::from(taker.byte());
        let properties = taker.choice(VALUES).as_bytes();
        format::batch_body::BatchItem { flag: 0, body: taker.slice(size), properties }.encode(&mut out);
    }
    out.to_vec()
}

/// Inputs that send each code once as it should be, then all of them in a row, then what was captured.
pub fn seeds(codes: &[i32]) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for form in [0, 1] {
        let mut all = vec![DIRECTED];
        for (number, _) in codes.iter().enumerate() {
            // The last byte says which body comes along.
            for body in 0..=BODIES.len() as u8 {
                let request = [number as u8, form, body];
                all.extend(request);
                seeds.push([&[DIRECTED, 0, 0, 0][..], &request].concat());
            }
        }
        seeds.extend(all[1..].chunks(3 * REQUESTS_MAX).map(|part| [&[DIRECTED], part].concat()));
    }
    let mut session = vec![RAW, 0, 99];
    for request in crate::golden::requests(|code| codes.contains(&code)) {
        seeds.push([&[RAW, 0, 9], &request[..]].concat());
        session.extend(request);
    }
    seeds.push(session);
    seeds
}
