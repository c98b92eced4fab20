//! Promises about brokers that register.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use base::session::Session;
use format::document::{DataVersion, TopicDocument};
use wire::rocketmq::body::cluster_info::{BrokerMemberGroup, ClusterInfo};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{Command, Form};
use wire::rocketmq::registration::{Registration, body_checksum};

use cluster::name_server::options::Options;
use cluster::registration::{Identity, read_register_answer, register_request, unregister_request};

use crate::client::{Client, START, ask, broker, name_server, topic, topics};

/// The header fields by which a broker of 4.9.7 registers.
fn old_fields<'a>(compressed: &'a str, checksum: &'a str) -> [(&'a str, &'a str); 7] {
    [
        ("brokerName", "b-a"),
        ("brokerAddr", "127.0.0.1:10911"),
        ("clusterName", "cluster-1"),
        ("haServerAddr", "127.0.0.1:10912"),
        ("brokerId", "0"),
        ("compressed", compressed),
        ("bodyCrc32", checksum),
    ]
}

#[test]
fn a_registered_topic_has_a_route_at_once() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    let reply = client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    assert_eq!((reply.code, reply.body.len(), reply.fields.len()), (response::SUCCESS, 0, 0));
    let route = client.route("t1").route();
    assert_eq!(route.queue_datas.len(), 1);
    let queues = &route.queue_datas[0];
    assert_eq!((&*queues.broker_name, queues.perm, queues.read_queue_nums, queues.write_queue_nums), ("b-a", 6, 8, 4));
    let data = &route.broker_datas[0];
    assert_eq!((&*data.cluster, &*data.broker_addrs[&0]), ("cluster-1", "127.0.0.1:10911"));
}

#[test]
fn both_forms_of_a_registration_are_taken_from_brokers_of_either_line() {
    let registration = Registration { topics: topics(1, &["t1", "t2"]), ..Registration::default() };
    for version in [407, 493] {
        for compressed in [false, true] {
            let body = if compressed { registration.encode_packed(version) } else { registration.encode_plain() };
            let checksum = body_checksum(&body).to_string();
            let flag = compressed.to_string();
            for form in [Form::Json, Form::Binary] {
                let mut client = Client::new(&name_server(Options::default()));
                let fields = old_fields(&flag, &checksum);
                let asked = ask(request::REGISTER_BROKER, &fields).body(&body).version(version).form(form);
                let reply = client.ask(&asked);
                assert_eq!(reply.code, response::SUCCESS, "{version} {compressed} {form:?} {:?}", reply.remark);
                assert_eq!(client.route("t2").route().queue_datas[0].read_queue_nums, 8);
            }
        }
    }
}

#[test]
fn what_concerns_many_topics_is_done_away_from_the_network_threads() {
    let server = name_server(Options::default());
    let names: Vec<_> = (0..10_000).map(|number| format!("t{number}")).collect();
    let many = topics(1, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut other = Client::new(&server);
    let lists = [request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, request::GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER];
    let jobs_for = |client: &mut Client, code| {
        client.session.receive(&mut ask(code, &[]).frame(1), START).unwrap();
        std::iter::from_fn(|| client.session.take_job()).count()
    };
    assert_eq!(lists.map(|code| jobs_for(&mut other, code)), [0, 0]);
    let mut client = Client::new(&server);
    assert_eq!(client.register(&broker("b-a", 0, 10911), &many).code, response::SUCCESS);
    assert_eq!(lists.map(|code| jobs_for(&mut Client::new(&server), code)), [1, 1]);
    // Its connection closes: it is forgotten by a job.
    client.session.closed(START);
    assert_eq!(server.summary().topics, 10_000);
    client.session.take_job().unwrap()();
    assert_eq!(server.summary().topics, 0);
}

#[test]
fn filter_servers_are_told_with_the_routes_of_their_broker_while_it_has_some() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-b", 0, 10931), &topics(1, &["t1", "t2"]));
    for (counter, filter_servers) in [(1, vec!["f:1".to_owned(), "f:2".to_owned()]), (2, Vec::new())] {
        let registration = Registration {
            topics: topics(counter, &["t1", "t2"]),
            filter_servers: filter_servers.clone(),
            ..Registration::default()
        };
        let body = registration.encode_plain();
        let checksum = body_checksum(&body).to_string();
        let reply = client.ask(&ask(request::REGISTER_BROKER, &old_fields("false", &checksum)).body(&body));
        assert_eq!(reply.code, response::SUCCESS, "{:?}", reply.remark);
        let told: Vec<_> = client.route("t1").route().filter_server_table.into_values().collect();
        let expected = if filter_servers.is_empty() { Vec::new() } else { vec![Some(filter_servers)] };
        assert_eq!(told, expected, "of the broker that has them alone");
    }
}

