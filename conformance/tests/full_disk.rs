//! A full disk under load: senders are told, consumers go on, writes resume by themselves once there is room, nothing acknowledged is lost.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::loop_disk::LoopDisk;
use conformance::program::{python, run};
use conformance::sluice::{Setup, Sluice};
use conformance::{fill_count, free_port, skip};
use rustix::fs::FallocateFlags;
use wire::rocketmq::code::response;

const WAIT_MAX: Duration = Duration::from_secs(60);
const TOPIC: &str = "filling";
const QUEUES: u32 = 6;
const BODY_SIZE: usize = 4_000;
/// Of the disk that is filled again and again.
const DISK_SIZE: u64 = 400 << 20;
const FILLS: u64 = 3;
/// Messages of a sender that are on their way at one time, where the disk is to be filled as fast as it goes.
const IN_FLIGHT: usize = 256;

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
    let scratch = tempfile::tempdir().expect("directory");
    let Some((sluice, filler)) = start_on_a_small_disk(scratch.path(), |setup| setup) else { return };
    Connection::open(&sluice.broker).make_topic(TOPIC, QUEUES);
    let (is_over, consumed) = (AtomicBool::new(false), AtomicU64::new(0));
    let senders: Vec<_> = (0..QUEUES).map(|_| Sender::default()).collect();
    let acknowledged: BTreeMap<_, _> = std::thread::scope(|scope| {
        let (broker, is_over, consumed) = (&*sluice.broker, &is_over, &consumed);
        // Senders end with the test, however it ends.
        let _over = Over(is_over);
        let running: Vec<_> = (0..QUEUES)
            .zip(&senders)
            .map(|(queue, sender)| scope.spawn(move || send(broker, queue, sender, 1, is_over)))
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

#[test]
fn amqp_publishers_wait_on_a_full_disk_and_consumers_do_not() {
    let (scratch, port) = (tempfile::tempdir().expect("directory"), free_port());
    let started = start_on_a_small_disk(scratch.path(), |setup| setup.set("amqp.port", port));
    let Some((_sluice, filler)) = started else { return };
    let mut program = python("pika.txt");
    program.arg("blocked.py").arg(port.to_string()).arg(&filler);
    let said = run(&mut program);
    assert_eq!(said.lines().last(), Some("holds"), "{said}");
}

/// Ends what runs beside a test, also one that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A broker on a disk of its own, and the file that takes room there; `None`: it has been said why this machine cannot, and the test is over.
fn start_on_a_small_disk(scratch: &Path, change: impl FnOnce(Setup) -> Setup) -> Option<(Sluice, PathBuf)> {
    let allowed = Command::new("unshare").args(["--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        skip("a disk of its own needs the right to mount (unshare --mount)");
        return None;
    }
    let disk = scratch.join("disk");
    std::fs::create_dir(&disk).expect("makes");
    let mount = format!("mount -t tmpfs -o size=160m tmpfs {} && exec \"$@\"", disk.display());
    let setup = Setup::serve(&disk.join("data"))
        .set("storage.segment_size", "16MiB")
        .set("storage.queue_file_entries", "1000")
        .set("storage.index_slots", "1000")
        .set("storage.index_entries", "100000")
        .set("retention.check_interval", "100ms")
        // Full before anything is deleted to make room.
        .set("retention.force_enabled", "false")
        .within(&["unshare", "--mount", "sh", "-c", &mount, "sh"]);
    let sluice = change(setup).start();
    let filler = PathBuf::from(format!("/proc/{}/root{}", sluice.id(), disk.display())).join("filler");
    std::fs::write(&filler, vec![1; 60 << 20]).expect("takes room");
    Some((sluice, filler))
}

/// Sends to one queue, `in_flight` messages at a time, whatever the answer. Returns which message is at which place.
fn send(broker: &str, queue: u32, sender: &Sender, in_flight: usize, is_over: &AtomicBool) -> Vec<((u32, u64), u64)> {
    let mut connection = Connection::open(broker);
    let mut acknowledged = Vec::new();
    let mut waiting = HashMap::new();
    let mut number = 0;
    loop {
        let is_over = is_over.load(Ordering::Relaxed) || sender.stored_again.load(Ordering::Relaxed) > 100;
        while !is_over && waiting.len() < in_flight {
            let (properties, body) = (format!("KEYS\u{1}{queue}-{number}\u{2}"), body_of(number));
            let sent = connection.begin_send_message(TOPIC, queue as i32, &properties, &body).expect("sends");
            waiting.insert(sent, number);
            number += 1;
        }
        if waiting.is_empty() {
            return acknowledged;
        }
        let answer = connection.receive().expect("an answer");
        let number = waiting.remove(&answer.opaque).expect("one of ours");
        if answer.code == response::SUCCESS {
            acknowledged.push(((queue, answer.field("queueOffset").parse().expect("an offset")), number));
            sender.stored.fetch_add(1, Ordering::Relaxed);
            if sender.refused.load(Ordering::Relaxed) > 0 {
                sender.stored_again.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
            let says_why = ["full", "space", "room"].iter().any(|word| answer.remark.contains(word));
            assert!(says_why, "{}", answer.remark);
            sender.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
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

/// How a disk is filled, and comes to have room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The log fills it. The broker is killed and started on the full disk; then somebody removes a file of theirs.
    Killed,
    /// A file of somebody else fills it while messages come, and goes again.
    SomebodyElse,
    /// The log fills it before the first checkpoint, and has to make room by itself.
    Alone,
}

const WAYS: [Way; 3] = [Way::Killed, Way::SomebodyElse, Way::Alone];

#[test]
fn with_sync_flush_filled_again_and_again() {
    fill_again_and_again("sync");
}

#[test]
fn with_async_flush_filled_again_and_again() {
    fill_again_and_again("async");
}

fn fill_again_and_again(flush: &str) {
    let scratch = tempfile::tempdir().expect("directory");
    let Some(disk) = LoopDisk::make_or_skip(scratch.path(), DISK_SIZE, "a small disk") else { return };
    let ways = WAYS.into_iter().cycle();
    for (number, way) in (0..fill_count(FILLS)).zip(ways) {
        println!("{flush}, fill {number}: {way:?}");
        let data = disk.directory().join(format!("data-{number}"));
        fill(&disk, &data, flush, way);
        assert!(disk.command("rm").arg("-r").arg(&data).status().expect("runs").success());
        disk.wait_until_free();
    }
}

/// A broker with small segments and the key index as it is by default, whose disk is full long before the first checkpoint.
fn setup(disk: &LoopDisk, data: &Path, flush: &str, way: Way) -> Setup {
    let wrapper = disk.wrapper();
    Setup::serve(data)
        .set("storage.flush", flush)
        .set("storage.segment_size", "16MiB")
        // Full to the last byte.
        .set("retention.disk_refuse_percent", "100")
        .set("retention.force_enabled", way == Way::Alone)
        // Long enough to be full before it looks.
        .set("retention.check_interval", "3s")
        .within(&wrapper.iter().map(String::as_str).collect::<Vec<_>>())
}

fn fill(disk: &LoopDisk, data: &Path, flush: &str, way: Way) {
    let setup = setup(disk, data, flush, way);
    let mut sluice = setup.start();
    let filler = disk.directory().join("filler");
    let filler_of = |sluice: &Sluice| PathBuf::from(format!("/proc/{}/root{}", sluice.id(), filler.display()));
    if way == Way::Killed {
        take_room(&filler_of(&sluice), 100 << 20);
    }
    Connection::open(&sluice.broker).make_topic(TOPIC, QUEUES);
    let senders: Vec<_> = (0..QUEUES).map(|_| Sender::default()).collect();
    let mut acknowledged = BTreeMap::new();
    let is_full = |senders: &[Sender]| senders.iter().all(|sender| sender.refused.load(Ordering::Relaxed) > 3);
    let goes_on = |senders: &[Sender]| senders.iter().all(|sender| sender.stored_again.load(Ordering::Relaxed) > 20);
    acknowledged.extend(while_sending(&sluice, &senders, || {
        if way == Way::SomebodyElse {
            let stored = || senders.iter().map(|sender| sender.stored.load(Ordering::Relaxed)).sum::<u64>();
            wait_until("messages come", || stored() > 3000);
            take_room(&filler_of(&sluice), DISK_SIZE);
        }
        wait_until("every sender is refused", || is_full(&senders));
        if way == Way::SomebodyElse {
            std::fs::remove_file(filler_of(&sluice)).expect("makes room");
        }
        if way != Way::Killed {
            wait_until("every sender goes on", || goes_on(&senders));
        }
    }));
    nothing_is_lost(&sluice, &acknowledged);
    sluice.kill();
    disk.wait_until_free();
    sluice = setup.start();
    nothing_is_lost(&sluice, &acknowledged);
    if way == Way::Killed {
        std::fs::remove_file(filler_of(&sluice)).expect("makes room");
        let more = while_sending(&sluice, &senders, || wait_until("every sender goes on", || goes_on(&senders)));
        assert!(more.keys().all(|place| !acknowledged.contains_key(place)), "a place was given away twice");
        acknowledged.extend(more);
        nothing_is_lost(&sluice, &acknowledged);
    }
    if way != Way::Alone {
        everything_acknowledged_is_there(&sluice, acknowledged);
    }
    assert!(sluice.stop().success());
    disk.wait_until_free();
}

/// Does `act` while every queue has its sender; gives what they were told is stored.
fn while_sending(sluice: &Sluice, senders: &[Sender], act: impl FnOnce()) -> BTreeMap<(u32, u64), u64> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (broker, is_over) = (&*sluice.broker, &is_over);
        let over = Over(is_over);
        let running: Vec<_> = (0..QUEUES)
            .zip(senders)
            .map(|(queue, sender)| scope.spawn(move || send(broker, queue, sender, IN_FLIGHT, is_over)))
            .collect();
        act();
        drop(over);
        running.into_iter().flat_map(|sender| sender.join().expect("sends")).collect()
    })
}

/// Takes `size` bytes of a disk, or all there are.
fn take_room(path: &Path, size: u64) {
    const PIECE: u64 = 64 << 10;
    let file = std::fs::File::create(path).expect("makes");
    let take = |at, size| rustix::fs::fallocate(&file, FallocateFlags::empty(), at, size);
    let mut at = 0;
    while at < size && take(at, PIECE).is_ok() {
        at += PIECE;
    }
}

/// No queue ends below what was acknowledged, and no file of the store is open that has no name any more.
fn nothing_is_lost(sluice: &Sluice, acknowledged: &BTreeMap<(u32, u64), u64>) {
    let mut connection = Connection::open(&sluice.broker);
    for queue in 0..QUEUES {
        let of_queue = acknowledged.keys().filter(|(other, _)| *other == queue);
        let promised = of_queue.map(|(_, offset)| offset + 1).max().unwrap_or_default();
        let end = connection.queue_end(TOPIC, queue);
        assert!(end >= promised, "queue {queue} ends at {end}, and {promised} were acknowledged");
    }
    // What retention has just removed may still be read or synced.
    wait_until("no file is open that nobody finds again", || nameless_files(sluice).is_empty());
}

fn nameless_files(sluice: &Sluice) -> Vec<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", sluice.id())).expect("the process runs").flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|path| path.to_string_lossy().ends_with(" (deleted)")).collect()
}
