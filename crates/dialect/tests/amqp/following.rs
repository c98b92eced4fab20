//! What a slave has of its master's virtual hosts, queues and messages: all that counts where it becomes the master.

use base::LogOffset;
use base::offset::AckPolicy;
use broker::Work;
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;
use serde_json::json;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Ack, ConfirmSelect, Nack, Publish, Qos};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDelete};
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, START, short};

/// What the master answers to a slave that has just connected.
fn tables(master: &Bench) -> MasterTables {
    let broker = &master.broker;
    let position = Some(broker.state_position());
    let mut documents = StateDocuments::default();
    documents.take_in("topics.json", json!(broker.catalog.topic_table())).expect("topics");
    documents.take_in("subscriptionGroup.json", json!(broker.catalog.group_table())).expect("groups");
    documents.take_in("consumerOffset.json", broker.offsets.document()).expect("offsets");
    documents.take_in("delayOffset.json", broker.delay.document()).expect("delays");
    documents.take_in("messageRequestMode.json", json!(broker.request_modes.table())).expect("modes");
    MasterTables { documents, undocumented: Some(broker.undocumented(master.now).expect("told")), position }
}

fn connect(slave: &Bench, master: &Bench) {
    slave.broker.take_tables(tables(master), slave.now).expect("takes");
}

/// Has the slave take in what the master's log has more, up to `end`.
fn follow_until(slave: &Bench, master: &Bench, end: LogOffset) {
    let following = &slave.broker.following;
    while following.end() < end {
        let start = following.end().max(master.broker.store().log_first());
        let size = (end.0 - start.0) as usize;
        let bytes = master.broker.store().read_raw(start, size).expect("reads");
        following.append(start, &[bytes]).expect("appends");
    }
}

fn follow(slave: &Bench, master: &Bench) {
    master.broker.keep(master.now).expect("keeps");
    follow_until(slave, master, master.broker.store().watermarks().committed());
}

fn master() -> Bench {
    Bench::of_role(tempfile::tempdir().expect("directory"), false, START)
}

fn slave() -> Bench {
    Bench::of_role(tempfile::tempdir().expect("directory"), true, START)
}

fn none() -> Arguments {
    Arguments::of(|_| ())
}

/// Exchanges, bindings and queues of every kind, some of which go again.
fn make(client: &mut Client) {
    let declare = |exchange, kind, durable| ExchangeDeclare {
        exchange: short(exchange),
        kind: short(kind),
        durable,
        ..ExchangeDeclare::default()
    };
    for (exchange, kind, durable) in [("news", "topic", true), ("gone", "fanout", true), ("passing", "direct", false)] {
        client.send(1, declare(exchange, kind, durable));
        assert_eq!(client.take(), ["exchange.declare-ok"]);
    }
    let limited = Arguments::of(|table| {
        table.put("x-max-priority", Value::I32(3));
        table.put("x-dead-letter-exchange", Value::LongString(b"news"));
    });
    client.queue("work", true, &limited);
    client.simple_queue("dead");
    client.simple_queue("removed");
    client.queue("passing", false, &none());
    for (queue, exchange, key) in
        [("dead", "news", "#"), ("work", "amq.direct", "job"), ("removed", "gone", ""), ("passing", "news", "x")]
    {
        let (queue, exchange, routing_key) = (short(queue), short(exchange), short(key));
        client.send(1, QueueBind { queue, exchange, routing_key, ..QueueBind::default() });
        assert_eq!(client.take(), ["queue.bind-ok"]);
    }
    client.publish("", "removed", b"nobody's");
    client.send(1, QueueDelete { queue: short("removed"), ..QueueDelete::default() });
    client.take();
}

fn publish(client: &mut Client, priority: u8, body: &str) {
    let properties = Properties { priority: Some(priority), delivery_mode: Some(2), ..Properties::default() };
    let publish = Publish { exchange: short("amq.direct"), routing_key: short("job"), ..Publish::default() };
    client.publish_with(publish, properties, body.as_bytes());
}

/// Six messages: two acknowledged, one dead, one in hand, two not yet delivered.
fn work(client: &mut Client) {
    for (priority, body) in [(3, "one"), (3, "two"), (2, "three"), (2, "four"), (1, "five"), (0, "six")] {
        publish(client, priority, body);
    }
    client.send(1, Qos { prefetch_count: 4, ..Qos::default() });
    client.take();
    client.consume("work", "c", false);
    client.send(1, Ack { delivery_tag: 2, multiple: true });
    client.send(1, Nack { delivery_tag: 3, multiple: false, requeue: false });
    client.take();
}

