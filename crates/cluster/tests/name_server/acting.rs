//! Promises about a group whose master is gone: a replica that allows it acts as master, for reading.

use std::sync::Arc;

use base::session::Session;
use cluster::name_server::NameServer;
use cluster::name_server::options::Options;
use cluster::registration::{Identity, unregister_request};
use wire::rocketmq::body::cluster_info::{BrokerMemberGroup, ClusterInfo};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{Command, Form};

use crate::client::{Client, START, ask, broker, name_server, topics};

const NAMES: [&str; 2] = ["t1", "rmq_sys_SYNC_BROKER_MEMBER_b-a"];

/// What a broker says of acting as master.
type Says = Option<bool>;
const MAY: Says = Some(true);
const MAY_NOT: Says = Some(false);
/// Before 5.0.
const OLD: Says = None;

/// Process `id` of the group: 0 has port 10911, 1 has 10921 and so on.
fn member(id: i64, says: Says) -> Identity {
    Identity { enable_acting_master: says, ..broker("b-a", id, 10911 + 10 * id as u16) }
}

/// A connection on which the process has registered.
fn registered(server: &Arc<NameServer>, identity: &Identity) -> Client {
    let mut client = Client::new(server);
    assert_eq!(client.register(identity, &topics(1, &NAMES)).code, response::SUCCESS);
    client
}

/// The group in the route of a topic: `id:port` of each, and what its queues permit.
fn shown(client: &mut Client, topic: &str) -> String {
    let route = client.route(topic).route();
    let addresses = &route.broker_datas[0].broker_addrs;
    let members: Vec<_> =
        addresses.iter().map(|(id, address)| format!("{id}:{}", &address[address.len() - 5..])).collect();
    format!("{} perm {}", members.join(" "), route.queue_datas[0].perm)
}

#[test]
fn the_lowest_replica_that_may_acts_while_there_is_no_master() {
    let cases: [(&[(i64, Says)], &str); 9] = [
        (&[(1, MAY), (2, MAY)], "0:10921 2:10931 perm 4"),
        (&[(2, MAY), (1, MAY)], "0:10921 2:10931 perm 4"),
        (&[(2, MAY)], "0:10931 perm 4"),
        (&[(1, MAY_NOT), (2, MAY)], "0:10931 1:10921 perm 4"),
        (&[(1, OLD), (2, MAY)], "0:10931 1:10921 perm 4"),
        (&[(1, MAY), (2, MAY_NOT)], "0:10921 2:10931 perm 4"),
        (&[(1, MAY_NOT), (2, MAY_NOT)], "1:10921 2:10931 perm 6"),
        (&[(1, OLD)], "1:10921 perm 6"),
        // It changes its mind.
        (&[(1, MAY), (1, MAY_NOT)], "1:10921 perm 6"),
    ];
    for (replicas, expected) in cases {
        // Whatever the master says of itself, and whether it speaks first or last.
        for master_says in [MAY, MAY_NOT, OLD] {
            for master_is_last in [false, true] {
                let server = name_server(Options::default());
                let mut master = registered(&server, &member(0, master_says));
                let mut others: Vec<Client> =
                    replicas.iter().map(|&(id, says)| registered(&server, &member(id, says))).collect();
                if master_is_last {
                    master.register(&member(0, master_says), &topics(1, &NAMES));
                }
                let mut client = Client::new(&server);
                assert!(shown(&mut client, "t1").starts_with("0:10911 "), "{replicas:?}");
                assert!(shown(&mut client, "t1").ends_with(" perm 6"), "{replicas:?}");
                master.session.closed(START);
                assert_eq!(shown(&mut client, "t1"), expected, "{replicas:?} {master_says:?} {master_is_last}");
                for (other, &(id, says)) in others.iter_mut().zip(replicas) {
                    other.register(&member(id, says), &topics(1, &NAMES));
                }
                assert_eq!(shown(&mut client, "t1"), expected, "{replicas:?} once they have registered again");
            }
        }
    }
}

