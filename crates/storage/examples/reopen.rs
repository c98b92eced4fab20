//! How long a store takes to open after its process was killed: `cargo run --release -p storage --example reopen --
//! DIRECTORY [QUEUES] [GIGABYTES]` fills the directory if it is empty, leaves as a killed process would, and opens it.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for people who measure")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::metric::Metrics;
use base::{QueueId, Timestamp, TopicName};
use format::record::Draft;
use storage::{AppendBatch, Options, Store};

const QUEUES_PER_TOPIC: usize = 4;
const BODY: [u8; 1024] = [7; 1024];
const BATCH: usize = 64;
/// Bytes of log between two checkpoints, as `serve` does it.
const CHECKPOINT_SIZE: u64 = 512 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (queue_count, gigabytes) = (number(40_000) as usize, number(20));
    if !Path::new(&directory).join("commitlog").exists() {
        fill(Path::new(&directory), queue_count, gigabytes << 30);
    }
    let started = Instant::now();
    let (store, recovery) = open(Path::new(&directory));
    let took = started.elapsed();
    let queues: u64 = store.topics().values().copied().map(u64::from).sum();
    println!("opened in {took:.2?}: {queues} queues, {} records read again, {}", recovery.records, held());
}

fn open(directory: &Path) -> (Store, storage::Recovery) {
    Store::open(Options::new(directory), Arc::new(Metrics::default()), &mut |_| ()).expect("opens")
}

/// Appends to all queues in turn and leaves without a word.
fn fill(directory: &Path, queue_count: usize, size: u64) {
    let (store, _) = open(directory);
    let topics: Vec<_> = (0..queue_count.div_ceil(QUEUES_PER_TOPIC)).map(|number| format!("topic-{number}")).collect();
    let queues: Vec<_> = (0..queue_count)
        .map(|number| {
            let topic = TopicName::trusted(&topics[number / QUEUES_PER_TOPIC]);
            store.queue(&topic, QueueId((number % QUEUES_PER_TOPIC) as u32))
        })
        .collect();
    let (started, mut checkpointed, mut next) = (Instant::now(), 0, 0);
    let (mut flushing, mut checkpointing) = (Duration::ZERO, Duration::ZERO);
    let mut flushed = Instant::now();
    while store.watermarks().written().0 < size {
        let mut batch = AppendBatch::default();
        for _ in 0..BATCH {
            let queue = &queues[next % queues.len()];
            let draft = Draft {
                topic: queue.topic().as_str(),
                queue: queue.queue(),
                flag: 0,
                system_flag: 0,
                born_timestamp: Timestamp(5),
                born_host: "127.0.0.1:1".parse().expect("an address"),
                store_host: "127.0.0.1:2".parse().expect("an address"),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: &BODY,
                properties: &[],
            };
            testkit::push(&store, &mut batch, queue, &draft);
            next += 1;
        }
        store.append(batch, Timestamp(1_700_000_000_000)).expect("appends");
        store.write_staged().expect("writes");
        store.index_staged().expect("indexes");
        if next % (64 * BATCH) == 0 {
            let now = Instant::now();
            store.start_write_back().expect("writes back");
            store.prepare_next_segment().expect("prepares");
            if flushed.elapsed() > Duration::from_secs(1) {
                store.flush_entries().expect("flushes");
                flushed = Instant::now();
                flushing += now.elapsed();
            }
            if store.watermarks().written().0 - checkpointed > CHECKPOINT_SIZE {
                let now = Instant::now();
                checkpointed = store.watermarks().written().0;
                store.checkpoint().expect("checkpoint");
                checkpointing += now.elapsed();
            }
        }
    }
    println!(
        "filled in {:.1?}: {next} records, {flushing:.2?} of it writing entries, {checkpointing:.2?} checkpoints, {}",
        started.elapsed(),
        held()
    );
    drop(store);
}

/// Memory and files the process holds.
fn held() -> String {
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim().to_owned();
    format!("{files} files open, {memory} resident")
}
