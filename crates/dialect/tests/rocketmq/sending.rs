//! Promises to those who send: what is answered to what, and that a refused message is not stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use broker::{Broker, Host};
use bytes::BytesMut;
use format::batch_body::BatchItem;
use format::document::TopicDocument;
use format::record::{Record, split};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

use crate::bench::{Bench, START};
use crate::client::{Client, ask, pull, send, send_batch, send_v1};

/// Fields a send insists on, as new and as old clients name them.
const NEEDED: [(&str, &str); 8] = [
    ("a", "producerGroup"),
    ("b", "topic"),
    ("c", "defaultTopic"),
    ("d", "defaultTopicQueueNums"),
    ("e", "queueId"),
    ("f", "sysFlag"),
    ("g", "bornTimestamp"),
    ("h", "flag"),
];

#[test]
fn a_message_is_answered_with_its_place_and_can_be_read_there() {
    let bench = Bench::new();
    let mut client = bench.client();
    for offset in 0..2 {
        let sent = client.ask_well(send("orders", &format!("message {offset}")).with("e", 3));
        assert_eq!((sent.number("queueId"), sent.number("queueOffset")), (3, offset));
        assert_eq!((&*sent.fields["MSG_REGION"], &*sent.fields["TRACE_ON"]), ("DefaultRegion", "true"));
        let found = client.ask_well(pull("billing", "orders", offset).with("queueId", 3));
        assert_eq!(found.bodies(), [format!("message {offset}")]);
        // The last 16 digits of an id are the place in the log.
        let place = i64::from_str_radix(&sent.fields["msgId"][16..], 16).expect("hexadecimal");
        let viewed = client.ask_well(ask(request::VIEW_MESSAGE_BY_ID, &[]).with("offset", place));
        assert_eq!(viewed.bodies(), found.bodies());
    }
}

/// RocketMQ calls it so in every answer since 5.x; clients hand it on with the result.
#[test]
fn the_id_that_its_producer_gave_a_message_is_in_the_answer() {
    let bench = Bench::new();
    let mut client = bench.client();
    let named =
        |id: &str| send("orders", "x").with("i", format!("KEYS\u{1}k\u{2}UNIQ_KEY\u{1}{id}\u{2}TAGS\u{1}t\u{2}"));
    let long = "L".repeat(200);
    let asked = [
        named("one"),
        send("orders", "x"),
        named(&long),
        send("orders", "x").with("e", 99),
        named("").with("f", 1),
        send_batch("orders", &[("a", "UNIQ_KEY\u{1}own\u{2}"), ("b", "")]),
        send_batch("orders", &[("a", ""), ("b", "")]).with("i", "UNIQ_KEY\u{1}batch\u{2}"),
        named("last").form(Form::Binary),
    ];
    for _ in 0..2 {
        let mut replies = client.give(&asked);
        replies.sort_unstable_by_key(|reply| reply.opaque);
        let ids: Vec<_> = replies.iter().map(|reply| reply.fields.get("transactionId").map(String::as_str)).collect();
        assert_eq!(ids, [Some("one"), None, Some(&*long), None, None, None, Some("batch"), Some("last")]);
    }
}

#[test]
fn every_kind_of_send_is_answered_in_the_form_it_came_in() {
    let bench = Bench::new();
    let mut client = bench.client();
    let sends = [send("orders", "new"), send_v1("orders", "old"), send_batch("orders", &[("batch", "")])];
    for form in [Form::Json, Form::Binary] {
        for asked in &sends {
            assert_eq!(client.ask_well(asked.clone().form(form)).form, form);
            let refused = client.ask(asked.clone().form(form).with("e", 99).with("queueId", 99));
            assert_eq!((refused.code, refused.form), (response::SYSTEM_ERROR, form));
        }
    }
    let found = client.ask_well(pull("billing", "orders", 0));
    assert_eq!(found.bodies(), ["new", "old", "batch", "new", "old", "batch"]);
}

