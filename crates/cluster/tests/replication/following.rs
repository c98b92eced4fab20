//! A slave's end of the connection over which it gets its master's log.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use base::session::Session;
use base::{LogOffset, Now, QueueId, Timestamp};
use bytes::{Bytes, BytesMut};
use cluster::replication::{FollowerLog, FollowerSession};
use format::record::Draft;
use parking_lot::Mutex;
use wire::rocketmq::replication::PieceHeader;

use crate::{START, TIMES, Woken};

/// A slave's log in memory.
#[derive(Default)]
struct CopiedLog {
    start: Mutex<u64>,
    bytes: Mutex<Vec<u8>>,
    appends: Mutex<Vec<usize>>,
    problem: Mutex<Option<String>>,
    sent: Mutex<u64>,
    /// It need not wait to be appended to.
    is_quick: AtomicBool,
}

impl FollowerLog for CopiedLog {
    fn kept(&self) -> LogOffset {
        LogOffset(*self.start.lock() + self.bytes.lock().len() as u64)
    }

    fn tail(&self, size: usize) -> Result<(LogOffset, Bytes), String> {
        let bytes = self.bytes.lock();
        let size = size.min(bytes.len());
        let tail = Bytes::copy_from_slice(&bytes[bytes.len() - size..]);
        Ok((LogOffset(*self.start.lock() + (bytes.len() - size) as u64), tail))
    }

    fn lend_buffer(&self, size: usize) -> BytesMut {
        BytesMut::with_capacity(size)
    }

    fn take_buffer_back(&self, rest: BytesMut, _used: usize) {
        assert!(rest.is_empty(), "nothing is lost");
    }

    fn append(&self, start: LogOffset, pieces: &[Bytes]) -> Result<LogOffset, String> {
        if let Some(problem) = self.problem.lock().clone() {
            return Err(problem);
        }
        if self.bytes.lock().is_empty() {
            *self.start.lock() = start.0;
        }
        assert_eq!(start, self.kept());
        let bytes = pieces.concat();
        self.bytes.lock().extend_from_slice(&bytes);
        self.appends.lock().push(bytes.len());
        Ok(self.kept())
    }

    fn try_append(&self, start: LogOffset, pieces: &[Bytes]) -> Option<Result<LogOffset, String>> {
        self.is_quick.load(Ordering::SeqCst).then(|| self.append(start, pieces))
    }

    fn note_sent(&self, sent: LogOffset, _now: Now) {
        *self.sent.lock() = sent.0;
    }
}

/// A slave that is connected to a master of the test's.
struct Slave {
    log: Arc<CopiedLog>,
    session: FollowerSession,
    woken: Arc<Woken>,
    input: BytesMut,
    now: Now,
}

impl Slave {
    fn connect(log: &Arc<CopiedLog>, masters: Range<u64>) -> Self {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let session = FollowerSession::new(
            log.clone(),
            LogOffset(masters.start)..LogOffset(masters.end),
            TIMES,
            waker,
            START.monotonic,
        );
        let mut slave = Self { log: log.clone(), session, woken, input: BytesMut::new(), now: START };
        slave.wait(0);
        slave.settle();
        slave
    }

    /// Bytes come; jobs wait.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.input.extend_from_slice(bytes);
        self.session.receive(&mut self.input, self.now).map_err(|reason| reason.0)
    }

    /// Does jobs and takes in what stayed in front of the session, until nothing moves.
    fn settle(&mut self) {
        while let Some(job) = self.session.take_job() {
            job();
            assert!(self.woken.0.swap(false, Ordering::SeqCst), "a job wakes its session");
            self.session.wake(self.now);
            drop(self.session.receive(&mut self.input, self.now));
        }
    }

    /// What it has said since it was asked last.
    fn said(&mut self) -> Vec<u64> {
        let bytes = self.session.output().take_all();
        bytes.chunks(8).map(|report| u64::from_be_bytes(report.try_into().expect("whole reports"))).collect()
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus_ms(milliseconds);
        self.session.wake(self.now);
    }

    fn problem(&self) -> Option<String> {
        self.session.close_reason().map(|reason| reason.0)
    }
}

fn record(body: &[u8]) -> Vec<u8> {
    let host = ([127, 0, 0, 1], 10911).into();
    let draft = Draft {
        topic: "orders",
        queue: QueueId(0),
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(1),
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: &[],
    };
    let mut bytes = BytesMut::new();
    draft.encode(&mut bytes);
    bytes.to_vec()
}

fn piece(start: u64, bytes: &[u8]) -> Vec<u8> {
    [&PieceHeader { start: LogOffset(start), size: bytes.len() }.encode()[..], bytes].concat()
}

