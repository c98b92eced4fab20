//! Messages that queues give up: too old, too many, rejected, delivered too often.

use std::path::Path;

use storage::disk::{Disk, MemoryDisk};
use testkit::store_options;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Ack, Publish, Qos, Reject};
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, START, short};

#[test]
fn what_is_rejected_or_too_old_or_too_much_goes_to_the_dead_letters() {
    let mut bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|table| {
        table.put("x-message-ttl", Value::I32(1000)).put("x-max-length", Value::I32(2));
    });
    client.publish("", "q", b"rejected");
    assert_eq!(client.get("q", false), "got 1, 0 more: rejected");
    client.send(1, Reject { delivery_tag: 1, requeue: false });
    assert_eq!(client.get("dead", true), "got 2, 0 more: rejected");
    for body in ["one", "two", "three"] {
        client.publish("", "q", body.as_bytes());
    }
    bench.pass(1);
    assert_eq!(client.get("dead", true), "got 3, 0 more: one");
    bench.pass(1100);
    client.now = bench.now;
    assert_eq!(client.get("dead", true), "got 4, 1 more: two");
    assert_eq!(client.get("dead", true), "got 5, 0 more: three");
    assert_eq!(client.get("q", true), "basic.get-empty");
}

#[test]
fn a_kill_makes_no_second_copy_of_what_is_a_dead_letter_already() {
    let mut bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|table| _ = table.put("x-max-length", Value::I32(2)));
    for body in ["too many", "rejected", "stays"] {
        client.publish("", "q", body.as_bytes());
    }
    bench.pass(1);
    assert_eq!(client.get("q", false), "got 1, 1 more: rejected");
    client.send(1, Reject { delivery_tag: 1, requeue: false });
    client.lose();
    let bench = bench.reopened(false);
    let mut client = bench.client();
    assert_eq!(client.get("dead", true), "got 1, 1 more again: too many");
    assert_eq!(client.get("dead", true), "got 2, 0 more again: rejected");
    assert_eq!(client.get("q", true), "got 3, 0 more again: stays");
}

#[test]
fn dead_letters_of_a_connection_come_in_the_order_in_which_it_rejected_them_whoever_is_about_them_first() {
    let bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|_| ());
    for tag in 1..=3 {
        client.publish("", "q", tag.to_string().as_bytes());
        client.get("q", false);
    }
    let rejected = (1..=3).flat_map(|delivery_tag| client.jobs_of(1, Reject { delivery_tag, requeue: false }));
    let jobs: Vec<_> = rejected.collect();
    assert_eq!(jobs.len(), 3);
    jobs.into_iter().rev().for_each(|job| job());
    for (number, more) in [(1, 2), (2, 1), (3, 0)] {
        assert_eq!(client.get("dead", true), format!("got {}, {more} more: {number}", number + 3));
    }
}

#[test]
fn what_was_rejected_while_the_disk_is_full_comes_to_nobody_and_is_a_dead_letter_once_there_is_room() {
    let disk = MemoryDisk::new();
    let open = |now| {
        let store = storage::Options { disk: Disk::new(disk.clone()), ..store_options(Path::new("/data")) };
        Bench::over(store, tempfile::tempdir().expect("directory"), now)
    };
    let mut bench = open(START);
    let mut client = bench.client_with_dead_letters(|_| ());
    for (tag, body) in [(1, "a"), (2, "b")] {
        client.publish("", "q", body.as_bytes());
        assert_eq!(client.get("q", false), format!("got {tag}, 0 more: {body}"));
    }
    let fill = |bench: &Bench, capacity| {
        disk.set_capacity(capacity);
        bench.broker.store().apply_retention(bench.now.wall, 5).expect("looks");
    };
    fill(&bench, 1);
    client.send(1, Reject { delivery_tag: 1, requeue: false });
    for _ in 0..5 {
        bench.pass(1000);
        client.now = bench.now;
        assert_eq!(client.get("q", true), "basic.get-empty");
    }
    fill(&bench, u64::MAX);
    bench.pass(1000);
    assert_eq!(client.get("dead", true), "got 3, 0 more: a");
    bench.broker.keep(bench.now).expect("told");
    fill(&bench, 1);
    client.send(1, Reject { delivery_tag: 2, requeue: false });
    client.lose();
    bench.pass(1000);
    assert_eq!(bench.client().get("q", true), "basic.get-empty", "whoever has rejected it is gone");
    drop(bench.broker);
    disk.set_capacity(u64::MAX);
    assert_eq!(open(bench.now).client().get("q", true), "got 1, 0 more again: b", "a killed process");
}

