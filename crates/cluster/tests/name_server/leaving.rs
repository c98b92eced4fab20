//! Promises about brokers that leave, fall silent or lose their connection.

use base::session::Session;
use base::{Now, Timestamp};
use cluster::name_server::options::Options;
use cluster::registration::Identity;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

use crate::client::{Client, START, ask, broker, name_server, topics};

#[test]
fn a_lost_connection_takes_the_routes_of_its_brokers_at_once() {
    let server = name_server(Options::default());
    let (mut first, mut second, mut client) = (Client::new(&server), Client::new(&server), Client::new(&server));
    first.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    first.register(&broker("b-c", 0, 10951), &topics(1, &["t1", "t4"]));
    second.register(&broker("b-b", 0, 10931), &topics(1, &["t1", "t3"]));
    assert_eq!(client.route("t1").route().queue_datas.len(), 3);
    first.session.closed(START);
    let route = client.route("t1").route();
    assert_eq!(route.queue_datas.iter().map(|queues| &*queues.broker_name).collect::<Vec<_>>(), ["b-b"]);
    assert_eq!(client.route("t2").code, response::TOPIC_NOT_EXIST);
    assert_eq!(client.route("t4").code, response::TOPIC_NOT_EXIST);
    assert_eq!((server.summary().topics, server.summary().brokers), (2, 1));
    second.session.closed(START);
    assert_eq!((server.summary().topics, server.summary().brokers), (0, 0));
    assert_eq!(
        client.ask(&ask(request::GET_BROKER_CLUSTER_INFO, &[])).text(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
}

#[test]
fn a_broker_that_came_back_on_a_new_connection_survives_the_end_of_the_old_one() {
    let server = name_server(Options::default());
    let (mut old, mut new) = (Client::new(&server), Client::new(&server));
    old.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    new.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    old.session.closed(START);
    assert_eq!(new.route("t1").code, response::SUCCESS);
}

#[test]
fn a_silent_broker_goes_after_its_timeout_and_no_sooner() {
    for (setting, timeout, last_ms) in [(120_000, None, 120_000), (7000, None, 7000), (120_000, Some(3000), 3000)] {
        let server = name_server(Options { broker_timeout_ms: setting, ..Options::default() });
        let (mut broker_side, mut client) = (Client::new(&server), Client::new(&server));
        let identity = Identity { heartbeat_timeout_ms: timeout, ..broker("b-a", 0, 10911) };
        broker_side.register(&identity, &topics(1, &["t1", "t2"]));
        assert!(server.expire(START.plus_ms(last_ms)).is_empty());
        assert_eq!(client.route("t1").code, response::SUCCESS);
        let expired = server.expire(START.plus_ms(last_ms + 1));
        assert_eq!(expired.len(), 1);
        assert_eq!((&*expired[0].broker_name, &*expired[0].address), ("b-a", "127.0.0.1:10911"));
        assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    }
}

#[test]
fn silence_is_noticed_even_if_nobody_asks_the_name_server_to_look() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    client.now = START.plus_ms(120_001);
    assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    assert_eq!(server.expire(client.now).len(), 1, "the server still learns who was dropped");
    assert!(server.expire(client.now).is_empty());
}

#[test]
fn a_heartbeat_keeps_a_broker() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    client.now = START.plus_ms(100_000);
    let fields = [("clusterName", "cluster-1"), ("brokerAddr", "127.0.0.1:10911"), ("brokerName", "b-a")];
    assert!(client.send(&ask(request::BROKER_HEARTBEAT, &fields).one_way().frame(1)).is_empty());
    assert!(server.expire(START.plus_ms(220_000)).is_empty());
    let fields = [fields[0], fields[1], fields[2], ("brokerId", "0")];
    let body = br#"{"counter":1,"stateVersion":0,"timestamp":1700000000001}"#;
    client.now = START.plus_ms(200_000);
    client.ask(&ask(request::QUERY_DATA_VERSION, &fields).body(body));
    assert!(server.expire(START.plus_ms(320_000)).is_empty());
    assert_eq!(server.expire(START.plus_ms(320_001)).len(), 1);
}

#[test]
fn a_broker_that_takes_its_leave_is_gone_and_its_replica_stays() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
    client.register(&broker("b-a", 1, 10921), &topics(1, &["t1", "t2"]));
    let leave = |client: &mut Client, id: &str, address: &str| {
        let fields = [("brokerName", "b-a"), ("brokerAddr", address), ("clusterName", "cluster-1"), ("brokerId", id)];
        assert_eq!(client.ask(&ask(request::UNREGISTER_BROKER, &fields)).code, response::SUCCESS);
    };
    leave(&mut client, "0", "127.0.0.1:10911");
    let route = client.route("t1").route();
    assert_eq!(route.broker_datas[0].broker_addrs.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(route.queue_datas[0].perm, 6);
    leave(&mut client, "1", "127.0.0.1:10921");
    assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    leave(&mut client, "1", "127.0.0.1:10921");
}

#[test]
fn a_one_way_request_is_carried_out_and_never_answered() {
    for form in [Form::Json, Form::Binary] {
        let server = name_server(Options::default());
        let mut client = Client::new(&server);
        client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
        let fields =
            [("brokerName", "b-a"), ("brokerAddr", "127.0.0.1:10911"), ("clusterName", "cluster-1"), ("brokerId", "0")];
        assert!(client.send(&ask(request::UNREGISTER_BROKER, &fields).form(form).one_way().frame(5)).is_empty());
        assert_eq!(server.summary().brokers, 0);
        for code in [request::GET_ROUTE_BY_TOPIC, request::SEND_MESSAGE, -1, 99_999] {
            assert!(client.send(&ask(code, &[]).form(form).one_way().frame(6)).is_empty(), "{code}");
        }
    }
}

#[test]
fn setting_the_clock_drops_no_broker_sooner_or_later() {
    for wall in [Timestamp(0), START.wall.plus_ms(3_600_000)] {
        let server = name_server(Options::default());
        let mut client = Client::new(&server);
        client.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
        let after = |ms| Now { wall, ..START.plus_ms(ms) };
        client.now = after(120_000);
        assert_eq!(client.route("t1").code, response::SUCCESS);
        assert!(server.expire(after(120_000)).is_empty());
        assert_eq!(server.expire(after(120_001)).len(), 1);
        assert_eq!(client.route("t1").code, response::TOPIC_NOT_EXIST);
    }
}

#[test]
fn a_broker_that_takes_its_leave_under_another_name_leaves_no_ghost() {
    for name in ["b-x", "b-b"] {
        let server = name_server(Options::default());
        let (mut broker_side, mut other) = (Client::new(&server), Client::new(&server));
        broker_side.register(&broker("b-a", 0, 10911), &topics(1, &["t1", "t2"]));
        other.register(&broker("b-b", 0, 10931), &topics(1, &["t3", "t4"]));
        let leave = cluster::registration::unregister_request(&broker(name, 0, 10911), Form::Json, 7);
        assert_eq!(broker_side.send(&leave)[0].code, response::SUCCESS);
        broker_side.session.closed(START);
        assert_eq!(other.route("t1").code, response::TOPIC_NOT_EXIST, "{name}");
        assert_eq!(other.route("t3").code, response::SUCCESS, "{name}");
    }
}
