//! Promises to operators: what they send or copy is kept once they are told so.

mod support;

use std::path::Path;

use base::offset::AckPolicy;
use base::{Now, QueueOffset};
use storage::disk::{Disk, FaultyDisk, MemoryDisk};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);

fn open(disk: Disk) -> Bench {
    let options = storage::Options { disk, segment_size: 64 << 10, ..layout(Path::new("/data"), vec![1000]) };
    open_on(options, START, |options| options.ack_policy = AckPolicy::DURABLE)
}

#[test]
fn what_is_sent_or_copied_is_there_after_a_power_cut() {
    let memory = MemoryDisk::new();
    let disk = FaultyDisk::over(&memory);
    let bench = open(Disk::new(disk.clone()));
    bench.publish("orders", &message(b"by a client", b"")).expect("stored");
    let [from, to] =
        ["orders", "again"].map(|name| bench.broker.catalog.topic_for_publish(name, "TBW102", 4, START).expect("made"));
    let (queue, offset) = bench.broker.send(&from, &message(b"by hand", b""), START).expect("sent");
    assert_eq!((queue.0, offset), (0, QueueOffset(1)));
    let queue = from.queue(queue).expect("there");
    let (count, _) = bench.broker.copies.copy((&from, queue, offset), 1, &to, START).expect("copied");
    bench.broker.keep(START).expect("kept");
    assert_eq!(count, 1);
    let cut = disk.after_power_cut(disk.points(), || false);
    drop(bench);
    let bench = open(Disk::new(cut));
    assert_eq!(bench.bodies("orders", 0), ["by a client", "by hand"]);
    let copies: Vec<_> = (0..4).flat_map(|queue| bench.bodies("again", queue)).collect();
    assert_eq!(copies, ["by hand"]);
}
