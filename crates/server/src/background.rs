//! The background threads of a broker: write and sync the log, index keys, deliver delayed messages, housekeeping.
//!
//! Each calls functions of the other crates in a loop; their state is the broker's. On an error that cannot be retried a thread of the
//! log ends: the log is poisoned then.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use broker::{Broker, Host, Intervals, Keeper, Schedule, Work, Worked};
use parking_lot::Mutex;
use storage::schedule::{SyncSchedule, SyncStep, WRITE_HERE_MAX, WriteSchedule};
use storage::{DiskState, RetentionOutcome, Store};

use crate::announcements::Announcements;
use crate::clock;
use crate::supervision::Supervisor;

/// Pause of `log-pages` when there is nothing to write back or prefault.
const PAGES_INTERVAL: Duration = Duration::from_millis(10);
/// Pause of `log-sync` when the records waited for are staged but not written yet.
const UNWRITTEN_PAUSE: Duration = Duration::from_micros(50);
/// How long keys are collected before they are indexed.
const INDEX_INTERVAL: Duration = Duration::from_millis(20);
/// Pause of `housekeeping`; an append must not have to wait for the next segment.
const SEGMENT_INTERVAL: Duration = Duration::from_millis(100);
/// Pause of `leases`.
const LEASES_INTERVAL: Duration = Duration::from_millis(50);
/// How long creating a topic waits for the name servers: less than the three seconds that clients wait for a reply.
const ANNOUNCED_LIMIT: Duration = Duration::from_secs(2);

/// Threads that replies wait for. All others run at a lower priority.
const URGENT: [&str; 3] = ["log-writer", "log-sync", "cold-reader"];

/// The `nice` value of the others.
const NICENESS: i32 = 10;

thread_local! {
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Lowers the priority of the calling thread. On Linux each thread has its own, and may always lower it.
fn give_way() {
    GIVES_WAY.set(true);
    let lowered = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    if let Err(error) = lowered {
        tracing::debug!(%error, "a background thread keeps its priority");
    }
}

/// What the broker's `Host` calls and its threads share.
#[derive(Debug, Default)]
pub(crate) struct BrokerHost {
    broker: OnceLock<Weak<Broker>>,
    writing: Mutex<WriteSchedule>,
    writer: OnceLock<Thread>,
    syncer: OnceLock<Thread>,
    /// Number of waiting producers from which on the syncer is woken.
    syncer_expects: AtomicUsize,
    pub(crate) announcements: Arc<Announcements>,
    stopping: AtomicBool,
}

impl Host for BrokerHost {
    fn log_changed(&self) {
        if !self.is_written_here() {
            unpark(&self.writer);
        }
    }

    fn sync_wanted(&self, waiting: usize) {
        if waiting >= self.syncer_expects.load(Ordering::Acquire) {
            unpark(&self.syncer);
        }
    }

    fn registration_changed(&self) {
        self.announcements.note_change();
    }

    fn route_wanted(&self) {
        self.announcements.wake_sessions();
    }

    fn wait_until_announced(&self) {
        self.announcements.wait(ANNOUNCED_LIMIT);
    }
}

/// Wakes a thread that waits for work.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

fn unpark(thread: &OnceLock<Thread>) {
    if let Some(thread) = thread.get() {
        thread.unpark();
    }
}

/// The running threads of a broker.
pub(crate) struct Background {
    host: Arc<BrokerHost>,
    supervisor: Supervisor,
    /// Each returns whether it ended without a panic.
    threads: Vec<JoinHandle<bool>>,
}

impl Background {
    /// Starts all threads, with the current tracing span.
    pub(crate) fn start(
        broker: &Arc<Broker>,
        host: &Arc<BrokerHost>,
        flush_interval: Duration,
        intervals: Intervals,
        supervisor: &Supervisor,
    ) -> io::Result<Self> {
        let mut background = Self { host: host.clone(), supervisor: supervisor.clone(), threads: Vec::new() };
        let _ = host.broker.set(Arc::downgrade(broker));
        let writer = background.spawn("log-writer", broker, write_log)?;
        let _ = host.writer.set(writer);
        let syncer =
            background.spawn("log-sync", broker, move |broker, host| sync_log(broker, host, flush_interval))?;
        let _ = host.syncer.set(syncer);
        background.spawn("log-pages", broker, keep_pages)?;
        let reader = background.spawn("cold-reader", broker, read_ahead)?;
        broker.store().set_reader(Waker::from(Arc::new(Unpark(reader))));
        background.spawn("key-index", broker, index_keys)?;
        background.spawn("delay", broker, deliver_delayed)?;
        background.spawn("leases", broker, end_leases)?;
        background.spawn("housekeeping", broker, move |broker, host| keep_house(broker, host, intervals))?;
        Ok(background)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        broker: &Arc<Broker>,
        work: impl FnOnce(&Broker, &BrokerHost) + Send + 'static,
    ) -> io::Result<Thread> {
        let (broker, host, supervisor) = (broker.clone(), self.host.clone(), self.supervisor.clone());
        let gives_way = !URGENT.contains(&name);
        let span = tracing::Span::current();
        let handle = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _marked = span.entered();
            if gives_way {
                give_way();
            }
            supervisor.watch(name, || work(&broker, &host))
        })?;
        let thread = handle.thread().clone();
        self.threads.push(handle);
        Ok(thread)
    }

    /// Stops all threads and waits for them. Returns whether none panicked.
    pub(crate) fn stop(self) -> bool {
        self.host.stopping.store(true, Ordering::Release);
        let mut all_well = true;
        for handle in self.threads {
            handle.thread().unpark();
            all_well &= handle.join().unwrap_or(false);
        }
        all_well
    }
}

