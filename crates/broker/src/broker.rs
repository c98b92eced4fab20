//! The broker: the store with everything that gives its records a meaning.

mod kept;
mod system_topics;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::limits::STAGED_SIZE_MAX;
use base::metric::{Metrics, Timings};
use base::offset::AckPolicy;
use base::refused::RefusedRequests;
use base::{LogOffset, Now, QueueId, QueueOffset, Refusal, Timestamp, TopicName};
use parking_lot::Mutex;
use rand::RngExt;
use storage::{QueueIndex, Recovery, RecoveryProgress, StorageError, Store};

use crate::catalog::Catalog;
use crate::delay::Delay;
use crate::fetched::FetchedTable;
use crate::flow::Flow;
use crate::group::Groups;
use crate::lock::Locks;
use crate::offset::Offsets;
use crate::rate::Rates;
use crate::state::{OpenedState, StateLog, StateTables};

/// What a broker is called and allows.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Name of the broker.
    pub broker_name: String,
    /// Region, written into every message.
    pub region: String,
    /// Address written into every message; ids of messages are made of it.
    pub store_host: SocketAddr,
    /// Permission bits of the whole broker.
    pub permission: u32,
    /// Largest body, bytes.
    pub message_size_max: usize,
    /// What has to happen before a message is answered, unless its producer does not wait.
    pub ack_policy: AckPolicy,
    /// Whether topics are made on the first send.
    pub auto_create_topics: bool,
    /// Queues the template for such topics has.
    pub default_queues: u32,
    /// Whether groups are made on first use.
    pub auto_create_groups: bool,
    /// Whether there is a topic named as the cluster.
    pub cluster_topic: bool,
    /// Whether there is a topic named as the broker.
    pub broker_topic: bool,
    /// Whether there is a topic for traces, and its name.
    pub trace_topic: Option<String>,
    /// A client without a heartbeat for this long is gone, ms.
    pub client_expiry_ms: u64,
    /// Whether consumers are told that traces are wanted.
    pub trace_on: bool,
    /// A queue that begins this close to the log's end is read from its start by new groups, bytes.
    pub young_queue_size: u64,
}

/// How the broker asks its surroundings for work: the server's threads listen.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// Something was staged: the log has to be written.
    fn log_changed(&self);
    /// This many wait for a sync.
    fn sync_wanted(&self, waiting: usize);
    /// Topics were made or changed: name servers have to hear of it.
    fn topics_changed(&self);
    /// Waits until the name servers know of all topics, as far as they can be reached and answer soon.
    fn wait_until_announced(&self) {}
}

/// A broker over one store.
#[derive(Debug)]
pub struct Broker {
    options: Options,
    store: Arc<Store>,
    catalog: Catalog,
    metrics: Arc<Metrics>,
    refused: RefusedRequests,
    host: Arc<dyn Host>,
    /// Appended to every message's properties.
    stamp: Vec<u8>,
    random: Mutex<rand::rngs::SmallRng>,
    next_queue: AtomicU64,
    pub(crate) offsets: Offsets,
    pub(crate) groups: Groups,
    pub(crate) locks: Locks,
    pub(crate) delay: Delay,
    started: Now,
    pub(crate) rates: Mutex<Rates>,
    timings: Timings,
    pub(crate) flow: Mutex<Flow>,
    pub(crate) fetched: FetchedTable,
    pub(crate) exporting: Mutex<()>,
    pub(crate) state: Arc<StateLog>,
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
    /// Opens the store and the broker over it. `seed` drives what is random (the queue of messages that name none). Waits for the disk.
    pub fn open(
        options: Options,
        store: storage::Options,
        surroundings: Surroundings,
        now: Now,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        let Surroundings { metrics, host, seed } = surroundings;
        let (mut opened, store, recovery) = OpenedState::open_with_store(store, metrics.clone(), progress)?;
        let with_messages = store.topics();
        let foreign = opened.let_foreign_win(|topic| with_messages.contains_key(&TopicName::trusted(topic)));
        let (tables, offsets_version) = (opened.tables.clone(), opened.offsets_version);
        let store = Arc::new(store);
        let state = Arc::new(StateLog::new(store.clone(), host.clone(), options.store_host, opened));
        if !foreign.is_empty() {
            tracing::info!(
                changes = foreign.len(),
                "topics, groups or offsets were written by a RocketMQ broker; they are taken over"
            );
            tell_no_room("what they wrote", state.propose(foreign, now).map(drop))?;
        }
        let StateTables { offsets, delay, .. } = tables.clone();
        let catalog = Catalog::open(tables, state.clone(), metrics.clone(), now)?;
        let offsets = Offsets::open(offsets, offsets_version, &catalog);
        let delay = Delay::open(&delay, &catalog);
        let broker = Self {
            stamp: stamp(&options),
            random: Mutex::new(rand::SeedableRng::seed_from_u64(seed)),
            next_queue: AtomicU64::new(seed),
            catalog,
            offsets,
            delay,
            groups: Groups::default(),
            locks: Locks::default(),
            started: now,
            rates: Mutex::default(),
            timings: Timings::default(),
            flow: Mutex::default(),
            fetched: FetchedTable::default(),
            exporting: Mutex::default(),
            options,
            state,
            store,
            metrics,
            refused: RefusedRequests::default(),
            host,
        };
        broker.make_system_topics(now);
        // Before the first message comes: one that gets an offset which a group had passed would be skipped after the next crash.
        tell_no_room("topics, groups and offsets", broker.save(now))?;
        Ok((broker, recovery))
    }