#[test]
fn a_one_way_send_is_stored_or_not_and_never_answered() {
    let bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(client.give(&[send("orders", "good").one_way(), send("no topic", "bad").one_way()]), []);
    let among_others = client.give(&[send("orders", "quiet").one_way(), send("orders", "answered")]);
    assert_eq!(among_others.len(), 1);
    assert_eq!(client.ask(pull("billing", "orders", 0)).bodies(), ["good", "quiet", "answered"]);
}

#[test]
fn sends_of_one_connection_keep_their_order() {
    let bench = Bench::new();
    let mut client = bench.client();
    let sends: Vec<_> = (0..50).map(|number| send("orders", &number.to_string())).collect();
    let replies = client.give(&sends);
    let offsets: Vec<_> = replies.iter().map(|reply| (reply.code, reply.number("queueOffset"))).collect();
    assert_eq!(offsets, (0..50).map(|offset| (0, offset)).collect::<Vec<_>>());
    assert!(replies.is_sorted_by_key(|reply| reply.opaque));
    let found = client.ask(pull("billing", "orders", 0).with("maxMsgNums", 50));
    assert_eq!(found.bodies(), (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_batch_is_stored_in_one_queue_with_an_id_for_each_message() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send_batch("orders", &[("before", "")]).with("e", 1));
    let sent = client.ask_well(send_batch("orders", &[("one", "TAGS\u{1}a\u{2}"), ("two", "")]).with("e", 1));
    assert_eq!((sent.number("queueId"), sent.number("queueOffset")), (1, 1));
    assert_eq!(sent.fields["msgId"].split(',').count(), 2);
    // The queue is left to the broker: it takes one for all of them.
    let sent = client.ask_well(send_batch("orders", &[("three", ""), ("four", "")]).with("e", -1));
    let asked = pull("billing", "orders", sent.number("queueOffset")).with("queueId", sent.number("queueId"));
    assert_eq!(client.ask_well(asked).bodies(), ["three", "four"]);
}

#[test]
fn a_batch_that_cannot_be_is_refused_whole_and_its_neighbours_are_not() {
    let bench = Bench::with(|setup| setup.broker.message_size_max = 1000);
    let mut client = bench.client();
    let mut cut = send_batch("orders", &[("one", ""), ("two", "")]);
    cut.body.pop();
    let long = "x".repeat(600);
    let cases = [
        (send_batch("orders", &[("one", ""), ("two", "DELAY\u{1}1\u{2}")]), response::MESSAGE_ILLEGAL),
        (send_batch("orders", &[("one", "")]).with("i", "DELAY\u{1}1\u{2}"), response::MESSAGE_ILLEGAL),
        (send_batch("orders", &[(&long, ""), (&long, "")]), response::MESSAGE_ILLEGAL),
        (send_batch("orders", &[]), response::MESSAGE_ILLEGAL),
        (send_batch("%RETRY%billing", &[("one", "")]), response::MESSAGE_ILLEGAL),
        (send_batch("orders", &[("one", ""), ("two", "INNER_NUM\u{1}2\u{2}")]), response::REQUEST_CODE_NOT_SUPPORTED),
        (cut, response::SYSTEM_ERROR),
    ];
    for (number, (batch, code)) in cases.into_iter().enumerate() {
        let replies = client.give(&[send("orders", "before"), batch, send("orders", "after")]);
        let mut codes: Vec<_> = replies.iter().map(|reply| (reply.opaque, reply.code)).collect();
        codes.sort_unstable();
        assert_eq!(codes.iter().map(|(_, code)| *code).collect::<Vec<_>>(), [0, code, 0], "case {number}");
        assert_eq!(bench.count("orders", 0), 2 * (number as u64 + 1), "case {number}");
    }
}

#[test]
fn every_message_of_a_batch_has_the_properties_of_its_frame() {
    let bench = Bench::new();
    let mut client = bench.client();
    let items = [("one", ""), ("two", "TAGS\u{1}a\u{2}"), ("three", "TAGS\u{1}b")];
    client.ask_well(send_batch("orders", &items).with("i", "KEYS\u{1}k\u{2}\u{2}INSTANCE_ID\u{1}i"));
    let found = client.ask_well(pull("billing", "orders", 0));
    let records: Vec<_> = split(&found.body).map(|bytes| Record::decode(bytes).expect("a record")).collect();
    assert_eq!(records.iter().map(|record| record.property("TAGS")).collect::<Vec<_>>(), [None, Some("a"), Some("b")]);
    assert!(records.iter().all(|record| record.property("KEYS") == Some("k")));
    assert!(records.iter().all(|record| record.property("INSTANCE_ID") == Some("i")));
}

#[test]
fn every_message_of_a_batch_has_a_flag_of_its_own() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut body = BytesMut::new();
    for flag in [0, 7, -1] {
        BatchItem { flag, body: b"x", properties: b"" }.encode(&mut body);
    }
    client.ask_well(send_batch("orders", &[]).body(body.to_vec()));
    client.ask_well(send("orders", "alone").with("h", 5));
    let found = client.ask_well(pull("billing", "orders", 0));
    let flags: Vec<_> = split(&found.body).map(|bytes| Record::decode(bytes).expect("a record").flag).collect();
    assert_eq!(flags, [0, 7, -1, 5]);
}

