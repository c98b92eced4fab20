//! What the machine can do without a broker: the least that a broker must do for each message, done by nothing else; and for how
//! long it leaves a thread waiting.
//!
//! Each is done for a while by one thread as fast as it can; the socket has a second thread at its other end, as a sender is.

pub(crate) mod report;
mod scratch;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use crate::error::BenchError;
use crate::load::latency::Latency;
use crate::load::progress::ProgressSink;
use crate::machine::Machine;
use crate::machine::clock::{Clock, SECOND_NS, ns_to_seconds, seconds_to_ns, thread_cpu_ns, watch_pauses};
use report::{LimitOptions, LimitReport, Measure};
use scratch::{FILE_SIZE, Scratch, in_directory};

const KIB: usize = 1024;
/// What is read from the socket at once, and written to the file.
const SOCKET_BLOCK: usize = 64 * KIB;
/// The best of such slices of a run is what the machine can do; the mean has in it what others and the host took.
const SLICE_NS: u64 = SECOND_NS / 10;
/// What the sender gives to the socket at once.
const SENDER_BLOCK: usize = 256 * KIB;

/// What is measured, in order.
const COPY: &str = "socket to file, 64 KiB";
const WRITES: [(&str, usize); 2] = [("write 64 KiB", 64 * KIB), ("write 256 KiB", 256 * KIB)];
const SYNCS: [(&str, usize); 2] = [("write 4 KiB + fdatasync", 4 * KIB), ("write 64 KiB + fdatasync", 64 * KIB)];
const PAUSES: &str = "late to wake, all busy";
/// How many that are.
const MEASURES: usize = 1 + WRITES.len() + SYNCS.len() + 1;

/// Measures the machine: a socket copied to a file, plain writes, writes with a sync each. `sink` is told what is being measured.
pub fn limit(options: LimitOptions, sink: &dyn ProgressSink) -> Result<LimitReport, BenchError> {
    options.check()?;
    limit_with(options, FILE_SIZE, sink)
}

fn limit_with(options: LimitOptions, file_size: u64, sink: &dyn ProgressSink) -> Result<LimitReport, BenchError> {
    let machine = Machine::describe();
    let directory = &options.data.clone();
    let failed = in_directory(directory);
    let begun = Cell::new(0);
    let begin = |name| {
        begun.set(begun.get() + 1);
        sink.part(&format!("{name}: {} s", options.seconds), begun.get(), MEASURES);
    };
    let run = |name, block, one: &mut dyn FnMut(&File, u64) -> io::Result<usize>| {
        begin(name);
        touch_memory(directory, file_size)?;
        let mut scratch = Scratch::new(directory, file_size)?;
        measure(name, block, seconds_to_ns(options.seconds), &mut scratch, one)
    };
    let write = |name, block| {
        let bytes = vec![0x5a_u8; block];
        run(name, block, &mut |file, position| file.write_all_at(&bytes, position).map(|()| block))
    };
    let sync = |name, block| {
        let bytes = vec![0x5a_u8; block];
        run(name, block, &mut |file, position| {
            file.write_all_at(&bytes, position)?;
            file.sync_data().map(|()| block)
        })
    };
    let copy = || {
        let mut source = Source::open()?;
        let mut buffer = vec![0; SOCKET_BLOCK];
        run(COPY, SOCKET_BLOCK, &mut |file, position| {
            let count = source.socket.read(&mut buffer)?;
            file.write_all_at(buffer.get(..count).unwrap_or_default(), position).map(|()| count)
        })
    };
    let mut measures = vec![copy().map_err(&failed)?];
    for (name, block) in WRITES {
        measures.push(write(name, block).map_err(&failed)?);
    }
    for (name, block) in SYNCS {
        measures.push(sync(name, block).map_err(&failed)?);
    }
    begin(PAUSES);
    measures.push(pauses(options.seconds));
    Ok(LimitReport::new(options, machine, measures))
}

/// How late a thread is woken that wants nothing else, while every processor is at work.
fn pauses(seconds: f64) -> Measure {
    let (latency, wall_ns) = while_busy(seconds_to_ns(seconds));
    let sleeps = latency.summary().map_or(0, |summary| summary.count);
    Measure::new(PAUSES, 0, (sleeps, 0), (wall_ns, 0), 0.0, &latency)
}

/// How late a thread is woken for so long, with every processor at work; and how long it was.
fn while_busy(seconds_ns: u64) -> (Latency, u64) {
    let (clock, mut latency) = (Clock::start(), Latency::default());
    let is_over = || clock.now_ns() >= seconds_ns;
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| while !is_over() {});
        }
        watch_pauses(clock, is_over, |_, late_ns| latency.record(late_ns, 1));
    });
    (latency, clock.now_ns())
}

/// Fills a file and drops it. A virtual machine's host gives memory when it is first touched: what comes next finds memory
/// that was.
fn touch_memory(directory: &Path, file_size: u64) -> io::Result<()> {
    let mut scratch = Scratch::new(directory, file_size)?;
    let (clock, block) = (Clock::start(), vec![0x5a_u8; SENDER_BLOCK]);
    for _ in 0..file_size / SENDER_BLOCK as u64 {
        let (file, position) = scratch.room(SENDER_BLOCK as u64, &clock)?;
        file.write_all_at(&block, position)?;
        scratch.advance(SENDER_BLOCK as u64);
    }
    Ok(())
}

