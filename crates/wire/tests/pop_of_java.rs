//! Pop consumption as Java 5.4.0 writes it: headers, and a captured exchange taken apart as a client takes it apart.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests: what goes wrong is a failed test")]

use std::fmt::Debug;
use std::path::Path;

use bytes::{BufMut, BytesMut};
use format::request_mode::{RequestMode, RequestModeDocument, RequestModeTableDocument};
use wire::rocketmq::body::assignment::{AssignmentQuery, Assignments};
use wire::rocketmq::body::client;
use wire::rocketmq::code::request;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{self, Command, Form};
use wire::rocketmq::pop::answer::PopAnswer;
use wire::rocketmq::pop::header::{
    AckRequest, ChangeInvisibleTimeRequest, ChangeInvisibleTimeResponse, NotificationRequest, NotificationResponse,
    PeekRequest, PollingInfoRequest, PollingInfoResponse, PopRequest, PopResponse,
};
use wire::rocketmq::pop::origin::Origin;
use wire::rocketmq::pop::receipt::Receipt;

const RECEIPT: &str = "100 1700000000123 60000 5 0 broker-a 3 107";

/// A frame with a JSON header as `RemotingCommand.encodeHeader` makes it; `fields` are its `extFields`.
fn of_java(code: i32, fields: &str) -> BytesMut {
    let header = format!(
        r#"{{"code":{code},"extFields":{fields},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":0}}"#
    );
    let mut frame = BytesMut::new();
    frame.put_u32(header.len() as u32 + 4);
    frame.put_u32(header.len() as u32);
    frame.put_slice(header.as_bytes());
    frame
}

/// What Java wrote is read as `expected`, which has no field more or less and comes back in both forms.
fn check<'a, T: TypedHeader<'a> + PartialEq + Debug>(frame: &'a BytesMut, code: i32, expected: &T) {
    let command = Command::decode(frame).expect("a frame");
    assert_eq!(command.header.code, code);
    assert_eq!(T::decode(&command.fields).as_ref(), Ok(expected));
    let mut fields = command.fields.pairs().expect("fields");
    fields.sort();
    for form in [Form::Json, Form::Binary] {
        let mut again = BytesMut::new();
        frame::encode(&mut again, form, &command.header, |sink| expected.encode(sink), b"");
        let again = Command::decode(&again).expect("a frame");
        assert_eq!((&again.header, again.form), (&command.header, form));
        let mut written = again.fields.pairs().expect("fields");
        written.sort();
        assert_eq!(written, fields, "{form:?}");
    }
}

#[test]
fn a_pop_has_the_fields_of_java() {
    let request = of_java(
        request::POP_MESSAGE,
        r#"{"invisibleTime":"60000","queueId":"-1","maxMsgNums":"32","initMode":"1","pollTime":"15000","bornTime":"1700000000123","bname":"broker-a","topic":"orders","expType":"TAG","exp":"*","consumerGroup":"billing","order":"false","attemptId":"a1"}"#,
    );
    let expected = PopRequest {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: -1,
        max_message_count: 32,
        invisible_ms: 60_000,
        poll_timeout_ms: 15_000,
        born_timestamp: 1_700_000_000_123,
        init_mode: 1,
        expression_type: Some("TAG".into()),
        expression: Some("*".into()),
        order: Some(false),
        attempt_id: Some("a1".into()),
        broker_name: Some("broker-a".into()),
        ..PopRequest::default()
    };
    check(&request, 200_050, &expected);
    let response = of_java(
        0,
        r#"{"invisibleTime":"60000","startOffsetInfo":"0 3 100","restNum":"2","orderCountInfo":"0 qo3%107 1;0 3 0","popTime":"1700000000123","reviveQid":"5","msgOffsetInfo":"0 3 107"}"#,
    );
    let expected = PopResponse {
        pop_timestamp: 1_700_000_000_123,
        invisible_ms: 60_000,
        revive_queue_id: 5,
        rest_count: 2,
        start_offset_info: Some("0 3 100".into()),
        message_offset_info: Some("0 3 107".into()),
        order_count_info: Some("0 qo3%107 1;0 3 0".into()),
        ..PopResponse::default()
    };
    check(&response, 0, &expected);
    let answer = PopAnswer::of(&expected).expect("reads");
    let receipt = answer.receipt("broker-a", "orders", 3, 107).expect("a receipt");
    assert_eq!(receipt.to_string(), RECEIPT);
}

