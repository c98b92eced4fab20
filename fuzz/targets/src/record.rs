//! The record of the commit log.

use bytes::BytesMut;
use format::record::{
    Draft, Kind, Parts, Record, fan_out_properties, kind_at, log_offset_of, offset_message_id, seal, store_timestamp_of,
};

/// A record that decodes says the same through every way of reading it, and comes back the same after it was written.
pub fn run(data: &[u8]) {
    let kind = kind_at(data);
    let (log_offset, store_timestamp) = (log_offset_of(data), store_timestamp_of(data));
    let Ok(record) = Record::decode(data) else { return };
    assert_eq!(kind, Ok(Kind::Record(record.size)));
    assert!(record.size <= data.len());
    assert_eq!((log_offset, store_timestamp), (Some(record.log_offset), Some(record.store_timestamp)));
    for cut in [record.size - 1, record.size / 2, 8] {
        assert!(Record::decode(&data[..cut]).is_err());
    }
    let parts = Parts::split(data).expect("what decodes can be split");
    assert_eq!(
        (parts.size, parts.queue(), parts.queue_offset(), parts.log_offset(), parts.body_is_intact()),
        (record.size, record.queue, record.queue_offset, record.log_offset, record.body_is_intact())
    );
    assert_eq!((parts.body, parts.topic, parts.properties), (record.body, record.topic.as_bytes(), record.properties));
    let mut listings = record.queue_refs();
    assert_eq!(listings.next(), Some(record.own_queue_ref()));
    assert!(listings.all(|further| !further.topic.contains(['/', ','])));
    let id = offset_message_id(record.store_host, record.log_offset);
    assert_eq!(id.as_str().len(), if record.store_host.is_ipv6() { 56 } else { 32 });
    let half = record.properties.len() / 2;
    let pieces = [&record.properties[..half], &record.properties[half..]];
    let bytes = write(&record, &pieces);
    let again = Record::decode(&bytes).expect("what was written decodes");
    assert_eq!(again.size, bytes.len());
    assert!(again.body_is_intact());
    assert_eq!(again.size.abs_diff(record.size), usize::from(again.size != record.size));
    assert_eq!(Record { size: record.size, body_crc: record.body_crc, ..again }, record);
}

fn write(record: &Record<'_>, properties: &[&[u8]]) -> BytesMut {
    let draft = Draft {
        topic: record.topic,
        queue: record.queue,
        flag: record.flag,
        system_flag: record.system_flag,
        born_timestamp: record.born_timestamp,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: record.prepared_transaction_offset,
        body: record.body,
        properties,
    };
    let mut bytes = BytesMut::new();
    draft.encode(&mut bytes);
    assert_eq!(bytes.len(), draft.encoded_len());
    seal(&mut bytes, record.queue_offset, record.log_offset, record.store_timestamp);
    bytes
}

/// Records of every shape, and those in captured answers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let long_topic = "t".repeat(200);
    for topic in ["orders", "", &long_topic] {
        for host in ["10.0.0.9:40000", "[2001:db8::1]:40000"] {
            let draft = Draft {
                topic,
                queue: base::QueueId(3),
                flag: 7,
                system_flag: 1,
                born_timestamp: base::Timestamp(1_700_000_000_001),
                born_host: host.parse().expect("an address"),
                store_host: "127.0.0.1:10911".parse().expect("an address"),
                reconsume_times: 2,
                prepared_transaction_offset: 99,
                body: b"body",
                properties: &[b"TAGS\x01A\x02", &fan_out_properties(&["bills", "%LMQ%one"])],
            };
            let mut bytes = BytesMut::new();
            draft.encode(&mut bytes);
            seeds.push(bytes.to_vec());
        }
    }
    seeds.push(format::record::filler(100).to_vec());
    for body in crate::golden::bodies() {
        let mut rest = &body[..];
        while let Ok(record) = Record::decode(rest) {
            seeds.push(rest[..record.size].to_vec());
            rest = &rest[record.size..];
        }
    }
    seeds
}
