//! Consumers that leave it to the broker which queues they consume, and how.

use broker::QueuesAt;
use format::document::{GroupDocument, TopicDocument};
use format::request_mode::RequestMode;
use serde_json::{Value, json};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

use crate::bench::{Bench, Setup};
use crate::client::{Ask, Client, ask, heartbeat, pull, send};

fn query(topic: &str, client_id: &str) -> Value {
    json!({
        "clientId": client_id,
        "consumerGroup": "billing",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": topic,
    })
}

fn asking(query: &Value) -> Ask {
    ask(request::QUERY_ASSIGNMENT, &[]).body(query.to_string())
}

/// Numbers of the queues that a member is told, in order, and how it asks for messages; `None`: it goes on as it is.
fn assigned(client: &mut Client, query: &Value) -> Option<(Vec<i64>, Vec<String>)> {
    let told = client.ask_well(asking(query)).json();
    let assignments = told.get("messageQueueAssignments")?.as_array().expect("a list").clone();
    let mut queues = Vec::new();
    let mut modes = Vec::new();
    for assignment in assignments {
        let queue = &assignment["messageQueue"];
        assert_eq!((&queue["topic"], &queue["brokerName"]), (&query["topic"], &json!("broker-a")));
        queues.push(queue["queueId"].as_i64().expect("a number"));
        modes.push(assignment["mode"].as_str().expect("a mode").to_owned());
    }
    modes.dedup();
    Some((queues, modes))
}

fn of(queues: &[i64], mode: &str) -> Option<(Vec<i64>, Vec<String>)> {
    Some((queues.to_vec(), if queues.is_empty() { vec![] } else { vec![mode.to_owned()] }))
}

fn set_mode(topic: &str, group: &str, mode: &str, shared: i32) -> Ask {
    let settings = json!({"consumerGroup": group, "mode": mode, "popShareQueueNum": shared, "topic": topic});
    ask(request::SET_MESSAGE_REQUEST_MODE, &[]).body(settings.to_string())
}

/// A broker that lets members find out by themselves who else is there, so that only answers come.
fn bench(change: impl FnOnce(&mut Setup)) -> Bench {
    Bench::with(|setup| {
        setup.session.notify_changes = false;
        change(setup);
    })
}

/// One with a topic of so many queues.
fn bench_with(queues: u32) -> Bench {
    let bench = bench(|_| ());
    bench.make_topic("orders", topic(queues));
    bench
}

fn topic(queues: u32) -> TopicDocument {
    TopicDocument { read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() }
}

/// Members of the group, each with a connection of its own.
fn members(bench: &Bench, ids: &[&str]) -> Vec<Client> {
    let join = |id: &&str| {
        let mut client = bench.client();
        client.ask_well(heartbeat(id, "billing", "orders", "*", 1));
        client
    };
    ids.iter().map(join).collect()
}

#[test]
fn members_share_the_queues_of_a_topic_and_share_them_anew_when_one_leaves() {
    let bench = bench_with(8);
    let mut clients = members(&bench, &["c", "a", "b"]);
    for (client, id, queues) in [(1, "a", &[0, 1, 2][..]), (2, "b", &[3, 4, 5]), (0, "c", &[6, 7])] {
        assert_eq!(assigned(&mut clients[client], &query("orders", id)), of(queues, "PULL"), "{id}");
    }
    let mut by_circle = query("orders", "b");
    by_circle["strategyName"] = json!("AVG_BY_CIRCLE");
    assert_eq!(assigned(&mut clients[2], &by_circle), of(&[1, 4, 7], "PULL"));
    let leaving = [("clientID", "a"), ("consumerGroup", "billing")];
    clients[1].ask_well(ask(request::UNREGISTER_CLIENT, &leaving));
    assert_eq!(assigned(&mut clients[2], &query("orders", "b")), of(&[0, 1, 2, 3], "PULL"));
    assert_eq!(assigned(&mut clients[1], &query("orders", "a")), of(&[], "PULL"), "it is no member any more");
}

/// Java's texts are compared by their 16-bit units: an astral character comes before U+FFFD.
#[test]
fn members_are_in_the_order_of_a_java_broker() {
    let bench = bench_with(2);
    let ids = ["\u{fffd}", "\u{1f600}"];
    let mut clients = members(&bench, &ids);
    assert_eq!(assigned(&mut clients[0], &query("orders", ids[1])), of(&[0], "PULL"));
    assert_eq!(assigned(&mut clients[0], &query("orders", ids[0])), of(&[1], "PULL"));
}

#[test]
fn where_nothing_can_be_said_a_member_goes_on_as_it_is() {
    let bench = bench_with(2);
    let mut clients = members(&bench, &["a"]);
    let client = &mut clients[0];
    let with = |name: &str, value: &str| {
        let mut query = query("orders", "a");
        query[name] = json!(value);
        query
    };
    let cases = [
        with("topic", "elsewhere"),
        with("topic", ""),
        with("consumerGroup", "nobody"),
        with("strategyName", "CONSISTENT_HASH"),
        with("strategyName", ""),
    ];
    for query in cases {
        assert_eq!(client.ask_well(asking(&query)).body, b"{}", "{query}");
    }
    bench.make_topic("orders", TopicDocument { perm: 2, ..topic(2) });
    assert_eq!(client.ask_well(asking(&query("orders", "a"))).body, b"{}", "nobody may read it");
}

