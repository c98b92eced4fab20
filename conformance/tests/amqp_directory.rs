//! One data directory with messages of AMQP and of RocketMQ: a Java broker of 5.4.0 opens it, has every message of RocketMQ at its place and
//! none of the others, goes on, and gives it back.

use std::path::Path;

use conformance::channel::{Channel, Said};
use conformance::connection::Connection;
use conformance::directory::topics_with_queues;
use conformance::java::{JavaBroker, JavaNameServer};
use conformance::sluice::Setup;
use wire::rocketmq::code::response;

const TOPIC: &str = "own";
const QUEUES: u32 = 2;
/// Messages of each kind in a turn.
const COUNT: u32 = 400;
/// Small segments, so that both kinds share several.
const SEGMENT_SIZE: u32 = 1 << 20;

fn body(number: u32) -> Vec<u8> {
    format!("{number}:{}", "b".repeat(number as usize * 37 % 6000)).into_bytes()
}

fn send(connection: &mut Connection, number: u32) {
    let answer = connection.send_message(TOPIC, (number % QUEUES) as i32, "", &body(number));
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
}

/// Each queue has the messages that were sent to it, at offsets without a gap.
fn verify(connection: &mut Connection, count: u32) {
    for queue in 0..QUEUES {
        let mut number = queue;
        connection.read_queue(TOPIC, queue, 0, |record| {
            assert_eq!(record.body, body(number), "queue {queue}");
            number += QUEUES;
        });
        assert_eq!(number, count + queue, "queue {queue} has all of them");
    }
}

/// Messages of both kinds, one after the other; a fanout has each in two queues, of which the first has every tenth settled.
fn fill(setup: &Setup, amqp: &str, is_killed: bool) {
    let mut sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    connection.make_topic(TOPIC, QUEUES);
    let mut channel = Channel::open(amqp).expect("it listens");
    for queue in ["first", "second"] {
        channel.declare_queue(queue).expect("declared");
    }
    channel.declare_fanout("both", &["first", "second"]).expect("declared");
    channel.confirm().expect("confirms");
    for number in 0..COUNT {
        send(&mut connection, number);
        channel.publish("both", "", &body(number)).expect("published");
        let confirmed = Said::Confirmed { number: u64::from(number) + 1, multiple: false };
        assert_eq!(channel.hear(), Some(confirmed));
    }
    channel.consume("first", 10).expect("consumes");
    for tag in 1..=u64::from(COUNT / 10) {
        assert!(matches!(channel.hear(), Some(Said::Delivered { .. })));
        channel.acknowledge(tag).expect("acknowledged");
    }
    drop(channel);
    // What is acknowledged is told to the log within 10 ms, documents within seconds.
    std::thread::sleep(std::time::Duration::from_secs(if is_killed { 6 } else { 1 }));
    if is_killed {
        sluice.kill();
    } else {
        assert!(sluice.stop().success());
    }
}

fn java_opens_it(is_killed: bool) {
    let scratch = tempfile::tempdir().expect("directory");
    let home = scratch.path().join("java");
    let data = home.join("store");
    let (setup, port) = Setup::serve_amqp(&data);
    let (setup, amqp) = (setup.set("storage.segment_size", SEGMENT_SIZE), format!("127.0.0.1:{port}"));
    fill(&setup, &amqp, is_killed);
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let java = JavaBroker::start(&home, &name_server.address, &["mappedFileSizeCommitLog=1048576"]);
    let mut connection = Connection::open(&java.address);
    verify(&mut connection, COUNT);
    only_topics_of_rocketmq_are_listed(&data);
    (COUNT..2 * COUNT).for_each(|number| send(&mut connection, number));
    drop(connection);
    java.stop();
    let sluice = setup.start();
    verify(&mut Connection::open(&sluice.broker), 2 * COUNT);
    let mut channel = Channel::open(&amqp).expect("it listens");
    for (queue, first) in [("first", COUNT / 10), ("second", 0)] {
        assert_eq!(channel.declare_queue(queue), Some(COUNT - first), "{queue}");
    }
    channel.consume("first", 0).expect("consumes");
    for number in COUNT / 10..COUNT {
        let Some(Said::Delivered { body: came, .. }) = channel.hear() else { panic!("message {number}") };
        assert_eq!(came, body(number));
    }
}

/// Of message queues and their routed messages the Java broker has made nothing.
fn only_topics_of_rocketmq_are_listed(data: &Path) {
    let topics = topics_with_queues(data);
    assert!(topics.iter().any(|topic| topic == TOPIC), "{topics:?}");
    let odd: Vec<_> = topics.iter().filter(|topic| topic.starts_with("%MQ%") || topic.contains("sluice")).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn java_5_4_0_opens_a_directory_with_messages_of_amqp_after_an_orderly_stop() {
    java_opens_it(false);
}

#[test]
fn java_5_4_0_opens_a_directory_with_messages_of_amqp_after_a_kill() {
    java_opens_it(true);
}
