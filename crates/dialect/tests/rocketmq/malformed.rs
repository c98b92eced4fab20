//! Promises about bytes that are no requests: incomplete ones wait, invalid ones close the connection with a reason.

use bytes::BytesMut;
use format::properties;
use format::record::Record;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{FLAG_RESPONSE, Form};

use crate::bench::Bench;
use crate::client::{ask, pull, send};

#[test]
fn bytes_that_are_no_frames_close_the_connection_with_a_reason() {
    let bench = Bench::new();
    let cases: [(&[u8], &str); 10] = [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "a gRPC client"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xFC\x03\x03", "a TLS hello"),
        (b"\x16\x04\x01\x02", "frame length"),
        (b"\xFF\xFF\xFF\xFF", "frame length"),
        (b"\x01\0\0\x01\0\0\0\0", "frame length"),
        (b"\0\0\0\x08\x02\0\0\x01abcd", "header form"),
        (b"\0\0\0\x08\0\0\0\x05abcd", "header length"),
        (b"\0\0\0\x08\0\0\0\x04abcd", "JSON header"),
        (b"\0\0\0\x08\x01\0\0\x04abcd", "version"),
    ];
    for (bytes, what) in cases {
        let reason = bench.client().receive(&mut BytesMut::from(bytes)).expect_err("closed");
        assert!(reason.0.contains(what), "{bytes:?}: {}", reason.0);
    }
}

#[test]
fn what_came_before_bad_bytes_is_still_done_and_answered() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut input = send("orders", "x").frame(7);
    input.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
    client.receive(&mut input).expect_err("closed");
    let replies = client.hear();
    assert_eq!((replies.len(), replies[0].opaque, replies[0].code), (1, 7, 0));
    client.close();
    assert_eq!(bench.count("orders", 0), 1);
}

#[test]
fn frames_that_come_in_pieces_are_put_together() {
    let bench = Bench::new();
    for form in [Form::Json, Form::Binary] {
        let mut client = bench.client();
        let mut input = BytesMut::new();
        let frame = send("orders", "x").form(form).frame(7);
        for (index, byte) in frame.iter().enumerate() {
            assert_eq!(client.hear(), [], "after {index} bytes");
            input.extend_from_slice(&[*byte]);
            client.receive(&mut input).expect("frames");
        }
        assert!(input.is_empty());
        assert_eq!(client.hear().len(), 1);
    }
}

#[test]
fn answers_that_nobody_asked_for_are_ignored() {
    let bench = Bench::new();
    let mut answer = ask(request::PULL_MESSAGE, &[]);
    answer.flag = FLAG_RESPONSE;
    assert_eq!(bench.client().give(&[answer]), []);
}

#[test]
fn a_body_that_cannot_be_read_is_refused_and_the_connection_goes_on() {
    let bench = Bench::new();
    let mut client = bench.client();
    let deep = "[".repeat(100_000);
    for code in [request::HEART_BEAT, request::LOCK_BATCH_QUEUES, request::UNLOCK_BATCH_QUEUES] {
        for body in ["", "x", "{", "[]", r#"{"clientID":{},"clientId":{}}"#, &deep] {
            let reply = client.ask(ask(code, &[]).body(body));
            assert_eq!(reply.code, response::SYSTEM_ERROR, "{code} {body:.20}");
            assert!(reply.remark.starts_with("the body cannot be read"), "{}", reply.remark);
        }
    }
    client.ask_well(send("orders", "x"));
}

#[test]
fn a_text_that_is_none_is_stored_as_java_stores_it_and_the_connection_goes_on() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "before"));
    // A property cut inside an emoji, as a program that counts in Java's characters cuts it.
    let frame = send("orders", "cut").with("i", "note\u{1}a MARK\u{2}").frame(7).to_vec();
    let at = frame.windows(4).position(|bytes| bytes == b"MARK").expect("the property");
    let mut cut = [&frame[..at], b"\\ud83d", &frame[at + 4..]].concat();
    for place in [0..4, 4..8] {
        let length = u32::from_be_bytes(cut[place.clone()].try_into().expect("four bytes")) + 2;
        cut[place].copy_from_slice(&length.to_be_bytes());
    }
    // Bytes that are no text, with the binary header.
    let mut binary = send("orders", "binary").with("i", "note\u{1}a ?\u{2}").form(Form::Binary).frame(8).to_vec();
    let at = binary.windows(3).position(|bytes| bytes == b"a ?").expect("the property");
    binary[at + 2] = 0xFF;
    client.receive(&mut BytesMut::from(&*[cut, binary].concat())).expect("frames");
    let replies = client.hear();
    assert_eq!(replies.iter().map(|reply| (reply.opaque, reply.code)).collect::<Vec<_>>(), [(7, 0), (8, 0)]);
    let found = client.ask_well(pull("billing", "orders", 1));
    let first = Record::decode(&found.body).expect("a record");
    let second = Record::decode(&found.body[first.size..]).expect("a record");
    assert_eq!(properties::find(first.properties, "note"), Some("a ?"));
    assert_eq!(properties::find(second.properties, "note"), Some("a \u{FFFD}"));
}

#[test]
fn what_is_refused_is_counted_by_request_and_answer_and_told() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    // On the spot, by a job, and one that nobody answers.
    let unsupported = ask(request::PEEK_MESSAGE, &[]);
    (0..3).for_each(|_| drop(client.ask(unsupported.clone())));
    assert_eq!(client.give(&[unsupported.one_way()]), []);
    client.ask(ask(request::QUERY_CONSUMER_OFFSET, &[]));
    client.ask(ask(1234, &[]));
    // Nothing found is no refusal.
    client.ask(pull("billing", "orders", 1));
    let refused = bench.broker.refused();
    let counts: Vec<_> = refused.counts().into_iter().map(|(kind, count)| (kind.request, kind.answer, count)).collect();
    assert_eq!(
        counts,
        [
            ("PEEK_MESSAGE", "REQUEST_CODE_NOT_SUPPORTED", 4),
            ("QUERY_CONSUMER_OFFSET", "SYSTEM_ERROR", 1),
            ("UNKNOWN", "REQUEST_CODE_NOT_SUPPORTED", 1)
        ]
    );
    let told = refused.take_due();
    assert_eq!(told.iter().map(|told| (told.code, told.count)).collect::<Vec<_>>(), [(200_052, 4), (14, 1), (1234, 1)]);
    assert!(told[1].remark.contains("consumerGroup") && told[1].from == "10.0.0.1:5000", "{told:?}");
}
