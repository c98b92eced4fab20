//! What goes wrong around a session: disks that fail for a moment, clients that stall or go in between, queues that refuse.
use std::sync::Arc;

use base::session::Session;
use bytes::BytesMut;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Ack, Cancel, ConfirmSelect, Consume, Qos, Reject};
use wire::amqp::method::connection::ChannelClose;
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, START, message, persistent, put, short, to};

#[test]
fn a_durable_exclusive_queue_is_gone_after_a_kill() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mine = || QueueDeclare { queue: short("mine"), durable: true, exclusive: true, ..QueueDeclare::default() };
    client.send(1, mine());
    assert_eq!(client.take(), ["queue mine 0/0"]);
    // Killed: nobody tells the broker that the connection has ended.
    std::mem::forget(client);
    let scratch = tempfile::tempdir().expect("directory");
    bench.broker.keep(bench.now).expect("told");
    testkit::copy_directory(bench.directory(), scratch.path());
    let bench = Bench::on(scratch, bench.now);
    let mut client = bench.client();
    client.send(1, mine());
    assert_eq!(client.take(), ["queue mine 0/0"], "the client has reconnected");
}

#[test]
fn a_message_that_came_back_too_late_is_given_up() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000)));
    client.publish("", "q", b"m");
    assert_eq!(client.get("q", false), "got 1, 0 more: m");
    // While the client has it, its time is over, and the broker sweeps.
    for _ in 0..30 {
        bench.pass(100);
    }
    client.now = bench.now;
    client.send(1, ChannelClose::default());
    assert_eq!(client.take(), ["channel.close-ok"]);
    client.open(1);
    for _ in 0..100 {
        bench.pass(1000);
    }
    client.now = bench.now;
    assert_eq!(client.get("dead", true), "got 1, 0 more: m", "after 100 s");
}

fn bytes_of<'m>(method: impl Into<wire::amqp::method::Method<'m>>) -> BytesMut {
    let mut out = BytesMut::new();
    put(&mut out, 1, method);
    out
}

fn on_disk(disk: &FaultyDisk) -> Bench {
    let store = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        ..store_options(std::path::Path::new("/data"))
    };
    Bench::over(store, tempfile::tempdir().expect("directory"), START)
}

/// Five confirmed persistent messages on a disk, of which nothing is in memory.
fn cold(disk: &FaultyDisk) -> Bench {
    let bench = on_disk(disk);
    let mut client = bench.client();
    client.simple_queue("q");
    for number in 0..5 {
        client.publish_with(to("q"), persistent(), number.to_string().as_bytes());
    }
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    on_disk(disk)
}

fn auto_ack() -> Consume<'static> {
    Consume { queue: short("q"), consumer_tag: short("c"), no_ack: true, ..Consume::default() }
}

#[test]
fn a_consumer_that_is_cancelled_while_a_job_reads_loses_nothing() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk);
    let mut client = bench.client();
    let now = client.now;
    disk.fail(Failure::error(Operation::Read, 5));
    client.session.receive(&mut bytes_of(auto_ack()), now).expect("taken");
    disk.heal();
    let job = client.session.take_job().expect("it has to be read from the disk");
    client.session.receive(&mut bytes_of(Cancel { consumer_tag: short("c"), no_wait: false }), now).expect("taken");
    job();
    assert_eq!(client.take(), ["basic.consume-ok", "basic.cancel-ok"]);
    assert_eq!(client.get("q", true), "got 1, 4 more: 0", "nothing was ever sent");
}

#[test]
fn the_same_with_acknowledgements() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk);
    let mut client = bench.client();
    let now = client.now;
    disk.fail(Failure::error(Operation::Read, 5));
    client.session.receive(&mut bytes_of(Consume { no_ack: false, ..auto_ack() }), now).expect("taken");
    disk.heal();
    let job = client.session.take_job().expect("it has to be read from the disk");
    client.session.receive(&mut bytes_of(Cancel { consumer_tag: short("c"), no_wait: false }), now).expect("taken");
    job();
    assert_eq!(client.take(), ["basic.consume-ok", "basic.cancel-ok"]);
    assert_eq!(client.get("q", true), "got 1, 4 more: 0", "nothing was ever sent");
}