/// The frame's properties are in every record, and a record has its own fields: a small frame must not become a huge batch.
#[test]
fn a_batch_that_would_take_many_times_its_frame_in_the_log_is_refused_before_anything_is_made_of_it() {
    let bench = Bench::new();
    let mut client = bench.client();
    let empty = |count: usize| send_batch("orders", &vec![("", ""); count]);
    let wide = |size: usize| format!("k\u{1}{}\u{2}", "v".repeat(size - 3));
    let fits = client.ask_well(empty(1000).with("i", wide(30_000)));
    assert_eq!(fits.fields["msgId"].split(',').count(), 1000);
    for (batch, properties) in [(empty(20_000), wide(30_000)), (empty(1200), wide(30_000)), (empty(190_000), wide(100))]
    {
        let refused = client.ask(batch.with("i", properties));
        assert_eq!(refused.code, response::MESSAGE_ILLEGAL, "{}", refused.remark);
        assert!(refused.remark.contains("at most 33554432 are allowed: send fewer at once"), "{}", refused.remark);
    }
    assert_eq!(bench.count("orders", 0), 1000);
    // Many short ones are fine, and a few long ones.
    client.ask_well(empty(20_000));
    let (body, properties) = ("b".repeat(10_000), wide(10_000));
    client.ask_well(send_batch("orders", &[(&*body, &*properties); 100]));
}

#[test]
fn a_topic_name_that_cannot_be_used_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    for name in ["", " ", "a b", "a.b", "größe", &"x".repeat(128)] {
        let reply = client.ask(send(name, "x"));
        assert_eq!(reply.code, response::INVALID_PARAMETER, "{name:?}");
        assert!(reply.remark.contains("topic name"), "{}", reply.remark);
    }
    client.ask_well(send(&"x".repeat(127), "x"));
    client.ask_well(send("a%b|c-d_e", "x"));
}

#[test]
fn a_topic_that_is_read_only_or_the_brokers_own_takes_no_messages() {
    let bench = Bench::new();
    let mut client = bench.client();
    for name in ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"] {
        assert_eq!(client.ask(send(name, "x")).code, response::NO_PERMISSION, "{name}");
    }
    for (perm, code) in [(6, response::SUCCESS), (4, response::NO_PERMISSION), (2, response::SUCCESS)] {
        bench.make_topic("orders", TopicDocument { perm, ..TopicDocument::default() });
        assert_eq!(client.ask(send("orders", "x")).code, code, "permission {perm}");
    }
}

