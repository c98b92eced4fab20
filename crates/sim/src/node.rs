//! One node: a broker over a disk, and what the server's threads do with it, each piece when the story says so.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base::Now;
use base::budget::Budget;
use base::metric::Metrics;
use base::offset::AckPolicy;
use broker::{Broker, Surroundings};
use format::index_rules::IndexRules;
use storage::disk::{Disk, FaultyDisk};
use storage::{RetentionPolicy, StorageError};
use testkit::{broker_options, store_options};

use crate::host::SimHost;
use crate::story::Setup;

/// The node's data directory.
pub(crate) const DIRECTORY: &str = "/data";

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

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
    /// Makes the next segment.
    PrepareSegment,
    /// Writes entries of queues into files.
    FlushEntries,
    /// Makes a checkpoint.
    Checkpoint,
    /// Writes topics, groups and offsets.
    SaveDocuments,
    /// Writes the progress of delayed messages.
    KeepChanges,
    /// Removes what is left of removed topics.
    FinishRemovals,
    /// Looks after members and locks.
    Expire,
    /// Removes old segments.
    Retention,
}

impl Work {
    /// All there is.
    pub const ALL: [Self; 12] = [
        Self::Write,
        Self::Sync,
        Self::IndexKeys,
        Self::DeliverDelayed,
        Self::PrepareSegment,
        Self::FlushEntries,
        Self::Checkpoint,
        Self::SaveDocuments,
        Self::KeepChanges,
        Self::FinishRemovals,
        Self::Expire,
        Self::Retention,
    ];
}

/// First offset and end of each queue, by topic and number.
pub(crate) type Bounds = BTreeMap<(String, u32), (u64, u64)>;

/// A running node.
pub(crate) struct Node {
    pub(crate) broker: Arc<Broker>,
    pub(crate) host: Arc<SimHost>,
    pub(crate) budget: Arc<Budget>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Node {
    /// Starts the node on what is on the disk.
    pub(crate) fn start(setup: &Setup, disk: &FaultyDisk, now: Now) -> Result<Self, StorageError> {
        let ack_policy = AckPolicy { durable: setup.sync_flush, ..AckPolicy::WRITTEN };
        let options = broker::Options { ack_policy, ..broker_options() };
        let host = SimHost::new(setup.rhythm);
        let surroundings =
            Surroundings { metrics: Arc::new(Metrics::default()), host: host.clone(), seed: setup.rhythm };
        let (broker, _) = Broker::open(options, layout(setup, disk), surroundings, now, &mut |_| ())?;
        let broker = Arc::new(broker);
        host.serve(&broker);
        Ok(Self { broker, host, budget: Arc::default() })
    }

    /// Does one piece of the background's work.
    pub(crate) fn work(&self, work: Work, now: Now) -> Result<(), StorageError> {
        let (broker, store) = (&self.broker, self.broker.store());
        match work {
            Work::Write => store.write_staged().map(|_| ()),
            Work::Sync => store.sync().map(|_| ()),
            Work::IndexKeys => store.index_staged(),
            Work::DeliverDelayed => {
                self.host.give_way(|| broker.delivery.deliver_due(now));
                Ok(())
            }
            Work::PrepareSegment => store.prepare_next_segment(),
            Work::FlushEntries => store.flush_entries(),
            Work::Checkpoint => broker.checkpoint(now),
            Work::SaveDocuments => {
                self.host.take_topics_unsaved();
                broker.save(now)
            }
            Work::KeepChanges => broker
                .offsets
                .keep_changes(now)
                .map(drop)
                .map_err(|refusal| StorageError::DiskFull(refusal.to_string())),
            Work::FinishRemovals => {
                broker.removals.finish(now).map_err(|refusal| StorageError::DiskFull(refusal.to_string()))
            }
            Work::Expire => {
                broker.expire(now);
                Ok(())
            }
            Work::Retention => {
                let hour_of_day = (now.wall.0 / HOUR_MS % 24) as u8;
                store.apply_retention(now.wall, hour_of_day).map(|_| ())
            }
        }
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
