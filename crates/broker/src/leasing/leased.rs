//! Messages that were leased and are to be read.

use base::QueueOffset;
use format::queue_entry::Entry;
use storage::{ReadMode, Records, StorageError, Store};

use crate::queue::Queue;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) offset: QueueOffset,
    pub(super) entry: Entry,
    pub(super) deliveries: u32,
}

/// The records of all.
pub(super) fn read(store: &Store, queue: &Queue, leased: &[Leased], mode: ReadMode) -> Result<Records, StorageError> {
    let entries: Vec<_> = leased.iter().map(|leased| (leased.offset, leased.entry)).collect();
    store.read(&queue.index, &entries, mode)
}

/// The record of one; `None` where it is damaged or gone.
pub(super) fn read_one(store: &Store, queue: &Queue, leased: Leased) -> Result<Option<Records>, StorageError> {
    let records = read(store, queue, &[leased], ReadMode::MayWait)?;
    Ok(Some(records).filter(|records| records.count() > 0))
}