    /// Its options.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its topics and groups.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Its figures.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Counts of requests it refused.
    pub const fn refused(&self) -> &RefusedRequests {
        &self.refused
    }

    /// Notes sends that were acknowledged `milliseconds` after they came.
    pub fn note_put_time(&self, milliseconds: u64, count: u64) {
        self.timings.publish.record(Duration::from_millis(milliseconds), count);
        self.metrics.publish_milliseconds_max.raise_to(milliseconds);
    }

    /// How long things took.
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// When it was started.
    pub const fn started(&self) -> Now {
        self.started
    }

    pub(crate) fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    pub(crate) fn log_changed(&self) {
        self.host.log_changed();
    }

    /// Topics were made or changed by an operation that does not wait for the disk.
    pub fn topics_changed(&self) {
        self.host.topics_changed();
    }

    /// An administrator made or changed topics: waits until clients that ask a name server find them as they are now.
    pub fn announce_topics(&self) {
        self.host.topics_changed();
        self.host.wait_until_announced();
    }

    /// A queue for a message that names none. The starting point is random, then they take turns.
    pub(crate) fn random_below(&self, count: u32) -> u32 {
        (self.next_queue.fetch_add(1, Ordering::Relaxed) % u64::from(count.max(1))) as u32
    }

    /// A random number, from the broker's seed.
    pub fn random(&self) -> u64 {
        self.random.lock().random()
    }

    /// Time and place of the last record that can be found by key.
    pub fn key_index_last(&self) -> (Timestamp, LogOffset) {
        self.store.key_index_last()
    }

    /// Whether publishers must wait: too much is staged and not yet written.
    pub fn is_behind(&self) -> bool {
        self.store.staged_size() >= STAGED_SIZE_MAX
    }

    /// Why nothing more can be stored, if that is so.
    pub fn poisoned(&self) -> Option<Refusal> {
        let reason = self.store.poisoned()?;
        Some(Refusal::Unavailable(StorageError::Poisoned(reason).to_string()))
    }

    /// Removes a topic with its queues and all offsets in it. Waits for the disk.
    pub fn remove_topic(&self, name: &str, now: Now) -> Result<(), Refusal> {
        if self.system_topics().iter().any(|system| system == name) {
            return Err(Refusal::ReservedTopic(name.to_owned()));
        }
        {
            let _one_at_a_time = self.catalog.removing.lock();
            if !self.catalog.take_topic(name, now)? {
                // Somebody else's removal may not be kept yet.
                return self.keep(now).map_err(internal);
            }
            self.topics_changed();
            self.forget_topic(name, now)?;
            let had_messages = |queue: &Arc<QueueIndex>| queue.appended_end() > QueueOffset(0);
            if self.store.queues_of(&TopicName::trusted(name)).iter().any(had_messages) {
                // First: after a power cut the topic must not be there without what its files had.
                self.store.sync_until(self.state.end()).map_err(internal)?;
            }
            self.remove_queues(name).map_err(|error| {
                Refusal::Internal(format!(
                    "topic [{name}] is removed, but not yet the files of its queues, which is tried again: {error}"
                ))
            })?;
        }
        self.keep(now).map_err(internal)
    }

    /// Removes the queues of a topic that was taken out. Its name is free only then: over files of before, its old messages
    /// would come back.
    fn remove_queues(&self, name: &str) -> Result<(), StorageError> {
        self.store.remove_topic(&TopicName::trusted(name))?;
        self.catalog.free_name(name);
        Ok(())
    }

    /// Tries again to remove what could not be removed of topics. Waits for the disk.
    pub fn finish_removals(&self) -> Result<(), StorageError> {
        if self.catalog.leaving().is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.catalog.removing.lock();
        // What a request has removed meanwhile is not in the list any more.
        self.catalog.leaving().iter().try_for_each(|name| self.remove_queues(name))
    }

