//! Promises to consumers that share a group: who belongs to it, who hears of changes, who holds which queue.

use base::limits::LIST_BODY_HERE_SIZE_MAX;
use base::session::Session;
use format::document::GroupDocument;
use wire::rocketmq::body::client::{ClientConfigCheck, ConsumerData, Heartbeat, ProducerData, SubscriptionData};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

use crate::bench::Bench;
use crate::client::{Ask, Client, Reply, ask, heartbeat, heartbeat_of, locking, pull, send};

/// A client that has joined `billing`; what it hears of that is taken.
fn member(bench: &Bench, client_id: &str) -> Client {
    let mut client = bench.client();
    let replies = client.give(&[heartbeat(client_id, "billing", "orders", "*", 1)]);
    assert!(replies.iter().all(|reply| reply.code == 0 || reply.code == request::NOTIFY_CONSUMER_IDS_CHANGED));
    client
}

fn list() -> Ask {
    ask(request::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "billing")])
}

fn members(client: &mut Client) -> Vec<String> {
    let reply = client.ask_well(list());
    serde_json::from_value(reply.json()["consumerIdList"].clone()).expect("ids")
}

fn leave(client_id: &str) -> Ask {
    ask(request::UNREGISTER_CLIENT, &[("clientID", client_id), ("consumerGroup", "billing")])
}

fn is_change(reply: &Reply) -> bool {
    reply.code == request::NOTIFY_CONSUMER_IDS_CHANGED
        && reply.fields["consumerGroup"] == "billing"
        && reply.is_one_way
        && !reply.is_response
}

/// Queues of a lock's answer.
fn locked(reply: &Reply) -> Vec<i64> {
    let queues = reply.json()["lockOKMQSet"].as_array().expect("queues").clone();
    queues.iter().map(|queue| queue["queueId"].as_i64().expect("a number")).collect()
}

#[test]
fn members_are_listed_until_they_leave() {
    let bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(client.ask(list()).code, response::SYSTEM_ERROR);
    let mut one = member(&bench, "one");
    let two = member(&bench, "two");
    let _three = member(&bench, "three");
    assert_eq!(members(&mut client), ["one", "three", "two"]);
    one.hear();
    let replies = one.give(&[leave("one")]);
    assert_eq!(replies.iter().map(|reply| reply.code).collect::<Vec<_>>(), [0]);
    two.close();
    assert_eq!(members(&mut client), ["three"]);
}

#[test]
fn a_member_without_heartbeats_is_gone_after_two_minutes() {
    let bench = Bench::new();
    let (mut one, mut two) = (member(&bench, "one"), member(&bench, "two"));
    one.hear();
    one.now = one.now.plus_ms(120_000);
    one.ask_well(heartbeat("one", "billing", "orders", "*", 1));
    bench.broker.expire(one.now);
    assert_eq!(members(&mut two), ["one", "two"]);
    bench.broker.expire(one.now.plus_ms(1));
    assert!(one.hear().iter().all(is_change));
    assert_eq!(members(&mut one), ["one"]);
}

#[test]
fn a_client_that_comes_back_before_its_old_connection_closes_stays() {
    let bench = Bench::new();
    let old = member(&bench, "one");
    let mut new = member(&bench, "one");
    old.close();
    assert_eq!(members(&mut new), ["one"]);
}

#[test]
fn members_hear_at_once_who_joins_and_who_leaves() {
    let bench = Bench::new();
    let mut one = member(&bench, "one");
    let mut hears = |what: &str, is_told: bool| {
        let told = one.hear();
        assert_eq!(told.len(), usize::from(is_told), "{what}");
        assert!(told.iter().all(is_change), "{what}: {told:?}");
    };
    let mut two = member(&bench, "two");
    hears("a member joins", true);
    two.hear();
    two.ask_well(heartbeat("two", "billing", "orders", "*", 1));
    hears("nothing changes", false);
    two.ask_well(heartbeat("two", "billing", "orders", "*", 2));
    hears("a newer version alone is no change", false);
    two.give(&[heartbeat("two", "billing", "orders", "a", 3)]);
    hears("a subscription changes", true);
    two.give(&[leave("two")]);
    hears("a member leaves", true);
    let three = member(&bench, "three");
    hears("a member joins", true);
    three.close();
    hears("a connection closes", true);
    // It hears it in the form it spoke last.
    one.ask_well(list().form(Form::Binary));
    let _four = member(&bench, "four");
    assert_eq!(one.hear().iter().map(|told| (told.form, is_change(told))).collect::<Vec<_>>(), [(Form::Binary, true)]);
}