#[test]
fn it_says_where_its_log_ends_and_again_after_each_append() {
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    assert_eq!(slave.said(), [0]);
    let (one, two) = (record(b"one"), record(b"two"));
    slave.take(&piece(4096, &one)).expect("a piece");
    assert_eq!(slave.said(), [0; 0], "nothing is kept yet");
    slave.take(&piece(4096 + one.len() as u64, &two)).expect("while the first is written");
    slave.settle();
    let end = 4096 + (one.len() + two.len()) as u64;
    assert_eq!(slave.said(), [4096 + one.len() as u64, end]);
    assert_eq!((*log.bytes.lock()).clone(), [one, two].concat());
    assert_eq!(*log.sent.lock(), end);
    assert_eq!(
        Slave::connect(&log, 77..9999).said(),
        [4096],
        "what it has is compared, wherever a new one would begin"
    );
}

#[test]
fn a_log_that_need_not_wait_is_appended_to_at_once() {
    let log = Arc::new(CopiedLog { is_quick: AtomicBool::new(true), ..CopiedLog::default() });
    let mut slave = Slave::connect(&log, 0..0);
    let one = record(b"one");
    slave.take(&piece(0, &one)).expect("a piece");
    assert_eq!(slave.said(), [0, one.len() as u64]);
    *log.problem.lock() = Some("no room".to_owned());
    slave.take(&piece(one.len() as u64, &one)).expect("it is told by the session's end");
    assert_eq!((slave.said(), slave.problem()), (vec![], Some("no room".to_owned())));
}

#[test]
fn what_the_master_has_in_front_of_the_logs_end_is_the_same_or_it_is_left() {
    let records = [record(&[1; 3000]), record(&[2; 3000])].concat();
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    slave.take(&piece(0, &records)).expect("a piece");
    slave.settle();
    let (end, three) = (records.len() as u64, record(b"three"));
    let from = end - 4096;
    let small = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&small, 0..0);
    slave.take(&piece(0, &three)).expect("a piece");
    slave.settle();
    let mut again = Slave::connect(&small, 0..0);
    assert_eq!(again.said(), [1], "one that says 0 has nothing");
    again.take(&piece(1, &[&three[1..], &three].concat())).expect("the same and more");
    again.settle();
    assert_eq!(again.said(), [2 * three.len() as u64]);
    for piece_size in [100, 5000] {
        let mut again = Slave::connect(&log, 0..0);
        assert_eq!(again.said(), [from]);
        for (number, part) in records[from as usize..].chunks(piece_size).enumerate() {
            again.take(&piece(from + (number * piece_size) as u64, part)).expect("the same");
        }
        again.settle();
        assert_eq!(again.said(), [0; 0], "it has that");
        let mut other = Slave::connect(&log, 0..0);
        let mut bytes = records[from as usize..].to_vec();
        bytes[4000] ^= 1;
        let problem = other.take(&piece(from, &bytes)).expect_err("another log");
        assert!(problem.contains("Empty this broker's data directory"), "{problem}");
    }
    let mut again = Slave::connect(&log, 0..0);
    again.take(&piece(from, &[&records[from as usize..], &three].concat())).expect("the same and more");
    again.settle();
    assert_eq!(again.said(), [from, end + three.len() as u64]);
}

#[test]
fn a_slave_asks_for_nothing_that_its_master_has_removed() {
    let records = [record(&[1; 3000]), record(&[2; 3000])].concat();
    let (end, three) = (records.len() as u64, record(b"three"));
    for begin in [0, end - 5000, end - 100, end] {
        let log = Arc::<CopiedLog>::default();
        let mut slave = Slave::connect(&log, 0..0);
        slave.take(&piece(0, &records)).expect("a piece");
        slave.settle();
        let from = begin.max(end - 4096);
        let mut again = Slave::connect(&log, begin..end + 9999);
        assert_eq!(again.said(), [from], "the master begins at {begin}");
        again.take(&piece(from, &[&records[from as usize..], &three].concat())).expect("the same and more");
        again.settle();
        assert_eq!((again.said(), again.problem()), (vec![end + three.len() as u64], None));
    }
}

#[test]
fn a_log_that_has_nothing_asks_for_the_masters_from_its_begin() {
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 8192..9999);
    assert_eq!(slave.said(), [8192]);
    slave.wait(5000);
    assert_eq!(slave.said(), [8192]);
}

#[test]
fn a_log_that_has_nothing_gets_all_of_a_log_that_begins_at_0_though_a_java_master_gives_its_last_file_to_who_says_0() {
    let log = Arc::<CopiedLog>::default();
    let records = [record(b"one"), record(b"two")].concat();
    let mut slave = Slave::connect(&log, 0..9999);
    assert_eq!(slave.said(), [1]);
    slave.take(&piece(1, &records[1..])).expect("all but the first byte");
    slave.settle();
    assert_eq!((slave.said(), (*log.bytes.lock()).clone()), (vec![records.len() as u64], records));
}