#[test]
fn an_acknowledgement_has_the_fields_of_java() {
    let request = of_java(
        request::ACK_MESSAGE,
        r#"{"queueId":"3","offset":"107","bname":"broker-a","topic":"orders","consumerGroup":"billing","extraInfo":"100 1700000000123 60000 5 0 broker-a 3 107"}"#,
    );
    let expected = AckRequest {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: 3,
        extra_info: RECEIPT.into(),
        offset: 107,
        broker_name: Some("broker-a".into()),
        ..AckRequest::default()
    };
    check(&request, 200_051, &expected);
}

#[test]
fn a_change_of_the_invisible_time_has_the_fields_of_java() {
    let request = of_java(
        request::CHANGE_MESSAGE_INVISIBLE_TIME,
        r#"{"invisibleTime":"10000","queueId":"3","offset":"107","bname":"broker-a","topic":"orders","consumerGroup":"billing","extraInfo":"100 1700000000123 60000 5 0 broker-a 3 107"}"#,
    );
    let expected = ChangeInvisibleTimeRequest {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: 3,
        extra_info: RECEIPT.into(),
        offset: 107,
        invisible_ms: 10_000,
        broker_name: Some("broker-a".into()),
        ..ChangeInvisibleTimeRequest::default()
    };
    check(&request, 200_053, &expected);
    let response = of_java(0, r#"{"invisibleTime":"2","popTime":"1","reviveQid":"3"}"#);
    let expected = ChangeInvisibleTimeResponse {
        pop_timestamp: 1,
        invisible_ms: 2,
        revive_queue_id: 3,
        ..ChangeInvisibleTimeResponse::default()
    };
    check(&response, 0, &expected);
}

#[test]
fn a_peek_has_the_fields_of_java() {
    let request = of_java(
        request::PEEK_MESSAGE,
        r#"{"queueId":"-1","maxMsgNums":"32","topic":"orders","consumerGroup":"billing"}"#,
    );
    let expected = PeekRequest {
        topic: "orders".into(),
        queue_id: -1,
        max_message_count: 32,
        consumer_group: "billing".into(),
        ..PeekRequest::default()
    };
    check(&request, 200_052, &expected);
}

#[test]
fn numbers_have_the_size_of_java() {
    let popped = of_java(
        0,
        r#"{"invisibleTime":"9223372036854775807","restNum":"9223372036854775807","popTime":"9223372036854775807","reviveQid":"2147483647"}"#,
    );
    let expected = PopResponse {
        pop_timestamp: i64::MAX,
        invisible_ms: i64::MAX,
        revive_queue_id: i32::MAX,
        rest_count: i64::MAX,
        ..PopResponse::default()
    };
    check(&popped, 0, &expected);
    let acknowledged = of_java(
        request::ACK_MESSAGE,
        r#"{"queueId":"2147483647","offset":"9223372036854775807","topic":"","consumerGroup":"","extraInfo":""}"#,
    );
    let expected = AckRequest { queue_id: i32::MAX, offset: i64::MAX, ..AckRequest::default() };
    check(&acknowledged, 200_051, &expected);
}

#[test]
fn notifications_and_polling_have_the_fields_of_java() {
    let request = of_java(
        request::NOTIFICATION,
        r#"{"pollTime":"15000","queueId":"-1","bornTime":"1700000000123","topic":"orders","consumerGroup":"billing","order":"false"}"#,
    );
    let expected = NotificationRequest {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: -1,
        poll_timeout_ms: 15_000,
        born_timestamp: 1_700_000_000_123,
        order: Some(false),
        ..NotificationRequest::default()
    };
    check(&request, 200_054, &expected);
    let response = of_java(0, r#"{"hasMsg":"true","pollingFull":"false"}"#);
    let expected =
        NotificationResponse { has_message: true, polling_full: Some(false), ..NotificationResponse::default() };
    check(&response, 0, &expected);
    let request = of_java(request::POLLING_INFO, r#"{"queueId":"-1","topic":"orders","consumerGroup":"billing"}"#);
    let expected = PollingInfoRequest {
        consumer_group: "billing".into(),
        topic: "orders".into(),
        queue_id: -1,
        ..PollingInfoRequest::default()
    };
    check(&request, 200_055, &expected);
    let response = of_java(0, r#"{"pollingNum":"4"}"#);
    check(&response, 0, &PollingInfoResponse { polling_count: 4, ..PollingInfoResponse::default() });
}

/// The header of 200151 in the binary form, which Java writes with the low 16 bits of its code.
const BATCH_ACK_BINARY: [u8; 29] =
    [0, 0, 0, 25, 1, 0, 0, 21, 0x0D, 0xD7, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_code_that_java_cut_off_is_whole_again() {
    let command = Command::decode(&BATCH_ACK_BINARY).expect("a frame");
    assert_eq!((command.header.code, command.header.opaque), (request::BATCH_ACK_MESSAGE, 7));
    let captured = captured("binary/3442-POP_MESSAGE.code-3.request.bin");
    let command = Command::decode(&captured).expect("a frame");
    assert_eq!((command.header.code, command.form), (request::POP_MESSAGE, Form::Binary));
    assert!(PopRequest::decode(&command.fields).is_ok_and(|header| header.topic == "GoldenTopic"));
}

fn captured(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocketmq/5.4.0").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The receipts that a Java client sent back are those that its broker's answer makes.
#[test]
fn the_receipts_of_a_captured_exchange_are_made_of_its_answer() {
    let answer = captured("json/200050-POP_MESSAGE.response.bin");
    let command = Command::decode(&answer).expect("a frame");
    let header = PopResponse::decode(&command.fields).expect("a header");
    assert_eq!((header.rest_count, header.order_count_info.as_deref()), (0, None));
    let answer = PopAnswer::of(&header).expect("reads");

    let acknowledged = captured("json/200051-ACK_MESSAGE.request.bin");
    let command = Command::decode(&acknowledged).expect("a frame");
    let ack = AckRequest::decode(&command.fields).expect("a header");
    let receipt = answer.receipt("broker-a", &ack.topic, ack.queue_id, ack.offset).expect("a receipt");
    assert_eq!(receipt.to_string(), ack.extra_info);
    assert_eq!(Receipt::parse(&ack.extra_info), Ok(receipt));

    let changed = captured("json/200053-CHANGE_MESSAGE_INVISIBLETIME.request.bin");
    let command = Command::decode(&changed).expect("a frame");
    let change = ChangeInvisibleTimeRequest::decode(&command.fields).expect("a header");
    let receipt = answer.receipt("broker-a", &change.topic, change.queue_id, change.offset).expect("a receipt");
    assert_eq!((receipt.to_string(), receipt.origin), (change.extra_info.into_owned(), Origin::Topic));
    let answered = captured("json/200053-CHANGE_MESSAGE_INVISIBLETIME.response.bin");
    let command = Command::decode(&answered).expect("a frame");
    let answered = ChangeInvisibleTimeResponse::decode(&command.fields).expect("a header");
    assert_eq!((answered.invisible_ms, answered.revive_queue_id), (change.invisible_ms, receipt.revive_queue_id));
    assert!(answered.pop_timestamp > receipt.pop_timestamp);
}

#[test]
fn captured_assignments_are_written_byte_for_byte() {
    let body_of = |name: &str| {
        let frame = captured(name);
        Command::decode(&frame).expect("a frame").body.to_vec()
    };
    for form in ["json", "binary"] {
        let query = body_of(&format!("{form}/400-QUERY_ASSIGNMENT.request.bin"));
        let read = client::decode::<AssignmentQuery>("query", &query).expect("reads");
        assert_eq!((read.topic.as_str(), read.strategy_name.as_str()), ("GoldenTopic", "AVG"));
        assert_eq!(serde_json::to_vec(&read).expect("text"), query);

        let answer = body_of(&format!("{form}/400-QUERY_ASSIGNMENT.response.bin"));
        let read = client::decode::<Assignments>("assignments", &answer).expect("reads");
        assert!(read.message_queue_assignments.as_ref().is_some_and(|assignments| !assignments.is_empty()));
        assert_eq!(serde_json::to_vec(&read).expect("text"), answer);

        let mode = body_of(&format!("{form}/401-SET_MESSAGE_REQUEST_MODE.request.bin"));
        let read = client::decode::<RequestModeDocument>("mode", &mode).expect("reads");
        assert_eq!((read.mode, read.pop_share_queue_num), (RequestMode::Pop, 2));
        assert_eq!(serde_json::to_vec(&read).expect("text"), mode);

        let modes = body_of(&format!("{form}/402-GET_ALL_MESSAGE_REQUEST_MODE.response.bin"));
        let read = client::decode::<RequestModeTableDocument>("modes", &modes).expect("reads");
        assert_eq!(read.message_request_mode_map.len(), 1);
        assert_eq!(serde_json::to_vec(&read).expect("text"), modes);
    }
}