#[test]
fn who_broadcasts_consumes_every_queue_member_or_not() {
    let bench = bench_with(3);
    let mut client = bench.client();
    let mut asked = query("orders", "a");
    asked["messageModel"] = json!("BROADCASTING");
    assert_eq!(assigned(&mut client, &asked), of(&[0, 1, 2], "PULL"));
    asked["topic"] = json!("elsewhere");
    assert_eq!(assigned(&mut client, &asked), None);
}

#[test]
fn a_query_that_cannot_be_read_is_refused() {
    let bench = bench_with(3);
    let mut client = bench.client();
    let mut model = query("orders", "a");
    model["messageModel"] = json!("ANYCASTING");
    for body in [&b""[..], b"{", b"[]", br#"{"topic":"orders"}"#, model.to_string().as_bytes()] {
        let refused = client.ask(ask(request::QUERY_ASSIGNMENT, &[]).body(body));
        assert_eq!(refused.code, response::SYSTEM_ERROR, "{body:?}: {}", refused.remark);
    }
    for body in [&b""[..], b"{", br#"{"topic":"orders","consumerGroup":"billing","mode":"PUSH"}"#] {
        let refused = client.ask(ask(request::SET_MESSAGE_REQUEST_MODE, &[]).body(body));
        assert_eq!(refused.code, response::SYSTEM_ERROR, "{body:?}: {}", refused.remark);
    }
}

#[test]
fn a_group_that_pops_shares_queues_with_as_many_members_as_it_was_told() {
    let bench = bench_with(8);
    let mut clients = members(&bench, &["a", "b", "c"]);
    let mut asked = |id: &str| assigned(&mut clients[0], &query("orders", id));
    bench.client().ask_well(set_mode("orders", "billing", "POP", 1));
    assert_eq!(asked("a"), of(&[0, 1, 2, 3, 4, 5], "POP"));
    assert_eq!(asked("c"), of(&[0, 1, 2, 6, 7], "POP"));
    assert_eq!(asked("another"), of(&[], "POP"));
    for shared in [-1, 0, 2] {
        bench.client().ask_well(set_mode("orders", "billing", "POP", shared));
        assert_eq!(asked("a"), of(&[-1], "POP"), "{shared}: any queue of the broker");
        assert_eq!(asked("another"), of(&[-1], "POP"));
    }
    bench.client().ask_well(set_mode("orders", "billing", "PULL", 0));
    assert_eq!(asked("a"), of(&[0, 1, 2], "PULL"));
}

#[test]
fn with_more_members_than_queues_each_that_pops_has_one() {
    let bench = bench_with(2);
    let mut clients = members(&bench, &["a", "b", "c", "d"]);
    clients[0].ask_well(set_mode("orders", "billing", "POP", 1));
    let queues: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|id| assigned(&mut clients[0], &query("orders", id))).collect();
    assert_eq!(queues, [of(&[0], "POP"), of(&[1], "POP"), of(&[0], "POP"), of(&[1], "POP")]);
}

#[test]
fn what_nothing_was_said_of_is_as_the_broker_is_set_and_retries_are_always_pulled() {
    let bench = bench(|setup| {
        setup.session.request_mode = RequestMode::Pop;
        setup.session.shared_queues = 1;
    });
    bench.make_topic("orders", topic(3));
    let mut clients = members(&bench, &["a", "b", "c"]);
    assert_eq!(assigned(&mut clients[0], &query("orders", "a")), of(&[0, 1], "POP"));
    assert_eq!(assigned(&mut clients[0], &query("%RETRY%billing", "a")), of(&[0], "PULL"));
    clients[0].ask_well(set_mode("orders", "billing", "PULL", 0));
    assert_eq!(assigned(&mut clients[0], &query("orders", "a")), of(&[0], "PULL"));
}

#[test]
fn a_broker_that_divides_nothing_gives_each_member_all_queues() {
    let bench = bench(|setup| setup.session.assigns_queues = false);
    bench.make_topic("orders", topic(3));
    let mut clients = members(&bench, &["a", "b"]);
    assert_eq!(assigned(&mut clients[0], &query("orders", "a")), of(&[0, 1, 2], "PULL"));
    assert_eq!(assigned(&mut clients[0], &query("orders", "another")), of(&[0, 1, 2], "PULL"));
}