#[test]
fn records_are_appended_whole_however_they_are_cut_into_pieces_and_reads() {
    let records: Vec<_> = (0..20).map(|number| record(&vec![7; number * 13])).collect();
    let log = records.concat();
    for piece_size in [1, 17, 100, log.len()] {
        let pieces = log.chunks(piece_size).enumerate();
        let bytes: Vec<u8> = pieces.flat_map(|(number, bytes)| piece((number * piece_size) as u64, bytes)).collect();
        for read_size in [1, 11, 64, bytes.len()] {
            let copied = Arc::<CopiedLog>::default();
            let mut slave = Slave::connect(&copied, 0..0);
            for read in bytes.chunks(read_size) {
                slave.take(read).expect("pieces");
                slave.settle();
            }
            assert_eq!(*copied.bytes.lock(), log);
            let ends: Vec<usize> = records
                .iter()
                .scan(0, |end, record| {
                    *end += record.len();
                    Some(*end)
                })
                .collect();
            let appended = copied
                .appends
                .lock()
                .iter()
                .scan(0, |end, size| {
                    *end += size;
                    Some(*end)
                })
                .collect::<Vec<_>>();
            assert!(appended.iter().all(|end| ends.contains(end)), "{appended:?} of {ends:?}");
        }
    }
}

#[test]
fn what_waits_for_the_log_is_bounded_and_a_large_record_is_read_to_its_end() {
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    let mebibyte = record(&vec![1; 1 << 20]);
    let mut start = 0;
    for _ in 0..20 {
        slave.take(&piece(start, &mebibyte)).expect("a piece");
        start += mebibyte.len() as u64;
    }
    assert!(!slave.session.wants_input());
    assert!(slave.session.held_size() <= 6 << 20, "{}", slave.session.held_size());
    slave.settle();
    assert_eq!((slave.log.kept().0, slave.session.wants_input()), (start, true));
    let large = record(&vec![1; 30 << 20]);
    for part in large.chunks(3 << 20) {
        slave.take(&piece(start, part)).expect("a part");
        start += part.len() as u64;
    }
    slave.settle();
    assert_eq!(slave.log.kept().0, start);
}

#[test]
fn a_master_that_sends_another_part_or_what_is_no_record_is_left() {
    let one = record(b"one");
    let end = one.len() as u64;
    let bad: [(Vec<u8>, &str); 5] = [
        (piece(end + 1, &one), "the logs are not the same"),
        (piece(0, &one), "the logs are not the same"),
        (piece(end, &[0; 100]), "zeroes where a record was to begin"),
        (piece(end, b"HTTP/1.1 200 OK"), "of the master's log: "),
        ([0xff; 12].to_vec(), "no master of RocketMQ sends that"),
    ];
    for (bytes, expected) in bad {
        let log = Arc::<CopiedLog>::default();
        let mut slave = Slave::connect(&log, 0..0);
        slave.take(&piece(0, &one)).expect("a piece");
        slave.settle();
        let problem = slave.take(&bytes).expect_err("refused");
        assert!(problem.contains(expected), "{problem}");
        assert_eq!(*log.bytes.lock(), one);
    }
}

#[test]
fn an_append_that_fails_ends_the_connection_and_is_not_reported() {
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    assert_eq!(slave.said(), [0]);
    *log.problem.lock() = Some("no space left on device".to_owned());
    slave.take(&piece(0, &record(b"one"))).expect("a piece");
    slave.settle();
    assert_eq!(slave.said(), [0; 0]);
    assert_eq!(slave.problem().as_deref(), Some("no space left on device"));
    assert!(!slave.session.wants_input());
}

#[test]
fn it_reports_every_5_s_and_leaves_a_master_that_says_nothing_for_20_s() {
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    assert_eq!(slave.said(), [0]);
    for _ in 0..10 {
        slave.wait(5000);
        slave.take(&piece(0, &[])).expect("a heartbeat");
        assert_eq!((slave.said(), slave.problem()), (vec![0], None));
    }
    slave.wait(19_999);
    assert_eq!(slave.problem(), None);
    slave.wait(1);
    assert_eq!(slave.problem().as_deref(), Some("the master said nothing for 20 s"));
}

#[test]
fn a_log_that_was_not_compared_yet_is_not_reported_to_its_end() {
    let records = [record(&[1; 3000]), record(&[2; 3000])].concat();
    let log = Arc::<CopiedLog>::default();
    let mut slave = Slave::connect(&log, 0..0);
    slave.take(&piece(0, &records)).expect("a piece");
    slave.settle();
    let (end, from) = (records.len() as u64, records.len() as u64 - 4096);
    // The master has other bytes there; it is slow to send them, since they are on its disk.
    let mut other = Slave::connect(&log, 0..end + 1000);
    assert_eq!(other.said(), [from]);
    other.wait(5_000);
    let said = other.said();
    let mut differing = records[from as usize..].to_vec();
    differing.fill(9);
    other.take(&piece(from, &differing)).expect_err("another log");
    assert_eq!(said, [from], "the master was told of bytes that are not its own");
}