#[test]
fn nobody_hears_of_changes_if_the_broker_or_the_group_says_so() {
    let quiet_broker = Bench::with(|setup| setup.session.notify_changes = false);
    let quiet_group = Bench::new();
    let settings = GroupDocument { notify_consumer_ids_changed_enable: false, ..GroupDocument::default() };
    quiet_group.make_group("billing", settings);
    for bench in [quiet_broker, quiet_group] {
        let mut one = member(&bench, "one");
        let two = member(&bench, "two");
        two.close();
        assert_eq!(one.hear(), []);
    }
}

#[test]
fn with_the_last_member_go_the_subscriptions_but_not_the_offsets() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let one = member(&bench, "one");
    let commit = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "1")];
    client.ask_well(ask(request::UPDATE_CONSUMER_OFFSET, &commit));
    let registered = pull("billing", "orders", 0).with("sysFlag", 0).with("subVersion", 1);
    client.ask_well(registered.clone());
    one.close();
    assert_eq!(client.ask(registered).code, response::SUBSCRIPTION_NOT_EXIST);
    let reply = client.ask_well(ask(request::QUERY_CONSUMER_OFFSET, &commit[..3]));
    assert_eq!(reply.number("offset"), 1);
}

#[test]
fn the_first_heartbeat_makes_the_group_and_its_retry_topic_if_that_is_allowed() {
    let bench = Bench::new();
    let _one = member(&bench, "one");
    assert!(bench.broker.catalog.group("billing").is_some());
    bench.make_group("shipping", GroupDocument { retry_queue_nums: 3, ..GroupDocument::default() });
    bench.client().give(&[heartbeat("two", "shipping", "orders", "*", 1)]);
    for (topic, queues) in [("%RETRY%billing", 1), ("%RETRY%shipping", 3)] {
        let settings = bench.broker.catalog.topic(topic).expect("is made").settings.clone();
        assert_eq!((settings.read_queue_nums, settings.write_queue_nums), (queues, queues), "{topic}");
    }
    let strict = Bench::with(|setup| setup.broker.auto_create_groups = false);
    let reply = strict.client().ask_well(heartbeat("one", "billing", "orders", "*", 1));
    assert!(strict.broker.catalog.group("billing").is_none());
    assert!(reply.remark.contains("group.auto_create"), "{}", reply.remark);
}

#[test]
fn a_heartbeat_that_cannot_be_accepted_makes_no_member() {
    let bench = Bench::new();
    let mut client = bench.client();
    let wordy = ConsumerData {
        group_name: "billing".to_owned(),
        message_model: "x".repeat(200),
        consume_from_where: "y".repeat(57),
        ..ConsumerData::default()
    };
    let long_id = "x".repeat(1025);
    for (asked, remark) in [
        (
            heartbeat_of("one", wordy),
            "left out: consumer: consumeType, messageModel and consumeFromWhere of the group [billing] have 257 bytes",
        ),
        (heartbeat("one", "no group", "orders", "*", 1), "left out: consumer: the group name [no group]"),
        (heartbeat(&long_id, "billing", "orders", "*", 1), "left out: consumer: the clientID is 1025 bytes long"),
    ] {
        let reply = client.ask_well(asked);
        assert!(reply.remark.starts_with(remark), "{}", reply.remark);
    }
    assert_eq!(client.ask(heartbeat("", "billing", "orders", "*", 1)).code, response::SYSTEM_ERROR);
    assert_eq!(client.ask(list()).code, response::SYSTEM_ERROR);
}

/// A consumer of `orders` in a group.
fn consumer(group: &str, subscriptions: Vec<SubscriptionData>) -> ConsumerData {
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        subscription_data_set: subscriptions,
        ..ConsumerData::default()
    }
}

fn producer(group: &str) -> ProducerData {
    ProducerData { group_name: group.to_owned() }
}

fn heartbeat_with(client_id: &str, consumers: Vec<ConsumerData>, producers: Vec<ProducerData>) -> Ask {
    let heartbeat = Heartbeat { client_id: client_id.to_owned(), consumers, producers, ..Heartbeat::default() };
    ask(request::HEART_BEAT, &[]).body(serde_json::to_vec(&heartbeat).expect("JSON"))
}

