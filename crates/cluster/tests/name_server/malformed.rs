//! Promises about input that is wrong: refused with a clear remark, or the connection closed, and nothing else harmed.

use base::session::Session;
use bytes::BytesMut;
use cluster::limits::{BROKERS_MAX, NAME_SIZE_MAX, REPLICAS_MAX};
use cluster::name_server::options::Options;
use cluster::registration::Identity;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;
use wire::rocketmq::registration::Registration;

use crate::client::{Client, START, ask, broker, name_server, topic, topics};

/// Fields that every request finds what it needs in, and their values.
const ALL_FIELDS: [(&str, &str); 11] = [
    ("brokerName", "b-a"),
    ("brokerAddr", "127.0.0.1:10911"),
    ("clusterName", "cluster-1"),
    ("haServerAddr", "127.0.0.1:10912"),
    ("brokerId", "0"),
    ("topic", "t1"),
    ("cluster", "cluster-1"),
    ("namespace", "n"),
    ("key", "k"),
    ("value", "v"),
    ("compressed", "false"),
];

/// Every code that needs fields, and the fields it insists on.
const NEEDS: [(i32, &[&str]); 15] = [
    (request::PUT_KV_CONFIG, &["namespace", "key", "value"]),
    (request::GET_KV_CONFIG, &["namespace", "key"]),
    (request::DELETE_KV_CONFIG, &["namespace", "key"]),
    (request::REGISTER_BROKER, &["brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId"]),
    (request::UNREGISTER_BROKER, &["brokerName", "brokerAddr", "clusterName", "brokerId"]),
    (request::GET_ROUTE_BY_TOPIC, &["topic"]),
    (request::WIPE_WRITE_PERMISSION_OF_BROKER, &["brokerName"]),
    (request::ADD_WRITE_PERMISSION_OF_BROKER, &["brokerName"]),
    (request::DELETE_TOPIC_IN_NAME_SERVER, &["topic"]),
    (request::REGISTER_TOPIC_IN_NAME_SERVER, &["topic"]),
    (request::GET_KV_LIST_BY_NAMESPACE, &["namespace"]),
    (request::GET_TOPICS_BY_CLUSTER, &["cluster"]),
    (request::QUERY_DATA_VERSION, &["brokerName", "brokerAddr", "clusterName", "brokerId"]),
    (request::GET_BROKER_MEMBER_GROUP, &["clusterName", "brokerName"]),
    (request::BROKER_HEARTBEAT, &["clusterName", "brokerAddr", "brokerName"]),
];

#[test]
fn a_missing_field_is_named() {
    let mut client = Client::new(&name_server(Options::default()));
    for (code, needed) in NEEDS {
        for missing in needed {
            let fields: Vec<_> = ALL_FIELDS.into_iter().filter(|(name, _)| name != missing).collect();
            for form in [Form::Json, Form::Binary] {
                let reply = client.ask(&ask(code, &fields).form(form));
                assert_eq!(reply.code, response::SYSTEM_ERROR, "{code} without {missing}");
                assert!(reply.remark().contains(&format!("<{missing}>")), "{code}: {:?}", reply.remark);
            }
        }
    }
}

#[test]
fn a_field_that_is_no_number_is_named_with_its_value() {
    let mut client = Client::new(&name_server(Options::default()));
    let mut fields = ALL_FIELDS.to_vec();
    fields[4].1 = "zero";
    let reply = client.ask(&ask(request::REGISTER_BROKER, &fields));
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().contains("<brokerId> is [zero]"), "{:?}", reply.remark);
    fields[4].1 = "-1";
    assert!(client.ask(&ask(request::REGISTER_BROKER, &fields)).remark().contains("negative"));
}

#[test]
fn a_code_that_is_not_ours_is_refused_by_name() {
    let mut client = Client::new(&name_server(Options::default()));
    for (code, name) in [(310, "SEND_MESSAGE_V2"), (34, "HEART_BEAT"), (31_999, "UNKNOWN"), (-1, "UNKNOWN")] {
        for form in [Form::Json, Form::Binary] {
            let reply = client.ask(&ask(code, &[]).form(form));
            assert_eq!(reply.code, response::REQUEST_CODE_NOT_SUPPORTED);
            assert!(reply.remark().contains(&code.to_string()) && reply.remark().contains(name), "{:?}", reply.remark);
        }
    }
}

