//! Pop consumers on the wire: what a pop's answer says, who is woken, what acknowledgements do, and what is refused.

use std::collections::BTreeSet;

use base::Permission;
use format::document::{GroupDocument, TopicDocument};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;
use wire::rocketmq::pop::answer::PopAnswer;
use wire::rocketmq::pop::batch_ack::{BatchAck, BatchAckRequest, BitSet};
use wire::rocketmq::pop::header::PopResponse;
use wire::rocketmq::pop::origin::Origin;

use crate::bench::Bench;
use crate::client::{Ask, Client, Reply, ask, pop, send};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.make_topic("orders", TopicDocument::plain(1, Permission::OPEN));
    bench
}

fn waiting_pop() -> Ask {
    pop().with("pollTime", 5000)
}

/// The receipt of a message in an answer, as a client makes it.
fn receipt(reply: &Reply, offset: i64) -> String {
    let number = |name: &str| reply.number(name);
    let text = |name: &str| reply.fields.get(name).map(|text| text.clone().into());
    let header = PopResponse {
        pop_timestamp: number("popTime"),
        invisible_ms: number("invisibleTime"),
        revive_queue_id: number("reviveQid") as i32,
        rest_count: number("restNum"),
        start_offset_info: text("startOffsetInfo"),
        message_offset_info: text("msgOffsetInfo"),
        order_count_info: text("orderCountInfo"),
        ..PopResponse::default()
    };
    let answer = PopAnswer::of(&header).expect("the answer's texts");
    answer.receipt("broker-a", "orders", 0, offset).expect("it is in the answer").to_string()
}

fn ack(receipt: &str, offset: i64) -> Ask {
    of_message(request::ACK_MESSAGE, receipt, offset)
}

fn change(receipt: &str, offset: i64, invisible_ms: i64) -> Ask {
    of_message(request::CHANGE_MESSAGE_INVISIBLE_TIME, receipt, offset).with("invisibleTime", invisible_ms)
}

fn of_message(code: i32, receipt: &str, offset: i64) -> Ask {
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("extraInfo", receipt)];
    ask(code, &fields).with("offset", offset)
}

fn send_all(client: &mut Client, bodies: &[&str]) {
    bodies.iter().for_each(|body| drop(client.ask_well(send("orders", body))));
}

#[test]
fn an_answer_has_what_clients_make_receipts_of_in_both_forms() {
    for form in [Form::Json, Form::Binary] {
        let bench = bench();
        let mut client = bench.client();
        send_all(&mut client, &["a", "b", "c"]);
        let found = client.ask_well(pop().with("maxMsgNums", 2).form(form));
        assert_eq!((found.bodies(), found.form), (vec!["a".into(), "b".into()], form));
        assert_eq!(found.fields["startOffsetInfo"], "0 0 0");
        assert_eq!(found.fields["msgOffsetInfo"], "0 0 0,1");
        assert_eq!((found.number("restNum"), found.number("invisibleTime")), (1, 10_000));
        assert!(!found.fields.contains_key("orderCountInfo"));
        assert_ne!(found.number("reviveQid"), 999, "which marks what is popped in order");
        let nothing =
            bench.client().ask(pop().with("topic", "orders").with("consumerGroup", "others").with("queueId", 0));
        assert_eq!(nothing.code, 0, "another group has its own");
        client.ask_well(pop());
        let nothing = client.ask(pop());
        assert_eq!(nothing.code, response::PULL_NOT_FOUND);
        assert_eq!(nothing.number("popTime"), 0, "clients read the numbers whatever the code");
    }
}

