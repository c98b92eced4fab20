//! Promises about routes, lists, permissions and the key-value table.

use std::sync::atomic::Ordering;

use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::session::Session;
use base::{Now, Timestamp};
use bytes::BytesMut;
use cluster::SPOKEN_VERSION;
use cluster::name_server::NameServer;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::registration::Identity;
use format::document::{TopicDocument, TopicTableDocument};
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;
use wire::rocketmq::registration::Registration;

use crate::client::{Client, MemoryFile, START, ask, broker, name_server, topic, topics};

#[test]
fn the_size_of_a_frame_is_told_once_it_is_known() {
    let client = Client::new(&name_server(Options::default()));
    let frame = ask(request::GET_BROKER_CLUSTER_INFO, &[]).body(&[b'x'; 5000]).frame(1);
    let told = |size: usize| client.session.frame_size(&frame[..size]);
    assert_eq!([0, 3, 4, frame.len()].map(told), [0, 0, frame.len(), frame.len()]);
}

#[test]
fn an_answer_has_the_form_the_number_and_our_version() {
    let mut client = Client::new(&name_server(Options::default()));
    for form in [Form::Json, Form::Binary] {
        let reply = client.ask(&ask(request::GET_BROKER_CLUSTER_INFO, &[]).form(form));
        assert_eq!((reply.form, reply.version), (form, SPOKEN_VERSION));
        let refusal = client.ask(&ask(request::GET_ROUTE_BY_TOPIC, &[("topic", "none")]).form(form));
        assert_eq!((refusal.form, refusal.version), (form, SPOKEN_VERSION));
    }
}

#[test]
fn a_topic_without_route_is_named_with_the_remedy() {
    let mut client = Client::new(&name_server(Options::default()));
    let reply = client.route("orders");
    assert_eq!(reply.code, response::TOPIC_NOT_EXIST);
    assert!(reply.remark().starts_with("No topic route info in name server for the topic: orders"));
    assert!(reply.remark().contains("mqadmin updateTopic"));
    assert!(reply.fields.is_empty() && reply.body.is_empty());
    assert!(client.route(&"x".repeat(100_000)).remark().len() < 1000);
}

