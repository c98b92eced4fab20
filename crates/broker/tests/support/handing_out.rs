//! Handing messages of the topic `orders` out to the group `billing`, one by one.

use std::path::Path;
use std::sync::Arc;

use base::{Permission, QueueId, TopicName};
use broker::{Beginning, Filter, HandOut, Holder, Lane, Wanted};
use format::document::TopicDocument;
use format::record::Record;
use storage::disk::{Disk, FaultyDisk};
use testkit::at;

use super::{Bench, layout, open_on};

/// For how long it is invisible what was handed out.
pub const INVISIBLE_MS: u64 = 10_000;

/// A broker that reads from the disk what is a little old.
pub fn open_cold(disk: &FaultyDisk) -> Bench {
    let disk = Disk::new(disk.clone());
    let layout = storage::Options { disk, recent_size: 1, ..layout(Path::new("/data"), vec![1000, 1000]) };
    open_on(layout, at(1000), |_| ())
}

/// Makes the topic.
pub fn make_topic(bench: &Bench, queues: u32) {
    let settings = TopicDocument::plain(queues, Permission::OPEN);
    bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, bench.now).expect("made");
}

/// The group's lane of a queue.
pub fn lane(bench: &Bench, queue: u32) -> Arc<Lane> {
    bench.broker.offsets.lane("orders", "billing", QueueId(queue), Beginning::First).expect("there is room")
}

/// What a consumer asks for that takes all there is in the first queue.
pub fn wanted(bench: &Bench) -> Wanted {
    Wanted {
        lanes: vec![(lane(bench, 0), Filter::All)],
        count_max: 32,
        size_max: 1 << 20,
        holder: Holder::Grant(bench.broker.leasing.name_grant(bench.now), bench.now.monotonic.plus_ms(INVISIBLE_MS)),
        attempt: None,
        redeliveries_max: 16,
        expiry: None,
    }
}

/// Hands out what is wanted.
pub fn hand_out(bench: &Bench, wanted: Wanted) -> HandOut {
    let mut hand_out = HandOut::of(wanted);
    bench.broker.leasing.hand_out(&mut hand_out, usize::MAX, bench.now).expect("handed out");
    hand_out
}

/// Bodies, and how often their records say that they were delivered before.
pub fn read(hand_out: &HandOut) -> Vec<(String, i32)> {
    let records = hand_out.pieces().iter().flat_map(|piece| format::record::split(piece));
    let read = records.map(|bytes| {
        let record = Record::decode(bytes).expect("a record");
        (String::from_utf8_lossy(record.body).into_owned(), record.reconsume_times)
    });
    read.collect()
}

/// Bodies alone.
pub fn bodies(hand_out: &HandOut) -> Vec<String> {
    read(hand_out).into_iter().map(|(body, _)| body).collect()
}
