//! How much of the machine's plain-write rate is left when the store does the writing: records are appended and, beside it,
//! the same number of bytes is only written. The two take turns, so that what others do to the machine hits both.
//!
//! ```text
//! cargo run --release -p storage --example append -- --data DIR
//! ```
//!
//! Each way has a directory of its own in each round, and at most 1 GiB of dirty pages: the disk itself does not limit it. The
//! directory is removed before the next. Encoding, checksums and copies are the store's share; there is no network.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "measures the store beside plain writes"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::limits::STAGED_SIZE_MAX;
use base::{QueueId, Timestamp, TopicName};
use bytes::BytesMut;
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use format::index_rules::IndexedProperties;
use format::record::Draft;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{FallocateFlags, fallocate};
use storage::{QueueIndex, StorageError, Store};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROPERTIES: &[u8] = b"UNIQ_KEY\x017F000001000100000001687BD35F000A\x02WAIT\x01true\x02";
const TOPIC: &str = "SluiceBench";
const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// Queues of the topic, each written to in turn, a batch at a time.
const QUEUES: u32 = 4;
/// One segment: what is reserved for a file of either way.
const SEGMENT_SIZE: u64 = 1 << 30;
/// As the server has it.
const INDEX_INTERVAL: Duration = Duration::from_millis(20);
/// As the server has it.
const PAGES_INTERVAL: Duration = Duration::from_millis(10);
const MEGABYTE: f64 = 1e6;

/// Appends to a store and plain writes of as many bytes, in turns.
#[derive(Debug, Parser)]
struct Arguments {
    /// Directory on the disk to be measured; it takes 2 GiB there while it runs.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Rounds; the median of them is what counts.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// MiB written in a round, at most 960.
    #[arg(long, default_value_t = 768, value_parser = clap::value_parser!(u64).range(1..=960))]
    mib: u64,
    /// Records in a batch.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    size: u32,
    /// Runs one way alone, for a profiler.
    #[arg(long, value_enum)]
    only: Option<Way>,
}

/// A way to get bytes into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Positioned writes of a batch's bytes.
    Write,
    /// Encode, append and write by one thread.
    Append,
    /// The same, written by a thread of its own into pages that another makes ahead of it, as in the server.
    AppendAside,
    /// The same, with keys indexed by one more thread, as in the server.
    AppendKeys,
}

const WAYS: [Way; 4] = [Way::Write, Way::Append, Way::AppendAside, Way::AppendKeys];

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "plain writes of a batch's bytes",
            Self::Append => "append and write, one thread",
            Self::AppendAside => "append, written by a thread of its own",
            Self::AppendKeys => "the same, keys indexed by a third thread",
        }
    }
}

/// What one batch is and how many make a round.
#[derive(Clone, Debug)]
struct Load {
    body: Vec<u8>,
    batch: u32,
    batch_bytes: usize,
    batches: u64,
}

impl Load {
    fn new(arguments: &Arguments) -> Self {
        let body = vec![0x5a; arguments.size as usize];
        let mut record = BytesMut::new();
        draft(&body, 0).encode(&mut record);
        let batch_bytes = record.len() * arguments.batch as usize;
        let batches = ((arguments.mib << 20) / batch_bytes as u64).max(1);
        Self { body, batch: arguments.batch, batch_bytes, batches }
    }

    fn bytes(&self) -> u64 {
        self.batches * self.batch_bytes as u64
    }
}