#[test]
fn routes_are_strict_json_for_new_clients_and_loose_for_old_ones() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let topic = [("topic", "t1")];
    let loose = client.ask(&ask(request::GET_ROUTE_BY_TOPIC, &topic).version(400));
    assert!(loose.text().contains(r#"{0:"127.0.0.1:10911"}"#), "{}", loose.text());
    let strict = client.ask(&ask(request::GET_ROUTE_BY_TOPIC, &topic).version(401));
    assert!(strict.text().contains(r#"{"0":"127.0.0.1:10911"}"#), "{}", strict.text());
    let wished = [("topic", "t1"), ("acceptStandardJsonOnly", "true")];
    assert_eq!(client.ask(&ask(request::GET_ROUTE_BY_TOPIC, &wished).version(0)).body, strict.body);
    assert_eq!(loose.route(), strict.route());
}

#[test]
fn a_static_topic_carries_its_mapping() {
    let mut client = Client::new(&name_server(Options::default()));
    let mapping =
        serde_json::json!({"bname": "b-a", "currIdMap": {"0": 1}, "epoch": 3, "topic": "t1", "totalQueues": 8});
    let registration = Registration {
        topics: topics(1, &["t1", "t2"]),
        mappings: [("t1".to_owned(), mapping.clone())].into(),
        ..Registration::default()
    };
    let fields = [
        ("brokerName", "b-a"),
        ("brokerAddr", "127.0.0.1:10911"),
        ("clusterName", "cluster-1"),
        ("haServerAddr", ""),
        ("brokerId", "0"),
    ];
    client.ask(&ask(request::REGISTER_BROKER, &fields).body(&registration.encode_plain()));
    let mappings = client.route("t1").route().topic_queue_mapping_by_broker.expect("mappings");
    assert_eq!(mappings["b-a"], mapping);
    assert_eq!(client.route("t2").route().topic_queue_mapping_by_broker, None);
}

#[test]
fn a_client_in_a_zone_sees_the_brokers_of_its_zone() {
    let mut client = Client::new(&name_server(Options::default()));
    let in_zone = |name, port, zone: &str| Identity { zone: Some(zone.to_owned()), ..broker(name, 0, port) };
    client.register(&in_zone("b-a", 10911, "east"), &topics(1, &["t1", "t2"]));
    client.register(&in_zone("b-b", 10931, "west"), &topics(1, &["t1", "t2"]));
    let mut seen = |mode, zone| {
        let fields = [("topic", "t1"), ("__ZONE_MODE", mode), ("__ZONE_NAME", zone)];
        let route = client.ask(&ask(request::GET_ROUTE_BY_TOPIC, &fields)).route();
        let brokers = route.broker_datas.iter().map(|broker| broker.broker_name.clone()).collect::<Vec<_>>();
        assert_eq!(route.queue_datas.iter().map(|queues| queues.broker_name.clone()).collect::<Vec<_>>(), brokers);
        brokers.join(" ")
    };
    assert_eq!(seen("true", "East"), "b-a");
    assert_eq!(seen("false", "east"), "b-a b-b");
    assert_eq!(seen("true", " "), "b-a b-b");
}

#[test]
fn routes_wait_for_brokers_if_the_settings_say_so() {
    let options = Options { need_wait_for_service: true, wait_for_service_seconds: 45, ..Options::default() };
    let server = name_server(options);
    let mut client = Client::new(&server);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let reply = client.route("t1");
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().starts_with("name server not ready"));
    // Whatever the clock was set to meanwhile.
    client.now = Now { wall: Timestamp(0), ..START.plus_ms(45_000) };
    assert_eq!(client.route("none").code, response::TOPIC_NOT_EXIST);
    assert_eq!(client.route("t1").code, response::SUCCESS);
    assert_eq!(client.route("t1").code, response::SUCCESS);
}

#[test]
fn topics_are_listed_by_name_cluster_and_unit() {
    let mut client = Client::new(&name_server(Options::default()));
    let flagged = |name: &str, flag| (name.to_owned(), TopicDocument { topic_sys_flag: flag, ..topic(name) });
    let table = [flagged("plain", 0), flagged("unit", 1), flagged("sub", 2), flagged("both", 3)];
    let table = TopicTableDocument { topic_config_table: table.into(), ..topics(1, &[]) };
    client.register(&broker("b-a", 0, 10911), &table);
    let other = Identity { cluster_name: "cluster-2".to_owned(), ..broker("b-b", 0, 10931) };
    client.register(&other, &topics(1, &["plain", "other"]));
    let mut list = |code, fields: &[(&str, &str)]| client.ask(&ask(code, fields)).topics().join(" ");
    assert_eq!(list(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, &[]), "both other plain sub unit");
    assert_eq!(list(request::GET_TOPICS_BY_CLUSTER, &[("cluster", "cluster-2")]), "other plain");
    assert_eq!(list(request::GET_TOPICS_BY_CLUSTER, &[("cluster", "none")]), "");
    assert_eq!(list(request::GET_UNIT_TOPIC_LIST, &[]), "both unit");
    assert_eq!(list(request::GET_HAS_UNIT_SUB_TOPIC_LIST, &[]), "both sub");
    assert_eq!(list(request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, &[]), "sub");
    assert_eq!(list(request::GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER, &[]), "cluster-1 b-a cluster-2 b-b");
    let reply = client.ask(&ask(request::GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER, &[]));
    assert_eq!(TopicList::decode(&reply.body).expect("list").broker_addr.as_deref(), Some("127.0.0.1:10911"));
}

#[test]
fn lists_that_are_switched_off_are_refused() {
    let options = Options { enable_all_topic_list: false, enable_topic_list: false, ..Options::default() };
    let mut client = Client::new(&name_server(options));
    for code in
        [request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, request::GET_TOPICS_BY_CLUSTER, request::GET_UNIT_TOPIC_LIST]
    {
        let reply = client.ask(&ask(code, &[("cluster", "cluster-1")]));
        assert_eq!(reply.code, response::SYSTEM_ERROR);
        assert!(reply.remark().starts_with("disable"), "{:?}", reply.remark);
    }
}

#[test]
fn writing_is_wiped_and_given_back_broker_by_broker() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    client.register(&broker("b-b", 0, 10931), &topics(1, &["t1", "t2"]));
    let name = [("brokerName", "b-a")];
    let permissions =
        |client: &mut Client| client.route("t1").route().queue_datas.iter().map(|q| q.perm).collect::<Vec<_>>();
    let reply = client.ask(&ask(request::WIPE_WRITE_PERMISSION_OF_BROKER, &name));
    assert_eq!(reply.fields["wipeTopicCount"], "2");
    assert_eq!(permissions(&mut client), [4, 6]);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    assert_eq!(permissions(&mut client), [4, 6]);
    let reply = client.ask(&ask(request::ADD_WRITE_PERMISSION_OF_BROKER, &name));
    assert_eq!(reply.fields["addTopicCount"], "2");
    assert_eq!(permissions(&mut client), [6, 6]);
    let reply = client.ask(&ask(request::WIPE_WRITE_PERMISSION_OF_BROKER, &[("brokerName", "none")]));
    assert_eq!(reply.fields["wipeTopicCount"], "0");
}

#[test]
fn a_topic_is_deleted_everywhere_or_in_one_cluster() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let other = Identity { cluster_name: "cluster-2".to_owned(), ..broker("b-b", 0, 10931) };
    client.register(&other, &topics(1, &["t1", "t2"]));
    let mut delete = |fields: &[(&str, &str)]| client.ask(&ask(request::DELETE_TOPIC_IN_NAME_SERVER, fields)).code;
    assert_eq!(delete(&[("topic", "t1"), ("clusterName", "cluster-2")]), response::SUCCESS);
    assert_eq!(delete(&[("topic", "t2"), ("clusterName", "")]), response::SUCCESS);
    assert_eq!(delete(&[("topic", "none"), ("clusterName", "none")]), response::SUCCESS);
    assert_eq!(client.route("t1").route().queue_datas[0].broker_name, "b-a");
    assert_eq!(client.route("t2").code, response::TOPIC_NOT_EXIST);
    // The broker still has it: at its next registration the route is back.
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    assert_eq!(client.route("t2").code, response::SUCCESS);
}