fn producers(client: &mut Client) -> Vec<String> {
    let reply = client.ask(ask(request::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "makers")]));
    if reply.code != 0 {
        return Vec::new();
    }
    let found = reply.json()["connectionSet"].as_array().expect("connections").clone();
    found.iter().map(|one| one["clientId"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_bad_group_does_not_keep_the_good_ones_of_its_heartbeat_away() {
    let bench = Bench::new();
    let mut client = bench.client();
    let consumers = vec![consumer("no group", Vec::new()), consumer("billing", Vec::new())];
    let asked = heartbeat_with("one", consumers, vec![producer("no group"), producer("makers")]);
    let replies = client.give(&[asked]);
    let answer = replies.iter().find(|reply| reply.is_response).expect("an answer");
    assert_eq!(answer.code, 0);
    assert!(answer.remark.starts_with("left out: 2 groups; producer: the group name [no group]"), "{}", answer.remark);
    assert_eq!(members(&mut client), ["one"]);
    assert_eq!(producers(&mut client), ["one"]);
}

#[test]
fn a_producer_is_known_until_it_leaves_is_silent_or_gone() {
    let bench = Bench::new();
    let mut watcher = bench.client();
    let join = |client_id: &str| {
        let mut client = bench.client();
        client.ask_well(heartbeat_with(client_id, Vec::new(), vec![producer("makers")]));
        client
    };
    let (mut one, two, three) = (join("one"), join("two"), join("three"));
    assert_eq!(producers(&mut watcher), ["one", "three", "two"]);
    one.ask_well(ask(request::UNREGISTER_CLIENT, &[("clientID", "one"), ("producerGroup", "makers")]));
    assert_eq!(producers(&mut watcher), ["three", "two"]);
    two.close();
    assert_eq!(producers(&mut watcher), ["three"]);
    bench.broker.expire(three.now.plus_ms(120_000));
    assert_eq!(producers(&mut watcher), ["three"]);
    bench.broker.expire(three.now.plus_ms(120_001));
    assert_eq!(producers(&mut watcher), [""; 0]);
}

#[test]
fn a_client_that_has_come_back_stays_when_its_old_connection_says_goodbye() {
    let bench = Bench::new();
    let join = || {
        let mut client = bench.client();
        client.give(&[heartbeat_with("one", vec![consumer("billing", Vec::new())], vec![producer("makers")])]);
        client
    };
    let (mut old, mut new) = (join(), join());
    assert_eq!(locked(&new.ask_well(locking(request::LOCK_BATCH_QUEUES, "one", &[0]))), [0]);
    let goodbye = leave("one").with("producerGroup", "makers");
    old.give(std::slice::from_ref(&goodbye));
    assert_eq!((members(&mut new), producers(&mut new)), (vec!["one".to_owned()], vec!["one".to_owned()]));
    assert_eq!(locked(&new.ask_well(locking(request::LOCK_BATCH_QUEUES, "two", &[0]))), [0; 0]);
    new.give(&[goodbye]);
    assert_eq!(new.ask(list()).code, response::SYSTEM_ERROR);
    assert_eq!(producers(&mut new), [""; 0]);
    assert_eq!(locked(&new.ask_well(locking(request::LOCK_BATCH_QUEUES, "two", &[0]))), [0]);
}

#[test]
fn what_is_taken_in_at_once_is_bounded() {
    let bench = Bench::new();
    let mut client = bench.client();
    let wanted = |number| SubscriptionData { topic: format!("t-{number}"), ..SubscriptionData::default() };
    let many = |count| heartbeat_with("one", vec![consumer("billing", (0..count).map(wanted).collect())], Vec::new());
    let reply = client.ask_well(many(10_001));
    assert!(reply.remark.contains("subscribes to 10001 topics; at most 10000"), "{}", reply.remark);
    client.give(&[many(10_000)]);
    assert_eq!(bench.broker.groups.snapshot("billing").expect("is online").subscriptions.len(), 10_000);
    let long = heartbeat_with(&"x".repeat(8 << 20), Vec::new(), Vec::new());
    let reply = client.ask(long);
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark.contains("at most 8388608 are allowed"), "{}", reply.remark);
}

#[test]
fn long_lists_are_read_away_from_the_network_and_short_ones_at_once() {
    let bench = Bench::new();
    let mut client = bench.client();
    let subscriptions =
        |count| (0..count).map(|n| SubscriptionData { topic: format!("t-{n}"), ..SubscriptionData::default() });
    let all: Vec<i32> = (0..4000).collect();
    let long = |count| heartbeat_with("one", vec![consumer("billing", subscriptions(count).collect())], Vec::new());
    for (asked, is_apart) in [
        (long(1), false),
        (long(2000), true),
        (locking(request::LOCK_BATCH_QUEUES, "one", &[0]), false),
        (locking(request::LOCK_BATCH_QUEUES, "one", &all), true),
        (locking(request::UNLOCK_BATCH_QUEUES, "one", &[0]), false),
        (locking(request::UNLOCK_BATCH_QUEUES, "one", &all), true),
    ] {
        let code = asked.code;
        client.receive(&mut asked.frame(1)).expect("a frame");
        assert_eq!(client.session.is_busy(), is_apart, "{code}");
        assert!(client.hear().iter().any(|reply| reply.code == 0), "{code}");
    }
}

#[test]
fn a_heartbeat_that_is_read_when_its_connection_is_gone_registers_nobody() {
    let bench = Bench::new();
    let mut client = bench.client();
    let subscriptions = (0..2000).map(|n| SubscriptionData { topic: format!("t-{n}"), ..SubscriptionData::default() });
    let asked = heartbeat_with("one", vec![consumer("billing", subscriptions.collect())], vec![producer("makers")]);
    client.receive(&mut asked.frame(1)).expect("a frame");
    let job = client.session.take_job().expect("a job");
    client.close();
    job();
    let mut other = bench.client();
    assert_eq!(other.ask(list()).code, response::SYSTEM_ERROR);
    assert_eq!(producers(&mut other), [""; 0]);
}

#[test]
fn groups_of_one_heartbeat_are_made_together() {
    let bench = Bench::new();
    let mut client = bench.client();
    let before = bench.broker.catalog.generation();
    bench.make_group("without", GroupDocument { retry_queue_nums: 0, ..GroupDocument::default() });
    let before = before + 1;
    let groups = (0..500).map(|number| consumer(&format!("group-{number}"), Vec::new()));
    let others = ["without", &"long".repeat(50)].map(|group| consumer(group, Vec::new()));
    client.give(&[heartbeat_with("one", groups.chain(others).collect(), Vec::new())]);
    assert!(bench.broker.catalog.topic("%RETRY%without").is_none());
    assert!(bench.broker.catalog.topic(&format!("%RETRY%{}", "long".repeat(50))).is_none());
    assert!(bench.broker.catalog.group("group-499").is_some());
    assert!(bench.broker.catalog.topic("%RETRY%group-499").is_some());
    assert_eq!(bench.broker.catalog.generation() - before, 2, "one change of the groups, one of the topics");
}

#[test]
fn missing_retry_topics_of_one_heartbeat_are_made_together() {
    let bench = Bench::new();
    let odd = GroupDocument { retry_queue_nums: 100_000, ..GroupDocument::default() };
    bench.make_group("odd", odd);
    (0..50).for_each(|number| bench.make_group(&format!("group-{number}"), GroupDocument::default()));
    let before = bench.broker.catalog.generation();
    let groups = (0..50).map(|number| consumer(&format!("group-{number}"), Vec::new()));
    bench.client().give(&[heartbeat_with("one", groups.chain([consumer("odd", Vec::new())]).collect(), Vec::new())]);
    assert!(bench.broker.catalog.topic("%RETRY%group-49").is_some());
    assert_eq!(bench.broker.catalog.generation() - before, 1, "one change of the topics");
}

#[test]
fn broadcasting_is_refused_to_a_group_that_may_not() {
    let bench = Bench::new();
    bench.make_group("billing", GroupDocument { consume_broadcast_enable: false, ..GroupDocument::default() });
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    for (model, code) in [("CLUSTERING", response::SUCCESS), ("BROADCASTING", response::NO_PERMISSION)] {
        let wanted =
            SubscriptionData { topic: "orders".to_owned(), sub_string: "*".to_owned(), ..SubscriptionData::default() };
        let consumer = ConsumerData {
            group_name: "billing".to_owned(),
            consume_type: "CONSUME_PASSIVELY".to_owned(),
            message_model: model.to_owned(),
            subscription_data_set: vec![wanted],
            ..ConsumerData::default()
        };
        client.give(&[heartbeat_of("one", consumer)]);
        assert_eq!(client.ask(pull("billing", "orders", 0).with("sysFlag", 0)).code, code, "{model}");
    }
}

#[test]
fn a_consumer_that_checks_its_filter_hears_whether_it_can_be_used() {
    let bench = Bench::new();
    let mut client = bench.client();
    for (kind, expression, code) in [
        ("TAG", "a || b", response::SUCCESS),
        ("SQL92", "a > 1", response::SYSTEM_ERROR),
        ("TAG", "||", response::SUBSCRIPTION_PARSE_FAILED),
    ] {
        let wanted = SubscriptionData {
            expression_type: kind.to_owned(),
            sub_string: expression.to_owned(),
            ..SubscriptionData::default()
        };
        let check = ClientConfigCheck { subscription_data: wanted, ..ClientConfigCheck::default() };
        let asked = ask(request::CHECK_CLIENT_CONFIG, &[]).body(serde_json::to_vec(&check).expect("JSON"));
        assert_eq!(client.ask(asked).code, code, "{kind} {expression}");
    }
}

#[test]
fn a_locked_queue_is_one_clients_until_it_gives_it_back() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut lock =
        |client_id, queues: &[i32]| locked(&client.ask_well(locking(request::LOCK_BATCH_QUEUES, client_id, queues)));
    assert_eq!(lock("one", &[0, 1]), [0, 1]);
    assert_eq!(lock("two", &[0, 1, 2]), [2]);
    assert_eq!(lock("one", &[0]), [0]);
    client.ask_well(locking(request::UNLOCK_BATCH_QUEUES, "one", &[0]));
    // Nobody gives back what is another's.
    client.ask_well(locking(request::UNLOCK_BATCH_QUEUES, "two", &[1]));
    assert_eq!(locked(&client.ask_well(locking(request::LOCK_BATCH_QUEUES, "two", &[0, 1]))), [0]);
}

