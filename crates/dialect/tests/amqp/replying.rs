//! Direct replies: an answer on the channel of who asked, with no queue in between.

use format::model::PermissionSettings;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Cancel, Publish};
use wire::amqp::method::queue::QueueDeclare;

use crate::client::{Bench, short};

const REPLY_TO: &str = "amq.rabbitmq.reply-to";

#[test]
fn a_reply_comes_to_who_asked_and_to_nobody_once_it_has_gone() {
    let bench = Bench::new();
    let (mut asker, mut server) = (bench.client(), bench.client());
    server.simple_queue("questions");
    assert_eq!(asker.consume(REPLY_TO, "replies", true), ["basic.consume-ok"]);
    let question = Publish { routing_key: short("questions"), ..Publish::default() };
    asker.publish_with(question, Properties { reply_to: Some(short(REPLY_TO)), ..Properties::default() }, b"why?");
    let said = server.get("questions", true);
    let (said, address) = said.split_once(" reply to ").expect("an address");
    assert_eq!(said, "got 1, 0 more");
    let (address, body) = address.split_once(": ").expect("a body");
    assert!(body == "why?" && address.starts_with("amq.rabbitmq.reply-to.") && address.len() > 30, "{address}");
    let is_there = |server: &mut crate::client::Client| {
        server.send(1, QueueDeclare { queue: short(address), passive: true, ..QueueDeclare::default() });
        server.take().join("; ")
    };
    assert_eq!(is_there(&mut server), format!("queue {address} 0/1"));
    server.publish("", address, b"because");
    assert_eq!(asker.take(), ["deliver 1 to replies: because"]);
    asker.send(1, Cancel { consumer_tag: short("replies"), no_wait: false });
    assert_eq!(asker.take(), ["basic.cancel-ok"]);
    server.publish_with(
        Publish { routing_key: short(address), mandatory: true, ..Publish::default() },
        Properties::default(),
        b"late",
    );
    assert_eq!(server.take(), [format!("return 312 {address}: late")]);
    assert_eq!(asker.take(), [""; 0]);
    assert!(is_there(&mut server).starts_with("channel.close NOT_FOUND"));
}

#[test]
fn who_asks_has_to_wait_for_replies_and_cannot_acknowledge_them() {
    let bench = Bench::new();
    for (no_ack, twice, expected) in [
        (false, false, "channel.close PRECONDITION_FAILED - reply consumer cannot acknowledge"),
        (true, true, "channel.close PRECONDITION_FAILED - reply consumer already set"),
    ] {
        let mut client = bench.client();
        if twice {
            client.consume(REPLY_TO, "a", true);
        }
        assert_eq!(client.consume(REPLY_TO, "b", no_ack), [expected]);
    }
    let mut client = bench.client();
    client.publish_with(
        Publish::default(),
        Properties { reply_to: Some(short(REPLY_TO)), ..Properties::default() },
        b"",
    );
    assert_eq!(client.take(), ["channel.close PRECONDITION_FAILED - fast reply consumer does not exist"]);
}

#[test]
fn replies_that_nobody_takes_are_bounded() {
    let bench = Bench::new();
    let mut asker = bench.client();
    asker.consume(REPLY_TO, "replies", true);
    let mut server = bench.client();
    server.simple_queue("questions");
    let question = Publish { routing_key: short("questions"), ..Publish::default() };
    asker.publish_with(question, Properties { reply_to: Some(short(REPLY_TO)), ..Properties::default() }, b"");
    let said = server.get("questions", true);
    let address = said.split_once(" reply to ").and_then(|(_, rest)| rest.split_once(": ")).expect("an address").0;
    let body = vec![b'x'; 1 << 20];
    for _ in 0..30 {
        server.publish("", address, &body);
    }
    let taken = asker.take().len();
    assert!((1..=9).contains(&taken), "{taken}");
}

#[test]
fn who_may_not_write_to_the_default_exchange_may_not_reply_through_it() {
    let bench = Bench::new();
    let mut asker = bench.client();
    assert_eq!(asker.consume("amq.rabbitmq.reply-to", "c", true), ["basic.consume-ok"]);
    asker.simple_queue("questions");
    let ask = Publish { routing_key: short("questions"), ..Publish::default() };
    let properties = Properties { reply_to: Some(short("amq.rabbitmq.reply-to")), ..Properties::default() };
    asker.publish_with(ask, properties, b"?");
    let asked = asker.get("questions", true);
    let address = asked.split("reply to ").nth(1).and_then(|rest| rest.split(':').next()).expect("an address");
    let settings = PermissionSettings { configure: String::new(), write: "^$".to_owned(), read: ".*".to_owned() };
    bench.broker.model.permit("/", "guest", settings, bench.now).expect("permitted");
    let mut mute = bench.client();
    mute.publish("", address, b"!");
    let said = mute.take();
    assert!(said[0].starts_with("channel.close ACCESS_REFUSED") && said[0].contains("'amq.default'"), "{said:?}");
    assert_eq!(asker.take(), [""; 0]);
}
