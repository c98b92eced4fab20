//! What no honest client sends: refused in the protocol's own words, at no cost to anyone else.

use conformance::connection::{Connection, request_frame};
use conformance::sluice::{Setup, Sluice};
use rand::RngExt;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

fn serve() -> (tempfile::TempDir, Sluice) {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = Setup::serve(&scratch.path().join("data")).start();
    (scratch, sluice)
}

/// The port still answers a well-formed request on another connection.
fn still_serves(address: &str) {
    let answer = Connection::open(address).call(1234, &[], &[]);
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
}

#[test]
fn garbage_closes_its_own_connection_and_no_other() {
    let (_scratch, mut sluice) = serve();
    let mut random = rand::rng();
    for address in [sluice.broker.clone(), sluice.name_server.clone()] {
        let mut honest = Connection::open(&address);
        let garbage: [&[u8]; 8] = [
            b"GET / HTTP/1.1\r\n\r\n",
            &[0xFF; 64],
            &[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 8, 0, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4],
            &[0, 0, 0, 8, 9, 0, 0, 4, 1, 2, 3, 4],
            &[0, 0, 0, 8, 0, 0, 0, 4, b'{', b'{', b'{', b'{'],
            &[0, 0, 0, 8, 1, 0, 0, 4, 1, 2, 3, 4],
        ];
        for bytes in garbage {
            let mut connection = Connection::open(&address);
            connection.send_raw(bytes).expect("sends");
            assert_eq!(connection.receive(), None, "closed after {bytes:?}");
        }
        for _ in 0..200 {
            let mut bytes = request_frame(request::SEND_MESSAGE_V2, 1, Form::Binary, &[("a", "g"), ("b", "t")], b"x");
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            let _ = Connection::open(&address).send_raw(&bytes);
        }
        // Cut off in the middle and left alone.
        let whole = request_frame(request::SEND_MESSAGE_V2, 1, Form::Json, &[("a", "g")], &[1; 5000]);
        let _half = (0..50)
            .map(|_| {
                let mut connection = Connection::open(&address);
                connection.send_raw(&whole[..2000]).expect("sends");
                connection
            })
            .collect::<Vec<_>>();
        assert_eq!(honest.call(1234, &[], &[]).code, response::REQUEST_CODE_NOT_SUPPORTED);
        still_serves(&address);
    }
    assert!(sluice.is_running());
}

#[test]
fn a_bad_header_names_the_field_and_the_connection_goes_on() {
    let (_scratch, sluice) = serve();
    let mut connection = Connection::open(&sluice.broker);
    let missing = connection.call(request::SEND_MESSAGE_V2, &[("a", "g")], b"x");
    assert_eq!(missing.code, response::SYSTEM_ERROR);
    assert!(missing.remark.contains("<b>"), "{}", missing.remark);
    let fields = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "zero"), ("commitOffset", "1")];
    let malformed = connection.call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]);
    assert!(malformed.remark.contains("<queueId>") && malformed.remark.contains("[zero]"), "{}", malformed.remark);
    let body = connection.call(request::HEART_BEAT, &[], b"{\"clientID\":");
    assert!(body.remark.contains("heartbeat"), "{}", body.remark);
    assert_eq!(connection.send_message("fine", 0, "", b"x").code, response::SUCCESS);
}

#[test]
fn every_request_code_gets_an_answer() {
    let (_scratch, mut sluice) = serve();
    for address in [sluice.broker.clone(), sluice.name_server.clone()] {
        let mut connection = Connection::open(&address);
        for code in (0..1100)
            .chain(2000..2010)
            .chain(3000..3012)
            .chain(5000..5003)
            .chain(200_050..200_080)
            .chain([-1, i32::MAX])
        {
            for body in [&b""[..], b"{}", b"[", b"\xff\xff"] {
                let answer = connection.call(code, &[], body);
                assert!(answer.code >= 0, "{code}: {answer:?}");
                if answer.code != response::SUCCESS {
                    assert!(!answer.remark.is_empty(), "{code} is refused without a reason");
                }
            }
        }
        still_serves(&address);
    }
    assert!(sluice.is_running());
}

#[test]
fn bad_names_and_sizes_are_refused_with_the_reason() {
    let (_scratch, sluice) = serve();
    let mut connection = Connection::open(&sluice.broker);
    for topic in ["", " ", "a b", "a/b", "日本", &"t".repeat(128), "a\u{1}b"] {
        let answer = connection.send_message(topic, 0, "", b"x");
        assert_eq!(answer.code, response::INVALID_PARAMETER, "{topic:?}: {answer:?}");
        assert!(answer.remark.contains("topic name"), "{}", answer.remark);
    }
    let too_large = connection.send_message("fine", 0, "", &vec![1; 4 * 1024 * 1024 + 1]);
    assert_eq!(too_large.code, response::MESSAGE_ILLEGAL);
    assert!(too_large.remark.contains("message.size_max"), "{}", too_large.remark);
    let properties = format!("p\u{1}{}\u{2}", "v".repeat(40_000));
    assert_eq!(connection.send_message("fine", 0, &properties, b"x").code, response::MESSAGE_ILLEGAL);
    assert!(connection.send_message("fine", 99, "", b"x").remark.contains("99"));
    let group = [
        ("consumerGroup", "a b"),
        ("topic", "fine"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "1"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "0"),
    ];
    assert_eq!(connection.call(request::PULL_MESSAGE, &group, &[]).code, response::INVALID_PARAMETER);
    assert_eq!(connection.send_message("fine", 0, "", b"x").code, response::SUCCESS);
}

#[test]
fn what_sluice_does_not_have_says_so() {
    let (_scratch, sluice) = serve();
    let mut connection = Connection::open(&sluice.broker);
    let not_supported = response::REQUEST_CODE_NOT_SUPPORTED;
    for code in [request::END_TRANSACTION, request::PEEK_MESSAGE, request::POLLING_INFO, request::SEND_REPLY_MESSAGE_V2]
    {
        let answer = connection.call(code, &[], &[]);
        assert_eq!(answer.code, not_supported, "{code}: {answer:?}");
        assert!(answer.remark.contains("not supported"), "{}", answer.remark);
    }
    let half = connection.send_message("fine", 0, "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}g\u{2}", b"x");
    assert_eq!(half.code, not_supported);
    let timed = connection.send_message("fine", 0, "TIMER_DELAY_MS\u{1}5000\u{2}", b"x");
    assert_eq!(timed.code, not_supported);
}

#[test]
fn requests_cut_into_single_bytes_are_put_together() {
    let (_scratch, sluice) = serve();
    let mut connection = Connection::open(&sluice.broker);
    for byte in request_frame(1234, 77, Form::Binary, &[], b"body") {
        connection.send_raw(&[byte]).expect("sends");
    }
    assert_eq!(connection.receive().expect("an answer").opaque, 77);
}