#[test]
fn a_lock_ends_when_its_holder_leaves_or_has_not_renewed_it_for_a_minute() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut lock = |client_id, wait_ms| {
        client.wait(wait_ms);
        locked(&client.ask_well(locking(request::LOCK_BATCH_QUEUES, client_id, &[0]))).len()
    };
    assert_eq!(lock("one", 0), 1);
    assert_eq!(lock("one", 50_000), 1);
    assert_eq!(lock("two", 60_000), 0);
    assert_eq!(lock("two", 1), 1);
    member(&bench, "two").give(&[leave("two")]);
    assert_eq!(lock("one", 0), 1);
}

#[test]
fn what_comes_behind_a_long_list_is_taken_in_after_it() {
    let bench = Bench::new();
    let mut client = bench.client();
    let queues: Vec<i32> = (0..2000).collect();
    let mut both = locking(request::LOCK_BATCH_QUEUES, "client-1", &queues).frame(1);
    assert!(both.len() > LIST_BODY_HERE_SIZE_MAX);
    both.extend_from_slice(&locking(request::UNLOCK_BATCH_QUEUES, "client-1", &[0]).frame(2));
    client.receive(&mut both).expect("frames");
    while let Some(job) = client.session.take_job() {
        job();
    }
    client.hear();
    client.receive(&mut both).expect("frames");
    client.hear();
    let mut other = bench.client();
    assert_eq!(
        locked(&other.ask_well(locking(request::LOCK_BATCH_QUEUES, "client-2", &[0, 1]))),
        [0],
        "it was given back"
    );
}