fn draft(body: &[u8], queue: u32) -> Draft<'_> {
    Draft { properties: &[PROPERTIES], ..testkit::draft(TOPIC, QueueId(queue), body) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!(
                "{}: {problem}; choose a directory with room on the disk to be measured with --data",
                arguments.data.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let load = Load::new(arguments);
    let ways: Vec<Way> = arguments.only.map_or_else(|| WAYS.to_vec(), |way| vec![way]);
    let bar = progress((arguments.rounds + 1) * ways.len());
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // The round before the first finds out what the memory of the machine is like, and is not counted.
    for round in 0..=arguments.rounds {
        for (way, rates) in ways.iter().zip(&mut rates) {
            bar.set_message(way.name());
            let directory = tempfile::tempdir_in(&arguments.data)?;
            let seconds = measure(*way, &load, directory.path())?.as_secs_f64();
            let megabytes_per_second = load.bytes() as f64 / seconds / MEGABYTE;
            if round > 0 {
                rates.push(megabytes_per_second);
                bar.suspend(|| eprintln!("round {round}: {megabytes_per_second:>7.0} MB/s  {}", way.name()));
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    println!("{}", table(&load, &ways, &rates));
    Ok(())
}

fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {percent:>3} % {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn table(load: &Load, ways: &[Way], rates: &[Vec<f64>]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    let title = format!(
        "{} records of {} bytes, {} in a batch",
        load.batches * u64::from(load.batch),
        load.body.len(),
        load.batch
    );
    table.set_header([&title, "MB/s", "lowest", "highest", "records/s", "share"]);
    let limit = rates.first().map_or(0.0, |rates| median(rates));
    let record_bytes = load.batch_bytes as f64 / f64::from(load.batch);
    for (way, rates) in ways.iter().zip(rates) {
        let rate = median(rates);
        table.add_row([
            way.name().to_owned(),
            format!("{rate:.0}"),
            format!("{:.0}", rates.iter().copied().fold(f64::INFINITY, f64::min)),
            format!("{:.0}", rates.iter().copied().fold(0.0, f64::max)),
            format!("{:.0}", rate * MEGABYTE / record_bytes),
            format!("{:.0} %", rate / limit * 100.0),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// How long it takes to write a round's bytes; making the files is not in it.
fn measure(way: Way, load: &Load, directory: &Path) -> Result<Duration, Failure> {
    if way == Way::Write {
        return Ok(write_plainly(load, &directory.join("plain"))?);
    }
    let (store, _) = Store::open(layout(directory, way == Way::AppendKeys), Arc::default(), &mut |_| ())?;
    let mut appender = Appender::new(&store, load, way == Way::AppendKeys);
    // Makes the first segment.
    appender.append()?;
    store.write_staged()?;
    match way {
        Way::Write | Way::Append => append_alone(&store, &mut appender, load),
        Way::AppendAside | Way::AppendKeys => append_beside_a_writer(&store, &mut appender, load),
    }
}

fn write_plainly(load: &Load, path: &Path) -> io::Result<Duration> {
    let file: File = OpenOptions::new().write(true).create_new(true).open(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, SEGMENT_SIZE)?;
    let bytes = vec![0x5a; load.batch_bytes];
    let began = Instant::now();
    for batch in 0..load.batches {
        file.write_all_at(&bytes, batch * load.batch_bytes as u64)?;
    }
    Ok(began.elapsed())
}

fn append_alone(store: &Store, appender: &mut Appender<'_>, load: &Load) -> Result<Duration, Failure> {
    let began = Instant::now();
    for _ in 0..load.batches {
        appender.append()?;
        store.write_staged()?;
    }
    Ok(began.elapsed())
}

fn append_beside_a_writer(store: &Store, appender: &mut Appender<'_>, load: &Load) -> Result<Duration, Failure> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<(), StorageError> {
            loop {
                // Looked at first: what was appended before it was set is still written.
                let last = done.load(Ordering::Acquire);
                match store.write_staged()? {
                    true => {}
                    false if last => return Ok(()),
                    false => thread::park(),
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) && store.index_staged().is_ok() {
                thread::park_timeout(INDEX_INTERVAL);
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if store.prepare_pages() == 0 {
                    thread::park_timeout(PAGES_INTERVAL);
                }
            }
        });
        let began = Instant::now();
        let mut appended = Ok(());
        for _ in 0..load.batches {
            appended = appender.append();
            writer.thread().unpark();
            if appended.is_err() {
                break;
            }
            while store.staged_size() >= STAGED_SIZE_MAX && store.poisoned().is_none() {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
        writer.thread().unpark();
        let written = writer.join().map_err(|_| Failure("the writer ended with a panic".to_owned()))?;
        let elapsed = began.elapsed();
        written.map_err(Failure::from).and(appended).map(|()| elapsed)
    })
}

/// As in the server, whose segments are of this size too.
fn layout(directory: &Path, key_index: bool) -> storage::Options {
    storage::Options { segment_size: SEGMENT_SIZE, key_index, ..storage::Options::new(directory) }
}

/// Encodes and appends batch after batch, to one queue after the other.
struct Appender<'a> {
    store: &'a Store,
    load: &'a Load,
    topic: TopicName,
    queues: Vec<Arc<QueueIndex>>,
    next_queue: usize,
    keys: bool,
    key: u32,
}

impl<'a> Appender<'a> {
    fn new(store: &'a Store, load: &'a Load, keys: bool) -> Self {
        let topic = TopicName::trusted(TOPIC);
        let queues = (0..QUEUES).map(|queue| store.queue(&topic, QueueId(queue))).collect();
        Self { store, load, topic, queues, next_queue: 0, keys, key: 0 }
    }

    fn append(&mut self) -> Result<(), Failure> {
        let at = self.next_queue;
        self.next_queue = (at + 1) % self.queues.len();
        let mut batch = self.store.begin_batch(self.load.batch as usize * self.load.body.len() * 9 / 8);
        for _ in 0..self.load.batch {
            let key = self.key.to_string();
            let keys = if self.keys { key.as_bytes() } else { &[] };
            self.key += 1;
            let properties = IndexedProperties { keys, ..IndexedProperties::default() };
            let indexed = self.store.index_rules().apply(self.topic.as_str(), 0, &properties);
            batch.push(&self.queues[at], &draft(&self.load.body, at as u32), &indexed);
        }
        self.store.append(batch, NOW)?;
        Ok(())
    }
}

/// What went wrong, in the words of whoever noticed.
#[derive(Debug)]
struct Failure(String);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self(error.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
