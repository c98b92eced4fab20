//! A full disk under load: senders are told, consumers go on, writes resume by themselves once there is room, nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::skip;
use conformance::sluice::{Setup, Sluice};
use wire::rocketmq::code::response;

const WAIT_MAX: Duration = Duration::from_secs(60);
const TOPIC: &str = "filling";
const QUEUES: u32 = 3;
const BODY_SIZE: usize = 50_000;

/// What one sender has seen so far.
#[derive(Default)]
struct Sender {
    stored: AtomicU64,
    refused: AtomicU64,
    /// Stored after the first refusal.
    stored_again: AtomicU64,
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let allowed = Command::new("unshare").args(["--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return skip("a disk of its own needs the right to mount (unshare --mount)");
    }
    let scratch = tempfile::tempdir().expect("directory");
    let (sluice, filler) = start_on_a_small_disk(scratch.path());
    Connection::open(&sluice.broker).make_topic(TOPIC, QUEUES);
    let (is_over, consumed) = (AtomicBool::new(false), AtomicU64::new(0));
    let senders: Vec<_> = (0..QUEUES).map(|_| Sender::default()).collect();
    let acknowledged: BTreeMap<_, _> = std::thread::scope(|scope| {
        let (broker, is_over, consumed) = (&*sluice.broker, &is_over, &consumed);
        // Senders end with the test, however it ends.
        let _over = Over(is_over);
        let running: Vec<_> = (0..QUEUES)
            .zip(&senders)
            .map(|(queue, sender)| scope.spawn(move || send(broker, queue, sender, is_over)))
            .collect();
        scope.spawn(move || consume(broker, consumed, is_over));

        wait_until("every sender is refused", || {
            senders.iter().all(|sender| sender.refused.load(Ordering::Relaxed) > 3)
        });
        let stored = || senders.iter().map(|sender| sender.stored.load(Ordering::Relaxed)).sum::<u64>();
        assert!(stored() > 100, "{}", stored());
        wait_until("all that was stored is consumed on the full disk", || consumed.load(Ordering::Relaxed) >= stored());
        std::fs::remove_file(&filler).expect("makes room");
        let resumed = |sender: &Sender| sender.stored_again.load(Ordering::Relaxed) > 20;
        wait_until("every sender goes on", || senders.iter().all(resumed));
        wait_until("consumers follow", || consumed.load(Ordering::Relaxed) >= stored());
        is_over.store(true, Ordering::Relaxed);
        running.into_iter().flat_map(|sender| sender.join().expect("sends")).collect()
    });
    everything_acknowledged_is_there(&sluice, acknowledged);
}

/// Ends what runs beside a test, also one that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A broker on a disk of its own, and the file that takes room there.
fn start_on_a_small_disk(scratch: &std::path::Path) -> (Sluice, PathBuf) {
    let disk = scratch.join("disk");
    std::fs::create_dir(&disk).expect("makes");
    let mount = format!("mount -t tmpfs -o size=160m tmpfs {} && exec \"$@\"", disk.display());
    let sluice = Setup::serve(&disk.join("data"))
        .set("storage.segment_size", "16MiB")
        .set("storage.queue_file_entries", "1000")
        .set("storage.index_slots", "1000")
        .set("storage.index_entries", "100000")
        .set("retention.check_interval", "100ms")
        // Full before anything is deleted to make room.
        .set("retention.force_enabled", "false")
        .within(&["unshare", "--mount", "sh", "-c", &mount, "sh"])
        .start();
    let filler = PathBuf::from(format!("/proc/{}/root{}", sluice.id(), disk.display())).join("filler");
    std::fs::write(&filler, vec![1; 60 << 20]).expect("takes room");
    (sluice, filler)
}

/// Sends to one queue without a pause, whatever the answer. Returns which message is at which place.
fn send(broker: &str, queue: u32, sender: &Sender, is_over: &AtomicBool) -> Vec<((u32, u64), u64)> {
    let mut connection = Connection::open(broker);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) || sender.stored_again.load(Ordering::Relaxed) > 100 {
            break;
        }
        let answer = connection.send_message(TOPIC, queue as i32, "", &body_of(number));
        if answer.code == response::SUCCESS {
            acknowledged.push(((queue, answer.field("queueOffset").parse().expect("an offset")), number));
            sender.stored.fetch_add(1, Ordering::Relaxed);
            if sender.refused.load(Ordering::Relaxed) > 0 {
                sender.stored_again.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
            assert!(answer.remark.contains("full") || answer.remark.contains("space"), "{}", answer.remark);
            sender.refused.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    acknowledged
}

fn consume(broker: &str, consumed: &AtomicU64, is_over: &AtomicBool) {
    let mut connection = Connection::open(broker);
    let mut next = [0; QUEUES as usize];
    while !is_over.load(Ordering::Relaxed) {
        for (queue, next) in (0..).zip(&mut next) {
            let end = connection.read_queue(TOPIC, queue, *next, |record| assert_eq!(record.body.len(), BODY_SIZE));
            consumed.fetch_add(end - *next, Ordering::Relaxed);
            *next = end;
        }
    }
}

fn everything_acknowledged_is_there(sluice: &Sluice, mut acknowledged: BTreeMap<(u32, u64), u64>) {
    let mut connection = Connection::open(&sluice.broker);
    for queue in 0..QUEUES {
        connection.read_queue(TOPIC, queue, 0, |record| {
            let number = acknowledged.remove(&(queue, record.queue_offset.0)).expect("what was refused is not stored");
            assert!(record.body == body_of(number), "{queue} {}", record.queue_offset);
        });
    }
    assert!(acknowledged.is_empty(), "acknowledged and lost: {:?}", acknowledged.keys());
}

fn body_of(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(BODY_SIZE, number as u8);
    body
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WAIT_MAX, "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
