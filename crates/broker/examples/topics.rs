//! What many topics cost: `cargo run --release -p broker --example topics -- DIRECTORY [TOPICS] [MORE] [CLIENTS]` prints seconds and
//! memory for topics of four queues in an empty directory.
//!
//! `TOPICS` are made one by one, their documents written once. Beside these, `CLIENTS` administrators at once make `MORE`, each of whom
//! waits until the documents tell of it, and remove as many, which the log alone has to know.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for people who measure")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base::{Monotonic, Now, Timestamp, TopicName};
use broker::Broker;
use format::document::TopicDocument;
use storage::Options;

/// What is shipped uses it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUES: u32 = 4;
const NOW: Now = Now { wall: Timestamp(1_700_000_000_000), monotonic: Monotonic(1) };

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let mut number = |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (topics, more, clients) = (number(100_000), number(1000), number(32));
    let broker = open(Path::new(&directory));
    println!("opened with {}", held());
    time(&format!("{topics} topics of {QUEUES} queues made one by one"), || {
        (0..topics).for_each(|number| make(&broker, number));
    });
    time("documents written", || broker.save(NOW).expect("saves"));
    time("10 rounds of housekeeping", || {
        for _ in 0..10 {
            broker.store().flush_entries().expect("flushes");
            broker.checkpoint(NOW).expect("checkpoint");
            broker.expire(NOW);
        }
    });
    time(&format!("{more} more made by {clients} at once, documents written"), || {
        share(topics..topics + more, clients, |number| {
            make(&broker, number);
            broker.save(NOW).expect("saves");
        });
    });
    time(&format!("{more} removed by {clients} at once"), || {
        share(0..more, clients, |number| broker.removals.topic(&name(number), NOW).expect("removes"));
    });
}

fn make(broker: &Broker, number: usize) {
    let settings = TopicDocument { read_queue_nums: QUEUES, write_queue_nums: QUEUES, ..TopicDocument::default() };
    broker.catalog.put_topics(vec![(TopicName::trusted(&name(number)), settings)], NOW).expect("makes");
}

fn name(number: usize) -> String {
    format!("topic-{number}")
}

fn open(directory: &Path) -> Arc<Broker> {
    let host = Arc::new(testkit::ManualHost::default());
    let broker = testkit::open_broker(testkit::broker_options(), Options::new(directory), host.clone(), NOW);
    let broker = Arc::new(broker.expect("opens"));
    host.serve(&broker);
    broker
}

/// Does `act` once for each number, in `threads` threads.
fn share(numbers: Range<usize>, threads: usize, act: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    act(number);
                }
            });
        }
    });
}

fn time(what: &str, act: impl FnOnce()) {
    let started = Instant::now();
    act();
    println!("{what}: {:.2} s, {}", started.elapsed().as_secs_f64(), held());
}

fn held() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim();
    format!("{memory} resident")
}