/// All that a queue has, taken and settled.
fn drain(client: &mut Client, queue: &str) -> Vec<String> {
    let got = std::iter::repeat_with(|| client.get(queue, true)).take_while(|got| got != "basic.get-empty");
    got.map(|got| got.split_once(' ').map_or_else(String::new, |(_, rest)| rest.to_owned())).collect()
}

/// What is left of it, whoever is the master now.
fn assert_left(promoted: &Bench) {
    let mut client = promoted.client();
    let all = drain(&mut client, "work");
    let all: Vec<_> = all.iter().map(|got| got.split_once("more").expect("got").1).collect();
    assert_eq!(all, [" again priority 2: four", " again priority 1: five", " again priority 0: six"]);
    let dead = drain(&mut client, "dead");
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert!(dead[0].ends_with("priority 2: three"), "{dead:?}");
    let host = promoted.broker.model.host("/").expect("a virtual host");
    let names: Vec<_> = host.queues().iter().map(|queue| String::from_utf8_lossy(queue.name()).into_owned()).collect();
    assert_eq!(names, ["dead", "work"]);
    client.publish("news", "x", b"still bound");
    assert_eq!(drain(&mut client, "dead").len(), 1);
    client.lose();
}

fn number_of(bench: &Bench, queue: &str) -> u32 {
    let host = bench.broker.model.host("/").expect("a virtual host");
    let queues = host.queues();
    queues.iter().find(|known| known.name() == queue.as_bytes()).expect("a queue").number().0
}

/// Its queues of before are what they were, and a new one is none of them.
fn assert_number_is_new(promoted: &Bench, given: u32) {
    let mut client = promoted.client();
    client.simple_queue("new");
    assert!(number_of(promoted, "new") > given);
    client.lose();
}

#[test]
fn a_slave_that_becomes_the_master_has_what_its_masters_log_told() {
    // The last time it is stopped in good order, which says nothing of what its master has handed out.
    for checkpoint in [0, 1, 2, 3] {
        let (master, slave) = (master(), slave());
        connect(&slave, &master);
        let mut client = master.client();
        make(&mut client);
        let given = number_of(&master, "dead") + 2;
        let checkpoint_now = |at: usize| {
            follow(&slave, &master);
            if checkpoint == at {
                slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
            }
        };
        checkpoint_now(1);
        work(&mut client);
        checkpoint_now(2);
        if checkpoint == 3 {
            slave.broker.close(slave.now).expect("closes");
        }
        let promoted = slave.reopened(false);
        assert_left(&promoted);
        assert_number_is_new(&promoted, given);
        client.lose();
    }
}

/// It is killed right after it has heard of them: nothing else would tell it.
#[test]
fn a_slave_that_begins_late_has_what_the_masters_tables_tell() {
    for is_killed in [false, true] {
        let (master, mut slave) = (master(), slave());
        let mut client = master.client();
        make(&mut client);
        let given = number_of(&master, "dead") + 2;
        let segment = master.broker.store().in_segment(LogOffset(0)).max(1 << 20);
        while master.broker.store().watermarks().written().0 < segment + 100_000 {
            client.publish("amq.direct", "job", &[7; 3000]);
        }
        assert!(drain(&mut client, "work").len() > 300);
        let mut worker = master.client();
        work(&mut worker);
        connect(&slave, &master);
        if is_killed {
            slave = slave.reopened(true);
        }
        // As after retention: what was before is gone.
        let end = master.broker.store().watermarks().committed();
        let mut start = LogOffset(segment);
        while start < end {
            let bytes = master.broker.store().read_raw(start, usize::MAX).expect("reads");
            start = slave.broker.following.append(start, &[bytes]).expect("appends");
        }
        let promoted = slave.reopened(false);
        assert_left(&promoted);
        assert_number_is_new(&promoted, given);
        [client, worker].into_iter().for_each(Client::lose);
    }
}

#[test]
fn what_the_tables_tell_of_before_the_log_does_is_not_undone_by_it() {
    let (master, slave) = (master(), slave());
    let mut client = master.client();
    client.simple_queue("first");
    master.broker.keep(master.now).expect("keeps");
    let early = master.broker.store().watermarks().committed();
    connect(&slave, &master);
    follow_until(&slave, &master, early);
    client.send(1, QueueDelete { queue: short("first"), ..QueueDelete::default() });
    client.take();
    client.simple_queue("first");
    client.publish("", "first", b"of the second");
    // The connection is made anew.
    connect(&slave, &master);
    follow(&slave, &master);
    let promoted = slave.reopened(false);
    let mut client_then = promoted.client();
    assert_eq!(drain(&mut client_then, "first"), ["1, 0 more again: of the second"]);
    client_then.lose();
    client.lose();
}