#[test]
fn names_that_cannot_travel_are_refused() {
    let long = "x".repeat(NAME_SIZE_MAX + 1);
    let good = broker("b-a", 0, 10911);
    let bad: [(&str, Identity); 7] = [
        ("no cluster", Identity { cluster_name: String::new(), ..good.clone() }),
        ("a blank in the cluster", Identity { cluster_name: "a b".to_owned(), ..good.clone() }),
        ("a control character in the name", Identity { broker_name: "a\u{1}b".to_owned(), ..good.clone() }),
        ("a long name", Identity { broker_name: long.clone(), ..good.clone() }),
        ("no address", Identity { address: String::new(), ..good.clone() }),
        ("a long replication address", Identity { ha_address: "h".repeat(10_000), ..good.clone() }),
        ("a long zone", Identity { zone: Some("z".repeat(10_000)), ..good.clone() }),
    ];
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    for (case, identity) in bad {
        let reply = client.register(&identity, &topics(1, &["t1", "t2"]));
        assert_eq!(reply.code, response::SYSTEM_ERROR, "{case}");
        assert!(!reply.remark().is_empty() && reply.remark().len() < 1000, "{case}");
    }
    for name in ["", "a b", "a\n", &long] {
        let body = br#"{"queueDatas":[]}"#;
        let reply = client.ask(&ask(request::REGISTER_TOPIC_IN_NAME_SERVER, &[("topic", name)]).body(body));
        assert_eq!(reply.code, response::SYSTEM_ERROR, "{name:?}");
    }
    assert_eq!((server.summary().brokers, server.summary().topics), (0, 0));
}

#[test]
fn an_odd_topic_costs_itself_and_no_other_and_is_told_once() {
    let long = "x".repeat(NAME_SIZE_MAX + 1);
    let good = broker("b-a", 0, 10911);
    for name in ["a b", "a\n", &long] {
        let server = name_server(Options::default());
        let mut client = Client::new(&server);
        for _ in 0..2 {
            assert_eq!(client.register(&good, &topics(1, &["t1", name])).code, response::SUCCESS, "{name:?}");
        }
        assert_eq!((client.route("t1").code, server.summary().topics), (response::SUCCESS, 1));
        let told = server.take_odd_registrations();
        assert_eq!((told.len(), &*told[0].broker, told[0].topics.count), (1, "b-a", 1));
        assert!(told[0].topics.first.as_deref().is_some_and(|text| text.contains("topic name")), "{told:?}");
    }
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let mut renamed = topics(1, &["t1", "t2"]);
    renamed.topic_config_table.insert("t3".to_owned(), topic("t4"));
    assert_eq!(client.register(&good, &renamed).code, response::SUCCESS);
    assert_eq!(server.summary().topics, 2);
    assert!(server.take_odd_registrations()[0].topics.first.as_deref().is_some_and(|text| text.contains("[t4]")));
    // Once it is in order there is nothing to tell; what is odd again is told again.
    client.register(&good, &topics(2, &["t1", "t2"]));
    assert_eq!(server.take_odd_registrations(), []);
    client.register(&good, &renamed);
    assert_eq!(server.take_odd_registrations().len(), 1);
}