/// Does `one` again and again; it is told where to write `block` bytes at most, and gives how many it wrote.
fn measure(
    name: &'static str,
    block: usize,
    time_ns: u64,
    scratch: &mut Scratch,
    one: &mut dyn FnMut(&File, u64) -> io::Result<usize>,
) -> io::Result<Measure> {
    let clock = Clock::start();
    let (mut operations, mut bytes, mut latency) = (0, 0, Latency::default());
    let cpu_before_ns = thread_cpu_ns();
    let (mut now_ns, mut best, mut slice) = (clock.now_ns(), 0.0_f64, (0, 0));
    while now_ns.saturating_sub(scratch.paused_ns()) < time_ns {
        let (file, position) = scratch.room(block as u64, &clock)?;
        let began_ns = clock.now_ns();
        let count = one(file, position)? as u64;
        now_ns = clock.now_ns();
        latency.record(now_ns - began_ns, 1);
        scratch.advance(count);
        bytes += count;
        operations += 1;
        let active_ns = now_ns.saturating_sub(scratch.paused_ns());
        let (slice_began_ns, slice_bytes) = slice;
        if active_ns - slice_began_ns >= SLICE_NS {
            best = best.max((bytes - slice_bytes) as f64 / ns_to_seconds(active_ns - slice_began_ns));
            slice = (active_ns, bytes);
        }
    }
    let wall_ns = now_ns.saturating_sub(scratch.paused_ns());
    let cpu_ns = (thread_cpu_ns() - cpu_before_ns).saturating_sub(scratch.paused_cpu_ns());
    Ok(Measure::new(name, block, (operations, bytes), (wall_ns, cpu_ns), best, &latency))
}

/// A socket over loopback whose other end, a thread of its own, always has more to send.
struct Source {
    socket: TcpStream,
    sender: Option<thread::JoinHandle<()>>,
}

impl Source {
    fn open() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let mut peer = TcpStream::connect(listener.local_addr()?)?;
        let (socket, _) = listener.accept()?;
        let sender = thread::Builder::new().name("limit-sender".to_owned()).spawn(move || {
            let block = vec![0x5a_u8; SENDER_BLOCK];
            // The reader closes its end when it has enough.
            while peer.write_all(&block).is_ok() {}
        })?;
        Ok(Self { socket, sender: Some(sender) })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        // What the sender has under way would wait for room for ever: read until it is gone.
        let mut rest = vec![0; SOCKET_BLOCK];
        while self.socket.read(&mut rest).is_ok_and(|count| count > 0) {}
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::load::progress::{Quiet, Second};
    use crate::load::report::Report as _;

    /// Notes what is being measured.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl ProgressSink for Told {
        fn part(&self, what: &str, number: usize, all: usize) {
            self.0.lock().expect("not poisoned").push(format!("{number} of {all}: {what}"));
        }
        fn begin(&self, _: &str, _: Option<f64>, _: Option<u64>) {}
        fn second(&self, _: &Second, _: u64) {}
        fn end(&self) {}
    }

    #[test]
    fn every_limit_is_measured_and_shown() {
        let options = LimitOptions { data: std::env::temp_dir(), seconds: 0.02 };
        let told = Told::default();
        let report = limit_with(options, 4 << 20, &told).expect("measures");
        assert_eq!(report.measures.len(), MEASURES);
        let line = |(number, measure): (usize, &Measure)| format!("{number} of {MEASURES}: {}: 0.02 s", measure.name);
        let lines: Vec<_> = (1..).zip(&report.measures).map(line).collect();
        assert_eq!(*told.0.lock().expect("not poisoned"), lines, "each is told before it is measured");
        let table = report.table();
        for measure in &report.measures {
            assert!(measure.operations > 0 && measure.seconds >= 0.02, "{measure:?}");
            assert_eq!(measure.bytes > 0, measure.block_bytes > 0, "{measure:?}");
            assert!(measure.bytes <= measure.operations * measure.block_bytes as u64, "{measure:?}");
            assert!(table.contains(measure.name), "{table}");
        }
        assert!(report.json().contains("\"kind\": \"limit\""));
    }

    #[test]
    fn what_sleeps_beside_busy_processors_is_counted() {
        let (latency, took_ns) = while_busy(SECOND_NS / 20);
        let summary = latency.summary().expect("sleeps");
        assert!(summary.count >= 1 && took_ns >= SECOND_NS / 20, "{summary:?}");
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let data = std::env::temp_dir().join("no-such-directory-of-sluice");
        let error = limit(LimitOptions { data, seconds: 0.01 }, &Quiet).expect_err("no directory").to_string();
        assert!(error.contains("no-such-directory-of-sluice") && error.contains("--data"), "{error}");
        let wrong = limit(LimitOptions { data: std::env::temp_dir(), seconds: 0.0 }, &Quiet);
        assert!(matches!(wrong, Err(BenchError::WrongOption { name: "seconds", .. })));
    }
}