    /// Removes queues of topics that are not there: those whose removal has failed, mostly. Waits for the disk.
    pub fn remove_unknown_topics(&self, now: Now) -> Result<(), Refusal> {
        self.finish_removals().map_err(internal)?;
        let _one_at_a_time = self.catalog.removing.lock();
        for (name, _) in self.store.topics() {
            let is_known = || name.is_light() || self.catalog.topic(name.as_str()).is_some();
            if is_known() || !self.catalog.hold_name(name.as_str()) {
                continue;
            }
            if is_known() {
                // Made since it was looked for.
                self.catalog.free_name(name.as_str());
            } else {
                self.catalog.note_unknown_removed(name.as_str(), now)?;
                self.remove_queues(name.as_str()).map_err(internal)?;
            }
        }
        Ok(())
    }

    /// Removes queues that their topic does not have any more, once retention has taken their last message; gives how many.
    /// Waits for the disk.
    pub fn remove_expired_queues(&self) -> Result<usize, Refusal> {
        let _one_at_a_time = self.catalog.removing.lock();
        let count_of = |name: &TopicName| self.catalog.topic(name.as_str()).map_or(0, |topic| topic.queues.len());
        let has_others = |name: &TopicName, count: u32| !name.is_light() && count as usize > count_of(name);
        // Meanwhile none of these topics gets queues anew.
        let mut held = HashSet::new();
        for (name, count) in self.store.topics() {
            if has_others(&name, count) && self.catalog.hold_name(name.as_str()) {
                held.insert(name);
            }
        }
        let is_used = |name: &TopicName, queue: QueueId| !held.contains(name) || (queue.0 as usize) < count_of(name);
        let removed = self.store.remove_expired_queues(is_used);
        held.iter().for_each(|name| self.catalog.free_name(name.as_str()));
        removed.map_err(internal)
    }

    /// Removes a group and, if asked to, its offsets. Waits for the disk.
    pub fn remove_group(&self, name: &str, forget_offsets: bool, now: Now) -> Result<(), Refusal> {
        self.catalog.remove_group(name, now)?;
        if forget_offsets {
            self.forget_group(name, now)?;
        }
        self.keep(now).map_err(internal)
    }

    /// Has every change of before kept: in the log, and on the disk where acknowledgements wait for that. Waits for the disk.
    pub fn keep(&self, now: Now) -> Result<(), StorageError> {
        self.offsets.keep(&self.state, now)?;
        let end = self.state.end();
        if self.options.ack_policy.durable {
            return self.store.sync_until(end);
        }
        while self.store.watermarks().written() < end {
            self.store.write_staged()?;
        }
        Ok(())
    }

    /// Puts the state, log, entries and keys on the disk and notes how far that goes, so that recovery begins there.
    pub fn checkpoint(&self, now: Now) -> Result<(), StorageError> {
        // On a full disk it is needed more than ever, and what the log has no room for waits in memory.
        let kept = self.offsets.keep(&self.state, now);
        kept.or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })?;
        self.state.save_snapshot(|| {
            [self.catalog.state_changes(), self.offsets.state_changes(), self.delay.state_changes()].concat()
        })?;
        self.store.checkpoint()
    }

    /// Housekeeping of what is only in memory; about once a second.
    pub fn expire(&self, now: Now) {
        self.rates.lock().sample(now, self.metrics.messages_in.get(), self.metrics.messages_out.get());
        self.sample_flow(now);
        self.expire_members(now);
        self.expire_locks(now);
    }

    /// Stops in good order.
    pub fn close(&self, now: Now) -> Result<(), StorageError> {
        self.save(now)?;
        self.checkpoint(now)?;
        self.store.close()
    }
}

/// A start goes on without room on the disk, to serve what there is.
fn tell_no_room(what: &str, written: Result<(), StorageError>) -> Result<(), StorageError> {
    match written {
        Err(error) if error.is_disk_full() => {
            tracing::error!(%error, "{what} cannot be written for lack of room; it is tried again");
            Ok(())
        }
        written => written,
    }
}

/// The properties every stored message gets.
fn stamp(options: &Options) -> Vec<u8> {
    use format::properties::{append, names};
    let mut stamp = Vec::new();
    append(&mut stamp, names::MESSAGE_REGION, &options.region);
    append(&mut stamp, names::TRACE_SWITCH, if options.trace_on { "true" } else { "false" });
    append(&mut stamp, names::CLUSTER, &options.cluster_name);
    stamp
}

/// A failure of the store, as the client hears of it.
pub(crate) fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal(error.to_string())
}