#[test]
fn a_registration_that_was_changed_on_its_way_is_refused() {
    let mut client = Client::new(&name_server(Options::default()));
    let body = Registration { topics: topics(1, &["t1", "t2"]), ..Registration::default() }.encode_plain();
    let reply = client.ask(&ask(request::REGISTER_BROKER, &old_fields("false", "12345")).body(&body));
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().starts_with("crc32 not match"), "{:?}", reply.remark);
    assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
}

#[test]
fn a_replica_learns_its_master_and_does_not_change_topics() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let reply = client.register(&broker("b-a", 1, 10921), &topics(9, &["t1", "t2", "t3"]));
    assert_eq!(reply.fields["haServerAddr"], "127.0.0.1:10912");
    assert_eq!(reply.fields["masterAddr"], "127.0.0.1:10911");
    assert_eq!(client.route("t3").code, response::TOPIC_NOT_EXIST);
    let addresses = &client.route("t1").route().broker_datas[0].broker_addrs;
    assert_eq!(addresses.values().collect::<Vec<_>>(), ["127.0.0.1:10911", "127.0.0.1:10921"]);
}

#[test]
fn a_replica_without_master_brings_its_topics_if_it_is_of_5_x() {
    for (acting, code, permission) in
        [(None, response::TOPIC_NOT_EXIST, 0), (Some(false), response::SUCCESS, 6), (Some(true), response::SUCCESS, 4)]
    {
        let mut client = Client::new(&name_server(Options::default()));
        let replica = Identity { enable_acting_master: acting, ..broker("b-a", 2, 10921) };
        client.register(&replica, &topics(1, &["t1", "t2"]));
        let reply = client.route("t1");
        assert_eq!(reply.code, code, "{acting:?}");
        if code == response::SUCCESS {
            assert_eq!(reply.route().queue_datas[0].perm, permission, "{acting:?}");
        }
    }
}

#[test]
fn a_replica_that_becomes_master_keeps_one_address() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 1, 10911), &topics(1, &["t1", "t2"]));
    client.register(&broker("b-a", 0, 10911), &topics(2, &["t1", "t2"]));
    let addresses = client.route("t1").route().broker_datas[0].broker_addrs.clone();
    assert_eq!(addresses.into_iter().collect::<Vec<_>>(), [(0, "127.0.0.1:10911".to_owned())]);
}

#[test]
fn a_process_that_comes_back_under_another_name_leaves_nothing_behind() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    client.register(&broker("old", 0, 10911), &topics(1, &["t1", "t2"]));
    client.register(&broker("new", 0, 10911), &topics(1, &["t2", "t3"]));
    assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    assert_eq!(client.route("t2").route().queue_datas[0].broker_name, "new");
    assert_eq!((server.summary().brokers, server.summary().topics), (1, 2));
}

#[test]
fn a_master_that_lost_its_place_cannot_take_it_back() {
    let mut client = Client::new(&name_server(Options::default()));
    let mut newer = topics(1, &["t1", "t2"]);
    newer.data_version.state_version = 5;
    client.register(&broker("b-a", 0, 10921), &newer);
    let reply = client.register(&broker("b-a", 0, 10911), &topics(99, &["t1", "t2", "t3"]));
    assert_eq!(reply.code, response::SUCCESS);
    assert_eq!(client.route("t1").route().broker_datas[0].broker_addrs[&0], "127.0.0.1:10921");
    assert_eq!(client.route("t3").code, response::TOPIC_NOT_EXIST);
}

