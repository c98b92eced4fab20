//! Promises to administrators who ask a consumer: the broker passes the question on, and the answer back.

use base::session::Session;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::FLAG_RESPONSE;

use crate::bench::Bench;
use crate::client::{Ask, Client, Reply, ask, heartbeat, send};

/// A consumer that is connected, and an administrator.
fn pair(bench: &Bench) -> (Client, Client) {
    let mut consumer = bench.client();
    consumer.give(&[heartbeat("one", "billing", "orders", "*", 1)]);
    (consumer, bench.client())
}

fn running_info() -> Ask {
    let fields = [("consumerGroup", "billing"), ("clientId", "one"), ("jstackEnable", "true")];
    ask(request::GET_CONSUMER_RUNNING_INFO, &fields)
}

fn answer(consumer: &mut Client, asked: &Reply, code: i32, body: &[u8]) {
    let answer = Ask { flag: FLAG_RESPONSE, ..ask(code, &[("from", "one")]).body(body) };
    consumer.receive(&mut answer.frame(asked.opaque)).expect("a frame");
}

/// What a consumer is asked.
fn asked(consumer: &mut Client) -> Reply {
    let mut heard = consumer.hear();
    heard.retain(|reply| reply.code != request::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(heard.len(), 1, "{heard:?}");
    let asked = heard.remove(0);
    assert!(!asked.is_response && !asked.is_one_way);
    asked
}

#[test]
fn a_question_is_passed_on_as_it_came_and_its_answer_back() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    assert_eq!(admin.give(&[running_info()]), []);
    assert!(admin.session.is_busy());
    let asked = asked(&mut consumer);
    assert_eq!(asked.code, request::GET_CONSUMER_RUNNING_INFO);
    assert_eq!(asked.fields["jstackEnable"], "true");
    assert_eq!(consumer.wait(9000), []);
    answer(&mut consumer, &asked, 0, b"all is well");
    let heard = admin.hear();
    assert_eq!((heard.len(), heard[0].code, &*heard[0].body), (1, 0, &b"all is well"[..]));
    assert_eq!((heard[0].opaque, heard[0].is_response, &*heard[0].fields["from"]), (101, true, "one"));
    assert!(!admin.session.is_busy());
    // An answer that comes twice, or to nothing, is nobody's.
    answer(&mut consumer, &asked, 0, b"again");
    assert_eq!((admin.wait(20_000), consumer.hear()), (vec![], vec![]));
}

#[test]
fn a_refusal_of_the_consumer_is_passed_back_too() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    admin.give(&[running_info()]);
    let asked = asked(&mut consumer);
    answer(&mut consumer, &asked, 1, b"");
    assert_eq!(admin.hear()[0].code, 1);
}

#[test]
fn who_asks_a_consumer_that_is_not_here_is_told() {
    let bench = Bench::new();
    let (consumer, mut admin) = pair(&bench);
    let reply = admin.ask(running_info().with("clientId", "two"));
    assert_eq!((reply.code, &*reply.remark), (response::SYSTEM_ERROR, "The Consumer <billing> <two> not online"));
    // One that goes before it answers.
    assert_eq!(admin.give(&[running_info()]), []);
    let mut consumer = consumer;
    asked(&mut consumer);
    consumer.close();
    let heard = admin.hear();
    assert_eq!((heard.len(), heard[0].code), (1, response::SYSTEM_ERROR));
    assert!(heard[0].remark.contains("closed before it answered"), "{}", heard[0].remark);
    assert_eq!(admin.ask(running_info()).code, response::SYSTEM_ERROR);
}

#[test]
fn who_is_not_answered_in_time_is_told_once() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    assert_eq!(admin.give(&[running_info()]), []);
    let asked = asked(&mut consumer);
    assert_eq!(admin.wait(9_999), []);
    let heard = admin.wait(1);
    assert_eq!((heard.len(), heard[0].code), (1, response::CONSUME_MESSAGE_TIMEOUT));
    answer(&mut consumer, &asked, 0, b"late");
    assert_eq!(admin.hear(), []);
    assert!(!admin.session.is_busy());
}

#[test]
fn a_message_is_given_to_the_consumer_that_is_to_consume_it() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    let sent = admin.ask_well(send("orders", "x"));
    let id = &*sent.fields["msgId"];
    let directly = |id: &str| {
        let fields = [("consumerGroup", "billing"), ("clientId", "one"), ("msgId", id), ("topic", "orders")];
        ask(request::CONSUME_MESSAGE_DIRECTLY, &fields)
    };
    assert_eq!(admin.give(&[directly(id)]), []);
    let asked = asked(&mut consumer);
    assert_eq!(asked.code, request::CONSUME_MESSAGE_DIRECTLY);
    assert_eq!(asked.bodies(), ["x"]);
    assert_eq!(asked.fields["brokerName"], bench.broker.options().broker_name);
    answer(&mut consumer, &asked, 0, b"{}");
    assert_eq!(admin.hear()[0].body, b"{}");
    for id in ["", "7F00000100002A9F00000000000FFFFF", "nonsense", &format!("+{}", &id[1..])] {
        let reply = admin.ask(directly(id));
        assert_eq!(reply.code, response::SYSTEM_ERROR, "{id}: {}", reply.remark);
    }
    assert_eq!(consumer.hear(), []);
}

#[test]
fn questions_are_bounded_for_who_asks_and_for_who_is_asked() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    let many = vec![running_info(); 65];
    let refused = admin.give(&many);
    assert_eq!(refused.iter().map(|reply| reply.code).collect::<Vec<_>>(), [response::SYSTEM_BUSY]);
    assert_eq!(consumer.hear().iter().filter(|reply| !reply.is_one_way).count(), 64);
    let mut other = bench.client();
    assert_eq!(other.give(&[running_info()]), []);
    consumer.hear();
    assert_eq!(other.hear()[0].code, response::SYSTEM_ERROR);
    // What was not answered in time counts no longer.
    assert_eq!(admin.wait(10_000).len(), 64);
    consumer.wait(10_000);
    assert_eq!(other.give(&[running_info()]), []);
    asked(&mut consumer);
}