#[test]
fn whether_it_is_shown_is_a_setting_and_real_members_are_never_hidden() {
    for (supported, expected) in [(true, "0:10921 2:10931 perm 4"), (false, "1:10921 2:10931 perm 4")] {
        let server = name_server(Options { support_acting_master: supported, ..Options::default() });
        let _first = registered(&server, &member(1, MAY));
        let mut client = registered(&server, &member(2, MAY));
        assert_eq!(shown(&mut client, "t1"), expected);
        // What shows who really is there: the topic replicas watch each other by, the group, the cluster.
        assert_eq!(shown(&mut client, "rmq_sys_SYNC_BROKER_MEMBER_b-a"), "1:10921 2:10931 perm 4");
        let fields = [("clusterName", "cluster-1"), ("brokerName", "b-a")];
        let reply = client.ask(&ask(request::GET_BROKER_MEMBER_GROUP, &fields));
        let group = BrokerMemberGroup::decode(&reply.body).expect("group");
        assert_eq!(group.broker_addrs.into_keys().collect::<Vec<_>>(), [1, 2]);
        let reply = client.ask(&ask(request::GET_BROKER_CLUSTER_INFO, &[]));
        let info = ClusterInfo::decode(&reply.body).expect("cluster info");
        assert_eq!(info.broker_addr_table["b-a"].broker_addrs.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!(info.broker_addr_table["b-a"].enable_acting_master);
    }
}

#[test]
fn the_route_changes_with_the_masters_going_and_coming_however_it_goes() {
    let goings: [fn(&mut Client); 3] = [
        |master| master.session.closed(START),
        |master| {
            master.send(&unregister_request(&member(0, MAY), Form::Json, 1));
        },
        |master| {
            // The clock goes on, and only the replicas are heard of.
            master.now = START.plus_ms(120_001);
            assert_eq!(master.route("none").code, response::TOPIC_NOT_EXIST);
        },
    ];
    for going in goings {
        let server = name_server(Options::default());
        let mut master = registered(&server, &member(0, MAY));
        let mut replica = Client::new(&server);
        replica.now = START.plus_ms(60_000);
        replica.register(&member(1, MAY), &topics(1, &NAMES));
        replica.now = START;
        assert_eq!(shown(&mut replica, "t1"), "0:10911 1:10921 perm 6");
        going(&mut master);
        assert_eq!(shown(&mut replica, "t1"), "0:10921 perm 4");
        // The topics it has are as they were.
        let _back = registered(&server, &member(0, MAY));
        assert_eq!(shown(&mut replica, "t1"), "0:10911 1:10921 perm 6");
    }
}

#[test]
fn queues_are_the_masters_while_it_is_there_and_the_lowest_replicas_otherwise() {
    let server = name_server(Options::default());
    let with_queues = |counter, count| {
        let mut table = topics(counter, &NAMES);
        table.topic_config_table.get_mut("t1").expect("t1").read_queue_nums = count;
        table
    };
    let mut client = Client::new(&server);
    let mut queues = || {
        let data = client.route("t1").route().queue_datas[0].clone();
        (data.read_queue_nums, data.perm)
    };
    let (mut master, mut first, mut second) = (Client::new(&server), Client::new(&server), Client::new(&server));
    master.register(&member(0, MAY), &with_queues(1, 8));
    first.register(&member(1, MAY), &with_queues(2, 9));
    assert_eq!(queues(), (8, 6), "a replica changes nothing while the master is there");
    master.session.closed(START);
    assert_eq!(queues(), (8, 4), "what the master had stays");
    second.register(&member(2, MAY), &with_queues(3, 10));
    assert_eq!(queues(), (8, 4), "nor does one that is not the lowest");
    first.register(&member(1, MAY), &with_queues(4, 11));
    assert_eq!(queues(), (11, 4));
    master = Client::new(&server);
    master.register(&member(0, MAY), &with_queues(1, 8));
    assert_eq!(queues(), (8, 6));
}

#[test]
fn administrators_give_an_acting_master_no_right_to_be_written_to() {
    let server = name_server(Options::default());
    let mut client = registered(&server, &member(1, MAY));
    for code in [request::ADD_WRITE_PERMISSION_OF_BROKER, request::WIPE_WRITE_PERMISSION_OF_BROKER] {
        assert_eq!(client.ask(&ask(code, &[("brokerName", "b-a")])).code, response::SUCCESS);
        assert_eq!(shown(&mut client, "t1"), "0:10921 perm 4", "{code}");
    }
}

#[test]
fn a_replica_learns_its_master_whenever_that_comes() {
    let server = name_server(Options::default());
    let told = |client: &mut Client| {
        let fields = client.register(&member(1, MAY), &topics(1, &NAMES)).fields;
        (fields.get("masterAddr").cloned(), fields.get("haServerAddr").cloned())
    };
    let mut replica = Client::new(&server);
    assert_eq!(told(&mut replica), (None, None), "it is not told that it is its own master");
    let mut master = registered(&server, &member(0, MAY));
    let addresses = |port: u16| (Some(format!("127.0.0.1:{port}")), Some(format!("127.0.0.1:{}", port + 1)));
    assert_eq!(told(&mut replica), addresses(10911));
    master.session.closed(START);
    assert_eq!(told(&mut replica), (None, None));
    let mut elsewhere = registered(&server, &broker("b-a", 0, 10951));
    assert_eq!(told(&mut replica), addresses(10951));
    let reply = elsewhere.register(&broker("b-a", 0, 10951), &topics(1, &NAMES));
    assert_eq!((reply.fields.get("masterAddr"), reply.fields.get("haServerAddr")), (None, None), "a master has none");
}

#[test]
fn those_that_may_act_are_told_when_the_lowest_id_of_their_group_changes() {
    let cases: [(Options, [Says; 3], &[u16]); 5] = [
        (Options::default(), [MAY, MAY, MAY], &[10921, 10931]),
        (Options::default(), [MAY_NOT, MAY, MAY], &[10921, 10931]),
        (Options::default(), [MAY, MAY_NOT, MAY], &[10931]),
        (Options::default(), [MAY, MAY_NOT, OLD], &[]),
        (Options { notify_min_broker_id_changed: false, ..Options::default() }, [MAY, MAY, MAY], &[]),
    ];
    for (options, says, expected) in cases {
        let server = name_server(options);
        let mut master = registered(&server, &member(0, says[0]));
        let _first = registered(&server, &member(1, says[1]));
        let _second = registered(&server, &member(2, says[2]));
        assert!(server.take_notices().is_empty(), "the lowest id is what it was");
        let came = [
            ("minBrokerId", Some("0")),
            ("minBrokerAddr", Some("127.0.0.1:10911")),
            ("offlineBrokerAddr", None),
            ("haBrokerAddr", Some("127.0.0.1:10912")),
        ];
        let went = [
            ("minBrokerId", Some("1")),
            ("minBrokerAddr", Some("127.0.0.1:10921")),
            ("offlineBrokerAddr", Some("127.0.0.1:10911")),
            ("haBrokerAddr", None),
        ];
        for fields in [went, came] {
            if fields == came {
                master = registered(&server, &member(0, says[0]));
            } else {
                master.session.closed(START);
            }
            let notices = server.take_notices();
            let told: Vec<_> = notices.iter().map(|notice| notice.address.clone()).collect();
            assert_eq!(told, expected.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>(), "{says:?}");
            for notice in notices {
                let command = Command::decode(&notice.frame).expect("frame");
                assert_eq!(command.header.code, request::NOTIFY_MIN_BROKER_ID_CHANGE);
                assert!(command.header.is_one_way());
                assert_eq!(command.fields.get("brokerName").as_deref(), Some("b-a"));
                for (name, value) in fields {
                    assert_eq!(command.fields.get(name).as_deref(), value, "{name}");
                }
            }
        }
    }
}

#[test]
fn replicas_are_told_when_their_masters_process_comes_back_under_another_group() {
    let server = name_server(Options::default());
    let _master = registered(&server, &member(0, MAY));
    let _replica = registered(&server, &member(1, MAY));
    drop(server.take_notices());
    // The same address, another `brokerName`: the group is without a master.
    let _other = registered(&server, &Identity { enable_acting_master: MAY, ..broker("b-b", 0, 10911) });
    let mut client = Client::new(&server);
    let route = client.route("t1").route();
    let group = route.broker_datas.iter().find(|data| data.broker_name == "b-a").expect("the group");
    assert_eq!(group.broker_addrs.values().collect::<Vec<_>>(), ["127.0.0.1:10921"], "it acts as master");
    assert_eq!(server.take_notices().len(), 1, "and is told so");
}

#[test]
fn a_master_that_came_back_elsewhere_stays_when_its_old_connection_is_found_dead() {
    let server = name_server(Options::default());
    let mut half_open = registered(&server, &member(0, MAY));
    let _replica = registered(&server, &member(1, MAY));
    let _elsewhere = registered(&server, &broker("b-a", 0, 10951));
    half_open.session.closed(START);
    assert_eq!(shown(&mut Client::new(&server), "t1"), "0:10951 1:10921 perm 6");
    assert!(server.take_notices().is_empty());
}