#[test]
fn a_topic_changes_with_the_data_version_only() {
    let mut client = Client::new(&name_server(Options::default()));
    let mut table = topics(1, &["t1", "t2"]);
    client.register(&broker("b-a", 0, 10911), &table);
    table.topic_config_table.get_mut("t1").expect("t1").read_queue_nums = 16;
    table.topic_config_table.insert("t3".to_owned(), topic("t3"));
    client.register(&broker("b-a", 0, 10911), &table);
    assert_eq!(client.route("t1").route().queue_datas[0].read_queue_nums, 8);
    assert_eq!(client.route("t3").code, response::SUCCESS);
    table.data_version.counter = 2;
    client.register(&broker("b-a", 0, 10911), &table);
    assert_eq!(client.route("t1").route().queue_datas[0].read_queue_nums, 16);
}

#[test]
fn a_broker_that_is_not_known_may_not_register_a_single_topic() {
    let mut client = Client::new(&name_server(Options::default()));
    let reply = client.register(&broker("b-a", 0, 10911), &topics(1, &["t1"]));
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().starts_with("register broker failed"), "{:?}", reply.remark);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    assert_eq!(client.register(&broker("b-a", 0, 10911), &topics(2, &["t3"])).code, response::SUCCESS);
    assert_eq!(client.route("t1").route().queue_datas.len(), 1);
}

#[test]
fn topics_that_are_no_longer_registered_go_if_the_settings_say_so() {
    for (removes, code) in [(false, response::SUCCESS), (true, response::TOPIC_NOT_EXIST)] {
        let options = Options { delete_topic_with_broker_registration: removes, ..Options::default() };
        let mut client = Client::new(&name_server(options));
        client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2", "t3"]));
        client.register(&broker("b-a", 0, 10911), &topics(2, &["t2", "t3"]));
        assert_eq!(client.route("t1").code, code);
        assert_eq!(client.route("t2").code, response::SUCCESS);
    }
}

#[test]
fn a_single_topic_is_registered_on_known_brokers_only() {
    let mut client = Client::new(&name_server(Options::default()));
    let body =
        br#"{"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":3,"writeQueueNums":3,"topicSysFlag":0}]}"#;
    let asked = ask(request::REGISTER_TOPIC_IN_NAME_SERVER, &[("topic", "t9")]).body(body);
    let reply = client.ask(&asked);
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().contains("[b-a]"), "{:?}", reply.remark);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    assert_eq!(client.ask(&asked).code, response::SUCCESS);
    assert_eq!(client.route("t9").route().queue_datas[0].read_queue_nums, 3);
}