#[test]
fn of_too_many_those_of_the_lowest_priority_go_first_however_many_they_are() {
    let mut bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|table| {
        table.put("x-max-priority", Value::I32(5)).put("x-max-length", Value::I32(1));
    });
    let count = 1000;
    for number in 0..count {
        let priority = if number == 0 { Some(5) } else { None };
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        client.publish_with(publish, Properties { priority, ..Properties::default() }, number.to_string().as_bytes());
    }
    bench.pass(1);
    assert_eq!(client.get("q", true), "got 1, 0 more priority 5: 0");
    assert_eq!(client.get("dead", true), format!("got 2, {} more: 1", count - 2));
}

#[test]
fn a_message_has_a_time_of_its_own_and_an_old_one_is_never_delivered() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    for (expiration, body) in [("100", "short"), ("100000", "long")] {
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        client.publish_with(
            publish,
            Properties { expiration: Some(short(expiration)), ..Properties::default() },
            body.as_bytes(),
        );
    }
    bench.now = bench.now.plus_ms(200);
    client.now = bench.now;
    assert_eq!(client.get("q", true), "got 1, 0 more: long", "before anybody has swept");
}

#[test]
fn who_asks_for_one_gets_the_first_that_lives_on_behind_any_number_that_are_over() {
    // As many are looked at in one go, or made dead letters.
    for (count, has_dead_letters) in [(9000, false), (100, true)] {
        let bench = Bench::new();
        let mut client = bench.client();
        if has_dead_letters {
            client.dying_queue(|_| ());
        } else {
            client.simple_queue("q");
        }
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        for _ in 0..count {
            let properties = Properties { expiration: Some(short("10")), ..Properties::default() };
            client.publish_with(publish, properties, b"old");
        }
        client.publish("", "q", b"alive");
        client.now = bench.now.plus_ms(20);
        assert_eq!(client.get("q", true), "got 1, 0 more: alive");
        assert_eq!(client.get("q", true), "basic.get-empty");
    }
}

#[test]
fn what_has_no_time_goes_to_who_can_take_it_at_once_or_is_over() {
    let mut bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|table| _ = table.put("x-message-ttl", Value::I32(0)));
    client.publish("", "q", b"nobody waits");
    assert_eq!(client.get("q", true), "basic.get-empty");
    bench.pass(1);
    assert_eq!(client.get("dead", true), "got 1, 0 more: nobody waits");
    let mut consumer = bench.client();
    consumer.send(1, Qos { prefetch_count: 1, ..Qos::default() });
    assert_eq!(consumer.consume("q", "c", false), ["basic.qos-ok", "basic.consume-ok"]);
    for body in ["first", "second"] {
        bench.now = bench.now.plus_ms(100);
        client.now = bench.now;
        client.publish("", "q", body.as_bytes());
    }
    // Others sweep before it has looked.
    bench.pass(2);
    consumer.now = bench.now;
    assert_eq!(consumer.take(), ["deliver 1 to c: first"], "it takes one");
    bench.pass(2);
    assert_eq!(client.get("dead", true), "got 2, 0 more: second");
    consumer.now = bench.now;
    consumer.send(1, Ack { delivery_tag: 1, multiple: false });
    assert_eq!(consumer.take(), [""; 0]);
}

#[test]
fn what_a_producer_says_of_deaths_is_not_believed() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(10)));
    let headers = Arguments::of(|table| {
        table.array("x-death", |deaths| {
            deaths.table(|entry| {
                entry.put("queue", Value::LongString(b"dead")).put("reason", Value::LongString(b"expired"));
                entry.put("count", Value::I64(7));
            });
        });
    });
    let publish = Publish { routing_key: short("q"), ..Publish::default() };
    client.publish_with(publish, Properties { headers: Some(headers.table()), ..Properties::default() }, b"m");
    bench.pass(20);
    assert_eq!(client.get("dead", true), "got 1, 0 more: m", "it was never there");
}

#[test]
fn what_comes_back_too_often_is_given_up() {
    let bench = Bench::new();
    let mut client = bench.client_with_dead_letters(|table| {
        table.put("x-delivery-limit", Value::I32(2));
    });
    client.publish("", "q", b"poison");
    for (tag, again) in [(1, ""), (2, " again"), (3, " again")] {
        assert_eq!(client.get("q", false), format!("got {tag}, 0 more{again}: poison"));
        client.send(1, Reject { delivery_tag: tag, requeue: true });
    }
    assert_eq!(client.get("q", false), "basic.get-empty");
    assert_eq!(client.get("dead", true), "got 4, 0 more: poison");
}

#[test]
fn dead_letters_do_not_go_round_for_ever() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let arguments = Arguments::of(|table| {
        table.put("x-dead-letter-exchange", Value::LongString(b"")).put("x-message-ttl", Value::I32(10));
    });
    client.queue("q", true, &arguments);
    client.publish("", "q", b"m");
    for _ in 0..10 {
        bench.pass(20);
    }
    client.now = bench.now;
    assert_eq!(client.queue("q", true, &arguments), ["queue q 0/0"]);
}