#[test]
fn what_one_connection_is_in_is_bounded_by_its_bytes() {
    let bench = Bench::new();
    let mut client = bench.client();
    let id = "x".repeat(1024);
    let groups: Vec<_> = (0..100_000).map(|number| producer(&format!("p-{number}"))).collect();
    let reply = client.ask_well(heartbeat_with(&id, Vec::new(), groups));
    assert!(reply.remark.starts_with("left out: "), "{}", reply.remark);
    let groups_of_one = bench.broker.groups.all_producers().len();
    assert!((5_000..20_000).contains(&groups_of_one), "{groups_of_one} groups of one connection");
    // Whoever else comes has room of its own, and so has this one once it has left.
    let mut other = bench.client();
    let wanted = |group: &str, number| SubscriptionData {
        topic: format!("{group}-{number}"),
        sub_string: "t".repeat(500),
        ..SubscriptionData::default()
    };
    for group in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        let subscriptions = (0..10_000).map(|number| wanted(group, number)).collect();
        other.give(&[heartbeat_with("one", vec![consumer(group, subscriptions)], Vec::new())]);
    }
    let is_in = |group: &&str| bench.broker.groups.is_online(group);
    let count = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].iter().filter(|group| is_in(group)).count();
    assert!((2..7).contains(&count), "{count} large groups of one connection");
    client.close();
    other.close();
    assert_eq!(bench.broker.groups.all_producers().len(), 0);
    let mut again = bench.client();
    assert_eq!(again.ask_well(heartbeat_with("one", Vec::new(), vec![producer("makers")])).remark, "");
}