#[test]
fn keys_and_values_are_put_got_listed_and_deleted() {
    let mut client = Client::new(&name_server(Options::default()));
    let key = [("namespace", "n"), ("key", "k")];
    let missing = client.ask(&ask(request::GET_KV_CONFIG, &key));
    assert_eq!((missing.code, missing.remark()), (response::QUERY_NOT_FOUND, "No config item, Namespace: n Key: k"));
    let missing = client.ask(&ask(request::GET_KV_LIST_BY_NAMESPACE, &key[..1]));
    assert_eq!((missing.code, missing.remark()), (response::QUERY_NOT_FOUND, "No config item, Namespace: n"));
    client.ask(&ask(request::PUT_KV_CONFIG, &[key[0], key[1], ("value", "v=1")]));
    assert_eq!(client.ask(&ask(request::GET_KV_CONFIG, &key)).fields["value"], "v=1");
    let listed = client.ask(&ask(request::GET_KV_LIST_BY_NAMESPACE, &key[..1]));
    assert_eq!(KvTable::decode(&listed.body).expect("table").table["k"], "v=1");
    assert_eq!(client.ask(&ask(request::DELETE_KV_CONFIG, &key)).code, response::SUCCESS);
    assert_eq!(client.ask(&ask(request::GET_KV_CONFIG, &key)).code, response::QUERY_NOT_FOUND);
}