impl BrokerHost {
    /// Writes what is staged, if it is little and writes were not slow lately. Errors are left to the writer thread, which logs them.
    fn is_written_here(&self) -> bool {
        // A thread of low priority must not hold the write lock that network threads need.
        if GIVES_WAY.get() {
            return false;
        }
        let Some(broker) = self.broker.get().and_then(Weak::upgrade) else { return false };
        let began = clock::monotonic();
        if !self.writing.lock().writes_here(began) {
            return false;
        }
        let is_written = broker.store().write_if_little(WRITE_HERE_MAX).unwrap_or(false);
        if WriteSchedule::was_blocked(began, clock::monotonic()) {
            self.writing.lock().note_blocked(began);
        }
        is_written
    }

    /// Parks the syncer until `count` producers wait for a sync, at most for `limit`.
    fn wait_for_senders(&self, store: &Store, count: usize, limit: Duration) {
        let began = Instant::now();
        self.syncer_expects.store(count, Ordering::Release);
        while store.waiting_for_sync() < count && !self.is_stopping() {
            match limit.checked_sub(began.elapsed()) {
                Some(rest) if !rest.is_zero() => thread::park_timeout(rest),
                _ => break,
            }
        }
        self.syncer_expects.store(usize::MAX, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

fn write_log(broker: &Broker, host: &BrokerHost) {
    loop {
        match broker.store().write_staged() {
            Ok(true) => {}
            Ok(false) if host.is_stopping() => return,
            Ok(false) => thread::park(),
            Err(error) => {
                tracing::error!(%error, "the log cannot be written; no messages are accepted any more");
                return;
            }
        }
    }
}

/// Syncs when a producer waits for it, else once per `interval`. Producers that come during a sync share the next one.
fn sync_log(broker: &Broker, host: &BrokerHost, interval: Duration) {
    let store = broker.store();
    let started = Instant::now();
    let mut schedule = SyncSchedule::new(interval, Duration::ZERO);
    while !host.is_stopping() {
        if let SyncStep::Wait { count, at_most } = schedule.next(store.waiting_for_sync(), started.elapsed()) {
            host.wait_for_senders(store, count, at_most);
            continue;
        }
        let began = Instant::now();
        let waiting = store.waiting_for_sync();
        let durable = store.watermarks().durable();
        match store.sync() {
            Ok(reached) if reached == durable && waiting > 0 => {
                // The records waited for are staged, and the writer thread is about to write them.
                thread::park_timeout(UNWRITTEN_PAUSE);
            }
            Ok(_) => {
                let took = began.elapsed();
                if durable < store.watermarks().durable() {
                    broker.timings().sync.record(took, 1);
                }
                schedule.note(waiting, store.waiting_for_sync(), took);
            }
            Err(error) => {
                tracing::error!(%error, "the log cannot be synced; no messages are accepted any more");
                return;
            }
        }
    }
}

/// Starts write-back early, so that a sync finds little left and the kernel does not throttle writers. Prefaults pages ahead of the
/// writes, and evicts old pages where new ones are slow.
fn keep_pages(broker: &Broker, host: &BrokerHost) {
    let store = broker.store();
    while !host.is_stopping() {
        match store.start_write_back() {
            Ok(has_begun) => {
                let before = clock::thread_time();
                match store.prepare_pages() {
                    0 if !has_begun => thread::park_timeout(PAGES_INTERVAL),
                    0 => {}
                    size => store.note_page_cost(size, clock::thread_time().saturating_sub(before)),
                }
            }
            Err(error) => {
                // Only an optimisation: if the disk has failed, the sync reports it.
                tracing::warn!(%error, "early write-back failed and is not tried again");
                return;
            }
        }
    }
}

/// Reads old extents of the log before consumers come to them.
fn read_ahead(broker: &Broker, host: &BrokerHost) {
    let store = broker.store();
    while !host.is_stopping() {
        let before = clock::thread_time();
        match store.read_ahead() {
            0 => thread::park(),
            size => store.note_read_cost(size, clock::thread_time().saturating_sub(before)),
        }
    }
}

fn index_keys(broker: &Broker, host: &BrokerHost) {
    let mut problems = Problems::default();
    while !host.is_stopping() {
        problems.report("keys cannot be indexed; no more messages are taken", broker.store().index_staged());
        thread::park_timeout(INDEX_INTERVAL);
    }
}

fn deliver_delayed(broker: &Broker, host: &BrokerHost) {
    while !host.is_stopping() {
        let wait_ms = broker.delivery.deliver_due(clock::now());
        if wait_ms > 0 {
            thread::park_timeout(Duration::from_millis(wait_ms));
        }
    }
}

/// Ends leases whose time is over, so that whoever waits hears of it: no later than the steps in which they end.
fn end_leases(broker: &Broker, host: &BrokerHost) {
    while !host.is_stopping() {
        broker.end_what_is_over(clock::now());
        thread::park_timeout(LEASES_INTERVAL);
    }
}

fn keep_house(broker: &Broker, host: &BrokerHost, intervals: Intervals) {
    let log = broker.store().watermarks();
    let mut schedule = Schedule::new(intervals, log.durable(), clock::monotonic());
    let (mut disk_state, mut is_held) = (DiskState::default(), false);
    let mut problems = Problems::default();
    while !host.is_stopping() {
        for work in schedule.due(clock::monotonic(), log.written(), broker.is_unexported()) {
            // Not the time of before: the work before may have waited for the disk.
            let worked = broker.work(work, clock::now());
            match &worked {
                Ok(Worked::Retained(outcome)) => {
                    disk_state = report_retention(disk_state, *outcome);
                    is_held = report_held(is_held, outcome.is_held, broker);
                }
                Ok(Worked::Done) if work == Work::Checkpoint => schedule.note_checkpoint(),
                _ => {}
            }
            problems.report(problem(work), worked.map(drop));
        }
        thread::park_timeout(SEGMENT_INTERVAL);
    }
}

/// What is wrong if that fails.
const fn problem(work: Work) -> &'static str {
    match work {
        Work::PrepareSegment => "the next log segment cannot be prepared",
        Work::FlushEntries => "queue entries cannot be written",
        Work::Checkpoint => "no checkpoint can be written",
        Work::KeepChanges => "committed offsets cannot be put into the log",
        Work::SaveDocuments => "the documents of topics, groups or offsets cannot be written",
        Work::FinishRemovals => "the queues of a removed topic cannot be removed; no topic of its name can be made",
        Work::Expire => "members and locks cannot be looked after",
        Work::Retention => "old log segments cannot be removed",
    }
}

/// Logs removed segments and changes of the disk's state. Returns the new state.
fn report_retention(before: DiskState, outcome: RetentionOutcome) -> DiskState {
    let RetentionOutcome { removed, disk, disk_used_percent, .. } = outcome;
    if removed > 0 {
        tracing::info!(removed, "old log segments removed");
    }
    match disk {
        _ if disk == before => {}
        DiskState::Roomy => tracing::info!(disk_used_percent, "the disk has room again"),
        DiskState::Tight => tracing::warn!(
            disk_used_percent,
            "the disk is above retention.disk_used_percent: expired log segments are removed at any hour"
        ),
        DiskState::Short => tracing::warn!(
            disk_used_percent,
            "the disk is above retention.disk_force_percent: with retention.force_enabled the oldest log segments are removed before they expire"
        ),
        DiskState::Full => tracing::error!(
            disk_used_percent,
            "the disk is above retention.disk_refuse_percent: messages are refused until there is room; free space, or keep less with retention.age or retention.size"
        ),
    }
    disk
}

/// Logs whether old segments stay for messages that nobody has acknowledged, when that changes. Returns the new state.
fn report_held(before: bool, is_held: bool, broker: &Broker) -> bool {
    if is_held && !before {
        match broker.retention.keeper() {
            Some(Keeper::Group { topic, group }) => tracing::warn!(
                topic,
                group,
                "old log segments stay, since they have messages that this group has not acknowledged; let it consume, reset its offset, remove it, or set retention.keeps_unsettled to false"
            ),
            Some(Keeper::MessageQueue { virtual_host, queue }) => tracing::warn!(
                virtual_host,
                queue,
                "old log segments stay, since they have messages of this AMQP queue; let it be consumed, purge or delete it, or give such queues a limit (x-message-ttl, x-max-length-bytes)"
            ),
            None => {}
        }
    } else if before && !is_held {
        tracing::info!("no old log segment stays for messages that are not acknowledged any more");
    }
    is_held
}

/// Logs a problem when it appears and when it is over, not each time it is met.
#[derive(Default)]
struct Problems {
    known: HashSet<&'static str>,
}

impl Problems {
    fn report(&mut self, what: &'static str, outcome: Result<(), impl std::fmt::Display>) {
        match outcome {
            Err(error) if self.known.insert(what) => tracing::error!(%error, "{what}"),
            Ok(()) if self.known.remove(what) => tracing::info!("no longer so: {what}"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {

    use base::{QueueId, Timestamp, TopicName};
    use testkit::{at, broker_options, draft, store_options};

    use super::*;

    fn open(directory: &std::path::Path, host: &Arc<BrokerHost>) -> Arc<Broker> {
        let broker = testkit::open_broker(broker_options(), store_options(directory), host.clone(), at(1));
        Arc::new(broker.expect("the broker opens"))
    }

    /// Appends one message.
    fn stage(store: &Store) {
        let queue = store.queue(&TopicName::trusted("orders"), QueueId(0));
        let mut batch = store.begin_batch(1000);
        let draft = draft("orders", QueueId(0), b"little");
        testkit::push(store, &mut batch, &queue, &draft);
        store.append(batch, Timestamp(1000)).expect("appends");
    }

    #[test]
    fn a_thread_that_gives_way_leaves_the_writing_to_the_writer() {
        let directory = tempfile::tempdir().expect("directory");
        let host = Arc::new(BrokerHost::default());
        let broker = open(directory.path(), &host);
        let _ = host.broker.set(Arc::downgrade(&broker));
        stage(broker.store());
        assert!(host.is_written_here(), "a thread that somebody's answer waits for writes what is little");
        thread::scope(|scope| {
            scope.spawn(|| {
                give_way();
                stage(broker.store());
                assert!(!host.is_written_here());
                assert!(broker.store().staged_size() > 0);
            });
        });
    }
}
