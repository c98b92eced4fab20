//! Promises to replicas that follow RocketMQ's way, and to those who wait for them.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod asking;
mod following;
mod reaching;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

use base::session::Session;
use base::{LogOffset, Monotonic, Now, Timestamp};
use bytes::{Bytes, BytesMut};
use cluster::replication::{Followers, InReach, LeaderLog, LeaderSession, Times};
use parking_lot::Mutex;
use wire::rocketmq::replication::{PIECE_HEADER_SIZE, PieceHeader, report};

const START: Now = Now { wall: Timestamp(1_700_000_000_000), monotonic: Monotonic(1000) };
const TIMES: Times = Times { heartbeat_ms: 5000, silence_ms: 20_000 };
const SEGMENT_SIZE: u64 = 4096;

/// A log whose byte at each position follows from the position; what lies below `recent_from` is on the disk only.
struct FakeLog {
    first: u64,
    end: AtomicU64,
    recent_from: AtomicU64,
    waiting: Mutex<Vec<(u64, Waker)>>,
    told: Mutex<Vec<InReach>>,
    is_broken: AtomicBool,
    joined: Mutex<Vec<(&'static str, u64)>>,
}

fn bytes_at(start: u64, size: usize) -> Vec<u8> {
    (start..start + size as u64).map(|offset| (offset / 7 % 251) as u8).collect()
}

impl FakeLog {
    fn with(first: u64, end: u64, recent_from: u64) -> Arc<Self> {
        Arc::new(Self {
            first,
            end: AtomicU64::new(end),
            recent_from: AtomicU64::new(recent_from),
            waiting: Mutex::default(),
            told: Mutex::default(),
            is_broken: AtomicBool::new(false),
            joined: Mutex::default(),
        })
    }

    fn grow(&self, to: u64) {
        self.end.store(to, Ordering::SeqCst);
        let (woken, waiting) = std::mem::take(&mut *self.waiting.lock()).into_iter().partition(|(at, _)| *at < to);
        *self.waiting.lock() = waiting;
        let woken: Vec<(u64, Waker)> = woken;
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn size(&self, start: LogOffset, size: usize) -> usize {
        let in_segment = SEGMENT_SIZE - start.0 % SEGMENT_SIZE;
        size.min(in_segment as usize).min((self.end().0 - start.0) as usize)
    }
}

impl LeaderLog for FakeLog {
    fn first(&self) -> LogOffset {
        LogOffset(self.first)
    }

    fn end(&self) -> LogOffset {
        LogOffset(self.end.load(Ordering::SeqCst))
    }

    fn recent(&self, start: LogOffset, size: usize) -> Vec<Bytes> {
        if start.0 < self.recent_from.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let whole = Bytes::from(bytes_at(start.0, self.size(start, size)));
        let middle = whole.len() / 2;
        [whole.slice(..middle), whole.slice(middle..)].into_iter().filter(|part| !part.is_empty()).collect()
    }

    fn read(&self, start: LogOffset, size: usize) -> Result<Bytes, String> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err("the sector cannot be read".to_owned());
        }
        Ok(bytes_at(start.0, self.size(start, size)).into())
    }

    fn when_written_beyond(&self, end: LogOffset, waker: &Waker) {
        self.waiting.lock().push((end.0, waker.clone()));
        if self.end() > end {
            self.grow(self.end().0);
        }
    }

    fn note_replicated(&self, reached: InReach) {
        self.told.lock().push(reached);
    }

    fn note_joined(&self, _address: SocketAddr, end: LogOffset) {
        self.joined.lock().push(("came", end.0));
    }