#[test]
fn a_disk_that_fails_for_a_moment_loses_nothing() {
    for no_ack in [false, true] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let mut bench = cold(&disk);
        let mut client = bench.client();
        let now = client.now;
        disk.fail(Failure::error(Operation::Read, 24).at("commitlog"));
        client.session.receive(&mut bytes_of(Consume { no_ack, ..auto_ack() }), now).expect("taken");
        let mut said = client.take();
        disk.heal();
        for _ in 0..5 {
            bench.pass(1000);
            client.now = bench.now;
            said.extend(client.take());
        }
        let given: Vec<_> = said.iter().filter_map(|line| line.split_once(": ")).map(|(_, body)| body).collect();
        assert_eq!(given, ["0", "1", "2", "3", "4"], "no_ack {no_ack}: {said:?}");
    }
}

/// `basic.get` with automatic acknowledgement and a disk that fails for a moment: the client is told of an error.
#[test]
fn a_get_that_fails_loses_nothing() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = cold(&disk);
    let mut client = bench.client();
    disk.fail(Failure::error(Operation::Read, 24).at("commitlog"));
    let said = client.get("q", true);
    disk.heal();
    bench.pass(5000);
    let mut client = bench.client();
    assert_eq!(client.get("q", true), "got 1, 4 more: 0", "{said}");
}

/// Run alone: it ends the process.
#[test]
fn a_chain_of_full_queues_does_not_end_the_process() {
    let bench = Bench::new();
    let mut client = bench.client();
    let count = 3000;
    for number in 0..count {
        let next = format!("q{}", number + 1);
        let arguments = Arguments::of(|table| {
            table.put("x-dead-letter-exchange", Value::LongString(b""));
            table.put("x-dead-letter-routing-key", Value::LongString(next.as_bytes()));
            table.put("x-max-length", Value::I32(0)).put("x-overflow", Value::LongString(b"reject-publish-dlx"));
        });
        client.queue(&format!("q{number}"), false, &arguments);
    }
    client.publish("", "q0", b"m");
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    eprintln!("still there, {:?}", status.lines().find(|line| line.starts_with("VmHWM")));
}

#[test]
fn a_client_that_does_not_read_keeps_no_message_from_another() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.simple_queue("much");
    let mut stuck = bench.client();
    assert_eq!(stuck.consume("q", "a", false), ["basic.consume-ok"]);
    assert_eq!(stuck.consume("much", "b", false), ["basic.consume-ok"]);
    let mut other = bench.client();
    assert_eq!(other.consume("q", "c", false), ["basic.consume-ok"]);
    stuck.is_stuck = true;
    for _ in 0..30 {
        client.publish("", "much", &[b'x'; 100_000]);
        stuck.settle();
    }
    for number in 0..3 {
        client.publish("", "q", number.to_string().as_bytes());
        stuck.settle();
        other.settle();
    }
    let mut count = bench.client();
    count.send(1, QueueDeclare { queue: short("q"), passive: true, ..QueueDeclare::default() });
    let ready = count.take();
    assert_eq!(other.take().len(), 3, "they are ready: {ready:?}");
}

#[test]
fn what_is_too_many_goes_also_if_it_came_back() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.queue("q", true, &Arguments::of(|table| _ = table.put("x-max-length", Value::I32(1))));
    for number in 0..3 {
        client.publish("", "q", number.to_string().as_bytes());
        client.get("q", false);
        bench.pass(1000);
    }
    client.send(1, ChannelClose::default());
    client.take();
    for _ in 0..20 {
        bench.pass(1000);
    }
    client.now = bench.now;
    client.open(1);
    client.send(1, QueueDeclare { queue: short("q"), passive: true, ..QueueDeclare::default() });
    assert_eq!(client.take(), ["queue q 1/0"], "x-max-length 1");
}