#[test]
fn an_unknown_topic_is_made_from_its_template_or_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x").with("d", 2).with("e", 1));
    assert_eq!(client.ask(send("orders", "x").with("e", 2)).code, response::SYSTEM_ERROR);
    // No such template, and one that may not be one.
    assert_eq!(client.ask(send("other", "x").with("c", "none")).code, response::TOPIC_NOT_EXIST);
    assert_eq!(client.ask(send("other", "x").with("c", "orders")).code, response::NO_PERMISSION);
    let strict = Bench::with(|setup| setup.broker.auto_create_topics = false);
    let reply = strict.client().ask(send("orders", "x"));
    assert_eq!(reply.code, response::TOPIC_NOT_EXIST);
    assert!(reply.remark.contains("topic.auto_create"), "{}", reply.remark);
}

#[test]
fn a_negative_queue_is_the_brokers_choice_and_one_too_many_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut queues: Vec<_> =
        (0..4).map(|_| client.ask_well(send("orders", "x").with("e", -1)).number("queueId")).collect();
    queues.sort_unstable();
    assert_eq!(queues, [0, 1, 2, 3]);
    let reply = client.ask(send("orders", "x").with("e", 4));
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark.contains("queueId[4]"), "{}", reply.remark);
}

#[test]
fn a_message_that_is_too_long_is_refused_with_the_limit() {
    let bench = Bench::with(|setup| setup.broker.message_size_max = 1000);
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(1000)));
    let reply = client.ask(send("orders", &"x".repeat(1001)));
    assert_eq!(reply.code, response::MESSAGE_ILLEGAL);
    assert!(reply.remark.contains("at most 1000") && reply.remark.contains("message.size_max"), "{}", reply.remark);
    let property = |size| format!("p\u{1}{}\u{2}", "x".repeat(size));
    client.ask_well(send("orders", "x").with("i", property(32_000)));
    let reply = client.ask(send("orders", "x").with("i", property(32_767)));
    assert_eq!(reply.code, response::MESSAGE_ILLEGAL);
    assert!(reply.remark.contains("at most 32767"), "{}", reply.remark);
    assert_eq!(bench.count("orders", 0), 2);
}

#[test]
fn a_header_field_that_is_missing_or_no_number_is_named() {
    let bench = Bench::new();
    let mut client = bench.client();
    for form in [Form::Json, Form::Binary] {
        for (new, old) in NEEDED {
            for (asked, field) in [(send("orders", "x"), new), (send_v1("orders", "x"), old)] {
                let reply = client.ask(asked.form(form).without(field));
                assert_eq!(reply.code, response::SYSTEM_ERROR, "{field}");
                assert_eq!(reply.remark, format!("the header field <{field}> is missing"));
            }
        }
        for field in ["d", "e", "f", "g", "h", "j"] {
            for value in ["many", "", "9223372036854775808"] {
                let reply = client.ask(send("orders", "x").form(form).with(field, value));
                assert_eq!(reply.code, response::SYSTEM_ERROR, "{field} {value}");
                assert!(reply.remark.contains(&format!("<{field}> is [{value}]")), "{}", reply.remark);
            }
        }
    }
    assert!(bench.broker.catalog.topic("orders").is_none());
}