    fn note_left(&self, _address: SocketAddr, end: LogOffset) {
        self.joined.lock().push(("went", end.0));
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A replica's connection, and what it has got.
struct Replica {
    session: LeaderSession,
    woken: Arc<Woken>,
    now: Now,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Replica {
    fn of(log: &Arc<FakeLog>, followers: &Arc<Followers>) -> Self {
        Self::at("10.0.0.2:5000", log, followers)
    }

    fn at(address: &str, log: &Arc<FakeLog>, followers: &Arc<Followers>) -> Self {
        let woken = Arc::<Woken>::default();
        let address = address.parse().expect("address");
        let waker = Waker::from(woken.clone());
        let session = LeaderSession::new(log.clone(), followers.clone(), address, TIMES, waker, START.monotonic);
        Self { session, woken, now: START, pieces: Vec::new() }
    }

    fn alone(log: &Arc<FakeLog>) -> Self {
        Self::of(log, &Arc::new(Followers::new(1, log.end())))
    }

    fn say(&mut self, end: u64) -> Result<(), String> {
        let said = self.session.receive(&mut BytesMut::from(&report(LogOffset(end))[..]), self.now);
        said.map_err(|reason| reason.0)
    }

    /// What its driver does until nothing moves, with jobs done at once.
    fn hear(&mut self) {
        loop {
            let job = self.session.take_job();
            let has_job = job.is_some();
            job.into_iter().for_each(|job| job());
            let is_woken = self.woken.0.swap(false, Ordering::SeqCst);
            if is_woken {
                self.session.wake(self.now);
            }
            let mut bytes = &self.session.output().take_all()[..];
            let has_said = !bytes.is_empty();
            while let Some(header) = PieceHeader::decode(bytes).expect("a header") {
                let (piece, rest) = bytes[PIECE_HEADER_SIZE..].split_at(header.size);
                self.pieces.push((header.start.0, piece.to_vec()));
                bytes = rest;
            }
            assert!(bytes.is_empty(), "whole pieces only");
            if !has_job && !is_woken && !has_said {
                return;
            }
        }
    }

    /// Where what it has got begins and ends; checks that it is the log.
    fn got(&self) -> Option<(u64, u64)> {
        let (mut next, first) = (self.pieces.first()?.0, self.pieces.first()?.0);
        for (start, piece) in &self.pieces {
            assert_eq!((*start, piece), (next, &bytes_at(next, piece.len())));
            let (from, to) = (start / SEGMENT_SIZE, (start + piece.len() as u64).saturating_sub(1) / SEGMENT_SIZE);
            assert!(piece.is_empty() || from == to, "a Java replica takes no piece beyond a segment's end");
            next += piece.len() as u64;
        }
        Some((first, next))
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now = self.now.plus_ms(milliseconds);
        if self.session.deadline().is_some_and(|deadline| deadline <= self.now.monotonic) {
            self.session.wake(self.now);
        }
        self.hear();
    }
}

#[test]
fn a_replica_gets_the_log_from_where_its_own_ends_from_disk_and_memory() {
    let log = FakeLog::with(0, 50_000, 30_000);
    let mut replica = Replica::alone(&log);
    replica.hear();
    assert_eq!(replica.got(), None, "nothing before its first word");
    replica.say(10_000).expect("taken");
    replica.hear();
    assert_eq!(replica.got(), Some((10_000, 50_000)));
    log.grow(50_100);
    assert!(replica.woken.0.load(Ordering::SeqCst), "it hears of what is written");
    replica.hear();
    assert_eq!(replica.got(), Some((10_000, 50_100)));
}

#[test]
fn one_without_a_log_gets_all_of_it() {
    let log = FakeLog::with(8192, 20_000, 0);
    let mut replica = Replica::alone(&log);
    replica.say(0).expect("taken");
    replica.hear();
    assert_eq!(replica.got(), Some((8192, 20_000)));
}

#[test]
fn only_so_much_is_made_ahead_of_what_is_taken() {
    let log = FakeLog::with(0, 64 << 20, 0);
    let mut replica = Replica::alone(&log);
    replica.say(0).expect("taken");
    assert!(replica.session.output().size() <= 2 << 20, "{}", replica.session.held_size());
    let before = replica.session.held_size();
    replica.session.output().advance(500_000);
    assert!(replica.session.output().size() > before - 500_000, "what was taken makes room for more");
}

#[test]
fn half_a_report_is_waited_for_and_garbage_ends_the_connection() {
    let log = FakeLog::with(0, 100, 0);
    let mut replica = Replica::alone(&log);
    let mut input = BytesMut::from(&report(LogOffset(40))[..5]);
    replica.session.receive(&mut input, START).expect("half of it");
    assert_eq!(input.len(), 5);
    replica.hear();
    assert_eq!(replica.got(), None);
    input.extend_from_slice(&report(LogOffset(40))[5..]);
    replica.session.receive(&mut input, START).expect("the rest");
    replica.hear();
    assert_eq!(replica.got(), Some((40, 100)));
    let refused = replica.session.receive(&mut BytesMut::from(&[0xff_u8; 8][..]), START).expect_err("no report");
    assert!(refused.0.contains("for replicas only"), "{}", refused.0);
    assert_eq!(replica.session.close_reason(), Some(refused));
}

#[test]
fn who_is_ahead_of_the_log_or_behind_its_begin_is_refused_and_told_what_to_do() {
    for (end, says) in [(20_001, "never had, or has lost"), (8191, "begins at 8192 by now")] {
        let log = FakeLog::with(8192, 20_000, 0);
        let mut replica = Replica::alone(&log);
        let refused = replica.say(end).expect_err("refused");
        assert!(refused.contains(says) && refused.contains("empty its data directory"), "{refused}");
        replica.hear();
        replica.session.closed(replica.now);
        assert_eq!((replica.got(), log.told.lock().len(), log.joined.lock().len()), (None, 0, 0));
    }
}

#[test]
fn what_is_said_to_be_replicated_was_reported_and_ends_with_the_connection() {
    let log = FakeLog::with(0, 1000, 0);
    let mut replica = Replica::alone(&log);
    replica.say(0).expect("taken");
    replica.hear();
    assert_eq!(*log.told.lock(), [InReach::Until(LogOffset(0))], "sent is not there yet");
    replica.say(600).expect("taken");
    replica.say(1000).expect("taken");
    replica.session.closed(replica.now);
    let until = |end| InReach::Until(LogOffset(end));
    assert_eq!(*log.told.lock(), [until(0), until(600), until(1000), InReach::TooFew]);
    assert_eq!(*log.joined.lock(), [("came", 0), ("went", 1000)]);
}

#[test]
fn a_replica_hears_from_the_master_now_and_then_and_is_given_up_when_it_says_nothing() {
    let log = FakeLog::with(0, 1000, 0);
    let mut replica = Replica::alone(&log);
    replica.say(1000).expect("taken");
    replica.wait(5000);
    assert_eq!(replica.pieces, [(1000, Vec::new())], "an empty piece says that the master is there");
    replica.wait(5000);
    assert_eq!(replica.pieces.len(), 2);
    replica.say(1000).expect("taken");
    replica.wait(15_000);
    assert_eq!(replica.session.close_reason(), None);
    replica.wait(5000);
    let reason = replica.session.close_reason().expect("it is given up");
    assert!(reason.0.contains("said nothing for 20 s"), "{}", reason.0);
}

#[test]
fn a_log_that_cannot_be_read_ends_the_connection_and_says_why() {
    let log = FakeLog::with(0, 1000, 1000);
    log.is_broken.store(true, Ordering::SeqCst);
    let mut replica = Replica::alone(&log);
    replica.say(0).expect("taken");
    replica.hear();
    assert!(replica.session.close_reason().is_some_and(|reason| reason.0.contains("cannot be read")));
}

#[test]
fn with_two_wanted_the_slower_one_counts() {
    let log = FakeLog::with(0, 1000, 0);
    let followers = Arc::new(Followers::new(2, log.end()));
    let [mut fast, mut slow] = ["10.0.0.2:1", "10.0.0.3:1"].map(|address| Replica::at(address, &log, &followers));
    fast.say(1000).expect("taken");
    slow.say(300).expect("taken");
    assert_eq!(log.told.lock().last(), Some(&InReach::Until(LogOffset(300))));
    slow.session.closed(slow.now);
    assert_eq!(log.told.lock().last(), Some(&InReach::TooFew));
    assert_eq!(followers.all().iter().map(|one| one.end).collect::<Vec<_>>(), [LogOffset(1000)]);
}
