//! One node: a broker over a disk, and what the server's threads do with it, each piece when the story says so.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use base::budget::Budget;
use base::metric::Metrics;
use base::offset::AckPolicy;
use broker::{Broker, Intervals, Schedule, Surroundings, WorkError};
use dialect::amqp::model_options;
use format::index_rules::IndexRules;
use storage::disk::{Disk, FaultyDisk};
use storage::schedule::{SyncSchedule, SyncStep};
use storage::{RetentionPolicy, StorageError};
use testkit::{broker_options, store_options};

use crate::host::SimHost;
use crate::story::Setup;

/// The node's data directory.
pub(crate) const DIRECTORY: &str = "/data";

/// How often the background does what.
const INTERVALS: Intervals =
    Intervals { flush_entries_ms: 1000, save_documents_ms: 5000, checkpoint_ms: 10_000, retention_ms: 10_000 };
const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// How long a sync takes, for those that are to wait for others.
const SYNC_TIME: Duration = Duration::from_millis(1);

/// A piece of what the server's background threads do (`server/src/background.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes what is staged.
    Write,
    /// Syncs the log.
    Sync,
    /// Indexes keys.
    IndexKeys,
    /// Publishes delayed messages that are due.
    DeliverDelayed,
    /// Ends leases whose time is over.
    EndLeases,
    /// What the broker's schedule names.
    Own(broker::Work),
}

impl Work {
    /// All there is but the end of leases, which the steps of those who pop name.
    pub const EVERYDAY: [Self; 12] = [
        Self::Write,
        Self::Sync,
        Self::IndexKeys,
        Self::DeliverDelayed,
        Self::Own(broker::Work::PrepareSegment),
        Self::Own(broker::Work::FlushEntries),
        Self::Own(broker::Work::Checkpoint),
        Self::Own(broker::Work::SaveDocuments),
        Self::Own(broker::Work::KeepChanges),
        Self::Own(broker::Work::FinishRemovals),
        Self::Own(broker::Work::Expire),
        Self::Own(broker::Work::Retention),
    ];
}

/// First offset and end of each queue, by topic and number.
pub(crate) type Bounds = BTreeMap<(String, u32), (u64, u64)>;

/// A node's part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Master,
    Slave,
}

/// A running node.
pub(crate) struct Node {
    pub(crate) broker: Arc<Broker>,
    pub(crate) host: Arc<SimHost>,
    pub(crate) budget: Arc<Budget>,
    schedule: Schedule,
    sync_schedule: SyncSchedule,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Node {
    /// Starts the node on what is on the disk.
    pub(crate) fn start(setup: &Setup, disk: &FaultyDisk, place: Place, now: Now) -> Result<Self, StorageError> {
        let replicated = place == Place::Master && setup.replica.is_some_and(|replica| replica.is_waited_for);
        let ack_policy = AckPolicy { durable: setup.sync_flush, replicated };
        let layout = match place {
            Place::Master => layout(setup, disk),
            Place::Slave => layout(setup, disk).following(),
        };
        let model = if setup.has_message_queues { model_options() } else { broker::ModelOptions::default() };
        let options = broker::Options { ack_policy, model, ..broker_options() };
        let host = SimHost::new(setup.rhythm);
        let surroundings =
            Surroundings { metrics: Arc::new(Metrics::default()), host: host.clone(), seed: setup.rhythm };
        let (broker, _) = Broker::open(options, layout, surroundings, now, &mut |_| ())?;
        let broker = Arc::new(broker);
        host.serve(&broker);
        let schedule = Schedule::new(INTERVALS, broker.store().watermarks().durable(), now.monotonic);
        let sync_schedule = SyncSchedule::new(SYNC_INTERVAL, Duration::from_millis(now.monotonic.0));
        Ok(Self { broker, host, budget: Arc::default(), schedule, sync_schedule })
    }

    /// What the server's threads do now, in some order: what their schedules say.
    pub(crate) fn due(&mut self, now: Now) -> Vec<Work> {
        let log = self.broker.store().watermarks();
        let own = self.schedule.due(now.monotonic, log.written(), self.broker.is_unexported());
        let waiting = self.broker.store().waiting_for_sync();
        let sync = match self.sync_schedule.next(waiting, Duration::from_millis(now.monotonic.0)) {
            SyncStep::Sync => Some(Work::Sync),
            SyncStep::Wait { .. } => None,
        };
        let before = [Work::Write, Work::IndexKeys, Work::DeliverDelayed, Work::EndLeases];
        before.into_iter().chain(sync).chain(own.into_iter().map(Work::Own)).collect()
    }

    /// Does one piece of the background's work.
    pub(crate) fn work(&mut self, work: Work, now: Now) -> Result<(), WorkError> {
        let (broker, store) = (&self.broker, self.broker.store());
        match work {
            Work::Write => drop(store.write_staged()?),
            Work::Sync => {
                let waiting = store.waiting_for_sync();
                store.sync()?;
                self.sync_schedule.note(waiting, store.waiting_for_sync(), SYNC_TIME);
            }
            Work::IndexKeys => store.index_staged()?,
            Work::DeliverDelayed => drop(self.host.give_way(|| broker.delivery.deliver_due(now))),
            Work::EndLeases => broker.end_what_is_over(now),
            Work::Own(own) => {
                broker.work(own, now)?;
                if own == broker::Work::Checkpoint {
                    self.schedule.note_checkpoint();
                }
            }
        }
        Ok(())
    }

    /// Where each queue begins and ends.
    pub(crate) fn bounds(&self) -> Bounds {
        let topics = self.broker.catalog.topics();
        let queues = topics.iter().flat_map(|topic| &topic.queues);
        queues
            .map(|queue| ((queue.topic().as_str().to_owned(), queue.id().0), (queue.first().0, queue.end().0)))
            .collect()
    }

    /// Where the log begins.
    pub(crate) fn log_first(&self) -> u64 {
        self.broker.store().log_first().0
    }

    /// Where what is written ends.
    pub(crate) fn log_end(&self) -> u64 {
        self.broker.store().watermarks().written().0
    }
}

fn layout(setup: &Setup, disk: &FaultyDisk) -> storage::Options {
    storage::Options {
        disk: Disk::new(disk.clone()),
        segment_size: setup.segment_size,
        queue_file_entries: setup.queue_file_entries,
        gathered_entries: setup.gathered_entries,
        open_queue_files: setup.open_queue_files,
        key_index_slots: 16,
        key_index_entries: setup.key_index_entries,
        recent_size: setup.recent_size,
        record_checksums: setup.record_checksums,
        index_rules: IndexRules::new(setup.delays_ms.to_vec()),
        retention: RetentionPolicy { size: setup.retention_size, ..RetentionPolicy::default() },
        ..store_options(Path::new(DIRECTORY))
    }
}