#[test]
fn a_request_that_is_not_supported_is_named_and_the_connection_goes_on() {
    let bench = Bench::new();
    let mut client = bench.client();
    let codes = [
        37, 223, 308, 323, 324, 325, 353, 370, 513, 902, 903, 906, 908, 200_052, 200_055, 200_056, 200_070, 29_999, -1,
    ];
    // As RocketMQ's `RequestCode` calls them.
    let names = [
        (37, "END_TRANSACTION"),
        (223, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS"),
        (324, "SEND_REPLY_MESSAGE"),
        (513, "UPDATE_AND_CREATE_STATIC_TOPIC"),
    ];
    for code in codes {
        for form in [Form::Json, Form::Binary] {
            let reply = client.ask(ask(code, &[]).form(form));
            assert_eq!(reply.code, response::REQUEST_CODE_NOT_SUPPORTED, "{code}");
            let name = reply.remark.strip_prefix(&format!("request type {code} ("));
            let name = name.and_then(|rest| rest.strip_suffix(") not supported by Sluice"));
            let name = name.unwrap_or_else(|| panic!("{code}: {}", reply.remark));
            if let Some((_, known)) = names.iter().find(|(known, _)| *known == code) {
                assert_eq!(name, *known);
            }
        }
    }
    client.ask_well(send("orders", "x"));
}

#[test]
fn messages_that_ask_for_a_missing_feature_are_refused_by_its_name() {
    let bench = Bench::new();
    let mut client = bench.client();
    let half_message = 0x4;
    let cases = [
        (send("orders", "x").with("f", half_message), "transactional messages"),
        (send("orders", "x").with("i", "TRAN_MSG\u{1}true\u{2}"), "transactional messages"),
        (send("orders", "x").with("i", "TIMER_DELIVER_MS\u{1}1700000009000\u{2}"), "delivery time"),
        (send("orders", "x").with("i", "TIMER_DELAY_SEC\u{1}9\u{2}"), "delivery time"),
        (send("orders", "x").with("i", "INNER_NUM\u{1}2\u{2}"), "batches"),
    ];
    for (asked, what) in cases {
        let reply = client.ask(asked);
        assert_eq!(reply.code, response::REQUEST_CODE_NOT_SUPPORTED, "{what}");
        assert!(reply.remark.starts_with("Sluice does not support") && reply.remark.contains(what), "{}", reply.remark);
    }
    assert_eq!(bench.count("orders", 0), 0);
    // With a delay level as well, the level counts.
    client.ask_well(send("orders", "x").with("i", "TIMER_DELAY_SEC\u{1}9\u{2}DELAY\u{1}1\u{2}"));
    // The request of a request and its reply is an ordinary message.
    client.ask_well(send("orders", "x").with("i", "MSG_TYPE\u{1}request\u{2}"));
}

#[test]
fn a_message_larger_than_a_segment_is_refused_alone() {
    let bench = Bench::new();
    let mut client = bench.client();
    let replies = client.give(&[send("orders", "small"), send("orders", &"x".repeat(2 << 20)), send("orders", "last")]);
    let mut codes: Vec<_> = replies.iter().map(|reply| (reply.opaque, reply.code)).collect();
    codes.sort_unstable();
    assert_eq!(codes.iter().map(|(_, code)| *code).collect::<Vec<_>>(), [0, response::MESSAGE_ILLEGAL, 0]);
}

/// Somebody else removes the topic as soon as it is announced: another thread is that fast.
#[derive(Debug, Default)]
struct RemovingHost {
    broker: OnceLock<Weak<Broker>>,
    is_armed: AtomicBool,
}

impl Host for RemovingHost {
    fn log_changed(&self) {
        if let Some(broker) = self.broker.get().and_then(Weak::upgrade) {
            broker.store().write_staged().expect("writes");
        }
    }

    fn sync_wanted(&self, _waiting: usize) {}

    fn registration_changed(&self) {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            let broker = self.broker.get().and_then(Weak::upgrade).expect("a broker");
            std::thread::scope(|scope| {
                scope.spawn(|| broker.removals.topic("orders", START).expect("removed"));
            });
        }
    }
}

#[test]
fn a_producer_whose_topic_was_removed_while_it_was_made_is_not_refused_for_ever() {
    let scratch = tempfile::tempdir().expect("directory");
    let host = Arc::new(RemovingHost::default());
    let store = testkit::store_options(scratch.path());
    let opened = testkit::open_broker(testkit::broker_options(), store, host.clone(), START);
    let broker = Arc::new(opened.expect("the broker opens"));
    host.broker.set(Arc::downgrade(&broker)).expect("one");
    let options = Arc::new(testkit::session_options());
    let mut client = Client::new(&broker, &options);
    host.is_armed.store(true, Ordering::SeqCst);
    // This one may well be refused: its topic went while it was sent.
    client.ask(send("orders", "1"));
    let codes: Vec<_> = (0..5).map(|_| client.ask(send("orders", "2")).code).collect();
    assert_eq!(codes, [0; 5]);
}