#[test]
fn retention_at_a_slave_keeps_what_is_in_queues_and_nothing_else() {
    for queue in ["work", "passing"] {
        let scratch = tempfile::tempdir().expect("directory");
        let mut store = testkit::store_options(scratch.path()).following();
        store.retention.size = Some(1 << 20);
        let (master, slave) = (master(), Bench::over(store, scratch, START));
        connect(&slave, &master);
        let mut client = master.client();
        make(&mut client);
        client.publish("", queue, b"waits");
        while master.broker.store().watermarks().written().0 < 3 << 20 {
            client.publish("", "dead", &[7; 3000]);
        }
        drain(&mut client, "dead");
        follow(&slave, &master);
        slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
        slave.broker.work(Work::FinishRemovals, slave.now).expect("removes");
        let retained = slave.broker.work(Work::Retention, slave.now).expect("retains");
        let first = slave.broker.store().log_first();
        if queue == "work" {
            assert_eq!(first, LogOffset(0), "{retained:?}");
        } else {
            assert!(first > LogOffset(0), "what goes with the master's process holds no disk here: {retained:?}");
        }
        // More comes for what was removed.
        client.publish("", queue, b"waits too");
        follow(&slave, &master);
        let promoted = slave.reopened(false);
        if queue == "work" {
            let mut client = promoted.client();
            assert_eq!(drain(&mut client, "work"), ["1, 1 more again: waits", "2, 0 more again: waits too"]);
            client.lose();
        }
        promoted.broker.work(Work::FinishRemovals, promoted.now).expect("removes");
        assert_eq!(promoted.broker.store().message_queues().len(), 1 + usize::from(queue == "work"), "{queue}");
        client.lose();
    }
}

#[test]
fn a_confirm_waits_for_replicas_and_is_refused_where_they_are_not_in_time() {
    let scratch = tempfile::tempdir().expect("directory");
    let store = testkit::store_options(scratch.path());
    let master = Bench::with(store, scratch, START, |options| {
        options.ack_policy = AckPolicy { durable: false, replicated: true };
    });
    let durability = &master.broker.durability;
    durability.note_replicas(Some(LogOffset(0)));
    let mut client = master.client();
    client.send(1, ConfirmSelect { no_wait: true });
    client.simple_queue("q");
    let publish = |client: &mut Client, delivery_mode| {
        let properties = Properties { delivery_mode: Some(delivery_mode), ..Properties::default() };
        client.publish_with(Publish { routing_key: short("q"), ..Publish::default() }, properties, b"m");
        client.take()
    };
    assert_eq!(publish(&mut client, 2), [""; 0]);
    durability.note_replicas(Some(master.broker.store().watermarks().written()));
    assert_eq!(client.take(), ["ack 1"]);
    assert_eq!(publish(&mut client, 2), [""; 0]);
    client.now = client.now.plus_ms(master.options.replica_timeout_ms);
    assert_eq!(client.take(), ["nack 2"], "it is stored all the same");
    assert_eq!(publish(&mut client, 1), ["ack 3"], "nobody waits for replicas of what is transient");
    durability.note_replicas(None);
    assert_eq!(publish(&mut client, 2), ["nack 4"], "there is no replica");
    durability.note_replicas(Some(LogOffset(0)));
    assert_eq!(publish(&mut client, 2), [""; 0]);
    assert_eq!(publish(&mut client, 2), [""; 0]);
    durability.note_replicas(None);
    assert_eq!(client.take(), ["nack 5", "nack 6"], "it is gone");
    durability.note_replicas(Some(LogOffset(0)));
    assert_eq!(publish(&mut client, 2), [""; 0]);
    client.now = client.now.plus_ms(master.options.replica_timeout_ms);
    assert_eq!(client.take(), ["nack 7"], "it is written, and replicas had their time");
    master.stop_writing();
    assert_eq!(publish(&mut client, 2), [""; 0]);
    client.now = client.now.plus_ms(master.options.replica_timeout_ms + 1);
    assert_eq!(client.take(), [""; 0], "it is not synced");
    master.broker.store().write_staged().expect("writes");
    master.broker.store().sync().expect("syncs");
    assert_eq!(client.take(), ["nack 8"], "as soon as it is");
    assert!(client.get("q", true).contains("7 more"));
    client.lose();
}
