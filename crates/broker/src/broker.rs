//! The broker: its parts over one store, and what is done for all of them at once.

mod open;

use std::sync::Arc;
use std::time::Duration;

use base::metric::{Metrics, Timings};
use base::refused::RefusedRequests;
use base::{LogOffset, Now, QueueId, QueueOffset, Refusal};
use format::master_tables::MasterTables;
use format::state::StateChange;
use parking_lot::Mutex;
use rand::RngExt;
use storage::{StorageError, Store};

use crate::catalog::{Catalog, Topic};
use crate::copies::Copies;
use crate::cursor::fetched::FetchedTable;
use crate::cursor::lanes::Lanes;
use crate::cursor::offset::Offsets;
use crate::durability::Durability;
use crate::error::internal;
use crate::export::Exports;
use crate::fetch::Fetcher;
use crate::following::Following;
use crate::group::Groups;
use crate::group::lock::Locks;
use crate::host::Host;
use crate::leasing::Leasing;
use crate::lookup::Lookup;
use crate::model::Model;
use crate::model::message_queue::MessageQueue;
use crate::options::Options;
use crate::parked::delay::Delay;
use crate::parked::delivery::Delivery;
use crate::publish::{Message, Publisher};
use crate::removal::Removals;
use crate::request_modes::RequestModes;
use crate::retention::Retention;
use crate::retry::Retries;
use crate::routes::Routes;
use crate::running::{Running, RunningOptions};
use crate::schedule::{Work, WorkError, Worked};
use crate::snapshots::Snapshots;
use crate::state::StateLog;

/// A broker over one store.
#[derive(Debug)]
pub struct Broker {
    /// How safe records are.
    pub durability: Arc<Durability>,
    /// Topics and groups.
    pub catalog: Arc<Catalog>,
    /// Who is connected.
    pub groups: Arc<Groups>,
    /// Queues that are consumed in order.
    pub locks: Arc<Locks>,
    /// How far groups have come,
    pub offsets: Arc<Offsets>,
    /// what they have settled one by one,
    pub lanes: Arc<Lanes>,
    /// and how far they have fetched.
    pub fetched: Arc<FetchedTable>,
    /// How they ask for messages.
    pub request_modes: Arc<RequestModes>,
    /// The way of messages in,
    pub publisher: Arc<Publisher>,
    /// and out.
    pub fetcher: Fetcher,
    /// Single messages.
    pub lookup: Lookup,
    /// Delayed messages,
    pub delay: Arc<Delay>,
    /// and their delivery.
    pub delivery: Delivery,
    /// What consumers could not handle.
    pub retries: Arc<Retries>,
    /// Copies of messages that operators ask for.
    pub copies: Copies,
    /// Messages that are handed out one by one.
    pub leasing: Leasing,
    /// Topics, groups and queues that go,
    pub removals: Removals,
    /// and old messages.
    pub retention: Retention,
    /// Virtual hosts, their exchanges and message queues.
    pub model: Arc<Model>,
    /// Where queues are in the cluster.
    pub routes: Routes,
    /// What administrators are shown.
    pub snapshots: Snapshots,
    /// What comes from the master of a slave.
    pub following: Following,
    exports: Exports,
    options: Arc<Options>,
    /// What of them is different now.
    pub running: Arc<Running>,
    store: Arc<Store>,
    state: Arc<StateLog>,
    metrics: Arc<Metrics>,
    timings: Arc<Timings>,
    refused: RefusedRequests,
    random: Mutex<rand::rngs::SmallRng>,
    started: Now,
}

/// What a broker is opened among.
#[derive(Debug)]
pub struct Surroundings {
    /// Its figures.
    pub metrics: Arc<Metrics>,
    /// Who does the work it asks for.
    pub host: Arc<dyn Host>,
    /// Drives what is random.
    pub seed: u64,
}

impl Broker {
    /// Whether it is a slave: its log is its master's.
    pub fn follows(&self) -> bool {
        self.store.follows()
    }

    /// Has every change that is in the log by now on the disk. Waits for it.
    pub fn sync_state(&self) -> Result<(), Refusal> {
        self.store.sync_until(self.state.position()).map_err(internal)
    }

    /// What the log says below this is in the tables.
    pub fn state_position(&self) -> LogOffset {
        self.state.position()
    }

