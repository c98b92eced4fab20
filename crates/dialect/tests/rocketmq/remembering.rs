//! What a connection keeps at hand from one request to the next is never older than what there is.

use std::sync::{Arc, Weak};

use base::session::Session;
use base::{GroupName, Permission};
use format::document::{GroupDocument, TopicDocument};
use wire::rocketmq::code::{request, response};

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, heartbeat, pull, send};

/// A pull whose tags the heartbeat told.
fn subscribed_pull(offset: i64, sub_version: i64) -> Ask {
    pull("billing", "orders", offset).without("subscription").with("sysFlag", 0).with("subVersion", sub_version)
}

fn commit(topic: &str, group: &str, offset: i64) -> Ask {
    let named = [("consumerGroup", group), ("topic", topic), ("queueId", "0"), ("commitOffset", &offset.to_string())];
    ask(request::UPDATE_CONSUMER_OFFSET, &named)
}

fn committed(bench: &Bench, topic: &str, group: &str) -> Option<i64> {
    bench.broker.offsets.committed(topic, group, base::QueueId(0))
}

fn members(bench: &Bench) -> Vec<String> {
    bench.broker.groups.member_ids("billing").unwrap_or_default()
}

fn bodies(client: &mut Client, ask: Ask) -> Vec<String> {
    client.ask_well(ask).bodies()
}

#[test]
fn a_topic_that_was_made_anew_is_read_and_committed_as_the_new_one() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "old"));
    let both = |client: &mut Client, offset| {
        [pull("billing", "orders", 0), commit("orders", "billing", offset)].map(|ask| client.ask(ask).code)
    };
    assert_eq!(both(&mut client, 1), [0, 0]);
    bench.broker.removals.topic("orders", client.now).expect("removed");
    assert_eq!(both(&mut client, 1), [response::TOPIC_NOT_EXIST; 2]);
    assert_eq!(committed(&bench, "orders", "billing"), None, "nothing of before is left");
    client.ask_well(send("orders", "new"));
    assert_eq!(bodies(&mut client, pull("billing", "orders", 0)), ["new"]);
    assert_eq!(committed(&bench, "orders", "billing"), None);
    assert_eq!(both(&mut client, 0), [0, 0]);
    assert_eq!(committed(&bench, "orders", "billing"), Some(0));
}

#[test]
fn offsets_that_were_forgotten_are_committed_anew() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    client.ask_well(commit("orders", "billing", 1));
    // The topic stays; the connection still has the offsets at hand.
    bench.broker.removals.group("billing", true, client.now).expect("removed");
    assert_eq!(committed(&bench, "orders", "billing"), None);
    client.ask_well(commit("orders", "billing", 1));
    assert_eq!(committed(&bench, "orders", "billing"), Some(1));
    let bench = {
        drop(client);
        bench.killed(|_| ())
    };
    assert_eq!(committed(&bench, "orders", "billing"), Some(1), "it is in the log");
}

#[test]
fn changed_settings_of_a_topic_and_a_group_hold_from_the_next_pull_on() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let code = |client: &mut Client| client.ask(pull("billing", "orders", 0)).code;
    assert_eq!(code(&mut client), 0);
    bench.make_group("billing", GroupDocument { consume_enable: false, ..GroupDocument::default() });
    assert_eq!(code(&mut client), response::NO_PERMISSION);
    bench.make_group("billing", GroupDocument::default());
    assert_eq!(code(&mut client), 0);
    bench.make_topic("orders", TopicDocument::plain(4, Permission { read: false, ..Permission::OPEN }));
    assert_eq!(code(&mut client), response::NO_PERMISSION);
    bench.make_topic("orders", TopicDocument::plain(4, Permission::OPEN));
    assert_eq!(code(&mut client), 0);
}