#[test]
fn a_broker_can_ask_whether_its_topics_are_known() {
    let mut client = Client::new(&name_server(Options::default()));
    let fields =
        &[("brokerName", "b-a"), ("brokerAddr", "127.0.0.1:10911"), ("clusterName", "cluster-1"), ("brokerId", "0")];
    let version = |counter: i64| {
        format!(r#"{{"counter":{counter},"stateVersion":0,"timestamp":{}}}"#, 1_700_000_000_000 + counter)
    };
    let (first, second) = (version(1), version(2));
    let reply = client.ask(&ask(request::QUERY_DATA_VERSION, fields).body(first.as_bytes()));
    assert_eq!((&*reply.fields["changed"], reply.body.len()), ("true", 0));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    let reply = client.ask(&ask(request::QUERY_DATA_VERSION, fields).body(first.as_bytes()));
    assert_eq!((&*reply.fields["changed"], reply.text()), ("false", &*first));
    let reply = client.ask(&ask(request::QUERY_DATA_VERSION, fields).body(second.as_bytes()));
    assert_eq!((&*reply.fields["changed"], reply.text()), ("true", &*first));
    let old = DataVersion { counter: 1, state_version: 0, timestamp: 1_700_000_000_001 };
    let reply =
        client.ask(&ask(request::QUERY_DATA_VERSION, fields).body(br#"{"counter":1,"timestamp":1700000000001}"#));
    assert_eq!(&*reply.fields["changed"], "false", "{old:?} of 4.9 has no state version");
}

#[test]
fn clusters_and_member_groups_are_told() {
    let mut client = Client::new(&name_server(Options::default()));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    client.register(&broker("b-a", 1, 10921), &topics(1, &["t1", "t2"]));
    client.register(&broker("b-b", 0, 10931), &topics(1, &["t1", "t2"]));
    let reply = client.ask(&ask(request::GET_BROKER_CLUSTER_INFO, &[]).version(493));
    assert!(reply.text().contains(r#""brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"}"#), "{}", reply.text());
    let info = ClusterInfo::decode(&reply.body).expect("cluster info");
    assert_eq!(info.cluster_addr_table["cluster-1"].iter().collect::<Vec<_>>(), ["b-a", "b-b"]);
    let fields = [("clusterName", "cluster-1"), ("brokerName", "b-a")];
    let reply = client.ask(&ask(request::GET_BROKER_MEMBER_GROUP, &fields));
    assert_eq!(BrokerMemberGroup::decode(&reply.body).expect("group").broker_addrs.len(), 2);
    let fields = [("clusterName", "cluster-1"), ("brokerName", "none")];
    let reply = client.ask(&ask(request::GET_BROKER_MEMBER_GROUP, &fields));
    let group = BrokerMemberGroup::decode(&reply.body).expect("group");
    assert_eq!((&*group.broker_name, group.broker_addrs.len()), ("none", 0));
}

#[test]
fn a_broker_reads_back_what_a_name_server_answers() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let put = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "t1"), ("value", "b-a:4")];
    client.ask(&ask(request::PUT_KV_CONFIG, &put));
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    for form in [Form::Json, Form::Binary] {
        let replica = broker("b-a", 1, 10921);
        let mut input =
            bytes::BytesMut::from(&*register_request(&replica, &topics(1, &["t1"]), form, 7).expect("request"));
        // A replica that is not known yet must register all it has.
        let refused = exchange(&mut client, &mut input, read_register_answer);
        assert!(refused.expect_err("refused").to_string().contains("register broker failed"));
        let request = register_request(&replica, &topics(1, &["t1", "t2"]), form, 8).expect("request");
        let mut input = bytes::BytesMut::from(&*request);
        let answer = exchange(&mut client, &mut input, read_register_answer).expect("registered");
        assert_eq!(answer.ha_address.as_deref(), Some("127.0.0.1:10912"));
        assert_eq!(answer.master_address.as_deref(), Some("127.0.0.1:10911"));
        assert_eq!(answer.topic_orders.expect("orders")["t1"], "b-a:4");
        let mut input = bytes::BytesMut::from(&*unregister_request(&replica, form, 9));
        exchange(&mut client, &mut input, read_register_answer).expect("unregistered");
        assert_eq!(client.route("t1").route().broker_datas[0].broker_addrs.len(), 1);
    }
}

fn exchange<T>(client: &mut Client, input: &mut bytes::BytesMut, read: impl FnOnce(&Command<'_>) -> T) -> T {
    let bytes = client.exchange(input);
    read(&Command::decode(&bytes).unwrap())
}

#[test]
fn a_broker_with_very_many_topics_registers_in_one_frame() {
    let mut table = topics(1, &[]);
    for index in 0..20_000 {
        let name = format!("topic-{index}");
        let attributes = [("note".to_owned(), "x".repeat(1000))].into();
        table.topic_config_table.insert(name.clone(), TopicDocument { attributes, ..topic(&name) });
    }
    let request = register_request(&broker("b-a", 0, 10911), &table, Form::Json, 1).unwrap();
    assert!(request.len() < 1024 * 1024, "a body of 20 MB is packed");
    let mut client = Client::new(&name_server(Options::default()));
    let reply = client.register(&broker("b-a", 0, 10911), &table);
    assert_eq!(reply.code, response::SUCCESS, "{:?}", reply.remark);
    assert_eq!(client.route("topic-19999").route().queue_datas.len(), 1);
}

#[test]
fn the_topics_of_a_large_broker_are_read_away_from_the_network() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let names: Vec<_> = (0..5000).map(|number| format!("topic-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (count, is_apart) in [(10, false), (5000, true)] {
        let registration =
            Registration { topics: topics(i64::from(is_apart) + 1, &names[..count]), ..Registration::default() };
        for body in [registration.encode_plain(), registration.encode_packed(493)] {
            let flag = (body != registration.encode_plain()).to_string();
            let checksum = body_checksum(&body).to_string();
            let fields = old_fields(&flag, &checksum);
            let frame = ask(request::REGISTER_BROKER, &fields).body(&body).frame(7);
            client.session.receive(&mut bytes::BytesMut::from(&frame[..]), START).expect("a frame");
            assert_eq!(client.session.is_busy(), is_apart, "{count}");
            assert_eq!(client.send(&[])[0].code, response::SUCCESS, "{count}");
            assert_eq!(client.route(names[count - 1]).code, response::SUCCESS);
        }
    }
}

#[test]
fn a_registration_that_is_read_when_its_connection_is_gone_leaves_nothing() {
    let server = name_server(Options::default());
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    let names: Vec<_> = (0..5000).map(|number| format!("topic-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let body = Registration { topics: topics(1, &names), ..Registration::default() }.encode_plain();
    let frame =
        ask(request::REGISTER_BROKER, &old_fields("false", &body_checksum(&body).to_string())).body(&body).frame(7);
    client.session.receive(&mut bytes::BytesMut::from(&frame[..]), START).expect("a frame");
    let job = client.session.take_job().expect("a job");
    client.session.closed(START);
    job();
    assert_eq!(other.route("topic-7").code, response::TOPIC_NOT_EXIST);
    assert_eq!((server.summary().topics, server.summary().brokers), (0, 0));
}

/// What a broker says after a long registration is about that registration: it does not overtake it.
#[test]
fn who_leaves_right_after_a_long_registration_is_gone() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let names: Vec<_> = (0..1000).map(|number| format!("topic-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let identity = broker("b-a", 0, 10911);
    let mut input = bytes::BytesMut::from(&*register_request(&identity, &topics(1, &names), Form::Json, 1).unwrap());
    input.extend_from_slice(&unregister_request(&identity, Form::Json, 2));
    let mut answers = Vec::new();
    while !input.is_empty() {
        client.session.receive(&mut input, START).expect("frames");
        client.work();
        answers.extend(client.replies().into_iter().map(|reply| (reply.opaque, reply.code)));
    }
    assert_eq!(answers, [(1, response::SUCCESS), (2, response::SUCCESS)]);
    assert_eq!((server.summary().brokers, server.summary().topics), (0, 0));
}

/// Routes are told while the topics of a large broker change: some have their new queues then, and others those of before.
#[test]
fn a_registration_of_many_topics_holds_up_nobody_who_asks_for_a_route() {
    const TRIES: u32 = 50;
    let server = name_server(Options::default());
    let names: Vec<_> = (0..20_000).map(|number| format!("t{number:05}")).collect();
    let mut table = topics(0, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let identity = broker("b-a", 0, 10911);
    let (mut client, mut other) = (Client::new(&server), Client::new(&server));
    let mut queues_of = |topic: &String| other.route(topic).route().queue_datas[0].read_queue_nums;
    assert_eq!(client.register(&identity, &table).code, response::SUCCESS);
    let was_seen_half_way = (1..=TRIES).any(|number| {
        table.data_version.counter = i64::from(number);
        table.topic_config_table.values_mut().for_each(|topic| topic.read_queue_nums = number);
        let request = register_request(&identity, &table, Form::Json, 1).unwrap();
        client.session.receive(&mut bytes::BytesMut::from(&*request), START).expect("a frame");
        let job = client.session.take_job().expect("a job");
        let changing = std::thread::spawn(job);
        let mut is_seen = false;
        while !changing.is_finished() && !is_seen {
            is_seen = queues_of(&names[0]) == number && queues_of(&names[19_999]) != number;
        }
        changing.join().unwrap();
        client.session.wake(START);
        assert_eq!(client.replies()[0].code, response::SUCCESS);
        assert_eq!((queues_of(&names[0]), queues_of(&names[19_999])), (number, number));
        is_seen
    });
    assert!(was_seen_half_way, "no route was told meanwhile");
}