#[test]
fn what_could_not_be_given_up_is_given_up_later() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = on_disk(&disk);
    let mut client = bench.client();
    client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000)));
    client.simple_queue("other");
    client.publish("", "q", b"old");
    for _ in 0..20 {
        client.publish("", "other", &[b'x'; 100_000]);
    }
    disk.fail(Failure::error(Operation::Read, 24).at("commitlog"));
    bench.pass(1500);
    disk.heal();
    for _ in 0..100 {
        bench.pass(1000);
    }
    client.now = bench.now;
    assert_eq!(client.get("dead", false), "got 1, 0 more: old");
}

/// A connection on a thread of its own: it wakes at once.
struct Quick {
    session: std::sync::Mutex<Option<dialect::amqp::AmqpSession>>,
    now: base::Now,
}

impl std::task::Wake for Quick {
    fn wake(self: Arc<Self>) {
        if let Ok(mut session) = self.session.try_lock()
            && let Some(session) = session.as_mut()
        {
            session.wake(self.now);
        }
    }
}

#[test]
fn of_a_single_active_consumer_the_next_has_the_messages_in_order() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.queue("q", true, &Arguments::of(|table| _ = table.put("x-single-active-consumer", Value::Bool(true))));
    for number in 1..=4 {
        client.publish("", "q", number.to_string().as_bytes());
    }
    client.send(1, Qos { prefetch_count: 2, ..Qos::default() });
    client.take();
    assert_eq!(client.consume("q", "a", false), ["basic.consume-ok", "deliver 1 to a: 1", "deliver 2 to a: 2"]);
    let quick = Arc::new(Quick { session: std::sync::Mutex::new(None), now: bench.now });
    let mailbox = broker::Mailbox::new(std::task::Waker::from(quick.clone()));
    let address = "127.0.0.1:40001".parse().expect("an address");
    let mut other = bench.client();
    let session =
        dialect::amqp::AmqpSession::new(bench.broker.clone(), mailbox, Arc::new(bench.options.clone()), address);
    other.session = session;
    other.bytes(&wire::amqp::frame::PROTOCOL_HEADER);
    other.log_in("PLAIN", b"\0guest\0guest");
    other.send(0, wire::amqp::method::connection::TuneOk { channel_max: 0, frame_max: 4096, heartbeat: 0 });
    other.send(0, wire::amqp::method::connection::Open { virtual_host: short("/"), ..Default::default() });
    other.take();
    other.open(1);
    other.send(1, Qos { prefetch_count: 1, ..Qos::default() });
    other.take();
    assert_eq!(other.consume("q", "b", false), ["basic.consume-ok"]);
    // From here on the session of the other runs when it is woken, as on a thread of its own.
    let placeholder = bench.client();
    let session = std::mem::replace(&mut other.session, placeholder.session);
    *quick.session.lock().expect("locks") = Some(session);
    client.lose();
    other.session = quick.session.lock().expect("locks").take().expect("is there");
    assert_eq!(other.take(), ["deliver 1 to b again: 1"]);
}

#[test]
fn replicas_that_do_not_answer_and_a_slow_disk_keep_no_thread_busy() {
    let scratch = tempfile::tempdir().expect("directory");
    let store = store_options(scratch.path());
    let bench = Bench::with(store, scratch, START, |options| {
        options.ack_policy = base::offset::AckPolicy { durable: true, replicated: true };
    });
    bench.broker.durability.note_replicas(Some(base::LogOffset(0)));
    let mut client = bench.client();
    client.send(1, ConfirmSelect { no_wait: true });
    client.simple_queue("q");
    bench.stop_writing();
    let bytes = message(1, to("q"), persistent(), b"m");
    client.bytes(&bytes);
    client.now = client.now.plus_ms(5000);
    // What the server does with a session whose deadline has passed.
    let mut wakes = 0;
    while client.session.deadline().is_some_and(|deadline| deadline <= client.now.monotonic) && wakes < 1000 {
        client.session.wake(client.now);
        wakes += 1;
    }
    assert!(wakes < 1000, "the session is woken over and over, until the disk has synced");
}

