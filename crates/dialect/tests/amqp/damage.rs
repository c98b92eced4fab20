//! What of a data directory was damaged while the broker was away.
use std::fs;
use std::path::Path;

use format::lane_entry::LANE_ENTRY_SIZE as ENTRY_SIZE;
use wire::amqp::method::queue::QueueDeclare;

use crate::client::{Bench, persistent, short, to};

/// A bench whose durable queue `q` has these messages.
fn with_messages(bodies: &[&str]) -> Bench {
    let bench = Bench::new();
    let mut client = bench.client();
    client.send(1, QueueDeclare { queue: short("q"), durable: true, ..QueueDeclare::default() });
    client.take();
    bodies.iter().for_each(|body| client.publish_with(to("q"), persistent(), body.as_bytes()));
    drop(client);
    bench
}

/// The file below `directory`: there is one.
fn only_file(directory: &Path) -> std::path::PathBuf {
    let mut within = fs::read_dir(directory).expect("directory").map(|item| item.expect("item").path());
    let first = within.next().expect("there is one");
    assert_eq!(within.next(), None, "there is only one");
    if first.is_dir() { only_file(&first) } else { first }
}

#[test]
fn a_message_whose_entry_has_a_flipped_bit_is_not_lost() {
    // Bits of the middle one of three entries.
    for bit in 0..ENTRY_SIZE * 8 {
        let bench = damaged(with_messages(&["0", "1", "2"]), |directory| {
            let file = only_file(&directory.join("sluice/queues"));
            let mut bytes = fs::read(&file).expect("entries");
            bytes[ENTRY_SIZE + bit / 8] ^= 0x80 >> (bit % 8);
            fs::write(&file, bytes).expect("written");
        });
        let mut client = bench.client();
        let got = [(); 3].map(|()| client.get("q", true));
        assert_eq!(got, ["got 1, 2 more: 0", "got 2, 1 more: 1", "got 3, 0 more: 2"], "bit {bit}");
    }
}

#[test]
fn who_asks_for_one_message_gets_the_next_whole_one_however_many_are_damaged() {
    let bodies = ["whole-0", "damaged-1", "damaged-2", "damaged-3", "whole-4"];
    let bench = damaged(with_messages(&bodies), |directory| {
        let file = only_file(&directory.join("commitlog"));
        let mut bytes = fs::read(&file).expect("records");
        let places: Vec<_> = bytes.windows(8).enumerate().filter(|(_, part)| *part == b"damaged-").collect();
        let places: Vec<_> = places.into_iter().map(|(at, _)| at).collect();
        assert_eq!(places.len(), 3);
        places.into_iter().for_each(|at| bytes[at] ^= 0x40);
        fs::write(&file, bytes).expect("written");
    });
    let mut client = bench.client();
    assert_eq!(client.get("q", true), "got 1, 4 more: whole-0");
    assert_eq!(client.get("q", true), "got 2, 0 more: whole-4");
    assert_eq!(client.get("q", true), "basic.get-empty");
}

#[test]
fn entries_that_were_overwritten_are_made_again() {
    let of_another = |bytes: &mut Vec<u8>| bytes.copy_within(0..ENTRY_SIZE, ENTRY_SIZE);
    let zeros = |bytes: &mut Vec<u8>| bytes[ENTRY_SIZE..3 * ENTRY_SIZE].fill(0);
    let ones = |bytes: &mut Vec<u8>| bytes[ENTRY_SIZE..3 * ENTRY_SIZE].fill(0x5a);
    let overwritings: [fn(&mut Vec<u8>); 3] = [of_another, zeros, ones];
    for overwrite in overwritings {
        let bench = damaged(with_messages(&["0", "1", "2", "3"]), |directory| {
            let file = only_file(&directory.join("sluice/queues"));
            let mut bytes = fs::read(&file).expect("entries");
            overwrite(&mut bytes);
            fs::write(&file, bytes).expect("written");
        });
        let mut client = bench.client();
        for number in 0..4 {
            assert_eq!(client.get("q", true), format!("got {}, {} more: {number}", number + 1, 3 - number));
        }
        assert_eq!(bench.broker.metrics().records_damaged.get(), 0, "no record is at fault");
    }
}

#[test]
fn a_start_that_makes_the_entries_of_topics_again_takes_those_of_message_queues_as_they_are() {
    let bench = damaged(with_messages(&["0", "1", "2"]), |directory| {
        let file = only_file(&directory.join("sluice/queues"));
        let mut bytes = fs::read(&file).expect("entries");
        bytes[ENTRY_SIZE..2 * ENTRY_SIZE].fill(0);
        fs::write(&file, bytes).expect("written");
        let _ = fs::remove_dir_all(directory.join("consumequeue"));
    });
    let mut client = bench.client();
    let got = [(); 3].map(|()| client.get("q", true));
    assert_eq!(got, ["got 1, 2 more: 0", "got 2, 1 more: 1", "got 3, 0 more: 2"]);
}

/// A bench on a directory that a broker has left in good order, and that was damaged then.
fn damaged(bench: Bench, damage: impl FnOnce(&Path)) -> Bench {
    bench.broker.close(bench.now).expect("closes");
    let scratch = tempfile::tempdir().expect("directory");
    testkit::copy_directory(bench.directory(), scratch.path());
    damage(scratch.path());
    Bench::on(scratch, bench.now)
}

/// The same without one of its files.
fn without(bench: Bench, file: &str) -> Bench {
    damaged(bench, |directory| {
        let lost = directory.join(file);
        let removed = if lost.is_dir() { fs::remove_dir_all(&lost) } else { fs::remove_file(&lost) };
        removed.expect("it is there");
    })
}

#[test]
fn a_lost_snapshot_of_the_state_takes_no_queue_and_brings_no_removed_user_back() {
    let bench = with_messages(&["m"]);
    bench.broker.model.remove_user("guest", bench.now).expect("removed");
    // Documents are written behind all of this.
    let bench = without(bench.killed(), "state");
    assert!(bench.broker.model.access.user("guest").is_none(), "it was removed");
    let host = bench.broker.model.host("/").expect("there");
    assert!(host.queues().iter().any(|queue| queue.has_ready()), "its message too");
    let bench = without(bench, "state");
    assert!(bench.broker.model.access.user("guest").is_none(), "nor later");
}

#[test]
fn entries_of_message_queues_that_are_gone_are_made_again() {
    for lost in ["sluice", "sluice/queues"] {
        let bench = without(with_messages(&["m"]), lost);
        assert_eq!(bench.client().get("q", true), "got 1, 0 more: m", "{lost}");
    }
}