    /// The master of a slave knows of these by now, or has no use for them: topic, group, queue, offset. Waits for the disk.
    pub fn note_told<'a>(&self, told: impl Iterator<Item = (&'a str, &'a str, u32, i64)>) -> Result<(), Refusal> {
        self.following.note_told(told);
        self.exports.save_told().map_err(internal)
    }

    /// Has the tables of a slave as its master has them; see `Following`. Waits for the disk.
    pub fn take_tables(&self, tables: MasterTables, now: Now) -> Result<(), Refusal> {
        if self.following.take_tables(tables, &self.removals, &self.exports, now)? {
            self.checkpoint(now).map_err(internal)?;
        }
        Ok(())
    }

    /// What of the state no document tells, as changes of nothing, for a slave. All of it is in the log by then, or will be.
    pub fn undocumented(&self, now: Now) -> Result<Vec<StateChange>, Refusal> {
        self.offsets.keep_changes(now)?;
        Ok(self.lanes.state_changes().into_iter().chain(self.model.state_changes()).collect())
    }

    /// Whether a document lacks what an administrator has changed.
    pub fn is_unexported(&self) -> bool {
        self.catalog.is_unexported() || self.request_modes.is_unexported()
    }

    /// Changes what may change while it runs. Waits until clients that ask a name server hear of another permission.
    pub fn change(&self, options: &RunningOptions, now: Now) {
        let before = self.running.permission();
        self.running.change(options, now.wall);
        if before != self.running.permission() {
            self.catalog.announce();
        }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its figures.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Counts of requests it refused.
    pub const fn refused(&self) -> &RefusedRequests {
        &self.refused
    }

    /// How long things took.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// When it was started.
    pub const fn started(&self) -> Now {
        self.started
    }

    /// Notes sends that were acknowledged `milliseconds` after they came.
    pub fn note_put_time(&self, milliseconds: u64, count: u64) {
        self.timings.publish.record(Duration::from_millis(milliseconds), count);
        self.metrics.publish_milliseconds_max.raise_to(milliseconds);
    }

    /// A random number, from the broker's seed.
    pub fn random(&self) -> u64 {
        self.random.lock().random()
    }

    /// Settles all that is ready in a message queue, and tells the log; gives how many that were.
    pub fn purge(&self, queue: &MessageQueue, now: Now) -> Result<u64, Refusal> {
        let count = queue.purge();
        self.offsets.keep_changes(now)?;
        Ok(count)
    }

    /// Appends a message of an operator, and has it kept; gives its place. Waits for the disk.
    pub fn send(&self, topic: &Topic, message: &Message<'_>, now: Now) -> Result<(QueueId, QueueOffset), Refusal> {
        self.catalog.check_is_leader()?;
        let mut batch = self.publisher.begin_batch(message.body.len(), now);
        let queue = self.publisher.add(&mut batch, topic, message)?.queue;
        let published = self.publisher.append(batch, now)?;
        self.keep(now).map_err(internal)?;
        let place = published.positions(0..1).next().ok_or_else(|| internal("a message has no place"))?;
        Ok((queue, place.queue_offset))
    }

    /// Has every change and message of before kept: in the log, and on the disk where acknowledgements wait for that. Waits for the disk.
    pub fn keep(&self, now: Now) -> Result<(), StorageError> {
        self.offsets.keep(now)?;
        self.durability.keep_until(self.store.log_end())
    }

    /// Has every change of before kept, also in the documents that a foreign broker would read. Waits for the disk.
    pub fn save(&self, now: Now) -> Result<(), StorageError> {
        self.exports.save(now)?;
        if self.state.lacks_beside() { self.save_snapshot() } else { Ok(()) }
    }

    fn save_snapshot(&self) -> Result<(), StorageError> {
        self.state.save_snapshot(|| {
            let parts = [self.catalog.state_changes(), self.offsets.state_changes(), self.delay.state_changes()];
            [&parts[..], &[self.request_modes.state_changes(), self.model.state_changes()]].concat().concat()
        })
    }

    /// Puts the state, log, entries and keys on the disk and notes how far that goes, so that recovery begins there.
    pub fn checkpoint(&self, now: Now) -> Result<(), StorageError> {
        // On a full disk it is needed more than ever, and what the log has no room for waits in memory.
        let kept = self.offsets.keep(now);
        kept.or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })?;
        // First: a start meets what was settled at a slave with what the log tells behind the snapshot.
        self.exports.save_told()?;
        self.save_snapshot()?;
        self.store.checkpoint()
    }

    /// Ends leases, messages and queues that have lasted long enough. To be called often; waits for the disk where there is something to end.
    pub fn end_what_is_over(&self, now: Now) {
        self.lanes.expire(now.monotonic);
        if !self.follows() {
            self.model.sweep(now);
        }
    }

    /// Does a piece of its own work. `Schedule` says when which is due.
    pub fn work(&self, work: Work, now: Now) -> Result<Worked, WorkError> {
        match work {
            Work::PrepareSegment => self.store.prepare_next_segment()?,
            Work::FlushEntries => self.store.flush_entries()?,
            Work::Checkpoint => self.checkpoint(now)?,
            // The log would have to keep in memory what is there anyway.
            Work::KeepChanges if self.durability.is_behind() => {}
            Work::KeepChanges => drop(self.offsets.keep_changes(now)?),
            Work::SaveDocuments => self.save(now)?,
            Work::FinishRemovals => {
                self.removals.finish(now)?;
                if self.follows() {
                    self.following.remove_unknown_queues()?;
                } else {
                    self.model.finish_removals(now)?;
                }
            }
            Work::Expire => self.expire(now),
            Work::Retention => {
                return Ok(Worked::Retained(self.retention.apply(now)?));
            }
        }
        Ok(Worked::Done)
    }

    /// Housekeeping of what is only in memory; about once a second.
    pub fn expire(&self, now: Now) {
        self.snapshots.sample(now);
        self.groups.expire(now);
        self.locks.expire(now);
    }

    /// Stops in good order.
    pub fn close(&self, now: Now) -> Result<(), StorageError> {
        self.save(now)?;
        self.checkpoint(now)?;
        self.store.close()
    }
}