#[test]
fn of_those_that_wait_one_gets_the_message_and_nobody_else_is_woken() {
    let bench = bench();
    let (mut producer, mut first, mut second) = (bench.client(), bench.client(), bench.client());
    assert_eq!((first.give(&[waiting_pop()]), second.give(&[waiting_pop()])), (vec![], vec![]));
    producer.ask_well(send("orders", "x"));
    assert!(!second.take_wake(), "it would get nothing");
    assert_eq!(first.hear().iter().flat_map(Reply::bodies).collect::<Vec<_>>(), ["x"]);
    // Who was told and goes has the next told.
    first.give(&[waiting_pop()]);
    producer.ask_well(send("orders", "y"));
    assert_eq!(second.hear().iter().flat_map(Reply::bodies).collect::<Vec<_>>(), ["y"]);
    second.give(&[waiting_pop()]);
    producer.ask_well(send("orders", "z"));
    first.close();
    assert_eq!(second.hear().iter().flat_map(Reply::bodies).collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a_wait_ends_in_its_time_and_one_too_many_is_told_so() {
    let bench = bench();
    let mut client = bench.client();
    assert_eq!(client.give(&[waiting_pop()]), []);
    assert_eq!(client.wait(4999), []);
    let [ended] = &client.wait(1)[..] else { panic!("one answer") };
    assert_eq!((ended.code, ended.number("reviveQid")), (response::POLLING_TIMEOUT, 0));
    // A topic with many queues, where each wait has a place at each of them.
    bench.make_topic("wide", TopicDocument::plain(1000, Permission::OPEN));
    let full = (0..1000).find_map(|_| client.give(&[waiting_pop().with("topic", "wide")]).pop());
    assert_eq!(full.expect("not all wait").code, response::POLLING_FULL);
}

#[test]
fn an_acknowledgement_is_answered_once_the_log_has_it() {
    let bench = bench();
    let mut client = bench.client();
    send_all(&mut client, &["a", "b"]);
    let found = client.ask_well(pop());
    bench.stop_writing();
    assert_eq!(client.give(&[ack(&receipt(&found, 0), 0)]), []);
    bench.write();
    let answered = client.hear();
    assert_eq!(answered.iter().map(|reply| reply.code).collect::<Vec<_>>(), [response::SUCCESS]);
    drop(client);
    let bench = bench.killed(|_| ());
    let again = bench.client().ask_well(pop());
    assert_eq!(again.bodies(), ["b"], "what was acknowledged does not come again after a kill");
}

#[test]
fn what_is_not_acknowledged_comes_again_in_its_time_and_old_receipts_do_nothing() {
    let bench = bench();
    let mut client = bench.client();
    send_all(&mut client, &["a"]);
    let found = client.ask_well(pop());
    client.wait(10_050);
    let again = client.ask_well(pop());
    assert_eq!(again.bodies(), ["a"]);
    assert_eq!(client.ask(ack(&receipt(&found, 0), 0)).code, response::SUCCESS, "late is no error");
    let refused = client.ask(change(&receipt(&found, 0), 0, 60_000));
    assert_eq!(refused.code, response::NO_MESSAGE, "{}", refused.remark);
    client.wait(10_050);
    let third = client.ask_well(pop());
    assert_eq!(third.bodies(), ["a"], "it was still the second's to lose");
    let changed = client.ask_well(change(&receipt(&third, 0), 0, 0));
    assert_eq!(changed.number("invisibleTime"), 0);
    client.wait(50);
    assert_eq!(client.ask_well(pop()).bodies(), ["a"], "given back at once");
}

#[test]
fn a_batch_acknowledges_what_its_bits_name_and_all_that_can_be() {
    let bench = bench();
    let mut client = bench.client();
    send_all(&mut client, &["a", "b", "c", "d"]);
    let found = client.ask_well(pop());
    let of = |topic: &str, bits: &[u32]| BatchAck {
        bits: BitSet::of(&BTreeSet::from_iter(bits.iter().copied())),
        consumer_group: "billing".to_owned(),
        invisible_ms: 10_000,
        pop_timestamp: found.number("popTime"),
        queue_id: 0,
        origin: Origin::Topic,
        revive_queue_id: found.number("reviveQid") as i32,
        start_offset: 0,
        topic: topic.to_owned(),
    };
    let batch = |acks: Vec<BatchAck>| {
        let body = BatchAckRequest { acks, broker_name: "broker-a".to_owned() }.encode();
        ask(request::BATCH_ACK_MESSAGE, &[]).body(body.to_vec())
    };
    let answered = client.ask(batch(vec![of("not-there", &[0]), of("orders", &[0, 3])]));
    assert_eq!(answered.code, response::TOPIC_NOT_EXIST, "of those that cannot be, the first is told of");
    client.ask_well(batch(vec![of("orders", &[1, 3])]));
    assert_eq!(client.ask(batch(vec![])).code, response::NO_MESSAGE);
    let many: Vec<_> = (0..5000).collect();
    assert_eq!(client.ask(batch(vec![of("orders", &many)])).code, response::SYSTEM_ERROR);
    assert_eq!(client.ask(ask(request::BATCH_ACK_MESSAGE, &[]).body("{")).code, response::SYSTEM_ERROR);
    client.wait(10_050);
    assert_eq!(client.ask_well(pop()).bodies(), ["c"]);
}

#[test]
fn a_message_given_too_often_is_a_dead_letter() {
    let bench = bench();
    bench.make_group("billing", GroupDocument { retry_max_times: 1, ..GroupDocument::default() });
    let mut client = bench.client();
    send_all(&mut client, &["a"]);
    for _ in 0..2 {
        assert_eq!(client.ask_well(pop()).bodies(), ["a"]);
        client.wait(10_050);
    }
    assert_eq!(client.give(&[waiting_pop()]), [], "it is not given a third time");
    client.hear();
    assert_eq!(bench.count("%DLQ%billing", 0), 1);
}

#[test]
fn what_a_java_broker_put_into_its_retry_topics_is_popped_with_the_topic() {
    let bench = bench();
    let mut client = bench.client();
    let retries = "%RETRY%billing_orders";
    bench.make_topic(retries, TopicDocument::plain(1, Permission::OPEN));
    client.ask_well(send(retries, "again"));
    send_all(&mut client, &["a"]);
    let found = client.ask_well(pop());
    assert_eq!(found.bodies().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["a".into(), "again".into()]));
    let parts: BTreeSet<_> = found.fields["msgOffsetInfo"].split(';').collect();
    assert_eq!(parts, BTreeSet::from(["0 0 0", "1 0 0"]));
    let in_order = client.ask(pop().with("order", true).with("consumerGroup", "others"));
    assert_eq!(in_order.bodies(), ["a"], "in order, only the topic's own");
}

#[test]
fn in_order_an_answer_says_how_often_each_message_was_given_and_the_last_ack_tells_who_waits() {
    let bench = bench();
    let mut client = bench.client();
    send_all(&mut client, &["a", "b"]);
    let in_order = || waiting_pop().with("order", true).with("maxMsgNums", 1);
    let first = client.ask_well(in_order());
    assert_eq!((first.number("reviveQid"), &*first.fields["orderCountInfo"]), (999, "0 qo0%0 0"));
    let mut other = bench.client();
    assert_eq!(other.give(&[in_order()]), []);
    client.ask_well(ack(&receipt(&first, 0), 0));
    assert_eq!(other.hear().iter().flat_map(Reply::bodies).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn who_asks_whether_there_are_messages_takes_none() {
    let bench = bench();
    let mut client = bench.client();
    let notice = || {
        let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "-1"), ("bornTime", "0")];
        ask(request::NOTIFICATION, &fields)
    };
    assert_eq!(client.ask_well(notice().with("pollTime", 0)).fields["hasMsg"], "false");
    assert_eq!(client.give(&[notice().with("pollTime", 5000)]), []);
    bench.client().ask_well(send("orders", "a"));
    assert_eq!(client.hear().iter().map(|reply| reply.fields["hasMsg"].clone()).collect::<Vec<_>>(), ["true"]);
    assert_eq!(client.ask_well(pop()).bodies(), ["a"]);
    // A group that has not begun is told so, and begins where its first pop says.
    assert_eq!(client.ask_well(notice().with("consumerGroup", "late").with("pollTime", 5000)).fields["hasMsg"], "true");
    assert!(bench.broker.lanes.lane("orders", "late", 0).is_none());
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let bench = bench();
    bench.make_topic("closed", TopicDocument::plain(1, Permission { read: false, ..Permission::OPEN }));
    bench.make_group("barred", GroupDocument { consume_enable: false, ..GroupDocument::default() });
    let mut client = bench.client();
    send_all(&mut client, &["a"]);
    for (asked, code) in [
        (pop().with("maxMsgNums", 0), response::INVALID_PARAMETER),
        (pop().with("maxMsgNums", -1), response::INVALID_PARAMETER),
        (pop().with("maxMsgNums", 33), response::INVALID_PARAMETER),
        (pop().with("queueId", 1), response::INVALID_PARAMETER),
        (pop().with("topic", "not-there"), response::TOPIC_NOT_EXIST),
        (pop().with("topic", "closed"), response::NO_PERMISSION),
        (pop().with("consumerGroup", "barred"), response::NO_PERMISSION),
        (pop().with("exp", "||"), response::SUBSCRIPTION_PARSE_FAILED),
        (pop().with("expType", "SQL92").with("exp", "a > 1"), response::REQUEST_CODE_NOT_SUPPORTED),
        (pop().with("order", true).with("attemptId", "x".repeat(257)), response::INVALID_PARAMETER),
        (pop().without("invisibleTime"), response::SYSTEM_ERROR),
        (ack("", 0), response::SYSTEM_ERROR),
        (ack("0 1 2 3 0 broker-a 0 x", 0), response::SYSTEM_ERROR),
        (ack("0 1 2 3 0 broker-a 0 0", 1), response::NO_MESSAGE),
        (ack("0 1 2 3 0 broker-a 0 0", -1), response::NO_MESSAGE),
        (ack("0 1 2 3 0 broker-a 0 0", 0).with("queueId", 1), response::MESSAGE_ILLEGAL),
        (ack("0 1 2 3 0 broker-a 0 0", 0), response::SUCCESS),
    ] {
        let reply = client.ask(asked.clone());
        assert_eq!(reply.code, code, "{:?} {}", asked.fields, reply.remark);
    }
    for invisible_ms in [0, -1, i64::MIN] {
        let given = client.ask_well(pop().with("invisibleTime", invisible_ms));
        assert_eq!(given.bodies(), ["a"], "at once ready again after {invisible_ms} ms");
        client.wait(50);
    }
    assert_eq!(client.ask_well(pop().with("invisibleTime", 31_536_000_000_i64)).bodies(), ["a"], "a year");
    assert_eq!(client.ask(pop().with("invisibleTime", i64::MAX)).code, response::PULL_NOT_FOUND);
}