#[test]
fn a_value_is_in_its_file_before_the_answer() {
    let file = MemoryFile::default();
    let server = NameServer::new(Options::default(), KeyValues::default(), Box::new(file.clone()), START);
    let mut client = Client::new(&server);
    let key = [("namespace", "n"), ("key", "k")];
    let put = ask(request::PUT_KV_CONFIG, &[key[0], key[1], ("value", "v=1")]);
    client.session.receive(&mut put.frame(1), START).expect("a frame");
    assert!(client.replies().is_empty() && client.session.is_busy(), "no answer before the job is done");
    client.session.take_job().expect("the table is to be written")();
    assert_eq!(*file.text.lock(), r#"{"configTable":{"n":{"k":"v=1"}}}"#);
    client.session.wake(START);
    assert_eq!(client.replies()[0].code, response::SUCCESS);

    let kept = KeyValues::from_json(file.text.lock().as_bytes()).expect("reads");
    let restarted = NameServer::new(Options::default(), kept, Box::new(file.clone()), START);
    assert_eq!(Client::new(&restarted).ask(&ask(request::GET_KV_CONFIG, &key)).fields["value"], "v=1");

    file.has_no_room.store(true, Ordering::Relaxed);
    let refused = client.ask(&ask(request::DELETE_KV_CONFIG, &key));
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark().contains("no space left"), "{:?}", refused.remark);
    file.has_no_room.store(false, Ordering::Relaxed);
    assert_eq!(client.ask(&ask(request::DELETE_KV_CONFIG, &key)).code, response::SUCCESS);
    assert_eq!(*file.text.lock(), r#"{"configTable":{"n":{}}}"#, "what failed is made good");
}

#[test]
fn orders_of_queues_reach_brokers_and_if_enabled_routes() {
    for (enabled, shown) in [(false, None), (true, Some("b-a:4"))] {
        let mut client = Client::new(&name_server(Options { order_message_enable: enabled, ..Options::default() }));
        let put = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "t1"), ("value", "b-a:4")];
        client.ask(&ask(request::PUT_KV_CONFIG, &put));
        let reply = client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
        assert_eq!(reply.text(), r#"{"table":{"t1":"b-a:4"}}"#);
        assert_eq!(client.route("t1").route().order_topic_conf.as_deref(), shown);
    }
    let options = Options { return_order_topic_config_to_broker: false, ..Options::default() };
    let mut client = Client::new(&name_server(options));
    let put = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "t1"), ("value", "b-a:4")];
    client.ask(&ask(request::PUT_KV_CONFIG, &put));
    assert!(client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"])).body.is_empty());
}

#[test]
fn a_peer_that_does_not_read_its_answers_is_not_served_more() {
    let mut table = topics(1, &[]);
    for index in 0..20_000 {
        let name = format!("a-topic-with-a-rather-long-name-{index}");
        table.topic_config_table.insert(name.clone(), topic(&name));
    }
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &table);
    let asked = 200;
    let mut input = BytesMut::new();
    for opaque in 0..asked {
        input.extend_from_slice(&ask(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, &[]).frame(opaque));
    }
    let mut numbers = Vec::new();
    while !input.is_empty() {
        client.session.receive(&mut input, START).expect("frames");
        client.work();
        assert!(client.session.output().size() < 2 * OUTPUT_BACKLOG_SIZE_MAX);
        numbers.extend(client.replies().into_iter().map(|reply| reply.opaque));
        assert!(client.session.wants_input());
    }
    assert_eq!(numbers, (0..asked).collect::<Vec<_>>());
}

#[test]
fn frames_that_come_in_pieces_are_put_together() {
    let mut client = Client::new(&name_server(Options::default()));
    let frame = ask(request::GET_BROKER_CLUSTER_INFO, &[]).frame(9);
    let mut input = BytesMut::new();
    for (index, byte) in frame.iter().enumerate() {
        assert_eq!(client.replies().len(), 0, "after {index} bytes");
        input.extend_from_slice(&[*byte]);
        client.session.receive(&mut input, START).expect("frames");
    }
    assert_eq!(client.replies().len(), 1);
}