#[test]
fn what_a_group_wants_now_is_what_its_next_pull_gets() {
    let bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    for tag in ["A", "B"] {
        let properties = format!("TAGS\u{1}{tag}\u{2}");
        client.ask_well(send("orders", tag).with("i", properties));
    }
    client.give(&[heartbeat("one", "billing", "orders", "A", 1)]);
    assert_eq!(bodies(&mut client, subscribed_pull(0, 1)), ["A"]);
    // Another member tells.
    other.give(&[heartbeat("two", "billing", "orders", "B", 2)]);
    client.hear();
    assert_eq!(bodies(&mut client, subscribed_pull(0, 1)), ["B"]);
    assert_eq!(client.ask(subscribed_pull(0, 3)).code, response::SUBSCRIPTION_NOT_LATEST);
    // The expression is the same, and its version is known too.
    other.give(&[heartbeat("two", "billing", "orders", "B", 3)]);
    assert_eq!(bodies(&mut client, subscribed_pull(0, 3)), ["B"]);
    other.close();
    client.close();
    let mut client = bench.client();
    assert_eq!(client.ask(subscribed_pull(0, 3)).code, response::SUBSCRIPTION_NOT_EXIST);
}

#[test]
fn a_connection_that_reads_for_many_groups_mixes_none_up() {
    let bench = Bench::new();
    let mut client = bench.client();
    let names: Vec<_> = (0..40).map(|number| (format!("topic-{number}"), format!("group-{}", number % 7))).collect();
    for (topic, _) in &names {
        client.ask_well(send(topic, topic));
    }
    for round in 0..2 {
        for (number, (topic, group)) in (0..).zip(&names) {
            assert_eq!(bodies(&mut client, pull(group, topic, 0)), [topic.as_str()]);
            client.give(&[commit(topic, group, (number + round) % 2).one_way()]);
        }
    }
    for (number, (topic, group)) in (0..).zip(&names) {
        assert_eq!(committed(&bench, topic, group), Some((number + 1) % 2));
    }
}

#[test]
fn names_that_can_be_of_nothing_are_refused_as_ever() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let long = "x".repeat(300);
    for ask in [pull("billing", &long, 0), commit(&long, "billing", 0), pull("billing", "nothing", 0)] {
        assert_eq!(client.ask(ask).code, response::TOPIC_NOT_EXIST);
    }
    for ask in [pull(&long, "orders", 0), commit("orders", &long, 0), commit("orders", "a b", 0), pull("", "orders", 0)]
    {
        let reply = client.ask(ask);
        assert!(reply.code != 0 && reply.code != response::TOPIC_NOT_EXIST, "{reply:?}");
    }
}

#[test]
fn a_heartbeat_that_says_the_same_keeps_a_client_and_nothing_else_does() {
    let bench = Bench::new();
    let mut client = bench.client();
    let same = heartbeat("one", "billing", "orders", "*", 1);
    let mut now = client.now;
    for _ in 0..10 {
        client.give(std::slice::from_ref(&same));
        client.wait(bench.broker.options().client_expiry_ms - 1);
        now = client.now;
        bench.broker.expire(now);
        assert_eq!(members(&bench), ["one"]);
    }
    bench.broker.expire(now.plus_ms(2));
    assert_eq!(members(&bench), [""; 0]);
    // It was taken out; the same heartbeat takes it in.
    client.give(std::slice::from_ref(&same));
    assert_eq!(members(&bench), ["one"]);
    client.ask_well(ask(request::UNREGISTER_CLIENT, &[("clientID", "one"), ("consumerGroup", "billing")]));
    assert_eq!(members(&bench), [""; 0]);
    client.give(&[same]);
    assert_eq!(members(&bench), ["one"]);
}