#[test]
fn a_body_that_cannot_be_read_is_refused_and_harms_nothing() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let packed = Registration { topics: topics(2, &["t1", "t2"]), ..Registration::default() }.encode_packed(493);
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 9] = [
        b"x",
        b"{",
        b"[]",
        b"\xFF\xFF\xFF\xFF",
        br#"{"topicConfigSerializeWrapper":7}"#,
        br#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":7}}}"#,
        br#"{"counter":"many"}"#,
        deep.as_bytes(),
        &packed[..packed.len() / 2],
    ];
    for body in bodies {
        for compressed in ["false", "true"] {
            let mut fields = ALL_FIELDS.to_vec();
            fields[10].1 = compressed;
            let reply = client.ask(&ask(request::REGISTER_BROKER, &fields).body(body));
            // An object with nothing we know in it is a registration without topics.
            let is_object = compressed == "false" && body.starts_with(br#"{"counter"#);
            assert_eq!(reply.code == response::SUCCESS, is_object, "{body:?}");
            if !is_object {
                assert!(reply.remark().starts_with("the registration cannot be read"), "{:?}", reply.remark);
            }
        }
    }
    let wrong: [&[u8]; 5] = [b"", b"x", b"[]", br#"{"counter":"many","queueDatas":7}"#, deep.as_bytes()];
    for body in wrong {
        for code in [request::QUERY_DATA_VERSION, request::REGISTER_TOPIC_IN_NAME_SERVER] {
            let reply = client.ask(&ask(code, &ALL_FIELDS).body(body));
            assert_eq!(reply.code, response::SYSTEM_ERROR, "{code} {body:?}");
            assert!(reply.remark().starts_with("the body cannot be read"), "{:?}", reply.remark);
        }
    }
    assert_eq!(client.route("t1").route().queue_datas.len(), 1);
}

#[test]
fn bytes_that_are_no_frames_close_the_connection() {
    let bad: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xFF\xFF\xFF\xFF\0\0\0\0",
        b"\0\0\0\x08\x02\0\0\x01abcd",
        b"\0\0\0\x08\0\0\0\x04abcd",
        b"\0\0\0\x08\x01\0\0\x04abcd",
    ];
    for bytes in bad {
        let mut client = Client::new(&name_server(Options::default()));
        let mut input = BytesMut::from(bytes);
        let reason = client.session.receive(&mut input, START).expect_err("closed");
        assert!(reason.0.starts_with("not a RocketMQ frame"), "{reason:?}");
        client.session.closed(START);
    }
}

#[test]
fn no_changed_byte_in_a_request_harms_the_name_server() {
    let server = name_server(Options::default());
    let body = Registration { topics: topics(1, &["t1", "t2"]), ..Registration::default() }.encode_plain();
    for form in [Form::Json, Form::Binary] {
        let frame = ask(request::REGISTER_BROKER, &ALL_FIELDS).form(form).body(&body).frame(7);
        for at in 4..frame.len() {
            for value in [0, b'"', 0x7F, 0xFF] {
                let mut input = frame.clone();
                input[at] = value;
                let mut client = Client::new(&server);
                let _ = client.session.receive(&mut input, START);
                client.session.closed(START);
            }
        }
    }
    assert_eq!((server.summary().brokers, server.summary().topics), (0, 0));
}

#[test]
fn counts_beyond_their_bounds_are_refused() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    for id in 0..REPLICAS_MAX {
        let identity = broker("b-a", id as i64, 10_000 + id as u16);
        assert_eq!(client.register(&identity, &topics(1, &["t1", "t2"])).code, response::SUCCESS);
    }
    let reply = client.register(&broker("b-a", REPLICAS_MAX as i64, 40_000), &topics(1, &["t1", "t2"]));
    assert!(reply.remark().contains("limit"), "{:?}", reply.remark);
    for index in 1..BROKERS_MAX {
        client.register(&broker(&format!("b-{index}"), 0, 20_000 + index as u16), &topics(1, &[]));
    }
    assert_eq!(server.summary().brokers, BROKERS_MAX);
    let reply = client.register(&broker("one-more", 0, 40_000), &topics(1, &[]));
    assert!(reply.remark().contains("limit"), "{:?}", reply.remark);
    let again = client.register(&broker("b-1", 0, 20_001), &topics(2, &["t1"]));
    assert_eq!(again.code, response::SUCCESS);
    client.session.closed(START);
    assert_eq!((server.summary().brokers, server.summary().topics), (0, 0));
}

#[test]
fn answers_that_no_frame_holds_are_refused() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let suffix = "x".repeat(480);
    for part in 0..2 {
        let mut table = topics(1, &[]);
        for index in 0..17_500 {
            let name = format!("t{part}-{index}-{suffix}");
            table.topic_config_table.insert(name.clone(), topic(&name));
        }
        let reply = client.register(&broker(&format!("b-{part}"), 0, 10911 + part), &table);
        assert_eq!(reply.code, response::SUCCESS, "{:?}", reply.remark);
    }
    let reply = client.ask(&ask(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, &[]));
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().contains("no frame holds more"), "{:?}", reply.remark);
}

#[test]
fn answers_that_nobody_asked_for_are_ignored() {
    let mut client = Client::new(&name_server(Options::default()));
    let mut asked = ask(response::SUCCESS, &[]);
    asked.flag = 1;
    assert!(client.send(&asked.frame(3)).is_empty());
}