#[test]
fn a_mode_is_set_where_topic_and_group_are_and_not_of_retries() {
    let bench = bench(|setup| setup.broker.auto_create_groups = false);
    bench.make_topic("orders", topic(3));
    bench.make_group("billing", GroupDocument::default());
    let mut client = bench.client();
    let retries = client.ask(set_mode("%RETRY%billing", "billing", "POP", 1));
    assert_eq!((retries.code, &*retries.remark), (response::NO_PERMISSION, "retry topic is not allowed to set mode"));
    assert_eq!(client.ask(set_mode("elsewhere", "billing", "POP", 1)).code, response::TOPIC_NOT_EXIST);
    let no_group = client.ask(set_mode("orders", "nobody", "POP", 1));
    assert_eq!(no_group.code, response::SUBSCRIPTION_GROUP_NOT_EXIST, "{}", no_group.remark);
    assert_eq!(modes(&mut client), json!({}));
    client.ask_well(set_mode("orders", "billing", "POP", 1));
    // Where groups are made on first use, this is one.
    let open = bench_with(3);
    open.client().ask_well(set_mode("orders", "new", "POP", 1));
    assert!(open.broker.catalog.group("new").is_some());
}

fn modes(client: &mut Client) -> Value {
    client.ask_well(ask(request::GET_ALL_MESSAGE_REQUEST_MODE, &[])).json()["messageRequestModeMap"].clone()
}

#[test]
fn slaves_are_told_all_modes_and_below_which_part_of_the_log_they_are() {
    let bench = bench_with(3);
    let mut client = bench.client();
    client.ask_well(set_mode("orders", "billing", "POP", 2));
    let told = client.ask_well(ask(request::GET_ALL_MESSAGE_REQUEST_MODE, &[]));
    assert!(told.number("sluiceLogPosition") > 0);
    let entry = json!({"consumerGroup": "billing", "mode": "POP", "popShareQueueNum": 2, "topic": "orders"});
    assert_eq!(told.json(), json!({"messageRequestModeMap": {"orders": {"billing": entry}}}));
}

#[test]
fn a_mode_that_was_answered_is_there_after_a_kill() {
    let bench = bench_with(3);
    let mut client = bench.client();
    client.ask_well(set_mode("orders", "billing", "POP", 2));
    drop(client);
    let bench = bench.killed(|_| ());
    assert_eq!(modes(&mut bench.client())["orders"]["billing"]["popShareQueueNum"], 2);
}

#[test]
fn a_slave_divides_queues_as_its_master_does_and_leaves_modes_to_it() {
    let bench = bench(|setup| setup.store = setup.store.clone().following());
    let mut client = bench.client();
    let refused = client.ask(set_mode("orders", "billing", "POP", 2));
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark.contains("please execute it from master broker"), "{}", refused.remark);
    assert_eq!(modes(&mut client), json!({}));
}

/// What it was told, it consumes.
#[test]
fn a_member_pulls_from_the_queues_it_was_told() {
    let bench = bench_with(1);
    let mut clients = members(&bench, &["a"]);
    clients[0].ask_well(send("orders", "x"));
    assert_eq!(assigned(&mut clients[0], &query("orders", "a")), of(&[0], "PULL"));
    assert_eq!(clients[0].ask_well(pull("billing", "orders", 0)).bodies(), ["x"]);
    let binary = clients[0].ask_well(asking(&query("orders", "a")).form(Form::Binary));
    assert!(binary.json()["messageQueueAssignments"].is_array());
}

/// Whichever broker of the cluster is asked, it divides the same queues.
#[test]
fn queues_of_all_brokers_are_divided_as_name_servers_tell_of_them() {
    let bench = bench_with(2);
    bench.broker.routes.note_asker();
    let mut clients = members(&bench, &["a", "b"]);
    let now = clients[0].now.monotonic;
    assert_eq!(clients[0].ask_well(asking(&query("orders", "a"))).body, b"{}", "no name server has said anything");
    assert_eq!(bench.broker.routes.next_wanted(now).as_deref(), Some("orders"));
    let at = |broker: &str, count| QueuesAt { broker: broker.to_owned(), count };
    let told = vec![at("broker-b", 3), at("broker-a", 2), at("\u{1f600}", 1), at("\u{fffd}", 0), at("broker-b", 3)];
    bench.broker.routes.note("orders", Some(told), now);
    let mut queues = |id: &str, shared: i32| {
        let mode = if shared == 0 { "PULL" } else { "POP" };
        clients[0].ask_well(set_mode("orders", "billing", mode, shared));
        let told = clients[0].ask_well(asking(&query("orders", id))).json();
        let queue = |one: &Value| {
            let queue = &one["messageQueue"];
            format!("{} {}", queue["brokerName"].as_str().expect("a name"), queue["queueId"])
        };
        told["messageQueueAssignments"].as_array().expect("a list").iter().map(queue).collect::<Vec<_>>()
    };
    assert_eq!(queues("a", 0), ["broker-a 0", "broker-a 1", "broker-b 0"]);
    assert_eq!(queues("b", 0), ["broker-b 1", "broker-b 2", "\u{1f600} 0"]);
    assert_eq!(queues("a", -1), ["broker-a -1", "broker-b -1", "\u{1f600} -1"]);
    bench.broker.routes.note("orders", None, now);
    assert_eq!(clients[0].ask_well(asking(&query("orders", "a"))).body, b"{}", "it is not there any more");
}