#[test]
fn a_heartbeat_that_says_the_same_makes_up_for_what_was_changed_meanwhile() {
    let bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    let same = heartbeat("one", "billing", "orders", "*", 1);
    let wants = || bench.broker.groups.subscription("billing", "orders").map(|wanted| wanted.version);
    client.give(std::slice::from_ref(&same));
    client.give(std::slice::from_ref(&same));
    // A member of the same group that wants something else; the last heartbeat tells, as ever.
    other.give(&[heartbeat("two", "billing", "payments", "*", 1)]);
    assert!(wants().is_err());
    client.give(std::slice::from_ref(&same));
    assert_eq!(wants(), Ok(1));
    other.close();
    client.hear();
    // An administrator removes the group, and its retry topic.
    client.give(std::slice::from_ref(&same));
    bench.broker.removals.group("billing", false, client.now).expect("removed");
    bench.broker.removals.topic("%RETRY%billing", client.now).expect("removed");
    client.give(std::slice::from_ref(&same));
    assert!(bench.broker.catalog.group("billing").is_some() && bench.broker.catalog.topic("%RETRY%billing").is_some());
    // The client has come by another connection, which goes again.
    let mut third = bench.client();
    third.give(std::slice::from_ref(&same));
    assert_eq!(members(&bench), ["one"]);
    client.give(std::slice::from_ref(&same));
    third.close();
    assert_eq!(members(&bench), ["one"], "it is this connection's since its last heartbeat");
}

#[test]
fn pulls_of_removed_topics_keep_nothing_of_them() {
    let bench = Bench::new();
    let (mut sender, mut client) = (bench.client(), bench.client());
    sender.ask_well(send("orders", "x"));
    sender.close();
    assert_eq!(bodies(&mut client, pull("billing", "orders", 0)), ["x"]);
    let topic = std::sync::Arc::downgrade(&bench.broker.catalog.topic("orders").expect("there"));
    bench.broker.removals.topic("orders", client.now).expect("removed");
    assert!(topic.upgrade().is_none(), "an idle connection holds a topic that is gone");
}

#[test]
fn an_idle_connection_keeps_no_subscription_that_is_gone() {
    let bench = Bench::new();
    let (mut sender, mut idle) = (bench.client(), bench.client());
    sender.ask_well(send("orders", "x"));
    let mut kept = Vec::new();
    for number in 0..16 {
        let group = format!("billing-{number}");
        let mut other = bench.client();
        // 7 MB, which count for the connection that subscribes.
        let expression = "x".repeat(7 << 20);
        other.give(&[heartbeat("one", &group, "orders", &expression, 1)]);
        let unfiltered = pull(&group, "orders", 0).without("subscription").with("sysFlag", 0).with("subVersion", 1);
        idle.ask(unfiltered);
        kept.push(Arc::downgrade(&bench.broker.groups.subscription(&group, "orders").expect("there")));
        other.close();
        assert!(!bench.broker.groups.is_online(&group));
    }
    let sizes: usize = kept.iter().filter_map(Weak::upgrade).map(|kept| kept.expression.len()).sum();
    assert_eq!(sizes, 0, "bytes kept by one idle connection that counts {} as held", idle.session.held_size());
}

#[test]
fn an_idle_connection_keeps_no_places_of_groups_that_are_gone() {
    let bench = Bench::new();
    let (mut idle, now) = (bench.client(), crate::bench::START);
    bench.make_topic("wide", TopicDocument::plain(65_536, Permission::OPEN));
    let mut kept = Vec::new();
    for number in 0..16 {
        let group = format!("billing-{number}");
        idle.ask(pull(&group, "wide", 0));
        let topic = bench.broker.catalog.topic("wide").expect("there");
        let group = GroupName::trusted(&group);
        kept.push(Arc::downgrade(&bench.broker.fetched.offsets_of(&topic, &group).expect("room")));
        drop(topic);
        bench.broker.removals.group(group.as_str(), true, now).expect("removed");
    }
    let count = kept.iter().filter(|kept| kept.upgrade().is_some()).count();
    assert_eq!(count, 0, "tables of 512 KiB each kept by one idle connection");
}
