//! Promises about messages that come later, come again, or are given up.

use format::document::GroupDocument;
use format::properties::names;
use format::record::Record;
use wire::rocketmq::code::{request, response};

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, locking, pull, send, send_batch};

/// Gives the message at a place in the log back to the broker for `billing`.
fn send_back(place: i64, delay_level: i32) -> Ask {
    ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", "billing")])
        .with("offset", place)
        .with("delayLevel", delay_level)
}

/// The bodies in queue 0 of a topic.
fn bodies(client: &mut Client, topic: &str) -> Vec<String> {
    client.ask(pull("billing", topic, 0)).bodies()
}

fn let_pass(bench: &Bench, client: &mut Client, milliseconds: u64) {
    client.wait(milliseconds);
    bench.broker.delivery.deliver_due(client.now);
}

#[test]
fn a_message_given_back_comes_again_after_a_wait() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    client.ask_well(pull("billing", "orders", 0));
    // The group's rule: the third level for the first try.
    client.ask_well(send_back(bench.first_of("orders"), 0));
    let_pass(&bench, &mut client, 9999);
    assert_eq!(bodies(&mut client, "%RETRY%billing"), [""; 0]);
    let_pass(&bench, &mut client, 1);
    let again = client.ask_well(pull("billing", "%RETRY%billing", 0));
    let record = Record::decode(&again.body).expect("a record");
    assert_eq!((record.body, record.reconsume_times), (&b"hard"[..], 1));
    assert_eq!(record.property(names::RETRY_TOPIC), Some("orders"));
}

#[test]
fn a_message_whose_tries_are_spent_is_a_dead_letter() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    client.ask_well(pull("billing", "orders", 0));
    client.ask_well(send_back(bench.first_of("orders"), -1));
    client.ask_well(send_back(bench.first_of("orders"), 0).with("maxReconsumeTimes", 0));
    // A consumer that could not give it back sends it to the retry topic itself, with the number of the try that follows.
    client.ask_well(send("%RETRY%billing", "last try").with("j", 16));
    client.ask_well(send("%RETRY%billing", "spent").with("j", 17));
    client.ask_well(send("%RETRY%billing", "last early try").with("j", 2).with("l", 2));
    client.ask_well(send("%RETRY%billing", "spent early").with("j", 3).with("l", 2));
    assert_eq!(bodies(&mut client, "%RETRY%billing"), ["last try", "last early try"]);
    assert_eq!(bodies(&mut client, "%DLQ%billing"), ["hard", "hard", "spent", "spent early"]);
    for topic in ["%RETRY%billing", "%DLQ%billing"] {
        let settings = bench.broker.catalog.topic(topic).expect("is made").settings.clone();
        assert_eq!((settings.read_queue_nums, settings.write_queue_nums), (1, 1), "{topic}");
    }
}

/// It tries again at the message's own place, and sends to the retry topic only what is spent.
#[test]
fn what_a_consumer_in_order_sends_to_the_retry_topic_is_a_dead_letter() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "first"));
    client.ask_well(locking(request::LOCK_BATCH_QUEUES, "c", &[0]));
    client.ask_well(send("%RETRY%billing", "spent").with("j", 2).with("l", 2));
    client.ask_well(send("%RETRY%others", "not in order").with("j", 2).with("l", 2));
    // The lock is over.
    client.wait(60_001);
    client.ask_well(send("%RETRY%billing", "no longer in order").with("j", 2).with("l", 2));
    assert_eq!(bodies(&mut client, "%DLQ%billing"), ["spent"]);
    assert_eq!(bodies(&mut client, "%RETRY%others"), ["not in order"]);
    assert_eq!(bodies(&mut client, "%RETRY%billing"), ["no longer in order"]);
}

#[test]
fn queue_and_delay_of_a_retry_do_not_carry_over_to_its_dead_letter() {
    let bench = Bench::new();
    bench.make_group("billing", GroupDocument { retry_queue_nums: 4, ..GroupDocument::default() });
    let mut client = bench.client();
    let spent = send("%RETRY%billing", "spent").with("e", 3).with("i", "DELAY\u{1}2\u{2}").with("j", 17);
    client.ask_well(spent);
    assert_eq!(bodies(&mut client, "%DLQ%billing"), ["spent"]);
    let batch = send_batch("%RETRY%billing", &[("a", "")]).with("j", 16);
    assert_eq!(client.ask(batch).code, response::MESSAGE_ILLEGAL);
}

#[test]
fn nothing_is_given_back_for_a_group_that_may_not_be_made() {
    let bench = Bench::with(|setup| setup.broker.auto_create_groups = false);
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    assert_eq!(client.ask(send_back(bench.first_of("orders"), 0)).code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    bench.make_group("billing", GroupDocument::default());
    client.ask_well(send_back(bench.first_of("orders"), 0));
}

#[test]
fn what_cannot_be_given_back_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    // The group is made on first use, as by a heartbeat or a pull.
    client.ask_well(send_back(bench.first_of("orders"), -1));
    assert_eq!(bodies(&mut client, "%DLQ%billing"), ["hard"]);
    for place in [bench.first_of("orders") + 1, 1_000_000, -1] {
        assert_eq!(client.ask(send_back(place, 0)).code, response::SYSTEM_ERROR, "{place}");
    }
    // A group without retry queues keeps none, and that is no error.
    bench.make_group("billing", GroupDocument { retry_queue_nums: 0, ..GroupDocument::default() });
    client.ask_well(send_back(bench.first_of("orders"), 0));
    assert!(bench.broker.catalog.topic("%RETRY%billing").is_none());
}