/// 10 000 messages a second into a queue of ten that has an exchange for dead letters.
#[test]
fn drop_head_keeps_up() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.dying_queue(|table| _ = table.put("x-max-length", Value::I32(10)));
    let mut pass = BytesMut::new();
    for _ in 0..500 {
        pass.extend_from_slice(&message(1, to("q"), Properties::default(), b"m"));
    }
    for _ in 0..60 {
        client.now = bench.now;
        client.bytes(&pass);
        bench.pass(50);
    }
    client.send(1, QueueDeclare { queue: short("q"), passive: true, ..QueueDeclare::default() });
    assert_eq!(client.take(), ["queue q 10/0"], "after 3 s");
}

#[test]
fn permission_for_the_default_exchange_is_that_of_its_name() {
    let bench = Bench::new();
    let all = || ".*".to_owned();
    let settings =
        format::model::PermissionSettings { configure: all(), write: "^(amq\\.default|q)$".to_owned(), read: all() };
    bench.broker.model.permit("/", "guest", settings, bench.now).expect("changed");
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"m");
    assert_eq!(client.get("q", true), "got 1, 0 more: m", "publishing to the default exchange is allowed");
    let arguments = Arguments::of(|table| _ = table.put("x-dead-letter-exchange", Value::LongString(b"")));
    assert_eq!(client.queue("r", true, &arguments), ["queue r 0/0"]);
}

/// A slave that retention has nothing to do with: what a connection does whose peer is gone while jobs wait.
#[test]
fn jobs_that_run_after_the_connection_is_gone_give_back_what_they_took() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk);
    for no_ack in [false, true] {
        let mut client = bench.client();
        let now = client.now;
        disk.fail(Failure::error(Operation::Read, 5));
        client.session.receive(&mut bytes_of(Consume { no_ack, ..auto_ack() }), now).expect("taken");
        disk.heal();
        let job = client.session.take_job().expect("it has to be read from the disk");
        client.session.closed(now);
        job();
        drop(client);
        let counts = bench.broker.model.host("/").expect("host").queues()[0].counts();
        assert_eq!((counts.ready, counts.leased), (5, 0), "no_ack {no_ack}");
    }
}

#[test]
fn what_is_rejected_and_cannot_be_read_then_is_a_dead_letter_once_it_can() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = on_disk(&disk);
    let mut client = bench.client_with_dead_letters(|_| ());
    client.simple_queue("other");
    client.publish("", "q", b"m");
    assert_eq!(client.get("q", false), "got 1, 0 more: m");
    for _ in 0..20 {
        client.publish("", "other", &[b'x'; 100_000]);
    }
    disk.fail(Failure::error(Operation::Read, 24).at("commitlog"));
    client.send(1, Reject { delivery_tag: 1, requeue: false });
    disk.heal();
    bench.pass(1500);
    client.now = bench.now;
    assert_eq!(client.get("dead", true), "got 2, 0 more: m");
}

#[test]
fn a_shared_prefetch_holds_while_jobs_read_from_the_disk() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk);
    let mut client = bench.client();
    client.send(1, Qos { prefetch_count: 1, global: true, ..Qos::default() });
    client.take();
    let now = client.now;
    let other = Consume { consumer_tag: short("d"), no_ack: false, ..auto_ack() };
    let mut both = bytes_of(Consume { no_ack: false, ..auto_ack() });
    both.extend_from_slice(&bytes_of(other));
    disk.fail(Failure::error(Operation::Read, 5));
    client.session.receive(&mut both, now).expect("taken");
    disk.heal();
    assert_eq!(client.take(), ["basic.consume-ok", "basic.consume-ok", "deliver 1 to c: 0"]);
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    assert_eq!(client.take().len(), 1, "one for the one that is settled");
}
