//! Routed messages: one record, listed in lanes of message queues, found in each of them and nowhere else.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{QueueNumber, QueueOffset, Timestamp};
use format::lane_code::{LaneCode, body_size};
use format::queue_entry::Entry;
use format::record::Record;
use format::routed::Routed;
use storage::{Options, ReadMode, Store};
use support::lanes::{append, lane, push};
use support::orders;

fn options(directory: &Path) -> Options {
    Options { lane_file_entries: 4, ..orders::options(directory) }
}

fn open(options: &Options) -> Store {
    Store::open(options.clone(), Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
}

/// Bodies that a lane leads to, each with its expiry; 0 for none. Each entry tells the body's size.
fn found(store: &Store, at: (u32, u8)) -> Vec<(String, u64)> {
    let index = lane(store, at);
    let entries = support::entries(&index);
    let found = store.read(&index, &entries, ReadMode::MayWait).expect("reads");
    let body = |bytes: &[u8]| {
        assert!(Record::decode(bytes).expect("a record").body_is_intact());
        let routed = Routed::decode(bytes).expect("a routed message");
        assert_eq!((routed.exchange, routed.key, routed.header), (&b"trades"[..], &b"stock.eu"[..], &b"header"[..]));
        String::from_utf8(routed.body.to_vec()).expect("text")
    };
    let bodies: Vec<_> = found.iter().map(|bytes| body(bytes.expect("a record"))).collect();
    let told = |(body, (_, entry)): (String, &(QueueOffset, Entry))| {
        assert_eq!(body_size(entry), body.len() as u64);
        (body, LaneCode::of(entry).expiry.map_or(0, |expiry| expiry.0))
    };
    bodies.into_iter().zip(&entries).map(told).collect()
}

fn bodies(store: &Store, at: (u32, u8)) -> Vec<String> {
    found(store, at).into_iter().map(|(body, _)| body).collect()
}

#[test]
fn a_routed_message_is_found_in_each_of_its_lanes_and_messages_of_topics_beside_it() {
    for record_checksums in [false, true] {
        let directory = tempfile::tempdir().expect("directory");
        let options = Options { record_checksums, recent_size: 1, ..options(directory.path()) };
        let assert_all_there = |store: &Store| {
            let pairs =
                |pairs: &[(&str, u64)]| pairs.iter().map(|(body, at)| ((*body).to_owned(), *at)).collect::<Vec<_>>();
            assert_eq!(found(store, (1, 0)), pairs(&[("one", 0), ("two", 6000), ("three", 1000)]));
            assert_eq!(found(store, (1, 9)), pairs(&[("two", 0)]));
            assert_eq!(found(store, (u32::MAX, 255)), pairs(&[("one", 1007), ("two", 0)]));
            assert_eq!(orders::verify_queue(store, 0), 2);
            assert_eq!(store.topics().into_iter().collect::<Vec<_>>(), [(orders::topic(), 1)]);
            assert_eq!(store.message_queues(), [1, u32::MAX].map(QueueNumber));
        };
        let store = open(&options);
        append(&store, b"one", &[((1, 0), None), ((u32::MAX, 255), Some(7))]);
        orders::append_to(&store, 0);
        append(&store, b"two", &[((1, 0), Some(5000)), ((1, 9), None), ((u32::MAX, 255), None)]);
        orders::append_to(&store, 0);
        append(&store, b"three", &[((1, 0), Some(0))]);
        assert_all_there(&store);
        store.close().expect("closes");
        drop(store);
        let (queues, lanes) = (directory.path().join("consumequeue"), directory.path().join("sluice/queues"));
        let is_there = |path: &str| lanes.join(path).join(format!("{:020}", 0)).exists();
        assert!(is_there("1/0") && is_there("1/9") && is_there("4294967295/255"));
        assert_eq!(std::fs::read_dir(&queues).expect("lists").count(), 1, "orders");
        assert_all_there(&open(&options));
        for gone in [&[&lanes][..], &[&queues], &[&lanes, &queues]] {
            gone.iter().for_each(|gone| std::fs::remove_dir_all(gone).expect("removes"));
            // A store that is dropped without being closed makes entries again at the next start, too.
            assert_all_there(&open(&options));
        }
    }
}

#[test]
fn what_is_taken_out_of_a_batch_takes_no_place_in_any_lane() {
    let directory = tempfile::tempdir().expect("directory");
    let store = open(&options(directory.path()));
    let mut batch = store.begin_batch(0);
    push(&store, &mut batch, b"one", &[((1, 0), None), ((2, 0), None)]);
    push(&store, &mut batch, b"two", &[((1, 0), None), ((2, 0), None), ((3, 0), None)]);
    batch.truncate(1);
    push(&store, &mut batch, b"three", &[((2, 0), Some(1))]);
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    assert_eq!([(1, 0), (2, 0), (3, 0)].map(|at| bodies(&store, at).concat()), ["one", "onethree", ""]);
}
