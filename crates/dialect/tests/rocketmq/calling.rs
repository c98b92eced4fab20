//! Promises to administrators who ask a consumer: the broker passes the question on, and the answer back.

use std::sync::Arc;

use base::budget::{Budget, Held, Room};
use base::limits::CONNECTIONS_HELD_SIZE_MAX;
use base::session::Session;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{FLAG_RESPONSE, Form};

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

fn directly(id: &str) -> Ask {
    let fields = [("consumerGroup", "billing"), ("clientId", "one"), ("msgId", id), ("topic", "orders")];
    ask(request::CONSUME_MESSAGE_DIRECTLY, &fields)
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

/// What one connection asks of another, with so much in it that a handful of those that stayed would show.
fn large_question(of: &str) -> Ask {
    running_info().with("clientId", of).body(vec![7; 15 << 20])
}

#[test]
fn who_asks_itself_and_goes_gives_back_what_that_held() {
    let bench = Bench::new();
    let budget = Arc::<Budget>::default();
    for round in 0..10 {
        let mut client = bench.client();
        client.session.share(budget.clone());
        client.give(&[heartbeat("one", "billing", "orders", "*", 1)]);
        client.receive(&mut large_question("one").frame(7)).expect("a frame");
        client.close();
        assert_eq!(budget.room(), Room::Plenty, "after {} connections that are gone", round + 1);
    }
}

#[test]
fn two_that_ask_each_other_and_go_give_back_what_that_held() {
    let bench = Bench::new();
    let budget = Arc::<Budget>::default();
    for round in 0..10 {
        let mut pair = [bench.client(), bench.client()];
        for (client, (name, other)) in pair.iter_mut().zip([("one", "two"), ("two", "one")]) {
            client.session.share(budget.clone());
            client.give(&[heartbeat(name, "billing", "orders", "*", 1)]);
            client.receive(&mut large_question(other).frame(7)).expect("a frame");
        }
        pair.into_iter().for_each(Client::close);
        assert_eq!(budget.room(), Room::Plenty, "after {} pairs that are gone", round + 1);
    }
}

/// The budget of both, of which half a MiB more leaves little.
fn nearly_little(clients: [&mut Client; 2]) -> (Arc<Budget>, Held) {
    let budget = Arc::<Budget>::default();
    clients.into_iter().for_each(|client| client.session.share(budget.clone()));
    let held = Held::taken(budget.clone(), CONNECTIONS_HELD_SIZE_MAX / 2 - (1 << 19));
    assert_eq!(budget.room(), Room::Plenty);
    (budget, held)
}

/// Nearly as much as a header may take.
fn large_text() -> String {
    "y".repeat((1 << 20) - 1000)
}

#[test]
fn fields_of_a_question_are_counted_until_it_is_passed_on() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    let id = admin.ask_well(send("orders", "x")).fields["msgId"].clone();
    for question in [running_info(), directly(&id)] {
        let (budget, _held) = nearly_little([&mut consumer, &mut admin]);
        assert_eq!(admin.give(&[question.with("x", large_text())]), []);
        assert_eq!(budget.room(), Room::Little);
        asked(&mut consumer);
        assert_eq!(budget.room(), Room::Plenty);
    }
}

#[test]
fn fields_and_remark_of_an_answer_are_counted_until_it_is_passed_back() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    let plain = Ask { flag: FLAG_RESPONSE, ..ask(0, &[]) };
    for answer in [plain.clone().with("x", large_text()), Ask { remark: Some(large_text()), ..plain }] {
        let (budget, _held) = nearly_little([&mut consumer, &mut admin]);
        admin.give(&[running_info()]);
        let question = asked(&mut consumer);
        consumer.receive(&mut answer.frame(question.opaque)).expect("a frame");
        assert_eq!(budget.room(), Room::Little);
        assert_eq!(admin.hear().len(), 1);
        assert_eq!(budget.room(), Room::Plenty);
    }
}

#[test]
fn who_asks_one_that_goes_before_it_has_heard_is_told_at_once() {
    let bench = Bench::new();
    let (consumer, mut admin) = pair(&bench);
    assert_eq!(admin.give(&[running_info()]), []);
    consumer.close();
    let heard = admin.hear();
    assert_eq!((heard.len(), heard[0].code), (1, response::SYSTEM_ERROR));
    assert!(heard[0].remark.contains("closed before it answered"), "{}", heard[0].remark);
}

#[test]
fn who_asks_one_whose_connection_is_closing_is_told_at_once() {
    let bench = Bench::new();
    let (_consumer, mut admin) = pair(&bench);
    let member = bench.broker.groups.member("billing", "one").expect("a member");
    // Another thread may come between this and the end of its membership.
    member.mailbox.close();
    let reply = admin.ask(running_info());
    assert_eq!((reply.code, &*reply.remark), (response::SYSTEM_ERROR, "The Consumer <billing> <one> not online"));
    assert_eq!(member.mailbox.take(), []);
}

#[test]
fn names_of_fields_that_the_other_form_cannot_say_are_refused_where_they_come_from() {
    let (bench, long) = (Bench::new(), "n".repeat(40_000));
    let (mut consumer, mut admin) = pair(&bench);
    let refused = admin.ask(running_info().with(&long, "x"));
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark.contains("a name of 40000 bytes"), "{}", refused.remark);
    assert_eq!(admin.give(&[running_info().form(Form::Binary)]), []);
    let question = asked(&mut consumer);
    let answer = Ask { flag: FLAG_RESPONSE, ..ask(0, &[]).with(&long, "x").body(b"fine".to_vec()) };
    consumer.receive(&mut answer.frame(question.opaque)).expect("a frame");
    let heard = admin.hear();
    assert_eq!((heard.len(), heard[0].code), (1, response::SYSTEM_ERROR));
    assert!(heard[0].remark.contains("cannot be passed on"), "{}", heard[0].remark);
}

#[test]
fn what_is_passed_on_is_never_longer_than_a_frame() {
    let bench = Bench::new();
    let (mut consumer, mut admin) = pair(&bench);
    // Each takes six bytes as JSON, in which the consumer speaks.
    let letters = "\u{1}".repeat(900_000);
    let question = running_info().form(Form::Binary).with("x", &letters).body(vec![7; 15_000_000]);
    assert_eq!(admin.give(&[question]), []);
    assert_eq!(consumer.hear(), []);
    let heard = admin.hear();
    assert!(heard.len() == 1 && heard[0].remark.contains("the request takes 204"), "{heard:?}");
    assert_eq!(admin.give(&[running_info()]), []);
    let question = asked(&mut consumer);
    let answer = Ask { flag: FLAG_RESPONSE, ..ask(0, &[]).with("x", &letters).body(vec![7; 15_000_000]) };
    consumer.receive(&mut answer.form(Form::Binary).frame(question.opaque)).expect("a frame");
    let heard = admin.hear();
    assert!(heard.len() == 1 && heard[0].remark.contains("answer takes 204"), "{heard:?}");
}
